"""The probability that an evaluation meets a constraint.

A Gaussian process models z = measured, or -measured for ">=", so that z is to be at most a bound:

    ln P = ln Phi((bound - mean) / spread),   spread^2 = std^2, plus the noise if values are noisy

The noise is included, because the measured value decides whether a trial is feasible. If values are
not noisy, the noise of the process is only roughness that its kernel lacks. Schonlau et al. 1998;
Gardner et al. 2014; Gelbart et al. 2014. Large values are not clipped: clipping could move a
violation below the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farthing.history import Trial
from farthing.models.constraints import Constraint
from farthing.models.gp import GP, FitMemory, refit
from farthing.models.normal import log_below, log_below_slopes

__all__ = ["Feasibility", "fit_constraints", "fit_feasibility"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Feasibility:
    """The model of one constraint.

    Attributes:
        name: the measured quantity.
        gp: the model of z.
        bound: of z.
        noisy: whether equal points may give different z.
        pending: the number of last rows that `drawn` added.
    """

    name: str
    gp: GP
    bound: float
    noisy: bool = False
    pending: int = 0

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a measurement, in units of z."""
        return float(self.gp.scale * np.sqrt(self.gp.noise)) if self.noisy else 0.0

    def log_probability(self, X: Array) -> Array:
        """(m,) ln P(z <= bound)."""
        mean, std = self.gp.at(X)
        return log_below(mean[:, 0], np.hypot(std, self.noise), self.bound)

    def slopes(self, X: Array) -> tuple[Array, Array]:
        """`log_probability(X)` and its gradient in the cube, (m, d)."""
        (mean, std), d_mean, d_std = self.gp.slopes(X)
        spread = np.hypot(std, self.noise)
        value, to_mean, to_spread = log_below_slopes(mean[:, 0], spread, self.bound)
        to_std = to_spread * (std / spread)
        return value, to_mean[:, None] * d_mean[:, :, 0] + to_std[:, None] * d_std

    def plausible_excess(self, X: Array, root: float) -> tuple[Array, Array]:
        """(mean - root std - bound) / scale, (m,), and its gradient: plausible where at most 0."""
        (mean, std), d_mean, d_std = self.gp.slopes(X)
        excess = (mean[:, 0] - root * std - self.bound) / self.gp.scale
        return excess, (d_mean[:, :, 0] - root * d_std) / self.gp.scale

    def drawn(self, X: Array, rng: np.random.Generator) -> tuple[Feasibility, NDArray[np.bool_]]:
        """The model after measurements at X (k, d) that are drawn from it, and which of them meet
        the constraint.
        """
        noise = self.noise * rng.standard_normal(len(X))
        z = self.gp.sample(X, 1, rng)[0] + noise
        gp = self.gp.condition_all(X, z[:, None])
        return replace(self, gp=gp, pending=self.pending + len(X)), z <= self.bound

    def without_drawn(self) -> Feasibility:
        """The model of what was measured."""
        gp, n = self.gp, len(self.gp.X) - self.pending
        gp = replace(gp, X=gp.X[:n], targets=gp.targets[:n], L=gp.L[:n, :n])
        return replace(self, gp=gp, pending=0)


def fit_feasibility(
    name: str,
    X: ArrayLike,
    z: ArrayLike,
    bound: float,
    memory: FitMemory | None,
    *,
    options: Ints | None = None,
    noisy: bool = False,
    seldom: bool = False,
) -> tuple[Feasibility, FitMemory]:
    """The model of a constraint, and the memory for the next fit; arguments as in `gp.refit`."""
    gp, memory = refit(X, z, memory, options=options, noisy=noisy, clip=False, seldom=seldom)
    z = np.asarray(z, dtype=np.float64)
    if not gp.targets.any() and z[0] != bound:  # constant: its distance from the bound is the unit
        gp = replace(gp, scale=float(abs(z[0] - bound)))
    return Feasibility(name, gp, bound, noisy), memory


def fit_constraints(
    constraints: Sequence[Constraint],
    X: Array,
    trials: Sequence[Trial],
    memories: Mapping[str, FitMemory],
    *,
    options: Ints,
    noisy: bool,
    seldom: bool,
) -> tuple[tuple[Feasibility, ...], dict[str, FitMemory]]:
    """The models of the constraints that any trial has measured, and the memories by key.

    Args:
        X: (n, d) the points of the trials.
    """
    models, new = list[Feasibility](), dict[str, FitMemory]()
    for each in constraints:
        z = each.sign * np.array([each.measured(trial) for trial in trials], dtype=np.float64)
        known = ~np.isnan(z)
        if known.any():
            key, bound = f"constraint:{each.name}", each.sign * each.bound
            model, new[key] = fit_feasibility(
                *(each.name, X[known], z[known], bound, memories.get(key)),
                options=options,
                noisy=noisy,
                seldom=seldom,
            )
            models.append(model)
    return tuple(models), new
