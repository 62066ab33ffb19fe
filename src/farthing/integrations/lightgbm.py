"""LightGBM reports each boosting round; a paused training goes on from its checkpoint.

report = Report(trial)
lightgbm.train(params, data, trial.last, valid_sets=[test],
               callbacks=[report], init_model=report.checkpoint)
"""

from __future__ import annotations

from typing import Any

from farthing.errors import MissingExtra
from farthing.integrations.training_loop import metric_of, saved, saving
from farthing.running.training import Training

try:
    from lightgbm.callback import EarlyStopException
except ImportError as error:
    raise MissingExtra("lightgbm", "LightGBM") from error

__all__ = ["Report"]
FILE, NO_DATA = "model.txt", "Give the data to evaluate it with: valid_sets=[data]."


class Report:
    """Reports the last metric of the last evaluation set."""

    def __init__(self, trial: Training) -> None:
        self.trial, self.checkpoint = trial, saved(trial, FILE)

    def __call__(self, env: Any) -> None:
        """Report one round, and end the training by the exception that early stopping raises."""
        metrics = {f"{result[0]} {result[1]}": result[2] for result in env.evaluation_result_list}
        answer = self.trial.report(env.iteration + 1, metric_of(metrics, None, NO_DATA))
        if answer == "pause":
            with saving(self.trial, FILE) as file:
                env.model.save_model(file, num_iteration=-1)
        if answer != "continue":
            raise EarlyStopException(env.iteration, env.evaluation_result_list)
