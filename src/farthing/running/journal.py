"""What an evaluation has reported and how it ended, on the disk before anything else happens.

A worker stores an outcome after the evaluation has ended, and the curve of a running part once a
tick. If it is killed before that, two files have the rest. The next worker that uses the same
folder reports it (see `recovery`) and deletes the files.

    <logs>/reports/<number of the trial>-<when it, or its part, was asked>.jsonl    the journal
    <logs>/reports/<the same>.ended                                                 the ending

The journal has the messages. The worker reads a pipe, writes what it found into the journal, and
only then empties the pipe. A Python function that takes its training writes its reports itself,
before `report` returns. The supervisor writes the ending, with what is left in the pipe, as soon as
the evaluation has ended, and reaps it only then: an evaluation that no longer exists has an ending.
A journal survives the death of every process, an ending a power cut too.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from farthing.history import Trial
from farthing.running.finished import Finished, Usage
from farthing.running.output import Messages, costs_of, message_in, number_of
from farthing.running.result import ended

__all__ = [
    "BEFORE",
    "Journal",
    "amend_ending",
    "append",
    "delete_journal",
    "journal_of",
    "journals_in",
    "read_journal",
    "rewrite",
    "save_ending",
    "since",
    "with_usage",
]

FOLDER = "reports"  # in the folder of the logs
ENDED = ".ended"
# What is deleted. Not the new ending: a supervisor may be writing it. A kill may leave it behind.
SUFFIXES = (".jsonl", ENDED, ".new")
WALL, CPU = "farthing.wall_s", "farthing.cpu_s"  # keys of a message: the usage at that time
BEFORE = "farthing.before"  # key of a message: the cost that earlier parts of the process reported
MAX_PARTIAL = 1 << 16  # bytes of an incomplete line that are worth writing
PRIVATE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Journal(NamedTuple):
    """What a journal and its ending contain.

    Attributes:
        messages: the progress with the usage at that time. The last messages may lack it; then that
            of the message before counts.
        finished: the result if the evaluation ended by itself; None if it did not.
    """

    messages: list[tuple[Mapping[str, Any], Usage]]
    finished: Finished | None


def journal_of(logs: Path, trial: Trial) -> Path:
    """The journal of a trial, or of the part that it runs."""
    return logs / FOLDER / f"{trial.number}-{trial.run.asked_at!r}.jsonl"


def with_usage(message: Mapping[str, Any], wall_s: float, cpu_s: float) -> dict[str, Any]:
    """A message with what its part had used until then."""
    return {**message, WALL: wall_s, CPU: cpu_s}


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def append(journal: Path, messages: Iterable[Mapping[str, Any]], partial: bytes = b"") -> None:
    """Add messages with one write. Without the folder, on another machine, there is no journal.

    Args:
        partial: the start of a line. The rest may follow in the ending.
    """
    with suppress(OSError):
        _write(journal, os.O_CREAT | os.O_APPEND, _lines(messages, partial))


def rewrite(journal: Path, messages: Iterable[Mapping[str, Any]], partial: bytes = b"") -> None:
    """Replace the journal by these messages, so that it stays small."""
    new = journal.with_suffix(".new")
    with suppress(OSError):
        _write(new, os.O_CREAT | os.O_TRUNC, _lines(messages, partial))
        new.replace(journal)


def save_ending(journal: str, ending: Mapping[str, Any], unread: bytes) -> None:
    """Write how an evaluation ended; it is on the disk when this returns.

    Args:
        ending: arguments of `ended` and `Usage`, and the metric.
        unread: what the worker has not read of its messages.
    """
    record = {**ending, "unread": base64.b64encode(unread).decode()}
    name = journal.removesuffix(".jsonl") + ENDED
    with suppress(OSError):
        new = f"{json.dumps(record)}\n".encode()
        _write(Path(name + ".new"), os.O_CREAT | os.O_TRUNC, new, sync=True)
        os.replace(name + ".new", name)


def amend_ending(journal: str, facts: Mapping[str, Any]) -> None:
    """Add facts to an ending if it still exists. A power cut may take them, but not the ending."""
    name = journal.removesuffix(".jsonl") + ENDED
    with suppress(OSError):
        _write(Path(name), os.O_APPEND, f"{json.dumps(facts)}\n".encode())


def delete_journal(journal: Path | None) -> None:
    """Delete a journal and its ending, if there are any."""
    if journal is None:
        return
    for suffix in SUFFIXES:
        with suppress(OSError):
            journal.with_suffix(suffix).unlink(missing_ok=True)


def _lines(messages: Iterable[Mapping[str, Any]], partial: bytes) -> bytes:
    text = "".join(f"{json.dumps(message, default=float)}\n" for message in messages)
    # A message before this one may be incomplete, so it begins a line.
    return b"\n" + text.encode() + (partial if len(partial) <= MAX_PARTIAL else b"")


def _write(file: Path, flag: int, data: bytes, *, sync: bool = False) -> None:
    descriptor = os.open(file, PRIVATE | flag, 0o600)
    try:
        os.write(descriptor, data)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def journals_in(logs: Path) -> list[tuple[int, float, Path]]:
    """(number of the trial, when it or its part was asked, file) of each journal of a study."""
    found = set()
    with suppress(OSError):
        for entry in os.listdir(logs / FOLDER):
            name = next((entry.removesuffix(s) for s in SUFFIXES if entry.endswith(s)), "")
            number, _, asked_at = name.partition("-")
            with suppress(ValueError):
                found.add((int(number), float(asked_at), logs / FOLDER / f"{name}.jsonl"))
    return sorted(found)


def read_journal(file: Path) -> Journal:
    """The contents of a journal and its ending; nothing if another worker has just deleted it."""
    ending = dict[str, Any]()
    for line in _bytes(file.with_suffix(ENDED)).splitlines():
        ending |= message_in(line) or {}
    unread = base64.b64decode(ending.get("unread", ""))
    # What was left in the pipe completes a line that the worker had begun to read, or repeats it.
    lines = b"\n".join((_bytes(file) + unread, unread, b""))
    found = list[tuple[Mapping[str, Any], Usage]]()
    reported, before, wall_s, cpu_s = dict[str, float](), dict[str, float](), 0.0, 0.0
    for message in filter(None, map(message_in, map(bytes.strip, lines.split(b"\n")))):
        with suppress(ValueError):
            before |= costs_of(message.get(BEFORE))
            reported |= since(costs_of(message.get("cost")) if "step" in message else {}, before)
        wall_s = number_of(message.get(WALL)) or wall_s
        cpu_s = number_of(message.get(CPU)) or cpu_s
        if "step" in message:
            found.append((message, Usage(wall_s, cpu_s, 0.0, dict(reported))))
    if "reason" not in ending or ending["reason"] is not None:
        return Journal(found, None)
    messages = Messages(ending["metric"])
    messages.feed(lines)
    usage = Usage(max(wall_s, ending["wall_s"]), ending["cpu_s"], ending["peak_mb"], reported)
    result = ended(messages, usage, status=ending["status"], result_file=ending["result_file"])
    return Journal(found, replace(result, cost=since(result.cost, before)))


def _bytes(file: Path) -> bytes:
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
            return opened.read()
    except OSError:
        return b""


def since(cost: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """What of a reported cost belongs to this part: a suspended training goes on counting."""
    return {r: max(amount - before.get(r, 0.0), 0.0) for r, amount in cost.items()}
