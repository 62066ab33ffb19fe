"""What a log of experiments keeps of a trial, and how its errors stay harmless."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from farthing.history import Trial

__all__ = ["Logged", "Logging", "logged"]


class Logged(NamedTuple):
    """One trial as the run of a log.

    Attributes:
        name: "trial 3".
        params: its parameters.
        numbers: its value, `cost/RESOURCE`, `predicted_cost/RESOURCE`, measurements and metrics.
        texts: its state, why it was chosen, its error, and metrics that are not numbers.
        curve: the step, the value and the cost of every step that it reported.
    """

    name: str
    params: dict[str, Any]
    numbers: dict[str, float]
    texts: dict[str, str]
    curve: list[tuple[int, dict[str, float]]]


def logged(trial: Trial) -> Logged:
    """What to log of a trial."""
    run, measured = trial.run, dict(trial.run.metrics)
    measured |= measured.pop("constraints", None) or {}
    measured |= {"value": trial.value, "run_s": run.run_s, "cpu_s": run.cpu_s}
    measured |= {"peak_mb": run.peak_mb, "suggest_s": run.suggest_s}
    measured |= {"state": trial.state, "because": trial.because, "error": trial.error}
    measured |= {"origin": trial.origin}
    found = {name: each for name, each in measured.items() if each is not None and each != ""}
    numbers = {name: float(each) for name, each in found.items() if isinstance(each, int | float)}
    texts = {
        name: each if isinstance(each, str) else json.dumps(each)
        for name, each in found.items()
        if name not in numbers
    }
    curve = [(p.step, {"value": p.value, **_costs("cost", p.cost)}) for p in trial.curve]
    numbers |= _costs("cost", trial.cost) | _costs("predicted_cost", trial.predicted)
    return Logged(f"trial {trial.number}", dict(trial.params), numbers, texts, curve)


def _costs(name: str, cost: Any) -> dict[str, float]:
    return {f"{name}/{resource}": amount for resource, amount in cost.items()}


class Logging:
    """Logs the trials of a run: each when it has ended, paused ones at the end of the run.

    An error of the log becomes a warning, once. What could not be logged is tried again at the end
    of the run.

    Args:
        where: the name of the log, for the warning.
        log: logs a trial, called with the optimizer, the trial, and the run that it was logged as
            while it was paused; returns the run.
    """

    def __init__(self, where: str, log: Callable[[Any, Trial, str | None], str]) -> None:
        self._where, self._log, self._warned = where, log, False
        self._missed = set[int]()
        self._paused: dict[tuple[str, int], str] = {}  # the runs of paused trials, by study

    def trial(self, optimizer: Any, trial: Trial) -> None:
        """Log one trial."""
        key = (_name(optimizer), trial.number)
        try:
            run = self._log(optimizer, trial, self._paused.pop(key, None))
        except Exception as error:
            self._missed.add(trial.number)
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"Trial {trial.number} could not be logged to {self._where}: {error} The study "
                    "goes on and keeps all results. What is missing is logged again when the run "
                    "ends. Further errors are not shown.",
                    UserWarning,
                    stacklevel=3,
                )
        else:
            self._missed.discard(trial.number)
            if trial.state == "paused" and key[0]:
                self._paused[key] = run

    def rest(self, optimizer: Any) -> None:
        """Log the paused trials, and those that could not be logged before."""
        missed, self._missed = self._missed, set()
        for trial in optimizer.history:
            if trial.state == "paused" or trial.number in missed:
                self.trial(optimizer, trial)


def _name(optimizer: Any) -> str:
    """The name of a study; an Optimizer in memory has none, and cannot be resumed."""
    return str(getattr(optimizer, "name", ""))
