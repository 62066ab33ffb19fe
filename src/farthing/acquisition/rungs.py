"""The coming rungs of new and paused trainings: what they cost, and what they reveal.

A new training pays the start-up, and for each step the rate that the cost model predicts. A paused
one pays what resuming costs (`Steps.resume`), and for each step its own rate. Only the next rung
has to be affordable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.staged_index import index_bounds, revealed, staged_index
from farthing.budget.units import format_amount
from farthing.cost.part import PartCost, rate_of
from farthing.history import Trial
from farthing.models.gp import GP, Normal
from farthing.models.normal import expected_cost

__all__ = [
    "Chains",
    "chains_of",
    "described",
    "first_part",
    "indices",
    "new_chains",
    "paused_chains",
    "paused_part",
    "paused_trainings",
    "proposal_of",
    "rest_of",
    "resume_cost",
    "some_points",
    "whole_cost",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LEAST_LOG_P = -20.0  # lower bound of a log probability, so that a price stays finite
SOME = 64  # trials for a median cost
OWN_SPREAD = 0.05  # sd of ln c of the next rung of a training whose rate is known


class Chains(NamedTuple):
    """The coming rungs of m trainings at the same rung; costs in one unit, values in units of z.

    Attributes:
        x: (m, d) their configurations.
        trials: (m,) their numbers; -1 for new ones.
        rung: the next rung, counted from 0.
        mean: (m,) expected final values, the mean over fantasies.
        std: (m,) standard deviations of the final values.
        cost: (m, J) what the coming rungs cost, over P(it returns a value and is feasible).
        affordable: (m,) whether the next rung is.
        next: ln c of the next rung for every resource, (m,) each.
    """

    x: Array
    trials: Ints
    rung: int
    mean: Array
    std: Array
    cost: Array
    affordable: Bools
    next: dict[str, Normal]

    def take(self, keep: Array | Ints | Bools) -> Chains:
        """Some of them."""
        chosen = {name: Normal(m[keep], s[keep]) for name, (m, s) in self.next.items()}
        return Chains(
            self.x[keep],
            self.trials[keep],
            self.rung,
            self.mean[keep],
            self.std[keep],
            self.cost[keep],
            self.affordable[keep],
            chosen,
        )

    def bounds(self, rate: float) -> tuple[Array, Array]:
        """A lower and an upper bound of the index at an exchange rate, (m,) each."""
        first, total = rate * self.cost[:, 0], rate * self.cost.sum(axis=1)
        return index_bounds(self.mean, self.std, first, total)


def first_part(belief: Belief, until: int | None = None) -> Belief:
    """The belief for the search of a new training: its costs are those of the first rung.

    With `until`, they are those of the steps up to that one.

    The objective is the final value, in units of the model of the learning curves.
    """
    trainings, steps = belief.trainings, belief.steps
    assert steps is not None
    rungs = steps.decision_steps if trainings is None else trainings.rungs
    share = (until or rungs[0]) / steps.last
    cost = {
        resource: replace(model, share=share) if isinstance(model, PartCost) else model
        for resource, model in belief.cost.items()
    }
    if trainings is None:
        return replace(belief, cost=cost)
    # A FinalValue has the methods of a GP that a search needs.
    objective = cast(GP, trainings.curves.new)
    return replace(belief, cost=cost, objective=objective, best=trainings.best)


def resume_cost(belief: Belief, trial: Trial, resource: str) -> float:
    """What resuming a paused training costs before its next step.

    Nothing if its process waits, or if it has no checkpoint and starts again.
    """
    steps = belief.steps
    assert steps is not None
    if isinstance(steps.resume, str) or resource != belief.ledger.resources[0]:
        return 0.0
    return 0.0 if trial.run.waits or trial.starts_again else float(steps.resume)


def _since(trial: Trial) -> int:
    """The step from which a paused training goes on: 0 if its checkpoint was deleted."""
    return 0 if trial.starts_again else trial.step


def paused_trainings(belief: Belief) -> list[Trial]:
    """The paused trainings that can go on: their checkpoint is here, or their process waits."""
    steps = belief.steps
    assert steps is not None
    return [
        trial
        for trial in belief.history.having("paused")
        if trial.curve
        and trial.step < steps.last
        and (trial.run.waits or (steps.has_checkpoints and not trial.run.elsewhere))
    ]


def paused_chains(belief: Belief) -> list[Chains]:
    """The coming rungs of the paused trainings, grouped by their next rung.

    A training whose values are left out of the model does not go on: it would look as uncertain as
    one that has not run, and so as promising.
    """
    trainings = belief.trainings
    assert trainings is not None
    groups: dict[int, list[Trial]] = {}
    for trial in paused_trainings(belief):
        if trainings.left_out[trainings.place[trial.number]]:
            continue
        groups.setdefault(trainings.rung_after(trial.step), []).append(trial)
    if not groups:
        return []
    mean, std = trainings.curves.final()
    found = []
    for rung, trials in sorted(groups.items()):
        own = np.array([trainings.place[t.number] for t in trials])
        found.append(chains_of(belief, trials, rung, mean[own].mean(axis=1), std[own]))
    return found


def chains_of(belief: Belief, trials: list[Trial], rung: int, mean: Array, std: Array) -> Chains:
    """The coming rungs of trainings that have reached the same rung, by the rate of each.

    Args:
        rung: the next one, counted from 0.
        mean: (m,) expected final values.
        std: (m,) their standard deviations.
    """
    assert belief.trainings is not None
    steps = np.array(belief.trainings.rungs[rung:], dtype=np.float64)
    reached = np.array([_since(t) for t in trials], dtype=np.float64)
    ahead = np.column_stack([steps[0] - reached, np.tile(np.diff(steps), (len(trials), 1))])
    costs = {r: _own_costs(belief, trials, r, ahead) for r in belief.cost}
    first = {r: np.log(np.maximum(c[:, 0], 1e-300)) for r, c in costs.items()}
    spread = np.full(len(trials), OWN_SPREAD)
    following = {r: Normal(m, spread) for r, m in first.items()}
    price, affordable = ahead, np.ones(len(trials), dtype=np.bool_)
    if costs:
        normals = list(following.values())
        affordable = belief.shortfall(normals, belief.left)[0][0] <= 0
        which = belief.one_cost(normals, belief.left)[1][0]
        in_one = np.array([c / _unit(belief, r) for r, c in costs.items()])
        price = in_one[which, np.arange(len(trials))]
    numbers, X = np.array([t.number for t in trials]), np.array([t.x for t in trials])
    if belief.feasibility:
        price = price * np.exp(-np.maximum(belief.log_feasible(X), LEAST_LOG_P))[:, None]
    return Chains(X, numbers, rung, mean, std, price, affordable, following)


def _unit(belief: Belief, resource: str) -> float:
    """The amount that counts as 1: costs of several resources are shares of what is left."""
    if belief.unit is not None or len(belief.cost) == 1:
        return 1.0
    return max(belief.ledger[resource].left, 1e-300)


def _own_costs(belief: Belief, trials: list[Trial], resource: str, ahead: Array) -> Array:
    """(m, J) what the coming rungs cost, by the rate of each training itself."""
    model = belief.cost[resource]
    startup = model.startup if isinstance(model, PartCost) else 0.0
    rates = [rate_of(t.step, t.curve[-1].cost, resource, startup) for t in trials]
    cost = np.array(rates)[:, None] * ahead
    cost[:, 0] += [resume_cost(belief, trial, resource) for trial in trials]
    return cost


def some_points(belief: Belief) -> Array:
    """(k, d) at most 64 points of the history, evenly spread: enough for a median cost."""
    X = belief.history.X
    return np.asarray(X[np.linspace(0, len(X) - 1, min(len(X), SOME)).round().astype(np.int64)])


def whole_cost(belief: Belief, X: Array) -> Array:
    """(m,) the expected cost of a whole training at X (m, d); its steps if no costs are known."""
    if not belief.cost:
        assert belief.steps is not None
        return np.full(len(X), float(belief.steps.last))
    return np.exp(expected_cost(*belief.costs(X)[0], np.inf))


def new_chains(belief: Belief, X: Array) -> Chains:
    """The coming rungs of new trainings at X (m, d)."""
    trainings, steps = belief.trainings, belief.steps
    assert trainings is not None
    assert steps is not None
    part = first_part(belief)
    outlook = part.outlook(X)
    rungs = np.array(trainings.rungs, dtype=np.float64)
    first = np.full(len(X), rungs[0])
    if belief.cost:
        first = np.exp(expected_cost(*outlook.cost, outlook.cap))
    whole = whole_cost(belief, X)
    # After the first rung the start-up is paid: the other rungs cost what is left of the whole.
    shares = np.diff(rungs) / (rungs[-1] - rungs[0])
    rest = np.maximum(whole - first, 0.0)[:, None] * shares
    price = (
        np.column_stack([first, rest])
        * np.exp(-np.maximum(outlook.log_success, LEAST_LOG_P))[:, None]
    )
    return Chains(
        X,
        np.full(len(X), -1),
        0,
        outlook.mean.mean(axis=1),
        outlook.std,
        price,
        outlook.shortfall <= 0,
        {r: model.log_at(X) for r, model in part.cost.items()},
    )


def indices(belief: Belief, groups: Sequence[Chains], rate: float) -> list[Array]:
    """The staged Gittins indices of each group, in units of z.

    Args:
        rate: the exchange rate, in units of z per unit of cost.
    """
    trainings = belief.trainings
    assert trainings is not None
    J = len(trainings.rungs)
    sizes = [len(chains.mean) for chains in groups]
    sigma, price = np.zeros((sum(sizes), J)), np.zeros((sum(sizes), J))
    at = 0
    for chains, size in zip(groups, sizes, strict=True):
        own = None
        if size and chains.trials[0] >= 0:
            own = np.array([trainings.place[int(number)] for number in chains.trials])
        _, covariance, noise = trainings.curves.coming(chains.x, chains.rung, own)
        rows = slice(at, at + size)
        sigma[rows, chains.rung :] = revealed(covariance, noise + np.zeros(covariance.shape[:2]))
        price[rows, chains.rung :] = rate * chains.cost
        at += size
    mean = np.concatenate([chains.mean for chains in groups])
    rungs = np.repeat([J - chains.rung for chains in groups], sizes)
    found = staged_index(mean, sigma, price, rungs)
    return np.split(found, np.cumsum(sizes)[:-1])


def described(belief: Belief, chains: Chains, k: int) -> str:
    """What training k of these does next, its expected final value and its cost."""
    trainings = belief.trainings
    assert trainings is not None
    expected = trainings.described(float(chains.mean[k]), float(chains.std[k]), belief.sign)
    until, number = trainings.rungs[chains.rung], int(chains.trials[k])
    text = f"a new training to step {until}"
    if number >= 0:
        text = f"trial {number} goes on from step {belief.history[number].step} to {until}"
    best = belief.sign * trainings.value
    text += f": expected final value {expected}, best so far {best:.4g}"
    for resource, (m, s) in chains.next.items():
        left = max(belief.ledger[resource].left, 1e-300)
        cost = float(np.exp(expected_cost(m[k], s[k], left)))
        text += f", for about {format_amount(resource, cost)}"
    return text


def rest_of(belief: Belief, trial: Trial) -> str:
    """The remaining steps of a paused training and their cost, such as "12 steps, about $1.20"."""
    steps = belief.steps
    assert steps is not None
    left = steps.last - trial.step
    text = f"{left} step{'' if left == 1 else 's'}"
    ahead = np.array([[float(steps.last - _since(trial))]])
    for resource in belief.cost if trial.curve else ():
        cost = _own_costs(belief, [trial], resource, ahead)[0, 0]
        text += f", about {format_amount(resource, float(cost))}"
    return text


def paused_part(belief: Belief, trial: Trial, until: int, because: str) -> Proposal | None:
    """The proposal to run a paused training to a step; None if that is not affordable."""
    ahead = np.array([[float(until - _since(trial))]])
    costs = [_own_costs(belief, [trial], resource, ahead)[0] for resource in belief.cost]
    spread = np.full(1, OWN_SPREAD)
    predicted = {
        resource: Normal(np.log(np.maximum(cost, 1e-300)), spread)
        for resource, cost in zip(belief.cost, costs, strict=True)
    }
    if predicted and belief.shortfall(list(predicted.values()), belief.left)[0][0, 0] > 0:
        return None
    return Proposal(trial.x, because, predicted=predicted, resume=trial.number, until=until)


def proposal_of(
    belief: Belief, chains: Chains, k: int, because: str, score: float, **more: object
) -> Proposal:
    """The proposal to run training k of these for one rung."""
    trainings = belief.trainings
    assert trainings is not None
    number = int(chains.trials[k])
    predicted = {r: Normal(m[k : k + 1], s[k : k + 1]) for r, (m, s) in chains.next.items()}
    return Proposal(
        chains.x[k],
        because,
        score,
        predicted=predicted,
        resume=None if number < 0 else number,
        until=trainings.rungs[chains.rung],
        **more,  # type: ignore[arg-type]
    )
