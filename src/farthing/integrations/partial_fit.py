"""Models of scikit-learn that learn by `partial_fit`; each call is a step, one pass over the data.

def train(params, trial):
    model = SGDClassifier(**params)
    partial_fit(trial, model, X, y, lambda model: 1 - model.score(X_test, y_test), classes=[0, 1])
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from farthing.integrations.training_loop import saved, saving
from farthing.running.training import Training

__all__ = ["partial_fit"]
FILE = "model.pickle"


def partial_fit(
    trial: Training, model: Any, X: Any, y: Any, value: Callable[[Any], float], **settings: Any
) -> Any:
    """Fit the model until the training is complete, paused or stopped, and return it.

    Args:
        value: the value of the objective for the model after a step.
        settings: the other arguments of `model.partial_fit`, such as `classes`.
    """
    file, answer, step = saved(trial, FILE), "continue", 0
    if file is not None:
        step, model = pickle.loads(file.read_bytes())
    while answer == "continue":
        step, model = step + 1, model.partial_fit(X, y, **settings)
        answer = trial.report(step, value(model))
    if answer == "pause":
        with saving(trial, FILE) as new:
            new.write_bytes(pickle.dumps((step, model)))
    return model
