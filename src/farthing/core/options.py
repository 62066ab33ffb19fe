"""The options that `Optimizer`, `minimize` and `Study` take, and the types of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from farthing.acquisition.protocols import Policy, StoppingRule
from farthing.budget.units import Budget
from farthing.cost import CostLearner
from farthing.space.parameters import Kind
from farthing.space.space import Space
from farthing.steps import Steps

__all__ = [
    "AnyBudget",
    "AnyCost",
    "AnySpace",
    "Direction",
    "Learner",
    "RunOptions",
    "SearchOptions",
]

Direction = Literal["minimize", "maximize"]
Learner = CostLearner | Callable[[Mapping[str, Any]], float]
AnyBudget = str | float | Mapping[str, float] | Budget | None
AnyCost = Learner | str | Mapping[str, Learner | str] | None
AnySpace = Space | Mapping[str, Kind]


class SearchOptions(TypedDict, total=False):
    """How to choose the next evaluation, and when to stop. `Settings` describes each option."""

    policy: Policy | str | None
    stop: StoppingRule | str | None
    cost: AnyCost
    worth: float | str | None
    direction: Direction
    noisy: bool
    seed: int
    start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    max_overrun: float | None
    max_cost: AnyBudget
    overhead: float
    steps: Steps | int | None
    constraints: Mapping[str, str] | None
    learn_from: Any


class RunOptions(SearchOptions, total=False):
    """The search options, and how workers run trials. `Settings` describes each option."""

    timeout: float | str | None
    retries: int
    failures_in_a_row: float
    grace: float | str
    lease: float | str
    rate: str | None
    measure: Literal["wall", "cpu"]
    command: Sequence[str] | None
    metric: str
    cwd: str | None
    env: Mapping[str, str] | None
    logs: str | None
