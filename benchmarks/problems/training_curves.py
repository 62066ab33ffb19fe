"""Real training one step at a time: rounds of XGBoost and epochs of a perceptron.

    model     steps        value after each step
    xgboost   128 rounds   log loss of held-out rows; regression: RMSE over the deviation of their y
    mlp       40 epochs    log loss of held-out rows

A learner makes one step at a time and can be saved between two of them. What depends on the data
alone, such as XGBoost's bins, is made once for all configurations. One thread trains.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.training import Data, load
from farthing import Categorical, Float, Int, Space

Array = NDArray[np.float64]
Params = Mapping[str, Any]

XGBOOST = Space(
    {
        "learning_rate": Float(0.01, 1.0, log=True),
        "depth": Int(1, 12),
        "trees": Int(1, 12, log=True),  # per round and class
        "subsample": Float(0.1, 1.0),
        "columns": Float(0.1, 1.0),
        "child_weight": Float(0.1, 100.0, log=True),
        "lambda": Float(1e-3, 1e3, log=True),
    }
)
MLP = Space(
    {
        "layers": Int(1, 4),
        "width": Int(8, 256, log=True),
        "batch": Int(8, 512, log=True),
        "learning_rate": Float(1e-4, 1e-1, log=True),
        "alpha": Float(1e-6, 1.0, log=True),
        "activation": Categorical(["relu", "tanh"]),
    }
)
LEAST_P = 1e-7  # the least probability in a log loss


class Learner(Protocol):
    """A model that is trained step by step."""

    def step(self) -> float:
        """Train one step; returns the value after it, NaN or infinity if it diverged."""

    def saved(self) -> bytes:
        """What `learning(model, data)(params, saved)` continues from."""


class Boosting:
    """XGBoost: a step is a boosting round.

    The state of its random numbers cannot be saved: with a subsample below 1, a resumed training
    draws other rows than one that was never paused.
    """

    def __init__(self, data: Data, matrices: tuple[Any, Any], params: Params, saved: bytes) -> None:
        import xgboost

        self.train, self.test = matrices
        objective = {0: "reg:squarederror", 2: "binary:logistic"}.get(data.classes)
        settings = {
            "objective": objective or "multi:softprob",
            "eval_metric": {0: "rmse", 2: "logloss"}.get(data.classes, "mlogloss"),
            **({} if objective else {"num_class": data.classes}),
            "learning_rate": params["learning_rate"],
            "max_depth": params["depth"],
            "num_parallel_tree": params["trees"],
            "subsample": params["subsample"],
            "colsample_bytree": params["columns"],
            "min_child_weight": params["child_weight"],
            "reg_lambda": params["lambda"],
            "nthread": 1,
            "seed": 0,
        }
        self.scale = 1.0 if data.classes else float(np.std(data.y_test))
        self.booster = xgboost.Booster(settings, cache=matrices)
        if saved:
            self.booster.load_model(bytearray(saved))
            self.booster.set_param(settings)

    def step(self) -> float:
        """One round."""
        self.booster.update(self.train, self.booster.num_boosted_rounds())
        line = self.booster.eval_set([(self.test, "test")])
        return float(line.rpartition(":")[2]) / self.scale

    def saved(self) -> bytes:
        """The trees."""
        return bytes(self.booster.save_raw("ubj"))


class Perceptron:
    """A multi-layer perceptron of scikit-learn with Adam: a step is an epoch."""

    def __init__(self, data: Data, params: Params, saved: bytes) -> None:
        from sklearn.neural_network import MLPClassifier

        self.data = data
        self.classes = np.arange(data.classes)
        self.network = (
            pickle.loads(saved)
            if saved
            else MLPClassifier(
                (params["width"],) * params["layers"],
                activation=params["activation"],
                alpha=params["alpha"],
                learning_rate_init=params["learning_rate"],
                batch_size=params["batch"],
                random_state=0,
            )
        )

    def step(self) -> float:
        """One epoch."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # an overflow is a divergence, which has a value
            try:
                self.network.partial_fit(self.data.X, self.data.y, classes=self.classes)
            except ValueError as error:
                if "non-finite" not in str(error):
                    raise
                return float("nan")
            p = self.network.predict_proba(self.data.X_test)
        own = p[np.arange(len(p)), self.data.y_test.astype(int)]
        return float(-np.mean(np.log(np.clip(own, LEAST_P, 1.0))))

    def saved(self) -> bytes:
        """The network and the state of Adam."""
        return pickle.dumps(self.network)


def learning(model: str, data: Data) -> Callable[[Params, bytes], Learner]:
    """How a learner of these data starts: `start(params, b"")`, or from what another has saved."""
    if model == "mlp":
        return partial(Perceptron, data)
    import xgboost

    train = xgboost.QuantileDMatrix(data.X, data.y, nthread=1)
    test = xgboost.QuantileDMatrix(data.X_test, data.y_test, ref=train, nthread=1)
    return partial(Boosting, data, (train, test))


SPACES = {"xgboost": XGBOOST, "mlp": MLP}
LAST = {"xgboost": 128, "mlp": 40}


@dataclass(frozen=True)
class CurveTask:
    """A model on some rows of a data set after a pipeline (see `training.py`)."""

    model: str
    data: str
    pipeline: str = "plain"
    rows: int = 1000  # of training
    test_rows: int = 500  # held out; the values are theirs

    @property
    def name(self) -> str:
        """As in `xgboost-satimage`."""
        return f"{self.model}-{self.data.removeprefix('openml_').split('_')[-1]}"

    @property
    def space(self) -> Space:
        """Its parameters."""
        return SPACES[self.model]

    @property
    def last(self) -> int:
        """The number of steps."""
        return LAST[self.model]

    def load(self, folder: Path) -> Data:
        """Its rows, drawn once, with numbers of 32 bits."""
        all_rows = load(self.data, self.pipeline, folder)
        rng = np.random.default_rng(0)
        some = rng.permutation(len(all_rows.X))[: self.rows]
        held = rng.permutation(len(all_rows.X_test))[: self.test_rows]
        return Data(
            all_rows.X[some].astype(np.float32),  # type: ignore[arg-type]
            all_rows.y[some],
            all_rows.X_test[held].astype(np.float32),  # type: ignore[arg-type]
            all_rows.y_test[held],
            all_rows.classes,
        )


TASKS = {
    task.name: task
    for task in (
        CurveTask("xgboost", "a3a", rows=3000, test_rows=1000),
        CurveTask("xgboost", "openml_1489_phoneme", rows=3000),
        CurveTask("xgboost", "satimage", rows=800),
        CurveTask("xgboost", "openml_189_kin8nm", rows=2000),
        CurveTask("mlp", "splice", "h", test_rows=1000),
        CurveTask("mlp", "pendigits", "s"),
        CurveTask("mlp", "openml_task125922_texture", "s"),
        CurveTask("mlp", "openml_1489_phoneme", "s"),
    )
}
