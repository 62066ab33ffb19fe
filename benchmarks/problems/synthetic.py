"""Test problems with a cost: f and cost of the rows of X (m, d), in natural units.

    u    the unit-cube coordinate of x: u_j = (x_j - low_j) / (high_j - low_j)
    f    the value to minimise, (m,); `optimum` is its least value, reached at `minimiser`
    c    the cost of one evaluation, (m,), > 0

Costs: Branin exp(2 u_1); Hartmann-6 exp(3 mean u); the CMDP paper's problem 10 - 5 |x|; others 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]
Rows = Callable[[Array], Array]  # (m, d) -> (m,)


def free(X: Array) -> Array:
    """c = 1."""
    return np.ones(len(X))


@dataclass(frozen=True)
class Problem:
    """A function to minimise on a box, the cost of an evaluation, and the minimum."""

    name: str
    bounds: tuple[tuple[float, float], ...]  # (low, high) of each coordinate
    f: Rows
    optimum: float
    minimiser: tuple[float, ...]
    cost: Rows = free
    noise: float = 0.0  # standard deviation of the observation noise

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return len(self.bounds)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names x0, x1, ..."""
        return tuple(f"x{j}" for j in range(self.d))

    def from_cube(self, U: Array) -> Array:
        """x = low + u (high - low)."""
        low, high = np.array(self.bounds).T
        return np.asarray(low + U * (high - low))

    def at(self, params: Mapping[str, float]) -> tuple[float, float]:
        """(f, c) of one configuration given by name."""
        X = np.array([[params[name] for name in self.names]], dtype=np.float64)
        return float(self.f(X)[0]), float(self.cost(X)[0])


# ── the three problems with a cost ─────────────────────────────────────────────────────────────


def _branin(X: Array) -> Array:
    """(x2 - 5.1 x1^2 / (4 pi^2) + 5 x1 / pi - 6)^2 + 10 (1 - 1/(8 pi)) cos x1 + 10."""
    x1, x2 = X.T
    bend = x2 - 5.1 * x1**2 / (4.0 * np.pi**2) + 5.0 * x1 / np.pi - 6.0
    return np.asarray(bend**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x1) + 10.0)


BRANIN = Problem(
    "Branin",
    ((-5.0, 10.0), (0.0, 15.0)),
    _branin,
    optimum=0.39788735772973816,
    minimiser=(np.pi, 2.275),
    cost=lambda X: np.exp(2.0 * (X[:, 0] + 5.0) / 15.0),
)

HARTMANN_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_6_A = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)
HARTMANN_6_P = np.array(
    [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ]
)
HARTMANN_3_A = np.array(
    [[3.0, 10.0, 30.0], [0.1, 10.0, 35.0], [3.0, 10.0, 30.0], [0.1, 10.0, 35.0]]
)
HARTMANN_3_P = np.array(
    [
        [0.3689, 0.1170, 0.2673],
        [0.4699, 0.4387, 0.7470],
        [0.1091, 0.8732, 0.5547],
        [0.0381, 0.5743, 0.8828],
    ]
)


def _hartmann(A: Array, P: Array) -> Rows:
    """-sum_i h_i exp(-sum_j A_ij (x_j - P_ij)^2)."""

    def f(X: Array) -> Array:
        distance = (A * (X[:, None, :] - P) ** 2).sum(axis=2)  # (m, 4)
        return np.asarray(-np.exp(-distance) @ HARTMANN_HEIGHTS)

    return f


HARTMANN_6 = Problem(
    "Hartmann-6",
    ((0.0, 1.0),) * 6,
    _hartmann(HARTMANN_6_A, HARTMANN_6_P),
    optimum=-3.322368011415512,
    minimiser=(0.20168952, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053),
    cost=lambda X: np.exp(3.0 * X.mean(axis=1)),
)

CMDP_RING = 0.7819569532  # |x| of the minimum: tan(2 pi r) = -2 pi r


def _cmdp(X: Array) -> Array:
    """10 |x| sin(2 pi |x|)."""
    radius = np.linalg.norm(X, axis=1)
    return np.asarray(10.0 * radius * np.sin(2.0 * np.pi * radius))


def _cmdp_cost(X: Array) -> Array:
    """10 - 5 |x|."""
    return np.asarray(10.0 - 5.0 * np.linalg.norm(X, axis=1))


def _dear_optimum(X: Array) -> Array:
    """10 |x| sin(2 pi |x|) - 9 exp(-(|x| / 0.25)^2): the minimum is at the most expensive point."""
    return np.asarray(_cmdp(X) - 9.0 * np.exp(-(((X / 0.25) ** 2).sum(axis=1))))


CMDP = Problem(
    "CMDP",
    ((-1.0, 1.0),) * 2,
    _cmdp,
    optimum=-7.662466813147997,
    minimiser=(CMDP_RING, 0.0),
    cost=_cmdp_cost,
)
DEAR_OPTIMUM = Problem(
    "CMDP, dear optimum",
    ((-1.0, 1.0),) * 2,
    _dear_optimum,
    optimum=-9.0,
    minimiser=(0.0, 0.0),
    cost=_cmdp_cost,
)
PRICED = (BRANIN, HARTMANN_6, CMDP)


# ── the usual test functions ───────────────────────────────────────────────────────────────────


def _ackley(X: Array) -> Array:
    """-20 exp(-0.2 sqrt(mean x^2)) - exp(mean cos 2 pi x) + 20 + e."""
    spread = np.sqrt((X**2).mean(axis=1))
    ripple = np.cos(2.0 * np.pi * X).mean(axis=1)
    return np.asarray(-20.0 * np.exp(-0.2 * spread) - np.exp(ripple) + 20.0 + np.e)


def _rosenbrock(X: Array) -> Array:
    """sum_j 100 (x_{j+1} - x_j^2)^2 + (1 - x_j)^2."""
    here, after = X[:, :-1], X[:, 1:]
    return np.asarray((100.0 * (after - here**2) ** 2 + (1.0 - here) ** 2).sum(axis=1))


def _levy(X: Array) -> Array:
    """sin^2(pi w_1) + sum_{j<d} (w_j - 1)^2 (1 + 10 sin^2(pi w_j + 1)) + the last term.

    w = 1 + (x - 1)/4; the last term is (w_d - 1)^2 (1 + sin^2(2 pi w_d)).
    """
    w = 1.0 + (X - 1.0) / 4.0
    inner, last = w[:, :-1], w[:, -1]
    middle = ((inner - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * inner + 1.0) ** 2)).sum(axis=1)
    end = (last - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * last) ** 2)
    return np.asarray(np.sin(np.pi * w[:, 0]) ** 2 + middle + end)


def _styblinski_tang(X: Array) -> Array:
    """sum_j (x^4 - 16 x^2 + 5 x) / 2."""
    return np.asarray(0.5 * (X**4 - 16.0 * X**2 + 5.0 * X).sum(axis=1))


def _stepped_branin(X: Array) -> Array:
    """Branin rounded down to a multiple of 10: terraces."""
    return np.asarray(10.0 * np.floor(_branin(X) / 10.0))


def _michalewicz(X: Array) -> Array:
    """-sum_j sin(x_j) sin^20(j x_j^2 / pi)."""
    j = np.arange(1, X.shape[1] + 1)
    return np.asarray(-(np.sin(X) * np.sin(j * X**2 / np.pi) ** 20).sum(axis=1))


def _griewank(X: Array) -> Array:
    """sum_j x_j^2 / 4000 - prod_j cos(x_j / sqrt j) + 1."""
    j = np.arange(1, X.shape[1] + 1)
    return np.asarray((X**2).sum(axis=1) / 4000.0 - np.cos(X / np.sqrt(j)).prod(axis=1) + 1.0)


def bumps(d: int, seed: int = 0) -> Problem:
    """|u - 1/2|^2 / d - sum_i h_i exp(-|u - p_i|^2 / (2 w_i^2 d)): six smooth wells in a bowl.

    Wells p_i, w_i are drawn with the seed; the optimum is found by descent from every one.
    """
    rng = np.random.default_rng([seed, d])
    heights = np.array([1.0, 0.8, 0.7, 0.6, 0.5, 0.4])
    centres = rng.uniform(0.15, 0.85, (len(heights), d))
    widths = rng.uniform(0.08, 0.16, len(heights))

    def f(X: Array) -> Array:
        squares = ((X[:, None, :] - centres) ** 2).sum(axis=2)  # (m, wells)
        bowl = ((X - 0.5) ** 2).mean(axis=1)
        return np.asarray(bowl - np.exp(-squares / (2.0 * d * widths**2)) @ heights)

    box = ((0.0, 1.0),) * d
    found = [minimize(lambda x: f(x[None])[0], p, bounds=box, tol=1e-12) for p in centres]
    best = min(found, key=lambda result: float(result.fun))
    return Problem(f"Bumps-{d}", box, f, float(best.fun), tuple(map(float, best.x)))


def ackley(d: int) -> Problem:
    """Ackley's function: a hole in a rippled plain."""
    return Problem(f"Ackley-{d}", ((-32.768, 32.768),) * d, _ackley, 0.0, (0.0,) * d)


def rosenbrock(d: int) -> Problem:
    """Rosenbrock's function: a curved valley."""
    return Problem(f"Rosenbrock-{d}", ((-5.0, 10.0),) * d, _rosenbrock, 0.0, (1.0,) * d)


def levy(d: int) -> Problem:
    """Levy's function: a bowl with waves."""
    return Problem(f"Levy-{d}", ((-10.0, 10.0),) * d, _levy, 0.0, (1.0,) * d)


def styblinski_tang(d: int) -> Problem:
    """Styblinski and Tang's function: 2^d wells, one deepest."""
    return Problem(
        f"Styblinski-Tang-{d}",
        ((-5.0, 5.0),) * d,
        _styblinski_tang,
        optimum=-39.16616570377142 * d,
        minimiser=(-2.903534027771,) * d,
    )


HARTMANN_3 = Problem(
    "Hartmann-3",
    ((0.0, 1.0),) * 3,
    _hartmann(HARTMANN_3_A, HARTMANN_3_P),
    optimum=-3.86277978733266,
    minimiser=(0.1145888678, 0.5556488954, 0.8525469847),
)
NOISY_HARTMANN_6 = Problem(
    "Noisy Hartmann-6",
    HARTMANN_6.bounds,
    HARTMANN_6.f,
    HARTMANN_6.optimum,
    HARTMANN_6.minimiser,
    noise=0.2,
)
STEPPED_BRANIN = Problem("Stepped Branin", BRANIN.bounds, _stepped_branin, 0.0, (np.pi, 2.275))
MICHALEWICZ_5 = Problem(
    "Michalewicz-5",
    ((0.0, np.pi),) * 5,
    _michalewicz,
    optimum=-4.687658179088,
    minimiser=(2.20290552, 1.57079633, 1.28499157, 1.92305847, 1.72046977),
)
GRIEWANK_7 = Problem("Griewank-7", ((-50.0, 50.0),) * 7, _griewank, 0.0, (0.0,) * 7)

SYNTHETIC = (
    BRANIN,
    HARTMANN_3,
    HARTMANN_6,
    ackley(5),
    rosenbrock(4),
    levy(4),
    styblinski_tang(5),
    NOISY_HARTMANN_6,
    STEPPED_BRANIN,
)
SUBSTITUTES = (MICHALEWICZ_5, GRIEWANK_7, bumps(10))  # used if the recorded tables are missing
EVERY = (*SYNTHETIC, *SUBSTITUTES, CMDP, DEAR_OPTIMUM)
