"""PRB, the probabilistic regret bound (Wilson 2024).

    stop when  P(f(x) - min f <= within | data) >= 1 - delta  for some evaluated x

The probability is that of functions drawn from the posterior, each minimised. Half of delta is for
the objective, half for estimating by draws: more of them are made until a Clopper-Pearson interval
of P(f(x) - min f > within) lies on one side of delta/2, tested after floor(16 1.5^(j-1)) draws at a
risk of (0.1/1.1) j^-1.1 of the whole, which is shared in the same way among the moments at which
the rule is asked, and equally among the points.

`plain` is the reproduction of Xie et al. 2025: the share of 64, 96, 144, ..., at most 1,000 draws
for the best point against 1 - delta, which certifies nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from farthing.acquisition.belief import Belief
from farthing.acquisition.posterior_samples import draw, minima
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.stopping.regret_gap import check_chance, check_within, left_out

__all__ = ["ProbableRegret"]

Array = NDArray[np.float64]

FIRST_DRAWS, GROWTH = 16, 1.5
MOST_DRAWS = 1_500  # not decided by then is not certain
TESTED = 5  # points, those of lowest posterior mean
PLAIN_DRAWS, PLAIN_MOST = 64, 1_000


@dataclass(frozen=True)
class ProbableRegret:
    """The best value is probably within so much of the best there is.

    Attributes:
        within: how far it may be from the best there is, in units of the objective.
        delta: the chance that it is not.
        plain: take the share of some draws for the probability, to reproduce the stopping paper.
    """

    within: float
    delta: float = 0.05
    plain: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_within(self.within, "ProbableRegret")
        check_chance(self.delta, "ProbableRegret", 0.05)

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """P(regret <= within) >= 1 - delta."""
        known = belief.without_running()
        asked = int(belief.history.last_note("probable_regret") or 0) + 1
        level = self.delta if self.plain else 0.5 * self.delta
        if self.plain:
            count = min(int(PLAIN_DRAWS * GROWTH ** min(asked - 1, 20)), PLAIN_MOST)
            missed = _misses(known, _promising(known)[:1], self.within, count, rng)
            seen = Survey(int(missed.sum()), count, float(missed.mean()))
        else:
            seen = _certified(known, self.within, level, scheduled(level, asked), rng)
        stop = seen.at_most <= level
        because = (
            f"the best value is within {self.within:.3g} of the best there is in "
            f"{seen.draws - seen.misses} of {seen.draws} functions drawn from the model"
            f"{left_out(belief)}: a probability of {'' if self.plain else 'surely at least '}"
            f"{1 - seen.at_most:.3g}, {'at least' if stop else 'less than'} the {1 - level:.3g} "
            "that will do"
        )
        notes = {"probable_regret": asked}
        return Verdict(stop, because, 1 - seen.at_most, 1 - level, notes)


class Survey(NamedTuple):
    """In how many of how many draws the best point missed, and the probability of it."""

    misses: int
    draws: int
    at_most: float


def scheduled(risk: float, number: int) -> float:
    """The share of a risk that is taken at the number-th of endlessly many occasions."""
    return float(0.1 / 1.1 * risk * number**-1.1)


def clopper_pearson(hits: Array, draws: int, risk: float) -> tuple[Array, Array]:
    """The two-sided interval of a probability that was `hits` times in `draws` so."""
    hits = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        low = betaincinv(hits, draws - hits + 1.0, 0.5 * risk)
        # The complement, so that a small risk keeps its digits.
        high = 1.0 - betaincinv(draws - hits, hits + 1.0, 0.5 * risk)
    return np.where(hits == 0, 0.0, low), np.where(hits == draws, 1.0, high)


def _certified(
    belief: Belief, within: float, level: float, risk: float, rng: np.random.Generator
) -> Survey:
    """Draw until P(regret > within) is surely at most `level` somewhere, or nowhere."""
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
    X = np.unique(np.array([trial.x for trial in belief.history.done]), axis=0)
    order = np.argsort(belief.objective.at(X).mean[:, 0], kind="stable")
    return np.asarray(X[order[:TESTED]])


def _misses(
    belief: Belief, X: Array, within: float, count: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """(count, k) whether f(x) - min f > within, for each function drawn and each point of X."""
    gp = belief.objective
    assert gp is not None
    paths = draw(gp, belief.space.names, count, rng)
    regret = paths.at(X).T - minima(paths, belief.space, X, rng)[:, None]
    return np.asarray(gp.scale * regret > within)
