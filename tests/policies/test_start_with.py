import numpy as np
import pytest

from farthing import Categorical, Float, InvalidInput, Optimizer, Space
from farthing.policies import EI, CArBO, Gittins, Random, StartWith

SPACE = Space({"x": Float(2, 5), "kind": Categorical(["a", "b"])})
POINTS = [{"x": 3.0, "kind": "b"}, {"x": 4.5, "kind": "a"}, {"x": 2.0, "kind": "a"}]


@pytest.mark.parametrize("noisy", [False, True])
def test_the_given_points_come_first_once_each_and_in_order(noisy):
    optimizer = Optimizer(SPACE, policy=StartWith(POINTS, then=Random()), noisy=noisy)
    suggested = []
    for _ in range(5):
        trial = optimizer.ask()
        suggested.append(trial.params)
        optimizer.tell(trial, trial.params["x"])
    assert suggested[:3] == POINTS
    assert all(params not in POINTS for params in suggested[3:])
    history = optimizer.history
    assert history[1].because == "point 2 of 3 that the user gave to start with"
    assert [trial.is_start for trial in history] == [True, True, True, False, False]


def test_points_of_a_batch_differ():
    optimizer = Optimizer(SPACE, policy=StartWith(POINTS, then=Random()))
    assert [trial.params for trial in optimizer.ask(4)][:3] == POINTS


def test_then_the_next_policy_continues_as_if_it_had_started():
    def run(policy, given):
        optimizer = Optimizer(SPACE, policy=policy, seed=3)
        for params in POINTS[:given]:
            optimizer.add(params, params["x"] ** 2)
        for _ in range(6):
            trial = optimizer.ask()
            optimizer.tell(trial, trial.params["x"] ** 2)
        return np.array([trial.x for trial in optimizer.history])

    alone = run(EI(), 3)
    np.testing.assert_array_equal(run(StartWith(POINTS, then=EI()), 3), alone)


def test_an_imported_point_is_not_suggested_again():
    optimizer = Optimizer(SPACE, policy=StartWith(POINTS, then=Random()))
    optimizer.add(POINTS[0], 1.0)
    assert optimizer.ask().params == POINTS[1]


def test_unaffordable_points_are_skipped():
    optimizer = Optimizer(
        SPACE, budget=4.0, cost=lambda p: p["x"], policy=StartWith(POINTS, then=EI())
    )
    assert [trial.params for trial in (optimizer.ask(),)] == [POINTS[0]]
    optimizer = Optimizer(
        SPACE, budget=2.5, cost=lambda p: p["x"], policy=StartWith(POINTS, then=EI())
    )
    assert optimizer.ask().params == POINTS[2]


def test_it_needs_what_the_next_policy_needs():
    for policy in (EI(), CArBO(), Gittins(), Random()):
        both = StartWith(POINTS, then=policy)
        assert (both.needs, both.reads) == (
            policy.needs - {"model"},  # the given points need none
            policy.reads | (policy.needs & {"model"}),
        )


def test_bad_points_are_refused():
    with pytest.raises(InvalidInput, match="there are no points"):
        StartWith([], then=EI())
    optimizer = Optimizer(SPACE, policy=StartWith([{"x": 9.0, "kind": "a"}], then=EI()))
    with pytest.raises(InvalidInput, match="x"):
        optimizer.ask()
