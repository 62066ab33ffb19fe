"""The start: what is evaluated while there is no model yet, and how a policy is asked.

Nothing is known of costs at first, and they may span decades. So the start begins in the middle of
the space, or on the side that is said to be cheap (`Float(..., cost="increases")`), goes on next to
it, and takes the cheaper of two uniform draws that are predicted to be cheap enough once costs are
known. (The cheapest of many would never see what is dear and good.) Of every categorical it takes
the option that was asked least. A trial of the start may cost
at most a fifth of the budget while none has returned a value, a tenth once one has, twice as much
each time one was killed since, and all of them together a quarter. Where three were killed and none
has returned a value, the budget is for a few evaluations at most, and the next may use all of it.
Where some have, and a tenth is less than they use to cost, the next may cost what they do and some
more. What the user gives (`start=`) comes before all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import START, START_SHARE, Z_AFFORDABLE, Belief
from farthing.acquisition.protocols import Policy, Proposal
from farthing.acquisition.search import Rated, is_among, maximise, sobol, untried
from farthing.errors import InvalidInput
from farthing.models.normal import log_ei
from farthing.space.space import Space

__all__ = [
    "DRAWS",
    "MOST_POINTS",
    "cap",
    "check_wanted",
    "first_allowed",
    "first_given",
    "propose",
    "start",
    "wanted",
]

Array = NDArray[np.float64]

DRAWS = 64  # points looked at before anything cleverer is done to find an affordable one
FIRST_CAP = 1 / 5  # of the budget: the most that a trial of the start may cost while none has
CAP = 1 / 10  # returned a value, and once one has; twice as much after each kill,
LEAST_CAP = 1 / 20  # or half of that,
ALL = 1 / 4  # where all of them together would cost more
# Where a tenth is less than those cost that returned a value, twice as much as they, but no more
# than this part of the budget and what is left of ALL; where that is less, a tenth more than they.
TWICE, MORE = 2.0, 1.1
LITTLE = 3 / 20
HOPELESS = 3  # killed, and no value yet: evaluations are long against the budget, one must do
CHEAP_SIDE = 0.1  # of the cube: where it is said to be cheap
REACH = 0.25  # half the box around the first point that the second is in; it doubles with each
SPREAD = 256  # points over the whole space, to look where nothing was tried
EVERY = 4  # trials, at most one of them explores
MOST_POINTS = 2**16  # of a finite space that are listed, to find the last of them
NOTHING = 1e-3  # of the data's scale: an expected improvement below this is next to nothing


def propose(
    policy: Policy,
    belief: Belief,
    rng: np.random.Generator,
    given: Sequence[Mapping[str, Any]] = (),
) -> Proposal:
    """What was given, the start if the policy needs a model, or its proposal; with its cost."""
    proposal = first_given(belief, given)
    if proposal is None:
        waits = "model" in policy.needs and belief.objective is None
        proposal = start(belief, rng) if waits else policy.propose(belief, rng)
        if proposal.predicted:  # another policy's, which came through here already
            return proposal
        if is_spent(belief, proposal):
            proposal = explore(belief) or proposal
    x, because = proposal.x, proposal.because
    if x is None:
        x, because = left_over(belief, rng), "one of the few configurations that are left"
    if x is None:
        return proposal
    because = "; ".join(filter(None, [because, belief.about_costs()]))
    return replace(proposal, x=x, because=because, predicted=belief.predicted(x))


def is_spent(belief: Belief, proposal: Proposal) -> bool:
    """Whether the model promises next to nothing, and was believed the last few times.

    A model that is sure of itself polishes one optimum for ever: where it has learnt that a
    parameter does not matter, it never looks again whether it does.
    """
    if proposal.x is None or belief.objective is None or belief.history.running:
        return False
    if any(trial.notes.get("phase") == "explore" for trial in belief.history.trials[-EVERY + 1 :]):
        return False
    mean, std = belief.objective.at(proposal.x[None])
    promised = np.logaddexp.reduce(log_ei(mean[0], std[0], belief.best))
    return bool(promised - np.log(len(belief.best)) < np.log(NOTHING * belief.scale))


def explore(belief: Belief) -> Proposal | None:
    """The affordable point farthest from what was tried, among the cheaper half of a Sobol set."""
    space = belief.space
    # Columns go by name, so that permuted parameters have the same set.
    column = np.argsort(np.argsort(space.names))
    X = space.spread(sobol(SPREAD, space.d)[:, column])
    cost, shortfall = belief.costs(X)
    allowed = (shortfall <= 0) & ~is_among(X, belief.tried)
    if not allowed.any():
        return None
    X, price = X[allowed], cost.mean[allowed]
    X = X[price <= np.median(price)]
    farthest = int(np.argmax([_gap(x, belief.history.X, space.categorical) for x in X]))
    because = "far from what was tried: the model promises next to nothing anywhere"
    return Proposal(X[farthest], because, notes={"phase": "explore"})


def _gap(x: Array, known: Array, categorical: NDArray[np.bool_]) -> float:
    """The squared distance of x (d,) from the nearest of the points known; options differ by 1."""
    apart = np.where(categorical, x != known, np.abs(x - known))
    return float((apart**2).sum(axis=1).min())


def start(belief: Belief, rng: np.random.Generator) -> Proposal:
    """One of the first points: a model needs something to learn from."""
    number, space, most = len(belief.history), belief.space, cap(belief)
    first, drawn = first_point(space), space.sample(DRAWS, rng)
    if not number and not is_among(first[None], belief.tried).any():
        because, X = "the middle of the space", np.concatenate([first[None], drawn])
        if any(getattr(p, "cost", None) for p in space.parameters.values()):
            because = "the side of the space that is said to be cheap"
    elif not belief.cost:
        because = "near the first point, because nothing is known of costs yet"
        X = around(space, first, min(REACH * 2.0 ** (number - 1), 1.0), rng)
    else:
        because, X = "the cheaper of two uniform draws, both cheap enough for a start", drawn
    if number:
        X = _other_options(belief, X, rng)
    X = _within_first(belief, X, most)
    x = first_allowed(belief, X, rng)
    because += f" (point {number + 1} of the {START} a model starts from)" * (number < START)
    if x is not None:  # what is known to cost more is let cost it
        for resource, (mean, std) in belief.predicted(x).items():
            if resource in most and (std[0] == 0 or belief.history.done):
                expected = float(np.exp(mean[0] + Z_AFFORDABLE * std[0]))
                most[resource] = max(most[resource], expected)
    notes: dict[str, Any] = {"phase": "start"}
    return Proposal(x, because, notes=notes | ({"limit": most} if most else {}))


def cap(belief: Belief) -> dict[str, float]:
    """The most that a trial of the start may cost, by limited resource."""
    returned = [trial.number for trial in belief.history.done]
    since = max(returned, default=-1)
    killed = sum(trial.number > since for trial in belief.history.having("killed"))
    room = ALL - belief.ledger.used
    if killed and returned and len(belief.history) < START - 1:
        room -= LEAST_CAP  # for the one after it: this one may be killed, too
    share = min((CAP if returned else FIRST_CAP) * 2.0**killed, max(room, LEAST_CAP))
    if not returned and killed >= HOPELESS:
        share = 1.0
    accounts = {name: belief.ledger[name] for name in belief.ledger.limited_resources}
    return {
        name: min(max(share * account.limit, _as_usual(belief, name, room)), max(account.left, 0.0))
        for name, account in accounts.items()
    }


def _as_usual(belief: Belief, resource: str, room: float) -> float:
    """What a trial may cost because those that returned a value did: in a budget for a dozen of
    them a tenth is too little for one. There is room for a share of the budget.
    """
    bills = sorted(trial.cost.get(resource, 0.0) for trial in belief.history.done)
    if not bills:
        return 0.0
    usual = bills[(len(bills) - 1) // 2]
    little = min(LITTLE, room) * belief.ledger[resource].limit
    return min(TWICE * usual, max(little, MORE * usual))


def first_point(space: Space) -> Array:
    """The middle (d,), or where it is said to be cheap."""
    side = {None: 0.5, "increases": CHEAP_SIDE, "decreases": 1.0 - CHEAP_SIDE}
    x = [side[getattr(parameter, "cost", None)] for parameter in space.parameters.values()]
    return np.asarray(space.snap(np.array([x]))[0])


def around(space: Space, x: Array, reach: float, rng: np.random.Generator) -> Array:
    """(DRAWS, d) points in a box around x; the wider, the more often an option is another one."""
    X = x + reach * rng.uniform(-1.0, 1.0, (DRAWS, space.d))
    changed = space.categorical & (rng.random((DRAWS, space.d)) < reach)
    return space.snap(
        np.where(changed, rng.random((DRAWS, space.d)), np.where(space.categorical, x, X))
    )


def _other_options(belief: Belief, X: Array, rng: np.random.Generator) -> Array:
    """X with the options of every categorical that were asked least: nothing is learnt of an option
    from the others, and a model that has never seen it change takes it for of no importance.
    """
    space, known = belief.space, belief.history.X
    there, X = space.active(known), X.copy()
    for j in np.flatnonzero(space.categorical):
        count = int(space.options[j])
        asked = np.minimum((known[there[:, j], j] * count).astype(np.int64), count - 1)
        times = np.bincount(asked, minlength=count)
        X[:, j] = (rng.choice(np.flatnonzero(times == times.min()), len(X)) + 0.5) / count
    return space.snap(X)


def _within_first(belief: Belief, X: Array, most: Mapping[str, float]) -> Array:
    """X, those within the cap first, of the first two the cheaper; the others by their cost."""
    over = np.zeros(len(X), dtype=bool)
    for resource, model in belief.cost.items():
        if resource in most:
            mean, std = model.log_at(X)
            over |= mean + Z_AFFORDABLE * std > np.log(max(most[resource], 1e-300))
    over |= belief.ledger.spent_share >= START_SHARE  # it has cost enough: only the cheapest
    cost = belief.costs(X)[0].mean
    order = np.lexsort((np.arange(len(X)), np.where(over, cost, 0.0), over))
    if belief.cost and not over[order[1]] and cost[order[1]] < cost[order[0]]:
        order[:2] = order[1], order[0]
    return np.asarray(X[order])


def first_given(belief: Belief, given: Sequence[Mapping[str, Any]]) -> Proposal | None:
    """The first of the given configurations, completed, that is affordable and was never asked."""
    if not given:
        return None
    base = first_point(belief.space)
    X = np.array([belief.space.completed(params, base) for params in given])
    # Not `belief.tried`: where values are noisy it leaves out what may be worth repeating.
    asked = belief.history.X.reshape(-1, belief.space.d)
    allowed = (belief.costs(X)[1] <= 0) & ~is_among(X, asked)
    if not allowed.any():
        return None
    k = int(np.argmax(allowed))
    because = f"point {k + 1} of the {len(X)} given to start with"
    return Proposal(X[k], because, notes={"phase": "start"})


def wanted(
    belief: Belief, proposal: Proposal, queue: Sequence[tuple[Mapping[str, Any], str]]
) -> Proposal | None:
    """The first that somebody wants and the budget can pay; what it leaves open is as proposed.

    Args:
        proposal: what would be evaluated otherwise.
        queue: parameters, all or some of them, and why they are wanted, if there is a reason.
    """
    base = first_point(belief.space) if proposal.x is None else proposal.x
    for params, why in queue:
        x = _completed(belief.space, params, base)
        if belief.costs(x[None])[1][0] > 0:
            continue
        said = ", ".join(f"{name}={value}" for name, value in params.items())
        because = why or f"it was asked for: {said}"
        if set(belief.space.decode(x)) - set(params) and proposal.x is not None:
            because += f"; the rest is {proposal.because}"
        notes: dict[str, Any] = {"given": dict(params)}
        notes |= {"phase": "start"} if belief.objective is None else {}
        return Proposal(x, because, predicted=belief.predicted(x), notes=notes)
    return None


def check_wanted(space: Space, params: Mapping[str, Any]) -> None:
    """Refuse parameters that no point of the space has."""
    if not isinstance(params, Mapping) or not params:
        raise InvalidInput(f"{params!r}: expected parameters such as {{{space.names[0]!r}: ...}}.")
    there = space.decode(_completed(space, params, first_point(space)))
    for name in params:
        when = space.parameters[name].when
        if when is not None and (name not in there or not set(when) <= set(params)):
            raise InvalidInput(
                f"Parameter {name!r} is only there when {dict(when)}. Give that, too, or leave "
                f"{name!r} out."
            )


def _completed(space: Space, params: Mapping[str, Any], base: Array) -> Array:
    """The point (d,) with these parameters that is otherwise like base; of a table, the row."""
    if space.rows is None:
        return space.completed(params, base)
    if unknown := [name for name in params if name not in space.parameters]:
        raise InvalidInput(
            f"Unknown parameter {unknown[0]!r}; the parameters are {list(space.names)}."
        )
    fits = [
        i
        for i, row in enumerate(map(space.decode, space.rows))
        if all(name in row and row[name] == value for name, value in params.items())
    ]
    if not fits:
        raise InvalidInput(f"No row of the table has {dict(params)}.")
    X = space.rows[fits]
    apart = np.where(space.categorical, base != X, np.abs(X - base))
    return np.asarray(X[int(np.argmin((apart**2).sum(axis=1)))])


def first_allowed(belief: Belief, X: Array, rng: np.random.Generator) -> Array | None:
    """The first of X that is affordable and untried; otherwise any other such point."""
    allowed = (belief.costs(X)[1] <= 0) & ~is_among(X, belief.tried)
    if allowed.any():
        return np.asarray(X[np.argmax(allowed)])
    tried, near = belief.tried, np.empty((0, belief.space.d))
    found = maximise(_Level(belief), belief.space, rng, tried=tried, near=near)
    if not len(found.X):
        return left_over(belief, rng)
    return np.asarray(found.X[rng.integers(len(found.X))])


def left_over(belief: Belief, rng: np.random.Generator) -> Array | None:
    """An affordable, untried point of a finite space of which most was tried: a search that looks
    at some points only may miss the few that are left.
    """
    points = belief.space.points(MOST_POINTS)
    if points is None or len(points) > 2 * len(belief.tried):
        return None
    points = untried(points, belief.tried)
    if len(points):
        points = points[belief.costs(points)[1] <= 0]
    return np.asarray(points[rng.integers(len(points))]) if len(points) else None


@dataclass(frozen=True)
class _Level:
    """A flat surface: all that counts is what is affordable."""

    belief: Belief

    def at(self, X: Array) -> Rated:
        return Rated(np.zeros(len(X)), self.belief.costs(X)[1])

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        _, shortfall, _, _, d_shortfall = self.belief.cost_slopes(X)
        return Rated(np.zeros(len(X)), shortfall), np.zeros(np.shape(X)), d_shortfall
