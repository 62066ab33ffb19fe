import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.problems import synthetic as problems
from benchmarks.problems.synthetic import BRANIN, CMDP, DEAR_OPTIMUM, EVERY, HARTMANN_6, Problem

FLAT = problems.STEPPED_BRANIN  # no slope: only the terrace of the minimum can be checked


@pytest.mark.parametrize(
    "problem", [*EVERY, *map(problems.bumps, (4, 8, 16))], ids=lambda p: p.name
)
class TestEveryProblem:
    def test_declared_optimum_is_the_value_at_the_minimiser(self, problem: Problem):
        assert problem.f(np.array([problem.minimiser]))[0] == pytest.approx(
            problem.optimum, rel=1e-9, abs=1e-9
        )

    def test_minimiser_is_in_the_box(self, problem: Problem):
        low, high = np.array(problem.bounds).T
        assert (low <= problem.minimiser).all()
        assert (problem.minimiser <= high).all()

    def test_no_random_point_beats_the_optimum(self, problem: Problem):
        values = problem.f(random_points(problem, 20_000))
        assert values.shape == (20_000,)
        assert values.min() >= problem.optimum - 1e-9
        if problem is not FLAT:
            assert np.ptp(values) > 0.1

    def test_no_descent_beats_the_optimum(self, problem: Problem):
        starts = random_points(problem, 200)
        best = starts[np.argsort(problem.f(starts))[:2]]
        for start in [*best, np.array(problem.minimiser)]:
            found = minimize(lambda x: problem.f(x[None])[0], start, bounds=problem.bounds)
            assert found.fun >= problem.optimum - 1e-7 * max(1.0, abs(problem.optimum))

    def test_costs_are_positive(self, problem: Problem):
        assert problem.cost(random_points(problem, 1000)).min() > 0.0

    def test_one_configuration_by_name_equals_its_row(self, problem: Problem):
        x = random_points(problem, 1)
        value, cost = problem.at(dict(zip(problem.names, x[0], strict=True)))
        assert value == problem.f(x)[0]
        assert cost == problem.cost(x)[0]


def random_points(problem: Problem, m: int) -> np.ndarray:
    return problem.from_cube(np.random.default_rng(1).random((m, problem.d)))


def test_branin_has_three_equal_minima():
    minima = np.array([[-np.pi, 12.275], [np.pi, 2.275], [9.42477796, 2.475]])
    assert BRANIN.f(minima) == pytest.approx(BRANIN.optimum, abs=1e-9)


def test_branin_costs_e_squared_times_more_on_the_right():
    left, right = BRANIN.cost(BRANIN.from_cube(np.array([[0.0, 0.3], [1.0, 0.9]])))
    assert (left, right) == pytest.approx((1.0, np.exp(2.0)))


def test_hartmann_cost_grows_with_the_mean_coordinate():
    U = np.array([[0.0] * 6, [0.5] * 6, [1.0, 0, 0, 0, 0, 0]])
    assert HARTMANN_6.cost(U) == pytest.approx(np.exp([0.0, 1.5, 0.5]))


def test_cmdp_minimum_is_a_ring_away_from_the_most_expensive_point():
    # -7.662466812 on |x| = 0.7819540, cost 6.0902298; centre cost 10, f = 0.
    angles = np.linspace(0.0, 2.0 * np.pi, 7)
    ring = 0.7819540 * np.column_stack([np.cos(angles), np.sin(angles)])
    assert CMDP.f(ring) == pytest.approx(-7.662466812, abs=1e-8)
    assert CMDP.cost(ring) == pytest.approx(6.0902298, abs=1e-6)
    centre = np.zeros((1, 2))
    assert (CMDP.f(centre)[0], CMDP.cost(centre)[0]) == (0.0, 10.0)


def test_expensive_optimum_has_its_minimum_at_the_most_expensive_point():
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    lowest = grid[DEAR_OPTIMUM.f(grid).argmin()]
    most_expensive = grid[DEAR_OPTIMUM.cost(grid).argmax()]
    assert lowest == pytest.approx(most_expensive, abs=1e-12)


def test_twelve_problems_for_the_density_table():
    assert len({p.name for p in (*problems.SYNTHETIC, *problems.SUBSTITUTES)}) == 12
