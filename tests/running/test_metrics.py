"""Metrics: the keys of a result besides its value and its cost."""

import json
import math

import numpy as np
import pytest

from farthing import Outcome
from farthing.running import (
    Allowance,
    CallableTask,
    CommandTask,
    InProcess,
    Job,
    ProcessGroup,
    report_progress,
)
from farthing.running.output import MAX_METRICS, metrics_of


def test_other_keys_are_metrics_and_the_known_ones_are_not():
    result = {
        "loss": 1,
        "accuracy": 0.5,
        "cost": 2,
        "step": 3,
        "failed": False,
        "infrastructure": 0,
    }
    assert metrics_of(result, "loss") == {"accuracy": 0.5}
    assert metrics_of({"value": 1, "f1": math.nan, "deep": {"a": [math.inf]}}, "value") == {
        "f1": None,
        "deep": {"a": [None]},
    }


def test_the_size_of_the_metrics_is_limited():
    result = {str(i): "x" * 1000 for i in range(100)}
    kept = metrics_of(result, "value")
    assert 0 < len(kept) < 100
    assert list(kept) == list(result)[: len(kept)]
    assert len(json.dumps(kept)) <= MAX_METRICS < len(json.dumps(kept)) + 2000


def engines(objective):
    return [InProcess(objective), ProcessGroup(CallableTask(objective))]


@pytest.mark.parametrize("which", [0, 1])
def test_an_outcome_may_have_metrics(which):
    metrics = {"accuracy": np.float64(0.5), "n": np.int64(3), "name": "a", "value": 9, "cost": 9}
    engine = engines(lambda params: Outcome(1.0, cost=2.0, metrics=metrics))[which]
    finished = engine.run(Job({}, 0, 0), Allowance(0.5, lambda usage: None))
    assert (finished.state, finished.value, finished.cost) == ("done", 1.0, {"": 2.0})
    assert finished.metrics == {"accuracy": 0.5, "n": 3, "name": "a"}


@pytest.mark.parametrize("which", [0, 1])
def test_a_trial_may_report_though_nobody_listens(which):
    def reports(params):
        report_progress(1, 0.5)
        return 1.0

    finished = engines(reports)[which].run(Job({}, 0, 0), Allowance(0.5, lambda usage: None))
    assert (finished.state, finished.value) == ("done", 1.0)
    assert [report["step"] for report in finished.reports] == [1]


@pytest.mark.parametrize("metrics", [3, [1], "accuracy"])
def test_invalid_metrics(metrics):
    engine = engines(lambda params: Outcome(1.0, metrics=metrics))[0]
    finished = engine.run(Job({}, 0, 0), Allowance(0.5, lambda usage: None))
    assert finished.state == "failed"
    assert "its metrics are" in finished.error


def test_a_failure_has_metrics_too():
    script = 'echo \'{"failed": "diverged", "epoch": 7}\''
    engine = ProcessGroup(CommandTask(["sh", "-c", script]))
    finished = engine.run(Job({}, 0, 0), Allowance(0.5, lambda usage: None))
    assert (finished.state, finished.metrics) == ("failed", {"epoch": 7})
