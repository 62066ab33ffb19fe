"""A sweep of Hydra: its overrides as a space, and its jobs as trials.

    python train.py --multirun hydra/sweeper=farthing hydra.sweeper.budget=2h \
        'lr=tag(log, interval(1e-5, 0.1))' 'layers=range(1, 9)' 'optimizer=adam,sgd'

The app returns its value, or an `Outcome` with its cost. The launcher of Hydra runs the jobs, so a
job that has started is never killed. The plugin itself is hydra_plugins/farthing_sweeper.py.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from farthing.budget.rates import rate_of
from farthing.core.events import Told
from farthing.errors import InvalidInput, MissingExtra, Stopped
from farthing.history import NOT_ENDED, Outcome, StopReason, Trial
from farthing.optimizer import Optimizer
from farthing.running import Pricing, Usage
from farthing.running.answer import METRIC, answer
from farthing.running.output import Messages
from farthing.running.result import ended
from farthing.space import Categorical, Float, Int, Ordinal
from farthing.space.parameters import Parameter
from farthing.study import Study
from farthing.view.formatting import spent, trial_line
from farthing.view.result import Result

try:
    from hydra.core.override_parser.types import Override
    from omegaconf import OmegaConf
except ImportError as error:
    raise MissingExtra("hydra", "Hydra (hydra-core)") from error

__all__ = ["Timed", "parameter_of", "run_sweep"]

RESULTS = "optimization_results.yaml"  # the name that the sweepers of Hydra have in common
SECONDS = "farthing_seconds"  # attribute of the error of a job: how long it ran

Launch = Callable[[list[list[str]], int], Sequence[Any]]


class Timed:
    """The function of an app, which returns what it returned and the seconds that it took."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self.task = task

    def __call__(self, config: Any) -> tuple[Any, float]:
        """Run the app."""
        start = time.monotonic()
        try:
            return self.task(config), time.monotonic() - start
        except Exception as error:
            setattr(error, SECONDS, time.monotonic() - start)
            raise


def parameter_of(override: Override) -> Parameter:
    """The parameter that an override sweeps over.

    interval(a, b)        Float; with the tag `int`, or as int(interval(a, b)), an Int
    range(a, b, step)     Int or Float in steps, without b
    choice(...), or a, b  Ordinal if all are numbers, else Categorical
    tag(log, ...)         on a log scale
    """
    key, sweep = override.get_key_element(), override.value()
    log = "log" in sweep.tags if hasattr(sweep, "tags") else False
    if override.is_interval_sweep():
        low, high = sweep.start, sweep.end
        if "int" in sweep.tags or (isinstance(low, int) and isinstance(high, int)):
            return Int(round(low), round(high), log=log)
        return Float(float(low), float(high), log=log)
    values, texts = list(override.sweep_iterator()), list(override.sweep_string_iterator())
    if len(set(texts)) < 2:
        raise InvalidInput(f"{key}: a sweep needs at least two values, not {', '.join(texts)}.")
    if any(isinstance(each, bool) or not isinstance(each, int | float) for each in values):
        if log:
            raise InvalidInput(f"{key}: {', '.join(texts)} have no log scale. Leave out tag(log).")
        return Categorical(texts)
    numbers = sorted(set(values))
    whole = override.is_range_sweep() and all(isinstance(each, int) for each in numbers)
    if whole and len(numbers) == numbers[-1] - numbers[0] + 1:
        return Int(numbers[0], numbers[-1], log=log)
    return Ordinal(numbers, log=log)


def run_sweep(
    overrides: Sequence[Override],
    launch: Launch,
    folder: str,
    log: logging.Logger,
    *,
    budget: Any,
    direction: str,
    jobs: int,
    storage: str | None,
    name: str,
    settings: Mapping[str, Any] | None,
) -> float:
    """Launch jobs until the study stops, write the results to a file, and return the best value.

    Args:
        launch: called with the overrides of jobs and the number of the first of them.
    """
    space = {each.get_key_element(): parameter_of(each) for each in overrides if _sweeps(each)}
    if not space:
        raise InvalidInput(
            "There is nothing to tune. Give a parameter, such as 'lr=interval(0.01, 1)'."
        )
    fixed = [
        f"{each.get_key_element()}={each.get_value_element_as_str()}"
        for each in overrides
        if not _sweeps(each)
    ]
    chosen = {**(settings or {}), "direction": direction}
    optimizer = (
        Optimizer(space, budget, **chosen)
        if storage is None
        else Study.create(storage, name=name, space=space, budget=budget, **chosen)
    )
    with optimizer.on_the_clock():
        batch, reason = _ask(optimizer, jobs)
        while batch:
            assigned = [[f"{key}={_text(value)}" for key, value in t.params.items()] for t in batch]
            done = launch([[*fixed, *each] for each in assigned], batch[0].number)
            for trial, job in zip(batch, done, strict=True):
                _tell(optimizer, trial, job)
                log.info("%s", trial_line(optimizer.history[trial.number]))
            batch, reason = _ask(optimizer, jobs)
    result = Result.of(optimizer.facts[0], optimizer.best, reason or NOT_ENDED, optimizer.facts[1])
    _write(Path(folder) / RESULTS, result)
    log.info("%s", result)
    return result.best_value


def _sweeps(override: Override) -> bool:
    return bool(override.is_sweep_override())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _ask(optimizer: Optimizer, count: int) -> tuple[list[Trial], StopReason | None]:
    """Up to `count` trials; fewer if the study stops, and why."""
    batch = list[Trial]()
    try:
        while len(batch) < count:
            batch.append(optimizer.ask())
    except Stopped as stopped:
        return batch, stopped.reason
    return batch, None


def _tell(optimizer: Optimizer, trial: Trial, job: Any) -> None:
    """Tell what a job returned, as an engine does: a missing cost ends the sweep with a reason."""
    took = [float(getattr(job._return_value, SECONDS, 0.0))]

    def objective(params: Mapping[str, Any]) -> float | Outcome:
        returned, took[0] = job.return_value
        return Outcome(**returned) if isinstance(returned, Mapping) else returned

    messages, settings = Messages(METRIC), optimizer.facts[0]
    messages.feed(f"{json.dumps(answer(objective, trial.params))}\n".encode())
    usage = Usage(took[0], 0.0, 0.0)
    finished = ended(messages, usage)
    rate = {} if settings.rate is None else rate_of(settings.rate)
    cost = Pricing(rate).cost(usage, finished.cost, settings.resources)
    optimizer.commit(
        Told(
            *(trial, finished.state, finished.value, cost, finished.error),
            by_user=False,
            run={"run_s": took[0], "metrics": dict(finished.metrics)},
        )
    )


def _write(file: Path, result: Result) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "name": "farthing",
        "best_evaluated_params": dict(result.best.params),
        "best_evaluated_result": result.best.value,
        "best_trial": result.best.number,
        "trials": len(result.history),
        "spent": spent(result.ledger),
        "stopped": result.stop_reason.sentence,
    }
    OmegaConf.save(OmegaConf.create(found), file)
