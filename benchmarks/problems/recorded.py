"""Our recordings (benchmarks/recorded) as problems of three kinds.

    carbo/..., xgboost/...                 a Gaussian process with a Matern-5/2 kernel of ln value
                                           and of ln cost, fitted to the recorded configurations;
                                           the problem is exp of the posterior mean, without noise
    carbo-trees/..., xgboost-trees/...     the same with gradient-boosted trees, a kind of model
                                           that none of the methods uses
    carbo-rows/..., xgboost-rows/...       no model: the nearest free recorded row

The first kind matches the assumptions of our own models; the others show whether that matters.
`errors` gives the quality of a surrogate: R^2 of ln value and of ln cost, cross-validated over ten
folds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.problem import Evaluation, Problem
from benchmarks.problems.training import RECORDED
from farthing import Space
from farthing.models import gp

Array = NDArray[np.float64]

FOLDER = Path(__file__).resolve().parents[1] / "recorded"
QUALITY = FOLDER / "quality.json"  # python -m benchmarks.problems.recorded
MODELS = {"carbo": ("knn", "mlp", "svm", "dt", "rf"), "xgboost": ("xgboost",)}
KINDS = ("gp", "trees", "rows")
FAMILIES = {
    family if kind == "gp" else f"{family}-{kind}": (family, kind)
    for family in MODELS
    for kind in KINDS
}
FOLDS = 10
NO_ERROR = 1e-4  # replaces a recorded error of 0: half a row of 5,000
ONE_ROW = 2e-4  # one of 5,000 test rows: smaller differences of errors do not count


@dataclass(frozen=True)
class Recording:
    """Points of the unit cube with their records, without censored and failed ones."""

    name: str
    space: Space
    X: Array
    log_value: Array
    log_cost: Array
    left_out: int
    about: Mapping[str, Any]


def names(family: str) -> list[str]:
    """`family/problem` of every recording."""
    models = MODELS[FAMILIES[family][0]]
    return [
        f"{family}/{name}"
        for name, training in RECORDED.items()
        if training.model in models and (FOLDER / f"{name}.parquet").exists()
    ]


@cache
def read(name: str) -> Recording:
    """The recording of one problem, repeats averaged in ln cost."""
    import pyarrow.parquet as pq

    table = pq.read_table(FOLDER / f"{name}.parquet")
    frame = table.to_pandas()
    space = RECORDED[name].space
    whole = frame[frame["value"].notna() & ~frame["censored"]]
    cost = np.log(whole["cost"]).groupby(whole["configuration"]).mean()
    once = whole.drop_duplicates("configuration").set_index("configuration")
    columns = {f"hp_{parameter}": parameter for parameter in space.names}
    records = once[list(columns)].rename(columns=columns).to_dict("records")
    value = np.maximum(once["value"].to_numpy(np.float64), NO_ERROR)
    return Recording(
        name,
        space,
        np.array([space.encode(record) for record in records]),
        np.log(value),
        cost.loc[once.index].to_numpy(np.float64),
        frame["configuration"].nunique() - len(once),
        json.loads(table.schema.metadata[b"farthing"]),
    )


Predict = Callable[[Array], Array]


def _fit(
    kind: str, recording: Recording, y: Array, keep: NDArray[np.bool_] | slice = slice(None)
) -> Predict:
    X, y = recording.X[keep], y[keep]
    if kind == "gp":
        model = gp.fit(X, y, options=recording.space.options, noisy=True, clip=False)
        return lambda at: np.asarray(model.at(at).mean[:, 0])
    from sklearn.ensemble import GradientBoostingRegressor

    trees = GradientBoostingRegressor(
        n_estimators=400, learning_rate=0.05, max_depth=4, subsample=0.7, random_state=0
    ).fit(X, y)
    return lambda at: np.asarray(trees.predict(at))


@cache
def load(name: str) -> Problem:
    """The problem `<family>/<recording>`."""
    family, _, short = name.partition("/")
    recording, kind = read(short), FAMILIES[family][1]
    costs = np.exp(recording.log_cost)
    priced = {"typical_cost": float(np.median(costs)), "mean_cost": float(np.mean(costs))}
    if kind == "rows":
        rows = [recording.space.decode(x) for x in recording.X]
        number = {tuple(row.values()): i for i, row in enumerate(rows)}
        once = [rows[i] for i in number.values()]
        table = Space.from_rows(once, recording.space.parameters)

        def at_row(params: Mapping[str, Any]) -> Evaluation:
            i = number[tuple(params[key] for key in recording.space.names)]
            return Evaluation(float(np.exp(recording.log_value[i])), float(costs[i]))

        return Problem(name, recording.space, at_row, table=table, **priced)
    value, cost = (_fit(kind, recording, y) for y in (recording.log_value, recording.log_cost))

    def at(params: Mapping[str, Any]) -> Evaluation:
        x = recording.space.encode(params)[None]
        return Evaluation(*(float(np.exp(model(x).item())) for model in (value, cost)))

    return Problem(name, recording.space, at, **priced)


def cross_validated(name: str, kind: str = "gp") -> tuple[float, float]:
    """R^2 of ln value and of ln cost over ten folds."""
    recording = read(name)
    fold = np.random.default_rng(0).permutation(len(recording.X)) % FOLDS
    found = []
    for y in (recording.log_value, recording.log_cost):
        predicted = np.empty(len(y))
        for k in range(FOLDS):
            predicted[fold == k] = _fit(kind, recording, y, fold != k)(recording.X[fold == k])
        found.append(round(1.0 - float(np.mean((y - predicted) ** 2) / np.var(y)), 3))
    return found[0], found[1]


@cache
def errors(name: str, kind: str = "gp") -> tuple[float, float]:
    """The cross-validated R^2 from quality.json, or computed now."""
    kept = json.loads(QUALITY.read_text()).get(kind, {}) if QUALITY.exists() else {}
    return tuple(kept[name]) if name in kept else cross_validated(name, kind)


def main() -> None:
    """Compute and store the R^2 of every surrogate."""
    there = [name.partition("/")[2] for family in MODELS for name in names(family)]
    found = {
        kind: {name: cross_validated(name, kind) for name in there} for kind in ("gp", "trees")
    }
    QUALITY.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {QUALITY}")


if __name__ == "__main__":
    main()
