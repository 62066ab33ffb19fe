"""A joint Gaussian process of learning curves, over configurations and steps.

    z(i, t) = mu + s(t) [ c(t) + f(x_i, t) + d_i(t) + noise ],    s(t) = exp(b (tau - 1)), b >= 0
    c   ~ GP(0, v0 k(tau; l2))                        the common shape of all curves
    f   ~ GP(0, M52(x; l) [v1 + v2 k(tau; l2)])       what the configuration explains
    d_i ~ GP(0, v3 + v4 k(tau; l4))                   what it does not: the trial's own curve
    tau = ln t / ln T,   k Matern-3/2 in tau,   M52 Matern-5/2 with one lengthscale per coordinate

z are values after a transformation (`Scaling`), T is the last step, and s lets the trials differ
more at late steps than at early ones. Curves are thinned to at most eight rungs. The model is exact
(the freeze-thaw idea of Swersky et al. 2014, and Lin et al. 2024 for the joint kernel).
Hyperparameters are the maximum a posteriori under normal priors of their logarithms.

    N rows (trial, rung)     n trials     J rungs     f target columns (fantasies share the rows)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.models.curve_hyperparameters import (
    CurveHyper,
    Tables,
    inverted,
    learnt_curves,
    row_kernel,
)
from farthing.models.curve_values import CurveRows, Scaling
from farthing.models.gp import FitMemory, Normal
from farthing.models.hyperparameters import factor
from farthing.models.kernel import columns, distances, embed, matern, matern_slopes, pulled

__all__ = ["Curves", "FinalValue", "fit_curves", "refit_curves"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LEARN_AT_MOST = 300  # rows that the hyperparameters are learnt from
MODEL_AT_MOST = 600  # rows that the posterior uses,
ONE_EACH_AT_MOST = 1000  # or one of each trial up to this number,
LIGHT_AT_MOST = 400  # or this number if time is short
ALWAYS_RELEARN_UP_TO = 16  # hyperparameters are learnt again at every n up to this one,
RELEARN_GROWTH = 1.15  # then each time the number of rows has grown by this factor,
RELEARN_SELDOM = 1.5  # or by this one if time is short
VARIANCE_FLOOR = 1e-9


# ── the posterior ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Curves:
    """The posterior of all curves; create one with `fit_curves`. In units of z, see `scaling`."""

    X: Array  # (n, d) all trials
    trial: Ints  # (N,)
    rung: Ints  # (N,)
    targets: Array  # (N, f)
    steps: Ints  # (J,)
    options: Ints  # (d,)
    hyper: CurveHyper
    scaling: Scaling
    mean: float  # mu
    inverse: Array  # (N, N) of the covariance of the rows

    @cached_property
    def _tables(self) -> Tables:
        return Tables.of(self.hyper, self.steps)

    @cached_property
    def _weight(self) -> Array:
        return 1.0 / self.hyper.lengthscales[columns(self.options)]

    @cached_property
    def _Z(self) -> Array:
        return self.embedded(self.X)

    def embedded(self, X: Array) -> Array:
        """(m, e): X embedded and divided by the lengthscales."""
        return np.asarray(embed(np.asarray(X, dtype=np.float64), self.options) * self._weight)

    def similarity(self, X: Array) -> Array:
        """(m, n): M52 between X and the trials."""
        return matern(distances(self.embedded(X), self._Z), 1.0)

    @cached_property
    def pull(self) -> Array:
        """(N, f): K^-1 (z - mu)."""
        return np.asarray(self.inverse @ (self.targets - self.mean))

    @property
    def last(self) -> int:
        """The last rung."""
        return len(self.steps) - 1

    def reached(self) -> Ints:
        """(n,) the number of rungs that each trial has reached."""
        found = np.zeros(len(self.X), dtype=np.int64)
        np.maximum.at(found, self.trial, self.rung + 1)
        return found

    def _cross(self, similarity: Array, rungs: Ints, own: Ints | None) -> Array:
        """(N, q): the covariance of the rows with q values z - mu, without noise.

        Args:
            similarity: (q, n) M52 between the configurations and the trials.
            rungs: (q,) the rung of each value.
            own: (q,) the trial of each value; None: none of the trials.
        """
        t = self._tables
        k = t.shared[np.ix_(self.rung, rungs)] * similarity.T[self.trial]
        k += t.common[np.ix_(self.rung, rungs)]
        if own is not None:
            k += t.own[np.ix_(self.rung, rungs)] * (self.trial[:, None] == own)
        k *= t.s[self.rung][:, None] * t.s[rungs]
        return k

    @cached_property
    def _final(self) -> Normal:
        n = len(self.X)
        rungs = np.full(n, self.last)
        k = self._cross(self.similarity(self.X), rungs, np.arange(n))
        variance = self._prior - np.einsum("ij,ij->j", k, self.inverse @ k)
        return Normal(self.mean + k.T @ self.pull, _std(variance))

    def final(self) -> Normal:
        """Mean (n, f) and std (n,) of the final value of each trial, without noise."""
        return self._final

    @property
    def _prior(self) -> float:
        """The prior variance of the final value of a trial."""
        t, j = self._tables, self.last
        return float(t.common[j, j] + t.shared[j, j] + t.own[j, j])

    def coming(self, X: Array, first: int, own: Ints | None = None) -> tuple[Array, Array, Array]:
        """Mean (m, J', f), covariance (m, J', J') and noise (J',) of the rungs from `first` on.

        Args:
            X: (m, d) configurations.
            own: (m,) their trials; None: new trials.
        """
        m, rungs = len(X), np.arange(first, len(self.steps))
        J, t = len(rungs), self._tables
        similarity = np.repeat(self.similarity(X), J, axis=0)
        k = self._cross(similarity, np.tile(rungs, m), None if own is None else np.repeat(own, J))
        mean = (self.mean + k.T @ self.pull).reshape(m, J, -1)
        parts = k.reshape(-1, m, J).transpose(1, 0, 2)  # (m, N, J)
        solved = (self.inverse @ k).reshape(-1, m, J).transpose(1, 0, 2)
        s = t.s[rungs]
        prior = (t.common + t.shared + t.own)[np.ix_(rungs, rungs)] * np.multiply.outer(s, s)
        covariance = prior - parts.transpose(0, 2, 1) @ solved
        covariance = 0.5 * (covariance + covariance.transpose(0, 2, 1))
        j = np.arange(J)
        covariance[:, j, j] = np.maximum(covariance[:, j, j], VARIANCE_FLOOR * prior[j, j])
        return mean, covariance, self.hyper.noise * s * s

    def covariance(self, own: Ints, rungs: Ints) -> tuple[Array, Array]:
        """Mean (q, f) and joint covariance (q, q) of values of trials, without noise."""
        t = self._tables
        k = self._cross(self.similarity(self.X[own]), rungs, own)
        between = matern(distances(self._Z[own], self._Z[own]), 1.0)
        prior = t.shared[np.ix_(rungs, rungs)] * between + t.common[np.ix_(rungs, rungs)]
        prior += t.own[np.ix_(rungs, rungs)] * (own[:, None] == own)
        prior *= np.multiply.outer(t.s[rungs], t.s[rungs])
        return self.mean + k.T @ self.pull, prior - k.T @ (self.inverse @ k)

    def condition(self, own: Ints, rungs: Ints, z: Array) -> Curves:
        """The posterior after more values z (q, 1) or (q, f) of trials at rungs.

        The inverse grows by a block: with S = K22 - K21 K11^-1 K12 and B = K11^-1 K12,
        [K11^-1 + B S^-1 B', -B S^-1; -S^-1 B', S^-1].
        """
        k = self._cross(self.similarity(self.X[own]), rungs, own)
        _, rest = self.covariance(own, rungs)
        noise = self.hyper.noise * self._tables.s[rungs] ** 2
        rest[np.diag_indices_from(rest)] += noise
        small = np.linalg.inv(0.5 * (rest + rest.T))
        B = self.inverse @ k
        corner = -B @ small
        inverse = np.block([[self.inverse - corner @ B.T, corner], [corner.T, small]])
        before = self.targets
        if z.shape[1] > before.shape[1]:
            before = np.repeat(before, z.shape[1], axis=1)
        targets = np.vstack([before, np.broadcast_to(z, (len(own), before.shape[1]))])
        return replace(
            self,
            trial=np.append(self.trial, own),
            rung=np.append(self.rung, rungs),
            targets=targets,
            inverse=inverse,
        )

    def sample(self, own: Ints, rungs: Ints, size: int, rng: np.random.Generator) -> Array:
        """(q, size) joint draws of values of trials at rungs, with noise."""
        mean, covariance = self.covariance(own, rungs)
        covariance[np.diag_indices_from(covariance)] += (
            self.hyper.noise * self._tables.s[rungs] ** 2 + VARIANCE_FLOOR
        )
        root = factor(covariance, self._prior)
        return np.asarray(mean[:, :1] + root @ rng.standard_normal((len(own), size)))

    @cached_property
    def new(self) -> FinalValue:
        """The posterior of the final value of a new trial."""
        return FinalValue(self)


def _std(variance: Array) -> Array:
    return np.sqrt(np.maximum(variance, VARIANCE_FLOOR))


@dataclass(frozen=True)
class FinalValue:
    """The final value of a new trial at x, with exact gradients in x. In units of z.

    The covariance of a row with it is w_i M52(x, x_i) + k0_i. So with a (n + 1,) the similarities
    of x with all trials and 1, the mean is mu + a' B and the variance v - a' G a, where B and G are
    sums over the rows of each trial.
    """

    curves: Curves
    scale: float = 1.0

    @property
    def lengthscales(self) -> Array:
        """(d,) one per coordinate of the unit cube."""
        return self.curves.hyper.lengthscales

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        """B (n + 1, f) and G (n + 1, n + 1)."""
        c = self.curves
        t, n = c._tables, len(c.X)
        D = np.zeros((len(c.trial), n + 1))
        s = t.s[c.rung]
        D[np.arange(len(c.trial)), c.trial] = s * t.shared[c.rung, -1]
        D[:, n] = s * t.common[c.rung, -1]
        return D.T @ c.pull, D.T @ (c.inverse @ D)

    @cached_property
    def _to_cube(self) -> Array:
        c = self.curves
        source = columns(c.options)
        numbers = c.options[source] == 0
        chain = np.zeros((len(source), len(c.options)))
        chain[numbers, source[numbers]] = c._weight[numbers]
        return chain

    def at(self, X: Array) -> Normal:
        """Mean (m, f) and std (m,)."""
        a = self.curves.similarity(X)
        B, G = self._sums
        variance = self._variance(a, a @ G[:-1, :-1])
        return Normal(self.curves.mean + B[-1] + a @ B[:-1], _std(variance))

    def at_best(self, X: Array) -> Normal:
        """`at` in single precision, for the rows of a table: a fraction of its time."""
        c = self.curves
        B, G = self._sums
        Z, centres = c.embedded(X), c._Z
        squares = np.hstack([Z, (Z * Z).sum(axis=1, keepdims=True), np.ones((len(Z), 1))])
        ones = np.ones((len(centres), 1))
        others = np.hstack([-10.0 * centres, 5.0 * ones, 5.0 * (centres * centres).sum(1)[:, None]])
        q: Any = squares.astype(np.float32) @ others.T.astype(np.float32)
        np.sqrt(np.maximum(q, 0.0, out=q), out=q)
        a = matern(q, 1.0)
        solved = a @ G[:-1, :-1].astype(np.float32)
        explained = np.einsum("ij,ij->i", solved, a) + 2.0 * (a @ G[:-1, -1].astype(np.float32))
        variance = c._prior - (explained.astype(np.float64) + G[-1, -1])
        mean = (a @ B[:-1].astype(np.float32)).astype(np.float64)
        floor = np.maximum(variance, 1e-4 * c._prior)  # below it rounding errors dominate
        return Normal(c.mean + B[-1] + mean, _std(floor))

    def _variance(self, a: Array, solved: Array) -> Array:
        _, G = self._sums
        explained = np.einsum("ij,ij->i", solved, a) + 2.0 * a @ G[:-1, -1] + G[-1, -1]
        return np.asarray(self.curves._prior - explained)

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        """`at(X)`, the gradient of its mean, (m, d, f), and of its std, (m, d)."""
        c = self.curves
        Z = c.embedded(X)
        a, slope = matern_slopes(distances(Z, c._Z), 1.0)
        B, G = self._sums
        solved = a @ G[:-1, :-1]
        std = _std(self._variance(a, solved))
        f = B.shape[1]
        weights = np.empty((f + 1, *a.shape))
        weights[:f] = B[:-1].T[:, None, :]
        weights[f] = solved + G[:-1, -1]
        weights *= slope
        gradients = pulled(weights, Z @ self._to_cube, c._Z @ self._to_cube)
        normal = Normal(c.mean + B[-1] + a @ B[:-1], std)
        return normal, gradients[:f].transpose(1, 2, 0), -gradients[f] / std[:, None]

    def covariance(self, X: Array) -> Array:
        """Joint posterior covariance (m, m) of new trials at X."""
        c = self.curves
        t, j = c._tables, c.last
        a = np.column_stack([c.similarity(X), np.ones(len(X))])
        Z = c.embedded(X)
        prior = t.shared[j, j] * matern(distances(Z, Z), 1.0) + t.common[j, j]
        prior[np.diag_indices_from(prior)] += t.own[j, j]
        return np.asarray(prior - a @ self._sums[1] @ a.T)

    def sample(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        """(size, m) joint draws."""
        covariance = self.covariance(X)
        covariance[np.diag_indices_from(covariance)] += VARIANCE_FLOOR
        root = factor(covariance, self.curves._prior)
        draws = rng.standard_normal((size, len(X))) @ root.T
        return np.asarray(self.at(X).mean[:, 0] + draws)


# ── fitting ────────────────────────────────────────────────────────────────────────────────────


def _subset(rows: CurveRows, badness: Array, limit: int) -> Bools:
    """(N,) at most `limit` rows of whole trials: half of them the best, the rest evenly spread.

    Args:
        badness: (n,) of each trial that has a row.
    """
    if len(rows.y) <= limit:
        return np.ones(len(rows.y), dtype=np.bool_)
    count = np.bincount(rows.trial, minlength=len(rows.X))
    order = np.argsort(badness, kind="stable")
    order = order[count[order] > 0]
    top = order[np.cumsum(count[order]) <= limit // 2]
    rest = np.sort(order[len(top) :])
    size = min(len(rest), max(int((limit - count[top].sum()) / count[rest].mean()), 0))
    spread = rest[np.linspace(0, len(rest) - 1, size).round().astype(np.int64)]
    spread = spread[np.cumsum(count[spread]) <= limit - count[top].sum()]
    return np.isin(rows.trial, np.concatenate([top, spread]))


def _thinned(rows: CurveRows, badness: Array, limit: int) -> Bools:
    """(N,) at most `limit` rows: those between the first and the last of a trial go first.

    Then the first ones go, those of the worst trials first, and at last whole trials. Only good
    trials go on, so if their early values were missing, it would seem that the bad ones become as
    good. If bad trials were missing, others like them would be begun.
    """
    keep = np.ones(len(rows.y), dtype=np.bool_)
    same = rows.trial[1:] == rows.trial[:-1]
    follows, is_followed = np.append(False, same), np.append(same, False)
    for some in (follows & is_followed, ~follows & is_followed):
        at = np.flatnonzero(some)
        order = np.argsort(-badness[rows.trial[at]], kind="stable")
        keep[at[order[: max(int(keep.sum()) - limit, 0)]]] = False
    keep[keep] = _subset(_taken(rows, keep), badness, limit)
    return keep


def _lowest(rows: CurveRows, z: Array) -> Array:
    """(n,) the lowest value of each trial; infinite without any."""
    lowest = np.full(len(rows.X), np.inf)
    np.minimum.at(lowest, rows.trial, z)
    return lowest


def _rank(rows: CurveRows, z: Array) -> Array:
    """(n,) the share of trials that are better at the last rung of each; infinite without any."""
    rank = np.full(len(rows.X), np.inf)
    for rung in range(len(rows.steps)):
        at = np.flatnonzero(rows.rung == rung)
        rank[rows.trial[at]] = np.searchsorted(np.sort(z[at]), z[at]) / max(len(at), 1)
    return rank


def _taken(rows: CurveRows, keep: Bools) -> CurveRows:
    return rows._replace(trial=rows.trial[keep], rung=rows.rung[keep], y=rows.y[keep])


def fit_curves(
    rows: CurveRows,
    *,
    options: Ints,
    start: CurveHyper | None = None,
    learn: bool = True,
    scaling: Scaling | None = None,
    needed: Sequence[int] = (),
    at_most: int = MODEL_AT_MOST,
) -> Curves:
    """The posterior after these rows, with maximum a posteriori hyperparameters.

    Args:
        start: hyperparameters to start from.
        learn: False keeps `start` and only computes the posterior.
        scaling: the transformation of the values; None: learn it.
        needed: trials that the posterior must not leave out.
        at_most: rows that the posterior uses.
    """
    if scaling is None:
        z, scaling = Scaling.of(rows.y)
    else:
        z = scaling.apply(rows.y)
    hyper = CurveHyper.prior(rows.X.shape[1]) if start is None else start
    if learn:
        some = _subset(rows, _lowest(rows, z), LEARN_AT_MOST)
        hyper = learnt_curves(_taken(rows, some), z[some], options, start)
    rank = _rank(rows, z)
    rank[list(needed)] = -1.0
    keep = _thinned(rows, rank, at_most)
    rows, z = _taken(rows, keep), z[keep]
    tables = Tables.of(hyper, rows.steps)
    Z = embed(rows.X, options) / hyper.lengthscales[columns(options)]
    K, _ = row_kernel(hyper, rows, matern(distances(Z, Z), 1.0), tables)
    inverse, _ = inverted(K, float(K.max()))
    ones = inverse.sum(axis=0)
    mean = float(ones @ z / ones.sum())
    return Curves(
        rows.X,
        rows.trial,
        rows.rung,
        z[:, None],
        rows.steps,
        options,
        hyper,
        scaling,
        mean,
        inverse,
    )


def refit_curves(
    rows: CurveRows,
    memory: FitMemory | None,
    *,
    options: Ints,
    seldom: bool = False,
    needed: Sequence[int] = (),
) -> tuple[Curves, FitMemory]:
    """`fit_curves` on a schedule: hyperparameters are learnt again when there are enough new rows.

    Returns the posterior and the memory for the next call.
    """
    n = len(rows.y)
    start = CurveHyper.from_list(memory["hyper"]) if memory else None
    growth = RELEARN_SELDOM if seldom else RELEARN_GROWTH if n > ALWAYS_RELEARN_UP_TO else 0.0
    due = memory is None or n >= growth * memory["n"]
    at_most = LIGHT_AT_MOST if seldom else max(MODEL_AT_MOST, min(len(rows.X), ONE_EACH_AT_MOST))
    how: dict[str, Any] = {"options": options, "needed": needed, "at_most": at_most}
    model = fit_curves(rows, start=start, learn=due, **how)
    if memory is not None and not due:
        return model, memory
    return model, {"hyper": model.hyper.to_list(), "n": n}
