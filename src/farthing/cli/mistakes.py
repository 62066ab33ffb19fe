"""Mistakes in a command line that `farthing run` reports before the first trial."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from farthing.budget.rates import rate_of
from farthing.budget.units import Budget
from farthing.core.settings import Settings
from farthing.cost import KnownBeforehand
from farthing.errors import InvalidInput
from farthing.space.space import Parameter

if TYPE_CHECKING:
    from farthing.running import CommandTask

__all__ = [
    "check_all_used",
    "check_placeholders",
    "check_quoted",
    "how_to_report",
    "metric_hint",
    "must_be_reported",
]

AMOUNTS = ("budget", "timeout", "grace", "lease")  # options with a unit
MEASURED = ("s", "worker_s")  # resources that Farthing measures itself
SHORT_TIMES = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
RATES = {"usd": "$3.06/h", "eur": "€3.06/h", "gbp": "£3.06/h", "kWh": "0.4kWh/h"}  # examples
PARAMS = "FARTHING_PARAMS"
LAST_LINE = re.compile(r"its last line was '(\{.*\})'")


def check_quoted(options: Mapping[str, Any], words: Sequence[str | None]) -> None:
    """Check that the shell has not split an amount, as in `--budget 10 minutes`, or replaced `$4`.

    Args:
        words: the arguments that may follow an option, except the rest of a command to run.
    """
    if options.get("budget") in ("", "0"):  # what a shell makes of "$5" and "$40"
        raise InvalidInput(
            f"--budget {options['budget']!r}: expected an amount above 0. If you wrote $ in double "
            "quotes or without quotes, the shell has replaced it: write --budget '$40'."
        )
    for option, word in product(AMOUNTS, words):
        given = options.get(option)
        if not isinstance(given, str) or word is None:
            continue
        try:
            limits = Budget(f"{given} {word}".lstrip("+-")).limits
        except InvalidInput:
            continue
        name, short = f"--{option}", _short(limits)
        instead = f"Write {name} {short}, or quote it" if short else "Quote it"
        raise InvalidInput(
            f"{name} {given} {word} without quotes is two arguments: the amount {given!r}, and "
            f"{word!r}, which is not part of it. {instead}: {name} '{given} {word}'."
        )


def _short(limits: Mapping[str, float]) -> str | None:
    """A time without spaces, such as 10m; None for other amounts."""
    if tuple(limits) != ("s",):
        return None
    fitting = (f"{limits['s'] / size:g}{unit}" for unit, size in SHORT_TIMES.items()
               if limits["s"] % size == 0)  # fmt: skip
    return next(fitting, None)


def check_placeholders(task: CommandTask, names: Collection[str]) -> None:
    """Check that each placeholder of the command is a parameter."""
    unknown = [name for name in sorted(task.placeholders) if name not in names]
    if not unknown:
        return
    name = unknown[0]
    parameters = f"The parameters are {', '.join(names)}. " if names else ""
    close = difflib.get_close_matches(name, names, n=1)
    advice = f"Did you mean {{{close[0]}}}?" if close else f"Add --param {name}=float:LOW:HIGH."
    if any(part == "--param" or part.startswith("--param=") for part in task.argv):
        advice = "Options of Farthing, such as --param, come before the command."
    raise InvalidInput(
        f"The command has {{{name}}}, but there is no --param {name}=... {parameters}{advice} For "
        f"the literal text, write {{{{{name}}}}}."
    )


def check_all_used(task: CommandTask, parameters: Mapping[str, Parameter]) -> None:
    """Check that the command has either every parameter, or none and reads FARTHING_PARAMS.

    A parameter that only decides whether another one is active need not be in the command.
    """
    decides = {parent for each in parameters.values() for parent in each.when or ()}
    unused = [name for name in parameters if name not in {*task.placeholders, *decides}]
    if not unused or not task.placeholders or any(PARAMS in part for part in task.argv):
        return
    name = unused[0]
    raise InvalidInput(
        f"--param {name} has no effect: {{{name}}} does not appear in the command. Add it, such as "
        f"--{name} {{{name}}}, or leave --param {name} out. If the program reads {PARAMS}, write "
        "no {...} in the command."
    )


def must_be_reported(settings: Settings) -> str | None:
    """A resource whose cost only the program can tell; None if there is none."""
    rated = {} if settings.rate is None else rate_of(settings.rate)
    listed = {r for r, each in settings.learners.items() if isinstance(each, KnownBeforehand)}
    known = {*MEASURED, *rated, *listed}
    return next((resource for resource in settings.required_costs if resource not in known), None)


def metric_hint(error: str | None) -> str:
    """How to name the value, if the last line of a program without a result has one number."""
    line = LAST_LINE.search(error or "")
    try:
        printed = json.loads(line[1]) if line else {}
    except ValueError:
        return ""
    numbers = [key for key, value in printed.items() if type(value) in (int, float)]
    if len(numbers) != 1:
        return ""
    return f" If {numbers[0]!r} is the value, give --metric {shlex.quote(numbers[0])}."


def how_to_report(settings: Settings, resource: str) -> str:
    """What the program prints, or which option to set, so that a cost is known."""
    cost = '"cost": 12.5' if resource == "cost" else f'"cost": {{"{resource}": 0.12}}'
    step, where = (
        ("", "result line") if settings.steps is None else ('"step": 3, ', "line of a step")
    )
    line = f'{{{step}"{settings.metric}": 0.31, {cost}}}'
    rate = RATES.get(resource)
    price = "" if rate is None else f" Or give the rate of the machine: --rate '{rate}'."
    return f"Let the program print its cost in the {where}: {line}.{price}"
