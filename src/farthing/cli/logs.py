"""`farthing logs`: what a trial printed."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farthing.cli.options import open_study, where
from farthing.running import open_log

if TYPE_CHECKING:
    from farthing.history import Trial
    from farthing.study import Study

__all__ = ["logs"]

CHUNK = 1 << 16  # bytes read at once
POLL = 0.2  # seconds between looks whether there is more
NOTHING = 1


@click.command()
@click.argument("number", type=int)
@where
@click.option("-f", "--follow", is_flag=True, help="Go on until the trial has ended.")
def logs(number: int, storage: str | None, name: str | None, follow: bool) -> int:
    """Print what trial NUMBER has printed, stdout and stderr.

    It is read from the file that its worker writes, whose path is shown first, if that is yours and
    in the study's folder of logs; from another machine only the last lines can be seen, and only
    once the trial has ended.
    """
    study = open_study(storage, name)
    try:
        trial = study.trial(number)
        path = study.log_of(number)
        if path is None:
            return _last_lines(trial, study.logs)
        click.echo(f"{path}:", err=True)
        _print(study, number, path, follow=follow)
        return 0
    finally:
        study.close()


def _print(study: Study, number: int, path: Path, *, follow: bool) -> None:
    """The file, and what is still written to it."""
    out = sys.stdout.buffer
    with open_log(path) as file:
        while True:
            running = follow and study.trial(number).state == "running"
            if path.stat().st_size < file.tell():  # its middle was left out since
                file.seek(0, 2)
            while data := file.read(CHUNK):
                out.write(data)
            out.flush()
            if not running:
                return
            time.sleep(POLL)


def _last_lines(trial: Trial, folder: Path) -> int:
    """What is known here of a trial whose file is not, or is not read."""
    run = trial.run
    host = (run.worker or "").rpartition(":")[0]
    elsewhere = f" on {host}" if host not in ("", socket.gethostname()) else ""
    path = run.log or str(folder / f"{trial.number}.log")
    if not elsewhere and os.path.lexists(path.replace("\0", "")):
        click.echo(
            f"{path} is not read: expected a regular file of yours, {trial.number}.log in a folder "
            f"of {folder.parent}. A database can name any file; open it yourself if you know it.",
            err=True,
        )
    elif run.log is not None:
        place = f"is in {run.log}{elsewhere}" if elsewhere else f"was in {run.log}, which is gone"
        click.echo(f"What trial {trial.number} printed {place}.", err=True)
    else:
        click.echo(f"Nothing that trial {trial.number} printed was kept.", err=True)
    if run.tail is None:
        return NOTHING
    click.echo("Its last lines:", err=True)
    click.echo(run.tail)
    return 0
