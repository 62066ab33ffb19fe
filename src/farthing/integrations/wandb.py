"""Each trial as a run of Weights & Biases.

    minimize(objective, space, budget="2h", callbacks=[WandB("my-project")])
    farthing run --log wandb ...

A run has the parameters of its trial as its configuration, and its value, cost, metrics, state and
why it was chosen in its summary. The learning curve is its history, as `curve/value` and so on.
"""

from __future__ import annotations

import os
from typing import Any

from farthing.errors import MissingExtra
from farthing.history import Trial
from farthing.integrations.logged import Logging, logged

try:
    import wandb
except ImportError as error:
    raise MissingExtra("wandb", "Weights & Biases (wandb)") from error

__all__ = ["WandB"]


class WandB:
    """A callback that logs every trial as a run. It leaves the active run of this process alone.

    Args:
        project: the name of the project; by default that in WANDB_PROJECT, or "farthing".
        settings: further arguments of `wandb.init`, such as `entity`, `mode="offline"` or `tags`.
    """

    def __init__(self, project: str | None = None, **settings: Any) -> None:
        self.project, self.settings = project, settings
        self._logging = Logging("Weights & Biases", self._log)

    def __call__(self, optimizer: Any, trial: Trial) -> None:
        """Log a trial that has ended."""
        self._logging.trial(optimizer, trial)

    def after_run(self, optimizer: Any) -> None:
        """Log the paused trials."""
        self._logging.rest(optimizer)

    def _log(self, optimizer: Any, trial: Trial, run: str | None) -> str:
        of = logged(trial)
        ours = {
            "project": self.project or os.environ.get("WANDB_PROJECT", "farthing"),
            "group": getattr(optimizer, "name", None),
            "name": of.name,
            "config": of.params,
            "id": run,
            "resume": None if run is None else "allow",
            "reinit": "create_new",
            "settings": wandb.Settings(silent=True, console="off"),
        }
        with wandb.init(**(ours | self.settings)) as made:
            for step, values in of.curve:  # wandb ignores the steps that it has
                made.log({f"curve/{name}": each for name, each in values.items()}, step=step)
            made.summary.update({"number": trial.number, **of.numbers, **of.texts})
            made.finish(exit_code=0 if trial.state in ("done", "paused") else 1)
            return str(made.id)
