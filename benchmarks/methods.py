"""Every method by name: our policies with their cost models, and the peers.

EI, EIpu, EI_0.2, cooling, CArBO, CEI_0.7, ...    ours, the log-GP cost model
EIpu+linear, ...                                  ours, another cost model
optuna-tpe, flaml-cfo, ...                        a peer, see benchmarks/peers
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from benchmarks.problems.problem import Evaluation
from farthing import Optimizer, Space, Stopped
from farthing.belief import Belief
from farthing.cost import Choose, CostLearner, Flops, Linear, LogGP, Median, MLPFlops, Moving
from farthing.decision import Policy, Proposal
from farthing.policies import (
    EI,
    CArBO,
    ContextualEI,
    Cooling,
    EIPerCost,
    Gittins,
    Random,
    Rollout,
    Sobol,
)

Params = Mapping[str, Any]


class Method(Protocol):
    """One run of a method: asked for a configuration, told what it was worth and cost."""

    def ask(self) -> Params | None:
        """The next configuration; None when it has nothing more to ask."""

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """What came of it; `params` may be a table's row near to what was asked."""


@dataclass(frozen=True)
class Covered:
    """CArBO with another policy in place of its cooling: cheap cover for an eighth, then `then`."""

    then: Policy
    needs: ClassVar[frozenset[str]] = CArBO.needs
    reads: ClassVar[frozenset[str]] = CArBO.reads
    models: ClassVar[bool] = True

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """As CArBO while it starts and covers."""
        account = belief.ledger[belief.ledger.resources[0]]
        if (account.spent + account.reserved) / account.limit < CArBO().share:
            return CArBO().propose(belief, rng)
        return self.then.propose(belief, rng)


POLICIES: dict[str, Callable[[], Policy]] = {
    "random": Random,
    "sobol": Sobol,
    "EI": EI,
    "EIpu": EIPerCost,
    **{f"EI_{a}": lambda a=a: EIPerCost(alpha=a) for a in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)},
    "cooling": Cooling,
    "CArBO": CArBO,
    **{f"CArBO_{k}/8": lambda k=k: CArBO(share=k / 8) for k in (2, 4, 6)},
    "cover+EI": lambda: Covered(EI()),
    "cover+EIpu": lambda: Covered(EIPerCost()),
    **{f"CEI_{s}": lambda s=s: ContextualEI(slack=s) for s in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)},
    "PBGI": Gittins,
    **{f"rollout_{h}": lambda h=h: Rollout(horizon=h) for h in (2, 4)},
}
WIDTHS = tuple(f"width_{i}" for i in (1, 2, 3, 4))  # of the recorded perceptrons


def first_layer(params: Params) -> float:
    """The data's columns, whatever they are, times the first width."""
    return float(params["width_1"])


def perceptron_flops() -> Flops:
    """What training a recorded perceptron takes (CArBO section 6)."""
    return Flops([MLPFlops(WIDTHS, layers="layers"), first_layer])


COST_MODELS: dict[str, Callable[[], CostLearner]] = {
    "linear": Linear,
    "median": lambda: Median(LogGP()),
    "choose": Choose,
    "flops": perceptron_flops,
    "moving": lambda: Moving(LogGP()),
}


def split(name: str) -> tuple[str, str]:
    """The policy and the cost model of a name, "" for the usual one."""
    policy, _, cost = name.rpartition("+")
    return (policy, cost) if cost in COST_MODELS else (name, "")


class Ours:
    """A farthing.Optimizer that sees a budget in units of cost."""

    def __init__(
        self,
        name: str,
        space: Space,
        *,
        budget: float,
        seed: int,
        clock: bool,
        move: Callable[..., float] | None = None,
    ) -> None:
        policy, cost = split(name)
        self.optimizer = Optimizer(
            space,
            # Only an account in seconds is charged for thinking.
            budget={"s" if clock else "cost": budget},
            policy=POLICIES[policy](),
            cost=COST_MODELS[cost]() if cost else move,
            seed=seed,
        )

    def ask(self) -> Params | None:
        """What the policy proposes, until its budget is spent."""
        try:
            self.trial = self.optimizer.ask()
        except Stopped:
            return None
        return self.trial.params

    @property
    def limit(self) -> float:
        """The most that what was asked last may cost; it is killed there."""
        return min(self.trial.limit.values(), default=math.inf)

    def killed(self, cost: float) -> None:
        """What was asked last was killed at its limit."""
        self.optimizer.tell(self.trial, killed=True, cost=cost)

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """A value, or that it failed; a table's nearest free row answers for what was asked."""
        value, cost = evaluation
        if value is None:
            self.optimizer.tell(self.trial, failed="no value", cost=cost)
        else:
            self.optimizer.tell(self.trial, value, cost=cost)


def make(
    name: str,
    space: Space,
    *,
    budget: float,
    seed: int,
    clock: bool = False,
    evaluations: int = 60,
    move: Callable[..., float] | None = None,
) -> Method:
    """A method ready to be asked; so many `evaluations` at random is what the budget buys.

    A cost that depends on the evaluation before, `move`, is known to ours.
    """
    if split(name)[0] in POLICIES:
        return Ours(name, space, budget=budget, seed=seed, clock=clock, move=move)
    from benchmarks import peers

    return peers.make(name, space, budget=budget, seed=seed, evaluations=evaluations)
