"""PyTorch Lightning reports each epoch; a paused training goes on from its checkpoint.

report = Report(trial, "val_loss")
trainer = Trainer(max_epochs=trial.last, callbacks=[report])
trainer.fit(module, data, ckpt_path=report.checkpoint)
"""

from __future__ import annotations

from typing import Any

from farthing.errors import MissingExtra
from farthing.integrations.training_loop import metric_of, saved, saving
from farthing.running.training import Training

try:
    from lightning.pytorch import Callback
except ImportError as error:
    raise MissingExtra("lightning", "PyTorch Lightning") from error

__all__ = ["Report"]
FILE, LOG_IT = "model.ckpt", "The module logs a metric by self.log(name, value)."


class Report(Callback):  # type: ignore[misc]
    """Reports a metric that the module logs, such as "val_loss"."""

    def __init__(self, trial: Training, monitor: str) -> None:
        self.trial, self.monitor, self.checkpoint = trial, monitor, saved(trial, FILE)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Report the epoch, after its validation."""
        value = float(metric_of(trainer.callback_metrics, self.monitor, LOG_IT))
        answer = self.trial.report(trainer.current_epoch + 1, value)
        if answer == "pause":
            with saving(self.trial, FILE) as file:
                trainer.save_checkpoint(file)
        trainer.should_stop = trainer.should_stop or answer != "continue"
