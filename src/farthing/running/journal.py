"""The journal of a part: what it has reported, on the disk before anything else happens with it.

A worker stores the curve of a running part once a tick. If it is killed in between, the values
since then are in the journal only. The next worker that uses the same folder adds them to the curve
(see `recovery`) and deletes the file.

    <logs>/reports/<number of the trial>-<when the part was asked>.jsonl

A Python function that takes its training writes its journal itself, before `report` returns. For
other trainings, the worker writes each message as soon as it has read it; if the worker dies, the
supervisor adds what is left in the pipe. A journal survives the death of every process, but not a
power cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from farthing.history import Trial
from farthing.running.finished import Usage
from farthing.running.output import costs_of, message_in, number_of

__all__ = ["append", "journal_of", "journals_in", "messages_in", "with_usage"]

FOLDER = "reports"  # in the folder of the logs
WALL, CPU = "farthing.wall_s", "farthing.cpu_s"  # keys of a message: the usage at that time


def journal_of(logs: Path, trial: Trial) -> Path:
    """The journal of the part that a trial runs."""
    return logs / FOLDER / f"{trial.number}-{trial.run.asked_at!r}.jsonl"


def with_usage(message: Mapping[str, Any], wall_s: float, cpu_s: float) -> dict[str, Any]:
    """A message with what its part had used until then."""
    return {**message, WALL: wall_s, CPU: cpu_s}


def append(journal: Path, messages: Iterable[Mapping[str, Any]]) -> None:
    """Add messages with one write. Without the folder, on another machine, there is no journal."""
    text = "".join(f"{json.dumps(message, default=float)}\n" for message in messages)
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(journal, flags, 0o600)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)


def journals_in(logs: Path) -> list[tuple[int, float, Path]]:
    """(number of the trial, when the part was asked, file) of each journal of a study."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(logs / FOLDER):
            number, _, rest = entry.name.removesuffix(".jsonl").partition("-")
            with suppress(ValueError):
                if entry.is_file(follow_symlinks=False):
                    found.append((int(number), float(rest), Path(entry.path)))
    return found


def messages_in(file: Path) -> list[tuple[Mapping[str, Any], Usage]]:
    """The messages of a journal with the usage at that time.

    What the supervisor added has no usage: that of the message before counts.
    """
    found = list[tuple[Mapping[str, Any], Usage]]()
    reported, wall_s, cpu_s = dict[str, float](), 0.0, 0.0
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError:  # another worker has just deleted it
        return []
    for line in lines:
        message = message_in(line.strip())
        if message is None or "step" not in message:
            continue
        wall_s = number_of(message.get(WALL)) or wall_s
        cpu_s = number_of(message.get(CPU)) or cpu_s
        with suppress(ValueError):
            reported |= costs_of(message.get("cost"))
        found.append((message, Usage(wall_s, cpu_s, 0.0, dict(reported))))
    return found
