"""One decision about trainings: CPU time of verdict, ask and tell of the default with steps.

    python -m benchmarks.speed.trainings            60 and 300 trials
    python -m benchmarks.speed.trainings 60,300,600

Trainings have 32 steps and 6 rungs, in a space of 8 floats. The policy itself runs the study until
it has n trials; then come ROUNDS decisions, in which some refit. Prints a JSON line per n: the mean
and the median, the number of trials, and the number of values at rungs.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.problems.synthetic import bumps
from farthing import Float, Optimizer, Space, Steps, Trial

D = 8
STEPS = Steps(32)
LEVEL = bumps(D)
ROUNDS = 30
PLENTY = 1e9  # a budget that does not limit the run


def value_at(x: np.ndarray, step: int) -> float:
    """A curve that falls as 1/sqrt(step); a larger x0 falls more slowly."""
    return float(LEVEL.f(x[None])[0]) + (1.0 + x[0]) / step**0.5


def decide(optimizer: Optimizer) -> Trial:
    """Ask, train and tell one part of a training."""
    trial = optimizer.ask()
    assert trial.until is not None
    rate = 10.0 ** trial.x[1]
    cost = rate * (trial.until - trial.step)
    optimizer.tell(trial, value_at(trial.x, trial.until), cost=cost, step=trial.until)
    return trial


def measure(sizes: Sequence[int]) -> list[dict[str, float]]:
    """CPU milliseconds of a decision once the study has so many trials."""
    space = Space({f"x{j}": Float(0.0, 1.0) for j in range(D)})
    optimizer = Optimizer(space, budget=PLENTY, steps=STEPS, seed=0)
    found = []
    for n in sorted(sizes):
        while len(optimizer.history) < n:
            decide(optimizer)
        times = []
        for _ in range(ROUNDS):
            start = time.process_time()
            decide(optimizer)
            times.append(1e3 * (time.process_time() - start))
        reached = [bisected(t.step) for t in optimizer.history]
        found.append(
            {
                "n": n,
                "mean_ms": round(statistics.mean(times), 2),
                "median_ms": round(statistics.median(times), 2),
                "trials": len(optimizer.history),
                "values": sum(reached),
            }
        )
    return found


def bisected(step: int) -> int:
    """The number of rungs up to a step."""
    return sum(rung <= step for rung in STEPS.decision_steps)


if __name__ == "__main__":
    chosen = tuple(map(int, sys.argv[1].split(","))) if len(sys.argv) > 1 else (60, 300)
    for line in measure(chosen):
        print(json.dumps(line))
