"""The time to fit each cost model, relative to the model of the objective.

    python -m benchmarks.speed.cost_models

Every model is fitted from scratch to the same n costs, alternating with the Gaussian process of the
objective, whose hyperparameters are learnt. The median over rounds of the ratio of CPU seconds goes
to benchmarks/results/cost_speed.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.suggestions import commit, cpu_model
from farthing import Categorical, Float, Int, Space
from farthing.core.suggest import one_thread
from farthing.cost import AutoCost, CostLearner, Flops, Linear, LogGP, ResidualGP, SelectedGP
from farthing.cost.model import Evidence
from farthing.models.gp import fit

RESULTS = Path(__file__).resolve().parents[1] / "results" / "cost_speed.json"
N = 200
ROUNDS = 9
SPACE = Space(
    {
        "width": Int(16, 512, log=True),
        "layers": Int(1, 6),
        "epochs": Int(1, 100, log=True),
        "rate": Float(1e-5, 1e-1, log=True),
        "solver": Categorical(["sgd", "adam", "lbfgs"]),
        "decay": Float(1e-6, 1e-1, log=True),
    }
)


def work(params: dict[str, Any]) -> float:
    """The multiplications of one epoch, times the epochs."""
    return float(params["epochs"] * params["layers"] * params["width"] ** 2)


LEARNERS: dict[str, Callable[[], CostLearner]] = {
    "linear": Linear,
    "flops": lambda: Flops([work]),
    "log-GP": LogGP,
    "GP on residuals": ResidualGP,
    "GP on selected features": SelectedGP,
    "Choose": AutoCost,
}
ALLOWED = {"linear": 0.1, "flops": 0.1, "Choose": 3.0}  # ratio to the objective; 1.2 for the others


def shares(n: int, rounds: int, seed: int = 0) -> dict[str, list[float]]:
    """{model: its CPU seconds over those of the objective's fit, for each round}."""
    rng = np.random.default_rng(seed)
    X = SPACE.sample(n, rng)
    effort = np.array([work(SPACE.decode(x)) for x in X])
    cost = 1e-6 * effort * np.exp(0.2 * rng.standard_normal(n))
    evidence = Evidence(SPACE, X, cost, np.zeros(n, dtype=bool))
    y = np.sin(4 * X[:, 3]) + (X[:, 0] - 0.4) ** 2 + 0.05 * rng.standard_normal(n)
    found: dict[str, list[float]] = {name: [] for name in LEARNERS}
    for _ in range(rounds):
        objective = seconds(lambda: fit(X, y, options=SPACE.options))
        for name, learner in LEARNERS.items():
            found[name].append(seconds(lambda make=learner: make().fit(evidence)) / objective)
    return found


def seconds(action: Callable[[], object]) -> float:
    """The CPU seconds of a call."""
    begun = time.process_time()
    action()
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    with one_thread():
        found = shares(N, options.rounds)
    rows = {
        name: {"median": float(np.median(all_of)), "allowed": ALLOWED.get(name, 1.2)}
        for name, all_of in found.items()
    }
    for name, row in rows.items():
        print(f"{name:24s} {row['median']:.3f} times the objective's (at most {row['allowed']:g})")
    result = {
        "n": N,
        "rounds": options.rounds,
        "commit": commit(),
        "cpu": cpu_model(),
        "shares": rows,
    }
    options.results.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
