"""PRB, the probabilistic regret bound (Wilson 2024).

    stop when  P(f(x) - min f <= within | data) >= 1 - delta  for some evaluated x

The probability is estimated from functions that are drawn from the posterior and minimised. Half of
delta is for the objective and half for this estimate. Draws are added until a Clopper-Pearson
interval of P(f(x) - min f > within) lies on one side of delta/2. Test j comes after
floor(16 1.5^(j-1)) draws and takes the share (0.1/1.1) j^-1.1 of the risk. The same shares divide
the risk among the calls of the rule. The points divide it equally.

`plain` reproduces Xie et al. 2025. It compares the share of 64, 96, 144, ..., at most 1,000 draws
for the best point with 1 - delta, which certifies nothing.

With constraints, x is feasible, and the minimum is over the points where functions drawn from the
models of the constraints are within their bounds, and over the feasible x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from farthing.acquisition.belief import Belief
from farthing.acquisition.posterior_samples import draw, minima
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, Verdict
from farthing.stopping.regret_gap import (
    check_chance,
    check_within,
    feasible_points,
    left_out,
)

__all__ = ["ProbableRegret"]

Array = NDArray[np.float64]

FIRST_DRAWS, GROWTH = 16, 1.5
MOST_DRAWS = 1_500  # if these do not decide, the run continues
TESTED = 5  # points of lowest posterior mean
PLAIN_DRAWS, PLAIN_MOST = 64, 1_000


@dataclass(frozen=True)
class ProbableRegret:
    """Stop if the best value is within a tolerance of the optimum with high probability.

    Attributes:
        within: the tolerance, in units of the objective.
        delta: the probability that the rule may be wrong.
        plain: use the share of draws without a confidence interval, to reproduce Xie et al. 2025.
    """

    within: float
    delta: float = 0.05
    plain: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_within(self.within, "ProbableRegret")
        check_chance(self.delta, "ProbableRegret", 0.05)

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """P(regret <= within) >= 1 - delta."""
        if belief.lacks_feasible:
            return NOTHING_FEASIBLE
        known = belief.without_running()
        call = int(belief.history.last_note("probable_regret") or 0) + 1
        level = self.delta if self.plain else 0.5 * self.delta
        if self.plain:
            count = min(int(PLAIN_DRAWS * GROWTH ** min(call - 1, 20)), PLAIN_MOST)
            missed = _misses(known, _promising(known)[:1], self.within, count, rng)
            seen = Survey(int(missed.sum()), count, float(missed.mean()))
        else:
            seen = _certified(known, self.within, level, scheduled(level, call), rng)
        stop = seen.at_most <= level
        because = (
            f"the best value is within {self.within:.3g} of the optimum in "
            f"{seen.draws - seen.misses} of {seen.draws} functions drawn from the model"
            f"{left_out(belief)}: a probability of {'' if self.plain else 'at least '}"
            f"{1 - seen.at_most:.3g}, {'at least' if stop else 'less than'} the required "
            f"{1 - level:.3g}"
        )
        notes = {"probable_regret": call}
        return Verdict(stop, because, 1 - seen.at_most, 1 - level, notes)


class Survey(NamedTuple):
    """The number of draws with regret > within at the best point."""

    misses: int
    draws: int
    at_most: float  # an upper bound, or if `plain` an estimate, of the probability of a miss


def scheduled(risk: float, number: int) -> float:
    """The part of a risk for occasion `number` of infinitely many: (0.1/1.1) number^-1.1."""
    return float(0.1 / 1.1 * risk * number**-1.1)


def clopper_pearson(hits: Array, draws: int, risk: float) -> tuple[Array, Array]:
    """The two-sided confidence interval of a probability, given `hits` in `draws`."""
    hits = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        low = betaincinv(hits, draws - hits + 1.0, 0.5 * risk)
        # Use the complement, so that a small risk keeps its precision.
        high = 1.0 - betaincinv(draws - hits, hits + 1.0, 0.5 * risk)
    return np.where(hits == 0, 0.0, low), np.where(hits == draws, 1.0, high)


def _certified(
    belief: Belief, within: float, level: float, risk: float, rng: np.random.Generator
) -> Survey:
    """Draw until P(regret > within) is at most `level` at some point, or above it at all points."""
    X = _promising(belief)
    misses, drawn, test = np.zeros(len(X), dtype=np.int64), 0, 0
    while True:
        test += 1
        count = int(FIRST_DRAWS * GROWTH ** (test - 1)) - drawn
        misses = misses + _misses(belief, X, within, count, rng).sum(axis=0)
        drawn += count
        low, high = clopper_pearson(misses, drawn, scheduled(risk / len(X), test))
        enough = FIRST_DRAWS * GROWTH**test > MOST_DRAWS
        if high.min() <= level or low.min() > level or enough:
            best = int(np.argmin(high))
            return Survey(int(misses[best]), drawn, float(high[best]))


def _promising(belief: Belief) -> Array:
    """(at most 5, d) the evaluated points of lowest posterior mean, the lowest first."""
    assert belief.objective is not None
    X = np.unique(feasible_points(belief), axis=0)
    order = np.argsort(belief.objective.at(X).mean[:, 0], kind="stable")
    return np.asarray(X[order[:TESTED]])


def _misses(
    belief: Belief, X: Array, within: float, count: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """(count, k) whether f(x) - min f > within, for each drawn function and each point of X."""
    gp = belief.objective
    assert gp is not None
    paths = draw(gp, belief.space.names, count, rng)
    names = belief.space.names
    limits = [(draw(m.gp, names, count, rng), m) for m in belief.feasibility]
    bounds = [(path, (m.bound - m.gp.shift) / m.gp.scale) for path, m in limits]
    regret = paths.at(X).T - minima(paths, belief.space, X, rng, bounds)[:, None]
    return np.asarray(gp.scale * regret > within)
