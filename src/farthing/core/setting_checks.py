"""The checks of settings: each setting by itself, and all of them together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from contextlib import suppress
from numbers import Real
from pathlib import PurePath
from typing import Any

import numpy as np

from farthing.acquisition.protocols import Policy, StoppingRule
from farthing.budget.rates import rate_of
from farthing.budget.units import Budget
from farthing.core.method_names import Folder, named_method
from farthing.core.options import AnyBudget, Learner
from farthing.cost import CostLearner, Known
from farthing.earlier import Source
from farthing.errors import InvalidInput
from farthing.models.constraints import constraint_of
from farthing.space.space import Space
from farthing.steps import Steps

__all__ = [
    "as_amounts",
    "as_learner",
    "as_seconds",
    "check_each",
    "check_max_cost",
    "check_rate",
    "check_sources",
    "check_steps",
    "check_worth",
]

# Keys of a result that are no measured quantities.
RESULT_KEYS = ("value", "cost", "step", "failed", "infrastructure", "constraints")


# ── each setting by itself ───────────────────────────────────────────────────────────────────────


def check_each(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check every setting by itself.

    Returns:
        The settings whose value must be replaced by an equal one of the documented type.

    Raises:
        InvalidInput: a setting has a value that is not allowed.
    """
    typed: dict[str, Any] = {"noisy": bool(values["noisy"])}
    if values["direction"] not in ("minimize", "maximize"):
        raise InvalidInput(f'direction={values["direction"]!r}: expected "minimize" or "maximize".')
    if values["measure"] not in ("wall", "cpu"):
        raise InvalidInput(f'measure={values["measure"]!r}: expected "wall" or "cpu".')
    for name in ("seed", "retries"):
        typed[name] = _as_count(values[name], name)
    if not 0 < values["lease"] < math.inf:
        raise InvalidInput(f"lease={values['lease']!r}: expected seconds above 0, such as 15.")
    if not 0 <= values["grace"] < math.inf:
        raise InvalidInput(f"grace={values['grace']!r}: expected seconds of at least 0.")
    typed["failures_in_a_row"] = _as_failures(values["failures_in_a_row"])
    paths = {name: values[name] for name in ("cwd", "logs")}
    typed |= {name: str(path) for name, path in paths.items() if isinstance(path, PurePath)}
    _check_command({**values, **typed})
    if values["max_overrun"] is not None and not (
        _is_number(values["max_overrun"]) and 0 < values["max_overrun"] < math.inf
    ):
        raise InvalidInput(
            f"max_overrun={values['max_overrun']!r}: expected a number above 0, or None for no "
            "limit."
        )
    if not (_is_number(values["overhead"]) and 0 < values["overhead"] <= 1):
        raise InvalidInput(
            f"overhead={values['overhead']!r}: expected a share in (0, 1], such as 0.05."
        )
    if values["steps"] is not None:
        typed["steps"] = Steps.of(values["steps"])
    typed["constraints"] = _as_constraints(values["constraints"], values["metric"])
    for params in values["start"]:
        if not isinstance(params, Mapping):
            raise InvalidInput(f"start={params!r}: expected parameters such as {{'width': 16}}.")
        values["space"].completed(params, np.full(values["space"].d, 0.5))
    typed |= _named(values)
    _check_method(typed["policy"], "policy", "propose(belief, rng)")
    if typed["stop"] is not None:
        _check_method(typed["stop"], "stop", "__call__(belief, proposal, rng)")
    return typed


def as_seconds(time: Any, name: str) -> float:
    """A number of seconds from a number or from a text such as "10m"."""
    if isinstance(time, str):
        with suppress(InvalidInput):
            limits = Budget(time).limits
            if tuple(limits) == ("s",):
                return limits["s"]
    elif _is_number(time) and math.isfinite(time) and (time > 0 or name == "grace"):
        return float(time)
    least = "of at least 0" if name == "grace" else "above 0"
    raise InvalidInput(f'{name}={time!r}: expected seconds {least}, or a time such as "10m".')


def as_amounts(amounts: AnyBudget, name: str) -> dict[str, float]:
    """Amounts by resource, from a text such as "$2" or from numbers."""
    try:
        return dict(Budget(amounts).limits)  # type: ignore[arg-type]
    except InvalidInput as error:
        raise InvalidInput(f"{name}={amounts!r}: {error}") from None


def as_learner(cost: Learner, resource: str) -> CostLearner:
    """A cost learner from a learner, or from a function of the parameters."""
    if not isinstance(cost, type) and hasattr(cost, "fit"):
        return cost
    if not isinstance(cost, type) and callable(cost):
        return Known(cost)
    raise InvalidInput(
        f"cost={cost!r} for {resource!r}: expected a function of the parameters or a cost model "
        "from farthing.cost, such as LogGP()."
    )


def _as_constraints(constraints: Any, metric: str) -> dict[str, str] | None:
    """The constraints with their conditions in one form; None if there are none."""
    if not (constraints is None or isinstance(constraints, Mapping)):
        raise InvalidInput(
            f"constraints={constraints!r}: expected a condition for each measured quantity, such "
            'as {"latency_ms": "<= 10"}.'
        )
    found = {}
    for name, condition in (constraints or {}).items():
        if not (isinstance(name, str) and name.strip() == name and name):
            raise InvalidInput(
                f"constraints={constraints!r}: {name!r} is not a name of a quantity."
            )
        if name in (metric, *RESULT_KEYS):
            raise InvalidInput(
                f"constraints={{{name!r}: {condition!r}}}: {name!r} is not a measured quantity, "
                "because results use this key for something else. Report the quantity under "
                "another name."
            )
        found[name] = constraint_of(name, condition).condition
    return found or None


def _as_count(number: Any, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise InvalidInput(f"{name}={number!r}: expected a whole number of at least 0.")
    return int(number)


def _as_failures(number: Any) -> float:
    """The number of failures in a row that stop a study; 0 means no limit."""
    if number == 0 and _is_number(number):
        return math.inf
    if not (_is_number(number) and number >= 1):
        raise InvalidInput(
            f"failures_in_a_row={number!r}: expected a number of at least 1, or 0 to continue "
            "after any number of failures."
        )
    limit: float = number
    return limit


def _check_command(values: Mapping[str, Any]) -> None:
    if values["command"] is not None and not _are_texts(values["command"]):
        raise InvalidInput(
            f"command={values['command']!r}: expected a program and its arguments as a list of "
            'strings, such as ["python", "train.py"].'
        )
    if not _are_texts((values["metric"],)):
        raise InvalidInput(f"metric={values['metric']!r}: expected a key such as 'value'.")
    for name in ("cwd", "logs"):
        folder = values[name]
        if folder is not None and not _are_texts((folder,)):
            raise InvalidInput(f"{name}={folder!r}: expected the path of a folder.")
    if values["env"] is not None and not _are_variables(values["env"]):
        raise InvalidInput(
            f"env={values['env']!r}: expected names and strings, such as "
            '{"CUDA_VISIBLE_DEVICES": "{slot}"}.'
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    """Whether a value is a tuple of strings whose first one is not empty."""
    return isinstance(value, tuple) and all(isinstance(t, str) for t in value) and any(value[:1])


def _are_variables(value: Any) -> bool:
    """Whether a value can be the environment of a process: names and strings."""
    return isinstance(value, Mapping) and all(
        isinstance(name, str)
        and isinstance(text, str)
        and name.strip()
        and "=" not in name
        and "\0" not in name + text
        for name, text in value.items()
    )


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """The policy, the stopping rule and the cost models; names of methods become objects."""
    folders: dict[str, Folder] = {"policy": "policies", "stop": "stopping", "cost": "cost"}

    def method(given: Any, name: str) -> Any:
        if not isinstance(given, str):
            return given
        return named_method(given, folders[name], f"{name}={given!r}")

    found = {name: method(values[name], name) for name in folders}
    if isinstance(cost := values["cost"], Mapping):
        found["cost"] = {resource: method(each, "cost") for resource, each in cost.items()}
    return found


def _check_method(part: Any, name: str, call: str) -> None:
    """Check that a part is a policy or a stopping rule, and not the class of one."""
    if isinstance(part, type):
        raise InvalidInput(
            f"{name}={part.__name__}: expected an instance. Pass {part.__name__}(...)."
        )
    kind, example = "policy", 'EI() or "ei"'
    if name == "stop":
        kind, example = "stopping rule", 'MaxTrials(50) or "max_trials(50)"'
    missing = [f"no attribute {each}" for each in ("needs", "reads") if not hasattr(part, each)]
    if not callable(getattr(part, call.partition("(")[0], None)):
        missing.insert(0, f"no method {call}")
    if missing:
        raise InvalidInput(
            f"{name}={part!r} has {' and '.join(missing)}. Expected a {kind} such as {example}; "
            "for one of your own see farthing.acquisition.protocols."
        )
    for attribute in ("needs", "reads"):
        words = getattr(part, attribute)
        if not (isinstance(words, Set) and all(isinstance(word, str) for word in words)):
            raise InvalidInput(
                f"{name}={part!r} has {attribute} = {words!r}: expected a frozenset of words, such "
                'as frozenset({"model"}).'
            )
    if getattr(part, "models", None) is True and "model" not in part.needs | part.reads:
        raise InvalidInput(
            f"{name}={part!r}: `models = True` is no longer used. Put 'model' into `needs` if "
            "it requires a model of the objective, or into `reads` if it can do without."
        )


# ── all of them together ─────────────────────────────────────────────────────────────────────────


def check_worth(
    policy: Policy,
    stop: StoppingRule | None,
    budget: Budget | None,
    worth: float | str | None,
    primary: str,
) -> None:
    """Refuse a policy or a rule without what it needs, and an exchange rate without effect.

    Args:
        primary: the first of the resources in which costs are counted.
    """
    name, needs, reads = type(policy).__name__, policy.needs, policy.reads
    if stop is not None:
        needs, reads = needs | stop.needs, reads | stop.reads
    if "budget" in needs and budget is None:
        raise InvalidInput(
            f"{name} needs a budget, because it decides by how much of it is left. Set "
            'budget="2h", "$40" or a number, or choose a policy without one, such as EIPerCost().'
        )
    if "worth" in needs and worth is None:
        raise InvalidInput(
            "The stopping rule needs the exchange rate between objective and cost. Set worth=... "
            'in objective units per unit of cost, or as a text such as "0.01 = $20". With '
            'worth="budget" Farthing computes it from the budget.'
        )
    if worth is not None and "worth" not in needs | reads:
        raise InvalidInput(
            f"worth={worth!r} has no effect: neither {name} nor the stopping rule uses it. Add "
            'policy="gittins" or stop="not_worth_it", or leave worth out.'
        )
    if worth == "budget" and (budget is None or primary not in budget.limits):
        raise InvalidInput(
            'worth="budget" needs a budget of a resource that trials consume, such as "2h" or '
            '"$40", to compute the exchange rate from. Set one, or give worth=... as a number or '
            "as a text."
        )


def check_rate(rate: str | None, measure: str, budget: Budget | None) -> None:
    """Refuse a rate or a measure without effect on the budget."""
    limits = {} if budget is None else budget.limits
    if rate is not None:
        rated = rate_of(rate)
        if not set(rated) & set(limits):
            raise InvalidInput(
                f"rate={rate!r} has no effect: the budget limits {', '.join(limits) or 'nothing'}. "
                f"Add a budget in {', '.join(rated)}."
            )
    elif measure == "cpu" and "worker_s" not in limits:
        raise InvalidInput(
            "Measuring CPU seconds has no effect: set a budget in them, such as '30 worker_m', or "
            "a rate."
        )


def check_steps(policy: Policy, stop: StoppingRule | None, steps: Steps | None) -> None:
    """Refuse a policy or a rule that decides by steps if there are none."""
    for part in (policy, stop):
        if part is not None and "steps" in part.needs and steps is None:
            raise InvalidInput(
                f"{type(part).__name__} needs steps, because it decides while a training runs. Set "
                "steps=... to the last step of a training, such as steps=50, or choose another one."
            )


def check_max_cost(max_cost: Mapping[str, float], budget: Budget | None) -> None:
    """Refuse a bound of the cost of a trial in a resource that the budget does not limit."""
    limits = {} if budget is None else budget.limits
    for resource in max_cost:
        if resource not in limits or resource == "trials":
            costs = ", ".join(r for r in limits if r != "trials") or "nothing"
            raise InvalidInput(
                f"max_cost in {resource!r} has no effect: the budget limits {costs}. Give the most "
                "that one trial can cost in a resource of the budget."
            )


def check_sources(
    sources: tuple[Source, ...], space: Space, policy: Policy, uses: Set[str]
) -> None:
    """Refuse sources without effect, and sources that are not points of this space."""
    for each in sources:
        if not isinstance(each, Source):
            raise InvalidInput(
                f"learn_from={each!r}: expected a Source, which Optimizer, minimize and "
                "Study.create make of a study, a Result, a data frame or a file."
            )
        n = len(each.y)
        columns = each.y, each.censored, *each.cost.values()
        fits = each.x.shape == (n, space.d) and all(column.shape == (n,) for column in columns)
        if not fits or ((each.x < 0) | (each.x > 1)).any() or np.isinf(each.y).any():
            raise InvalidInput(
                f"learn_from={each.name!r}: its rows do not fit this space, which has {space.d} "
                "parameters."
            )
    if sources and not {"model", "cost", "learn_from"} & uses:
        raise InvalidInput(
            f"learn_from={sources[0].name!r} has no effect: {type(policy).__name__} uses no model. "
            "Choose another policy, or leave learn_from out."
        )
