"""The Trainer of Hugging Face reports each evaluation; it saves and restores its own checkpoints.

report = Report(trial)
args = TrainingArguments(trial.checkpoint, num_train_epochs=trial.last, eval_strategy="epoch",
                         save_strategy="no", save_total_limit=1)
Trainer(model, args, ..., callbacks=[report]).train(resume_from_checkpoint=report.checkpoint)
"""

from __future__ import annotations

from typing import Any

from farthing.errors import MissingExtra
from farthing.integrations.training_loop import metric_of
from farthing.running.training import Training

try:
    from transformers import TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as error:
    raise MissingExtra("transformers", "Transformers (of Hugging Face)") from error

__all__ = ["Report"]


class Report(TrainerCallback):  # type: ignore[misc]
    """Reports a metric of each evaluation. A step is an epoch, or `eval_steps` updates."""

    def __init__(self, trial: Training, metric: str = "eval_loss") -> None:
        self.trial, self.metric, folder = trial, metric, trial.checkpoint
        self.checkpoint = None if folder is None else get_last_checkpoint(folder)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any, **_: Any) -> None:
        """Report the evaluation, after which the Trainer saves and stops as `control` says."""
        by_epoch = args.eval_strategy == "epoch"
        step = round(state.epoch) if by_epoch else state.global_step // args.eval_steps
        value = metric_of(metrics, self.metric, "A metric of `compute_metrics` begins with eval_.")
        answer = self.trial.report(step, value)
        control.should_save = control.should_save or answer == "pause"
        control.should_training_stop = control.should_training_stop or answer != "continue"
