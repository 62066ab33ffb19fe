"""The default policy without one of its parts, by names such as `default-costs`.

default-costs       every configuration is expected to cost the same: not cost-aware
default-start       four uniform points, with the same limits, instead of the middle and points near
default-affordable  neither P(c <= left) in the score nor a limit of what may be proposed
default-kills       no trial is killed at its limit, as with `minimize` in one process
cooling_0.5+median  exp(mean of ln c) instead of E[c] (see methods.py)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper import unlimited
from farthing.acquisition.belief import START, Belief
from farthing.acquisition.initial_design import cap
from farthing.acquisition.protocols import Policy, Proposal
from farthing.cost.model import Evidence
from farthing.models.gp import Normal
from farthing.policies import Cooling

Array = NDArray[np.float64]

LEAST_SPREAD = 1e-3  # of ln c, if all costs are equal
NO_KILLS, NO_COSTS = "default-kills", "default-costs"
DEFAULT = Cooling(first=0.5)  # a test checks this


@dataclass(frozen=True)
class Without:
    """A policy without its start, or without its attention to what is affordable."""

    part: Literal["start", "affordable"]
    policy: Policy = DEFAULT

    @property
    def needs(self) -> frozenset[str]:
        """As the policy; no model without its start, so that it is asked for the first points."""
        return self.policy.needs - ({"model"} if self.part == "start" else frozenset())

    @property
    def reads(self) -> frozenset[str]:
        """As the policy, and the model."""
        return self.policy.reads | {"model"}

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The proposal of the policy without the part."""
        if self.part == "start":
            if len(belief.history) < START or belief.objective is None:
                notes: dict[str, Any] = {"phase": "start"}
                if most := cap(belief):
                    notes["limit"] = most
                return Proposal(belief.space.sample(1, rng)[0], "a uniform point", notes=notes)
            return self.policy.propose(belief, rng)
        belief = replace(belief, ledger=unlimited(belief.ledger))
        chosen = self.policy.propose(belief, rng)
        if chosen.x is None:
            return chosen
        # With a predicted cost nothing is added to it.
        return replace(chosen, predicted=belief.predicted(chosen.x))


@dataclass(frozen=True)
class _OneCostModel:
    mean: float
    std: float
    n: int
    memory: None = None

    def log_at(self, X: Array) -> Normal:
        return Normal(np.full(len(X), self.mean), np.full(len(X), self.std))

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        return self.log_at(X), np.zeros_like(X), np.zeros_like(X)

    def condition(self, x: Array, cost: float) -> _OneCostModel:
        mean = (self.n * self.mean + float(np.log(cost))) / (self.n + 1)
        return replace(self, mean=mean, n=self.n + 1)


@dataclass(frozen=True)
class OneCost:
    """A cost learner that ignores the configuration: ln c ~ N(mean, sd^2) of all costs paid."""

    def fit(self, evidence: Evidence) -> _OneCostModel | None:
        """The mean and the standard deviation of ln c; None before the second cost."""
        logs = evidence.log_cost()
        if len(logs) < 2:
            return None
        return _OneCostModel(
            float(logs.mean()), max(float(logs.std(ddof=1)), LEAST_SPREAD), len(logs)
        )


POLICIES: dict[str, Callable[[], Policy]] = {
    "default-start": lambda: Without("start"),
    "default-affordable": lambda: Without("affordable"),
    NO_COSTS: lambda: DEFAULT,
    NO_KILLS: lambda: DEFAULT,
}
