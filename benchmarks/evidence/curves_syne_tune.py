"""Syne Tune's multi-fidelity schedulers on recorded learning curves.

    python3 benchmarks/evidence/install_peers.py --synetune      once: makes .venv-synetune
    .venv-synetune/bin/python -m benchmarks curves --seeds 3 --budgets 5,15 \\
        --methods "Syne Tune MOBSTER;Syne Tune HyperTune;Syne Tune DyHPO;Syne Tune BOHB"

The library needs numpy < 1.27, hence its own environment; the results go to the same file. A
scheduler is driven as the library's `Tuner` drives it, one training at a time. Trainings pause and
resume (`type="promotion"`; DyHPO always does). A training that diverges is reported as failed.

space   the unit cube, where a logarithmic parameter is already scaled. The library does the same
        by itself except in BOHB, whose density ignores the scale of a parameter and whose integers
        leave their bounds.
rows    the Gaussian process methods know the rows of the table (`restrict_configurations`). BOHB
        does not support it: its points become the nearest free row.
rungs   the library's defaults: 1, 3, 9, ... for MOBSTER, HyperTune and BOHB, 1, 3, 5, ... for DyHPO
BOHB    the least number of points of a density is d + 1, as in its paper. With the library's d,
        which its own check rejects, it would be random search for more than fifty trainings.
"""

from __future__ import annotations

import contextlib
import io
import logging
import time
import warnings
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.evidence.curves_simulator import Account
    from benchmarks.problems.curve_tables import CurveTable

REQUIREMENTS = (
    "numpy==1.26.4",
    "scipy==1.15.3",
    "pandas==2.3.3",
    "pyarrow==20.0.0",
    "autograd==1.9.1",
    "statsmodels==0.15.0",
    "syne-tune==0.13.0",
)
METRIC, RESOURCE, LAST = "value", "step", "last_step"
SCHEDULERS = {
    "Syne Tune MOBSTER": "MOBSTER",
    "Syne Tune HyperTune": "HyperTune",
    "Syne Tune DyHPO": "DyHPO",
    "Syne Tune BOHB": "BOHB",
}


def scheduler_of(name: str, table: CurveTable, seed: int) -> Any:
    """A scheduler of the library for the configurations of a table."""
    warnings.simplefilter("ignore")  # of the library's dependencies
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()):  # advice on packages that are not needed
        from syne_tune import config_space
        from syne_tune.optimizer import baselines

    rows = table.space.rows
    assert rows is not None
    names = [f"x{j}" for j in range(rows.shape[1])]
    space = {LAST: table.last, **{name: config_space.uniform(0.0, 1.0) for name in names}}
    search: dict[str, Any] = {"debug_log": False}
    more: dict[str, Any] = {}
    if name != "Syne Tune DyHPO":
        more["type"] = "promotion"
    if name == "Syne Tune BOHB":
        search["num_min_data_points"] = len(names) + 1
    else:
        configurations = [dict(zip(names, map(float, x), strict=True)) for x in rows]
        search["restrict_configurations"] = configurations
    return getattr(baselines, SCHEDULERS[name])(
        space,
        metric=METRIC,
        resource_attr=RESOURCE,
        max_resource_attr=LAST,
        mode="min",
        grace_period=1,
        random_seed=seed % 2**31,
        search_options=search,
        **more,
    )


def drive(scheduler: Any, account: Account) -> tuple[int, int, float]:
    """Spend the budget of an account; returns (trials, parts, CPU seconds of the scheduler).

    The scheduler has the interface of `syne_tune.optimizer.scheduler.TrialScheduler`.
    """
    table, seconds, parts = account.table, 0.0, 0
    rows = table.space.rows
    assert rows is not None
    free = np.ones(len(rows), dtype=np.bool_)
    trials: list[Any] = []
    row_of: list[int] = []
    steps: list[int] = []
    while account.left > 1e-9 * account.budget and free.any():
        started = time.process_time()
        found = scheduler.suggest(trial_id=len(trials))
        if found is None:  # no configuration is left
            break
        if found.spawn_new_trial_id:
            x = [found.config[f"x{j}"] for j in range(rows.shape[1])]
            gap = ((rows - x) ** 2).sum(axis=1)
            row = int(np.argmin(np.where(free, gap, np.inf)))
            free[row] = False
            trials.append(_trial(len(trials), found.config))
            row_of.append(row)
            steps.append(0)
            number = len(trials) - 1
            scheduler.on_trial_add(trials[number])
        else:
            number = int(found.checkpoint_trial_id)
            if found.config is not None:
                trials[number].config = found.config
        seconds += time.process_time() - started
        parts += 1
        decision = "CONTINUE"
        while decision == "CONTINUE":
            steps[number] += 1
            value = account.pay(row_of[number], steps[number])
            if value is None:
                return len(trials), parts, seconds
            started = time.process_time()
            if np.isnan(value):
                scheduler.on_trial_error(trials[number])
                decision = "FAILED"
            else:
                result = {METRIC: value, RESOURCE: steps[number]}
                decision = scheduler.on_trial_result(trials[number], result)
                if decision != "CONTINUE":
                    scheduler.on_trial_remove(trials[number])
                elif steps[number] == table.last:
                    scheduler.on_trial_complete(trials[number], result)
                    decision = "DONE"
            seconds += time.process_time() - started
    return len(trials), parts, seconds


def _trial(number: int, config: dict[str, Any]) -> Any:
    from syne_tune.backend.trial_status import Trial

    return Trial(trial_id=number, config=config, creation_time=datetime.fromtimestamp(0))
