"""What a worker could not tell because its database did not answer: kept on its own disk.

The next run of the study on this machine tells it. The files are the owner's only, and hold what
the database would: no passwords, no code.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from farthing.core.events import Told
from farthing.errors import StorageError
from farthing.history import History, Trial
from farthing.storage.json_text import from_text, to_text

__all__ = ["folder_of", "keep", "kept", "kept_meanwhile", "tell_kept"]


def folder_of(place: str, name: str, kind: str = "untold") -> Path:
    """Where the results of a study are kept that could not be told; or, of another kind, what else
    this machine remembers of it.
    """
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    study = hashlib.sha256(f"{place}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return Path(base) / "farthing" / kind / study[:32]


def keep(folder: Path, told: Told) -> Path:
    """Write down what became of a trial; it is on the disk when this returns.

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
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / f"{trial.number}-{trial.run.seed}.json"
    new = file.with_suffix(f".{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as out:
        out.write(to_text(facts))
        out.flush()
        os.fsync(descriptor)
    new.replace(file)
    return file


def kept(folder: Path) -> list[tuple[Path, Told, tuple[float, int]]]:
    """What was not told yet: the file, the event by the number of its trial, and when and with
    which seed that was asked; a file that cannot be read is left alone.
    """
    found = []
    for file in sorted(folder.glob("*.json")):
        try:
            facts = from_text(file.read_text(encoding="utf-8"))
            asked_at, seed = facts.pop("asked")
            found.append((file, Told(**facts), (asked_at, seed)))
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            continue
    return found


@contextmanager
def kept_meanwhile(folder: Path, told: Told, error: StorageError) -> Iterator[None]:
    """What became of a trial is on the disk while it is told again, and after that if in vain."""
    try:
        file = keep(folder, told)
    except OSError as worse:
        raise StorageError(f"{error} Nor can the result be kept here: {worse}.") from error
    yield
    file.unlink(missing_ok=True)


def tell_kept(folder: Path, history: History, tell: Callable[[Told], None]) -> None:
    """Tell what was not told yet; what is of another trial than the history has is forgotten."""
    for file, told, asked in kept(folder):
        assert isinstance(told.trial, int)
        trial = history[told.trial] if told.trial < len(history) else None
        if trial is not None and (trial.run.asked_at, trial.run.seed) == asked:
            tell(told)
        file.unlink(missing_ok=True)
