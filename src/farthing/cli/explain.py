"""`farthing explain`: why a trial was suggested, what was expected of it, and its result."""

from __future__ import annotations

import click

from farthing.cli.options import format_option, open_study, study_argument
from farthing.cli.output import print_one

__all__ = ["explain"]


@click.command()
@click.argument("number", type=int)
@study_argument
@format_option
def explain(number: int, storage: str | None, name: str | None, kind: str) -> None:
    """Show why trial NUMBER was suggested, and its result.

    The command fits the models again, to the trials that had ended when this one was suggested. It
    then compares the expected improvement and the expected cost of the point with those of many
    other points.
    """
    from farthing.view.report import explained

    study = open_study(storage, name)
    try:
        facts = study.explain(number)
        print_one(facts, kind, table=explained(facts))
    finally:
        study.close()
