"""Place three wind sensors when moving them is the cost.

A cost function with two arguments also receives the parameters of the previous evaluation. With
FARTHING_DATA, the example reads the winds of 1969 in the United Kingdom from that folder
(weather/midas_wind_1969_*.parquet). Without it, winds are simulated, correlated over about 250 km.
"""

import math
import os
from pathlib import Path

import numpy as np

from farthing import Float, minimize
from farthing.policies import Rollout

FOLDER = Path(os.environ.get("FARTHING_DATA", "data")) / "weather"
if (FOLDER / "midas_wind_1969_daily.parquet").exists():
    import pandas as pd

    WIND = pd.read_parquet(FOLDER / "midas_wind_1969_daily.parquet")
    WIND = WIND.pivot_table(index="date", columns="id", values="wind_speed_kn")
    PLACES = pd.read_parquet(FOLDER / "midas_wind_1969_stations.parquet").set_index("id")
    PLACES = PLACES.loc[WIND.columns, ["lon", "lat"]].to_numpy() * [64.6, 111.2]  # km
    ODD = (WIND - WIND.mean()).fillna(0.0).to_numpy()
else:
    rng = np.random.default_rng(1969)
    PLACES = rng.uniform((0, 0), (600, 1000), (60, 2))  # km
    apart = np.linalg.norm(PLACES[:, None] - PLACES, axis=2)
    ODD = rng.multivariate_normal(np.zeros(60), 25 * np.exp(-apart / 250), 365)  # knots, daily
(WEST, SOUTH), (EAST, NORTH) = PLACES.min(axis=0), PLACES.max(axis=0)
SPACE = {f"x{i}": Float(WEST, EAST) for i in range(3)}
SPACE |= {f"y{i}": Float(SOUTH, NORTH) for i in range(3)}


def error(params: dict) -> float:
    """RMSE in knots at all stations, predicted from the stations nearest to the three sensors."""
    here = np.array([[params[f"x{i}"], params[f"y{i}"]] for i in range(3)])
    read = np.linalg.norm(here[:, None] - PLACES, axis=2).argmin(axis=1)
    alike = np.exp(-np.linalg.norm(PLACES[read][:, None] - PLACES, axis=2) / 250.0)
    weights = np.linalg.solve(alike[:, read] + 0.05 * np.eye(3), alike)
    return float(np.sqrt(np.mean((ODD - ODD[:, read] @ weights) ** 2)))


def way(params: dict, before: dict | None) -> float:
    """Kilometres that the sensors are moved, plus 20 to set them up."""
    return 20.0 + (0.0 if before is None else math.dist(params.values(), before.values()))


print(minimize(error, SPACE, {"km": 3_000}, cost=way, policy=Rollout(2)))
