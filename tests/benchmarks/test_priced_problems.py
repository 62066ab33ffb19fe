import numpy as np
import pytest

from benchmarks.problems import synthetic_priced as priced_problems
from benchmarks.problems.synthetic_priced import (
    SHAPES,
    cube_draw,
    line_draw,
    load,
    names,
    periodic,
    priced,
)

SLOW_TO_DRAW = [
    f"synthetic/matern8-{seed}" for seed in (1, 2)
]  # the same as matern8-0, but seconds slower
SOME = [name for name in names() if not name.startswith(tuple(SLOW_TO_DRAW))]


def random_cube(d: int, m: int = 2_000) -> np.ndarray:
    return np.random.default_rng(1).random((m, d))


@pytest.mark.parametrize("name", SOME)
class TestEveryProblem:
    @pytest.mark.slow
    def test_declared_optimum_is_reached_at_the_minimiser(self, name: str):
        function, problem = priced(name), load(name)
        value, cost = problem.at(dict(zip(function.names, function.minimiser, strict=True)))
        assert value == pytest.approx(problem.optimum, rel=1e-9, abs=1e-9)
        assert cost > 0

    @pytest.mark.slow
    def test_no_random_point_beats_the_declared_optimum(self, name: str):
        function = priced(name)
        values = function.f(function.from_cube(random_cube(function.d)))
        assert values.min() >= load(name).optimum - 1e-9

    @pytest.mark.slow
    def test_typical_cost_is_dearer_than_half_of_the_space(self, name: str):
        function, problem = priced(name), load(name)
        costs = function.cost(function.from_cube(random_cube(function.d)))
        assert costs.min() > 0
        more_expensive = np.mean(costs > problem.typical_cost * (1 + 1e-9))
        cheaper = np.mean(costs < problem.typical_cost * (1 - 1e-9))
        assert max(more_expensive, cheaper) < 0.55

    def test_a_point_of_the_space_can_be_evaluated(self, name: str):
        problem = load(name)
        params = problem.space.decode(problem.space.sample(1, np.random.default_rng(0))[0])
        value, cost = problem.at(params)
        assert value >= problem.optimum
        assert cost > 0


@pytest.mark.parametrize("name", [name for name in SOME if name.endswith("periodic")])
def test_periodic_cost_is_highest_at_the_optimum(name: str):
    function = priced(name)
    at_optimum = function.cost(np.array([function.minimiser]))[0]
    assert function.cost(function.from_cube(random_cube(function.d))).max() <= at_optimum


@pytest.mark.parametrize("d", [1, 2, 3])
def test_periodic_cost_integrates_to_one(d: int):
    side = (np.arange(32) + 0.5) / 32  # exact: a smooth function of whole periods
    grid = np.stack(np.meshgrid(*[side] * d), axis=-1).reshape(-1, d)
    assert periodic(grid, np.full(d, 0.3)).mean() == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("d", [1, 4, 8])
def test_periodic_cost_spans_e_to_the_fourth(d: int):
    optimum = np.full(d, 0.3)
    most_expensive, cheapest = periodic(np.array([optimum, optimum + 0.25]), optimum)
    assert most_expensive / cheapest == pytest.approx(np.exp(4.0))


@pytest.mark.parametrize(
    ("shape", "span"),
    [("constant", 1.0), ("rising", np.exp(2)), ("falling", np.exp(-2)), ("wide", 1_000.0)],
)
def test_ratio_of_the_costs_in_the_two_corners(shape: str, span: float):
    lower, upper = SHAPES[shape](np.array([[0.0] * 3, [1.0] * 3]), np.full(3, 0.5))
    assert upper / lower == pytest.approx(span)


def test_linear_cost_of_the_stopping_paper():
    U = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
    assert priced_problems.linear(U, U[0]) == pytest.approx([1 / 11, 1.0, 21 / 11])


def test_draws_on_a_line_have_the_kernel():
    # Over the three draws and all places: the correlation at one lengthscale is 0.524.
    points = np.linspace(0.0, 0.9, 500)[:, None]
    products = [line_draw(s).f(points) * line_draw(s).f(points + 0.1) for s in range(3)]
    squares = [line_draw(s).f(points) ** 2 for s in range(3)]
    assert np.mean(products) / np.mean(squares) == pytest.approx(0.524, abs=0.2)


def test_draws_in_a_cube_have_the_kernel():
    points, draw = random_cube(8, 4_000) * 0.9, cube_draw(0)
    values = draw.f(points)
    step = np.zeros(8)
    step[2] = 0.1
    assert np.mean(values) == pytest.approx(0.0, abs=0.1)
    assert np.var(values) == pytest.approx(1.0, abs=0.15)
    assert np.mean(values * draw.f(points + step)) == pytest.approx(0.524, abs=0.1)


def test_names_are_unique_and_unknown_ones_are_refused():
    assert len(set(names())) == len(names()) == 40
    with pytest.raises(KeyError, match="branin-constant"):
        load("synthetic/branin-free")


MOVED = ["ackley5-falling", "branin-rising", "hartmann6-periodic", "rosenbrock4-wide", "cmdp"]


@pytest.mark.parametrize("name", [*MOVED, "dear-optimum"])
class TestMoved:
    def test_the_minimiser_is_in_the_box_of_every_seed_at_the_same_value_and_cost(self, name: str):
        usual = load(f"synthetic/{name}")
        function = priced(f"synthetic/{name}")
        best = dict(zip(function.names, function.minimiser, strict=True))
        for seed in range(20):
            problem = load(f"moved/{name}", seed)
            for x, parameter in problem.space.parameters.items():
                assert parameter.low <= best[x] <= parameter.high
            assert problem.at(best).value == pytest.approx(usual.optimum, abs=1e-9)
            assert problem.at(best).cost == pytest.approx(usual.at(best).cost)

    def test_no_point_of_the_box_beats_the_optimum(self, name: str):
        function = priced_problems.moved(f"moved/{name}", 3)
        values = function.f(function.from_cube(random_cube(function.d, 20_000)))
        assert values.min() >= function.optimum - 1e-9

    def test_the_box_is_inside_the_usual_one_and_differs_between_seeds(self, name: str):
        usual = np.array(priced(f"synthetic/{name}").bounds)
        boxes = [np.array(priced_problems.moved(f"moved/{name}", s).bounds) for s in range(5)]
        for box in boxes:
            assert (box[:, 0] >= usual[:, 0] - 1e-9).all()
            assert (box[:, 1] <= usual[:, 1] + 1e-9).all()
            assert np.ptp(box, axis=1) == pytest.approx(0.6 * np.ptp(usual, axis=1))
        assert len({box.tobytes() for box in boxes}) == 5

    def test_the_middle_is_never_the_minimiser(self, name: str):
        function = priced(f"synthetic/{name}")
        for seed in range(50):
            low, high = np.array(priced_problems.moved(f"moved/{name}", seed).bounds).T
            at = (np.array(function.minimiser) - low) / (high - low)
            assert np.abs(at - 0.5).max() > 0.01


def test_ackley_is_turned():
    """Unturned, its values one unit along each axis are equal."""
    function = priced_problems.moved("moved/ackley5-falling", 0)
    assert np.ptp(priced("synthetic/ackley5-falling").f(np.eye(5))) < 1e-9
    assert np.ptp(function.f(np.eye(5))) > 0.1
