import numpy as np
import pytest

from farthing import InvalidInput
from farthing.cost import Evidence, Linear, ResidualGP, Transfer
from farthing.cost.transfer import _plane
from farthing.space.space import Categorical, Float, Int, Space

SPACE = Space(
    {
        "rounds": Int(1, 256, log=True),
        "depth": Int(1, 16),
        "rate": Float(-1.0, 1.0),
        "kind": Categorical(["tree", "linear"]),
    }
)


def truth(params, rows, level=1.0):
    factor = 4.0 if params["kind"] == "tree" else 1.0
    return level * 1e-5 * params["rounds"] * params["depth"] ** 0.7 * rows**0.9 * factor


def table(tasks=6, each=25, seed=0, noise=0.05, spread=0.3):
    """Earlier tasks, each with a number of rows and a level that no feature explains."""
    rng = np.random.default_rng(seed)
    found = []
    for task in range(tasks):
        rows = int(10 ** rng.uniform(3, 5))
        level = np.exp(spread * rng.standard_normal())
        for x in SPACE.sample(each, rng):
            params = SPACE.decode(x)
            cost = truth(params, rows, level) * np.exp(noise * rng.standard_normal())
            meta = {"rows": rows, "type": ["regression", "classification"][task % 2]}
            found.append({**params, **meta, "task": f"t{task}", "cost": cost})
    return found


def evidence(n, seed=0, rows=20_000, level=2.0):
    rng = np.random.default_rng(1000 + seed)
    X = SPACE.sample(n, rng)
    cost = np.array([truth(SPACE.decode(x), rows, level) for x in X]).reshape(n)
    return Evidence(SPACE, X, cost * np.exp(0.05 * rng.standard_normal(n)), np.zeros(n, dtype=bool))


def error(model, seed=5, rows=20_000, level=2.0):
    new = evidence(200, seed, rows, level)
    return np.sqrt(np.mean((model.log_at(new.X).mean - np.log(new.cost)) ** 2))


# ---------------------------------------------------------------- offline
def test_naive_linear_oracle():  # [transferred-cost]
    space = Space({"rounds": Float(1, 1000, log=True)})
    rows = [
        {"rounds": r, "rows": n, "cost": c}
        for r, n, c in [(10, 1000, 0.2), (100, 1000, 1.5), (10, 10000, 1.4), (200, 10000, 22)]
    ]
    F = np.log([[row["rounds"], row["rows"]] for row in rows])
    plane = _plane(F, np.log([row["cost"] for row in rows]), np.zeros(4, dtype=bool))
    np.testing.assert_allclose(plane.beta, [-9.729189908, 0.902995283, 0.8698003978], rtol=1e-8)
    nothing = Evidence(space, np.zeros((0, 1)), np.zeros(0), np.zeros(0, dtype=bool))
    model = Transfer(rows, here={"rows": 5000}).fit(nothing)
    mean, std = model.log_at(space.encode({"rounds": 50.0})[None])
    assert mean[0] == pytest.approx(1.211606439, rel=1e-8)
    assert np.exp(mean[0]) == pytest.approx(3.35887615, rel=1e-8)
    assert std[0] >= 1.0  # one task says nothing about the level of another: a factor of e
    assert model.trend(np.array([[0.5]])).std == pytest.approx([1.0])


def test_neighbours_oracle():  # [transferred-cost]
    from sklearn.neighbors import KNeighborsRegressor

    space = Space({"rounds": Float(1, 1000, log=True)})
    rows = [
        {"rounds": r, "rows": n, "cost": c}
        for r, n, c in [(10, 1000, 0.2), (100, 1000, 1.5), (10, 10000, 1.4), (200, 10000, 22)]
    ]
    nothing = Evidence(space, np.zeros((0, 1)), np.zeros(0), np.zeros(0, dtype=bool))
    learner = Transfer(rows, here={"rows": 5000}, regressor=KNeighborsRegressor(2))
    at = np.array([space.encode({"rounds": r}) for r in (40.0, 60.0)])
    mean, _ = learner.fit(nothing).log_at(at)  # at 50, two rows are equally far
    np.testing.assert_allclose(mean, np.log([1.4 * 22, 1.5 * 22]) / 2, rtol=1e-9)
    assert np.exp(mean[0]) == pytest.approx(5.54977477, rel=1e-9)


def test_meta_features_extrapolate_to_a_larger_task():
    nothing = evidence(0)
    with_meta = Transfer(table(spread=0.0), here={"rows": 300_000}, task="task").fit(nothing)
    naive = Transfer(table(spread=0.0), task="task").fit(nothing)
    assert error(with_meta, rows=300_000, level=1.0) < 0.2
    assert error(naive, rows=300_000, level=1.0) > 1.5


def test_the_edge_of_the_cube_is_the_last_option():
    model = Transfer(table(), here={"rows": 20_000, "type": "regression"}).fit(evidence(0))
    X = np.full((3, 4), 0.5)
    X[:, 3] = 0.25, 0.75, 1.0  # a tree, linear, linear
    tree, linear, edge = model.log_at(X).mean
    assert edge == linear < tree


def test_only_related_tasks_count():
    rows = [
        row | {"cost": row["cost"] * (50.0 if row["type"] == "classification" else 1.0)}
        for row in table(spread=0.0)
    ]
    here = {"rows": 20_000, "type": "regression"}
    aware = Transfer(rows, here=here, related=["type"], task="task").fit(evidence(0))
    naive = Transfer(rows, here={"rows": 20_000}, task="task").fit(evidence(0))
    one_hot = Transfer(rows, here=here, task="task").fit(evidence(0))
    assert error(aware, level=1.0) < 0.2
    assert error(one_hot, level=1.0) < 0.2
    assert error(naive, level=1.0) > 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["GradientBoostingRegressor", "MLPRegressor", "DecisionTreeRegressor"]
)
def test_any_regressor(name):
    import sklearn.ensemble
    import sklearn.neural_network
    import sklearn.tree

    kinds = {
        "GradientBoostingRegressor": lambda: sklearn.ensemble.GradientBoostingRegressor(
            n_estimators=60, random_state=0
        ),
        "MLPRegressor": lambda: sklearn.neural_network.MLPRegressor(
            hidden_layer_sizes=(20,), solver="lbfgs", max_iter=5000, random_state=0
        ),
        "DecisionTreeRegressor": lambda: sklearn.tree.DecisionTreeRegressor(random_state=0),
    }
    given = kinds[name]()
    rows = table(tasks=16, each=25, spread=0.0)
    learner = Transfer(rows, here={"rows": 20_000}, task="task", regressor=given)
    model = learner.fit(evidence(0))
    assert not hasattr(given, "n_features_in_")  # the user's instance is not fitted
    assert error(model, level=1.0) < 0.9  # a constant is off by 2
    X = evidence(10, 3).X
    _, d_mean, d_std = model.slopes(X)
    assert np.all(np.isfinite(d_mean))
    assert d_mean[:, 0].mean() > 1.0  # ln 256 over the range of rounds, even if piecewise constant
    np.testing.assert_array_equal(d_mean[:, 3], 0.0)
    np.testing.assert_array_equal(d_std, 0.0)


# ---------------------------------------------------------------- from the table to this task
def test_the_level_moves_from_the_table_to_the_costs_of_this_task():
    learner = Transfer(table(), here={"rows": 20_000}, task="task")
    errors = [error(learner.fit(evidence(n)), level=2.0) for n in (0, 1, 3, 10, 30)]
    assert errors[0] > 0.5  # this task is twice as expensive as its features predict
    assert errors[2] < 0.5 * errors[0]
    assert errors[-1] < 0.15
    spreads = [learner.fit(evidence(n)).log_at(evidence(5).X).std[0] for n in (0, 1, 3, 10, 30)]
    assert spreads[0] > 3 * spreads[1] > 3 * spreads[3] / 1.1


def test_the_level_is_the_posterior_of_a_normal_mean():
    learner = Transfer(table(), here={"rows": 20_000}, task="task")
    given = evidence(4)
    model = learner.fit(given)
    offline = learner.fit(evidence(0)).log_at(given.X).mean
    v, s = model.offline.level**2, model.noise**2
    precision = 1 / v + 4 / s
    expected = offline + (np.log(given.cost) - offline).sum() / s / precision
    np.testing.assert_allclose(model.trend(given.X).mean, expected, rtol=1e-9)
    np.testing.assert_allclose(model.trend(given.X).std, np.sqrt(1 / precision), rtol=1e-9)


def test_a_process_on_the_residuals_learns_the_shape():
    """The cost of this task has a curvature that the table lacks."""

    def bent(n, seed):
        given = evidence(n, seed)
        return given._replace(cost=given.cost * np.exp(1.5 * np.sin(6 * given.X[:, 2])))

    learner = Transfer(table(), here={"rows": 20_000}, task="task")
    new = bent(200, 9)
    level, shape = (
        np.sqrt(np.mean((each.fit(bent(40, 1)).log_at(new.X).mean - np.log(new.cost)) ** 2))
        for each in (learner, ResidualGP(learner))
    )
    assert shape < 0.5 * level


def test_a_table_helps_before_the_tenth_cost_and_little_after():
    """The result of Guinet et al. 2020, appendix B."""
    learner = Transfer(table(), here={"rows": 20_000}, task="task")
    few = [
        np.mean([error(each.fit(evidence(3, s))) for s in range(5)]) for each in (learner, Linear())
    ]
    assert few[0] < 0.5 * few[1]


def test_killed_rows_of_the_table_are_bounds():
    rows = table(spread=0.0, noise=0.01)
    limit = np.median([row["cost"] for row in rows])
    cut = [
        row
        | {"cost": min(row["cost"], limit), "state": "killed" if row["cost"] > limit else "done"}
        for row in rows
    ]
    taken = [{k: v for k, v in row.items() if k != "state"} for row in cut]
    wrong = [
        error(Transfer(t, here={"rows": 20_000}, task="task").fit(evidence(0)), level=1.0)
        for t in (cut, taken)
    ]
    assert wrong[0] < 0.5 * wrong[1]


def test_left_out_is_fitting_the_others():
    learner = Transfer(table(), here={"rows": 20_000}, task="task")
    given = evidence(8)
    model = learner.fit(given)
    mean, _ = model.left_out()
    v, s = model.offline.level**2, model.noise**2
    rest = np.log(given.cost) - model.offline.mean(given.X)
    for i in range(8):
        others = np.delete(rest, i)
        expected = model.offline.mean(given.X)[i] + others.sum() * v / (7 * v + s)
        assert mean[i] == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- tables
def test_the_data_frame_of_a_study_is_a_valid_table():
    import pandas as pd

    rows = table()
    frame = pd.DataFrame(rows).rename(columns={name: f"param_{name}" for name in SPACE.names})
    one = Transfer(rows, here={"rows": 20_000}, task="task").fit(evidence(3)).log_at(evidence(5).X)
    two = Transfer(frame, here={"rows": 20_000}, task="task").fit(evidence(3)).log_at(evidence(5).X)
    np.testing.assert_allclose(one.mean, two.mean, rtol=1e-9)


def test_rows_without_a_cost_are_left_out():
    rows = table()
    more = [*rows, {**rows[0], "cost": None}, {**rows[0], "cost": float("nan")}]
    assert len(Transfer(more).table) == len(rows)


def test_a_parameter_that_the_table_lacks_is_reported():
    rows = [{k: v for k, v in row.items() if k not in ("rate", "kind")} for row in table()]
    model = Transfer(rows, here={"rows": 20_000}, task="task").fit(evidence(2))
    assert model.because == "the transfer table lacks rate, kind"
    assert np.all(np.isfinite(model.log_at(evidence(5).X).mean))


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"cost": "seconds"}, "no column 'seconds'"),
        ({}, {"here": {"columns": 5}}, "no column 'columns'"),
        ({}, {"task": "data"}, "no column 'data'"),
        ({}, {"related": ["type"]}, "Add it to here="),
        ({}, {"here": {"type": "ranking"}, "related": ["type"]}, "No row of the transfer table"),
        ({"cost": -1.0}, {}, "expected a positive number"),
        ({"cost": "high"}, {}, "expected a positive number"),
        ({"rows": None}, {"here": {"rows": 5}}, "no 'rows' in"),
        ({}, {"regressor": Linear}, "expected an instance with fit and predict"),
    ],
)
def test_invalid_tables(change, arguments, message):
    rows = table(tasks=2, each=3)
    rows[1] |= change
    with pytest.raises(InvalidInput, match=message):
        Transfer(rows, **arguments)


def test_a_table_of_other_parameters():
    rows = [{"width": 3, "cost": 1.0}, {"width": 5, "cost": 2.0}]
    with pytest.raises(InvalidInput, match="none of the parameters"):
        Transfer(rows).fit(evidence(0))
    rows = [row | {"rounds": "many"} for row in table(tasks=1, each=3)]
    with pytest.raises(InvalidInput, match="rounds='many'"):
        Transfer(rows).fit(evidence(0))
    with pytest.raises(InvalidInput, match="has no rows"):
        Transfer([])


def test_with_few_rows_features_are_selected():
    model = Transfer(table(tasks=1, each=5)).fit(evidence(0))
    assert np.all(np.isfinite(model.log_at(evidence(5).X).mean))
