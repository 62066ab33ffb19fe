"""The initial design: the trials before there is a model, and the call of a policy after it.

Costs are unknown at first and may span decades. The points are therefore, in this order:

1. the configurations that the user gives (`start=`)
2. the middle of the space, or the side declared cheap by `Float(..., cost="increases")`
3. points near the first one, while no cost model exists; after a kill, points far from it
4. the cheaper of two uniform draws that are predicted to stay within the cap below. (The cheapest
   of many draws would never explore a region that is expensive and good.)

Each categorical parameter takes the option that was tried least often.

With earlier studies (`learn_from=`), their portfolio (portfolio.py) comes after 1, while they are
trusted. Its first point is followed by point 2 of this list, unless the user gave a point. Other
points follow the list.

The cap on the cost of one trial, as a share of the budget:

    1/3 until a trial has ended: no constant cost is killed if the budget pays for three trials
    1/10 once a trial has returned a value; doubled for each trial killed since the last value
    all trials of the design together: 1/4, except for a first trial that uses more
    all that is left, if three trials were killed and none returned a value: the budget pays for a
        few evaluations at most
    more than 1/10, if trials that returned a value cost about that much (`_cap_from_costs`)
    near a killed trial: twice what that one had cost, or the trial does not start
    the user's bound, if there is one (`max_cost`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import START, START_SHARE, Z_AFFORDABLE, Belief
from farthing.acquisition.portfolio import ranked
from farthing.acquisition.protocols import Policy, Proposal, checked_proposal
from farthing.acquisition.rungs import first_part
from farthing.acquisition.search import Rated, is_among, maximise, untried
from farthing.acquisition.trainings import is_staged
from farthing.errors import InvalidInput
from farthing.space.space import Space

__all__ = [
    "DRAWS",
    "MOST_POINTS",
    "batch_cap",
    "cap",
    "check_enqueued",
    "first_allowed",
    "first_enqueued",
    "first_given",
    "propose",
    "start",
]

Array = NDArray[np.float64]

DRAWS = 64  # random points to check before a search for an affordable point starts
# Shares of the budget: the most that one trial of the design may cost
FIRST_CAP = 1 / 3  # until a trial has ended
CAP = 1 / 10  # once a trial has returned a value
MIN_CAP = 1 / 20  # if all trials of the design together would exceed DESIGN_SHARE
DESIGN_SHARE = 1 / 4
# Compared with the trials that returned a value, the next one may cost TWICE as much, but at most
# USUAL_SHARE of the budget and what is left of DESIGN_SHARE. It may always cost MORE times as much,
# because measured times vary. A trial near a killed one may cost TWICE what that one had cost.
TWICE, MORE = 2.0, 1.5
NEAR = 0.25  # in the unit cube, for every number; the options are the same
USUAL_SHARE = 3 / 20
MAX_KILLED = 3  # trials killed without any value: the next one may use all that is left
CHEAP_SIDE = 0.1  # in the unit cube: the first value of a parameter that raises the cost
REACH = 0.25  # in the unit cube: half the width of the box for the second point; doubles each time
MOST_POINTS = 2**16  # list the points of a finite space up to this size


def propose(
    policy: Policy,
    belief: Belief,
    rng: np.random.Generator,
    given: Sequence[Mapping[str, Any]] = (),
) -> Proposal:
    """The next proposal, with the predicted cost.

    It is the first of the given points, else a point of the initial design if the policy needs a
    model and there is none, else the proposal of the policy. If the policy predicts no cost for a
    part of a training, it is the part's share of the steps.

    Args:
        given: configurations that the user wants to be evaluated first (`start=`).
    """
    by_steps = "steps" in policy.needs and is_staged(belief.steps)
    first = first_part(belief) if by_steps and belief.trainings is None else belief
    proposal = first_given(first, given)
    if proposal is None:
        known = belief.trainings if by_steps else belief.objective
        lacks_model = "model" in policy.needs and known is None
        proposal = start(first, rng) if lacks_model else policy.propose(belief, rng)
        proposal = checked_proposal(policy, proposal, belief.space.d)
        if proposal.predicted:  # a nested policy already called `propose`
            return proposal
        # A policy of a user may not look at what is left.
        if proposal.x is not None and belief.costs(proposal.x[None])[1][0] > 0:
            because = f"{proposal.because}; that point is too expensive, so another one is taken"
            x = first_allowed(belief, belief.space.sample(DRAWS, rng), rng)
            proposal = replace(proposal, x=x, because=because)
    x, because = proposal.x, proposal.because
    if x is None:
        x, because = left_over(belief, rng), "one of the few untried configurations"
    if x is None:
        return proposal
    because = "; ".join(filter(None, [because, belief.about_costs()]))
    if by_steps and proposal.resume is None:
        assert belief.steps is not None
        until = proposal.until or belief.steps.decision_steps[0]
        first = first_part(belief, until)
        return replace(proposal, x=x, because=because, predicted=first.predicted(x), until=until)
    predicted = belief.predicted(x)
    if belief.steps is not None and proposal.until is not None:
        since = 0 if proposal.resume is None else belief.history[proposal.resume].step
        share = np.log((proposal.until - since) / belief.steps.last)
        predicted = {r: cost._replace(mean=cost.mean + share) for r, cost in predicted.items()}
    return replace(proposal, x=x, because=because, predicted=predicted)


def start(belief: Belief, rng: np.random.Generator) -> Proposal:
    """The next point of the initial design."""
    number, space, most = len(belief.history), belief.space, cap(belief)
    first, drawn = first_point(space), space.sample(DRAWS, rng)
    # Good configurations alone cannot show whether the earlier studies rank well.
    contrast = number > 0 and all("portfolio" in trial.notes for trial in belief.history)
    if not contrast and (known := _known_to_be_good(belief, first, most)) is not None:
        return known
    if (not number or contrast) and not is_among(first[None], belief.tried).any():
        because, X = "the middle of the space", np.concatenate([first[None], drawn])
        if any(getattr(p, "cost", None) for p in space.parameters.values()):
            because = "the side of the space that is declared cheap"
    elif not belief.cost and not belief.history.having("killed"):
        because = "near the first point, because costs are unknown so far"
        X = around(space, first, min(REACH * 2.0 ** (number - 1), 1.0), rng)
    elif not belief.cost:
        because, X = "far from the trial that was killed, because costs are unknown so far", drawn
    else:
        because, X = "the cheaper of two uniform draws within the cost cap", drawn
    if number:
        X = _least_tried_options(belief, X, rng)
    X = _far_from_kills_first(belief, _within_cap_first(belief, X, most))
    x = first_allowed(belief, X, rng) if len(X) else None
    because += f" (point {number + 1} of {START} of the initial design)" * (number < START)
    if x is not None:  # a point that is known to cost more than the cap may cost that much
        for resource, (mean, std) in belief.predicted(x).items():
            if resource in most and (std[0] == 0 or belief.history.done):
                expected = float(np.exp(mean[0] + Z_AFFORDABLE * std[0]))
                most[resource] = max(most[resource], expected)
        most = {r: _above_kills_near(belief, x, r, limit) for r, limit in most.items()}
    notes: dict[str, Any] = {"phase": "start"}
    return Proposal(x, because, notes=notes | ({"limit": most} if most else {}))


def _known_to_be_good(belief: Belief, first: Array, most: dict[str, float]) -> Proposal | None:
    """The best configuration of the earlier studies that is affordable, untried and within caps."""
    X, shares = ranked(belief, first)
    if not len(X):
        return None
    known = belief.history.X.reshape(-1, belief.space.d)
    allowed = (belief.costs(X)[1] <= 0) & ~is_among(X, known) & ~_over(belief, X, most)
    if not allowed.any():
        return None
    k = int(np.argmax(allowed))
    assert belief.prior is not None
    names = [model.name for model in belief.prior.models]
    who = {name: float(share) for name, share in zip(names, shares[k], strict=True) if share > 0}
    because = (
        f"good for its cost in earlier studies: {', '.join(sorted(who, key=lambda n: -who[n]))}"
    )
    notes: dict[str, Any] = {"phase": "start", "portfolio": who}
    return Proposal(X[k], because, notes=notes | ({"limit": most} if most else {}))


def _above_kills_near(belief: Belief, x: Array, resource: str, limit: float) -> float:
    """The limit at x, or twice what a killed trial near x had cost, if that is left."""
    for trial in belief.history.having("killed"):
        if _is_near(belief.space, x[None], trial.x)[0]:
            more = TWICE * trial.cost.get(resource, 0.0)
            limit = max(limit, min(more, belief.ledger[resource].left))
    return limit


def _is_near(space: Space, X: Array, x: Array) -> NDArray[np.bool_]:
    """(m,) whether points have the options of x and numbers close to those of x."""
    gap = np.where(space.categorical, x != X, np.abs(X - x))
    return np.asarray(gap.max(axis=1) <= NEAR)


def _far_from_kills_first(belief: Belief, X: Array) -> Array:
    """X with the points near a killed trial last, if its cost is left, or else without them."""
    near, barred = np.zeros(len(X), dtype=bool), np.zeros(len(X), dtype=bool)
    for trial in belief.history.having("killed"):
        here = _is_near(belief.space, X, trial.x)
        near |= here
        limited = (r for r in belief.ledger.limited_resources if r in trial.cost)
        if any(trial.cost[r] >= belief.ledger[r].left for r in limited):
            barred |= here
    return np.asarray(np.concatenate([X[~near], X[near & ~barred]]))


def cap(belief: Belief) -> dict[str, float]:
    """The most that a trial of the initial design may cost, by limited resource."""
    bounds = {r: bound for r, bound in belief.max_cost.items() if r in belief.ledger}
    returned = [trial.number for trial in belief.history.done]
    last = max(returned, default=-1)
    killed = sum(trial.number > last for trial in belief.history.having("killed"))
    share_left = DESIGN_SHARE - belief.ledger.used
    if killed and returned and len(belief.history) < START - 1:
        share_left -= MIN_CAP  # for the next trial, in case this one is killed, too
    share = min((CAP if returned else FIRST_CAP) * 2.0**killed, max(share_left, MIN_CAP))
    if not returned and (not killed or killed >= MAX_KILLED):
        share = 1.0 if killed else FIRST_CAP
    accounts = {name: belief.ledger[name] for name in belief.ledger.limited_resources}
    caps = {
        name: max(share * account.limit, _cap_from_costs(belief, name, share_left))
        for name, account in accounts.items()
    }
    return {name: min(most, accounts[name].left) for name, most in (caps | bounds).items()}


def batch_cap(belief: Belief, resource: str) -> float:
    """The most to reserve for one of several trials of unknown cost, so that a batch may start.

    All of it for the first, then what is left of 1/4 of the budget, but at least 1/20.
    """
    account = belief.ledger[resource]
    if not account.reserved:
        return account.left
    share = max(DESIGN_SHARE - belief.ledger.used, MIN_CAP)
    return min(share * account.limit, account.left)


def _cap_from_costs(belief: Belief, resource: str, share_left: float) -> float:
    """min(2 c, max(min(3/20, share_left) limit, 1.1 c)), c the lower median cost of trials done.

    If the budget pays for a dozen trials only, a tenth of it is too little for one.
    """
    costs = sorted(trial.cost.get(resource, 0.0) for trial in belief.history.done)
    if not costs:
        return 0.0
    usual = costs[(len(costs) - 1) // 2]
    allowed = min(USUAL_SHARE, share_left) * belief.ledger[resource].limit
    return min(TWICE * usual, max(allowed, MORE * usual))


def first_point(space: Space) -> Array:
    """The middle of the cube (d,), or the side that is declared cheap."""
    side = {None: 0.5, "increases": CHEAP_SIDE, "decreases": 1.0 - CHEAP_SIDE}
    x = [side[getattr(parameter, "cost", None)] for parameter in space.parameters.values()]
    return np.asarray(space.snap(np.array([x]))[0])


def around(space: Space, x: Array, reach: float, rng: np.random.Generator) -> Array:
    """(DRAWS, d) points in a box of half-width `reach` around x.

    An option is drawn anew with probability `reach`.
    """
    X = x + reach * rng.uniform(-1.0, 1.0, (DRAWS, space.d))
    changed = space.categorical & (rng.random((DRAWS, space.d)) < reach)
    return space.snap(
        np.where(changed, rng.random((DRAWS, space.d)), np.where(space.categorical, x, X))
    )


def _least_tried_options(belief: Belief, X: Array, rng: np.random.Generator) -> Array:
    """X with every categorical parameter set to one of its least tried options.

    One option says nothing about the others. A model that never saw the option change would take
    the parameter for irrelevant.
    """
    space, known = belief.space, belief.history.X
    active, X = space.active(known), X.copy()
    for j in np.flatnonzero(space.categorical):
        count = int(space.options[j])
        tried = np.minimum((known[active[:, j], j] * count).astype(np.int64), count - 1)
        times = np.bincount(tried, minlength=count)
        X[:, j] = (rng.choice(np.flatnonzero(times == times.min()), len(X)) + 0.5) / count
    return space.snap(X)


def _within_cap_first(belief: Belief, X: Array, most: Mapping[str, float]) -> Array:
    """X in order of preference: points within the cap, then the others by increasing cost.

    The cheaper of the first two points within the cap comes first.
    """
    over = _over(belief, X, most)
    over |= belief.ledger.spent_share >= START_SHARE  # the share is spent: cheapest first
    cost = belief.costs(X)[0].mean
    order = np.lexsort((np.arange(len(X)), np.where(over, cost, 0.0), over))
    if belief.cost and not over[order[1]] and cost[order[1]] < cost[order[0]]:
        order[:2] = order[1], order[0]
    return np.asarray(X[order])


def _over(belief: Belief, X: Array, most: Mapping[str, float]) -> NDArray[np.bool_]:
    """(m,) whether points are predicted to cost more than the cap."""
    over = np.zeros(len(X), dtype=bool)
    for resource, model in belief.cost.items():
        if resource in most:
            mean, std = model.log_at(X)
            over |= mean + Z_AFFORDABLE * std > np.log(max(most[resource], 1e-300))
    return over


def first_given(belief: Belief, given: Sequence[Mapping[str, Any]]) -> Proposal | None:
    """The first given configuration, completed, that is affordable and not in the history."""
    if not given:
        return None
    base = first_point(belief.space)
    X = np.array([belief.space.completed(params, base) for params in given])
    # Not `belief.tried`: for a noisy objective it omits the points that may be repeated.
    known = belief.history.X.reshape(-1, belief.space.d)
    allowed = (belief.costs(X)[1] <= 0) & ~is_among(X, known)
    if not allowed.any():
        return None
    k = int(np.argmax(allowed))
    because = f"point {k + 1} of {len(X)} that the user gave to start with"
    return Proposal(X[k], because, notes={"phase": "start"})


def first_enqueued(
    belief: Belief, proposal: Proposal, queue: Sequence[tuple[Mapping[str, Any], str]]
) -> Proposal | None:
    """The first affordable configuration of the queue; the proposal supplies missing parameters.

    Args:
        proposal: the point to evaluate if the queue were empty.
        queue: all or some of the parameters, and the reason why the user enqueued them, or "".
    """
    base = first_point(belief.space) if proposal.x is None else proposal.x
    for params, why in queue:
        x = belief.space.completed(params, base)
        if belief.costs(x[None])[1][0] > 0:
            continue
        listed = ", ".join(f"{name}={value}" for name, value in params.items())
        because = why or f"enqueued by the user: {listed}"
        if set(belief.space.decode(x)) - set(params) and proposal.x is not None:
            because += f"; the other parameters: {proposal.because}"
        notes: dict[str, Any] = {"given": dict(params)}
        notes |= {"phase": "start"} if belief.objective is None else {}
        return Proposal(x, because, predicted=belief.predicted(x), notes=notes)
    return None


def check_enqueued(space: Space, params: Mapping[str, Any]) -> None:
    """Raise InvalidInput unless some point of the space has these parameters."""
    if not isinstance(params, Mapping) or not params:
        raise InvalidInput(
            f"Cannot enqueue {params!r}: expected a mapping of parameter names to values, such as "
            f"{{{space.names[0]!r}: ...}}."
        )
    decoded = space.decode(space.completed(params, first_point(space)))
    for name in params:
        when = space.parameters[name].when
        if when is not None and (name not in decoded or not set(when) <= set(params)):
            raise InvalidInput(
                f"Parameter {name!r} is only active when {dict(when)}. Pass that condition, too, "
                f"or leave {name!r} out."
            )


def first_allowed(belief: Belief, X: Array, rng: np.random.Generator) -> Array | None:
    """The first affordable and untried point of X, else any such point of the space, or None."""
    allowed = (belief.costs(X)[1] <= 0) & ~is_among(X, belief.tried)
    if allowed.any():
        return np.asarray(X[np.argmax(allowed)])
    tried, near = belief.tried, np.empty((0, belief.space.d))
    found = maximise(_Flat(belief), belief.space, rng, tried=tried, near=near)
    if not len(found.X):
        return left_over(belief, rng)
    return np.asarray(found.X[rng.integers(len(found.X))])


def left_over(belief: Belief, rng: np.random.Generator) -> Array | None:
    """A random affordable, untried point of a finite space, if at least half of it was tried.

    A search that samples some points may miss the few that are left.
    """
    points = belief.space.points(MOST_POINTS)
    if points is None or len(points) > 2 * len(belief.tried):
        return None
    points = untried(points, belief.tried)
    if len(points):
        points = points[belief.costs(points)[1] <= 0]
    return np.asarray(points[rng.integers(len(points))]) if len(points) else None


@dataclass(frozen=True)
class _Flat:
    """A surface with score 0 everywhere: the search only looks for affordable points."""

    belief: Belief

    def at(self, X: Array) -> Rated:
        return Rated(np.zeros(len(X)), self.belief.costs(X)[1])

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        _, shortfall, _, _, d_shortfall = self.belief.cost_slopes(X)
        return Rated(np.zeros(len(X)), shortfall), np.zeros(np.shape(X)), d_shortfall
