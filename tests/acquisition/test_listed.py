"""The configurations that a new training may have."""

from dataclasses import replace

import numpy as np
import pytest

from farthing import Categorical, Float, Int, Optimizer, Space, Steps
from farthing.acquisition.staged_search import LISTED, TOO_SIMILAR, StagedSearch, listed
from farthing.history import History
from farthing.policies import StagedGittins
from tests.acquisition.test_trainings import belief_of, some_trainings, training

SPACE = Space({"b": Float(0, 1), "a": Float(0, 1)})


def with_space(belief, space, tried=()):
    history = History(tuple(training(i, x, [1.0]) for i, x in enumerate(tried)))
    return replace(belief, space=space, history=history, seed=3)


@pytest.fixture
def belief():
    return belief_of(*some_trainings(4))


@pytest.mark.parametrize(("d", "count"), [(1, 16), (2, 64), (3, 256), (4, LISTED), (9, LISTED)])
def test_they_cover_a_continuous_space_and_leave_a_gap(belief, d, count):
    X = listed(with_space(belief, Space({f"p{j}": Float(0, 1) for j in range(d)})))
    assert len(X) == count
    gap = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    np.fill_diagonal(gap, np.inf)
    assert gap.min() > 0.1 * count ** (-1 / d)
    assert gap.min(axis=1).max() < 2.0 * np.sqrt(d) * count ** (-1 / d)


def test_permuted_parameters_have_the_same_list_and_seeds_have_others(belief):
    X = listed(with_space(belief, SPACE))
    swapped = listed(with_space(belief, Space({"a": Float(0, 1), "b": Float(0, 1)})))
    assert sorted(map(tuple, X[:, ::-1])) == sorted(map(tuple, swapped))
    other = listed(replace(with_space(belief, SPACE), seed=4))
    assert not {*map(tuple, other)} & {*map(tuple, X)}


def test_a_tried_point_is_not_listed_and_the_list_doubles_once_all_are_tried(belief):
    X = listed(with_space(belief, SPACE))
    rounded = X[:2] * (1.0 + 1e-15)  # as after storing the parameters
    left = listed(with_space(belief, SPACE, rounded))
    assert {*map(tuple, X)} - {*map(tuple, left)} == {*map(tuple, X[:2])}
    many = listed(with_space(belief, SPACE, X))
    assert len(many) == len(X)
    assert not {*map(tuple, many)} & {*map(tuple, X)}


def test_a_grid_is_listed_as_a_whole_until_nothing_is_left(belief):
    grid = Space({"n": Int(1, 3), "kind": Categorical(["p", "q"])})
    X = listed(with_space(belief, grid))
    assert len(X) == 6
    assert len(listed(with_space(belief, grid, X[1:]))) == 1
    assert len(listed(with_space(belief, grid, X))) == 0


def test_trainings_of_a_continuous_space_are_completed_instead_of_begun_again():
    """Next to a paused training there is always a new one that looks as good for a first rung."""
    names = "abcd"
    optimizer = Optimizer(
        {name: Float(0, 1) for name in names},
        budget=270,
        steps=Steps(27),
        policy=StagedGittins(),
        seed=0,
    )
    while optimizer.ledger.left >= 1 and not optimizer.verdict.stop:
        trial = optimizer.ask()
        x = np.array([trial.params[name] for name in names])
        final = 0.05 + ((x - [0.3, 0.4, 0.5, 0.6]) ** 2).sum()
        falling = (1.0 + 0.5 * np.sin(5 * x[1])) * np.exp(-(0.3 + 0.5 * x[0]) * trial.until**0.5)
        optimizer.tell(trial, final + falling, cost=trial.until - trial.step)
    X = np.array([[trial.params[name] for name in names] for trial in optimizer.history])
    gap = np.abs(X[:, None] - X).max(axis=2)
    np.fill_diagonal(gap, np.inf)
    assert gap.min() > 0.01  # the smallest was 2e-4 with a search for the best new point
    assert len(optimizer.history.done) >= 2  # and none was complete


def test_the_list_is_refined_once_two_trainings_are_complete(belief):
    """With points of the whole space that are unlike the trainings that wait."""
    many = some_trainings(7)
    assert [t.state for t in many[:3]] == ["done", "done", "paused"]
    few = [replace(training, number=i) for i, training in enumerate(many[1:])]
    few, many = (belief_of(*trainings).in_one_unit() for trainings in (few, many))
    searches = [StagedSearch(each, each.trainings) for each in (few, many)]
    for search in searches:
        search.smallest(1e-3)
    (new,) = searches[0].new
    known = {*map(tuple, listed(few))}
    assert {*map(tuple, new.x)} <= known
    (new,) = searches[1].new
    refined = np.array([x for x in new.x if tuple(x) not in {*map(tuple, listed(many))}])
    assert len(refined)
    curves = many.trainings.curves
    waiting = curves.reached() < len(curves.steps)
    assert waiting.any()
    assert curves.similarity(new.x)[:, waiting].max() < TOO_SIMILAR
