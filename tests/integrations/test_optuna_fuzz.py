"""Random Optuna studies: odd ranges, odd values, odd costs, conditions, pruners and budgets.

A study may end with an error of Farthing, which says what to do. Anything else is wrong.
FARTHING_FUZZ_STUDIES=2000 runs that many studies.
"""

import math
import os
import random
import traceback
import warnings

import numpy as np
import optuna
import pytest

from farthing import FarthingError
from farthing.integrations.optuna import CostAwarePruner, CostAwareSampler

optuna.logging.set_verbosity(optuna.logging.CRITICAL)
STUDIES = int(os.environ.get("FARTHING_FUZZ_STUDIES", "24"))
BATCH = 8

FLOATS = [
    *[(0, 1), (-1, 1), (0, 1e-12), (1e9, 1e9 + 1e-3), (5, 5), (0, 1e300), (-1e308, 1e308)],
    *[(1e-300, 1e-299), (0, 5e-324), (-1.7e308, 1.7e308), (1, math.nextafter(1, 2))],
]
LOGS = [(1e-5, 1.0), (1e-300, 1e300), (1.0, 1.0 + 1e-9), (5e-324, 1.0)]
STEPS = [(0, 1, 0.1), (0, 1, 0.3), (-10.2, 10.2, 0.1), (0, 1e6, 1e-3), (0, 1e-3, 1.0)]
INTS = [(0, 3), (-5, 5), (0, 2**53), (0, 2**63), (-(10**30), 10**30), (7, 7), (0, 10**308)]
LOG_INTS = [(1, 64), (1, 2**53), (1, 10**18), (3, 3)]
CHOICES = [
    *[("a", "b"), (1, True, "1", None), (math.nan, 0.5), (0,), tuple(range(50)), (1e308, -1e308)],
    *[(0, False), ("", " "), (math.inf, -math.inf)],
]
VALUES = [0.0, 1e-300, 1e308, -1e308, math.inf, -math.inf, math.nan, None, "text", [1.0]]
COSTS = [
    *[0, 0.0, 1e-300, 1e308, -1.0, math.nan, math.inf, "much", None, 10**400, True, [1], {}],
    *[np.float32(1.5), np.int64(2), {"usd": 1.0}, {"usd": "x"}, {"kWh": 1}, {1: 1}, {"s": 2.0}],
]
BUDGETS = [None, "1h", "$5", "$1e-6", "4 trials", "$9, 6 trials", "20 kWh", 7, "2s"]


def suggested(trial, rng, name):
    """Suggest one parameter, and return a number that depends on it."""
    kind = rng.randrange(6)
    if kind == 0:
        value = trial.suggest_float(name, *rng.choice(FLOATS))
    elif kind == 1:
        value = trial.suggest_float(name, *rng.choice(LOGS), log=True)
    elif kind == 2:
        low, high, step = rng.choice(STEPS)
        value = trial.suggest_float(name, low, high, step=step)
    elif kind == 3:
        low, high = rng.choice(INTS)
        value = trial.suggest_int(name, low, high, step=rng.choice([1, 1, 3]))
    elif kind == 4:
        value = trial.suggest_int(name, *rng.choice(LOG_INTS), log=True)
    else:
        value = trial.suggest_categorical(name, rng.choice(CHOICES))
    number = value if isinstance(value, int | float) and value == value else len(str(value))
    return math.atan(float(min(max(number, -1e300), 1e300)))


def objective_of(seed):
    shape = random.Random(seed)
    count, odd = shape.randrange(0, 4), shape.choice([0.0, 0.2, 0.5])
    conditional, dynamic = shape.random() < 0.4, shape.random() < 0.1
    priced = shape.random() < 0.7

    def objective(trial):
        rng = random.Random(f"{seed} {trial.number}")
        total = 0.0
        for i in range(count):
            fixed = random.Random(f"{seed} {i} {trial.number if dynamic else ''}")
            if conditional and i and total > 0 and i == count - 1:
                continue
            total += suggested(trial, fixed, f"p{i}")
        if priced or rng.random() < odd:
            trial.set_user_attr("cost", rng.choice(COSTS) if rng.random() < odd else 1.0)
        for step in range(rng.randrange(4)):
            trial.report(rng.choice([total, math.nan, math.inf]), step)
            if trial.should_prune() or rng.random() < 0.1:
                raise optuna.TrialPruned
        if rng.random() < 0.2 * odd:
            raise RuntimeError("the objective failed")
        return rng.choice(VALUES) if rng.random() < odd else total

    return objective


def play(seed):
    rng = random.Random(seed)
    settings = {"budget": rng.choice(BUDGETS), "seed": seed}
    if str(settings["budget"]).startswith("$") and rng.random() < 0.3:
        settings["rate"] = "$3600/h"
    if rng.random() < 0.2:
        settings["steps"] = 4
    if rng.random() < 0.2:
        settings["constraints_func"] = lambda trial: (rng.choice([-1.0, 0.0, 1.0]),)
    pruner = rng.choice(
        [
            optuna.pruners.NopPruner(),
            optuna.pruners.MedianPruner(n_startup_trials=1),
            optuna.pruners.HyperbandPruner(max_resource=4),
            CostAwarePruner(4),
        ]
    )
    study = optuna.create_study(
        sampler=CostAwareSampler(**settings),
        pruner=pruner,
        direction=rng.choice(["minimize", "maximize"]),
    )
    objective = objective_of(seed)
    for _ in range(3):
        if rng.random() < 0.3:
            study.enqueue_trial({"p0": rng.choice([0.5, 1, "a"])})
        try:
            study.optimize(objective, n_trials=4, catch=(RuntimeError,))
        except FarthingError:
            pass
        except (ValueError, TypeError, OverflowError) as error:
            last = traceback.extract_tb(error.__traceback__)[-1].filename
            ours = any(
                "farthing/integrations" in f.filename
                for f in traceback.extract_tb(error.__traceback__)
            )
            if ours or "tests/" in last:
                raise
    assert study.sampler.ledger(study) is not None
    study.sampler.verdict(study)


@pytest.mark.parametrize("batch", range(STUDIES // BATCH))
def test_random_studies(batch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(batch * BATCH, (batch + 1) * BATCH):
            try:
                play(seed)
            except Exception as error:
                raise AssertionError(f"play({seed}) is wrong: {error!r}") from error
