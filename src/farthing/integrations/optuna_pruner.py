"""A pruner for Optuna that ends a training whose rest is not worth its cost.

    study = optuna.create_study(pruner=CostAwarePruner(steps=51))

At some steps, the rungs, it predicts the final value of the training and what the rest costs, from
all curves of the study. It then decides by the staged Gittins index (`worth_continuing`). Optuna
cannot resume a trial, so a pruned training is lost.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.pruners import BasePruner
from optuna.search_space import intersection_search_space
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from farthing.acquisition.belief import Belief, believe
from farthing.acquisition.worth_continuing import worth_continuing
from farthing.budget.ledger import Ledger
from farthing.budget.units import check_worth
from farthing.cost import LogGP
from farthing.errors import InvalidInput
from farthing.history import CurvePoint, History, Run, Trial
from farthing.history import TrialState as State
from farthing.integrations.optuna_curves import curve_of, reached, without_resume
from farthing.integrations.optuna_space import Translation
from farthing.integrations.optuna_state import RECORD, declined, reported_cost
from farthing.steps import Steps

__all__ = ["CostAwarePruner"]

PRUNER = "farthing:pruner"  # the system attribute with the costs at rungs, and what models remember
COST = "cost"  # the one resource of the pruner


class CostAwarePruner(BasePruner):  # type: ignore[misc,unused-ignore]
    """End a training if the rest of it is not expected to improve on the best by what it costs.

    It works with any sampler. With a `CostAwareSampler`, it also ends a training that the budget
    does not pay for any more.

    The objective reports after each step, and asks: `trial.report(value, step)`, then
    `trial.should_prune()`. The cost of a step is the time that it took. If the objective sets the
    user attribute "cost" before each report, to its cost so far, that counts instead.

    Args:
        steps: the number of steps of a complete training, or `Steps(51, first=3)`, which also says
            at which steps to decide. Steps are counted from 0 or from 1, as the objective does.
        worth: how much improvement of the objective one unit of cost is worth (one second, or one
            unit of the user attribute). By default a training goes on as long as it, or no new
            training either, is worth its cost.
    """

    def __init__(self, steps: Steps | int, worth: float | None = None) -> None:
        self._steps = without_resume(steps)
        check_worth(worth, "CostAwarePruner")
        self._worth = worth

    def __repr__(self) -> str:
        return f"CostAwarePruner(steps={self._steps!r}, worth={self._worth!r})"

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether to end the training now; Optuna calls this after a report.

        Raises:
            InvalidInput: a step is beyond the last one.
        """
        can_pay = getattr(study.sampler, "can_pay", None)
        if can_pay is not None and not can_pay(study, trial):
            return True
        step = reached(trial)
        if step >= self._steps.last or not self._is_rung(trial, step):
            return False
        cost, by_user = _cost_so_far(trial)
        noted = {**_noted(trial)[0], str(step): cost}
        history = self._history(study, trial, cost, by_user, noted)
        if history is None:
            self._note(study, trial, {"costs": noted})
            return False
        space, known, number = history
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        belief = believe(
            *(space, known, Ledger.of(None)),
            learners={COST: LogGP()},
            sign=sign,
            model=False,
            steps=self._steps,
            curves=True,
        )
        found = worth_continuing(belief, number, self._worth)
        self._note(study, trial, {"costs": noted, "memories": _memories(belief)})
        return found is not None and not found.go_on

    def _is_rung(self, trial: FrozenTrial, step: int) -> bool:
        """Whether the last report is the first one at a rung or after it."""
        shift = step - max(trial.intermediate_values, default=0)
        before = max((s + shift for s in trial.intermediate_values if s + shift < step), default=0)
        return any(before < rung <= step for rung in self._steps.decision_steps)

    def _note(self, study: optuna.Study, trial: FrozenTrial, notes: Mapping[str, Any]) -> None:
        study._storage.set_trial_system_attr(trial._trial_id, PRUNER, dict(notes))

    def _history(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        cost: float,
        by_user: bool,
        noted: Mapping[str, float],
    ) -> tuple[Any, History, int] | None:
        """The space, the history, and the number of the training in it; None if it does not fit."""
        trials = [
            trial if each.number == trial.number else each
            for each in study.get_trials(deepcopy=False)
            if each.state != TrialState.WAITING and not declined(each)
        ]
        translation = _translation(trials, trial)
        if translation is None:
            return None
        history, number = History(), None
        for each in trials:
            own = each.number == trial.number
            try:
                params = translation.ours(each.params)
                x = translation.space.encode(params)
            except InvalidInput:  # outside of this space
                continue
            costs, memories = _noted(each)
            paid: float | None = cost
            if own:
                costs = noted
            else:
                paid = _total(each, by_user)
            curve = curve_of(
                each if own else _reported_so_far(each),
                self._steps,
                {} if paid is None else {COST: paid},
                {int(step): amount for step, amount in costs.items()},
            )
            if own:
                number = len(history)
            history = history.adding(
                Trial(
                    number=len(history),
                    params=params,
                    x=x,
                    state=_state(each, own, curve),
                    value=_value(each, curve),
                    cost={} if paid is None else {COST: paid},
                    notes={} if memories is None else {"memories": memories},
                    run=Run(waits=own),
                    curve=curve,
                    until=self._steps.last
                    if each.state == TrialState.RUNNING and not own
                    else None,
                )
            )
        return None if number is None else (translation.space, history, number)


def _translation(trials: Sequence[FrozenTrial], trial: FrozenTrial) -> Translation | None:
    """The parameters that all trials have in common."""
    found = intersection_search_space(list(trials), include_pruned=True) or trial.distributions
    return Translation.of({name: found[name] for name in sorted(found) if name in trial.params})


def _noted(trial: FrozenTrial) -> tuple[Mapping[str, float], Any]:
    """The costs at rungs, and what the models remember."""
    notes = trial.system_attrs.get(PRUNER, {})
    return notes.get("costs", {}), notes.get("memories")


def _memories(belief: Belief) -> Any:
    return belief.notes().get("memories")


def _cost_so_far(trial: FrozenTrial) -> tuple[float, bool]:
    """The cost of a running trial, and whether its objective reported it."""
    reported = reported_cost(trial)
    if reported:
        return next(iter(reported.values())), True
    return _seconds(trial, datetime.now()), False


def _total(trial: FrozenTrial, by_user: bool) -> float | None:
    """The cost of another trial so far, or until its end; None if it is not known."""
    if by_user:
        return next(iter(reported_cost(trial).values()), None)
    if trial.state == TrialState.RUNNING:  # the time since its last report belongs to no step
        costs, _ = _noted(trial)
        return max(costs.values(), default=None)
    return None if trial.datetime_complete is None else _seconds(trial, trial.datetime_complete)


def _seconds(trial: FrozenTrial, until: datetime) -> float:
    """The seconds of the objective, without those of our sampler."""
    ours = float(trial.system_attrs.get(RECORD, {}).get("think_s", 0.0))
    start = trial.datetime_start or until
    return max((until - start).total_seconds() - ours, 1e-9)


def _reported_so_far(trial: FrozenTrial) -> FrozenTrial:
    """A running trial with its reports up to the last rung at which its cost was noted."""
    if trial.state != TrialState.RUNNING:
        return trial
    costs, _ = _noted(trial)
    shift = int(0 in trial.intermediate_values)
    last = max(map(int, costs), default=0)
    if reached(trial) <= last or not costs:
        return trial
    kept = copy.copy(trial)
    kept.intermediate_values = {
        step: value for step, value in trial.intermediate_values.items() if step + shift <= last
    }
    return kept


def _state(trial: FrozenTrial, own: bool, curve: Sequence[CurvePoint]) -> State:
    match trial.state:
        case TrialState.COMPLETE:
            return "done" if curve else "failed"
        case TrialState.PRUNED:
            return "paused" if curve else "killed"
        case TrialState.FAIL:
            return "failed"
        case _:
            return "paused" if own else "running"


def _value(trial: FrozenTrial, curve: Sequence[CurvePoint]) -> float | None:
    return curve[-1].value if curve and trial.state != TrialState.FAIL else None
