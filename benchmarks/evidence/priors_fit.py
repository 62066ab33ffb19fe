"""Hyperpriors fitted on the tables without one family, and how well models predict held-back rows.

fit       Each hyperparameter is normal over tasks and coordinates: ln l - ln(d)/2, ln v, ln noise,
          logit a. EM maximises the sum of log marginal likelihoods of ROWS random rows of each
          task: hyperparameters given a task are N(mode, H^-1), H the Hessian of the negative log
          posterior at the mode (Laplace). Every family counts the same. Costs have their own.
density   ln N(y; mean, std^2 + noise) of held-back rows, y clipped as the rows of the fit and
          standardised by them; ln c is not clipped.
rank      Spearman's correlation of predicted and true values of the held-back rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks import problems
from benchmarks.evidence.priors_kernel import Priors, learnt, negative_posterior, present, using
from benchmarks.problems import tables
from benchmarks.problems.problem import Problem
from benchmarks.speed.density import log_density
from farthing.models import gp
from farthing.models.kernel import columns, embed

Array = NDArray[np.float64]
Pair = tuple[Priors, Priors]  # of the objective and of the cost

FITTED = Path(__file__).resolve().parents[1] / "results" / "hyperpriors.json"
ROWS = 32  # of each task, for the fit
STEPS = 3  # of EM
HESSIAN_STEP = 1e-3
LEAST_SD = 0.3
SIZES = (8, 16, 32)
HELD_BACK = 300
SPLITS = 2


@cache
def _points(task: str) -> Array:
    problem = problems.load(task)
    space = problem.table or problem.space
    points = space.rows if space.rows is not None else space.points(2**20)
    assert points is not None
    return points


def sample(task: str, count: int, seed: int) -> tuple[Problem, Array, Array, Array]:
    """The problem, and random rows of its table that have a value: X, y, ln c."""
    problem, points = problems.load(task), _points(task)
    rng = np.random.default_rng(crc32(f"priors {task} {seed}".encode()))
    space, found = problem.table or problem.space, []
    for x in points[rng.permutation(len(points))]:
        value, cost = problem.at(space.decode(x))
        if value is not None:
            found.append((problem.space.encode(space.decode(x)), value, np.log(cost)))
        if len(found) == count:
            break
    X, y, log_cost = (np.array(part) for part in zip(*found, strict=True))
    return problem, X, y, log_cost


# ── fitting ────────────────────────────────────────────────────────────────────────────────────


def _laplace(X: Array, y: Array, options: NDArray[np.int64], priors: Priors) -> tuple[Array, Array]:
    """The mode of (ln l - ln(d)/2, logit a, ln v, ln noise) and the variances about it."""
    targets = gp.standardise(y)[0]
    found = learnt(X, targets, options, noisy=True, start=None, objective=priors, cost=priors)
    theta = np.log([*found.lengthscales, found.variance, found.noise])
    how = embed(X, options), columns(options), targets, priors
    steps = HESSIAN_STEP * np.eye(len(theta))
    H = np.array(
        [
            (negative_posterior(theta + h, *how)[1] - negative_posterior(theta - h, *how)[1])
            / (2.0 * HESSIAN_STEP)
            for h in steps
        ]
    )
    values, vectors = np.linalg.eigh(0.5 * (H + H.T))
    variance = (vectors**2) @ (1.0 / np.maximum(values, 0.1))
    theta[: X.shape[1]] -= 0.5 * np.log(X.shape[1])
    return theta, variance


def _normal(found: Iterable[tuple[Array, Array]], *, in_log: bool = True) -> tuple[float, float]:
    """Mean and sd of hyperparameters with these means and variances, (k,) each for every family.

    A density in l, not in ln l, has its mode sd^2 below the mean.
    """
    groups = list(found)
    mean = float(np.mean([each.mean() for each, _ in groups]))
    spread = np.mean([((each - mean) ** 2 + variance).mean() for each, variance in groups])
    sd = max(float(np.sqrt(spread)), LEAST_SD)
    return round(mean + in_log * sd**2, 3), round(sd, 3)


def _maximised(found: Mapping[str, list[tuple[Array, Array]]]) -> Priors:
    """The priors, given mode and variances of the tasks of each family."""

    def of(part: slice) -> Iterator[tuple[Array, Array]]:
        for tasks in found.values():
            modes, variances = zip(*((m[part], v[part]) for m, v in tasks), strict=True)
            yield np.concatenate(modes), np.concatenate(variances)

    return Priors(
        _normal(of(slice(None, -3))),
        _normal(of(slice(-2, -1))),
        _normal(of(slice(-1, None))),
        _normal(of(slice(-3, -2)), in_log=False),
    )


def fitted_without(family: str) -> Pair:
    """The priors of objective and cost from the tables of all other families."""
    names = [name for name in tables.names() if name.partition("/")[0] != family]
    found = []
    for noisy in (False, True):
        priors = present(noisy=noisy, additive=True)
        for _ in range(STEPS):
            by_family: dict[str, list[tuple[Array, Array]]] = {}
            for name in names:
                problem, X, y, log_cost = sample(name, ROWS, 0)
                z = log_cost if noisy else gp.clip_outliers(y)
                each = _laplace(X, z, problem.space.options, priors)
                by_family.setdefault(name.partition("/")[0], []).append(each)
            priors = _maximised(by_family)
        found.append(priors)
    return found[0], found[1]


def fit_all() -> None:
    """Fit the priors without each family and keep them."""
    families = dict.fromkeys(name.partition("/")[0] for name in tables.names())
    found = json.loads(FITTED.read_text()) if FITTED.exists() else {}
    for family in families:
        if family not in found:
            found[family] = fitted_without(family)
            FITTED.write_text(json.dumps(found, indent=1) + "\n")
            print(f"hyperpriors without {family}: {found[family]}", flush=True)


@cache
def fitted(family: str) -> Pair:
    """The kept priors without a family."""
    objective, cost = (
        Priors(*(tuple(each) for each in part)) for part in json.loads(FITTED.read_text())[family]
    )
    return objective, cost


def pair(factors: frozenset[str], family: str) -> Pair:
    """The priors of a method on a family, with the factors `additive` and `hyperpriors`."""
    additive = "additive" in factors
    if "hyperpriors" not in factors:
        return present(noisy=False, additive=additive), present(noisy=True, additive=additive)
    objective, cost = fitted(family)
    if additive:
        return objective, cost
    return objective._replace(share=None), cost._replace(share=None)


# ── held-back rows ─────────────────────────────────────────────────────────────────────────────


def held_back(task: str, n: int, split: int, factors: frozenset[str]) -> list[float]:
    """Log density and rank correlation of the objective, then of ln c."""
    problem, X, y, log_cost = sample(task, n + HELD_BACK, 1 + split)
    clipped = np.minimum(y, gp.clip_outliers(y[:n]).max())
    found = []
    with using(*pair(factors, problem.family)):
        for z, noisy in ((clipped, False), (log_cost, True)):
            model = gp.fit(X[:n], z[:n], options=problem.space.options, noisy=noisy, clip=False)
            mean, std = model.at(X[n:])
            variance = (std / model.scale) ** 2 + model.noise
            error = (z[n:] - mean[:, 0]) / model.scale
            varies = np.ptp(mean) > 0 and np.ptp(z[n:]) > 0
            rank = spearmanr(mean[:, 0], z[n:]).statistic if varies else 0.0
            found += [float(log_density(error, np.zeros(1), variance).mean()), float(rank)]
    return found


def predictions(methods: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """A row for each method and number of rows: the means over families."""
    rows = []
    for n in SIZES:
        for method, factors in methods.items():
            by_family: dict[str, list[list[float]]] = {}
            for task in tables.names():
                for split in range(SPLITS):
                    each = held_back(task, n, split, factors)
                    by_family.setdefault(task.partition("/")[0], []).append(each)
            means = np.mean([np.mean(each, axis=0) for each in by_family.values()], axis=0)
            rows.append([str(n), method, *(f"{value:.2f}" for value in means)])
            print(*rows[-1], flush=True)
    return rows
