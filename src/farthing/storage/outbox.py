"""Results that a worker could not report because its database did not answer.

They wait in files on the worker's disk, and the next run of the study on this machine reports them.
Only the owner can read the files. They contain what the database would, no passwords and no code.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farthing.core.events import Told
from farthing.errors import InvalidInput, StorageError, Unreachable
from farthing.history import CurvePoint, History, Trial
from farthing.storage.json_text import from_text, to_text

__all__ = ["Outbox", "state_folder"]

# What earlier versions wrote is still read: their folder, and their names {old: current}.
OLD_KIND = "untold"
OLD_KEYS = {"certain": "by_user"}
OLD_RUN_KEYS = {"progress": "reports"}

Commit = Callable[[Told], None]
Look = Callable[[], History]


def state_folder(location: str, name: str, kind: str) -> Path:
    """Where this machine keeps files of one kind for a study.

    Args:
        location: of the database, see `Database.location`.
        name: of the study, or its id.
        kind: "outbox" or "ask_locks".
    """
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    study = hashlib.sha256(f"{location}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return Path(base) / "farthing" / kind / study[:32]


@dataclass(frozen=True)
class Outbox:
    """The results of one study that wait on this machine.

    Attributes:
        folder: where results are written, and read.
        old_folder: where earlier versions wrote them; they are read only.
    """

    folder: Path
    old_folder: Path

    @classmethod
    def of(cls, location: str, name: str) -> Outbox:
        """The outbox of a study in a database."""
        kinds = "outbox", OLD_KIND
        return cls(*(state_folder(location, name, kind) for kind in kinds))

    def retry(self, told: Told, commit: Commit, look: Look, error: StorageError) -> None:
        """Report a result again after `error`; it is on the disk until the database has it.

        Raises:
            Unreachable: the database still does not answer. The result stays on the disk.
            StorageError: the result cannot be written to the disk either.
        """
        try:
            file = self.save(told)
        except OSError as disk:
            raise StorageError(
                f"{error} The result cannot be saved on this machine either ({disk})."
            ) from error
        _commit_once(told, commit, look)
        file.unlink(missing_ok=True)

    def report_all(self, commit: Commit, look: Look) -> None:
        """Report every saved result, and delete its file.

        A result of a trial that the study does not have is deleted without a report.
        """
        for file, told, started in self._saved():
            assert isinstance(told.trial, int)
            history = look()
            trial = history[told.trial] if told.trial < len(history) else None
            if trial is not None and (trial.run.asked_at, trial.run.seed) == started:
                _commit_once(told, commit, look)
            file.unlink(missing_ok=True)

    def save(self, told: Told) -> Path:
        """Write a result to a file; it is on the disk when this returns.

        Raises:
            OSError: it could not be written.
        """
        assert isinstance(told.trial, Trial)
        trial = told.trial
        facts = {
            **told._asdict(),
            "trial": trial.number,
            "asked": [trial.run.asked_at, trial.run.seed],
        }
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self.folder / f"{trial.number}-{trial.run.seed}.json"
        new = file.with_suffix(f".{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(to_text(facts))
            out.flush()
            os.fsync(descriptor)
        new.replace(file)
        return file

    def _saved(self) -> list[tuple[Path, Told, tuple[float, int]]]:
        """Each file with its event, which names the trial by number, and with when and with which
        seed that trial started. Files that cannot be read are left alone.
        """
        found = []
        for file in (*sorted(self.old_folder.glob("*.json")), *sorted(self.folder.glob("*.json"))):
            try:
                facts = _renamed(from_text(file.read_text(encoding="utf-8")), OLD_KEYS)
                facts["run"] = _renamed(facts["run"], OLD_RUN_KEYS)
                facts["curve"] = tuple(CurvePoint(*point) for point in facts.get("curve", ()))
                asked_at, seed = facts.pop("asked")
                found.append((file, Told(**facts), (asked_at, seed)))
            except (AttributeError, OSError, ValueError, TypeError, LookupError, RecursionError):
                continue
        return found


def _renamed(entries: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in entries.items()}


def _commit_once(told: Told, commit: Commit, look: Look) -> None:
    """Report a result that the database may already have, because only its answer was lost."""
    number = told.trial.number if isinstance(told.trial, Trial) else told.trial
    try:
        commit(told)
    except InvalidInput:
        if look()[number].state in ("running", "lost"):
            raise
    except Unreachable as error:
        raise Unreachable(
            f"{error} The result of trial {number} is saved on this machine. The next run of the "
            "study here reports it."
        ) from error
