"""`farthing logs`: the output of a trial."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farthing.cli.options import open_study, study_argument
from farthing.running import open_log

if TYPE_CHECKING:
    from farthing.history import Trial
    from farthing.study import Study

__all__ = ["logs"]

# Control characters, except tabs and line ends; also those that UTF-8 writes as two bytes.
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")
CHUNK = 1 << 16  # bytes read at once
POLL = 0.2  # seconds between two checks for new output
NOTHING_FOUND = 1  # exit code


@click.command()
@click.argument("number", type=int)
@study_argument
@click.option("-f", "--follow", is_flag=True, help="Print new output until the trial has ended.")
def logs(number: int, storage: str | None, name: str | None, follow: bool) -> int:
    """Print the output of trial NUMBER (stdout and stderr).

    The worker of the trial writes the output to a file. The command first prints the path of that
    file. It reads the file only if you own it and it is in the study's log folder.

    For a trial that ran on another machine, the command prints only the last lines, after the trial
    has ended.
    """
    study = open_study(storage, name)
    try:
        trial = study.trial(number)
        path = study.log_of(number)
        if path is None:
            return _print_last_lines(trial, study.logs)
        click.echo(f"{path}:", err=True)
        _print(study, number, path, follow=follow)
        return 0
    finally:
        study.close()


def _print(study: Study, number: int, path: Path, *, follow: bool) -> None:
    """Print the file; with `follow`, also what the trial still writes to it."""
    out = sys.stdout.buffer
    with open_log(path) as file:
        while True:
            running = follow and study.trial(number).state == "running"
            if path.stat().st_size < file.tell():  # the file was cut in its middle
                file.seek(0, 2)
            while data := file.read(CHUNK):
                out.write(_shown(data))
            out.flush()
            if not running:
                return
            time.sleep(POLL)


def _print_last_lines(trial: Trial, folder: Path) -> int:
    """Print the stored last lines of a trial whose file cannot be read here; the exit code."""
    run = trial.run
    host = (run.worker or "").rpartition(":")[0]
    on_host = f" on {host}" if host not in ("", socket.gethostname()) else ""
    path = run.log or str(folder / f"{trial.number}.log")
    if not on_host and os.path.lexists(path.replace("\0", "")):
        click.echo(
            f"{path} is not read: expected a regular file that you own, {trial.number}.log in a "
            f"folder of {folder.parent}. A database can name any file, so open it yourself if you "
            "know it.",
            err=True,
        )
    elif run.log is not None:
        place = f"is in {run.log}{on_host}" if on_host else f"was in {run.log}, which is missing"
        click.echo(f"The output of trial {trial.number} {place}.", err=True)
    else:
        click.echo(f"The output of trial {trial.number} was not kept.", err=True)
    if run.tail is None:
        return NOTHING_FOUND
    click.echo("Its last lines:", err=True)
    click.echo(_shown(run.tail.encode("utf-8", "replace")).decode("utf-8", "replace"))
    return 0


def _shown(data: bytes) -> bytes:
    """Output as a terminal may get it: it must not execute control sequences of a trial."""
    return CONTROL.sub(_caret, data) if sys.stdout.isatty() else data


def _caret(match: re.Match[bytes]) -> bytes:
    return b"^" + bytes([match[0][-1] & 0x7F ^ 0x40])
