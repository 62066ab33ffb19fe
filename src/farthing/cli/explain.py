"""`farthing explain`: why a trial was chosen, what it was expected to buy, and what it did."""

from __future__ import annotations

import click

from farthing.cli.options import as_data, open_study, where
from farthing.cli.output import print_one

__all__ = ["explain"]


@click.command()
@click.argument("number", type=int)
@where
@as_data
def explain(number: int, storage: str | None, name: str | None, kind: str) -> None:
    """Why trial NUMBER was chosen, and what came of it.

    What is believed of the objective and of the costs is worked out again from the trials before
    it; the point is then compared with many others, what they promise against what they cost.
    """
    from farthing.view.report import explained

    study = open_study(storage, name)
    try:
        facts = study.explain(number)
        print_one(facts, kind, table=explained(facts))
    finally:
        study.close()
