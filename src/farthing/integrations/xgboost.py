"""XGBoost reports each boosting round; a paused training goes on from its checkpoint.

report = Report(trial)
xgboost.train(params, data, trial.last, evals=[(test, "test")],
              callbacks=[report], xgb_model=report.checkpoint)
"""

from __future__ import annotations

from typing import Any

from farthing.errors import MissingExtra
from farthing.integrations.training_loop import metric_of, saved, saving
from farthing.running.training import Training

try:
    from xgboost.callback import TrainingCallback
except ImportError as error:
    raise MissingExtra("xgboost", "XGBoost") from error

__all__ = ["Report"]
FILE, NO_DATA = "model.ubj", "Give the data to evaluate it with: evals=[(data, name)]."


class Report(TrainingCallback):  # type: ignore[misc]
    """Reports the last metric of the last evaluation set, as early stopping does."""

    def __init__(self, trial: Training) -> None:
        self.trial, self.checkpoint = trial, saved(trial, FILE)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Whether to end the training."""
        values = metric_of(metric_of(evals_log, None, NO_DATA), None, NO_DATA)
        answer = self.trial.report(model.num_boosted_rounds(), values[-1])
        if answer == "pause":
            with saving(self.trial, FILE) as file:
                model.save_model(file)
        return answer != "continue"
