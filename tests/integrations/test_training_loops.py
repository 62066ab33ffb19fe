"""Training loops report their steps, and are paused and resumed: with the real libraries."""

import importlib
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from integrations.loops import paused_and_resumed, told, values_of
from sklearn.linear_model import SGDRegressor

from farthing import InvalidInput
from farthing.integrations import training_loop
from farthing.integrations.partial_fit import partial_fit

FOLDER = Path(training_loop.__file__).parent
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = X @ [1.0, -2.0, 0.5] + np.sin(3 * X[:, 0])
TRAIN, TEST = slice(0, 60), slice(60, 80)


@pytest.mark.parametrize(
    "name", ["keras", "lightgbm", "lightning", "partial_fit", "transformers", "xgboost"]
)
def test_a_callback_has_at_most_40_lines(name):
    assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 40


def test_xgboost():
    xgboost = pytest.importorskip("xgboost", reason="xgboost-cpu is for Linux on x86_64")
    from farthing.integrations.xgboost import Report

    data, test = xgboost.DMatrix(X[TRAIN], Y[TRAIN]), xgboost.DMatrix(X[TEST], Y[TEST])

    def train(params, trial):
        report = Report(trial)
        settings = {"eta": params["x"], "max_depth": 2, "nthread": 1}
        xgboost.train(
            *(settings, data, trial.last),
            evals=[(data, "train"), (test, "test")],
            callbacks=[report],
            xgb_model=report.checkpoint,
            verbose_eval=False,
        )

    for trial in paused_and_resumed(train):
        seen = {}
        xgboost.train(
            *({"eta": trial.params["x"], "max_depth": 2, "nthread": 1}, data, 8),
            evals=[(test, "test")],
            evals_result=seen,
            verbose_eval=False,
        )
        assert values_of(trial) == pytest.approx(seen["test"]["rmse"], rel=1e-5)
    with pytest.raises(InvalidInput, match=r"no metric to report: there is none.*evals="):
        xgboost.train({}, data, 2, callbacks=[Report(told([]))])


def test_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    from farthing.integrations.lightgbm import Report

    fixed = {"objective": "l2", "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 3}

    def fit(settings, rounds, **arguments):
        data = lightgbm.Dataset(X[TRAIN], Y[TRAIN])
        return lightgbm.train(
            *(fixed | settings, data, rounds),
            valid_sets=[lightgbm.Dataset(X[TEST], Y[TEST], reference=data)],
            **arguments,
        )

    def train(params, trial):
        report = Report(trial)
        callbacks, model = [report], report.checkpoint
        fit({"learning_rate": params["x"]}, trial.last, callbacks=callbacks, init_model=model)

    for trial in paused_and_resumed(train):
        seen = {}
        record = lightgbm.record_evaluation(seen)
        fit({"learning_rate": trial.params["x"]}, 8, callbacks=[record])
        assert values_of(trial) == pytest.approx(seen["valid_0"]["l2"], rel=1e-6)
    data = lightgbm.Dataset(X[TRAIN], Y[TRAIN])
    with pytest.raises(InvalidInput, match=r"no metric to report.*valid_sets="):
        lightgbm.train(fixed, data, 2, callbacks=[Report(told([]))])


def error_of(model):
    return float(np.mean((model.predict(X[TEST]) - Y[TEST]) ** 2))


def test_partial_fit():
    def new(rate):
        return SGDRegressor(eta0=rate / 50, random_state=0)

    def train(params, trial):
        partial_fit(trial, new(params["x"]), X[TRAIN], Y[TRAIN], error_of)

    for trial in paused_and_resumed(train):
        model = new(trial.params["x"])
        alone = [error_of(model.partial_fit(X[TRAIN], Y[TRAIN])) for _ in range(8)]
        assert values_of(trial) == pytest.approx(alone)


def test_partial_fit_returns_the_model_of_a_training_that_is_stopped():
    model = partial_fit(told(["continue 2", "stop"]), SGDRegressor(), X, Y, error_of)
    assert model.t_ == 1 + 2 * len(X)


# The heavy libraries, by the protocol of their callbacks. Tests with the real ones would install
# PyTorch; docs/neighbours.md says when they were last tried.


@pytest.fixture
def fake(monkeypatch):
    """Import a module of farthing.integrations with a fake library in place of the real one."""

    def make(module, libraries):
        for name, contents in libraries.items():
            library = types.ModuleType(name)
            vars(library).update(contents)
            monkeypatch.setitem(sys.modules, name, library)
        full = f"farthing.integrations.{module}"
        monkeypatch.delitem(sys.modules, full, raising=False)
        made = importlib.import_module(full)
        monkeypatch.delitem(sys.modules, full)
        return made.Report

    return make


class Base:
    """The base class of a callback."""


def test_the_protocol_of_lightning(fake):
    class Trainer:
        """Calls a callback as Lightning does, with a loss of 1 / epochs."""

        def __init__(self, max_epochs, callbacks):
            self.max_epochs, self.callbacks = max_epochs, callbacks
            self.should_stop, self.current_epoch = False, 0

        def fit(self, x, ckpt_path):
            if ckpt_path is not None:
                self.current_epoch = json.loads(Path(ckpt_path).read_text()) + 1
            while self.current_epoch < self.max_epochs and not self.should_stop:
                self.callback_metrics = {"val_loss": x / (self.current_epoch + 1)}
                for callback in self.callbacks:
                    callback.on_train_epoch_end(self, None)
                self.current_epoch += 1

        def save_checkpoint(self, path):
            Path(path).write_text(json.dumps(self.current_epoch))

    report_of = fake("lightning", {"lightning": {}, "lightning.pytorch": {"Callback": Base}})

    def train(params, trial):
        report = report_of(trial, "val_loss")
        Trainer(trial.last, [report]).fit(params["x"], report.checkpoint)

    for trial in paused_and_resumed(train):
        assert values_of(trial) == [trial.params["x"] / step for step in range(1, 9)]
    with pytest.raises(InvalidInput, match=r"no metric loss: there are only val_loss\. "):
        Trainer(2, [report_of(told([]), "loss")]).fit(1.0, None)


def test_the_protocol_of_transformers(fake, tmp_path):
    evaluated = tmp_path / "evaluated"

    class Trainer:
        """Evaluates twice in an epoch, and saves after an evaluation if it is told to."""

        def __init__(self, args, callbacks):
            self.args, self.callbacks = args, callbacks
            self.state = types.SimpleNamespace(epoch=0.0, global_step=0)
            self.control = types.SimpleNamespace(should_save=False, should_training_stop=False)

        def train(self, x, resume_from_checkpoint):
            args, state, control = self.args, self.state, self.control
            if resume_from_checkpoint is not None:
                vars(state).update(json.loads(Path(resume_from_checkpoint, "state").read_text()))
            while state.epoch < args.num_train_epochs and not control.should_training_stop:
                state.global_step, state.epoch = state.global_step + 5, state.epoch + 0.5
                if args.eval_strategy == "epoch" and state.epoch % 1:
                    continue
                step = state.epoch if args.eval_strategy == "epoch" else state.global_step / 5
                metrics = {"eval_loss": x / step}
                with evaluated.open("a") as out:
                    out.write(f"{x} {step}\n")
                for callback in self.callbacks:
                    callback.on_evaluate(args, state, control, metrics=metrics, model=None)
                if control.should_save:
                    folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
                    folder.mkdir()
                    (folder / "state").write_text(json.dumps(vars(state)))

    def get_last_checkpoint(folder):
        found = sorted(Path(folder).glob("checkpoint-*"), key=lambda path: path.stat().st_mtime_ns)
        return str(found[-1]) if found else None

    report_of = fake(
        "transformers",
        {
            "transformers": {"TrainerCallback": Base},
            "transformers.trainer_utils": {"get_last_checkpoint": get_last_checkpoint},
        },
    )

    for strategy in ("epoch", "steps"):

        def train(params, trial, strategy=strategy):
            args = types.SimpleNamespace(
                output_dir=trial.checkpoint,
                num_train_epochs=trial.last if strategy == "epoch" else trial.last / 2,
                eval_strategy=strategy,
                eval_steps=5,
            )
            report = report_of(trial)
            Trainer(args, [report]).train(params["x"], report.checkpoint)

        for trial in paused_and_resumed(train):
            assert values_of(trial) == [trial.params["x"] / step for step in range(1, 9)]
        lines = evaluated.read_text().splitlines()
        assert len(lines) == len(set(lines)) >= 8  # a training goes on from its checkpoint
        evaluated.unlink()


def test_the_protocol_of_keras(fake):
    class Model:
        """Its weight is the number of epochs that it was trained."""

        weight, stop_training = 0, False

        def save_weights(self, path):
            assert str(path).endswith(".weights.h5")  # Keras refuses other names
            Path(path).write_text(json.dumps(self.weight))

        def load_weights(self, path):
            self.weight = json.loads(Path(path).read_text())

        def fit(self, x, callback, initial_epoch, epochs):
            callback.model = self
            callback.on_train_begin()
            for epoch in range(initial_epoch, epochs):
                self.weight += 1
                callback.on_epoch_end(epoch, {"loss": 0.0, "val_loss": x / self.weight})
                if self.stop_training:
                    break

    report_of = fake("keras", {"keras": {}, "keras.callbacks": {"Callback": Base}})

    def train(params, trial):
        report = report_of(trial)
        Model().fit(params["x"], report, report.epoch, trial.last)

    for trial in paused_and_resumed(train):
        assert values_of(trial) == [trial.params["x"] / step for step in range(1, 9)]
