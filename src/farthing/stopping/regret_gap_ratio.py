"""SRGap, the gap of expected minimum simple regrets (Ishibashi et al. 2023).

The gap bounds the change of the expected regret by the newest value (x_t, y_t). x* are the
incumbents, and the posteriors t - 1 and t share their hyperparameters.

    gap = |mean_t(x*_t) - mean_{t-1}(x*_{t-1})|  +  E_t[(f(x*_{t-1}) - f(x*_t))+]
          + kappa_{t-1} sqrt(KL / 2)
    KL  = [ln(1 + v/n) - v/(v + n) + v ((y_t - m)/(v + n))^2] / 2

m and v are mean and variance of the old posterior at x_t, n is the noise variance, and kappa is the
UCB-LCB gap of the old posterior. The rule stops if gap <= ratio times the median of its first
values (SRGap-med). Without a ratio the threshold is (their eq. 16)

    [std_{t-1}(x*_t) + kappa/2] sqrt(v n) / (v + n) sqrt(-2 ln delta)

KL grows without bound as n goes to 0, and the rule would never stop. So n is at least 1e-4 of the
prior variance. The first values are stored in the notes of the trials.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, Verdict
from farthing.models.gp import GP, MODEL_AT_MOST, build
from farthing.models.normal import log_ei
from farthing.policies.confidence_bound import beta
from farthing.stopping.ei_ratio import check_ratio, gathering
from farthing.stopping.regret_gap import check_chance, left_out, regret_gap

__all__ = ["RegretGapRatio"]

Array = NDArray[np.float64]

LEAST_NOISE = 1e-4  # of the prior variance


@dataclass(frozen=True)
class RegretGapRatio:
    """Stop if the effect of the newest value on the regret is a small share of its first values.

    Attributes:
        ratio: the share of the median of the first values below which the run stops. None uses the
            effect that noise alone would have.
        first: the number of first values.
        delta: the probability that the bounds are wrong.
    """

    ratio: float | None = 0.01
    first: int = 20
    delta: float = 0.1

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_ratio(self.ratio, self.first, "RegretGapRatio")
        check_chance(self.delta, "RegretGapRatio", 0.1)

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """gap <= ratio median, or <= the threshold from noise."""
        if not np.isfinite(belief.feasible_y[:-1]).any():
            return NOTHING_FEASIBLE
        effect = _newest(belief.without_running(), self.delta, rng)
        change = (
            f"the newest value changed the expected regret by at most {effect.gap:.3g}"
            f"{left_out(belief)}"
        )
        if self.ratio is None:
            threshold = effect.by_noise(self.delta)
            stop = effect.gap <= threshold
            because = f"{change}, which is {_relation(stop)} the effect of noise, {threshold:.3g}"
            return Verdict(bool(stop), because, effect.gap, threshold)
        values = len(belief.y)
        # One entry for each value: [the number of values so far, the gap of the newest].
        noted: list[list[float]] = list(belief.history.last_note("regret_gap_faded") or [])
        ready = len(noted) >= self.first and noted[self.first - 1][0] < values
        if len(noted) < self.first and (not noted or noted[-1][0] < values):
            noted = [*noted, [values, effect.gap]]
        threshold = self.ratio * float(np.median([gap for _, gap in noted[: self.first]]))
        below = effect.gap <= threshold
        because = (
            f"{change}, which is {_relation(below)} {self.ratio:g} of its first values, "
            f"{threshold:.3g}{gathering(noted, self.first, ready)}"
        )
        notes = {} if ready else {"regret_gap_faded": noted}
        return Verdict(bool(ready and below), because, effect.gap, threshold, notes)


class Effect(NamedTuple):
    """The effect of one more value on a posterior.

    The first four are in units of the objective, the last three are standardised.

    Attributes:
        means: |mean_t(x*_t) - mean_{t-1}(x*_{t-1})|.
        improvement: E_t[(f(x*_{t-1}) - f(x*_t))+].
        kappa: the UCB-LCB gap of the old posterior.
        std: of the old posterior at the new incumbent.
        v: the old posterior variance at the new point.
        miss: the new value minus the mean of the old posterior.
        noise: the noise variance.
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
        """The adaptive threshold (eq. 16)."""
        weight = np.sqrt(self.v * self.noise) / (self.v + self.noise)
        return float((self.std + 0.5 * self.kappa) * weight * np.sqrt(-2.0 * np.log(delta)))


def improvement(mean: float, variance: float) -> float:
    """E[(f)+] of a normal variable f, which is s h(mean / s)."""
    return float(np.exp(log_ei(0.0, np.sqrt(variance), mean))) if variance > 0 else max(mean, 0.0)


def _newest(belief: Belief, delta: float, rng: np.random.Generator) -> Effect:
    """The effect of the value with the highest trial number."""
    gp = belief.objective
    assert gp is not None
    X = np.array([trial.x for trial in belief.history.done])
    newest = min(len(X), MODEL_AT_MOST) - 1  # its row, because failures come after the values
    old = _without(gp, newest)
    now, was = (_incumbent(belief, g, X[:n]) for g, n in ((gp, len(X)), (old, len(X) - 1)))
    means = float(gp.at(X[[now]]).mean[0, 0] - old.at(X[[was]]).mean[0, 0])
    gained = 0.0
    if now != was:
        both = gp.at(X[[was, now]]).mean[:, 0]
        cov = gp.covariance(X[[was, now]])
        gained = improvement(float(both[0] - both[1]), float(cov[0, 0] - 2 * cov[0, 1] + cov[1, 1]))
    root = float(np.sqrt(beta(belief.space.d, len(X) - 1, delta)))
    before = replace(belief, objective=old, best=np.array([belief.feasible_y[:-1].min()]))
    m, s = old.at(X[[-1]])
    y = gp.shift + gp.scale * gp.targets[newest, 0]
    return Effect(
        means=abs(means),
        improvement=gained,
        kappa=regret_gap(before, X[:-1][np.isfinite(belief.feasible_y[:-1])], root, rng),
        std=float(old.at(X[[now]]).std[0]),
        v=float(s[0] / gp.scale) ** 2,
        miss=float((y - m[0, 0]) / gp.scale),
        noise=max(gp.noise, LEAST_NOISE * gp.variance),
    )


def _without(gp: GP, row: int) -> GP:
    """The posterior without one row, with the same hyperparameters."""
    keep = np.delete(np.arange(len(gp.X)), row)
    old = build(gp.X[keep], gp.targets[keep], gp.hyper, options=gp.options)
    return replace(old, shift=gp.shift, scale=gp.scale, prior=gp.prior)


def _incumbent(belief: Belief, gp: GP, X: Array) -> int:
    """Index of the best of the first len(X) values, by posterior mean if they are noisy."""
    value = gp.at(X).mean[:, 0] if belief.noisy else belief.y[: len(X)]
    return int(np.argmin(np.where(np.isfinite(belief.feasible_y[: len(X)]), value, np.inf)))


def _relation(below: bool) -> str:
    return "at most" if below else "more than"
