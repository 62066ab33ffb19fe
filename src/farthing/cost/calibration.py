"""How well a cost model predicts bills that it has not seen, and which parameters drive the cost.

left out     every bill predicted by a fit of the others, in up to twenty parts
error        root mean square of ln c - predicted, over the bills known exactly
coverage     share of them inside the middle 50, 80 and 95 % of what was predicted
share_j      E[(m(x) - m(x with x_j drawn anew))^2] / (2 var m): the share of the variance of
             m = E[ln c] that x_j has a part in (the total effect of Sobol' 1993, Jansen 1999)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from farthing.cost import CostLearner, CostModel, Evidence, Explained
from farthing.models.gp import Normal
from farthing.space.space import Space

__all__ = ["BANDS", "Calibration", "Driver", "calibrate", "total_effects"]

Array = NDArray[np.float64]

BANDS = (0.5, 0.8, 0.95)
PARTS = 20
POINTS = 512  # at which the effect of a parameter is measured


@dataclass(frozen=True)
class Driver:
    """A parameter's part in the cost.

    Attributes:
        share: of the variance of E[ln c], shared with what it interacts with: they may sum above 1.
        factor: by which it makes the cost larger: from its lowest to its highest value, or from
            the cheapest option to the dearest, the others as they may be.
    """

    name: str
    share: float
    factor: float


@dataclass(frozen=True)
class Calibration:
    """Predicted against actual.

    Attributes:
        about: what the model is.
        because: why it is simpler than was asked for, or which was chosen.
        predicted: ln c (n,) of each bill by the others.
        log_cost: (n,).
        at_least: (n,) where the actual cost is a lower bound.
        drivers: the parameters, the most important first.
    """

    about: str
    because: str
    predicted: Normal
    log_cost: Array
    at_least: NDArray[np.bool_]
    drivers: tuple[Driver, ...]

    @property
    def error(self) -> float | None:
        """Root mean square error of ln c; None if every bill is a bound."""
        off = (self.log_cost - self.predicted.mean)[~self.at_least]
        return float(np.sqrt(np.mean(off**2))) if len(off) else None

    def coverage(self, share: float) -> float | None:
        """The share of the bills inside the middle `share` of what was predicted for them."""
        mean, std = self.predicted
        inside = np.abs(self.log_cost - mean) <= float(ndtri(0.5 + 0.5 * share)) * std
        seen = inside[~self.at_least]
        return float(np.mean(seen)) if len(seen) else None


def calibrate(
    learner: CostLearner, evidence: Evidence, rng: np.random.Generator
) -> Calibration | None:
    """The report on a learner and the bills so far; None while fewer than two are known."""
    n = len(evidence.cost)
    model = learner.fit(evidence)
    if model is None or n < 2:
        return None
    about, because = type(learner).__name__, ""
    if isinstance(model, Explained):
        about, because = model.about, model.because
    return Calibration(
        about,
        because,
        _left_out(learner, evidence, model),
        evidence.log_cost(),
        evidence.at_least,
        drivers(model, evidence, rng),
    )


def _left_out(learner: CostLearner, evidence: Evidence, model: CostModel) -> Normal:
    n = len(evidence.cost)
    mean, std = np.empty(n), np.empty(n)
    part = np.arange(n) % PARTS
    for k in range(min(n, PARTS)):
        there, gone = part != k, part == k
        others = Evidence(
            evidence.space,
            evidence.X[there],
            evidence.cost[there],
            evidence.at_least[there],
            model.memory,
        )
        # With one bill some learners have no model: then that of all is the only one.
        mean[gone], std[gone] = (learner.fit(others) or model).log_at(evidence.X[gone])
    return Normal(mean, std)


def drivers(model: CostModel, evidence: Evidence, rng: np.random.Generator) -> tuple[Driver, ...]:
    """The parameters by their share, the largest first."""
    space = evidence.space
    X, other = space.sample(POINTS, rng), space.sample(POINTS, rng)
    shares = total_effects(lambda X: model.log_at(X).mean, X, other)
    found = [
        Driver(name, share, _factor(model, space, X, j))
        for j, (name, share) in enumerate(zip(space.names, shares, strict=True))
    ]
    return tuple(sorted(found, key=lambda driver: -driver.share))


def total_effects(mean_at: Callable[[Array], Array], X: Array, other: Array) -> list[float]:
    """share_j of each coordinate of X (m, d), drawn anew as in `other` (m, d); in [0, 1]."""
    at = mean_at(X)
    variance = float(np.var(at))
    shares = []
    for j in range(X.shape[1]):
        moved = X.copy()
        moved[:, j] = other[:, j]
        change = float(np.mean((at - mean_at(moved)) ** 2))
        # A mean that is the same everywhere but for rounding has no drivers.
        shares.append(min(0.5 * change / variance, 1.0) if variance > 1e-12 else 0.0)
    return shares


def _factor(model: CostModel, space: Space, X: Array, j: int) -> float:
    options = int(space.options[j])
    ends = (np.arange(options) + 0.5) / options if options else np.array([0.0, 1.0])
    means = []
    for end in ends:
        moved = X.copy()
        moved[:, j] = end
        if space.rows is None:  # the first of many integers is not at 0, but at half a step
            moved = space.snap(moved)
        means.append(float(model.log_at(moved).mean.mean()))
    gain = max(means) - min(means) if options else means[1] - means[0]
    return float(np.exp(np.clip(gain, -700.0, 700.0)))
