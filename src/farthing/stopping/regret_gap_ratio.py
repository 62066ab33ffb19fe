"""SRGap, the gap of expected minimum simple regrets (Ishibashi et al. 2023).

How much the newest value (x_t, y_t) can have changed the expected regret, with x* the incumbents
and posteriors t - 1 and t of the same hyperparameters:

    gap = |mean_t(x*_t) - mean_{t-1}(x*_{t-1})|  +  E_t[(f(x*_{t-1}) - f(x*_t))+]
          + kappa_{t-1} sqrt(KL / 2)
    KL  = [ln(1 + v/n) - v/(v + n) + v ((y_t - m)/(v + n))^2] / 2

m, v the old posterior at x_t, n the noise variance, kappa the UCB-LCB gap of the old posterior.
Stop when gap <= ratio times the median of its first values (SRGap-med); without a ratio, when it is
at most (their eq. 16)

    [std_{t-1}(x*_t) + kappa/2] sqrt(v n) / (v + n) sqrt(-2 ln delta)

KL grows without bound as n goes to 0, and the rule would never stop: n is at least 1e-4 of the
prior variance. The first values are noted with the trials.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.models.gp import GP, MODEL_AT_MOST, build
from farthing.models.normal import log_ei
from farthing.policies.confidence_bound import beta
from farthing.stopping.ei_ratio import check_faded, still_first
from farthing.stopping.regret_gap import check_chance, left_out, regret_gap

__all__ = ["RegretGapRatio"]

Array = NDArray[np.float64]

LEAST_NOISE = 1e-4  # of the prior variance


@dataclass(frozen=True)
class RegretGapRatio:
    """What the newest value can have changed has faded to a share of what it was.

    Attributes:
        ratio: the share that is too little; None: as little as noise would make it.
        first: how many values at the beginning it is compared with.
        delta: the chance that the bounds are wrong.
    """

    ratio: float | None = 0.01
    first: int = 20
    delta: float = 0.1

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_faded(self.ratio, self.first, "RegretGapRatio")
        check_chance(self.delta, "RegretGapRatio", 0.1)

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """gap <= ratio median, or <= what noise would make it."""
        moved = _newest(belief.without_running(), self.delta, rng)
        said = (
            f"the newest value can have changed the expected regret by {moved.gap:.3g}"
            f"{left_out(belief)}"
        )
        if self.ratio is None:
            threshold = moved.by_noise(self.delta)
            stop = moved.gap <= threshold
            because = f"{said}, {_relation(stop)} the {threshold:.3g} that noise would"
            return Verdict(bool(stop), because, moved.gap, threshold)
        values = len(belief.y)
        # [how many values there were, the gap of the last]: one entry for each value.
        noted: list[list[float]] = list(belief.history.last_note("regret_gap_faded") or [])
        ready = len(noted) >= self.first and noted[self.first - 1][0] < values
        if len(noted) < self.first and (not noted or noted[-1][0] < values):
            noted = [*noted, [values, moved.gap]]
        threshold = self.ratio * float(np.median([gap for _, gap in noted[: self.first]]))
        below = moved.gap <= threshold
        because = (
            f"{said}, {_relation(below)} {self.ratio:g} of what it did at first, {threshold:.3g}"
            f"{still_first(noted, self.first, ready)}"
        )
        notes = {} if ready else {"regret_gap_faded": noted}
        return Verdict(bool(ready and below), because, moved.gap, threshold, notes)


class Moved(NamedTuple):
    """What one more value did to a posterior; standardised but for what is said.

    Attributes:
        means: |mean_t(x*_t) - mean_{t-1}(x*_{t-1})|, in units of the objective.
        improvement: E_t[(f(x*_{t-1}) - f(x*_t))+], likewise.
        kappa: the UCB-LCB gap of the old posterior, likewise.
        std: of the old posterior at the new incumbent, likewise.
        v: the old posterior variance at the new point.
        miss: how far the new value is from the old posterior's mean.
        noise: the variance of the noise.
    """

    means: float
    improvement: float
    kappa: float
    std: float
    v: float
    miss: float
    noise: float

    @property
    def divergence(self) -> float:
        """KL(new || old)."""
        v, n = self.v, self.noise
        learnt = np.log1p(v / n) - v / (v + n)
        return float(0.5 * (learnt + v * (self.miss / (v + n)) ** 2))

    @property
    def gap(self) -> float:
        """A bound on the change of the expected minimum regret."""
        return self.means + self.improvement + self.kappa * float(np.sqrt(0.5 * self.divergence))

    def by_noise(self, delta: float) -> float:
        """The adaptive threshold."""
        weight = np.sqrt(self.v * self.noise) / (self.v + self.noise)
        return float((self.std + 0.5 * self.kappa) * weight * np.sqrt(-2.0 * np.log(delta)))


def improvement(mean: float, variance: float) -> float:
    """E[(f)+] of a normal variable: s h(mean / s)."""
    return float(np.exp(log_ei(0.0, np.sqrt(variance), mean))) if variance > 0 else max(mean, 0.0)


def _newest(belief: Belief, delta: float, rng: np.random.Generator) -> Moved:
    """What the value told last, by number, did."""
    gp = belief.objective
    assert gp is not None
    X = np.array([trial.x for trial in belief.history.done])
    newest = min(len(X), MODEL_AT_MOST) - 1  # its row: failures come after the values
    old = _without(gp, newest)
    now, was = (_incumbent(belief, g, X[:n]) for g, n in ((gp, len(X)), (old, len(X) - 1)))
    means = float(gp.at(X[[now]]).mean[0, 0] - old.at(X[[was]]).mean[0, 0])
    gained = 0.0
    if now != was:
        both = gp.at(X[[was, now]]).mean[:, 0]
        cov = gp.covariance(X[[was, now]])
        gained = improvement(float(both[0] - both[1]), float(cov[0, 0] - 2 * cov[0, 1] + cov[1, 1]))
    root = float(np.sqrt(beta(belief.space.d, len(X) - 1, delta)))
    before = replace(belief, objective=old, best=np.array([belief.y[:-1].min()]))
    m, s = old.at(X[[-1]])
    y = gp.shift + gp.scale * gp.targets[newest, 0]
    return Moved(
        means=abs(means),
        improvement=gained,
        kappa=regret_gap(before, X[:-1], root, rng),
        std=float(old.at(X[[now]]).std[0]),
        v=float(s[0] / gp.scale) ** 2,
        miss=float((y - m[0, 0]) / gp.scale),
        noise=max(gp.noise, LEAST_NOISE * gp.variance),
    )


def _without(gp: GP, row: int) -> GP:
    """The posterior without one row, everything else as it is."""
    keep = np.delete(np.arange(len(gp.X)), row)
    old = build(gp.X[keep], gp.targets[keep], gp.hyper, options=gp.options)
    return replace(old, shift=gp.shift, scale=gp.scale)


def _incumbent(belief: Belief, gp: GP, X: Array) -> int:
    """Of the first len(X) values the best one, by the posterior's mean if they are noisy."""
    value = gp.at(X).mean[:, 0] if belief.noisy else belief.y[: len(X)]
    return int(np.argmin(value))


def _relation(below: bool) -> str:
    return "at most" if below else "more than"
