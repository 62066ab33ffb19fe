"""What a trial is said to be and to have cost, checked: the door for outcomes and bills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.core.events import Price
from farthing.core.settings import Settings
from farthing.cost import KnownBeforehand
from farthing.errors import InvalidInput
from farthing.history import ELSEWHERE, History, StopReason, Trial, TrialState

__all__ = [
    "asks_for_cost",
    "begun_of",
    "bill",
    "elsewhere",
    "external_trial",
    "in_strange_units",
    "outcome_of",
    "unpriced",
]

Array = NDArray[np.float64]

MAX_COST = 1e300  # so that no sum of costs is infinite


def bill(
    settings: Settings,
    cost: Price,
    x: Array,
    *,
    required: bool,
    previous: Array | None = None,
) -> dict[str, float]:
    """What was paid by resource at x, evaluated after `previous`; what is known beforehand need
    not be told.
    """
    priced = settings.cost_resources
    told = {} if cost is None else dict(cost) if isinstance(cost, Mapping) else {priced[0]: cost}
    paid = {}
    for resource, amount in told.items():
        if resource not in priced:
            raise InvalidInput(
                f"A cost in {resource!r} was told, but what is counted here is {', '.join(priced)}."
            )
        what, advice = f"The cost in {resource!r}", "Tell what the evaluation really used."
        paid[resource] = _finite(amount, what, advice)
        if not 0 <= paid[resource] <= MAX_COST:
            raise InvalidInput(
                f"{what} is {amount!r}: expected at least 0, and at most {MAX_COST:g}. {advice}"
            )
    for resource, learner in settings.learners.items():
        if resource not in paid and isinstance(learner, KnownBeforehand):
            paid[resource] = learner.price_at(settings.space, x, previous)
    if required and (missing := unpriced(settings, paid)):
        raise InvalidInput(
            f"The cost in {missing!r} is missing, which the budget or the policy needs. "
            "Say tell(trial, value, cost=...), or return Outcome(value, cost=...)."
        )
    return paid


def unpriced(settings: Settings, paid: Mapping[str, float]) -> str | None:
    """A resource whose cost is needed and not known."""
    return next((resource for resource in settings.needed if resource not in paid), None)


def asks_for_cost(number: int, missing: str) -> StopReason:
    """Why a study pauses: a trial has a value, and its cost in a resource is not known."""
    unit = "" if missing == "cost" else f" in {missing}"
    amount = f'{{"{missing}": ...}}' if unit else "..."
    return StopReason(
        "cost_missing",
        f"trial {number} did not say what it cost{unit}, which the budget or the policy needs. "
        f'Let it report {{"cost": {amount}}}, return Outcome(value, cost=...), or give a rate.',
    )


def in_strange_units(
    settings: Settings, told: Mapping[str, float], paid: Mapping[str, float]
) -> str | None:
    """Why a cost that was told says nothing of what is needed; None: it does, or was not told."""
    strange = [name for name in told if name and name not in settings.cost_resources]
    known = {r for r, each in settings.learners.items() if isinstance(each, KnownBeforehand)}
    missing = [resource for resource in settings.needed if resource not in {*paid, *known}]
    if not (strange and missing):
        return None
    return (
        f"it says what it cost in {', '.join(strange)}, but what is counted here is "
        f"{', '.join(settings.cost_resources)}"
    )


def outcome_of(
    value: float | None, failed: str | None, killed: bool, what: str
) -> tuple[TrialState, float | None]:
    """The state a trial ends in, and its value; `what` names the trial."""
    given = (value is not None, failed is not None, bool(killed))
    if sum(given) != 1:
        raise InvalidInput(
            "Tell exactly one of a value, failed='why', or killed=True; "
            f"got value={value!r}, failed={failed!r}, killed={killed!r}."
        )
    if failed is not None and not (isinstance(failed, str) and failed):
        raise InvalidInput(f"failed={failed!r}: say in words why, such as failed='out of memory'.")
    if not given[0]:
        return "failed" if given[1] else "killed", None
    advice = "If the evaluation went wrong, say failed='why' instead."
    return "done", _finite(value, f"The value of {what}", advice)


def _finite(value: object, what: str, advice: str) -> float:
    """A number, also one of NumPy or of a tensor library, but not a text that looks like one."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} is {value!r}: expected a finite number. {advice}") from None
    if not np.isfinite(number):
        raise InvalidInput(f"{what} is {number}: expected a finite number. {advice}")
    return number


def elsewhere(
    settings: Settings,
    params: Mapping[str, Any],
    value: float | None,
    *,
    cost: Price,
    failed: str | None,
    killed: bool,
    running: bool,
) -> Trial:
    """An evaluation made elsewhere, as a person tells of it; its cost may be unknown."""
    if running and not (value is None and failed is None and not killed and cost is None):
        raise InvalidInput(
            "add(running=True): what is still running has no value and no cost yet. "
            "Tell them when it has ended."
        )
    state: TrialState = "running"
    if not running:
        state, value = outcome_of(value, failed, killed, "it")
    return external_trial(settings, params, state, value, cost=cost, error=failed)


def external_trial(
    settings: Settings,
    params: Mapping[str, Any],
    state: TrialState,
    value: float | None = None,
    *,
    cost: Price = None,
    error: str | None = None,
) -> Trial:
    """An evaluation made elsewhere, as a trial that has no number yet."""
    x = settings.space.encode(params)
    return Trial(
        number=-1,
        params=settings.space.decode(x) if settings.space.rows is not None else dict(params),
        x=x,
        state=state,
        value=value,
        cost={} if state == "running" else bill(settings, cost, x, required=False),
        because=ELSEWHERE,
        error=error,
        notes={"phase": "start"},
        origin="imported",
    )


def begun_of(history: History, told: Trial | int) -> Trial:
    """The trial that is told about; a lost one may still come back."""
    number = told.number if isinstance(told, Trial) else told
    known = isinstance(number, int | np.integer) and 0 <= number < len(history)
    begun = history[int(number)] if known else None
    if begun is None or (isinstance(told, Trial) and not _is_same(told, begun)):
        raise InvalidInput(
            f"Trial {number!r} was never asked here. Tell what ask() returned; "
            "use add(params, value) for an evaluation made elsewhere."
        )
    if begun.state not in ("running", "lost"):
        raise InvalidInput(
            f"Trial {number} was told already ({begun.state}). A trial is told once."
        )
    return begun


def _is_same(told: Trial, begun: Trial) -> bool:
    """Whether a trial is the one that was asked, perhaps in a space that has grown since."""
    return np.array_equal(told.x, begun.x) or (
        told.run.asked_at > 0
        and (told.run.asked_at, told.run.seed) == (begun.run.asked_at, begun.run.seed)
    )
