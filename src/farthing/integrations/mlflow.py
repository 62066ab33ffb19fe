"""Each trial as a run of MLflow.

    minimize(objective, space, budget="2h", callbacks=[MLflow()])
    farthing run --log mlflow ...

A run has the parameters of its trial, its value, cost and metrics, and as tags its state and why it
was chosen. The learning curve is in the metrics `curve/value` and `curve/cost/...`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from farthing.errors import MissingExtra
from farthing.history import Trial
from farthing.integrations.logged import Logging, logged

try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag
except ImportError as error:
    raise MissingExtra("mlflow", "MLflow") from error

__all__ = ["MLflow"]

BATCH = 100  # entries of one request; the protocol allows 100 parameters and 1000 metrics
STATUS = {"done": "FINISHED", "paused": "SCHEDULED", "killed": "KILLED"}  # the others: FAILED


class MLflow:
    """A callback that logs every trial as a run. It leaves the active run of this process alone.

    Args:
        experiment: the name of the experiment; by default that of the study, or "farthing".
        tracking_uri: where to log, "http://host:5000" or "sqlite:///mlflow.db"; by default as
            MLflow is set up, for example by MLFLOW_TRACKING_URI.
        tags: tags of each run.
    """

    def __init__(
        self,
        experiment: str | None = None,
        *,
        tracking_uri: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.experiment, self.tracking_uri, self.tags = experiment, tracking_uri, dict(tags or {})
        self._logging = Logging("MLflow", self._log)

    def __call__(self, optimizer: Any, trial: Trial) -> None:
        """Log a trial that has ended."""
        self._logging.trial(optimizer, trial)

    def after_run(self, optimizer: Any) -> None:
        """Log the paused trials."""
        self._logging.rest(optimizer)

    def _log(self, optimizer: Any, trial: Trial, run: str | None) -> str:
        client = MlflowClient(self.tracking_uri)
        of, now, done = logged(trial), int(1000 * time.time()), 0
        study = getattr(optimizer, "name", None)
        if run is None:
            made = client.create_run(
                self._experiment(client, self.experiment or study or "farthing"),
                start_time=now - int(1000 * (trial.run.run_s or 0.0)),
                run_name=of.name,
                tags={**self.tags, "trial": str(trial.number)}
                | ({"study": study} if study else {}),
            )
            run = str(made.info.run_id)
        else:
            done = max(
                (each.step for each in client.get_metric_history(run, "curve/value")), default=0
            )
        metrics = [Metric(_name(name), each, now, trial.step) for name, each in of.numbers.items()]
        metrics += [
            Metric(_name(f"curve/{name}"), each, now, step)
            for step, values in of.curve
            if step > done
            for name, each in values.items()
        ]
        params = [Param(_name(name), str(each)) for name, each in of.params.items()]
        tags = [RunTag(_name(name), each) for name, each in of.texts.items()]
        for i in range(0, max(len(metrics), len(params), len(tags)), BATCH):
            part = slice(i, i + BATCH)
            client.log_batch(run, metrics=metrics[part], params=params[part], tags=tags[part])
        client.set_terminated(run, STATUS.get(trial.state, "FAILED"), end_time=now)
        return run

    def _experiment(self, client: Any, name: str) -> str:
        found = client.get_experiment_by_name(name)
        return str(client.create_experiment(name) if found is None else found.experiment_id)


def _name(name: str) -> str:
    """A name with only the characters that MLflow allows."""
    return re.sub(r"[^\w\-./: ]", "_", name, flags=re.ASCII)
