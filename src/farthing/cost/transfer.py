"""A cost model transferred from earlier studies or tables (Guinet et al. 2020, appendix B).

    ln c = g(phi(params), meta) + u + e

    g      offline: linear, or any scikit-learn regressor, fitted to ln cost of the earlier rows
    phi    ln of a positive parameter, the value of another number, or indicators of options
    meta   meta-features of the task: ln of a positive number, or indicators of texts
    u      online: the level of this task, u ~ N(0, v) before its first cost;
           v is the variance of the earlier tasks' mean residuals
    e      N(0, s^2), s^2 the variance of residuals within a task

With n costs of mean residual r, u ~ N(r n v / (n v + s^2), v s^2 / (n v + s^2)). The level thus
moves from the earlier tasks to this task's own costs. `ResidualGP(Transfer(...))` also learns a
new shape, and `AutoCost` chooses what predicts better. If `related` is given, only rows of related
tasks count (the paper's "task-aware"); without it all rows count ("naive"). The paper does not
define related tasks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence, Slopes, with_noise, with_noise_slopes
from farthing.errors import InvalidInput
from farthing.models.features import is_positive
from farthing.models.gp import FitMemory, Normal
from farthing.models.regression import designed, hazard, least_squares, select, settled
from farthing.space.parameters import is_absent, is_number, plain
from farthing.space.space import Categorical, Ordinal, Space
from farthing.space.table import records_of

__all__ = ["Transfer"]

Array = NDArray[np.float64]
Row = Mapping[str, Any]

STEP = 1e-5  # of the unit cube, for finite differences of a linear model
LEAP = 0.02  # and of a regressor: most are piecewise constant, so a secant gives the slope
UNKNOWN_LEVEL = 1.0  # sd of u if there is only one earlier task: a factor of e
LEAST_NOISE = 1e-3  # sd of e: a regressor may reproduce its training rows exactly
IMPUTATIONS = 10
FOLDS = 5  # of the table, each predicted from the others
TABLE_COUNTS = 5  # the table's s^2 counts as much as this many costs


class Regressor(Protocol):
    """A regressor with the interface of scikit-learn."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit to X (n, k) and y (n,); returns itself."""

    def predict(self, X: Any) -> Any:
        """The mean of y at X (m, k), (m,)."""


# ── features ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Columns:
    """Maps table rows, or points of the unit cube, to the features of the regression."""

    space: Space
    names: tuple[str, ...]  # the parameters that are columns of the table
    here: Row  # meta-features of this task
    texts: Mapping[str, tuple[Any, ...]]  # meta-features that are not numbers: their values

    def of_rows(self, rows: Sequence[Row]) -> Array:
        """(n, k) features of earlier rows."""
        numbers = [[*self._params(row), *self._meta(row)] for row in rows]
        return np.array(numbers).reshape(len(rows), -1)

    def at(self, X: Array) -> Array:
        """(m, k) features at points of the unit cube, with the meta-features of this task."""
        numbers, _ = self.space.between(X)
        columns = [np.zeros((len(X), 0))]
        for name in self.names:
            j, parameter = self.space.names.index(name), self.space.parameters[name]
            if isinstance(parameter, Categorical):
                count = len(parameter.options)
                index = np.minimum((X[:, j] * count).astype(np.int64), count - 1)
                columns.append((index[:, None] == np.arange(1, count)).astype(np.float64))
            elif isinstance(parameter, Ordinal) and not parameter.numeric:
                columns.append(X[:, j : j + 1] * (len(parameter.values) - 1))
            else:
                there = ~np.isnan(numbers[:, j])
                value = np.where(there, numbers[:, j], 1.0 if is_positive(parameter) else 0.0)
                columns.append((np.log(value) if is_positive(parameter) else value)[:, None])
        return np.hstack([*columns, np.tile(self._meta(self.here), (len(X), 1))])

    def _params(self, row: Row) -> list[float]:
        values: list[float] = []
        for name in self.names:
            parameter = self.space.parameters[name]
            value: Any = row.get(name)
            if isinstance(parameter, Categorical):
                values.extend(float(value == option) for option in parameter.options[1:])
            elif isinstance(parameter, Ordinal) and not parameter.numeric:
                known = value in parameter.values
                values.append(float(list(parameter.values).index(value)) if known else 0.0)
            elif is_absent(value):
                values.append(0.0)
            elif not is_number(value) or (is_positive(parameter) and not value > 0):
                raise InvalidInput(
                    f"The transfer table has {name}={value!r}, but the space has {parameter}. "
                    "Leave that row out, or rename the column if it is not this parameter."
                )
            else:
                values.append(float(np.log(value) if is_positive(parameter) else value))
        return values

    def _meta(self, row: Row) -> list[float]:
        values: list[float] = []
        for name, value in ((name, row[name]) for name in self.here):
            if name in self.texts:
                values.extend(float(value == text) for text in self.texts[name][1:])
            else:
                values.append(float(np.log(value) if value > 0 else value))
        return values


# ── offline ────────────────────────────────────────────────────────────────────────────────────


class _Plane(NamedTuple):
    """Linear regression of a table on its independent columns."""

    chosen: list[int]
    beta: Array

    def predict(self, F: Array) -> Array:
        return np.asarray(designed(F[:, self.chosen]) @ self.beta)


def _plane(F: Array, t: Array, at_least: NDArray[np.bool_]) -> _Plane:
    """Least squares on all independent columns, or on those selected by PRESS if rows are few."""
    if len(t) < F.shape[1] + 2:
        chosen = select(F, t, F.shape[1], at_least)
    else:
        chosen = []
        for k in range(F.shape[1]):
            if settled(F, chosen)[k]:
                chosen.append(k)
    return _Plane(chosen, least_squares(designed(F[:, chosen]), t, at_least).beta)


class _Offline(NamedTuple):
    """What the table teaches before the first cost of this task.

    Attributes:
        level: standard deviation of u.
        noise: standard deviation of e.
        step: for finite differences, in the unit cube.
        because: which parameters the table lacks.
    """

    columns: _Columns
    regression: Any
    level: float
    noise: float
    step: float
    because: str

    def mean(self, X: Array) -> Array:
        """g at points of the unit cube, (m,)."""
        return np.asarray(self.regression.predict(self.columns.at(X)), dtype=np.float64)


# ── online ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _TransferCost:
    """A fitted `Transfer`."""

    offline: _Offline
    X: Array  # (n, d)
    rest: Array  # (n,) ln cost less the offline prediction
    at_least: NDArray[np.bool_]  # (n,)
    memory: FitMemory | None = None
    optimism: float = 1.0

    @property
    def because(self) -> str:
        return self.offline.because

    @property
    def about(self) -> str:
        return f"transferred from earlier tasks, with a level from {len(self.rest)} costs"

    @cached_property
    def _residuals_and_noise(self) -> tuple[Array, float]:
        """The residuals, with lower bounds replaced by their expectations; and s.

        The table's s^2 counts as `TABLE_COUNTS` residuals.
        """
        rest, at_least, noise = self.rest.copy(), self.at_least, self.offline.noise
        for _ in range(IMPUTATIONS if at_least.any() else 1):
            level = self._level(rest, noise)
            exact = rest[~at_least] - level
            scatter = TABLE_COUNTS * self.offline.noise**2 + float(exact @ exact)
            noise = float(np.sqrt(scatter / (TABLE_COUNTS + len(exact))))
            rest[at_least] = level + noise * hazard((self.rest[at_least] - level) / noise)
        return rest, noise

    def _level(self, rest: Array, noise: float) -> float:
        """E[u] = sum r v / (n v + s^2)."""
        v = self.offline.level**2
        return float(rest.sum() * v / (len(rest) * v + noise**2))

    @property
    def noise(self) -> float:
        return self._residuals_and_noise[1]

    def _level_std(self, n: int) -> float:
        v, s = self.offline.level**2, self.noise**2
        return float(np.sqrt(v * s / (n * v + s)))

    def trend(self, X: Array) -> Normal:
        """g + E[u], with the standard deviation of u."""
        X = np.asarray(X, dtype=np.float64)
        mean = self.offline.mean(X) + self._level(*self._residuals_and_noise)
        return Normal(mean, np.full(len(X), self._level_std(len(self.rest))))

    def trend_slopes(self, X: Array) -> Slopes:
        """`trend` and its secants, because the gradient of a piecewise constant model is 0."""
        X, space = np.asarray(X, dtype=np.float64), self.offline.columns.space
        d_mean = np.zeros(X.shape)
        for j in np.flatnonzero(space.options == 0):
            ahead, behind = X.copy(), X.copy()
            ahead[:, j] = np.minimum(X[:, j] + self.offline.step, 1.0)
            behind[:, j] = np.maximum(X[:, j] - self.offline.step, 0.0)
            rise = self.offline.mean(ahead) - self.offline.mean(behind)
            d_mean[:, j] = rise / (ahead[:, j] - behind[:, j])
        return self.trend(X), d_mean, np.zeros(X.shape)

    def log_at(self, X: Array) -> Normal:
        return with_noise(self.trend(X), self.noise)

    def slopes(self, X: Array) -> Slopes:
        return with_noise_slopes(self.trend_slopes(X), self.noise)

    def _without(self) -> Array:
        """(n,) E[u] if the cost of each row is left out."""
        rest, noise = self._residuals_and_noise
        return np.array([self._level(np.delete(rest, i), noise) for i in range(len(rest))])

    def moved(self) -> Array:
        level = self._level(*self._residuals_and_noise)
        return np.tile(self._without() - level, (len(self.rest), 1))

    def left_out(self) -> Normal:
        n = len(self.rest)
        std = np.hypot(self._level_std(max(n - 1, 0)), self.noise)
        return Normal(self.offline.mean(self.X) + self._without(), np.full(n, std))

    def condition(self, x: Array, cost: float) -> _TransferCost:
        x = np.atleast_2d(x)
        return replace(
            self,
            X=np.vstack([self.X, x]),
            rest=np.append(self.rest, np.log(cost) - self.offline.mean(x)),
            at_least=np.append(self.at_least, False),
        )


@dataclass(frozen=True)
class Transfer:
    """Learn ln c from the costs of earlier tasks, and its level from the costs of this task.

    `Transfer(rows, here={"rows": 5000, "kind": "regression"}, related=["kind"], task="dataset")`

    Attributes:
        table: earlier evaluations, a list of dicts or a data frame. Its columns are the parameters
            (or `param_<name>`, as in a study's dataframe), the cost and the meta-features. A
            `state` of "killed" marks a lower bound.
        here: the meta-features of this task, {column: value}.
        related: columns in which a row must equal `here` to be used.
        cost: the column of costs.
        task: the column that identifies the earlier task; None if there was only one.
        regressor: any scikit-learn regressor, such as `GradientBoostingRegressor()`; None: linear.
    """

    table: Any
    here: Mapping[str, Any] = field(default_factory=dict)
    related: Sequence[str] = ()
    cost: str = "cost"
    task: str | None = None
    regressor: Regressor | None = None
    _learnt: dict[int, tuple[Space, _Offline]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        rows = [{name: plain(cell) for name, cell in row.items()} for row in records_of(self.table)]
        if self.regressor is not None and not hasattr(self.regressor, "predict"):
            raise InvalidInput(
                f"regressor={self.regressor!r}: expected an instance with fit and predict, such as "
                "GradientBoostingRegressor() of scikit-learn."
            )
        needed = [self.cost, *self.here, *self.related, *([] if self.task is None else [self.task])]
        columns = {name for row in rows for name in row}
        if missing := [name for name in needed if name not in columns]:
            raise InvalidInput(
                f"The transfer table has no column {missing[0]!r}; it has {sorted(columns)}. Name "
                "its columns in cost=, here=, related= and task=."
            )
        if absent := [name for name in self.related if name not in self.here]:
            raise InvalidInput(
                f"related={list(self.related)} needs the {absent[0]!r} of this task. Add it to "
                f"here={{{absent[0]!r}: ...}}."
            )
        used = [row for row in rows if self._is_used(row)]
        if not used:
            raise InvalidInput(
                f"No row of the transfer table has a cost and the {list(self.related)} of this "
                "task. Name fewer columns in related=, or omit it to use every row."
            )
        object.__setattr__(self, "table", tuple(used))
        object.__setattr__(self, "here", dict(self.here))
        object.__setattr__(self, "related", tuple(self.related))

    def _is_used(self, row: Row) -> bool:
        cost: Any = row.get(self.cost)
        if is_absent(cost) or any(row.get(name) != self.here[name] for name in self.related):
            return False
        if not is_number(cost) or not 0 < cost < np.inf:
            raise InvalidInput(
                f"The transfer table has a cost of {cost!r} in {dict(row)}: expected a positive "
                "number. Leave that row out."
            )
        if absent := [name for name in self.here if is_absent(row.get(name))]:
            raise InvalidInput(
                f"The transfer table has no {absent[0]!r} in {dict(row)}. Leave that row out, or "
                "remove that name from here=."
            )
        return True

    def fit(self, evidence: Evidence) -> _TransferCost:
        """A model of ln c, even before the first cost of this task."""
        offline = self._offline(evidence.space)
        X = evidence.X.reshape(-1, evidence.space.d)
        rest = evidence.log_cost() - (offline.mean(X) if len(X) else np.zeros(0))
        return _TransferCost(offline, X, rest, evidence.at_least)

    def _offline(self, space: Space) -> _Offline:
        """The regression, fitted once per space."""
        known = self._learnt.get(id(space))
        if known is None or known[0] is not space:
            self._learnt[id(space)] = known = (space, self._learn(space))
        return known[1]

    def _learn(self, space: Space) -> _Offline:
        rows = [
            row
            | {n: row[f"param_{n}"] for n in space.names if n not in row and f"param_{n}" in row}
            for row in self.table
        ]
        names = tuple(n for n in space.names if any(not is_absent(row.get(n)) for row in rows))
        if not names:
            raise InvalidInput(
                f"The transfer table has none of the parameters {list(space.names)}; it has "
                f"{sorted({name for row in rows for name in row})}. Rename its columns to match."
            )
        lacking = [name for name in space.names if name not in names]
        because = f"the transfer table lacks {', '.join(lacking)}" if lacking else ""
        meta = {name: value for name, value in self.here.items() if name not in self.related}
        texts = {
            name: tuple(sorted({row[name] for row in [*rows, self.here]}, key=str))
            for name in meta
            if not all(is_number(row[name]) for row in [*rows, self.here])
        }
        columns = _Columns(space, names, meta, texts)
        F, t = columns.of_rows(rows), np.log([row[self.cost] for row in rows])
        at_least = np.array([row.get("state") == "killed" for row in rows])
        tasks = [row[self.task] for row in rows] if self.task is not None else [0] * len(rows)
        level, noise = self._spread(F, t, at_least, tasks)
        step = STEP if self.regressor is None else LEAP
        return _Offline(columns, self._regression(F, t, at_least), level, noise, step, because)

    def _regression(self, F: Array, t: Array, at_least: NDArray[np.bool_]) -> Any:
        if self.regressor is None:
            return _plane(F, t, at_least)
        exact = ~at_least if (~at_least).any() else slice(None)  # it cannot use lower bounds
        return copy.deepcopy(self.regressor).fit(F[exact], t[exact])

    def _spread(
        self, F: Array, t: Array, at_least: NDArray[np.bool_], tasks: Sequence[Any]
    ) -> tuple[float, float]:
        """Standard deviations of u and e, from residuals of cross-validation over tasks."""
        order = {task: i for i, task in enumerate(dict.fromkeys(tasks))}
        group = np.array([order[task] for task in tasks])
        several = len(order) > 1
        fold = (group if several else np.arange(len(t))) % FOLDS
        rest = np.zeros(len(t))
        for k in np.unique(fold):
            others = fold != k
            if others.any():
                model = self._regression(F[others], t[others], at_least[others])
                rest[~others] = t[~others] - model.predict(F[~others])
            else:
                rest = t - t.mean()
        rest, group = rest[~at_least], group[~at_least]
        if not len(rest):
            return UNKNOWN_LEVEL, UNKNOWN_LEVEL
        means = np.array([rest[group == g].mean() for g in np.unique(group)])
        within = rest - means[np.searchsorted(np.unique(group), group)]
        noise = float(np.sqrt(within @ within / max(len(rest) - len(means), 1)))
        level = float(np.sqrt(np.mean(means**2))) if several else UNKNOWN_LEVEL
        return max(level, LEAST_NOISE), max(noise, LEAST_NOISE)
