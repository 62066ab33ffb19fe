"""Keras reports each epoch; a paused training goes on from its weights and its optimizer's state.

model.fit(X, y, ..., callbacks=[report], initial_epoch=report.epoch, epochs=trial.last)
"""

from typing import Any

from farthing.errors import MissingExtra
from farthing.integrations.training_loop import metric_of, saved, saving
from farthing.running.training import Training

try:
    from keras.callbacks import Callback
except ImportError as error:
    raise MissingExtra("keras", "Keras") from error

__all__ = ["Report"]


class Report(Callback):  # type: ignore[misc]
    """Reports one entry of the logs; `epoch` is the number of epochs in the checkpoint."""

    def __init__(self, trial: Training, monitor: str = "val_loss") -> None:
        Callback.__init__(self)
        files = () if trial.checkpoint is None else trial.checkpoint.glob("[0-9]*.weights.h5")
        epoch = max((int(file.name.split(".")[0]) for file in files), default=0)
        self.trial, self.monitor, self.epoch = trial, monitor, epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Load the checkpoint."""
        if (file := saved(self.trial, f"{self.epoch}.weights.h5")) is not None:
            self.model.load_weights(file)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Report the epoch."""
        answer = self.trial.report(epoch + 1, metric_of(logs, self.monitor, "See model.compile."))
        if answer == "pause":
            with saving(self.trial, f"{epoch + 1}.weights.h5") as file:
                self.model.save_weights(file)
        self.model.stop_training = self.model.stop_training or answer != "continue"
