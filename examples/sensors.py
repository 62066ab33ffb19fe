"""Where to put three wind sensors in the United Kingdom, when moving them is what costs.

A cost that is given as a function of two arguments gets the parameters evaluated before, too.
The winds: midas_wind_1969_*.parquet in the folder `weather` of FARTHING_DATA.
"""

import math
import os
import sys
from pathlib import Path

from farthing import Float, minimize
from farthing.policies import Rollout

FOLDER = Path(os.environ.get("FARTHING_DATA", "data")) / "weather"
if not (FOLDER / "midas_wind_1969_daily.parquet").exists():
    sys.exit(print(f"skipped: there is no weather in {FOLDER}; set FARTHING_DATA"))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

WIND = pd.read_parquet(FOLDER / "midas_wind_1969_daily.parquet")
WIND = WIND.pivot_table(index="date", columns="id", values="wind_speed_kn")
PLACES = pd.read_parquet(FOLDER / "midas_wind_1969_stations.parquet").set_index("id")
PLACES = PLACES.loc[WIND.columns, ["lon", "lat"]].to_numpy() * [64.6, 111.2]  # km
ODD = (WIND - WIND.mean()).fillna(0.0).to_numpy()
(WEST, SOUTH), (EAST, NORTH) = PLACES.min(axis=0), PLACES.max(axis=0)
SPACE = {f"x{i}": Float(WEST, EAST) for i in range(3)}
SPACE |= {f"y{i}": Float(SOUTH, NORTH) for i in range(3)}


def error(params: dict) -> float:
    """RMSE in knots at all stations, predicted from the three nearest to the sensors."""
    here = np.array([[params[f"x{i}"], params[f"y{i}"]] for i in range(3)])
    read = np.linalg.norm(here[:, None] - PLACES, axis=2).argmin(axis=1)
    alike = np.exp(-np.linalg.norm(PLACES[read][:, None] - PLACES, axis=2) / 250.0)
    weights = np.linalg.solve(alike[:, read] + 0.05 * np.eye(3), alike)
    return float(np.sqrt(np.mean((ODD - ODD[:, read] @ weights) ** 2)))


def way(params: dict, before: dict | None) -> float:
    """Kilometres that the sensors are moved, and 20 for setting them up."""
    return 20.0 + (0.0 if before is None else math.dist(params.values(), before.values()))


print(minimize(error, SPACE, {"km": 5_000}, cost=way, policy=Rollout(2)))
