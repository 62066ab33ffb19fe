"""Simulated futures: what the next h evaluations bring when a base policy makes all but the first.

Rollout under a budget (Lee et al. 2021, sections 4 and 5), h evaluations in all:

    x_1 = x,   x_t = argmax_z B_t(z | D_{t-1}) for t = 2 .. h,   y_t ~ N(mean(x_t), variance(x_t))
    value(x) = E sum_t EI(x_t | D_{t-1}),   until t = h or nothing affordable is left

Rewards are conditional expectations, so only the transitions are drawn, with the same normals for
every first move. All points are of one set, whose joint posterior is computed once. Seeing y at x
is a rank-one update, made for all paths at once:

    v = C[:, x] / sqrt(C[x, x] + noise),   mean += v (y - mean[x]) / sqrt(C[x, x] + noise),
    C -= v v',   left -= E[min(c(x), left)]

The cost models stay as they are along a path: their seam knows no joint posterior, and with the
expected cost paid, what is affordable is decided by the points of a path and not by its luck. A
cost that depends on the evaluation before is asked about the path's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from farthing.acquisition.belief import Belief, Outlook
from farthing.acquisition.protocols import Policy
from farthing.acquisition.scores import Score
from farthing.acquisition.search import sobol
from farthing.cost import Following
from farthing.models.gp import VARIANCE_FLOOR, Normal
from farthing.models.normal import expected_cost, h, log_ei

__all__ = ["Base", "Draws", "Ground", "draws", "gains", "lay", "rolled_out_gains", "visited"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Base = Sequence[float | Score]  # of steps 2 .. h: a number a is EI / c^a

AT_ONCE = 2**15  # numbers in an array over paths and points: a few such arrays fit into a cache
KNOWN = 1e-12  # spread of ln c
LEAST = 1e-300  # of an improvement, so that zero is still better than what is not allowed


class Draws(NamedTuple):
    """The randomness of p paths, common to all first moves."""

    normals: Array  # (p, h - 1)
    fantasy: Ints  # (p,) which fantasy of the running trials each path lives in


def draws(count: int, horizon: int, fantasies: int, rng: np.random.Generator) -> Draws:
    """Scrambled Sobol points, rotated at random, as normals; one more coordinate for fantasies."""
    U = (sobol(count, horizon) + rng.random(horizon)) % 1.0
    normals = ndtri(np.clip(U[:, : horizon - 1], 1e-12, 1.0 - 1e-12))
    return Draws(normals, (U[:, -1] * fantasies).astype(np.int64))


@dataclass(frozen=True)
class Ground:
    """The set of points on which paths go, and their joint posterior, standardised."""

    belief: Belief
    X: Array  # (m, d)
    is_open: Bools  # (m,) whether a path may go there
    mean: Array  # (f, m)
    covariance: Array  # (m, m)
    floor: float  # of a variance
    noise: float
    best: Array  # (f,)
    log_success: Array  # (m,)
    costs: tuple[Normal, ...]  # ln c of each resource, (m,), as the first of a path
    is_moving: bool  # whether a cost depends on the evaluation before
    after: dict[int, tuple[Normal, ...]] = field(default_factory=dict)  # costs after each point

    def costs_after(self, previous: Ints) -> tuple[Normal, ...]:
        """ln c of each resource, (u, m), after evaluations at the points `previous`, (u,)."""
        for i in {int(i) for i in previous} - set(self.after):
            models = self.belief.cost.values()
            here = [m.after(self.X[i]) if isinstance(m, Following) else m for m in models]
            self.after[i] = tuple(model.log_at(self.X) for model in here)
        rows = [self.after[int(i)] for i in previous]
        return tuple(
            Normal(np.array([n.mean for n in column]), np.array([n.std for n in column]))
            for column in zip(*rows, strict=True)
        )


def lay(belief: Belief, X: Array, is_open: Bools) -> Ground:
    """The ground that a belief gives at the points X."""
    gp = belief.objective
    assert gp is not None
    return Ground(
        belief,
        X,
        is_open,
        mean=((gp.at(X).mean - gp.shift) / gp.scale).T,
        covariance=gp.standard_covariance(X),
        floor=VARIANCE_FLOOR * gp.variance,
        noise=gp.noise,
        best=(belief.best - gp.shift) / gp.scale,
        log_success=belief.log_success(X),
        costs=tuple(model.log_at(X) for model in belief.cost.values()),
        is_moving=any(isinstance(model, Following) for model in belief.cost.values()),
    )


# ── what evaluations cost ──────────────────────────────────────────────────────────────────────


class _Prices(NamedTuple):
    """What the m points cost in u states of the accounts."""

    cost: Normal  # ln c as one number, (u, m)
    cap: Array  # (u,)
    shortfall: Array  # (u, m)
    chance: Array  # P(c <= cap) P(success), (u, m)
    each: tuple[Normal, ...]  # ln c of each resource, (m,) or (u, m)


def _prices(ground: Ground, left: Array, each: tuple[Normal, ...]) -> _Prices:
    """Prices where `left`, (k, u), is left of each resource, and each costs so much."""
    (k, u), m = left.shape, len(ground.X)
    success = np.exp(ground.log_success)
    if not k:
        free = Normal(np.zeros((u, m)), np.zeros((u, m)))
        chance = np.broadcast_to(success, (u, m))
        return _Prices(free, np.full(u, np.inf), np.full((u, m), -np.inf), chance, each)
    cost, _ = ground.belief.one_cost(each, left)
    shortfall, _ = ground.belief.shortfall(each, left)
    cap = left[0] if k == 1 else np.ones(u)
    return _Prices(cost, cap, shortfall, _fits(cost, cap[:, None]) * success, each)


def _fits(cost: Normal, cap: ArrayLike) -> Array:
    """P(c <= cap); 1 where the cost is known: it fits, or it is a shortfall."""
    known = cost.std < KNOWN
    if known.all():
        return np.ones(known.shape)
    t = (np.log(cap) - cost.mean) / np.maximum(cost.std, KNOWN)
    return np.where(known, 1.0, ndtr(t))


def _charged(prices: _Prices, whose: Ints, left: Array, at: Ints) -> Array:
    """(k, r) what is left after evaluations `at`, (r,): less by E[min(c, left)]."""
    rest = np.empty_like(left)
    for k, normal in enumerate(prices.each):
        mean, std = (part[at] if part.ndim == 1 else part[whose, at] for part in normal)
        rest[k] = left[k] - np.exp(expected_cost(mean, std, left[k]))
    return np.maximum(rest, 1e-300)


def _states(ground: Ground, left: Array, at: Ints) -> tuple[_Prices, Ints]:
    """Paths with the same left, (k, r), share their prices: these, and which are whose.

    After the first move there are no more of them than first moves.
    """
    if not len(left):
        nobody = np.zeros(left.shape[1], dtype=np.int64)
        return _prices(ground, left[:, :1], ground.costs), nobody
    if not ground.is_moving:
        states, whose = np.unique(left, axis=1, return_inverse=True)
        return _prices(ground, states, ground.costs), whose.reshape(-1)
    states, whose = np.unique(np.vstack([left, at]), axis=1, return_inverse=True)
    each = ground.costs_after(states[-1].astype(np.int64))
    return _prices(ground, states[:-1], each), whose.reshape(-1)


# ── paths ──────────────────────────────────────────────────────────────────────────────────────


def gains(
    ground: Ground, first: Ints, drawn: Draws, base: Base, *, truncate: bool = False
) -> Array:
    """(a, p) what each path gains from each of the first moves, indices of points; in user's units.

    Args:
        base: a score for each step after the first.
        truncate: a path ends where the base policy wants what it cannot afford, as in the paper;
            otherwise it takes the best that is affordable.
    """
    assert ground.belief.objective is not None
    step = max(1, AT_ONCE // (len(drawn.normals) * len(ground.X)))
    parts = [
        _walk(ground, first[i : i + step], drawn, base, truncate)[0]
        for i in range(0, len(first), step)
    ]
    return np.concatenate(parts) * ground.belief.objective.scale


def visited(ground: Ground, first: Ints, drawn: Draws, base: Base) -> Ints:
    """The points to which paths from the first moves go, those of most paths first."""
    _, there = _walk(ground, first, drawn, base, truncate=False)
    found, count = np.unique(np.concatenate(there), return_counts=True)
    return np.asarray(found[np.argsort(-count, kind="stable")])


def _walk(
    ground: Ground, first: Ints, drawn: Draws, base: Base, truncate: bool
) -> tuple[Array, list[Ints]]:
    """(a, p) gains, standardised, of a few first moves, and where each of r = a p paths went."""
    p = len(drawn.normals)
    C, noisy = ground.covariance, ground.belief.noisy
    once = ground.belief.space.rows is not None and not noisy  # nor is a row proposed twice
    prices = _prices(ground, ground.belief.left, ground.costs)
    sure = np.sqrt(np.maximum(C[first, first], ground.floor))
    reward = sure * h((ground.best[:, None] - ground.mean[:, first]) / sure)  # (f, a)
    gained = np.repeat(reward.mean(axis=0) * prices.chance[0, first], p)

    mean = np.tile(ground.mean[drawn.fantasy], (len(first), 1))  # (r, m)
    variance = np.repeat(np.diag(C)[None], len(mean), axis=0)
    best = np.tile(ground.best[drawn.fantasy], len(first))
    left = np.repeat(ground.belief.left, len(mean), axis=1)
    rows, at, whose = np.arange(len(mean)), np.repeat(first, p), np.zeros(len(mean), np.int64)
    alive = np.ones(len(mean), dtype=np.bool_)
    been: list[Ints] = []
    updates: list[Array] = []
    for t, score in enumerate(base):
        # What is seen there changes what is believed everywhere.
        v = C[at]
        for u in updates:
            v -= u * u[rows, at][:, None]
        here = np.maximum(v[rows, at], ground.floor)
        pivot = np.sqrt(here + ground.noise)
        v /= pivot[:, None]
        z = np.tile(drawn.normals[:, t], len(first))
        surprise = pivot * z if noisy else np.sqrt(here) * z
        seen = mean[rows, at] + surprise
        mean += v * (surprise / pivot)[:, None]
        best = np.minimum(best, mean[rows, at] if noisy else seen)
        variance -= v * v
        updates.append(v)
        been.append(at)
        left = _charged(prices, whose, left, at)

        prices, whose = _states(ground, left, at)
        std = np.sqrt(np.maximum(variance, ground.floor))
        ei = std * h((best[:, None] - mean) / std)
        affordable = ground.is_open & (prices.shortfall <= 0)
        allowed = ground.is_open & np.ones_like(affordable) if truncate else affordable
        if callable(score):
            rated = _rated(score, ground, prices, whose, mean, std, best)
            rated = np.where(allowed[whose], rated, -np.inf)
        else:
            weight = prices.chance
            if score:
                weight = weight * np.exp(-score * expected_cost(*prices.cost, prices.cap[:, None]))
            rated = (ei + LEAST) * np.where(allowed, weight, -np.inf)[whose]
        if once:
            for before in been:
                rated[rows, before] = -np.inf
        at = rated.argmax(axis=1)
        alive &= (rated[rows, at] > -np.inf) & affordable[whose, at]
        gained += np.where(alive, ei[rows, at] * prices.chance[whose, at], 0.0)
        if not alive.any():
            break
    return gained.reshape(len(first), p), [*been[1:], at]


def _rated(
    score: Score, ground: Ground, prices: _Prices, whose: Ints, mean: Array, std: Array, best: Array
) -> Array:
    """Any score at every point of every path, (r, m), the paths of one state together."""
    gp = ground.belief.objective
    assert gp is not None
    out = np.empty_like(mean)
    for state in range(len(prices.cap)):
        rows = whose == state
        count = int(rows.sum())
        outlook = Outlook(
            (gp.shift + gp.scale * mean[rows]).reshape(-1, 1),
            (gp.scale * std[rows]).reshape(-1),
            Normal(*(np.tile(part[state], count) for part in prices.cost)),
            np.tile(ground.log_success, count),
            np.repeat(gp.shift + gp.scale * best[rows], mean.shape[1])[:, None],
            float(prices.cap[state]),
            np.tile(prices.shortfall[state], count),
        )
        out[rows] = score(outlook).score.reshape(count, -1)
    return out


# ── any policy at all ──────────────────────────────────────────────────────────────────────────


def rolled_out_gains(
    policy: Policy, belief: Belief, x: Array, drawn: Draws, rng: np.random.Generator
) -> Array:
    """(p,) what each path gains from x when `policy` proposes all that follows; slow.

    Every step is a belief of its own: `Belief.fantasise`, then `policy.propose`.
    """
    assert belief.objective is not None
    gained = np.zeros(len(drawn.normals))
    for path, (normals, f) in enumerate(zip(*drawn, strict=True)):
        gp = belief.objective
        one = replace(gp, targets=gp.targets[:, [f]])
        now, here = replace(belief, objective=one, best=belief.best[[f]]), x
        for z in (*normals, None):
            paid = {
                resource: float(np.exp(expected_cost(*normal, now.ledger[resource].left)[0]))
                for resource, normal in now.predicted(here).items()
            }
            gained[path] += _reward(now, here)
            if z is None or now.objective is None:
                break
            mean, std = now.objective.at(here[None])
            noise = now.objective.scale**2 * now.objective.noise if belief.noisy else 0.0
            now = now.fantasise(here, float(mean[0, 0] + np.sqrt(std[0] ** 2 + noise) * z), paid)
            proposal = policy.propose(now, rng)
            if now.ledger.used_up or proposal.x is None:
                break
            here = proposal.x
    return gained


def _reward(belief: Belief, x: Array) -> float:
    """EI P(c <= left) P(success) at x."""
    outlook = belief.outlook(x[None])
    ei = log_ei(outlook.mean[0, 0], outlook.std[0], outlook.best[0])
    return float(np.exp(ei + outlook.log_success[0]) * _fits(outlook.cost, outlook.cap)[0])
