"""The scores that policies and stopping rules share, and their maximisation under a belief.

A score maps an Outlook to one number per point, higher is better, and to its partial derivatives
with respect to the numbers of the Outlook. The chain rule through the models gives the gradient in
the unit cube, so no policy contains derivative code. `differenced` turns any function into a score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.outlook import Outlook, OutlookSlopes
from farthing.acquisition.protocols import Policy, Proposal
from farthing.acquisition.search import (
    CHUNK,
    Effort,
    Found,
    Rated,
    Surface,
    candidates,
    maximise,
    untried,
)
from farthing.budget.units import format_amount
from farthing.models.normal import (
    expected_cost,
    expected_cost_slopes,
    gittins_slopes,
    log_affordable_slopes,
    log_ei_slopes,
)

__all__ = [
    "Graded",
    "Monotone",
    "Score",
    "ScoreSurface",
    "ScoreView",
    "chained",
    "cheapness",
    "differenced",
    "first_feasible",
    "gittins_index",
    "log_ei_per_cost",
    "look",
    "lower_bound",
    "maximise_score",
    "proposal",
    "surface_of",
]

Array = NDArray[np.float64]

LIGHT = Effort(screen=96, around=48, starts=3, steps=(4, 12), flips=1)  # to limit the overhead

KNOWN = 1e-12  # a cost is known if the standard deviation of ln c is smaller
MIN_LOG_P = -20.0  # lower bound of a log probability, so that 1 / P stays finite


class Graded(NamedTuple):
    """A score (m,) and its partial derivatives.

    They are with respect to the mean, (m, f), and the std, the mean and std of ln c and the log
    probability of success, (m,) each.
    """

    score: Array
    to_mean: Array
    to_std: Array
    to_cost_mean: Array
    to_cost_std: Array
    to_success: Array


Score = Callable[[Outlook], Graded]


@dataclass(frozen=True)
class Monotone:
    """A score that is non-increasing in mean and cost, non-decreasing in std and P(success)."""

    score: Score

    def __call__(self, outlook: Outlook) -> Graded:
        """The score itself."""
        return self.score(outlook)


def _log_improvement(outlook: Outlook) -> tuple[Array, Array, Array]:
    """ln of the mean EI over fantasies, and its partial derivatives in mean and std.

    Each fantasy has its own incumbent (Lee et al. 2020, algorithm 3). If no trial is feasible, the
    incumbent is infinite and ln EI counts as 0: any feasible value is an improvement, and the
    scores compare the probabilities of feasibility (Gelbart et al. 2014).
    """
    if np.isinf(outlook.best).any():
        return _with_infinite(outlook)
    value, to_mean, to_std = log_ei_slopes(outlook.mean, outlook.std[:, None], outlook.best)
    if value.shape[1] == 1:  # no fantasies: the usual case, in half the time
        return value[:, 0], to_mean, to_std[:, 0]
    largest = value.max(axis=1, keepdims=True)
    share = np.exp(value - largest)  # (m, f)
    total = share.sum(axis=1, keepdims=True)
    mean = largest + np.log(total / value.shape[1])
    share /= total
    return mean[:, 0], share * to_mean, (share * to_std).sum(axis=1)


def _with_infinite(outlook: Outlook) -> tuple[Array, Array, Array]:
    """`_log_improvement` where some incumbents are infinite: (f,), or (m, 1) along paths."""
    first: NDArray[np.bool_] = np.isinf(np.broadcast_to(outlook.best, outlook.mean.shape))
    first = np.asarray(first.all(axis=1))
    best = np.where(np.isinf(outlook.best), 0.0, outlook.best)
    value, to_mean, to_std = _log_improvement(outlook._replace(best=best))
    return (
        np.where(first, 0.0, value),
        np.where(first[:, None], 0.0, to_mean),
        np.where(first, 0.0, to_std),
    )


def _log_affordable(outlook: Outlook) -> tuple[Array, Array, Array]:
    """ln P(c <= cap), bounded below, and its partial derivatives in mean and std of ln c.

    It is 0 if the cost is known, because the shortfall already excludes points that are not
    affordable. A jump at the boundary would stop an ascent that should follow the boundary.
    """
    value, to_m, to_s = log_affordable_slopes(*outlook.cost, outlook.cap)
    known = outlook.cost.std < KNOWN
    constant = known | (value < MIN_LOG_P)
    value = np.where(known, 0.0, np.maximum(value, MIN_LOG_P))
    return value, np.where(constant, 0.0, to_m), np.where(constant, 0.0, to_s)


def log_ei_per_cost(alpha: float = 1.0) -> Score:
    """ln EI + ln P(c <= cap) + ln P(success) - alpha ln E[min(c, cap)].

    alpha = 0 gives EI, alpha = 1 gives EIpu and LogEIPC (Xie et al. 2025, eq. 2). Values in between
    give EI_alpha (Guinet et al. 2020, eq. 1) and EI-cool (Lee et al. 2020, eq. 3).
    """

    def score(outlook: Outlook) -> Graded:
        value, to_mean, to_std = _log_improvement(outlook)
        one = np.ones(len(value))
        if alpha == 0.0 and np.isinf(outlook.cap):
            none = np.zeros(len(value))
            return Graded(value + outlook.log_success, to_mean, to_std, none, none, one)
        cost, cost_m, cost_s = expected_cost_slopes(*outlook.cost, outlook.cap)
        fits, fits_m, fits_s = _log_affordable(outlook)
        return Graded(
            value + fits + outlook.log_success - alpha * cost,
            to_mean,
            to_std,
            fits_m - alpha * cost_m,
            fits_s - alpha * cost_s,
            one,
        )

    return Monotone(score) if alpha >= 0.0 else score


def gittins_index(worth: float | Array, scale: float = 1.0, *, origin: float = 0.0) -> Score:
    """(origin - g) / scale, where g is the Gittins index (Xie et al. 2025, eq. 3).

    g solves EI(g) P(c <= cap) P(success) = worth E[min(c, cap)]. If `origin` is the incumbent, the
    score does not depend on the units of the objective. With several rates, (k, 1), the score and
    its derivatives are (k, m), except that of the mean, which is the same for all.
    """

    def score(outlook: Outlook) -> Graded:
        cost, cost_m, cost_s = expected_cost_slopes(*outlook.cost, outlook.cap)
        fits, fits_m, fits_s = _log_affordable(outlook)
        log_success = np.maximum(outlook.log_success, MIN_LOG_P)
        log_price = np.log(worth) - np.log(scale) + cost - fits - log_success
        # (g - mean) / std depends on std and price only. The average index over fantasies is
        # therefore the index at the average mean.
        g, _, to_std, to_price = gittins_slopes(
            (outlook.mean.mean(axis=1) - origin) / scale, outlook.std / scale, log_price
        )
        return Graded(
            -g,
            np.full_like(outlook.mean, -1.0 / (scale * outlook.mean.shape[1])),
            -to_std / scale,
            -to_price * (cost_m - fits_m),
            -to_price * (cost_s - fits_s),
            np.where(outlook.log_success < MIN_LOG_P, 0.0, to_price),
        )

    return Monotone(score)


def lower_bound(root_beta: float, scale: float, *, origin: float = 0.0) -> Score:
    """(origin - (mean - sqrt(beta) std)) / scale + ln P(success) (Srinivas et al. 2010)."""

    def score(outlook: Outlook) -> Graded:
        mean = outlook.mean.mean(axis=1)
        none = np.zeros_like(mean)
        return Graded(
            (origin - mean + root_beta * outlook.std) / scale + outlook.log_success,
            np.full_like(outlook.mean, -1.0 / (scale * outlook.mean.shape[1])),
            np.full_like(mean, root_beta / scale),
            none,
            none,
            np.ones_like(mean),
        )

    return Monotone(score)


def cheapness(outlook: Outlook) -> Graded:
    """-ln E[min(c, cap)]."""
    value, to_m, to_s = expected_cost_slopes(*outlook.cost, outlook.cap)
    none = np.zeros_like(value)
    return Graded(-value, np.zeros_like(outlook.mean), none, -to_m, -to_s, none)


def differenced(function: Callable[[Outlook], Array], step: float = 1e-6) -> Score:
    """A score from an elementwise function of an Outlook.

    The partial derivatives are central differences, which need no call of a model.
    """

    def score(outlook: Outlook) -> Graded:
        def change(raised: Outlook, lowered: Outlook, width: Array) -> Array:
            return (function(raised) - function(lowered)) / width

        unit = step * outlook.std
        to_mean = np.empty_like(outlook.mean)
        for f in range(outlook.mean.shape[1]):
            raised, lowered = outlook.mean.copy(), outlook.mean.copy()
            raised[:, f] += unit
            lowered[:, f] -= unit
            to_mean[:, f] = change(
                outlook._replace(mean=raised), outlook._replace(mean=lowered), 2.0 * unit
            )
        to_std = change(
            outlook._replace(std=outlook.std + unit),
            outlook._replace(std=outlook.std - unit),
            2.0 * unit,
        )
        m, s = outlook.cost
        flat = np.full_like(m, 2.0 * step)
        to_cost_mean = change(
            outlook._replace(cost=outlook.cost._replace(mean=m + step)),
            outlook._replace(cost=outlook.cost._replace(mean=m - step)),
            flat,
        )
        low = np.maximum(s - step, 0.0)
        to_cost_std = change(
            outlook._replace(cost=outlook.cost._replace(std=s + step)),
            outlook._replace(cost=outlook.cost._replace(std=low)),
            s + step - low,
        )
        to_success = change(
            outlook._replace(log_success=outlook.log_success + step),
            outlook._replace(log_success=outlook.log_success - step),
            flat,
        )
        return Graded(function(outlook), to_mean, to_std, to_cost_mean, to_cost_std, to_success)

    return score


class ScoreView(NamedTuple):
    """The points at which a search starts, and their outlook."""

    X: Array
    outlook: Outlook
    at_best: bool = False  # whether it is only the bound `Belief.at_best`, as for a large table


def _effort(belief: Belief) -> Effort:
    return LIGHT if belief.light else Effort()


def look(belief: Belief, rng: np.random.Generator) -> ScoreView:
    """The starting points of a search, which several scores can share: one call of the models."""
    space = belief.space
    if space.rows is None:
        X = candidates(space, rng, belief.top, _effort(belief))
        return ScoreView(X, belief.outlook(X))
    X = untried(space.rows, belief.tried)
    large = len(X) > CHUNK
    return ScoreView(X, belief.at_best(X) if large else belief.outlook(X), at_best=large)


@dataclass(frozen=True)
class ScoreSurface:
    """A score as a function on the unit cube, for `search.maximise`."""

    belief: Belief
    score: Score
    seen: ScoreView | None = None

    def at(self, X: Array) -> Rated:
        """Score and shortfall at X."""
        if self.seen is not None and X is self.seen.X:
            outlook = self.seen.outlook
        else:
            outlook = self.belief.outlook(X)
        return Rated(self.score(outlook).score, outlook.shortfall)

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        """`at(X)`, and the gradients of score and shortfall, (m, d) each."""
        outlook, d = self.belief.slopes(X)
        graded = self.score(outlook)
        return Rated(graded.score, outlook.shortfall), chained(graded, d), d.d_shortfall


def chained(graded: Graded, d: OutlookSlopes) -> Array:
    """The gradient of a score in the cube, (m, d), by the chain rule."""
    gradient: Array = np.matmul(d.d_mean, graded.to_mean[:, :, None])[:, :, 0]
    gradient += graded.to_std[:, None] * d.d_std
    for partial, slope in (
        (graded.to_cost_mean, d.d_cost_mean),
        (graded.to_cost_std, d.d_cost_std),
        (graded.to_success, d.d_log_success),
    ):
        if slope.any():
            gradient += partial[:, None] * slope
    return gradient


def maximise_score(
    belief: Belief,
    score: Score,
    rng: np.random.Generator,
    *,
    seen: ScoreView | None = None,
    within: float = 0.0,
) -> Found:
    """The affordable, untried points with the highest scores, best first.

    Args:
        seen: starting points from `look`, if several scores share them.
        within: for a table, return all rows whose score is within this distance of the best.
    """
    assert belief.objective is not None
    ceiling = None
    if belief.space.rows is None or isinstance(score, Monotone):
        seen = seen or look(belief, rng)
        if seen.at_best:
            best = seen.outlook
            ceiling = np.where(best.shortfall <= 0, score(best).score, -np.inf)
    return maximise(
        ScoreSurface(belief, score, seen),
        belief.space,
        rng,
        tried=belief.tried,
        near=belief.top,
        lengths=belief.objective.lengthscales,
        effort=_effort(belief),
        screened=None if seen is None else seen.X,
        ceiling=ceiling,
        within=within,
    )


def surface_of(policy: Policy, belief: Belief, rng: np.random.Generator) -> Surface | None:
    """The surface that a policy maximises for its next proposal; None if it maximises none.

    A policy that maximises one has a method `surface(belief, rng)`.
    """
    find: Callable[[Belief, np.random.Generator], Surface | None] | None
    find = getattr(policy, "surface", None)
    return None if find is None else find(belief, rng)


def first_feasible(belief: Belief, rng: np.random.Generator, alpha: float) -> Proposal:
    """The point most likely to meet the constraints, per cost^alpha, while no trial meets them."""
    found = maximise_score(belief, log_ei_per_cost(alpha), rng)
    return proposal(belief, found, "most likely to be the first that meets the constraints")


def _source_of(belief: Belief, best: float) -> str:
    """Where the incumbent comes from: a trial, the running trials or the model."""
    found = next((t.number for t in belief.history.done if t.value == best), None)
    if found is not None:
        return f" (trial {found})"
    if belief.history.running:
        return " (the best value expected once the running trials end)"
    return " (the best posterior mean)"


def proposal(
    belief: Belief, found: Found, why: str, *, notes: Mapping[str, Any] | None = None
) -> Proposal:
    """A proposal of the best point found.

    Its reason gives the incumbent, the expected improvement and the expected cost.

    Args:
        why: the start of the reason, such as "most expected improvement per cost".
    """
    if not len(found.X):
        return Proposal(None, "nothing affordable and untried is left", notes=notes or {})
    x = found.X[0]
    outlook = belief.outlook(x[None])
    ei = float(np.exp(_log_improvement(outlook)[0][0]))
    best = belief.sign * float(np.mean(belief.best))
    because = f"{why}: expected to improve {best:.4g}{_source_of(belief, best)} by {ei:.3g}"
    if not belief.has_incumbent:
        because = f"{why}: no trial meets the constraints yet, so any feasible value improves"
    if belief.feasibility:
        because += f", feasible with probability {np.exp(belief.log_feasible(x[None])[0]):.3g}"
    for resource, (m, s) in belief.predicted(x).items():
        cost = float(np.exp(expected_cost(m, s, max(belief.ledger[resource].left, 1e-300))[0]))
        because += f", for about {format_amount(resource, cost)}"
    return Proposal(x, because, float(found.score[0]), notes or {})
