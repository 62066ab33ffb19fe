"""Learning curves at every point of a space: a smooth surrogate of a recorded table.

    ln curve(x) = mean + sum_k c_k(x) v_k,   v_k the first COMPONENTS principal components
    c_k(x) + OWN sd(c_k) noise(x),   ln rate(x)

c_k and ln rate are posterior means of Gaussian processes with a Matern-5/2 kernel. The noise is
what a training has of its own; the same configuration always has the same. Diverged trainings and
the tail of bad values are left out. Results are compared with COMPARED points of a Sobol sequence.
A surrogate matches the assumptions of our model; the table itself, where a point has the curve of
the nearest row, has much more noise than training.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.curve_tables import CurveTable, load_curves
from farthing import Space
from farthing.acquisition.search import sobol
from farthing.models import gp

__all__ = ["CurveSurrogate", "fit", "smooth_curves"]

Array = NDArray[np.float64]

COMPONENTS = 4
MOST_ROWS = 600  # that a Gaussian process learns from
OWN = 0.01  # noise of a training, in standard deviations of a component over the table
TAIL = 3.0  # values further above the upper quartile, in interquartile ranges, are clipped
LEAST = 1e-12  # of a value, before its logarithm
COMPARED = 2**14


@dataclass(frozen=True, eq=False)
class Fitted:
    """The models of one table, and the trainings at COMPARED points without noise."""

    models: tuple[gp.GP, ...]
    spread: Array  # (COMPONENTS,) of each component over the table
    mean: Array  # (T,)
    components: Array  # (COMPONENTS, T)
    curves: Array  # (COMPARED, T)
    rate: Array  # (COMPARED,)

    def at(self, X: Array, own: Array) -> tuple[Array, Array]:
        """Curves (m, T) and rates (m,) at X (m, d), with the noise of each training."""
        *scores, log_rate = (model.at(X).mean[:, 0] for model in self.models)
        scores = np.column_stack(scores) + OWN * self.spread * own
        return np.exp(self.mean + scores @ self.components), np.exp(log_rate)


@dataclass(eq=False)
class CurveSurrogate:
    """Trainings at any point, in the place of a `CurveTable`; its rows are those of one run."""

    name: str
    space: Space
    fitted: Fitted
    curves: Array = field(init=False)
    rate: Array = field(init=False)
    places: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.curves, self.rate = np.empty((0, self.last)), np.empty(0)

    @property
    def last(self) -> int:
        """The last step, T."""
        return len(self.fitted.mean)

    @property
    def median_cost(self) -> float:
        """The median cost of a whole training over the space."""
        return float(np.median(self.fitted.rate) * self.last)

    def ends(self, value: str) -> Array:
        """(COMPARED,) the values of whole trainings all over the space."""
        curves = self.fitted.curves
        return np.asarray(curves[:, -1] if value == "last" else curves.min(axis=1))

    def row_of(self, x: Array) -> int:
        """The row of a point, which is computed if it is new."""
        x = np.round(np.asarray(x, dtype=np.float64), 12)
        key = x.tobytes()
        if key not in self.places:
            own = np.random.default_rng(crc32(key)).standard_normal((1, COMPONENTS))
            curve, rate = self.fitted.at(x[None], own)
            self.places[key] = len(self.rate)
            self.curves = np.vstack([self.curves, curve])
            self.rate = np.append(self.rate, rate)
        return self.places[key]


def fit(table: CurveTable) -> Fitted:
    """The surrogate of one table."""
    assert table.space.rows is not None
    whole = np.isfinite(table.curves).all(axis=1)
    X, rate = table.space.rows[whole], table.rate[whole]
    L = np.log(np.maximum(table.curves[whole], LEAST))
    low, high = np.quantile(L[:, -1], [0.25, 0.75])
    L = np.minimum(L, max(high + TAIL * (high - low), float(np.quantile(L, 0.9))))
    mean = L.mean(axis=0)
    U, sizes, V = np.linalg.svd(L - mean, full_matrices=False)
    scores = U[:, :COMPONENTS] * sizes[:COMPONENTS]
    some = np.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).round().astype(np.int64)
    models = tuple(
        gp.fit(X[some], y[some], options=table.space.options, noisy=True, clip=False)
        for y in (*scores.T, np.log(rate))
    )
    everywhere = Space(dict(table.space.parameters)).spread(sobol(COMPARED, table.space.d))
    found = Fitted(models, scores.std(axis=0), mean, V[:COMPONENTS], L, rate)
    curves, rate = found.at(everywhere, np.zeros((len(everywhere), COMPONENTS)))
    return replace(found, curves=curves, rate=rate)


_fit_named = cache(lambda name, folder: fit(load_curves(name, folder)))


def smooth_curves(name: str, folder: Path) -> CurveSurrogate:
    """A surrogate of one table, for one run."""
    space = Space(dict(load_curves(name, folder).space.parameters))
    return CurveSurrogate(name, space, _fit_named(name, folder))
