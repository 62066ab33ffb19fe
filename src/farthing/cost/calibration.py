"""How well a cost model predicts costs that it has not seen, and which parameters drive the cost.

left out     each cost is predicted by a fit to the others, in up to 20 folds
error        root mean square of ln c - predicted, over the costs that are not lower bounds
coverage     share of those costs inside the central 50, 80 and 95 % interval of the prediction
share_j      E[(m(x) - m(x with x_j resampled))^2] / (2 var m): the total effect of x_j on
             m = E[ln c] (Sobol' 1993, Jansen 1999)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from farthing.cost import CostLearner, CostModel, Evidence
from farthing.cost.model import about_of, because_of
from farthing.models.gp import Normal
from farthing.space.space import Space

__all__ = ["BANDS", "Calibration", "Driver", "calibrate", "total_effects"]

Array = NDArray[np.float64]

BANDS = (0.5, 0.8, 0.95)
FOLDS = 20
POINTS = 512  # random points that estimate the effect of a parameter


@dataclass(frozen=True)
class Driver:
    """The effect of a parameter on the cost.

    Attributes:
        share: its total effect, a share of the variance of E[ln c]. Interactions count for each
            parameter in them, so shares may sum to more than 1.
        factor: the cost at its highest value over the cost at its lowest, or at the most expensive
            option over the cheapest: a geometric mean over the other parameters.
    """

    name: str
    share: float
    factor: float


@dataclass(frozen=True)
class Calibration:
    """Predicted and actual costs.

    Attributes:
        about: what the model is.
        because: why it is simpler than requested, or why it was chosen.
        predicted: ln c (n,), each cost predicted from the others.
        log_cost: (n,) the actual costs.
        at_least: (n,) True where the actual cost is a lower bound.
        drivers: the parameters, most important first.
    """

    about: str
    because: str
    predicted: Normal
    log_cost: Array
    at_least: NDArray[np.bool_]
    drivers: tuple[Driver, ...]

    @property
    def error(self) -> float | None:
        """Root mean square error of ln c; None if every cost is a lower bound."""
        error = (self.log_cost - self.predicted.mean)[~self.at_least]
        return float(np.sqrt(np.mean(error**2))) if len(error) else None

    def coverage(self, share: float) -> float | None:
        """The share of the costs inside the central interval of probability `share`."""
        mean, std = self.predicted
        inside = np.abs(self.log_cost - mean) <= float(ndtri(0.5 + 0.5 * share)) * std
        exact = inside[~self.at_least]
        return float(np.mean(exact)) if len(exact) else None


def calibrate(
    learner: CostLearner, evidence: Evidence, rng: np.random.Generator
) -> Calibration | None:
    """The calibration of a learner on the costs so far; None with fewer than two costs."""
    n = len(evidence.cost)
    model = learner.fit(evidence)
    if model is None or n < 2:
        return None
    return Calibration(
        about_of(model, type(learner).__name__),
        because_of(model),
        _left_out(learner, evidence, model),
        evidence.log_cost(),
        evidence.at_least,
        drivers(model, evidence, rng),
    )


def _left_out(learner: CostLearner, evidence: Evidence, model: CostModel) -> Normal:
    n = len(evidence.cost)
    mean, std = np.empty(n), np.empty(n)
    fold = np.arange(n) % FOLDS
    for k in range(min(n, FOLDS)):
        kept, tested = fold != k, fold == k
        others = Evidence(
            evidence.space,
            evidence.X[kept],
            evidence.cost[kept],
            evidence.at_least[kept],
            model.memory,
        )
        # Some learners have no model of a single cost; the model of all costs replaces it.
        mean[tested], std[tested] = (learner.fit(others) or model).log_at(evidence.X[tested])
    return Normal(mean, std)


def drivers(model: CostModel, evidence: Evidence, rng: np.random.Generator) -> tuple[Driver, ...]:
    """The parameters, sorted by share, largest first."""
    space = evidence.space
    X, other = space.sample(POINTS, rng), space.sample(POINTS, rng)
    shares = total_effects(lambda X: model.log_at(X).mean, X, other)
    found = [
        Driver(name, share, _factor(model, space, X, j))
        for j, (name, share) in enumerate(zip(space.names, shares, strict=True))
    ]
    return tuple(sorted(found, key=lambda driver: -driver.share))


def total_effects(mean_at: Callable[[Array], Array], X: Array, other: Array) -> list[float]:
    """share_j in [0, 1] of each coordinate of X (m, d), resampled from `other` (m, d)."""
    at = mean_at(X)
    variance = float(np.var(at))
    shares = []
    for j in range(X.shape[1]):
        resampled = X.copy()
        resampled[:, j] = other[:, j]
        change = float(np.mean((at - mean_at(resampled)) ** 2))
        # A mean that varies only by rounding errors has no drivers.
        shares.append(min(0.5 * change / variance, 1.0) if variance > 1e-12 else 0.0)
    return shares


def _factor(model: CostModel, space: Space, X: Array, j: int) -> float:
    options = int(space.options[j])
    ends = (np.arange(options) + 0.5) / options if options else np.array([0.0, 1.0])
    means = []
    for end in ends:
        moved = X.copy()
        moved[:, j] = end
        if space.rows is None:  # the first of many integers lies at half a step, not at 0
            moved = space.snap(moved)
        means.append(float(model.log_at(moved).mean.mean()))
    gain = max(means) - min(means) if options else means[1] - means[0]
    return float(np.exp(np.clip(gain, -700.0, 700.0)))
