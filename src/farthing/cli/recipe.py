"""What is to be run, and how: the options of `farthing run` and its file, made into objects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farthing.cli.config import Config
from farthing.cli.execution import Execution
from farthing.cli.methods import make_method
from farthing.cli.options import DATABASE, STUDY
from farthing.cli.parameters import parameter_of, split_parameter
from farthing.decision import Policy, StoppingRule, any_of
from farthing.errors import InvalidInput
from farthing.ledger import Budget
from farthing.meter import Meter
from farthing.plan import Direction, Learner
from farthing.running import Job
from farthing.space import Space

__all__ = ["Recipe", "read_recipe"]

METERS = ("wall", "cpu")


@dataclass(frozen=True)
class Recipe:
    """A study as it is to be made, and how its trials are run.

    Attributes:
        execution: how its trials are run.
    """

    storage: str
    name: str
    workers: int
    space: Space
    budget: Budget | None
    policy: Policy | None
    stop: StoppingRule | None
    cost: Learner | None
    worth: float | str | None
    direction: Direction
    noisy: bool
    seed: int
    timeout: float | None
    retries: int
    execution: Execution


def read_recipe(options: Mapping[str, Any], command: Sequence[str], config: Config) -> Recipe:
    """What the options say; where they say nothing, what the file says.

    Args:
        options: None or () where nothing was given.
        command: the program and its arguments; empty if it was not given.
    """
    given = {key: value for key, value in options.items() if value not in (None, ())}
    told = {**config.run, **given, **({"command": list(command)} if command else {})}
    params = {**config.params, **dict(map(split_parameter, options["param"]))}
    if not params:
        raise InvalidInput(
            "There is nothing to tune. Give parameters, such as --param lr=float:1e-5:1e-1:log."
        )
    if "command" not in told:
        raise InvalidInput(
            "There is no command. Write it last: farthing run ... -- python train.py --lr {lr}."
        )
    space = Space({name: parameter_of(name, described) for name, described in params.items()})
    budget = None if "budget" not in told else Budget(_number_or_text(told["budget"]))
    policy = None if "policy" not in told else make_method(told["policy"], "policies", "--policy")
    rules = [make_method(text, "stopping", "--stop") for text in _several(told.get("stop", ()))]
    if budget is None and not rules:
        raise InvalidInput(
            "Without a budget it would never end. Give --budget 10m, or --stop 'max_trials(50)'."
        )
    stop = None if not rules else rules[0] if len(rules) == 1 else any_of(*rules)
    _check_worth(told.get("worth"), policy, stop)
    meters, models = _costs(_several(told.get("cost", ())))
    timeout = None if "timeout" not in told else _seconds(told["timeout"], "--timeout")
    execution = Execution(
        told["command"],
        metric=told.get("metric", Execution.metric),
        rate=told.get("rate"),
        cpu="cpu" in meters,
        grace=_seconds(told["grace"], "--grace") if "grace" in told else Execution.grace,
        lease=_seconds(told["lease"], "--lease") if "lease" in told else Execution.lease,
        failures_in_a_row=told.get("failures_in_a_row", Execution.failures_in_a_row),
    )
    _check_meter(execution, budget)
    execution.terms(timeout)  # what makes no sense is refused before a study is made
    recipe = Recipe(
        storage=str(told.get("storage", DATABASE)),
        name=str(told.get("name", STUDY)),
        workers=told.get("workers", 1),
        space=space,
        budget=budget,
        policy=policy,
        stop=stop,
        cost=models[0] if models else None,
        worth=None if "worth" not in told else _number_or_text(told["worth"]),
        direction="maximize" if told.get("maximize") else "minimize",
        noisy=bool(told.get("noisy")),
        seed=told.get("seed", 0),
        timeout=timeout,
        retries=told.get("retries", 0),
        execution=execution,
    )
    _check_command(recipe)
    return recipe


def _several(told: Any) -> list[str]:
    return [told] if isinstance(told, str) else list(told)


def _number_or_text(told: Any) -> Any:
    try:
        return float(told)
    except (TypeError, ValueError):
        return told


def _seconds(told: Any, option: str) -> float:
    """A time in words, or a number of seconds."""
    number = _number_or_text(told)
    if isinstance(number, str):
        limits = Budget(number).limits
        if tuple(limits) == ("s",):
            return limits["s"]
    elif math.isfinite(number) and number >= 0:
        return float(number)
    raise InvalidInput(f"{option} {told}: expected a time, such as 90s or 10m.")


def _check_worth(worth: Any, policy: Policy | None, stop: StoppingRule | None) -> None:
    reads: set[str] = set()
    for part in (policy, stop):
        reads |= part.reads | part.needs if part is not None else set()
    if worth is not None and "worth" not in reads:
        raise InvalidInput(
            f"--worth {worth} would be read by nothing. Add --stop not_worth_it or "
            "--policy gittins, or leave it out."
        )
    if worth is None and stop is not None and "worth" in stop.needs:
        raise InvalidInput(
            "The rule needs to know what a unit of cost is worth. "
            "Give --worth '0.01 = $20', or objective units per unit of cost."
        )


def _costs(told: list[str]) -> tuple[list[str], list[Any]]:
    """What --cost says of how costs are measured, and of how they are learnt."""
    if "reported" in told:
        raise InvalidInput(
            "--cost reported: what a trial says it has cost always counts. Leave the option out."
        )
    meters = [text for text in told if text in METERS]
    models = [make_method(text, "cost", "--cost") for text in told if text not in METERS]
    if len(meters) > 1 or len(models) > 1:
        raise InvalidInput(f"--cost {' --cost '.join(told)}: one meter and one model at most.")
    return meters, models


def _check_meter(execution: Execution, budget: Budget | None) -> None:
    """A meter that nothing reads is a mistake."""
    limits = {} if budget is None else budget.limits
    if execution.rate is not None:
        rated = Meter.at(execution.rate).rate
        if not set(rated) & set(limits):
            raise InvalidInput(
                f"--rate {execution.rate} would be read by nothing: the budget limits "
                f"{', '.join(limits) or 'nothing'}. Give a budget in {', '.join(rated)}, too."
            )
    elif execution.cpu and "worker_s" not in limits:
        raise InvalidInput(
            "--cost cpu would be read by nothing: give a budget in it, such as "
            "--budget '30 worker_m', or a rate."
        )


def _check_command(recipe: Recipe) -> None:
    """Try the command on paper: it must be there, and find its parameters, in every branch."""
    import numpy as np

    for x in recipe.space.sample(32, np.random.default_rng(0)):
        recipe.execution.task.prepare(Job(recipe.space.decode(x), 0, 0), Path())
