"""The checkpoint folders of a study: one per training, deleted if they need too much space.

A trial first gives up its checkpoint in the state of the study, and only then the folder is
deleted. If the worker dies between, the next one finds the folder and deletes it. A training that
starts again has a new folder, so a late deletion cannot harm it.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from farthing.core.checkpoint_order import checkpoints_to_delete
from farthing.core.events import CheckpointsDeleted
from farthing.core.settings import Settings
from farthing.errors import StorageError
from farthing.history import History, Trial
from farthing.optimizer import Optimizer
from farthing.steps import Steps

__all__ = ["checkpoint_folder", "delete_checkpoints", "lacking", "say_that_it_begins_again"]

_said: set[Path] = set()  # folders about which `lacking` has said something
_begins_again: set[Path] = set()  # folders about which `say_that_it_begins_again` has


def checkpoint_folder(checkpoints: Path, trial: Trial) -> Path:
    """The folder for the checkpoint of a trial: `12`, or `12.1` after the first was deleted."""
    deleted = trial.checkpoint_folder
    return checkpoints / (f"{trial.number}.{deleted}" if deleted else str(trial.number))


def lacking(checkpoints: Path | None, steps: Steps | None, history: History) -> frozenset[int]:
    """The paused trainings whose checkpoints are not here: this worker does not resume them.

    A line on stderr says so once for each folder.
    """
    if checkpoints is None or steps is None or not steps.has_checkpoints:
        return frozenset()
    paused = [
        trial  # the others begin again, or their user has kept the checkpoint
        for trial in history.having("paused")
        if trial.run.worker is not None and not trial.starts_again
    ]
    there = {folder for _, _, folder in _folders(checkpoints)} if paused else set()
    found = [t.number for t in paused if checkpoint_folder(checkpoints, t) not in there]
    if found and checkpoints not in _said:
        _said.add(checkpoints)
        print(
            f"The checkpoints of paused trainings (trial {found[0]}, ...) are not in "
            f"{checkpoints.absolute()}: they were moved, or are on another machine. This worker "
            "does not resume these trainings. Give all machines the same folder, logs=...",
            file=sys.stderr,
            flush=True,
        )
    return frozenset(found)


def say_that_it_begins_again(checkpoints: Path | None, trial: Trial, step: int) -> None:
    """Say once on stderr that a resumed training reports a step before its checkpoint."""
    if checkpoints is None or step >= trial.run.since or checkpoints in _begins_again:
        return
    _begins_again.add(checkpoints)
    print(
        f"Trial {trial.number} was resumed at step {trial.run.since}, but it has reported step "
        f"{step} again: it does not read its checkpoint, and pays for these steps twice. Load the "
        "checkpoint from trial.checkpoint, in a program from the folder FARTHING_CHECKPOINT. If "
        "there is none, choose resume='suspend' or 'never' (--resume).",
        file=sys.stderr,
        flush=True,
    )


def delete_checkpoints(optimizer: Optimizer, settings: Settings, checkpoints: Path | None) -> None:
    """Delete the checkpoints that are needed least, until the others fit into the limit.

    If the database does not answer, nothing is deleted before the next part of a training.
    """
    most = None if settings.steps is None else settings.steps.checkpoint_bytes
    if most is None or checkpoints is None:
        return
    history = optimizer.seen.history
    _delete_given_up(checkpoints, history)
    folders = {number: folder for number, _, folder in _folders(checkpoints)}
    sizes = {number: _bytes_in(folder) for number, folder in folders.items()}
    numbers = checkpoints_to_delete(settings, history, sizes, most)
    if not numbers:
        return
    try:
        optimizer.commit(CheckpointsDeleted(tuple(numbers)))
    except StorageError:
        return
    _delete_given_up(checkpoints, optimizer.seen.history)


def _folders(checkpoints: Path) -> list[tuple[int, int, Path]]:
    """(number of the trial, how often its checkpoint was deleted before, folder) of each folder."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(checkpoints):
            number, _, deleted = entry.name.partition(".")
            if number.isdecimal() and (deleted or "0").isdecimal() and entry.is_dir():
                found.append((int(number), int(deleted or "0"), Path(entry.path)))
    return found


def _delete_given_up(checkpoints: Path, history: History) -> None:
    """Delete the folders of checkpoints that their trials have given up; twice is harmless."""
    for number, deleted, folder in _folders(checkpoints):
        if number < len(history) and deleted < history[number].checkpoint_folder:
            shutil.rmtree(folder, ignore_errors=True)


def _bytes_in(folder: Path) -> int:
    """The size of all files in a folder. Files that disappear meanwhile do not count."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total
