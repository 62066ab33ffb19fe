"""Lookahead: the expected gain of h evaluations if a base policy chooses all but the first.

Rollout under a budget (Lee et al. 2021, sections 4 and 5):

    x_1 = x,   x_t = argmax_z B_t(z | D_{t-1}) for t = 2 .. h,   y_t ~ N(mean(x_t), variance(x_t))
    value(x) = E sum_t EI(x_t | D_{t-1}),   until t = h or no affordable point is left

Rewards are conditional expectations, so only the transitions are random. All first points use the
same normal draws. Paths stay on one finite set of points, whose joint posterior is computed once.
An observation y at x is a rank-one update, for all paths at once:

    v = C[:, x] / sqrt(C[x, x] + noise),   mean += v (y - mean[x]) / sqrt(C[x, x] + noise),
    C -= v v',   left -= E[min(c(x), left)]

The cost models do not learn along a path, because their interface has no joint posterior. Each
evaluation pays its expected cost, so the points of a path alone decide what stays affordable. A
cost that depends on the previous evaluation uses the previous point of the path.

With constraints, a path also draws what is measured, z_t ~ N(mean(x_t), variance(x_t)), and
the models of the constraints learn it in the same way. A point that violates one is no incumbent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from farthing.acquisition.belief import Belief
from farthing.acquisition.outlook import Outlook
from farthing.acquisition.scores import Score
from farthing.acquisition.search import sobol
from farthing.cost import DependsOnPrevious
from farthing.models.feasibility import Feasibility
from farthing.models.gp import VARIANCE_FLOOR, Normal
from farthing.models.normal import expected_cost, h, log_below

__all__ = [
    "Base",
    "Draws",
    "JointPosterior",
    "draws",
    "gains",
    "joint_posterior",
    "visited",
]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Base = Sequence[float | Score]  # one score for each of the steps 2 .. h; a number a is EI / c^a

CHUNK = 2**15  # size of an array over paths and points: a few such arrays fit into the cache
KNOWN = 1e-12  # a cost is known if the standard deviation of ln c is smaller
UNCONSTRAINED = np.zeros((0, 0, 0))
TINY = 1e-300  # added to EI, so that an EI of zero is still better than a forbidden point


class Draws(NamedTuple):
    """The random numbers of p paths, common to all first points."""

    normals: Array  # (p, h - 1)
    fantasy: Ints  # (p,) the fantasy of the running trials that each path starts from
    measured: Array = UNCONSTRAINED  # (p, h - 1, k) for the k constraints


def draws(
    count: int,
    horizon: int,
    fantasies: int,
    rng: np.random.Generator,
    *,
    constraints: int = 0,
) -> Draws:
    """Normals from randomly rotated Sobol points; the last coordinate draws the fantasies."""
    later = horizon - 1
    d = later * (1 + constraints) + 1
    U = (sobol(count, d) + rng.random(d)) % 1.0
    normals = ndtri(np.clip(U[:, :-1], 1e-12, 1.0 - 1e-12))
    measured = normals[:, later:].reshape(count, later, constraints)
    return Draws(normals[:, :later], (U[:, -1] * fantasies).astype(np.int64), measured)


@dataclass(frozen=True)
class Limit:
    """A constraint: the joint posterior of what is measured, in standardised units."""

    mean: Array  # (m,)
    covariance: Array  # (m, m)
    floor: float  # lower bound of a variance
    noise: float  # that the model assumes
    measured_noise: float  # that measurements have
    bound: float

    def log_probability(self, mean: Array, variance: Array) -> Array:
        """ln P(the constraint is met)."""
        std = np.sqrt(np.maximum(variance, self.floor) + self.measured_noise)
        return log_below(mean, std, self.bound)


def _limit(X: Array, model: Feasibility) -> Limit:
    gp = model.gp
    return Limit(
        (gp.at(X).mean[:, 0] - gp.shift) / gp.scale,
        gp.standard_covariance(X),
        VARIANCE_FLOOR * gp.variance,
        gp.noise,
        gp.noise if model.noisy else 0.0,
        (model.bound - gp.shift) / gp.scale,
    )


@dataclass(frozen=True)
class JointPosterior:
    """The points that paths can visit, and their joint posterior in standardised units."""

    belief: Belief
    X: Array  # (m, d)
    is_open: Bools  # (m,) whether a path may visit the point
    mean: Array  # (f, m)
    covariance: Array  # (m, m)
    floor: float  # lower bound of a variance
    noise: float
    best: Array  # (f,)
    log_success: Array  # (m,) ln P(a value is returned), without the constraints
    limits: tuple[Limit, ...]  # the constraints
    costs: tuple[Normal, ...]  # ln c of each resource, (m,), for the first point of a path
    depends_on_previous: bool  # whether a cost depends on the previous evaluation
    after: dict[int, tuple[Normal, ...]] = field(default_factory=dict)  # cache of costs_after

    @property
    def measured_noise(self) -> float:
        """The variance of the noise of an evaluation."""
        return self.noise if self.belief.noisy else 0.0

    def costs_after(self, previous: Ints) -> tuple[Normal, ...]:
        """ln c of each resource, (u, m), after evaluations at the points `previous`, (u,)."""
        for i in {int(i) for i in previous} - set(self.after):
            models = self.belief.cost.values()
            here = [m.after(self.X[i]) if isinstance(m, DependsOnPrevious) else m for m in models]
            self.after[i] = tuple(model.log_at(self.X) for model in here)
        rows = [self.after[int(i)] for i in previous]
        return tuple(
            Normal(np.array([n.mean for n in column]), np.array([n.std for n in column]))
            for column in zip(*rows, strict=True)
        )


class _OnPaths:
    """The posterior at all points along r paths, after the evaluations of each path so far."""

    def __init__(self, posterior: JointPosterior | Limit, mean: Array) -> None:
        self.posterior = posterior
        self.mean = mean  # (r, m)
        self.variance = np.repeat(np.diag(posterior.covariance)[None], len(mean), axis=0)
        self.updates: list[Array] = []

    def evaluate(self, at: Ints, z: Array) -> Array:
        """(r,) measurements at the points `at`, (r,), with the normal draws z, (r,).

        Each is a rank-one update of the posterior at all points.
        """
        rows = np.arange(len(at))
        v = self.posterior.covariance[at]
        for u in self.updates:
            v -= u * u[rows, at][:, None]
        here = np.maximum(v[rows, at], self.posterior.floor)
        pivot = np.sqrt(here + self.posterior.noise)
        v /= pivot[:, None]
        surprise = np.sqrt(here + self.posterior.measured_noise) * z
        measured = self.mean[rows, at] + surprise
        self.mean += v * (surprise / pivot)[:, None]
        self.variance -= v * v
        self.updates.append(v)
        return np.asarray(measured)


def joint_posterior(belief: Belief, X: Array, is_open: Bools) -> JointPosterior:
    """The joint posterior of a belief at the points X."""
    gp = belief.objective
    assert gp is not None
    return JointPosterior(
        belief,
        X,
        is_open,
        mean=((gp.at(X).mean - gp.shift) / gp.scale).T,
        covariance=gp.standard_covariance(X),
        floor=VARIANCE_FLOOR * gp.variance,
        noise=gp.noise,
        best=(belief.best - gp.shift) / gp.scale,
        log_success=replace(belief, feasibility=()).log_success(X),
        limits=tuple(map(partial(_limit, X), belief.feasibility)),
        costs=tuple(model.log_at(X) for model in belief.cost.values()),
        depends_on_previous=any(
            isinstance(model, DependsOnPrevious) for model in belief.cost.values()
        ),
    )


# ── costs ──────────────────────────────────────────────────────────────────────────────────────


class _Prices(NamedTuple):
    """The costs of the m points in u states: distinct amounts left and previous points."""

    cost: Normal  # ln c as one number, (u, m)
    cap: Array  # (u,)
    shortfall: Array  # (u, m)
    probability: Array  # P(c <= cap) P(success), (u, m)
    each: tuple[Normal, ...]  # ln c of each resource, (m,) or (u, m)


def _prices(joint: JointPosterior, left: Array, each: tuple[Normal, ...]) -> _Prices:
    """The costs if `left`, (k, u), is left of the resources and `each` is ln c of each."""
    (k, u), m = left.shape, len(joint.X)
    success = np.exp(joint.log_success)
    if not k:
        free = Normal(np.zeros((u, m)), np.zeros((u, m)))
        probability = np.broadcast_to(success, (u, m))
        return _Prices(free, np.full(u, np.inf), np.full((u, m), -np.inf), probability, each)
    cost, _ = joint.belief.one_cost(each, left)
    shortfall, _ = joint.belief.shortfall(each, left)
    cap = left[0] if k == 1 else np.ones(u)
    return _Prices(
        cost, cap, shortfall, _affordable_probability(cost, cap[:, None]) * success, each
    )


def _affordable_probability(cost: Normal, cap: ArrayLike) -> Array:
    """P(c <= cap); 1 if the cost is known, because the shortfall then decides."""
    known = cost.std < KNOWN
    if known.all():
        return np.ones(known.shape)
    t = (np.log(cap) - cost.mean) / np.maximum(cost.std, KNOWN)
    return np.where(known, 1.0, ndtr(t))


def _left_after(prices: _Prices, state_of: Ints, left: Array, at: Ints) -> Array:
    """(k, r) left - E[min(c, left)], the amount left after evaluations at the points `at`, (r,)."""
    rest = np.empty_like(left)
    for k, normal in enumerate(prices.each):
        mean, std = (part[at] if part.ndim == 1 else part[state_of, at] for part in normal)
        rest[k] = left[k] - np.exp(expected_cost(mean, std, left[k]))
    return np.maximum(rest, 1e-300)


def _states(joint: JointPosterior, left: Array, at: Ints) -> tuple[_Prices, Ints]:
    """The costs of each distinct state of the paths, and the index of the state of each path.

    Paths with the same amounts left, (k, r), and the same previous point share their costs. After
    the first step there are no more states than first points.
    """
    if not len(left):
        only_state = np.zeros(left.shape[1], dtype=np.int64)
        return _prices(joint, left[:, :1], joint.costs), only_state
    if not joint.depends_on_previous:
        states, state_of = np.unique(left, axis=1, return_inverse=True)
        return _prices(joint, states, joint.costs), state_of.reshape(-1)
    states, state_of = np.unique(np.vstack([left, at]), axis=1, return_inverse=True)
    each = joint.costs_after(states[-1].astype(np.int64))
    return _prices(joint, states[:-1], each), state_of.reshape(-1)


# ── paths ──────────────────────────────────────────────────────────────────────────────────────


def gains(
    joint: JointPosterior, first: Ints, drawn: Draws, base: Base, *, truncate: bool = False
) -> Array:
    """(a, p) gain of each path from each first point, in the units of the objective.

    Args:
        first: (a,) indices of the first points.
        base: a score for each step after the first.
        truncate: whether a path ends if the base policy chooses a point that is not affordable, as
            in the paper. If not, it takes the best affordable point.
    """
    assert joint.belief.objective is not None
    step = max(1, CHUNK // (len(drawn.normals) * len(joint.X)))
    parts = [
        _simulate(joint, first[i : i + step], drawn, base, truncate)[0]
        for i in range(0, len(first), step)
    ]
    return np.concatenate(parts) * joint.belief.objective.scale


def visited(joint: JointPosterior, first: Ints, drawn: Draws, base: Base) -> Ints:
    """Indices of the points that the paths visit after their first one, most visited first."""
    _, paths = _simulate(joint, first, drawn, base, truncate=False)
    found, count = np.unique(np.concatenate(paths), return_counts=True)
    return np.asarray(found[np.argsort(-count, kind="stable")])


def _simulate(
    joint: JointPosterior, first: Ints, drawn: Draws, base: Base, truncate: bool
) -> tuple[Array, list[Ints]]:
    """(a, p) standardised gains of a few first points, and the points of each of r = a p paths."""
    p, noisy = len(drawn.normals), joint.belief.noisy
    once = joint.belief.space.rows is not None and not noisy  # no row is evaluated twice
    prices = _prices(joint, joint.belief.left, joint.costs)
    gained = np.repeat(_first_gains(joint, first, prices), p)
    r = len(gained)
    objective = _OnPaths(joint, np.tile(joint.mean[drawn.fantasy], (len(first), 1)))
    limits = [_OnPaths(each, np.repeat(each.mean[None], r, axis=0)) for each in joint.limits]
    best = np.tile(joint.best[drawn.fantasy], len(first))
    left = np.repeat(joint.belief.left, r, axis=1)
    rows, at, state_of = np.arange(r), np.repeat(first, p), np.zeros(r, np.int64)
    alive = np.ones(r, dtype=np.bool_)
    path: list[Ints] = []
    for t, score in enumerate(base):
        seen = objective.evaluate(at, np.tile(drawn.normals[:, t], len(first)))
        now = objective.mean[rows, at] if noisy else seen
        for j, (limit, along) in enumerate(zip(joint.limits, limits, strict=True)):
            measured = along.evaluate(at, np.tile(drawn.measured[:, t, j], len(first)))
            now = np.where(measured <= limit.bound, now, np.inf)
        best = np.minimum(best, now)
        path.append(at)
        left = _left_after(prices, state_of, left, at)
        prices, state_of = _states(joint, left, at)
        mean, std = objective.mean, np.sqrt(np.maximum(objective.variance, joint.floor))
        ei = std * h((best[:, None] - mean) / std)
        affordable = joint.is_open & (prices.shortfall <= 0)
        allowed = joint.is_open & np.ones_like(affordable) if truncate else affordable
        log_feasible = np.zeros((1, 1))
        for limit, along in zip(joint.limits, limits, strict=True):
            log_feasible = log_feasible + limit.log_probability(along.mean, along.variance)
        feasible_ei = ei * np.exp(log_feasible) if limits else ei
        if callable(score):
            log_success = joint.log_success + log_feasible
            rated = _scores(score, joint, prices, state_of, mean, std, best, log_success)
            rated = np.where(allowed[state_of], rated, -np.inf)
        else:
            weight = prices.probability
            if score:
                weight = weight * np.exp(-score * expected_cost(*prices.cost, prices.cap[:, None]))
            rated = (feasible_ei + TINY) * np.where(allowed, weight, -np.inf)[state_of]
        if once:
            for before in path:
                rated[rows, before] = -np.inf
        at = rated.argmax(axis=1)
        alive &= (rated[rows, at] > -np.inf) & affordable[state_of, at]
        gained += np.where(alive, feasible_ei[rows, at] * prices.probability[state_of, at], 0.0)
        if not alive.any():
            break
    return gained.reshape(len(first), p), [*path[1:], at]


def _first_gains(joint: JointPosterior, first: Ints, prices: _Prices) -> Array:
    """(a,) standardised EI P(c <= cap) P(success) of the first points."""
    std = np.sqrt(np.maximum(joint.covariance[first, first], joint.floor))
    ei = std * h((joint.best[:, None] - joint.mean[:, first]) / std)  # (f, a)
    gained = ei.mean(axis=0) * prices.probability[0, first]
    for limit in joint.limits:
        feasible = limit.log_probability(limit.mean, np.diag(limit.covariance))
        gained = gained * np.exp(feasible[first])
    return np.asarray(gained)


def _scores(
    score: Score,
    joint: JointPosterior,
    prices: _Prices,
    state_of: Ints,
    mean: Array,
    std: Array,
    best: Array,
    log_success: Array,
) -> Array:
    """Any score at every point of every path, (r, m); one call for all paths of a state."""
    gp = joint.belief.objective
    assert gp is not None
    out = np.empty_like(mean)
    for state in range(len(prices.cap)):
        rows = state_of == state
        count = int(rows.sum())
        outlook = Outlook(
            (gp.shift + gp.scale * mean[rows]).reshape(-1, 1),
            (gp.scale * std[rows]).reshape(-1),
            Normal(*(np.tile(part[state], count) for part in prices.cost)),
            np.broadcast_to(log_success, mean.shape)[rows].reshape(-1),
            np.repeat(gp.shift + gp.scale * best[rows], mean.shape[1])[:, None],
            float(prices.cap[state]),
            np.tile(prices.shortfall[state], count),
        )
        out[rows] = score(outlook).score.reshape(count, -1)
    return out
