"""The import of external rows: values, failures, lower bounds, costs, and ignored rows."""

import pytest

from farthing import Float, InvalidInput, Optimizer, Outcome, minimize
from farthing.data.importing import Imported
from farthing.policies import Random
from farthing.replay import replay
from farthing.stopping import NoImprovement

LINE = {"x": Float(0, 1)}


def made(budget="$9", **settings):
    return Optimizer(LINE, budget, policy=Random(), **settings)


def test_equal_rows_are_counted():
    """A repeated measurement is imported, but the same file again is not."""
    optimizer = made(noisy=True)
    rows = [{"x": 0.5, "value": 1.0}, {"x": 0.5, "value": 1.0}, {"x": 0.25, "value": 2.0}]
    assert optimizer.import_trials(rows).taken == 3
    again = optimizer.import_trials([*rows, {"x": 0.5, "value": 1.0}])
    assert (again.taken, again.known) == (1, 3)
    assert len(optimizer.history) == 4


def test_a_trial_of_this_study_is_not_imported_again():
    optimizer = made()
    trial = optimizer.ask()
    optimizer.tell(trial, 1.5, cost=2.0)
    rows = [{**trial.params, "value": 1.5, "cost": 2.0}]
    found = optimizer.import_trials(rows)
    assert (found.taken, found.known) == (0, 1)
    assert found.trials == ()
    assert str(found) == "Imported: nothing new.\nAlready imported: 1 row."


def test_different_costs_at_one_point_are_imported_once_each():
    optimizer = made()
    rows = [
        {"x": 0.5, "cost": 1.0},
        {"x": 0.5, "cost": 2.0},
        {"x": 0.5, "cost": 2.0, "censored": 1},
    ]
    assert optimizer.import_trials(rows, values=False).taken == 3
    assert optimizer.import_trials(rows, values=False).known == 3
    assert len(optimizer._look().prices) == 3


def test_an_optimizer_without_finished_trials_can_be_imported():
    other = made()
    other.ask()
    found = made().import_trials(other)
    assert (found.taken, [why for _, why in found.ignored]) == (
        0,
        ["the trial is running, so its cost is incomplete."],
    )


def test_many_ignored_rows_are_counted():
    rows = [{"x": 0.5, "value": 1.0}, *({"x": 2.0 + k, "value": 1.0} for k in range(5))]
    found = made().import_trials(rows)
    assert found.taken == 1
    lines = str(found).splitlines()
    assert lines[:2] == ["Imported: 1 value.", "Ignored: 5 rows."]
    assert lines[-1] == "  and 2 more"
    assert [number for number, _ in found.ignored] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("rows", [[], [{"x": 0.5}], [{"x": 0.5, "cost": 2.0}]])
def test_rows_without_values_are_refused(rows):
    optimizer = made()
    with pytest.raises(InvalidInput, match="no column 'value'"):
        optimizer.import_trials(rows)
    with pytest.raises(InvalidInput, match="nothing would be imported"):
        optimizer.import_trials(rows, values=False, costs=False)


def test_the_error_lists_the_columns():
    with pytest.raises(InvalidInput, match=r"the columns are x, score, cost\. Rename"):
        made().import_trials([{"x": 0.5, "score": 1.0}, {"x": 0.5, "cost": 2.0}])
    with pytest.raises(InvalidInput, match=r"the columns are none\. Rename"):
        made().import_trials([])


def test_columns_without_effect_are_listed():
    assert str(Imported(unread=("a", "b"))) == (
        "Imported: nothing new.\nColumns without effect: a, b."
    )


def test_a_result_of_minimize_is_imported_and_replayed():
    def objective(params):
        return Outcome(params["x"], cost=1.0)

    result = minimize(objective, LINE, budget="$9", policy=Random())
    assert made().import_trials(result).taken == len(result.history) > 0
    assert replay(result, NoImprovement(window=2)) == replay(
        result.history, NoImprovement(window=2)
    )
