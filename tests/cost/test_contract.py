"""The contract of every cost learner in the folder."""

import dataclasses
import importlib
import json
import pkgutil

import numpy as np
import pytest
from oracles import differences

from farthing import cost as folder
from farthing.cost import Evidence
from farthing.errors import InvalidInput
from farthing.space.space import Categorical, Float, Int, Ordinal, Space

MIXED = Space(
    {
        "rate": Float(1e-4, 1e-1, log=True),
        "depth": Int(2, 9),
        "batch": Ordinal([16, 64, 256], log=True),
        "solver": Categorical(["sgd", "adam", "lbfgs"]),
        "momentum": Float(0.1, 0.9, when={"solver": "sgd"}),
        "share": Float(0.2, 0.8),
    }
)
NUMBERS = Space({"a": Float(3, 7), "b": Float(-2, 5), "c": Float(1e-3, 10.0, log=True)})
TABLE = Space.from_rows([{"n": n, "kind": kind} for n in (8, 16, 64, 128) for kind in "xyz"])
SPACES = {"mixed": MIXED, "numbers": NUMBERS, "table": TABLE}


def learners_of(module):
    """The learners of a file: what it exports that can be fitted."""
    found = importlib.import_module(f"farthing.cost.{module}")
    classes = [getattr(found, name) for name in found.__all__]
    return [c for c in classes if dataclasses.is_dataclass(c) and hasattr(c, "fit")]


MODULES = [m.name for m in pkgutil.iter_modules(folder.__path__) if learners_of(m.name)]


def true_cost(space, X):
    """Positive, smooth in the unit cube, about 1 to 100."""
    return np.exp(1.0 + X @ np.linspace(1.5, 0.5, space.d))


class Price:
    """The same cost as a function of the parameters, in any unit."""

    def __init__(self, space, unit=1.0):
        self.space = space
        self.unit = unit

    def __call__(self, params):
        return self.unit * float(true_cost(self.space, self.space.encode(params)[None])[0])


class Work:
    """Two counts whose weighted sum is the true cost."""

    def __init__(self, space):
        self.space = space

    def __call__(self, params):
        x = self.space.encode(params)
        return float(true_cost(self.space, x[None])[0]), float(x[0])


def earlier(space, unit):
    """Rows with the costs of two tasks, each with its own level."""
    rng = np.random.default_rng(99)
    X = space.sample(60, rng)
    cost = unit * true_cost(space, X) * np.where(np.arange(60) < 30, 3.0, 0.5)
    cost *= np.exp(0.1 * rng.standard_normal(60))
    return [
        {**space.decode(x), "cost": float(c), "task": int(i < 30)}
        for i, (x, c) in enumerate(zip(X, cost, strict=True))
    ]


# Arguments of the learners that need some.
ARGUMENTS = {
    "Known": lambda space, unit: (Price(space, unit),),
    "Flops": lambda space, unit: (Work(space),),
    "Transfer": lambda space, unit: (earlier(space, unit), {}, (), "cost", "task"),
}


def learner(module, space, unit=1.0):
    """The one learner of a module, with arguments only if it has no defaults."""
    (found,) = learners_of(module)
    return found(*ARGUMENTS.get(found.__name__, lambda space, unit: ())(space, unit))


def evidence(space, n, unit=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = space.sample(n, rng)
    cost = unit * true_cost(space, X) * np.exp(0.1 * rng.standard_normal(n))
    return Evidence(space, X, cost, np.zeros(n, dtype=bool))


@pytest.fixture(params=MODULES)
def module(request):
    return request.param


@pytest.fixture(params=SPACES)
def space(request):
    return SPACES[request.param]


def test_the_folder_is_the_list():
    names = {learners_of(module)[0].__name__ for module in MODULES}
    assert {"Known", "LogGP", "Linear", "PointEstimate", "Flops", "ResidualGP", "AutoCost"} <= names
    assert names <= set(folder.__all__)
    # `model`, `calibration` and `part` are no learners.
    assert len(names) == len(MODULES) == len(list(pkgutil.iter_modules(folder.__path__))) - 3


def test_learners_and_models_are_frozen_values(module, space):
    made = learner(module, space)
    model = made.fit(evidence(space, 8))
    for value in (made, model):
        assert dataclasses.is_dataclass(value)
        assert type(value).__dataclass_params__.frozen
    assert repr(made).startswith(type(made).__name__)


def test_predictions_have_the_right_shapes_and_are_finite(module, space):
    X = space.sample(7, np.random.default_rng(1))
    model = learner(module, space).fit(evidence(space, 12))
    mean, std = model.log_at(X)
    assert mean.shape == std.shape == (7,)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
    assert np.all(std >= 0)
    normal, d_mean, d_std = model.slopes(X)
    np.testing.assert_allclose(normal.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(normal.std, std, rtol=1e-6)
    assert d_mean.shape == d_std.shape == X.shape
    assert np.all(np.isfinite(d_mean))
    assert np.all(np.isfinite(d_std))


def assert_sound(model, space):
    """Finite with gradients, before and after one more cost, and its memory is JSON."""
    X = space.sample(5, np.random.default_rng(2))
    for each in (model, model.condition(X[0], 3.0)):
        normal, d_mean, d_std = each.slopes(X)
        for numbers in (*each.log_at(X), *normal, d_mean, d_std):
            assert np.all(np.isfinite(numbers))
        assert np.all(normal.std >= 0)
    json.dumps(model.memory)


@pytest.mark.slow
@pytest.mark.parametrize("n", [*range(8), 12, 29, 30, 31, 60])
def test_few_and_many_costs_give_a_model_or_none(module, space, n):
    model = learner(module, space).fit(evidence(space, n))
    if model is None:
        assert n < 2
    else:
        assert_sound(model, space)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 5, 20])
@pytest.mark.parametrize(
    "hard", ["equal costs", "equal points", "both equal", "six decades", "killed", "nearly all"]
)
def test_hard_inputs(module, space, n, hard):
    given = evidence(space, n, seed=3)
    rng = np.random.default_rng(4)
    if hard in ("equal costs", "both equal"):
        given = given._replace(cost=np.full(n, 7.0))
    if hard in ("equal points", "both equal"):
        given = given._replace(X=np.tile(given.X[:1], (n, 1)))
    if hard == "six decades":
        given = given._replace(cost=10.0 ** rng.uniform(-3, 3, n))
    if hard in ("killed", "nearly all"):
        bounds = np.ones(n, dtype=bool) if hard == "killed" else np.arange(n) != 1
        given = given._replace(at_least=bounds)
    model = learner(module, space).fit(given)
    if model is None:
        assert n < 2
    else:
        assert_sound(model, space)


def test_six_decades_are_learnt(module):
    """A cost from 1e-3 to 1e3."""

    def decades(X):
        return 10.0 ** (6 * X[:, 2] - 3)

    X = NUMBERS.sample(40, np.random.default_rng(5))
    given = Evidence(NUMBERS, X, decades(X), np.zeros(40, dtype=bool))
    if module in ("known", "flops", "transfer"):
        return  # they have been given a different cost
    Xs = NUMBERS.sample(30, np.random.default_rng(6))
    mean, _ = learner(module, NUMBERS).fit(given).log_at(Xs)
    assert np.sqrt(np.mean((mean - np.log(decades(Xs))) ** 2)) < 0.3


@pytest.mark.parametrize("cost", [0.0, -1.0, np.nan, np.inf])
def test_an_invalid_cost_is_rejected(module, space, cost):
    given = evidence(space, 6)
    given.cost[2] = cost
    if module != "known":
        with pytest.raises(InvalidInput, match="expected a positive number"):
            learner(module, space).fit(given)


def test_it_learns(module):
    """Its error is below that of a constant, which is half a unit in ln c."""
    Xs = NUMBERS.sample(60, np.random.default_rng(3))
    mean, _ = learner(module, NUMBERS).fit(evidence(NUMBERS, 40)).log_at(Xs)
    error = mean - np.log(true_cost(NUMBERS, Xs))
    assert np.log(true_cost(NUMBERS, Xs)).std() > 0.4
    assert np.sqrt(np.mean(error**2)) < 0.15


def test_slopes_equal_finite_differences_on_continuous_coordinates(module):
    model = learner(module, MIXED).fit(evidence(MIXED, 30))
    X = MIXED.snap(0.02 + 0.96 * np.random.default_rng(4).random((20, MIXED.d)))
    _, d_mean, d_std = model.slopes(X)
    sgd = X[:, 3] < 1 / 3
    for j, rows in [(0, slice(None)), (5, slice(None)), (4, sgd)]:
        by_mean = differences(lambda S: model.log_at(S).mean, X, 1e-5)[rows, j]
        by_std = differences(lambda S: model.log_at(S).std, X, 1e-5)[rows, j]
        np.testing.assert_allclose(d_mean[rows, j], by_mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(d_std[rows, j], by_std, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(d_mean[:, 3], 0.0)  # options have no direction
    np.testing.assert_array_equal(d_std[:, 3], 0.0)


def test_one_more_cost_is_a_new_model_that_moves_towards_it(module, space):
    model = learner(module, space).fit(evidence(space, 8))
    x = space.sample(1, np.random.default_rng(5))
    before = model.log_at(x).mean[0]
    for factor in (20.0, 1 / 20):
        after = model.condition(x[0], factor * np.exp(before)).log_at(x).mean[0]
        assert model.log_at(x).mean[0] == before
        if module != "known":
            assert (after - before) * np.log(factor) > 0
            assert abs(after - before) < 1.01 * abs(np.log(factor))


@pytest.mark.slow
def test_the_unit_of_cost_does_not_matter(module, space):
    X = space.sample(10, np.random.default_rng(6))
    one = learner(module, space).fit(evidence(space, 12)).log_at(X)
    for unit in (1e-6, 3600.0, 1e6):
        other = learner(module, space, unit).fit(evidence(space, 12, unit)).log_at(X)
        np.testing.assert_allclose(other.mean, one.mean + np.log(unit), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(other.std, one.std, rtol=1e-5, atol=1e-9)


@pytest.mark.slow
def test_the_order_of_the_evidence_does_not_matter(module, space):
    X = space.sample(10, np.random.default_rng(7))
    given = evidence(space, 12)
    order = np.random.default_rng(8).permutation(12)
    turned = given._replace(X=given.X[order], cost=given.cost[order])
    one = learner(module, space).fit(given).log_at(X)
    other = learner(module, space).fit(turned).log_at(X)
    np.testing.assert_allclose(other.mean, one.mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(other.std, one.std, rtol=1e-5, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixed", "numbers", "table"])
def test_the_order_of_the_parameters_does_not_matter(module, kind):
    one = SPACES[kind]
    if kind == "table":
        two = Space.from_rows([dict(reversed(one.decode(x).items())) for x in one.rows])
    else:
        two = Space(dict(reversed(one.parameters.items())))
    given = evidence(one, 14)

    def turned(X):
        return np.array([two.encode(one.decode(x)) for x in X])

    def other_cost(params):
        return Price(one)(params)

    X = one.sample(10, np.random.default_rng(11))
    first = learner(module, one).fit(given).log_at(X)
    (kind_of,) = learners_of(module)
    arguments = {
        "Known": lambda: (other_cost,),
        "Flops": lambda: (Work(one),),
        "Transfer": lambda: (earlier(one, 1.0), {}, (), "cost", "task"),
    }.get(kind_of.__name__, tuple)()
    second = (
        kind_of(*arguments)
        .fit(Evidence(two, turned(given.X), given.cost, given.at_least))
        .log_at(turned(X))
    )
    np.testing.assert_allclose(second.mean, first.mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second.std, first.std, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_censored_costs_raise_predictions(module, space):
    """A third of the costs are cut to a fifth. As lower bounds they give higher predictions than as
    exact costs.
    """
    given = evidence(space, 30)
    cut = np.arange(30) % 3 == 0
    cost = np.where(cut, given.cost / 5, given.cost)
    X = space.sample(40, np.random.default_rng(12))
    as_exact = learner(module, space).fit(given._replace(cost=cost)).log_at(X).mean
    as_bounds = learner(module, space).fit(given._replace(cost=cost, at_least=cut)).log_at(X).mean
    if module == "known":
        np.testing.assert_array_equal(as_bounds, as_exact)
        return
    truth = np.log(true_cost(space, X))
    assert np.mean(as_bounds) > np.mean(as_exact) + 0.1
    assert np.sqrt(np.mean((as_bounds - truth) ** 2)) < np.sqrt(np.mean((as_exact - truth) ** 2))


def test_left_out_costs_are_predicted_with_the_right_spread(module, space):
    model = learner(module, space).fit(evidence(space, 30))
    if hasattr(model, "left_out"):
        mean, std = model.left_out()
        z = (np.log(evidence(space, 30).cost) - mean) / std
        assert mean.shape == std.shape == (30,)
        assert 0.5 < np.sqrt(np.mean(z**2)) < 1.7
    if hasattr(model, "about"):
        assert isinstance(model.because, str)
        assert model.about


@pytest.mark.slow
def test_a_killed_evaluation_never_makes_its_point_look_cheaper(module, space):
    given = evidence(space, 12)
    killed = given._replace(at_least=np.arange(12) == 4)
    one, other = (learner(module, space).fit(e).log_at(given.X[4:5]) for e in (given, killed))
    assert other.mean[0] >= one.mean[0] - 0.05


@pytest.mark.slow
def test_memory_is_plain_json_and_gives_the_same_model(module, space):
    made = learner(module, space)
    first = made.fit(evidence(space, 38))
    stored = json.loads(json.dumps(first.memory))
    assert stored == first.memory
    X = space.sample(10, np.random.default_rng(9))
    one = made.fit(evidence(space, 40)._replace(memory=first.memory)).log_at(X)
    other = made.fit(evidence(space, 40)._replace(memory=stored)).log_at(X)
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.std, other.std)


@pytest.mark.slow
def test_the_evidence_is_not_changed(module, space):
    given = evidence(space, 12)._replace(at_least=np.arange(12) == 4)
    copies = [np.array(a) for a in given[1:4]]
    learner(module, space).fit(given).condition(given.X[0], 3.0)
    for before, after in zip(copies, given[1:4], strict=True):
        np.testing.assert_array_equal(before, after)
