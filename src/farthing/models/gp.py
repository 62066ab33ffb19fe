"""A Gaussian process with a Matern-5/2 kernel and one lengthscale per coordinate.

    X (n, d)   observed points of the unit cube          Z (n, e)   embedded, see kernel.py
    y (n, f)   f target columns (fantasies share X)      L (n, n)   L L' = K + noise I
    K (n, n)   the kernel between observed points        A (n, f)   (K + noise I)^-1 (y - mean)

The model uses standardised targets; `at` and `slopes` return the user's units. Hyperparameters
are the maximum a posteriori under the dimension-scaled prior ln l ~ N(sqrt 2 + ln(d)/2, 3)
(Hvarfner et al. 2024). A GP is immutable: `condition` returns a new one with one more row in its
factor. Rasmussen and Williams 2006, algorithm 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, lapack, solve_triangular

from farthing.models.hyperparameters import Hyper, factor, learnt
from farthing.models.kernel import columns, distances, embed, matern, matern_slopes, pulled

__all__ = [
    "GP",
    "FitMemory",
    "Hyper",
    "Normal",
    "build",
    "clip_outliers",
    "fit",
    "is_due",
    "kept",
    "refit",
    "standardise",
    "subset",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
# {"hyper": hyperparameters, "n": number of rows they were learnt from}, plain JSON values
FitMemory = Mapping[str, Any]

VARIANCE_FLOOR = 1e-12  # lowest posterior variance, relative to v
ALWAYS_RELEARN_UP_TO = 30  # hyperparameters are learnt again at every n up to this one,
RELEARN_GROWTH = 1.1  # then each time n has grown by a tenth,
RELEARN_SELDOM = 1.5  # or by a half if time is short
LEARN_AT_MOST = 400  # rows that the hyperparameters are learnt from (see `subset`)
MODEL_AT_MOST = 1500  # rows that the posterior uses,
LIGHT_AT_MOST = 400  # and if time is short
ROUGH_AT_MOST = 96  # rows that the upper bound of the std uses
ROUGH_AT_ONCE = 2**16  # kernel values computed at once for bounds, so that they fit in the cache
ROUNDING = 2.0**-24  # unit roundoff of single precision


class Normal(NamedTuple):
    """Mean, (m, f) for a GP or (m,) for a cost, and standard deviation, (m,), at m points."""

    mean: Array
    std: Array


class Prior(Protocol):
    """A prior mean in the unit of y, to which the process adds a constant."""

    def at(self, X: Array) -> Array:
        """(m,) at X (m, d)."""

    def slopes(self, X: Array) -> tuple[Array, Array]:
        """`at(X)` and its gradient (m, d)."""


@dataclass(frozen=True)
class GP:
    """A posterior; create one with `fit` or `build`."""

    X: Array  # (n, d)
    targets: Array  # (n, f) standardised
    options: Ints  # (d,) number of options of a categorical coordinate, 0 for a number
    hyper: Hyper
    shift: float  # y = shift + scale * target
    scale: float
    L: Array  # (n, n)
    prior: Prior | None = None

    @property
    def lengthscales(self) -> Array:
        """(d,) one per coordinate of the unit cube."""
        return self.hyper.lengthscales

    @property
    def variance(self) -> float:
        """Prior variance v of standardised targets."""
        return self.hyper.variance

    @property
    def noise(self) -> float:
        """Observation noise variance of standardised targets."""
        return self.hyper.noise

    @property
    def mean(self) -> float:
        """Prior mean of standardised targets, without `prior`."""
        return float(self.hyper.mean or 0.0)

    def expected(self, X: Array, known: Array | None = None) -> Array | float:
        """Prior mean of standardised targets at X, (m, 1), or one number without `prior`.

        `known` is `prior.at(X)`, (m,), if it was computed before.
        """
        if self.prior is None:
            return self.mean
        return self.mean + (self.prior.at(X) if known is None else known)[:, None] / self.scale

    @cached_property
    def weight(self) -> Array:
        """(e,) by which embedded coordinates are multiplied."""
        return 1.0 / self.lengthscales[columns(self.options)]  # (e,)

    @cached_property
    def _has_categoricals(self) -> bool:
        return bool(self.options.any())

    @cached_property
    def _Z(self) -> Array:
        return self.embedded(self.X)

    @cached_property
    def _to_cube(self) -> Array:
        """(e, d): maps gradients in embedded coordinates to gradients in the unit cube."""
        source = columns(self.options)
        numbers = self.options[source] == 0
        chain = np.zeros((len(source), len(self.options)))
        chain[numbers, source[numbers]] = self.weight[numbers]  # 0 for categoricals
        return chain

    @cached_property
    def _centres(self) -> Array:
        """(n, d): the observed points, scaled so that `pulled` gives gradients in the unit cube."""
        return self.to_cube(self._Z)

    @cached_property
    def _A(self) -> Array:
        solved, _ = lapack.dpotrs(self.L, self.targets - self.expected(self.X), lower=1)
        return np.asarray(solved)

    @cached_property
    def _L_inverse(self) -> Array:
        inverse, _ = lapack.dtrtri(self.L, lower=1)
        return np.asarray(inverse)

    def embedded(self, X: Array) -> Array:
        """(m, e): X embedded and divided by the lengthscales; the kernel is isotropic there."""
        X = np.asarray(X, dtype=np.float64)
        return (embed(X, self.options) if self._has_categoricals else X) * self.weight

    def to_cube(self, gradient: Array) -> Array:
        """Gradient in embedded coordinates (m, e) -> in the unit cube (m, d); 0 if categorical."""
        return gradient @ self._to_cube

    def _answer(self, X: Array, mean: Array, variance: Array, known: Array | None = None) -> Normal:
        floor = VARIANCE_FLOOR * self.variance
        std = self.scale * np.sqrt(np.maximum(variance, floor))
        return Normal(self._in_units(X, mean, known), std)

    def _in_units(self, X: Array, mean: Array, known: Array | None = None) -> Array:
        return self.shift + self.scale * (self.expected(X, known) + mean)

    def _half(self, k: Array) -> Array:
        """(m, n): k L^-T, as a triangular product, which is faster than a triangular solve."""
        return np.asarray(blas.dtrmm(1.0, self._L_inverse, k.T, lower=1).T) if len(k) else k

    def at(self, X: Array) -> Normal:
        """Posterior of the latent function at X (m, d), in the user's units; f means per point."""
        k = matern(distances(self.embedded(X), self._Z), self.variance)  # (m, n)
        half = self._half(k)
        return self._answer(X, k @ self._A, self.variance - np.einsum("ij,ij->i", half, half))

    def at_best(self, X: Array) -> Normal:
        """A lower bound of the mean and an upper bound of the std of `at`, in less time.

        Both use single precision. The std uses only some observations, because more observations
        can only reduce it. Bounds of the rounding errors are added. With u = 2^-24, a kernel value
        has an error below 16 u v, and a product with weights w one below (n + 16) u v |w|_1, or
        16 u v |w|_1 if it is summed in double precision.
        """
        some, half = self._some
        floats = half.astype(np.float32)
        error = (
            (len(some) + 16) * ROUNDING * self.variance * np.linalg.norm(np.abs(half).sum(axis=1))
        )
        error += (len(some) + 2) * ROUNDING * np.sqrt(self.variance)
        means, explained = [], []
        for k in self._rough(X):
            means.append(self._rough_mean(k))
            part = blas.strmm(1.0, floats, k.T if len(some) == len(self.X) else k.T[some], lower=1)
            explained.append(np.sqrt(np.einsum("ij,ij->j", part, part)))
        least = np.maximum(np.concatenate(explained) - error, 0.0)
        return self._answer(X, np.concatenate(means), self.variance - least * least)

    def least(self, X: Array) -> Array:
        """(m, f): the lower bound of the mean, as in `at_best`."""
        mean = np.concatenate([self._rough_mean(k) for k in self._rough(X)])
        return self._in_units(X, mean)

    def _rough_mean(self, k: Any) -> Array:
        """A lower bound of k A, for k in single precision, summed in double precision."""
        return np.asarray(k @ self._A - 17 * ROUNDING * self.variance * np.abs(self._A).sum(axis=0))

    @cached_property
    def _some(self) -> tuple[Ints, Array]:
        """Rows for the bound of the std, and the inverse of their own Cholesky factor."""
        some = subset(self.targets[:, 0], ROUGH_AT_MOST)
        if len(some) == len(self.X):
            return some, self._L_inverse
        root = factor(self.L[some] @ self.L[some].T, self.variance)
        return some, np.asarray(lapack.dtrtri(root, lower=1)[0])

    def _rough(self, X: Array) -> Iterator[Any]:
        """k(X, observed points) in single precision, in blocks of rows; distances in double."""
        Z, step = self._Z, max(1, ROUGH_AT_ONCE // len(self._Z))
        ones = np.ones((len(Z), 1))
        centres = np.hstack([-10.0 * Z, 5.0 * ones, 5.0 * (Z * Z).sum(axis=1, keepdims=True)]).T
        z = self.embedded(X)
        squares = np.hstack([z, (z * z).sum(axis=1, keepdims=True), np.ones((len(z), 1))])
        for i in range(0, len(X), step):
            q = (squares[i : i + step] @ centres).astype(np.float32)
            yield matern(np.sqrt(np.maximum(q, 0.0, out=q), out=q), self.variance)

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        """`at(X)`, the gradient of its mean, (m, d, f), and of its std, (m, d)."""
        Z = self.embedded(X)
        k, slope = matern_slopes(distances(Z, self._Z), self.variance)
        half = self._half(k)
        variance = self.variance - np.einsum("ij,ij->i", half, half)
        known, d_known = (None, None) if self.prior is None else self.prior.slopes(X)
        normal = self._answer(X, k @ self._A, variance, known)
        f = self._A.shape[1]
        weights = np.empty((f + 1, *k.shape))
        weights[:f] = self._A.T[:, None, :]
        np.matmul(half, self._L_inverse, out=weights[f])
        weights *= slope
        gradients = pulled(weights, self.to_cube(Z), self._centres)  # f means, then the variance
        # Not scale^2 / std, because the square of a large scale overflows.
        d_std = gradients[f] * (-self.scale / (normal.std / self.scale))[:, None]
        d_mean = self.scale * gradients[:f].transpose(1, 2, 0)
        return normal, d_mean if d_known is None else d_mean + d_known[:, :, None], d_std

    def covariance(self, X: Array) -> Array:
        """Joint posterior covariance (m, m) of the latent function at X."""
        return self.scale * self.scale * self.standard_covariance(X)

    def standard_covariance(self, X: Array) -> Array:
        """`covariance` of standardised targets, which is finite even if `scale` squared is not."""
        Z = self.embedded(X)
        k = matern(distances(Z, self._Z), self.variance)
        half = solve_triangular(self.L, k.T, lower=True, check_finite=False)
        return np.asarray(matern(distances(Z, Z), self.variance) - half.T @ half)

    def sample(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        """(size, m) joint draws of the latent function: mean + chol(covariance) z."""
        if self.targets.shape[1] > 1:
            raise ValueError(
                "sample() needs one target column; this posterior has several fantasies"
            )
        mean = self.at(X).mean[:, 0]
        covariance = self.standard_covariance(X)
        covariance[np.diag_indices_from(covariance)] += 1e-9 * self.variance
        root = factor(covariance, self.variance)
        return np.asarray(mean + self.scale * rng.standard_normal((size, len(mean))) @ root.T)

    def left_out(self, moved: Array | None = None) -> Normal:
        """Leave-one-out predictions (n,), with the prior mean estimated from the other rows.

        Mean y_i - [Q y]_i / Q_ii and variance 1 / Q_ii, which includes the noise, where
        Q = K^-1 - K^-1 1 1' K^-1 / 1' K^-1 1 (Rasmussen and Williams 2006, eq. 5.12, with the
        constant mean projected out). The variance excludes the extra noise of that row.

        Args:
            moved: (n, n) the decrease of y in row i if row j is left out.
        """
        inverse = self._L_inverse.T @ self._L_inverse
        ones = inverse.sum(axis=0)
        Q = inverse - np.outer(ones, ones / ones.sum())
        precision = np.diag(Q)
        rest = self.targets if self.prior is None else self.targets - self.expected(self.X)
        pull = Q @ rest[:, 0]
        if moved is not None:
            pull -= np.einsum("ij,ji->i", Q, moved / self.scale)
        own = np.einsum("ij,ij->i", self.L, self.L) - self.variance - self.noise
        variance = np.maximum(1.0 / precision - own, self.noise)
        mean = self.shift + self.scale * (self.targets[:, 0] - pull / precision)
        return Normal(mean, self.scale * np.sqrt(variance))

    def condition(self, x: Array, y: ArrayLike) -> GP:
        """The posterior after observing y at x, one value or one per fantasy: one more row of L."""
        y = np.atleast_1d(np.asarray(y, dtype=np.float64))
        return self.condition_all(np.asarray(x, dtype=np.float64).reshape(1, -1), y[None])

    def condition_all(self, X: Array, Y: Array) -> GP:
        """The posterior after observing Y (m, 1) or (m, f) at X (m, d): m more rows of L,

        [L 0; B' C],  L B = k(X_n, X),  C C' = k(X, X) + noise I - B' B.
        """
        targets = (Y - self.shift) / self.scale
        Z = self.embedded(X)
        k = matern(distances(Z, self._Z), self.variance)
        B = solve_triangular(self.L, k.T, lower=True, check_finite=False)
        n, m = len(self.L), len(X)
        rest = matern(distances(Z, Z), self.variance)
        np.fill_diagonal(rest, self.variance + self.noise)
        L = np.zeros((n + m, n + m), order="F")
        L[:n, :n] = self.L
        L[n:, :n] = B.T
        L[n:, n:] = _root(rest - B.T @ B, VARIANCE_FLOOR * self.variance)
        before = self.targets
        if targets.shape[1] > before.shape[1]:
            before = np.repeat(before, targets.shape[1], axis=1)
        added = np.broadcast_to(targets, (m, before.shape[1]))
        return replace(self, X=np.vstack([self.X, X]), targets=np.vstack([before, added]), L=L)


def _root(K: Array, floor: float) -> Array:
    """A lower Cholesky factor (m, m) whose squared pivots are at least `floor`.

    Without the floor, repeated points could make a pivot 0.
    """
    L, info = lapack.dpotrf(K, lower=1, clean=1)
    if info == 0 and bool((np.diag(L) ** 2 >= floor).all()):
        return np.asarray(L)
    L = np.zeros(K.shape)
    for j in range(len(K)):
        L[j, j] = np.sqrt(max(K[j, j] - L[j, :j] @ L[j, :j], floor))
        L[j + 1 :, j] = (K[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    return L


# ── standardising ──────────────────────────────────────────────────────────────────────────────


def clip_outliers(y: Array) -> Array:
    """y clipped at Q3 + 1.5 IQR if n >= 8, so that bad outliers do not flatten the rest."""
    if len(y) < 8:
        return y
    ordered = np.sort(y)
    lower, upper = (ordered[round(share * (len(y) - 1))] for share in (0.25, 0.75))
    # Halved before subtracting so that the limit is finite for any finite y.
    return np.asarray(np.minimum(y, min(upper + 3.0 * (0.5 * upper - 0.5 * lower), ordered[-1])))


def standardise(y: Array) -> tuple[Array, float, float]:
    """(targets, shift, scale), with scale 1 for a constant; safe from 1e-300 to 1e300."""
    middle = float(np.median(y))
    reach = float(np.abs(0.5 * y - 0.5 * middle).max()) * 2.0
    if not reach > 1e-13 * abs(middle):
        return np.zeros_like(y), middle, 1.0
    reach = min(reach, 1e300)
    z = y / reach - middle / reach
    mean, std = float(z.mean()), float(z.std())
    return (z - mean) / std, middle + mean * reach, std * reach


def kept(y: Array, *, seldom: bool = False) -> Ints:
    """The rows that the posterior uses if y is not clipped."""
    return subset(y, LIGHT_AT_MOST if seldom else MODEL_AT_MOST)


def subset(y: Array, limit: int) -> Ints:
    """At most `limit` rows in order: half have the lowest y, the rest are every k-th other row."""
    if len(y) <= limit:
        return np.arange(len(y))
    order = np.argsort(y, kind="stable")
    best, rest = order[: limit // 2], np.sort(order[limit // 2 :])
    spread = rest[np.linspace(0, len(rest) - 1, limit - len(best)).round().astype(np.int64)]
    return np.sort(np.concatenate([best, spread]))


# ── fitting ────────────────────────────────────────────────────────────────────────────────────


def _generalised_mean(L: Array, targets: Array) -> float:
    """Least-squares constant mean 1'K^-1 y / 1'K^-1 1."""
    solved, _ = lapack.dpotrs(L, np.ones(len(L)), lower=1)
    return float(solved @ targets[:, 0] / solved.sum())


def _posterior(
    X: Array,
    targets: Array,
    hyper: Hyper,
    *,
    options: Ints,
    shift: float,
    scale: float,
    extra: Array | float = 0.0,
    prior: Prior | None = None,
) -> GP:
    Z = embed(X, options) * (1.0 / hyper.lengthscales[columns(options)])
    K = matern(distances(Z, Z), hyper.variance)
    np.fill_diagonal(K, hyper.variance + hyper.noise + extra)
    L = factor(K, hyper.variance)
    if hyper.mean is None:
        rest = targets if prior is None else targets - prior.at(X)[:, None] / scale
        hyper = hyper._replace(mean=_generalised_mean(L, rest))
    return GP(X, targets, options, hyper, shift, scale, L, prior)


def _no_categoricals(X: Array) -> Ints:
    return np.zeros(X.shape[1], dtype=np.int64)


def build(X: ArrayLike, y: ArrayLike, hyper: Hyper, *, options: Ints | None = None) -> GP:
    """The posterior with given hyperparameters; y is neither standardised nor clipped."""
    X = np.asarray(X, dtype=np.float64)
    targets = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
    options = _no_categoricals(X) if options is None else options
    return _posterior(X, targets, hyper, options=options, shift=0.0, scale=1.0)


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    options: Ints | None = None,
    noisy: bool = False,
    clip: bool = True,
    start: Hyper | None = None,
    learn: bool = True,
    extra: Array | None = None,
    seldom: bool = False,
    prior: Prior | None = None,
) -> GP:
    """The posterior after (X, y) with maximum a posteriori hyperparameters.

    Args:
        options: number of options of each categorical coordinate, 0 for numbers.
        noisy: whether equal points may give different values.
        clip: whether to clip bad outliers; not for costs, which would be underestimated.
        start: hyperparameters to start from.
        learn: False keeps `start` and only computes the posterior.
        extra: (n,) noise variance of each y in addition to the common noise.
        seldom: whether time is short: the posterior then uses fewer rows.
        prior: a prior mean; the hyperparameters are those of the residuals.
    """
    X = np.asarray(X, dtype=np.float64)
    options = _no_categoricals(X) if options is None else options
    clipped = np.asarray(y, dtype=np.float64)
    clipped = clip_outliers(clipped) if clip else clipped
    keep = kept(clipped, seldom=seldom)
    X, clipped = X[keep], clipped[keep]
    targets, shift, scale = standardise(clipped)
    own = np.zeros(len(X)) if extra is None else extra[keep] / scale / scale
    if learn or start is None:
        some = subset(clipped, LEARN_AT_MOST)
        rest = targets if prior is None else targets - prior.at(X) / scale
        hyper = learnt(X[some], rest[some], options, noisy=noisy, start=start, extra=own[some])
    else:
        hyper = start._replace(mean=None)
    targets = targets[:, None]
    return _posterior(
        X, targets, hyper, options=options, shift=shift, scale=scale, extra=own, prior=prior
    )


def is_due(memory: FitMemory | None, n: int, *, seldom: bool = False) -> bool:
    """Whether to relearn: at every n up to 30, then each time n has grown by a tenth.

    If time is short (`seldom`), only each time n has grown by a half.
    """
    growth = RELEARN_SELDOM if seldom else RELEARN_GROWTH if n > ALWAYS_RELEARN_UP_TO else 0.0
    return memory is None or bool(n >= growth * memory["n"])


def refit(
    X: ArrayLike,
    y: ArrayLike,
    memory: FitMemory | None,
    *,
    options: Ints | None = None,
    noisy: bool = False,
    clip: bool = True,
    seldom: bool = False,
    prior: Prior | None = None,
) -> tuple[GP, FitMemory]:
    """`fit` on a schedule: hyperparameters are learnt again when `is_due` says so.

    Returns the posterior and the memory for the next call.
    """
    n = len(np.asarray(y))
    start = Hyper.from_list(memory["hyper"]) if memory else None
    due = is_due(memory, n, seldom=seldom)
    how: dict[str, Any] = {"noisy": noisy, "clip": clip, "learn": due, "seldom": seldom}
    model = fit(X, y, options=options, start=start, prior=prior, **how)
    if memory is not None and not due:
        return model, memory
    return model, {"hyper": model.hyper.to_list(), "n": n}
