"""Paper mode: the methods of the five papers as they are printed, by names such as `paper:EI`.

What Farthing adds to a method, and what is taken away here:

    start          the middle of the space and three points near it    five uniform points
    affordability  P(c <= left) in the score, expensive points left    none: an evaluation that the
                   out                                                 budget does not pay for ends
                                                                       the run, without a value
    transfer       the level is learnt from the costs of this task      frozen (`Frozen`)
    rollout        a simulated step takes the best affordable point    the path is truncated
                   (Lee et al. 2021, section 5.2)                      (`unaffordable="truncate"`)
    batches        each member draws all fantasies anew                they are kept, and each
                                                                       member adds one value to each
                                                                       (`keeping_fantasies`)

What stays: the surrogate, the search, and the expected cost E[c] as denominator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.fantasies import FANTASIES
from farthing.acquisition.protocols import Policy, Proposal
from farthing.budget.ledger import Account, Ledger
from farthing.cost import Transfer
from farthing.cost.model import CostModel, Evidence
from farthing.policies import CArBO, Cooling, CostEffectiveDesign, EIPerCost, Rollout
from farthing.policies.cooling import exponent

PREFIX = "paper:"
FIRST = 5  # uniform points (Lee et al. 2020, section 5; Lee et al. 2021, section 6)


@dataclass(frozen=True)
class Covered:
    """CArBO's initial design for an eighth of the budget, then the policy `then`, not cooling."""

    then: Policy
    needs: ClassVar[frozenset[str]] = CArBO.needs
    reads: ClassVar[frozenset[str]] = CArBO.reads

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """As CArBO during the initial design, then as `then`."""
        policy = CArBO() if belief.ledger.used < CArBO().share else self.then
        return policy.propose(belief, rng)


@dataclass(frozen=True)
class Frozen:
    """A transferred cost model that learns nothing here."""

    transfer: Transfer

    def fit(self, evidence: Evidence) -> CostModel | None:
        """The model before the first cost of this task."""
        none = evidence._replace(X=evidence.X[:0], cost=evidence.cost[:0])
        return self.transfer.fit(none._replace(at_least=evidence.at_least[:0]))


@dataclass(frozen=True)
class AsPrinted:
    """A policy without what Farthing adds to it."""

    policy: Policy

    @property
    def needs(self) -> frozenset[str]:
        """As the policy; no model, since it has its own start."""
        return self.policy.needs - {"model"}

    @property
    def reads(self) -> frozenset[str]:
        """As the policy, and the model that it needs."""
        return self.policy.reads | (self.policy.needs & {"model"})

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The proposal of the policy, with its predicted cost, so that nothing is added to it."""
        if len(belief.history) < FIRST or belief.objective is None:
            chosen = Proposal(belief.space.sample(1, rng)[0], "a uniform point")
        else:
            chosen = self._printed(belief, rng)
        if chosen.x is None:
            return chosen
        return replace(chosen, predicted=belief.predicted(chosen.x))

    def _printed(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        belief = keeping_fantasies(belief)
        policy, free = self.policy, replace(belief, ledger=unlimited(belief.ledger))
        match policy:
            case Covered() if belief.ledger.used >= CArBO().share:
                return replace(self, policy=policy.then)._printed(belief, rng)
            case Covered():
                return replace(self, policy=CArBO())._printed(belief, rng)
            case CArBO() if belief.ledger.used < policy.share:
                return CostEffectiveDesign(greedy=policy.greedy).propose(free, rng)
            case CArBO() | Cooling():
                return EIPerCost(alpha=exponent(belief)).propose(free, rng)
            case Rollout():  # the budget is a part of this method
                return replace(policy, unaffordable="truncate").propose(belief, rng)
            case _:
                return policy.propose(free, rng)


def unlimited(ledger: Ledger) -> Ledger:
    """The accounts without their limits: everything is affordable, and P(c <= left) is 1."""
    return Ledger(tuple((name, Account(math.inf, ledger[name].spent)) for name in ledger))


def keeping_fantasies(belief: Belief) -> Belief:
    """The belief with the fantasies of Lee et al. 2020, algorithm 3.

    Y^(i) <- Y^(i) + {y}, y ~ N(mean, std^2) at the j-th pending point given X and Y^(i). The random
    numbers are those of the batch, so that the next member finds the same values here.
    """
    pending = belief.history.points("running")
    plain = belief.without_running()
    if plain.objective is None or not len(pending):
        return belief
    first = belief.history.running[0].number
    rng = np.random.default_rng([belief.seed, first, FANTASIES])
    gp, best = plain.objective, np.repeat(plain.best, FANTASIES)
    for x in pending:
        mean, std = gp.at(x[None])
        y = mean[0] + std[0] * rng.standard_normal(FANTASIES)
        gp, best = gp.condition(x, y), np.minimum(best, y)
    return replace(belief, objective=gp, best=best)
