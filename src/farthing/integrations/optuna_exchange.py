"""From an Optuna study to one of Farthing's, and back to where optuna-dashboard looks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from farthing.errors import InvalidInput
from farthing.history import Trial
from farthing.integrations.optuna_space import distributions_of
from farthing.integrations.optuna_state import RECORD, cost_of, outcome_of
from farthing.optimizer import Optimizer

__all__ = ["Mirror", "import_study"]

STATES = {"done": TrialState.COMPLETE, "killed": TrialState.PRUNED}


def import_study(
    into: Optimizer, study: optuna.Study, *, values: bool = True, costs: bool = True
) -> int:
    """Learn from an Optuna study; how many of its trials were taken in.

    Pruned trials teach that they cost at least what they did, failed ones that such parameters
    fail. What a trial cost is what it says under "cost", or else its seconds, where seconds count.

    Args:
        into: an Optimizer or a Study; `space_of(study)` is a space for it.
        values: learn the objective from it.
        costs: learn the costs from it.

    Raises:
        InvalidInput: it has several objectives or another direction, or a trial is not of the
            space.
    """
    settings = into._settings
    if len(study.directions) > 1:
        raise InvalidInput(
            f"The Optuna study {study.study_name!r} has {len(study.directions)} objectives: "
            "expected one."
        )
    direction = study.direction.name.lower()
    if direction not in (settings.direction, "not_set"):
        raise InvalidInput(
            f"The Optuna study {study.study_name!r} is to {direction}, this one to "
            f'{settings.direction}. Make it with direction="{direction}".'
        )
    rows = []
    for trial in study.get_trials(deepcopy=False):
        if not trial.state.is_finished():
            continue
        state, value = outcome_of(trial)
        if state == "lost" and trial.params:
            state = "failed"  # elsewhere nobody measured: an exception is more likely than a crash
        names = settings.space.names  # a parameter that never varied is none here
        params = {name: each for name, each in trial.params.items() if name in names}
        rows.append(
            {"params": params, "state": state, "value": value, "cost": cost_of(trial, settings)}
        )
    taught = [row for row in rows if row["params"]]
    return into.import_trials(taught, values=values, costs=costs).taken


class Mirror:
    """Copy what ends in a Farthing study to an Optuna storage, where optuna-dashboard shows it.

        study.run(objective, on_change=Mirror("sqlite:///dashboard.db"))

    Values, parameters, progress, costs, predictions and reasons come along. One that was killed is
    shown as pruned, one that was lost as failed. What is there already is not copied again.

    Args:
        storage: the address of an Optuna storage, or a storage.
        name: of the Optuna study; by default the one it has here.
    """

    def __init__(self, storage: Any, name: str | None = None) -> None:
        self._storage, self._name = storage, name
        self._study: optuna.Study | None = None
        self._copied: set[int] = set()

    def __call__(self, study: Optimizer) -> None:
        """Copy what has ended since the last time."""
        over = [trial for trial in study.seen.history if trial.state != "running"]
        if self._study is None:
            name = self._name or getattr(study, "name", "farthing")
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                direction=study._settings.direction,
                load_if_exists=True,
            )
            there = self._study.get_trials(deepcopy=False)
            self._copied = {t.system_attrs[RECORD]["number"] for t in there}
        distributions = distributions_of(study.space)
        for trial in over:
            if trial.number not in self._copied:
                self._study.add_trial(_frozen(trial, distributions))
                self._copied.add(trial.number)


def _frozen(trial: Trial, distributions: Mapping[str, BaseDistribution]) -> FrozenTrial:
    told: dict[str, Any] = {f"cost_{resource}": amount for resource, amount in trial.cost.items()}
    told |= {f"predicted_{resource}": amount for resource, amount in trial.predicted.items()}
    told |= {"because": trial.because, "state": trial.state}
    told |= {} if trial.error is None else {"error": trial.error[:1000]}
    params = {}
    for name, value in trial.params.items():
        choices = getattr(distributions[name], "choices", None)
        params[name] = value if choices is None or value in choices else str(value)
    frozen = optuna.trial.create_trial(
        state=STATES.get(trial.state, TrialState.FAIL),
        value=trial.value,
        params=params,
        distributions={name: distributions[name] for name in params},
        user_attrs=told,
        system_attrs={RECORD: {"number": trial.number}},
        intermediate_values={
            int(line["step"]): float(line["value"])
            for line in trial.run.reports
            if isinstance(line.get("value"), int | float) and isinstance(line["step"], int | float)
        },
    )
    if trial.run.told_at is not None and trial.run.asked_at > 0:
        frozen.datetime_start = datetime.fromtimestamp(trial.run.asked_at)
        frozen.datetime_complete = datetime.fromtimestamp(trial.run.told_at)
    return frozen
