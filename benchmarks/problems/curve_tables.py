"""Recorded learning curves: LCBench, TaskSet and our own recordings, one table per task.

A folder of curves has this layout:

    curves/lcbench/<task>.parquet   hp_*, epoch_1 to epoch_51 (cross-entropy), cost_per_epoch
    curves/taskset/<task>.parquet   hp_*, step_1 to step_50 (loss; NaN after divergence); a step
                                    costs 1

The tasks `recorded/<task>` are in the repository (`benchmarks/recorded/curves`, see
`evidence/record_curves.py`). A step of one of their rows costs the mean of its measured CPU
seconds, the start of the model included. The description of each file says how far the steps of a
row differ.

The candidates are the rows of the table, for every method: the methods know all configurations, but
not their curves. A full table leaves no configuration to hide.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.tables import NoData, _plain
from benchmarks.problems.training_curves import SPACES
from farthing import Float, Int, Space

Array = NDArray[np.float64]

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "curves"
LCBENCH = {
    "batch_size": Int(16, 512, log=True),
    "learning_rate": Float(1e-4, 0.1, log=True),
    "momentum": Float(0.1, 0.99),
    "weight_decay": Float(1e-5, 0.1),
    "num_layers": Int(1, 5),
    "max_units": Int(64, 1024, log=True),
    "max_dropout": Float(0.0, 1.0),
}
# On these tasks constants were chosen. Most are the first by alphabet. The starting values of the
# constants were found on LCBench, too, so the other tasks are not a clean hold-out.
DEVELOPMENT = (
    "APSFailure",
    "Amazon_employee_access",
    "Fashion-MNIST",
    "airlines",
    "car",
    "higgs",
    "jasmine",
    "volkert",
)


@dataclass(frozen=True, eq=False)
class CurveTable:
    """All curves of one task.

    Attributes:
        curves: (n, T) the value after each step; NaN after divergence.
        rate: (n,) what one step costs.
    """

    name: str
    space: Space
    curves: Array
    rate: Array

    @property
    def last(self) -> int:
        """The last step, T."""
        return int(self.curves.shape[1])

    @property
    def median_cost(self) -> float:
        """The median cost of a whole training."""
        return float(np.median(self.rate) * self.last)

    def ends(self, value: str) -> Array:
        """(n,) the value of each whole training; infinite if it diverges."""
        if value == "last":
            return np.where(np.isnan(self.curves[:, -1]), np.inf, self.curves[:, -1])
        return np.asarray(np.min(np.where(np.isnan(self.curves), np.inf, self.curves), axis=1))

    def row_of(self, x: Array) -> int:
        """The row of a point of the space."""
        rows = self.space.rows
        assert rows is not None
        gap = np.where(self.space.categorical, rows != x, rows - x)
        return int(np.argmin((gap**2).sum(axis=1)))


def curve_names(folder: Path) -> list[str]:
    """`suite/task` of all tables: those of the folder, and our own recordings."""
    found = sorted((folder / "curves").glob("*/*.parquet"))
    ours = sorted(RECORDED.glob("*.parquet"))
    return [
        *(f"{path.parent.name}/{path.stem}" for path in found),
        *(f"recorded/{path.stem}" for path in ours),
    ]


@cache
def load_curves(name: str, folder: Path) -> CurveTable:
    """The table of one task."""
    import pandas as pd

    suite, _, task = name.partition("/")
    if suite == "recorded":
        return _recorded(name, RECORDED / f"{task}.parquet")
    path = folder / "curves" / suite / f"{task}.parquet"
    if not path.exists():
        raise NoData(f"{path} does not exist. Set --data or FARTHING_DATA to a folder of curves.")
    frame = pd.read_parquet(path)
    prefix = "epoch_" if suite == "lcbench" else "step_"
    columns = [c for c in frame.columns if c.startswith("hp_")]
    frame = frame.drop_duplicates(columns, ignore_index=True)
    steps = sorted(int(c.removeprefix(prefix)) for c in frame.columns if c.startswith(prefix))
    curves = frame[[f"{prefix}{step}" for step in steps if step > 0]].to_numpy(np.float64)
    rows: list[dict[str, Any]] = [
        {key.removeprefix("hp_"): _plain(value) for key, value in row.items()}
        for row in frame[columns].to_dict("records")
    ]
    if suite == "lcbench":
        parameters: dict[str, Any] = dict(LCBENCH)
        rate = frame["cost_per_epoch"].to_numpy(np.float64)
    else:
        rows = [{k: 1.0 - v if k in ("beta1", "beta2") else v for k, v in r.items()} for r in rows]
        parameters = {
            key: Float(min(r[key] for r in rows), max(r[key] for r in rows), log=True)
            for key in rows[0]
        }
        rate = np.ones(len(frame))
    return CurveTable(name, Space.from_rows(rows, parameters), curves, rate)


def _recorded(name: str, path: Path) -> CurveTable:
    """The table of a recording of our own."""
    import pyarrow.parquet as pq

    if not path.exists():
        raise NoData(f"{path} does not exist. `python -m benchmarks record-curves` records it.")
    table = pq.read_table(path)
    space = SPACES[json.loads(table.schema.metadata[b"farthing"])["model"]]
    rows = [
        {key: row[f"hp_{key}"] for key in space.names}
        for row in table.drop_columns(["values", "seconds"]).to_pylist()
    ]
    curves, seconds = (
        np.array(table.column(column).to_pylist(), dtype=np.float64)
        for column in ("values", "seconds")
    )
    rate = np.nanmean(seconds, axis=1)
    return CurveTable(name, Space.from_rows(rows, space.parameters), curves, rate)
