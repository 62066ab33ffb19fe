"""The prior mean of the objective that earlier studies give, and the trust in each of them.

    mu_s(x)   posterior mean of a Gaussian process on the standardised values of source s, in the
              coordinates that the source has
    a_s       share of the pairs of values seen here that source s orders correctly, in expectation
              under its posterior: mean over pairs y_i < y_j of P(f_s(x_i) < f_s(x_j))
    A_s       (k A_0 + (n - 1) a_s) / (k + n - 1): a_s after n values, with A_0 = PRIOR_ACCURACY
              counting as k = PRIOR_COUNT comparisons; n values are n - 1, because pairs depend on
              one another
    trust_s = (A_s - CHANCE) / (SURE - CHANCE), between 0 and 1
    m(x)    = scale T b sum_s w_s mu_s(x),   w_s = trust_s / sum of trusts,   T = max_s trust_s
    b         how far values here spread compared with those of the sources: ridge regression of the
              standardised values on sum_s w_s mu_s, shrunk towards 1, and at least 0

The sum has the MOST sources of highest a_s, so that many weak sources do not dilute a good one, and
so that a suggestion stays fast. The residual y - m is the Gaussian process of `gp.py`, whose
constant mean is the level of this task. Pairwise ranking weights follow RGPE (Feurer et al. 2018);
there, weights are shares of draws in which a source, or the model of this task, ranks best.

What others may show (keys of a trial's notes, which are stored with the trial):

    notes["trust"]         {name of a source: trust between 0 and 1} when the trial was suggested
    notes["from_sources"]  {name: by how much the source moved the predicted value at the proposed
                           point}, in the objective's unit and direction, as `effects` computes it;
                           only if a model with a prior mean proposed the trial
    notes["portfolio"]     {name: share}: which sources expected the improvement of a configuration
                           of the initial design; shares sum to 1

`Belief.trust` is the dictionary of `notes["trust"]`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import ndtr

from farthing.earlier import Source
from farthing.models.censored import fit_censored
from farthing.models.gp import GP, clip_outliers, fit, standardise, subset
from farthing.models.kernel import columns, distances, embed, matern, matern_slopes

__all__ = [
    "Mixture",
    "PriorMean",
    "SourceModel",
    "cost_model_of",
    "effects",
    "model_of",
    "prior_mean",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

ROWS = 1500  # of all sources together
MIN_ROWS = 2  # values from which a source has a model
PRIOR_ACCURACY, PRIOR_COUNT = 0.75, 1.0
CHANCE, SURE = 0.65, 0.85
RIDGE = 2.0  # standardised values that the scale 1 counts as
JUDGED = 100  # rows of this task that judge the sources, at most
MOST = 5  # sources in the prior mean, those that order most pairs correctly


@dataclass(frozen=True, eq=False)
class SourceModel:
    """The posterior of one source, in units of its standardised values."""

    name: str
    has: NDArray[np.bool_]  # (d,) the coordinates that the source has
    gp: GP

    @cached_property
    def _centres(self) -> Array:
        return self.gp.embedded(self.gp.X)

    @cached_property
    def solved(self) -> Array:
        """(n,) K^-1 (y - mean)."""
        solved, _ = lapack.dpotrs(self.gp.L, self.gp.targets[:, 0] - self.gp.mean, lower=1)
        return np.asarray(solved)

    def at(self, X: Array) -> Array:
        """(m,) the posterior mean."""
        k = matern(distances(self.gp.embedded(X[:, self.has]), self._centres), self.gp.variance)
        return np.asarray(self.gp.mean + k @ self.solved)

    def accuracy(self, X: Array, y: Array) -> float:
        """a_s: the expected share of pairs of different values that the source orders correctly."""
        X, mean = X[:, self.has], self.at(X)
        covariance = self.gp.standard_covariance(X)
        var = np.diag(covariance)
        spread = np.sqrt(np.maximum(var[:, None] + var - 2.0 * covariance, 1e-12))
        lower = y[:, None] < y
        if not lower.any():
            return 0.5
        return float(ndtr((mean - mean[:, None]) / spread)[lower].mean())


class _Stack(NamedTuple):
    """The rows of several sources one below the other, so that one product serves all of them.

    The squared distance of x from row i of source s is sum_j W_ij (x_j - c_ij)^2 with W_ij = 1 /
    l_sj^2, or 0 for a coordinate that the source lacks: (x^2, x, 1) times a column of `squares`.
    """

    options: Ints  # (d,) of the coordinates that any source has
    squares: Array  # (2 e + 1, N)
    pulls: Array  # (N, 2 d) W and W c, with 0 for categoricals
    variance: Array  # (N,)
    solved: Array  # (N,)
    starts: Ints  # (s,) the first row of each source
    means: Array  # (s,)


@lru_cache(maxsize=64)
def _stacked(models: tuple[SourceModel, ...]) -> _Stack:
    options = np.zeros(len(models[0].has), dtype=np.int64)
    for model in models:
        options[model.has] = model.gp.options
    source = columns(options)
    W, C = [], []
    for model in models:
        n = len(model.gp.X)
        x, inverse = np.full((n, len(options)), 0.5), np.zeros(len(options))
        x[:, model.has], inverse[model.has] = model.gp.X, model.gp.lengthscales**-2.0
        C.append(embed(x, options))
        W.append(np.tile(inverse[source], (n, 1)))
    w, c = np.vstack(W), np.vstack(C)
    numbers = options[source] == 0
    at = np.zeros((len(source), len(options)))
    at[numbers, source[numbers]] = 1.0
    rows = [len(model.gp.X) for model in models]
    return _Stack(
        options,
        5.0 * np.vstack([w.T, -2.0 * (w * c).T, (w * c * c).sum(axis=1)]),
        np.hstack([w @ at, (w * c) @ at]),
        np.repeat([model.gp.variance for model in models], rows),
        np.concatenate([model.solved for model in models]),
        np.cumsum([0, *rows[:-1]]),
        np.array([model.gp.mean for model in models]),
    )


@dataclass(frozen=True)
class Mixture:
    """A weighted sum of the posterior means of some sources."""

    models: tuple[SourceModel, ...]
    weights: Array  # (s,)

    def at(self, X: Array) -> Array:
        """(m,)."""
        return np.asarray(matern(self._distances(X), 1.0) @ self._solved + self._mean)

    def parts(self, X: Array) -> Array:
        """(m, s) mu of each source."""
        stack = _stacked(self.models)
        each = matern(self._distances(X), 1.0) * (stack.variance * stack.solved)
        return np.asarray(np.add.reduceat(each, stack.starts, axis=1) + stack.means)

    def slopes(self, X: Array) -> tuple[Array, Array]:
        """`at(X)` and its gradient (m, d), 0 in the coordinates that a source lacks."""
        k, slope = matern_slopes(self._distances(X), 1.0)
        slope *= self._solved
        pulls, here = slope @ _stacked(self.models).pulls, X.shape[1]
        gradient = pulls[:, here:] - X * pulls[:, :here]
        return np.asarray(k @ self._solved + self._mean), gradient

    @cached_property
    def _solved(self) -> Array:
        """(N,) the coefficients of the kernel values of all rows."""
        stack = _stacked(self.models)
        rows = np.diff(np.append(stack.starts, len(stack.solved)))
        return np.asarray(np.repeat(self.weights, rows) * stack.variance * stack.solved)

    @cached_property
    def _mean(self) -> float:
        return float(self.weights @ _stacked(self.models).means)

    def _distances(self, X: Array) -> Array:
        """(m, N) q to the rows of all sources."""
        stack = _stacked(self.models)
        Z = embed(X, stack.options)
        q = np.hstack([Z * Z, Z, np.ones((len(Z), 1))]) @ stack.squares
        np.maximum(q, 0.0, out=q)
        return np.asarray(np.sqrt(q, out=q))


class PriorMean(NamedTuple):
    """m(x) in the unit of the objective and without a level, and the trust in all sources.

    The mean is None if no source counts.
    """

    mean: Mixture | None
    trust: dict[str, float]


def prior_mean(sources: Sequence[Source], options: Ints, X: Array, y: Array) -> PriorMean:
    """The prior mean after the values y at X of this task."""
    if not sources:
        return PriorMean(None, {})
    found = [model_of(source, options, ROWS // len(sources)) for source in sources]
    some = subset(y, JUDGED)
    X, targets, scale = X[some], np.zeros(0), 1.0
    if len(X):
        targets, _, scale = standardise(clip_outliers(y[some]))
    judged = [0.5 if m is None else m.accuracy(X, targets) for m in found]
    each = [_trust(a, len(X)) if m else 0.0 for m, a in zip(found, judged, strict=True)]
    trust = {source.name: share for source, share in zip(sources, each, strict=True)}
    # The best first, so that a suggestion evaluates few of them; all before values have judged.
    order = sorted(range(len(found)), key=lambda i: (-judged[i], sources[i].name))
    counting = [i for i in order if each[i] > 0][: MOST if len(X) > 1 else None]
    models = tuple(model for i in counting if (model := found[i]) is not None)
    if not models:
        return PriorMean(None, trust)
    shares = np.array([each[i] for i in counting])
    shares /= shares.sum()
    factor = scale * max(each) * _spread(Mixture(models, shares).at(X), targets)
    return PriorMean(Mixture(models, factor * shares) if factor > 0 else None, trust)


def effects(gp: GP, x: Array) -> dict[str, float]:
    """By how much each source moves the posterior mean at x (d,), in the unit of y.

    phi_s(x) - k(x, X) K^-1 phi_s(X) for phi_s = w_s mu_s less its least-squares constant: the
    posterior is linear in the prior mean, and the level of a source is not its effect.
    """
    prior = gp.prior
    if not isinstance(prior, Mixture):
        return {}
    k = matern(distances(gp.embedded(x[None]), gp.embedded(gp.X)), gp.variance)[0]
    parts = prior.parts(np.vstack([x[None], gp.X])) * prior.weights
    solved, _ = lapack.dpotrs(gp.L, np.column_stack([np.ones(len(gp.X)), parts[1:]]), lower=1)
    constant = solved[:, 1:].sum(axis=0) / solved[:, 0].sum()
    moved = parts[0] - constant - k @ (solved[:, 1:] - np.outer(solved[:, 0], constant))
    return {model.name: float(part) for model, part in zip(prior.models, moved, strict=True)}


def _trust(accuracy: float, n: int) -> float:
    """4 (E[A] - 1/2) after n values, between 0 and 1."""
    count = max(n - 1, 0)
    expected = (PRIOR_COUNT * PRIOR_ACCURACY + count * accuracy) / (PRIOR_COUNT + count)
    return float(np.clip((expected - CHANCE) / (SURE - CHANCE), 0.0, 1.0))


def _spread(expected: Array, targets: Array) -> float:
    """b: ridge regression through the means, with the prior 1 counting as RIDGE values."""
    if not len(targets):
        return 1.0
    e, z = expected - expected.mean(), targets - targets.mean()
    return max(float((e @ z + RIDGE) / (e @ e + RIDGE)), 0.0)


# ── the sources' own models ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Rows:
    """The rows that a model of a source learns from, known by their hash, to be fitted once."""

    digest: bytes
    name: str
    x: Array = field(compare=False)
    y: Array = field(compare=False)
    options: Ints = field(compare=False)
    at_least: NDArray[np.bool_] | None = field(compare=False, default=None)


def _rows(
    source: Source, y: Array, options: Ints, limit: int, at_least: NDArray[np.bool_] | None = None
) -> _Rows | None:
    """At most `limit` rows with a finite y: half the lowest, the rest evenly over the study."""
    valued = np.flatnonzero(np.isfinite(y))
    has = ~np.isnan(source.x).any(axis=0)
    if len(valued) < MIN_ROWS or not has.any():
        return None
    some = valued[subset(y[valued], max(limit, MIN_ROWS))]
    x, at_least = source.x[some], None if at_least is None else at_least[some]
    parts = (x, y[some], options, np.zeros(0) if at_least is None else at_least)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in parts))
    return _Rows(digest.digest(), source.name, x, y[some], options, at_least)


def model_of(source: Source, options: Ints, limit: int = ROWS) -> SourceModel | None:
    """The model of the values of a source; None if it has too few values."""
    rows = _rows(source, source.y, options, limit)
    return None if rows is None else _fitted(rows)


def cost_model_of(
    source: Source, resource: str, options: Ints, limit: int = ROWS
) -> SourceModel | None:
    """The model of ln c of a source, in a resource, or in its first one if it lacks that one."""
    if not source.cost:
        return None
    cost = np.asarray(source.cost.get(resource, next(iter(source.cost.values()))))
    log_cost = np.log(np.where(cost > 0, cost, np.nan))
    censored = source.censored if len(source.censored) else np.zeros(len(cost), dtype=np.bool_)
    rows = _rows(source, log_cost, options, limit, censored)
    return None if rows is None else _fitted(rows)


@lru_cache(maxsize=512)
def _fitted(rows: _Rows) -> SourceModel:
    has = np.asarray(~np.isnan(rows.x).any(axis=0))
    x, options = rows.x[:, has], rows.options[has]
    if rows.at_least is None:
        return SourceModel(rows.name, has, fit(x, rows.y, options=options))
    gp = fit_censored(x, rows.y, rows.at_least, None, options=options).gp
    return SourceModel(rows.name, has, gp)
