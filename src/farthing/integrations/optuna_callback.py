"""A callback that stops an Optuna study with any sampler when a budget is spent."""

from __future__ import annotations

import copy
from datetime import datetime

import optuna
from optuna.trial import FrozenTrial

from farthing.core.options import AnyBudget
from farthing.integrations.optuna_settings import PLACEHOLDER, Arguments
from farthing.integrations.optuna_state import RECORD, STOPPED, ledger_of

__all__ = ["StopAtBudget"]


class StopAtBudget:
    """A callback that stops a study with any sampler when a budget is spent.

        study.optimize(objective, callbacks=[StopAtBudget("$40")])

    Every trial of the study counts, with its reported cost, `trial.set_user_attr("cost", ...)`, or
    else with its seconds.

    Args:
        budget: "2h", "$40", a number.
        rate: the price of the machine, "$3.06/h".
    """

    def __init__(self, budget: AnyBudget, *, rate: str | None = None) -> None:
        self._settings = Arguments(budget, rate, {}).settings(PLACEHOLDER)

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Stop the study if the budget is spent; Optuna calls this after every trial."""
        counted = []
        for each in study.get_trials(deepcopy=False):
            each = copy.copy(each)
            each.system_attrs = {**each.system_attrs, RECORD: {"think_s": 0.0, "hold": {}}}
            counted.append(each)
        if ledger_of(counted, self._settings, datetime.now()).used_up:
            study.set_user_attr(STOPPED, f"the budget of {self._settings.budget} is spent")
            study.stop()
