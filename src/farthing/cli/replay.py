"""`farthing replay`: where another stopping rule would have stopped a study, or a log file."""

from __future__ import annotations

import click

from farthing.cli.methods import make_method
from farthing.cli.options import format_option, open_study, study_argument
from farthing.cli.output import print_one
from farthing.core.options import Direction
from farthing.errors import InvalidInput
from farthing.stopping.combine import any_of

__all__ = ["replay"]


@click.command()
@study_argument
@format_option
@click.option(
    "--stop",
    multiple=True,
    required=True,
    metavar="RULE",
    help="A rule from `farthing rules`. If you give several, the first one that applies stops.",
)
@click.option(
    "--worth",
    metavar="RATE",
    help="Exchange rate: '0.01 = $20' (an improvement of 0.01 is worth $20), or the improvement "
    "that one unit of cost must bring.",
)
@click.option(
    "--file", "log", metavar="FILE", help="Replay this CSV or JSON file instead of a study."
)
@click.option(
    "--maximize/--minimize",
    default=False,
    help="Whether a higher or a lower value is better in the file.",
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="BOUND",
    help="A bound of another column of the file, such as 'latency_ms <= 10'.",
)
def replay(
    storage: str | None,
    name: str | None,
    kind: str,
    stop: tuple[str, ...],
    worth: str | None,
    log: str | None,
    maximize: bool,
    constraints: tuple[str, ...],
) -> None:
    """Show where a stopping rule would have stopped.

    The command prints what the rule would have saved, and how much worse the best value would have
    been. For a study, it counts what the study spent; for a file, it adds up the costs.

    FILE has a column for each parameter (NAME or param_NAME), `value`, and `cost` or
    cost_RESOURCE. A row without a value is a failed trial.
    """
    from farthing.cli.request import bounds_of, naming_options
    from farthing.replay import replay as replay_rule

    rules = [make_method(text, "stopping", "--stop") for text in stop]
    rule = rules[0] if len(rules) == 1 else any_of(*rules)
    exchange_rate = _number_or_text(worth)
    if log is not None:
        direction: Direction = "maximize" if maximize else "minimize"
        with naming_options():
            bounds = bounds_of(constraints)
            found = replay_rule(
                log, rule, worth=exchange_rate, direction=direction, constraints=bounds
            )
    elif constraints:
        raise InvalidInput(
            "--constraint has no effect without --file: a study has its own constraints."
        )
    else:
        study = open_study(storage, name)
        try:
            with naming_options():
                found = replay_rule(study, rule, worth=exchange_rate)
        finally:
            study.close()
    print_one(found.facts(), kind, table=found.words())


def _number_or_text(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
