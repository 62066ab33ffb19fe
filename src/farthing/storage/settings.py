"""What a study was made with, kept with it: whoever opens it plans alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from farthing.decision import Policy, StoppingRule
from farthing.errors import InvalidInput
from farthing.ledger import Budget
from farthing.plan import Learner, Plan, make_plan
from farthing.space import Parameter, Space
from farthing.storage.describing import (
    MISSING,
    describe,
    describe_space,
    restore,
    restore_space,
)
from farthing.storage.text import from_text, to_text

__all__ = ["Settings", "difference", "make_settings", "restore_settings", "settings_text"]

Learners = Learner | Mapping[str, Learner] | None


@dataclass(frozen=True)
class Settings:
    """A plan, and how its trials are run.

    Attributes:
        described: the same as plain values.
        timeout: seconds after which a trial is killed; None: when the budget is spent.
        retries: how many times a trial that was lost is tried again.
    """

    plan: Plan
    described: Mapping[str, Any]
    timeout: float | None
    retries: int


def make_settings(
    space: Space | Mapping[str, Parameter],
    budget: str | float | Mapping[str, float] | Budget | None,
    *,
    policy: Policy | None,
    stop: StoppingRule | None,
    cost: Learners,
    worth: float | str | None,
    direction: Literal["minimize", "maximize"],
    noisy: bool,
    seed: int,
    timeout: float | str | None,
    retries: int,
) -> Settings:
    """Settings that fit together; the arguments are those of `Study.create`."""
    plan = make_plan(
        space,
        budget,
        policy=policy,
        stop=stop,
        cost=cost,
        worth=worth,
        direction=direction,
        noisy=noisy,
        seed=seed,
    )
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise InvalidInput(f"retries={retries!r}: expected a whole number of at least 0.")
    seconds = None if timeout is None else _seconds(timeout)
    described = {
        "space": describe_space(plan.space),
        "budget": None if plan.budget is None else dict(plan.budget.limits),
        "policy": describe(plan.policy),
        "stop": describe(plan.stop),
        "cost": describe(cost),
        "worth": worth,
        "direction": direction,
        "noisy": plan.noisy,
        "seed": plan.seed,
        "timeout": seconds,
        "retries": retries,
    }
    return Settings(plan, described, seconds, retries)


def settings_text(settings: Settings) -> str:
    """The settings as they are stored."""
    return to_text(settings.described)


def restore_settings(
    text: str,
    *,
    policy: Policy | None = None,
    stop: StoppingRule | None = None,
    cost: Learners = None,
) -> Settings:
    """The settings of a stored study; parts that cannot be imported here are given again."""
    stored = from_text(text)
    parts = {"policy": policy, "stop": stop, "cost": cost}
    for name, given in parts.items():
        if given is None:
            parts[name] = restore(stored[name])
            if _is_missing(parts[name]):
                raise InvalidInput(
                    f"The study was made with a function in {name}= that cannot be imported: a "
                    "lambda, or one defined in a script or in another function. "
                    f"Give it again: Study.open(url, name, {name}=...)."
                )
    return make_settings(
        restore_space(stored["space"]),
        stored["budget"],
        **parts,  # type: ignore[arg-type]
        **{name: stored[name] for name in ("worth", "direction", "noisy", "seed")},
        timeout=stored["timeout"],
        retries=stored["retries"],
    )


def difference(stored: str, wanted: Settings) -> str | None:
    """The first setting in which two studies differ, in words; None if they are the same."""
    there, here = from_text(stored), from_text(settings_text(wanted))
    for name in here:
        if there.get(name) != here[name]:
            return f"{name} is {_shown(there.get(name))} there and {_shown(here[name])} here"
    return None


def _is_missing(part: Any) -> bool:
    parts = part.values() if isinstance(part, Mapping) else [part]
    return any(each is MISSING for each in parts)


def _seconds(timeout: float | str) -> float:
    limits = Budget(timeout if isinstance(timeout, str) else {"s": timeout}).limits
    if tuple(limits) != ("s",):
        raise InvalidInput(f'timeout={timeout!r}: expected seconds, or a time such as "10m".')
    return limits["s"]


def _shown(value: Any) -> str:
    text = to_text(value)
    return text if len(text) <= 200 else text[:200] + "..."
