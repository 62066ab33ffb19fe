"""Test functions and prior draws, each with several shapes of cost: `synthetic/<function>-<cost>`.

`moved/<function>-<cost>` is the same function and cost in a box of 0.6 of each range, at a place
drawn for each seed among those that contain the minimiser: the middle says nothing about the
optimum. Ackley's function, whose coordinates can be minimised one by one, is also turned around its
minimiser.

    u    the unit-cube coordinate of x, d of them; u* that of the minimiser

    cost       c(u)
    constant   1
    rising     exp(2 mean u)
    falling    exp(2 (1 - mean u))
    periodic   exp((2/d) sum cos(4 pi (u - u*))) / I0(2/d)^d: mean 1, most expensive at the optimum
    wide       1000^u_1: three orders of magnitude along one coordinate
    linear     (1 + 20 mean u) / 11: mean 1

Draws from a Gaussian process with a Matern-5/2 kernel of lengthscale 0.1 in one and in eight
dimensions, with constant, linear and periodic costs, are the problems of the stopping paper (Xie et
al. 2025). CMDP and `dear-optimum` (shown as "expensive optimum") have their own cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize
from scipy.special import i0

from benchmarks.problems import synthetic
from benchmarks.problems.problem import Evaluation, Problem
from farthing import Float, Space
from farthing.acquisition.search import sobol

Array = NDArray[np.float64]

FAMILIES = ("synthetic", "moved")

LENGTHSCALE = 0.1
DRAWS = (0, 1, 2)  # seeds of the prior draws
KNOTS = 1_001  # of a draw in one dimension: a hundred per lengthscale
FEATURES = 1_024  # of a draw in eight dimensions
CANDIDATES = 2**13  # random points, of which the best start
DESCENTS = 64  # descents to the minimum of a draw
JITTER = 1e-9
PRICE_POINTS = 4_096  # for the median that is the typical cost
WINDOW = 0.6  # of each range, the box of a moved problem
TURNED = ("ackley5",)


# ── costs of the rows of U (m, d), given the minimiser (d,) ────────────────────────────────────

Shape = Callable[[Array, Array], Array]


def constant(U: Array, optimum: Array) -> Array:
    """1."""
    return np.ones(len(U))


def rising(U: Array, optimum: Array) -> Array:
    """exp(2 mean u): cheapest in the lower corner."""
    return np.asarray(np.exp(2.0 * U.mean(axis=1)))


def falling(U: Array, optimum: Array) -> Array:
    """exp(2 (1 - mean u)): most expensive in the lower corner."""
    return rising(1.0 - U, optimum)


def periodic(U: Array, optimum: Array) -> Array:
    """exp((2/d) sum cos(4 pi (u - u*))) / I0(2/d)^d."""
    d = U.shape[1]
    waves = np.cos(4.0 * np.pi * (U - optimum)).sum(axis=1)
    return np.asarray(np.exp(2.0 / d * waves) / i0(2.0 / d) ** d)


def wide(U: Array, optimum: Array) -> Array:
    """1000^u_1."""
    return np.asarray(1_000.0 ** U[:, 0])


def linear(U: Array, optimum: Array) -> Array:
    """(1 + 20 mean u) / 11."""
    return np.asarray((1.0 + 20.0 * U.mean(axis=1)) / 11.0)


SHAPES: dict[str, Shape] = {
    shape.__name__: shape for shape in (constant, rising, falling, periodic, wide)
}
SHAPES_OF_DRAWS: dict[str, Shape] = {
    shape.__name__: shape for shape in (constant, linear, periodic)
}


# ── draws from a Matern-5/2 prior ──────────────────────────────────────────────────────────────


def _matern(distance: Array) -> Array:
    """(1 + r + r^2/3) exp(-r), r = sqrt(5) |x - x'| / lengthscale."""
    r = np.sqrt(5.0) * distance / LENGTHSCALE
    return np.asarray((1.0 + r + r * r / 3.0) * np.exp(-r))


@cache
def line_draw(seed: int) -> synthetic.Problem:
    """An exact draw at the knots of [0, 1] and the cubic spline through it, minimised exactly."""
    knots = np.linspace(0.0, 1.0, KNOTS)
    covariance = _matern(np.abs(knots[:, None] - knots)) + JITTER * np.eye(KNOTS)
    draw = np.linalg.cholesky(covariance) @ np.random.default_rng([seed, 1]).standard_normal(KNOTS)
    spline = CubicSpline(knots, draw)
    flat = np.concatenate([spline.derivative().roots(extrapolate=False), [0.0, 1.0]])
    least = flat[np.argmin(spline(flat))]
    return synthetic.Problem(
        f"Matern-1, draw {seed}",
        ((0.0, 1.0),),
        lambda X: np.asarray(spline(X[:, 0])),
        float(spline(least)),
        (float(least),),
    )


@cache
def cube_draw(seed: int, d: int = 8) -> synthetic.Problem:
    """sqrt(2/M) sum_i w_i cos(omega_i . x + b_i): a draw by M random Fourier features.

    w ~ N(0, 1), b ~ U(0, 2 pi), omega ~ t_5(0, I / lengthscale^2), the spectrum of Matern-5/2. The
    minimum is the lowest that descents from the best points of a Sobol set end at.
    """
    rng = np.random.default_rng([seed, d])
    spread = np.sqrt(5.0 / rng.chisquare(5.0, FEATURES)) / LENGTHSCALE
    omega = rng.standard_normal((d, FEATURES)) * spread
    phase = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
    weight = np.sqrt(2.0 / FEATURES) * rng.standard_normal(FEATURES)

    def f(X: Array) -> Array:
        return np.asarray(np.cos(X @ omega + phase) @ weight)

    def slope(x: Array) -> Array:
        return np.asarray(-omega @ (weight * np.sin(x @ omega + phase)))

    box = ((0.0, 1.0),) * d
    points = sobol(CANDIDATES, d)
    starts = points[np.argsort(f(points))[:DESCENTS]]
    found = [minimize(lambda x: f(x[None])[0], x, jac=slope, bounds=box) for x in starts]
    best = min(found, key=lambda result: float(result.fun)).x
    return synthetic.Problem(
        f"Matern-{d}, draw {seed}", box, f, float(f(best[None])[0]), tuple(map(float, best))
    )


# ── all of them ────────────────────────────────────────────────────────────────────────────────

FUNCTIONS: dict[str, synthetic.Problem] = {
    "branin": synthetic.BRANIN,
    "hartmann6": synthetic.HARTMANN_6,
    "ackley5": synthetic.ackley(5),
    "rosenbrock4": synthetic.rosenbrock(4),
}
OWN_COST: dict[str, synthetic.Problem] = {
    "cmdp": synthetic.CMDP,
    "dear-optimum": synthetic.DEAR_OPTIMUM,
}
PRIOR_DRAWS: dict[str, Callable[[], synthetic.Problem]] = {
    **{f"matern1-{seed}": partial(line_draw, seed) for seed in DRAWS},
    **{f"matern8-{seed}": partial(cube_draw, seed) for seed in DRAWS},
}
NOTES = {
    "matern1": "a prior draw at 1,001 knots and the spline through it; its exact minimum",
    "matern8": "a prior draw by 1,024 Fourier features; its optimum is the best that "
    "64 descents from the best of 8,192 points found",
}


def names() -> list[str]:
    """`synthetic/<function>-<cost>` of every problem; each is also a `moved/...`."""
    return [
        *(f"synthetic/{name}-{cost}" for name in FUNCTIONS for cost in SHAPES),
        *(f"synthetic/{name}" for name in OWN_COST),
        *(f"synthetic/{name}-{cost}" for name in PRIOR_DRAWS for cost in SHAPES_OF_DRAWS),
    ]


@cache
def load(name: str, seed: int = 0) -> Problem:
    """The problem with this name; `seed` says where a moved problem is."""
    family, _, short = name.partition("/")
    if f"synthetic/{short}" not in names():
        raise KeyError(f"Unknown problem {name!r}. There are {', '.join(names())}.")
    problem = moved(name, seed) if family == "moved" else priced(name)
    ranges = zip(problem.names, problem.bounds, strict=True)
    space = Space({x: Float(low, high) for x, (low, high) in ranges})
    costs = problem.cost(problem.from_cube(sobol(PRICE_POINTS, problem.d)))

    def at(params: Mapping[str, Any]) -> Evaluation:
        return Evaluation(*problem.at(params))

    note = next((note for kind, note in NOTES.items() if short.startswith(f"{kind}-")), "")
    return Problem(
        name,
        space,
        at,
        float(np.median(costs)),
        float(np.mean(costs)),
        optimum=problem.optimum,
        note=note,
    )


def moved(name: str, seed: int) -> synthetic.Problem:
    """The function of `priced` in the box of a seed; see the top of this file."""
    problem = priced(name)
    rng = np.random.default_rng([seed, crc32(name.encode())])
    low, high = np.array(problem.bounds).T
    width, best = WINDOW * (high - low), np.array(problem.minimiser)
    left = rng.uniform(np.maximum(low, best - width), np.minimum(best, high - width))
    box = tuple(zip(left.tolist(), (left + width).tolist(), strict=True))
    if not name.partition("/")[2].startswith(TURNED):
        return replace(problem, bounds=box)
    turn, signs = np.linalg.qr(rng.standard_normal((problem.d, problem.d)))
    turn = turn * np.sign(np.diag(signs))  # uniform over all turns
    return replace(problem, bounds=box, f=lambda X: problem.f(best + (X - best) @ turn))


def priced(name: str) -> synthetic.Problem:
    """The function with this name and its cost, for rows of points."""
    short = name.partition("/")[2]
    if short in OWN_COST:
        return OWN_COST[short]
    function, _, cost = short.rpartition("-")
    if function in PRIOR_DRAWS:
        return _with_cost(PRIOR_DRAWS[function](), SHAPES_OF_DRAWS[cost])
    return _with_cost(FUNCTIONS[function], SHAPES[cost])


def _with_cost(problem: synthetic.Problem, shape: Shape) -> synthetic.Problem:
    low, high = np.array(problem.bounds).T
    optimum = (np.array(problem.minimiser) - low) / (high - low)
    return replace(problem, cost=lambda X: shape((X - low) / (high - low), optimum))
