"""Learning curves of real training: learners, recordings and their tables."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.evidence import record_curves
from benchmarks.evidence.record_curves import curve_of, record, steadiness
from benchmarks.evidence.recorder import sample
from benchmarks.problems import curve_tables, training_curves
from benchmarks.problems.curve_tables import curve_names, load_curves
from benchmarks.problems.tables import NoData
from benchmarks.problems.training import Data
from benchmarks.problems.training_curves import LAST, TASKS, CurveTask, learning

TINY = {  # a configuration of each model
    "xgboost": {
        "learning_rate": 0.3,
        "depth": 2,
        "trees": 1,
        "subsample": 1.0,
        "columns": 1.0,
        "child_weight": 1.0,
        "lambda": 1.0,
    },
    "mlp": {
        "layers": 1,
        "width": 8,
        "batch": 16,
        "learning_rate": 0.01,
        "alpha": 1e-4,
        "activation": "relu",
    },
}


def data_of(classes: int) -> Data:
    """160 rows whose class, or number, a linear function of three columns says."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3)).astype(np.float32)
    score = X @ [1.0, -1.0, 0.5]
    y = score
    if classes:
        y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)).astype(float)
    return Data(X[:120], y[:120], X[120:], y[120:], classes)


class Script:
    """A learner with these values."""

    def __init__(self, values):
        self.values = iter(values)

    def step(self):
        return next(self.values)


@pytest.fixture
def short(monkeypatch):
    """A perceptron has three epochs."""
    monkeypatch.setitem(LAST, "mlp", 3)
    return CurveTask("mlp", "made")


@pytest.mark.parametrize(
    ("model", "classes"), [("xgboost", 0), ("xgboost", 2), ("xgboost", 3), ("mlp", 2), ("mlp", 3)]
)
def test_a_saved_learner_continues_where_it_was(model, classes):
    start, params = learning(model, data_of(classes)), TINY[model]
    straight = start(params, b"")
    values = [straight.step() for _ in range(6)]
    chance = np.log(classes) if classes else 1.0  # of a constant prediction
    assert values[-1] < min(values[0], chance)
    parted = start(params, b"")
    before = [parted.step() for _ in range(3)]
    resumed = start(params, parted.saved())
    after = [resumed.step() for _ in range(3)]
    assert before + after == pytest.approx(values, rel=1e-5)


def test_a_perceptron_that_overflows_has_diverged():
    learner = learning("mlp", data_of(2))({**TINY["mlp"], "learning_rate": 1e38}, b"")
    assert np.isnan(learner.step())


def test_a_perceptron_does_not_hide_other_errors():
    data = data_of(2)
    odd = Data(data.X[:, :0], data.y, data.X_test[:, :0], data.y_test, 2)
    with pytest.raises(ValueError, match="0 feature"):
        learning("mlp", odd)(TINY["mlp"], b"").step()


def test_a_curve_ends_where_the_training_diverges():
    curve = curve_of(lambda: Script([0.5, 0.25, float("inf"), 0.1]), 4)
    assert curve["values"] == [0.5, 0.25]
    assert len(curve["seconds"]) == 2
    assert curve_of(lambda: Script([1 / 3, 0.2, 0.1]), 2)["values"] == [0.33333, 0.2]


def test_steadiness_is_the_variation_within_and_between_configurations():
    rows = [{"seconds": [4.0, 1.0, 3.0]}, {"seconds": [20.0, 20.0, 20.0]}, {"seconds": [1.0]}]
    assert steadiness(rows) == {"within": 0.25, "first": 1.5, "between": 7.5}


def test_a_recording_is_resumed_and_becomes_a_table(short, tmp_path, monkeypatch):
    data = data_of(2)
    made = []
    measured = record_curves.curve_of

    def interrupted(learner, last):
        if len(made) == 5:
            raise KeyboardInterrupt
        made.append(measured(learner, last))
        return made[-1]

    monkeypatch.setattr(record_curves, "curve_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        record(short, data, tmp_path, count=8)
    monkeypatch.setattr(record_curves, "curve_of", measured)
    path = record(short, data, tmp_path, count=8)
    assert record(short, data, tmp_path, count=8) == path  # nothing to do
    assert list((tmp_path / "partial").iterdir()) == []

    stored = pq.read_table(path)
    assert stored.column("seconds").to_pylist()[:5] == [
        pytest.approx(each["seconds"]) for each in made
    ]
    about = json.loads(stored.schema.metadata[b"farthing"])
    assert (about["task"], about["rows"], about["within"] >= 0) == ("mlp-made", short.rows, True)
    assert about["space"]["width"].startswith("Int(low=8, high=256")

    monkeypatch.setattr(curve_tables, "RECORDED", path.parent)
    load_curves.cache_clear()
    assert curve_names(tmp_path / "nothing") == ["recorded/mlp-made"]
    table = load_curves("recorded/mlp-made", tmp_path)
    assert table.curves[:5] == pytest.approx(np.array([each["values"] for each in made]), rel=1e-6)
    assert table.rate[:5] == pytest.approx([np.mean(each["seconds"]) for each in made], rel=1e-6)
    for row, params in enumerate(sample(short.space, 8)):
        assert table.row_of(table.space.encode(params)) == row
    load_curves.cache_clear()


def test_a_task_that_is_not_recorded_says_which_command_records_it(tmp_path):
    with pytest.raises(NoData, match="python -m benchmarks record-curves"):
        load_curves("recorded/nothing", tmp_path)


def test_the_recordings_are_complete_small_and_of_today():
    names = [name for name in curve_names(curve_tables.RECORDED) if name.startswith("recorded/")]
    assert names
    assert set(names) == {f"recorded/{task}" for task in TASKS}
    assert sum(path.stat().st_size for path in curve_tables.RECORDED.iterdir()) < 2e6
    for name in names:
        table = load_curves(name, curve_tables.RECORDED)
        task = TASKS[name.removeprefix("recorded/")]
        assert table.curves.shape == (record_curves.CONFIGURATIONS, task.last)
        assert np.isfinite(table.curves[:, 0]).all()
        assert table.rate.min() > 0
        assert table.rate.max() / table.rate.min() > 20
        # The sample is that of the space of today.
        first = sample(task.space, 4)
        assert [table.row_of(table.space.encode(params)) for params in first] == [0, 1, 2, 3]


def test_the_command_lists_the_tasks_and_refuses_others(capsys):
    assert record_curves.main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(TASKS)
    with pytest.raises(SystemExit):
        record_curves.main(["--only", "mlp-nothing"])
    assert "no task 'mlp-nothing'" in capsys.readouterr().err


def test_a_task_draws_its_rows_once(monkeypatch, tmp_path):
    whole = data_of(3)
    monkeypatch.setattr(training_curves, "load", lambda *names: whole)
    task = CurveTask("mlp", "openml_7_made", rows=50, test_rows=20)
    one, again = task.load(tmp_path), task.load(tmp_path)
    assert task.name == "mlp-made"
    assert (one.X.shape, one.X_test.shape, one.classes) == ((50, 3), (20, 3), 3)
    np.testing.assert_array_equal(one.X, again.X)
    assert {tuple(x) for x in one.X} <= {tuple(x) for x in whole.X}
