"""The flop model: the cost as a weighted sum of operation counts (Lee et al. 2020, section 6).

    c = sum_k w_k phi_k(params) + w_0,   w >= 0, fitted with the Huber loss (as in the paper, which
    does not state delta)

    multi-layer perceptron, widths n_1 .. n_k:
        phi_quad = sum n_i n_{i+1},   phi_linear = sum n_i
    convolutional network, images I x I x ch, kernel r, channels m_i, pooling ratios p_i:
        phi_conv = I^2 r^2 ch m_1 + sum I^2 r^2 m_i m_{i+1},   phi_pool = sum I^2 p_i m_i,
        followed by a perceptron with I^2 p_k m_k inputs

In logs ln c ~ N(ln c(x), s^2 + j' C j). Here s is the standard deviation of ln c about the fit,
and C = s^2 (J'WJ)^-1 with J = phi / c(x) is the coefficients' covariance to first order. A
prediction is at least a tenth of the lowest observed cost. A lower bound (a killed trial) counts as
exp E[ln c | ln c > bound], which is updated with the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence, Slopes, with_noise, with_noise_slopes
from farthing.errors import InvalidInput
from farthing.models.features import around
from farthing.models.gp import FitMemory, Normal
from farthing.models.regression import SINGULAR, UNKNOWN_SPREAD, hazard, huber, settled
from farthing.space.space import Space

__all__ = ["CNNFlops", "Flops", "MLPFlops"]

Array = NDArray[np.float64]
Params = Mapping[str, Any]
Size = float | str  # a number, or the name of a parameter that holds it
Feature = Callable[[Params], float | Sequence[float]]

LEAST = 0.1  # lowest prediction, relative to the lowest observed cost
IMPUTATIONS = 50  # maximum number of iterations
IMPUTED = 1e-3  # converged if no imputed ln c changes by more than this
REMEMBER = 100_000  # configurations whose counts are cached


# ── counting ───────────────────────────────────────────────────────────────────────────────────


def _number(size: Size, params: Params) -> float:
    return float(params[size] if isinstance(size, str) else size)


def _times(sizes: Sequence[Size], params: Params) -> float:
    return float(np.prod([_number(size, params) for size in sizes]))


@dataclass(frozen=True)
class MLPFlops:
    """Operation counts of a multi-layer perceptron: (phi_quad, phi_linear).

    Attributes:
        widths: widths of the layers, as numbers or names of parameters.
        layers: the number of hidden layers, which have the first of the `widths`; None: all.
        inputs, outputs: widths of the input and output layers, if `widths` does not include them.
        times: factors by which the work is repeated, such as `["epochs"]`.
    """

    widths: Sequence[Size]
    layers: Size | None = None
    inputs: Size | None = None
    outputs: Size | None = None
    times: Sequence[Size] = ()

    def __call__(self, params: Params) -> tuple[float, float]:
        """The two counts of a configuration."""
        count = len(self.widths) if self.layers is None else int(_number(self.layers, params))
        sizes = [self.inputs, *self.widths[:count], self.outputs]
        n = np.array([_number(size, params) for size in sizes if size is not None])
        repeats = _times(self.times, params)
        return repeats * float(n[:-1] @ n[1:]), repeats * float(n.sum())


@dataclass(frozen=True)
class CNNFlops:
    """Operation counts of a convolutional network: (phi_conv, phi_pool, phi_quad, phi_linear).

    As in the paper, pooling shrinks the input of the perceptron, not the later feature maps.

    Attributes:
        size: I, for images of I x I pixels.
        colours: ch, channels of an image.
        kernel: r, width of the kernel in every layer.
        channels: m_i, channels of each layer.
        pooling: p_i, the share of a feature map that pooling keeps; None: all of it.
        widths: widths of the perceptron after the convolutions, without its input.
        times: factors by which the work is repeated, such as `["epochs"]`.
    """

    size: Size
    colours: Size
    kernel: Size
    channels: Sequence[Size]
    pooling: Sequence[Size] | None = None
    widths: Sequence[Size] = ()
    times: Sequence[Size] = ()

    def __call__(self, params: Params) -> tuple[float, float, float, float]:
        """The four counts of a configuration."""
        area, r = _number(self.size, params) ** 2, _number(self.kernel, params)
        m = np.array([_number(size, params) for size in (self.colours, *self.channels)])
        shares = [1.0] * len(self.channels) if self.pooling is None else self.pooling
        p = np.array([_number(share, params) for share in shares])
        repeats = _times(self.times, params)
        convolution = repeats * area * r * r * float(m[:-1] @ m[1:])
        pooled = repeats * area * float(p @ m[1:])
        perceptron = MLPFlops(self.widths, inputs=area * p[-1] * m[-1], times=self.times)
        return convolution, pooled, *perceptron(params)


class _TrackedParams(Mapping[str, Any]):
    """Params that record which of them a feature reads."""

    def __init__(self, params: Params, read: set[str]) -> None:
        self.params = params
        self.read = read

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.params[name]

    def __iter__(self) -> Iterator[str]:
        self.read.update(self.params)
        return iter(self.params)

    def __len__(self) -> int:
        return len(self.params)

    def __repr__(self) -> str:
        return repr(dict(self.params))


@dataclass(frozen=True)
class _Counted:
    """The counts in a space, computed once per combination of the parameters that they read."""

    space: Space
    features: tuple[Feature, ...]
    memo: dict[bytes, tuple[float, ...]]
    read: set[str]

    @property
    def numeric_inputs(self) -> list[int]:
        """The numeric coordinates that the features have read so far."""
        names = self.space.names
        numeric = map(int, np.flatnonzero(self.space.options == 0))
        return [j for j in numeric if names[j] in self.read]

    def at(self, X: Array) -> Array:
        """(m, k + 1) counts at the nearest valid points; the last column is ones."""
        snapped = self.space.snap(X)
        is_read = np.array([name in self.read for name in self.space.names])
        keys = np.ascontiguousarray(np.where(is_read, snapped, 0.0))
        rows = []
        for x, key in zip(snapped, map(bytes, keys), strict=True):
            if key not in self.memo:
                known = len(self.read)
                row = self._row(x)
                if len(self.read) > known:  # the cached keys lack this parameter
                    self.memo.clear()
                    return self.at(X)
                if len(self.memo) >= REMEMBER:
                    self.memo.clear()
                self.memo[key] = row
            rows.append(self.memo[key])
        return np.array(rows).reshape(len(snapped), -1)

    def _row(self, x: Array) -> tuple[float, ...]:
        params = _TrackedParams(self.space.decode(x), self.read)
        return (*(c for feature in self.features for c in _count(feature, params)), 1.0)


def _count(feature: Feature, params: Params) -> list[float]:
    """The counts of one configuration, checked."""
    try:
        counts = np.atleast_1d(np.asarray(feature(params), dtype=np.float64)).tolist()
    except Exception as error:
        raise InvalidInput(
            f"The cost feature {feature!r} failed at {dict(params)}: {type(error).__name__}: "
            f"{error}. It must return a count for every configuration of the space."
        ) from error
    if not all(np.isfinite(count) and count >= 0 for count in counts):
        raise InvalidInput(
            f"The cost feature {feature!r} is {counts} at {dict(params)}: expected finite numbers "
            "of at least 0. Return a count of flops, or any quantity that the cost grows with."
        )
    return list(counts)


# ── the model ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _FlopsCost:
    """A fitted `Flops`."""

    counted: _Counted
    D: Array  # (n, k + 1) all counts of the evidence
    cost: Array  # (n,)
    at_least: NDArray[np.bool_]  # (n,)
    chosen: tuple[int, ...]
    weights: Array  # of the chosen
    inverse: Array  # (J'WJ)^-1
    noise: float  # s
    filled: Array  # (n,) the cost, or its expectation if it is a lower bound
    row_weights: Array  # (n,) W
    because: str = ""
    memory: FitMemory | None = None
    optimism: float = 1.0

    @property
    def about(self) -> str:
        count = int((self.weights[:-1] > 0).sum())
        return f"a weighted sum of {count} of {self.D.shape[1] - 1} operation counts"

    def _curve(self, D: Array) -> Normal:
        D = D[:, list(self.chosen)]
        raw = D @ self.weights
        least = LEAST * float(self.cost.min())
        J = np.where((raw > least)[:, None], D / np.maximum(raw, least)[:, None], 0.0)
        spread = np.einsum("ij,jk,ik->i", J, self.inverse, J)
        std = self.noise * np.sqrt(np.maximum(spread, 0.0))
        return Normal(np.log(np.maximum(raw, least)), std)

    def trend(self, X: Array) -> Normal:
        """ln of the weighted sum of counts, with the uncertainty of the weights."""
        return self._curve(self.counted.at(X))

    def trend_slopes(self, X: Array) -> Slopes:
        """`trend` and its finite differences: a small step, or the neighbouring discrete values."""
        space = self.counted.space
        X = space.snap(X)
        d_mean, d_std = np.zeros(X.shape), np.zeros(X.shape)
        here = self.trend(X)
        inputs = self.counted.numeric_inputs
        ends = np.repeat(X[None, None], len(inputs), axis=0).repeat(2, axis=1)  # (c, 2, m, d)
        for i, j in enumerate(inputs):
            ends[i, 0, :, j], ends[i, 1, :, j] = around(space, int(j), X[:, j])
        mean, std = (part.reshape(ends.shape[:3]) for part in self.trend(ends.reshape(-1, space.d)))
        for i, j in enumerate(inputs):
            width = ends[i, 0, :, j] - ends[i, 1, :, j]
            for slope, part in ((d_mean, mean[i]), (d_std, std[i])):
                rise = part[0] - part[1]
                slope[:, j] = np.divide(rise, width, where=width > 0, out=np.zeros(len(X)))
        return here, d_mean, d_std

    def log_at(self, X: Array) -> Normal:
        return with_noise(self.trend(X), self.noise)

    def slopes(self, X: Array) -> Slopes:
        return with_noise_slopes(self.trend_slopes(X), self.noise)

    def _influence(self) -> tuple[Array, Array]:
        """(n, n) j_i' (J'WJ)^-1 j_k w_k r_k / (1 - w_k q_k), and q (n,): to first order."""
        curve = self._curve(self.D)
        D = self.D[:, list(self.chosen)]
        J = D / np.exp(curve.mean)[:, None]
        hat = J @ self.inverse @ J.T
        q, w = np.diag(hat), self.row_weights
        pull = w * (np.log(self.filled) - curve.mean) / np.maximum(1.0 - w * q, SINGULAR)
        return hat * pull, q

    def moved(self) -> Array:
        return -self._influence()[0]

    def left_out(self) -> Normal:
        influence, q = self._influence()
        mean, _ = self._curve(self.D)
        spread = 1.0 + q / np.maximum(1.0 - self.row_weights * q, SINGULAR)
        return Normal(mean - np.diag(influence), self.noise * np.sqrt(spread))

    def condition(self, x: Array, cost: float) -> _FlopsCost:
        more = replace(
            self,
            D=np.vstack([self.D, self.counted.at(np.atleast_2d(x))]),
            cost=np.append(self.cost, cost),
            at_least=np.append(self.at_least, False),
        )
        return _refitted(more)


def _refitted(model: _FlopsCost) -> _FlopsCost:
    """The model after a robust fit, repeated while the lower bounds are imputed."""
    D, at_least = model.D[:, list(model.chosen)], model.at_least
    if (~at_least).sum() < 2:
        at_least = np.zeros(len(D), dtype=np.bool_)
    model = replace(model, filled=model.cost)
    for _ in range(IMPUTATIONS if at_least.any() else 1):
        robust = huber(D, model.filled)
        active = robust.beta > 0
        raw = np.maximum(D @ robust.beta, LEAST * model.cost.min())
        J = np.where(active, D / raw[:, None], 0.0)
        weight = robust.weight
        inverse: Array = np.linalg.pinv(J.T @ (weight[:, None] * J)).astype(np.float64)
        noise = _spread(np.log(model.filled / raw)[~at_least], weight[~at_least], int(active.sum()))
        model = replace(
            model, weights=robust.beta, inverse=inverse, noise=noise, row_weights=weight
        )
        if at_least.any():
            # If most costs are bounds, the others say little about s: it is at most a factor e.
            mean, std = np.log(raw[at_least]), min(max(noise, 1e-9), UNKNOWN_SPREAD)
            over = mean + std * hazard((np.log(model.cost[at_least]) - mean) / std)
            filled = model.cost.copy()
            filled[at_least] = np.exp(over)
            moved = float(np.abs(np.log(filled / model.filled)).max())
            model = replace(model, filled=filled)
            if moved < IMPUTED:
                break
    return model


def _spread(residual: Array, weight: Array, coefficients: int) -> float:
    """s of ln c, with rows weighted as in the robust fit."""
    freedom = float(weight.sum()) - coefficients
    if freedom <= 0:
        return UNKNOWN_SPREAD
    return float(np.sqrt(weight @ residual**2 / freedom))


@dataclass(frozen=True)
class Flops:
    """Learn the cost as a weighted sum of operation counts, with weights of at least 0.

    The Huber loss bounds the influence of outliers.

    `Flops(MLPFlops(["width_1", "width_2"], inputs=784, outputs=10, times=["epochs"]))`

    Attributes:
        features: a function params -> count or counts, such as `MLPFlops`, `CNNFlops` or your own;
            or a list of them, most important first. The model adds a constant.
    """

    features: Feature | Sequence[Feature]
    _bound: dict[int, _Counted] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = (self.features,) if callable(self.features) else tuple(self.features)
        if not given or not all(callable(f) and not isinstance(f, type) for f in given):
            raise InvalidInput(
                f"features={self.features!r}: expected functions of the parameters that return "
                'counts, such as MLPFlops(["width"]) or lambda params: params["width"] ** 2.'
            )
        object.__setattr__(self, "features", given)

    def _bind(self, space: Space) -> _Counted:
        """The counts in a space, the same object each time so that its cache is kept."""
        assert isinstance(self.features, tuple)
        if id(space) not in self._bound or self._bound[id(space)].space is not space:
            self._bound[id(space)] = _Counted(space, self.features, {}, set())
        return self._bound[id(space)]

    def fit(self, evidence: Evidence) -> _FlopsCost | None:
        """A model of c, or None if there is no cost yet."""
        n = len(evidence.cost)
        if not n:
            return None
        evidence.log_cost()  # raises an error if a cost is not positive
        counted = self._bind(evidence.space)
        D = counted.at(evidence.X)
        chosen, because = _usable(D, int((~evidence.at_least).sum()))
        none = np.zeros(0)
        return _refitted(
            _FlopsCost(
                counted,
                D,
                evidence.cost,
                evidence.at_least,
                chosen,
                weights=none,
                inverse=none,
                noise=0.0,
                filled=evidence.cost,
                row_weights=none,
                because=because,
            )
        )


def _usable(D: Array, exact: int) -> tuple[tuple[int, ...], str]:
    """The columns to use, the constant last; and why some are not used."""
    count = D.shape[1] - 1
    most = max(exact - 2, 0)
    if count > most:
        because = f"{exact} costs are too few for {count} operation counts, using the first {most}"
        return (*range(most), count), because
    # Columns differ by orders of magnitude, so they are scaled before the check of independence.
    scaled = D[:, :-1] / np.maximum(np.abs(D[:, :-1]).max(axis=0), np.finfo(float).tiny)
    chosen: list[int] = []
    for k in range(count):
        if settled(scaled, chosen)[k]:
            chosen.append(k)
    dropped = count - len(chosen)
    because = f"{dropped} of {count} operation counts depend on the others" if dropped else ""
    return (*chosen, count), because
