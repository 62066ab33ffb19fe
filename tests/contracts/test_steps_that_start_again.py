"""Steps of which nothing is kept: the rungs are the cumulative sums of the work (docs/steps.md)."""

import math

import numpy as np
import pytest

from farthing import Float, Optimizer, Steps

SIZES = (1, 2, 4, 8)
SIZE_AT = dict(zip(np.cumsum(SIZES).tolist(), SIZES, strict=True))


def test_a_part_is_predicted_to_cost_the_size_it_trains_with():
    steps = Steps(15, rungs=(1, 3, 7), value="last")
    optimizer = Optimizer({"a": Float(0.0, 1.0)}, budget=400.0, steps=steps, seed=0)
    resumed, paid = 0, {}
    for _ in range(40):
        trial = optimizer.ask()
        rate = math.exp(trial.params["a"])  # what a unit of work costs
        cost = rate * SIZE_AT[trial.until]
        if trial.step:
            resumed += 1
            assert trial.predicted_cost - paid[trial.number] == pytest.approx(cost, rel=0.02)
        paid[trial.number] = paid.get(trial.number, 0.0) + cost
        value = (trial.params["a"] - 0.3) ** 2 + 1.0 / SIZE_AT[trial.until]
        optimizer.tell(trial, value, cost=cost)
    assert resumed >= 3
