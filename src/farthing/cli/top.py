"""`farthing top`: the live view of a study that is running, also from another terminal."""

from __future__ import annotations

import click

from farthing.cli.options import open_study, study_argument
from farthing.cli.watch import watch

__all__ = ["top"]


@click.command()
@study_argument
def top(storage: str | None, name: str | None) -> None:
    """Watch a running study.

    This shows its budget, its best value, and the running and latest trials, until the study has
    stopped. Ctrl-C ends only the display.
    """
    study = open_study(storage, name)
    try:
        watch(study)
    finally:
        study.close()
