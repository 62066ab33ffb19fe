"""Problems similar to those of "A Nonmyopic Approach to Cost-Constrained Bayesian Optimization".

    lookahead/toy         figure 3: cheap shallow wells on the left, an expensive deep one right
    lookahead/depth-k     section 6.4: a tree with best depth 8 and depths from 1 to 8 k;
                          error ~ |ln(depth / 8)|^2, cost ~ depth
    sensors/wind-1969     section 6.3: places of ten wind sensors in the United Kingdom; the cost
                          is the distance of the move, |X - X'|_F, plus a constant

The paper gives neither the toy nor the data of section 6.4, and uses other weather data. On our
recording of trees on w2a the deepest are best, so depth has no optimum inside its range.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.problem import Evaluation, Problem
from benchmarks.problems.tables import NoData, data_folder
from farthing import Float, Int, Space

Array = NDArray[np.float64]
Params = Mapping[str, Any]

FAMILIES = ("lookahead", "sensors")
DEPTH = 8
TIMES = (1, 2, 10)
SENSORS = 10
REACH = 250.0  # km: lengthscale of the correlation of winds
SET_UP = 20.0  # km: constant cost of a set of sensors
DRAWS = 2_000


def names() -> list[str]:
    """Every problem that needs no data."""
    return ["lookahead/toy", *(f"lookahead/depth-{k}" for k in TIMES)]


@cache
def load(name: str, folder: str | None = None) -> Problem:
    """The problem with this name; `folder` has the weather data."""
    if name == "sensors/wind-1969":
        return sensors(data_folder(folder))
    if name == "lookahead/toy":
        return _priced(name, Space({"x": Float(0, 1)}), _toy)
    if name in names():
        times = int(name.rpartition("-")[2])
        space = {"depth": Int(1, DEPTH * times), "split": Float(0.01, 1, log=True)}
        return _priced(name, Space(space), _tree)
    raise KeyError(f"Unknown problem {name!r}. There are {', '.join(names())}, sensors/wind-1969.")


def _priced(name: str, space: Space, at: Any) -> Problem:
    X = space.sample(DRAWS, np.random.default_rng(0))
    costs = [at(space.decode(x)).cost for x in X]
    return Problem(name, space, at, float(np.median(costs)), float(np.mean(costs)))


def _toy(params: Params) -> Evaluation:
    """0.4 sin(20 x) (1 - x) - 1.5 exp(-((x - 0.85) / 0.07)^2), with cost 1 + 14 x^2."""
    x = params["x"]
    shallow = 0.4 * np.sin(20.0 * x) * (1.0 - x)
    deep = 1.5 * np.exp(-(((x - 0.85) / 0.07) ** 2))
    return Evaluation(float(shallow - deep), float(1.0 + 14.0 * x * x))


def _tree(params: Params) -> Evaluation:
    """0.02 + 0.03 ln(depth / 8)^2 + 0.01 log10(split / 0.1)^2, with cost 0.2 + depth."""
    off = np.log(params["depth"] / DEPTH)
    split = np.log10(params["split"] / 0.1)
    return Evaluation(float(0.02 + 0.03 * off**2 + 0.01 * split**2), 0.2 + params["depth"])


# ── sensors ────────────────────────────────────────────────────────────────────────────────────


def weather(folder: Path) -> tuple[Array, Array]:
    """Places of the stations in km, (74, 2), and their daily winds in knots, (365, 74)."""
    there = folder / "weather" / "midas_wind_1969_daily.parquet"
    if not there.exists():
        raise NoData(f"{there} is missing. Set --data or FARTHING_DATA to a folder that has it.")
    import pandas as pd

    wind = pd.read_parquet(there).pivot_table(index="date", columns="id", values="wind_speed_kn")
    stations = pd.read_parquet(there.with_name("midas_wind_1969_stations.parquet"))
    stations = stations.set_index("id").loc[wind.columns]
    east = 111.2 * np.cos(np.radians(54.5)) * (stations["lon"] - stations["lon"].min())
    north = 111.2 * (stations["lat"] - stations["lat"].min())
    return np.column_stack([east, north]), wind.fillna(wind.mean()).to_numpy(np.float64)


def sensors(folder: Path) -> Problem:
    """Ten places. A sensor reads the nearest station, and the other stations are predicted."""
    places, wind = weather(folder)
    middle = wind.mean(axis=0)
    odd = wind - middle
    high = places.max(axis=0)
    space = Space(
        {f"east{i}": Float(0, float(high[0])) for i in range(SENSORS)}
        | {f"north{i}": Float(0, float(high[1])) for i in range(SENSORS)}
    )

    def network(params: Params) -> Array:
        """The places of the sensors, (10, 2)."""
        return np.array([[params[f"east{i}"], params[f"north{i}"]] for i in range(SENSORS)])

    def alike(A: Array, B: Array) -> Array:
        """exp(-|a - b| / reach)."""
        return np.asarray(np.exp(-np.linalg.norm(A[:, None] - B, axis=2) / REACH))

    def error(params: Params) -> float:
        """Root mean squared error of the kriged winds over all days and stations."""
        gaps = np.linalg.norm(network(params)[:, None] - places, axis=2)
        read = gaps.argmin(axis=1)  # the stations that are read
        kernel = alike(places[read], places[read]) + 0.05 * np.eye(SENSORS)
        weights = np.linalg.solve(kernel, alike(places[read], places))  # (10, 74)
        return float(np.sqrt(np.mean((odd - odd[:, read] @ weights) ** 2)))

    def move(params: Params, before: Params | None) -> float:
        """The distance from the previous places in km, plus the constant cost."""
        way = 0.0 if before is None else np.linalg.norm(network(params) - network(before))
        return float(SET_UP + way)

    walk = [space.decode(x) for x in space.sample(200, np.random.default_rng(0))]
    ways = [move(b, a) for a, b in itertools.pairwise(walk)]
    return Problem(
        "sensors/wind-1969",
        space,
        lambda params: Evaluation(error(params), SET_UP),
        float(np.median(ways)),
        float(np.mean(ways)),
        note="daily winds of 74 MIDAS stations in 1969; the first network stands where it is",
        move=move,
    )
