"""A Gaussian process on the selected parameters only (Guinet et al. 2020, figure 2).

ln c(x) ~ GP on the coordinates of x whose features `Linear` selects
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.linear import AT_MOST, Linear
from farthing.cost.model import CostModel, Evidence, Slopes, with_noise, with_noise_slopes
from farthing.models.censored import fit_censored
from farthing.models.gp import GP, FitMemory, Normal

__all__ = ["SelectedGP"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _SelectedGPCost:
    """A fitted `SelectedGP`."""

    gp: GP
    columns: tuple[int, ...]  # the coordinates of the process
    names: tuple[str, ...]
    memory: FitMemory | None
    X: Array  # (n, d) of all the evidence
    rows: NDArray[np.int64]  # the rows of X that the process uses
    because: str = ""

    @property
    def about(self) -> str:
        return f"a Gaussian process on {', '.join(self.names)}"

    @property
    def noise(self) -> float:
        """Standard deviation of ln c about the latent function."""
        return float(np.sqrt(self.gp.noise) * self.gp.scale)

    def log_at(self, X: Array) -> Normal:
        mean, std = self.gp.at(np.asarray(X)[:, list(self.columns)])
        return with_noise(Normal(mean[:, 0], std), self.noise)

    def slopes(self, X: Array) -> Slopes:
        (mean, std), d_mean, d_std = self.gp.slopes(np.asarray(X)[:, list(self.columns)])
        wide_mean, wide_std = np.zeros(np.shape(X)), np.zeros(np.shape(X))
        wide_mean[:, list(self.columns)] = d_mean[:, :, 0]
        wide_std[:, list(self.columns)] = d_std
        return with_noise_slopes((Normal(mean[:, 0], std), wide_mean, wide_std), self.noise)

    def left_out(self) -> Normal:
        mean, std = self.log_at(self.X)
        used = len(self.rows)
        mean[self.rows], std[self.rows] = (part[:used] for part in self.gp.left_out())
        return Normal(mean, std)

    def condition(self, x: Array, cost: float) -> _SelectedGPCost:
        x = np.asarray(x)[list(self.columns)]
        return replace(self, gp=self.gp.condition(x, np.log(cost)))


@dataclass(frozen=True)
class SelectedGP:
    """Learn ln c with a Gaussian process on a few parameters.

    Attributes:
        features: names of parameters; None selects those with the lowest leave-one-out error.
        at_most: the maximum number of selected features.
    """

    features: Sequence[str] | None = None
    at_most: int = AT_MOST

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", self._linear.features)

    @property
    def _linear(self) -> Linear:
        return Linear(self.features, self.at_most)

    def fit(self, evidence: Evidence) -> CostModel | None:
        """A model of ln c; a constant if no parameter predicts it."""
        chosen = self._linear.fit(evidence)
        if chosen is None or not chosen.chosen:
            return chosen
        columns = tuple(sorted({int(chosen.source[k]) for k in chosen.chosen}))
        memory = evidence.memory
        if memory is not None and memory.get("columns") != list(columns):
            memory = None  # hyperparameters of other parameters
        gp, learnt, rows = fit_censored(
            evidence.X[:, list(columns)],
            evidence.log_cost(),
            evidence.at_least,
            memory,
            options=evidence.space.options[list(columns)],
            seldom=evidence.seldom,
        )
        names = tuple(evidence.space.names[j] for j in columns)
        memory = {**learnt, "columns": list(columns)}
        return _SelectedGPCost(gp, columns, names, memory, evidence.X, rows, chosen.because)
