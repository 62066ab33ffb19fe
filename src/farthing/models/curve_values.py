"""The values of learning curves at rungs, and their transformation for a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.models.gp import clip_outliers, standardise

__all__ = ["CurveRows", "Scaling", "thinned"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_RUNGS = 8
MOST_LOG = 700.0  # exp of more overflows
DECADES = 10.0  # values that differ by more than this factor are modelled by their logarithms


class Scaling(NamedTuple):
    """z = (w - shift) / scale of values w = min(y, most), or of their logarithms."""

    most: float
    logs: bool
    shift: float
    scale: float

    @staticmethod
    def of(y: Array) -> tuple[Array, Scaling]:
        """The transformed values, and the transformation. Bad outliers are clipped.

        Logarithms, if all values are positive and span more than a decade.
        """
        clipped = clip_outliers(y)
        most = float(clipped.max()) if clipped.max() < y.max() else np.inf
        low, high = float(clipped.min()), float(clipped.max())
        logs = low > 0.0 and high > DECADES * low
        z, shift, scale = standardise(np.log(clipped) if logs else clipped)
        return z, Scaling(most, logs, shift, scale)

    def apply(self, y: Array | float) -> Array:
        """z of values y."""
        y = np.minimum(y, self.most)
        w = np.log(np.maximum(y, np.finfo(float).tiny)) if self.logs else y
        return np.asarray((w - self.shift) / self.scale)

    def undo(self, z: Array | float) -> Array:
        """y of z."""
        w = self.shift + self.scale * np.asarray(z)
        return np.exp(np.minimum(w, MOST_LOG)) if self.logs else w

    def rate(self, y: float) -> float:
        """dz/dy at y: what one unit of the objective is in z."""
        return 1.0 / (self.scale * (max(y, np.finfo(float).tiny) if self.logs else 1.0))


class CurveRows(NamedTuple):
    """Values of trials at rungs: N rows, sorted by trial.

    Attributes:
        X: (n, d) the configurations of all trials, also of those without a row.
        trial: (N,) the trial of each row.
        rung: (N,) the rung of each row, 0 to J - 1.
        y: (N,) values to minimise.
        steps: (J,) the step of each rung.
    """

    X: Array
    trial: Ints
    rung: Ints
    y: Array
    steps: Ints


def thinned(rungs: Sequence[int], at_most: int = MOST_RUNGS) -> tuple[int, ...]:
    """At most eight of the rungs, evenly spread, with the first and the last one."""
    if len(rungs) <= at_most:
        return tuple(rungs)
    chosen = np.linspace(0, len(rungs) - 1, at_most).round().astype(np.int64)
    return tuple(rungs[i] for i in chosen)
