"""`Steps`: the steps of a training, and those at which the tuner decides."""

import pytest

from farthing import Optimizer, Steps
from farthing.errors import InvalidInput
from farthing.history import CurvePoint
from farthing.space.space import Float


@pytest.mark.parametrize(
    ("steps", "rungs"),
    [
        (Steps(51), (1, 2, 4, 8, 16, 32, 51)),
        (Steps(51, first=3), (3, 6, 12, 24, 48, 51)),
        (Steps(32), (1, 2, 4, 8, 16, 32)),
        (Steps(1), (1,)),
        (Steps(5, first=5), (5,)),
        (Steps(51, rungs=(1, 3, 9, 27)), (1, 3, 9, 27, 51)),
        (Steps(27, rungs=(1, 3, 9, 27)), (1, 3, 9, 27)),
        (Steps(27, rungs=()), (27,)),
    ],
)
def test_the_tuner_decides_at_doubling_steps_and_at_the_last_one(steps, rungs):
    assert steps.decision_steps == rungs
    assert [steps.next_rung(step) for step in (0, *rungs[:-1])] == list(rungs)


@pytest.mark.parametrize(
    "wrong",
    [
        {"last": 0},
        {"last": 2.5},
        {"last": True},
        {"last": 5, "first": 6},
        {"last": 5, "first": 0},
        {"last": 5, "value": "mean"},
        {"last": 5, "resume": "often"},
        {"last": 5, "resume": -1.0},
        {"last": 5, "resume": True},
        {"last": 5, "resume": float("nan")},
        {"last": 5, "rungs": (3, 1)},
        {"last": 5, "rungs": (0, 1)},
        {"last": 5, "rungs": (1, 6)},
        {"last": 5, "rungs": (1.5,)},
        {"last": 5, "rungs": (1, 3), "first": 2},
        {"last": 5, "checkpoints": "20 apples"},
        {"last": 5, "checkpoints": -1},
        {"last": 5, "checkpoints": True},
        {"last": 5, "checkpoints": float("inf")},
        {"last": 5, "checkpoints": "20GB", "resume": "never"},
    ],
)
def test_impossible_steps_are_refused(wrong):
    with pytest.raises(InvalidInput, match=r"expected|no effect"):
        Steps(**wrong)


@pytest.mark.parametrize("rungs", [3, "1,3", b"13", 2.5])
def test_rungs_are_a_sequence_of_steps(rungs):
    with pytest.raises(InvalidInput, match=r"Steps\(rungs=.*\): expected a sequence of steps"):
        Steps(20, rungs=rungs)


@pytest.mark.parametrize("steps", [(1, 3, 9), [1, 3, 9], range(1, 9)])
def test_the_rungs_are_not_the_last_step(steps):
    with pytest.raises(InvalidInput, match=r"^steps=.*: expected the last step.*rungs=\(1, 3, 9"):
        Optimizer({"lr": Float(0.1, 0.9)}, budget="$1", steps=steps)


def test_the_value_of_a_curve_is_its_best_or_its_last_one():
    curve = tuple(CurvePoint(step, value, {}) for step, value in enumerate((3.0, 1.0, 2.0), 1))
    assert Steps(3).value_of(curve, sign=1.0) == 1.0
    assert Steps(3).value_of(curve, sign=-1.0) == 3.0
    assert Steps(3, value="last").value_of(curve, sign=1.0) == 2.0
    assert Steps(3).value_of((), sign=1.0) is None


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (None, None),
        (0, 0.0),
        (1500, 1500.0),
        ("1500", 1500.0),
        ("7 B", 7.0),
        ("20GB", 20e9),
        ("1.5 kB", 1500.0),
        ("2MiB", 2 * 1024.0**2),
        (".5 tb", 5e11),
    ],
)
def test_the_limit_of_checkpoints_is_a_size(given, size):
    assert Steps(5, checkpoints=given).checkpoint_bytes == size


def test_a_number_of_steps_is_the_last_one():
    space = {"lr": Float(0.0, 1.0)}
    assert Optimizer(space, steps=51)._settings.steps == Steps(51)
    assert Optimizer(space)._settings.steps is None
    with pytest.raises(InvalidInput, match="whole number"):
        Optimizer(space, steps="51")
