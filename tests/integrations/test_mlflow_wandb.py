"""Trials in MLflow (a local file store) and Weights & Biases (offline): the real libraries."""

import json
import struct
import sys
import warnings
from types import SimpleNamespace

import pytest
from parts import RoundRobin
from processes import wait_until

from farthing import Float, Int, Outcome, Steps, Study, minimize
from farthing.policies import Random

mlflow = pytest.importorskip("mlflow")
wandb = pytest.importorskip("wandb")

from wandb.proto import wandb_internal_pb2  # noqa: E402

from farthing.cli import main  # noqa: E402
from farthing.integrations.logged import logged  # noqa: E402
from farthing.integrations.mlflow import MLflow  # noqa: E402
from farthing.integrations.wandb import WandB  # noqa: E402

SPACE = {"x": Float(0, 1), "size": Int(1, 9)}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A client of a file store, which MLflow 3 calls outdated and still has."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    monkeypatch.chdir(tmp_path)
    return mlflow.MlflowClient(f"file://{tmp_path}/mlruns")


@pytest.fixture(scope="module", autouse=True)
def no_process_left():
    yield
    wandb.teardown()


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """The runs that wandb wrote to its folder: configuration, history, summary, exit code."""
    monkeypatch.chdir(tmp_path)

    def read():
        return [wandb_run(file) for file in tmp_path.rglob("*.wandb")]

    def whole():  # a process of wandb may still write the last run when it has finished
        assert wait_until(lambda: all(None not in (run.number, run.exit) for run in read()))
        return sorted(read(), key=lambda run: run.number)

    return whole


def wandb_records(data):
    """The messages of a file of wandb: a log of LevelDB after a header of 7 bytes."""
    at, message = 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:  # the rest of a block is empty
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if at + 7 + length > len(data):  # it is still being written
            return
        message += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole message, or its last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(message)
            yield record
            message = b""


def wandb_run(file):
    """One run, from the protocol that `wandb sync` sends."""
    found = SimpleNamespace(config={}, history=[], summary={}, exit=None)
    for record in wandb_records(file.read_bytes()):
        if record.HasField("run"):
            found.name, found.group = record.run.display_name, record.run.run_group
            found.project, found.id = record.run.project, record.run.run_id
            found.config |= {
                each.key: json.loads(each.value_json) for each in record.run.config.update
            }
        for each in record.history.item:
            key = each.key or each.nested_key[0]
            found.history.append((key, json.loads(each.value_json)))
        for each in record.summary.update:
            found.summary[each.key or each.nested_key[0]] = json.loads(each.value_json)
        if record.HasField("exit"):
            found.exit = record.exit.exit_code
    found.number = found.summary.get("number")
    return found


def objective(params):
    if params["size"] > 5:
        raise ValueError("too large")
    metrics = {"accuracy (%)": 97, "kind": "small", "shape": [1, 2]}
    return Outcome(params["x"], cost=2.5, metrics=metrics, constraints={"latency_ms": 3.0})


def training(params, trial):
    file = trial.checkpoint / "step"
    step, answer = int(file.read_text()) if file.exists() else 0, "continue"
    while answer == "continue":
        step += 1
        answer = trial.report(step, params["x"] / step, cost=0.5 * step)
    file.write_text(str(step))


def run_study(callback):
    settings = {"policy": Random(), "constraints": {"latency_ms": "<= 9"}, "n_trials": 6}
    return minimize(objective, SPACE, "$99", callbacks=[callback], **settings)


def run_trainings(callback, folder):
    """Three trainings of four steps, of which the budget pays for one; then for all."""
    study = Study.create(
        folder / "tune.db",
        name="curves",
        space={"x": Float(0, 1)},
        budget="3 trials, $2.1",
        steps=Steps(4, rungs=(1, 2)),
        policy=RoundRobin(3),
    )
    first = study.run(training, callbacks=[callback])
    assert "paused" in [trial.state for trial in first.history]
    study.change(budget="3 trials, $99")
    second = study.run(training, callbacks=[callback])
    study.close()
    assert [trial.state for trial in second.history] == ["done"] * 3
    return second.history


def test_mlflow_has_a_run_for_each_trial(store):
    result = run_study(MLflow("tuning", tags={"team": "a"}))
    (experiment,) = [e for e in store.search_experiments() if e.name == "tuning"]
    runs = store.search_runs([experiment.experiment_id])
    runs.sort(key=lambda run: int(run.data.tags["trial"]))
    assert [run.info.run_name for run in runs] == [f"trial {i}" for i in range(6)]
    assert {trial.state for trial in result.history} == {"done", "failed"}
    for run, trial in zip(runs, result.history, strict=True):
        assert run.data.params == {name: str(each) for name, each in trial.params.items()}
        assert run.data.tags["state"] == trial.state
        assert run.data.tags["because"] == trial.because
        assert run.data.tags["team"] == "a"
        assert run.data.metrics["run_s"] == trial.run.run_s
        if trial.state == "done":
            assert run.info.status == "FINISHED"
            assert run.data.metrics["value"] == trial.value
            assert run.data.metrics["cost/usd"] == 2.5
            assert run.data.metrics["accuracy (%)".replace("(%)", "___")] == 97
            assert run.data.metrics["latency_ms"] == 3
            assert (run.data.tags["kind"], run.data.tags["shape"]) == ("small", "[1, 2]")
        else:
            assert run.info.status == "FAILED"
            assert "ValueError: too large" in run.data.tags["error"]
            assert "value" not in run.data.metrics
    assert mlflow.active_run() is None


def test_mlflow_has_the_learning_curves_and_one_run_of_a_training_that_was_paused(store, tmp_path):
    history = run_trainings(MLflow(), tmp_path)
    (experiment,) = [e for e in store.search_experiments() if e.name == "curves"]
    runs = store.search_runs([experiment.experiment_id])
    assert len(runs) == 3
    for run in runs:
        trial = history[int(run.data.tags["trial"])]
        assert (run.data.tags["state"], run.info.status) == ("done", "FINISHED")
        assert run.data.tags["study"] == "curves"
        values = store.get_metric_history(run.info.run_id, "curve/value")
        expected = [(point.step, point.value) for point in trial.curve]
        assert sorted((each.step, each.value) for each in values) == expected
        costs = store.get_metric_history(run.info.run_id, "curve/cost/usd")
        assert len(costs) == 4
        assert run.data.metrics["value"] == trial.value


@pytest.mark.slow
def test_wandb_has_a_run_for_each_trial(offline, tmp_path):
    result = run_study(WandB("tuning", mode="offline", dir=tmp_path))
    runs = offline()
    assert [run.name for run in runs] == [f"trial {i}" for i in range(6)]
    for run, trial in zip(runs, result.history, strict=True):
        assert run.project == "tuning"
        assert {name: run.config[name] for name in SPACE} == trial.params
        assert run.summary["state"] == trial.state
        assert run.summary["because"] == trial.because
        assert run.exit == (trial.state == "failed")
        if trial.state == "done":
            assert run.summary["value"] == trial.value
            assert run.summary["cost/usd"] == 2.5
            assert run.summary["accuracy (%)"] == 97
        else:
            assert "ValueError: too large" in run.summary["error"]
    assert wandb.run is None


@pytest.mark.slow
def test_wandb_has_the_learning_curves(offline, tmp_path):
    history = run_trainings(WandB(mode="offline", dir=tmp_path), tmp_path)
    runs = offline()
    assert {run.project for run in runs} == {"farthing"}
    assert {run.group for run in runs} == {"curves"}
    assert len({run.id for run in runs}) == 3  # the parts of a training have the same id
    for trial in history:
        last = next(r for r in runs if r.number == trial.number and r.summary["state"] == "done")
        assert [v for name, v in last.history if name == "_step"] == [1, 2, 3, 4]
        values = [v for name, v in last.history if name == "curve/value"]
        assert values == pytest.approx([point.value for point in trial.curve])
        assert last.summary["value"] == trial.value


@pytest.mark.parametrize("kind", [MLflow, WandB])
def test_a_log_that_fails_loses_no_trial_and_warns_once(kind, store, offline, monkeypatch):
    def refuse(*args, **settings):
        raise ConnectionError("no route to host.")

    monkeypatch.setattr(mlflow.MlflowClient, "create_run", refuse)
    monkeypatch.setattr(wandb, "init", refuse)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = run_study(kind())
    assert len(result.history) == 6
    assert result.history.done
    (warning,) = seen
    assert "Trial 0 could not be logged to" in str(warning.message)
    assert "no route to host. The study goes on" in str(warning.message)


def test_what_could_not_be_logged_is_logged_at_the_end(store, monkeypatch):
    create, calls = mlflow.MlflowClient.create_run, []

    def fails_twice(client, *args, **settings):
        calls.append(settings["run_name"])
        if len(calls) <= 2:
            raise ConnectionError("no route to host.")
        return create(client, *args, **settings)

    monkeypatch.setattr(mlflow.MlflowClient, "create_run", fails_twice)
    with pytest.warns(UserWarning, match="Trial 0 could not be logged to MLflow"):
        run_study(MLflow("tuning"))
    assert calls == [f"trial {i}" for i in (*range(6), 0, 1)]
    assert len(store.search_runs([store.get_experiment_by_name("tuning").experiment_id])) == 6


def test_a_trial_without_a_value_has_no_empty_entries():
    history = minimize(lambda params: 1.0, SPACE, n_trials=1, policy=Random()).history
    of = logged(history[0])
    assert of.name == "trial 0"
    assert "error" not in of.texts
    assert of.curve == []
    assert of.numbers["value"] == 1


COMMAND = ["--param", "x=float:0:1", "--budget", "2 trials", "--policy", "random"]
COMMAND += ["--", "echo", '{"value": {x}}']


def test_the_command_line_logs(store, monkeypatch, capsys, tmp_path):
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--log", "mlflow", "--name", "net", "--quiet", *COMMAND])
    runs = store.search_runs([store.get_experiment_by_name("net").experiment_id])
    assert {run.info.run_name for run in runs} == {"trial 0", "trial 1"}
    (tmp_path / "farthing.toml").write_text('[run]\nlog = ["mlflow"]\n')
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--name", "again", "--quiet", *COMMAND])
    assert store.get_experiment_by_name("again") is not None
    (tmp_path / "farthing.toml").write_text('[run]\nlog = "neptune"\n')
    with pytest.raises(SystemExit, match="2"):
        main(["run", "--name", "last", *COMMAND])
    assert "log = 'neptune': expected mlflow or wandb." in capsys.readouterr().err


def test_the_command_line_names_the_extra_that_is_missing(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "farthing.integrations.wandb")
    with pytest.raises(SystemExit, match="2"):
        main(["run", "--log", "wandb", *COMMAND])
    assert "pip install 'farthing[wandb]'" in capsys.readouterr().err
    assert not (tmp_path / "farthing.db").exists()
