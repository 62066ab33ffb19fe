"""Our recordings (benchmarks/recorded) made continuous: a surrogate of value and of cost.

    ln value, ln cost ~ Gaussian process with a Matern-5/2 kernel, fitted to the recorded
    configurations; the surrogate is exp of the posterior mean, without noise.

How far to trust it is in `errors`: cross-validated over ten folds, the share of the variance of
ln value and of ln cost that is explained (R^2). It is reported with every result that uses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.problem import Evaluation, Problem
from benchmarks.problems.training import RECORDED
from farthing import Space, gp

Array = NDArray[np.float64]

FOLDER = Path(__file__).resolve().parents[1] / "recorded"
QUALITY = FOLDER / "quality.json"  # python -m benchmarks.problems.recorded
FAMILIES = {"carbo": ("knn", "mlp", "svm", "dt", "rf"), "xgboost": ("xgboost",)}
FOLDS = 10
NO_ERROR = 1e-4  # stands for a recorded error of 0: half a row of 5,000


@dataclass(frozen=True)
class Recording:
    """Points of the cube with what was recorded there; censored and failed ones are left out."""

    name: str
    space: Space
    X: Array
    log_value: Array
    log_cost: Array
    left_out: int
    about: Mapping[str, Any]


def names(family: str) -> list[str]:
    """`family/problem` of every recording that is there."""
    return [
        f"{family}/{name}"
        for name, training in RECORDED.items()
        if training.model in FAMILIES[family] and (FOLDER / f"{name}.parquet").exists()
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


def _fit(recording: Recording, y: Array, keep: NDArray[np.bool_] | slice = slice(None)) -> gp.GP:
    options = recording.space.options
    return gp.fit(recording.X[keep], y[keep], options=options, noisy=True, clip=False)


@cache
def load(name: str) -> Problem:
    """The problem `carbo/<recording>` or `xgboost/<recording>`; its typical cost is the mean."""
    recording = read(name.partition("/")[2])
    value, cost = _fit(recording, recording.log_value), _fit(recording, recording.log_cost)

    def at(params: Mapping[str, Any]) -> Evaluation:
        x = recording.space.encode(params)[None]
        return Evaluation(*(float(np.exp(model.at(x).mean.item())) for model in (value, cost)))

    return Problem(name, recording.space, at, float(np.exp(recording.log_cost).mean()))


def cross_validated(name: str) -> tuple[float, float]:
    """R^2 of ln value and of ln cost over ten folds."""
    recording = read(name)
    fold = np.random.default_rng(0).permutation(len(recording.X)) % FOLDS
    found = []
    for y in (recording.log_value, recording.log_cost):
        predicted = np.empty(len(y))
        for k in range(FOLDS):
            model = _fit(recording, y, fold != k)
            predicted[fold == k] = model.at(recording.X[fold == k]).mean[:, 0]
        found.append(round(1.0 - float(np.mean((y - predicted) ** 2) / np.var(y)), 3))
    return found[0], found[1]


@cache
def errors(name: str) -> tuple[float, float]:
    """The cross-validated R^2 that is kept beside the recordings, or computed now."""
    kept = json.loads(QUALITY.read_text()) if QUALITY.exists() else {}
    return tuple(kept[name]) if name in kept else cross_validated(name)


def main() -> None:
    """Compute the R^2 of every surrogate, and keep it."""
    there = [name.partition("/")[2] for family in FAMILIES for name in names(family)]
    QUALITY.write_text(json.dumps({name: cross_validated(name) for name in there}, indent=1) + "\n")
    print(f"wrote {QUALITY}")


if __name__ == "__main__":
    main()
