"""`farthing replay`: where another stopping rule would have stopped a study, or any log."""

from __future__ import annotations

import click

from farthing.cli.methods import make_method
from farthing.cli.options import as_data, open_study, where
from farthing.cli.output import print_one
from farthing.core.settings import Direction
from farthing.stopping.combine import any_of

__all__ = ["replay"]


@click.command()
@where
@as_data
@click.option(
    "--stop", multiple=True, required=True, help="A reason to stop from `farthing rules`."
)
@click.option("--worth", help="What cost is worth: '0.01 = $20', or objective units per unit.")
@click.option("--file", "log", metavar="FILE", help="Replay this CSV or JSON log instead.")
@click.option("--maximize/--minimize", default=False, help="The value in the file.")
def replay(
    storage: str | None,
    name: str | None,
    kind: str,
    stop: tuple[str, ...],
    worth: str | None,
    log: str | None,
    maximize: bool,
) -> None:
    """Where a rule would have stopped: what is saved, and lost.

    FILE has a column for each parameter (or param_NAME), `value`, and `cost` or cost_RESOURCE. A
    row without a value is a trial that failed.
    """
    from farthing.replay import replay as run_again

    rules = [make_method(text, "stopping", "--stop") for text in stop]
    rule = rules[0] if len(rules) == 1 else any_of(*rules)
    rate = _number_or_text(worth)
    if log is not None:
        direction: Direction = "maximize" if maximize else "minimize"
        found = run_again(log, rule, worth=rate, direction=direction)
    else:
        study = open_study(storage, name)
        try:
            found = run_again(study, rule, worth=rate)
        finally:
            study.close()
    print_one(found.facts(), kind, table=found.words())


def _number_or_text(told: str | None) -> float | str | None:
    try:
        return None if told is None else float(told)
    except ValueError:
        return told
