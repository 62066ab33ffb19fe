"""Import an Optuna study, and copy a study to an Optuna storage."""

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
    """Learn from an Optuna study; return the number of imported trials.

    The cost of a pruned trial is a lower bound. A failed trial teaches that its parameters fail.
    The cost of a trial is its user attribute "cost", or else its seconds if the budget counts
    seconds.

    Args:
        into: an Optimizer or a Study; `space_of(study)` gives a suitable space.
        values: whether to learn the objective.
        costs: whether to learn the costs.

    Raises:
        InvalidInput: the study has several objectives or another direction, or no trial fits the
            space.
    """
    settings = into._settings
    if len(study.directions) > 1:
        raise InvalidInput(
            f"The Optuna study {study.study_name!r} has {len(study.directions)} objectives. "
            "Expected one objective."
        )
    direction = study.direction.name.lower()
    if direction not in (settings.direction, "not_set"):
        raise InvalidInput(
            f"The Optuna study {study.study_name!r} has the direction {direction}, but this study "
            f'has {settings.direction}. Create this study with direction="{direction}".'
        )
    rows = []
    for trial in study.get_trials(deepcopy=False):
        if not trial.state.is_finished():
            continue
        state, value = outcome_of(trial)
        if state == "lost" and trial.params:
            state = "failed"  # without a measured time, an exception is more likely than a crash
        names = settings.space.names  # a parameter that never varied is not in the space
        params = {name: each for name, each in trial.params.items() if name in names}
        rows.append(
            {"params": params, "state": state, "value": value, "cost": cost_of(trial, settings)}
        )
    usable = [row for row in rows if row["params"]]
    return into.import_trials(usable, values=values, costs=costs).taken


class Mirror:
    """Copy finished trials to an Optuna storage, for optuna-dashboard.

        study.run(objective, on_change=Mirror("sqlite:///dashboard.db"))

    It copies values, parameters, progress, costs, predictions and reasons. A killed trial appears
    as pruned, a lost trial as failed. Trials that were copied before are skipped. An Optuna study
    with other trials is refused.

    Args:
        storage: an Optuna storage, or its address.
        name: the name of the Optuna study; by default that of the study.
    """

    def __init__(self, storage: Any, name: str | None = None) -> None:
        self._storage, self._name = storage, name
        self._study: optuna.Study | None = None
        self._copied: set[int] = set()

    def __call__(self, study: Optimizer) -> None:
        """Copy the trials that have ended since the last call."""
        ended = [trial for trial in study.seen.history if trial.state not in ("running", "paused")]
        distributions = distributions_of(study.space)
        if self._study is None:
            self._study = self._opened(study, distributions)
        for trial in ended:
            if trial.number not in self._copied:
                self._study.add_trial(_frozen(trial, distributions))
                self._copied.add(trial.number)

    def _opened(
        self, study: Optimizer, distributions: Mapping[str, BaseDistribution]
    ) -> optuna.Study:
        """The Optuna study, which is new or has copies of this study."""
        name, direction = (
            self._name or getattr(study, "name", "farthing"),
            study._settings.direction,
        )
        found = optuna.create_study(
            storage=self._storage, study_name=name, direction=direction, load_if_exists=True
        )
        existing = found.get_trials(deepcopy=False)
        for each in existing:
            number = each.system_attrs.get(RECORD, {}).get("number")
            ours = number is not None and number < len(study.seen.history)
            if not ours or each.params != _frozen(study.seen.history[number], distributions).params:
                problem = f"has {len(existing)} trials, which are not copies of this study"
                break
            self._copied.add(number)
        else:
            if [each.name.lower() for each in found.directions] == [direction]:
                return found
            problem = f"does not {direction}"
        raise InvalidInput(
            f"The Optuna study {name!r} of this storage {problem}. Give another name: "
            "Mirror(..., name=...)."
        )


def _frozen(trial: Trial, distributions: Mapping[str, BaseDistribution]) -> FrozenTrial:
    attributes: dict[str, Any] = {
        f"cost_{resource}": amount for resource, amount in trial.cost.items()
    }
    attributes |= {f"predicted_{resource}": amount for resource, amount in trial.predicted.items()}
    attributes |= {"because": trial.because, "state": trial.state}
    attributes |= {} if trial.error is None else {"error": trial.error[:1000]}
    params = {}
    for name, value in trial.params.items():
        choices = getattr(distributions[name], "choices", None)
        params[name] = value if choices is None or value in choices else str(value)
    frozen = optuna.trial.create_trial(
        state=STATES.get(trial.state, TrialState.FAIL),
        value=trial.value,
        params=params,
        distributions={name: distributions[name] for name in params},
        user_attrs=attributes,
        system_attrs={RECORD: {"number": trial.number}},
        intermediate_values={
            int(line["step"]): float(line["value"])
            for line in trial.run.reports
            if isinstance(line.get("value"), int | float) and isinstance(line["step"], int | float)
        }
        | {point.step: point.value for point in trial.curve},
    )
    if trial.run.told_at is not None and trial.run.asked_at > 0:
        frozen.datetime_start = datetime.fromtimestamp(trial.run.asked_at)
        frozen.datetime_complete = datetime.fromtimestamp(trial.run.told_at)
    return frozen
