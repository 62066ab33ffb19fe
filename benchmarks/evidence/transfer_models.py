"""Two models of a task with earlier studies, on held-back rows of the tasks of development.

    python -m benchmarks transfer --models      print the table; about two minutes of CPU time

alone       the Gaussian process of the task
prior mean  the model of farthing: a weighted sum of the posterior means of the sources, and a
            process of the residuals (`models/prior_mean.py`)
joint       one process of all tasks, k((x, t), (x', t')) = B_tt' k(x, x') + noise, with
            B = w w' + diag(u): the coregionalisation model (Bonilla et al. 2008) with one factor.
            Each task has its own level. w ~ N(0.7, 0.5^2), so a correlation of 1/2 is expected,
            ln u ~ N(ln 1/2, 1), the other priors are those of farthing. Maximum a posteriori.

Each task has 3 sources. `rank` is Spearman's correlation of predicted and true values of held-back
rows; `density` the mean of ln N(y; mean, std^2 + noise) in units of the rows seen. Values are
clipped as the rows seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import spearmanr

from benchmarks.evidence.priors_fit import sample
from benchmarks.speed.density import log_density
from farthing.earlier import Source
from farthing.models import gp
from farthing.models.hyperparameters import (
    LENGTHSCALE_BOX,
    LENGTHSCALE_PRIOR,
    NOISE_BOX,
    NUGGET_PRIOR,
    factor,
)
from farthing.models.kernel import columns, distances, embed, matern
from farthing.models.prior_mean import prior_mean

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SIZES = (4, 8, 16)
HELD_BACK = 300
WEIGHT_PRIOR = (0.7, 0.5)
OWN_PRIOR = (np.log(0.5), 1.0)


def _alone(sources: Sequence[Source], options: Ints, X: Array, y: Array, at: Array) -> Array:
    return _of(gp.fit(X, y, options=options, clip=False), at)


def _with_prior_mean(
    sources: Sequence[Source], options: Ints, X: Array, y: Array, at: Array
) -> Array:
    prior = prior_mean(sources, options, X, y).mean
    return _of(gp.fit(X, y, options=options, clip=False, prior=prior), at)


def _of(model: gp.GP, at: Array) -> Array:
    mean, std = model.at(at)
    return np.array([mean[:, 0], np.sqrt(std**2 + model.noise * model.scale**2)])


def _joint(sources: Sequence[Source], options: Ints, X: Array, y: Array, at: Array) -> Array:
    """Mean and standard deviation (2, m); task 0 is the present one."""
    parts, points, count = [gp.standardise(y)], [X], len(sources) + 1
    for source in sources:
        valued = np.isfinite(source.y)
        parts.append(gp.standardise(gp.clip_outliers(source.y[valued])))
        points.append(source.x[valued])
    z = np.concatenate([targets for targets, _, _ in parts])
    task = np.repeat(np.arange(count), [len(each) for each in points])
    E, d, levels = embed(np.vstack(points), options), X.shape[1], np.eye(count)[task]
    column, to = columns(options), embed(at, options)

    def kernel(theta: Array) -> tuple[Array, Array, Array, float]:
        scale = np.exp(-theta[:d])[column]
        w, own = theta[d : d + count], np.exp(theta[d + count : -1])
        return scale, np.outer(w, w) + np.diag(own), E * scale, float(np.exp(theta[-1]))

    def solved(theta: Array) -> tuple[Array, Array, Array]:
        """The factor of K, the levels by least squares, and K^-1 of the residuals."""
        _, B, Z, noise = kernel(theta)
        K = matern(distances(Z, Z), 1.0) * B[np.ix_(task, task)]
        L = factor(K + noise * np.eye(len(K)), 1.0)
        inverse = np.linalg.inv(L)
        half, of_z = inverse @ levels, inverse @ z
        level = np.linalg.solve(half.T @ half, half.T @ of_z)
        return L, level, inverse.T @ (of_z - half @ level)

    mean, sd = LENGTHSCALE_PRIOR
    mode = mean + 0.5 * np.log(d) - sd**2
    middle = np.concatenate(
        [np.full(d, mode), np.full(count, WEIGHT_PRIOR[0]), np.full(count, OWN_PRIOR[0])]
    )
    middle = np.append(middle, NUGGET_PRIOR[0])
    spread = np.repeat([sd, WEIGHT_PRIOR[1], OWN_PRIOR[1], NUGGET_PRIOR[1]], [d, count, count, 1])

    def loss(theta: Array) -> float:
        L, level, a = solved(theta)
        fit = 0.5 * float((z - levels @ level) @ a) + float(np.log(np.diag(L)).sum())
        return fit + 0.5 * float((((theta - middle) / spread) ** 2).sum())

    box = [LENGTHSCALE_BOX] * d + [(-3.0, 3.0)] * count + [(-6.0, 3.0)] * count + [NOISE_BOX]
    theta = minimize(loss, middle, method="L-BFGS-B", bounds=box, options={"maxiter": 60}).x
    scale, B, Z, noise = kernel(theta)
    L, level, a = solved(theta)
    k = matern(distances(to * scale, Z), 1.0) * B[0, task]
    half = np.linalg.solve(L, k.T)
    variance = np.maximum(B[0, 0] - (half**2).sum(axis=0), 0.0) + noise
    _, shift, unit = parts[0]
    return np.array([shift + unit * (level[0] + k @ a), unit * np.sqrt(variance)])


MODELS: dict[str, Callable[..., Array]] = {
    "alone": _alone,
    "prior mean": _with_prior_mean,
    "joint": _joint,
}


def compare(tasks: Sequence[str], sources: Callable[[str], Sequence[Source]]) -> None:
    """Print the means over tasks of rank, density and CPU time of a model and its predictions."""
    print("| rows seen | model | rank | density | CPU ms | rank above that of the prior mean |")
    print("|---|---|---|---|---|---|")
    for n in SIZES:
        found: dict[str, list[tuple[float, float, float]]] = {model: [] for model in MODELS}
        for task in tasks:
            problem, X, y, _ = sample(task, n + HELD_BACK, 1)
            y, known = np.minimum(y, gp.clip_outliers(y[:n]).max()), sources(task)
            unit = gp.standardise(y[:n])[2]
            for name, model in MODELS.items():
                started = time.process_time()
                mean, std = model(known, problem.space.options, X[:n], y[:n], X[n:])
                cpu = time.process_time() - started
                rank = spearmanr(mean, y[n:]).statistic if np.ptp(mean) > 0 else 0.0
                error, variance = (y[n:] - mean) / unit, (std / unit) ** 2
                density = log_density(error, np.zeros(1), variance).mean()
                found[name].append((float(rank), float(density), 1000 * cpu))
        for name, each in found.items():
            rank, density, cpu = np.mean(each, axis=0)
            pairs = zip(each, found["prior mean"], strict=True)
            won = np.mean([0.5 + 0.5 * np.sign(a[0] - b[0]) for a, b in pairs])
            share = "" if name == "prior mean" else f"{won:.0%} of {len(each)} tasks"
            print(
                f"| {n} | {name} | {rank:.2f} | {density:.2f} | {cpu:.0f} | {share} |", flush=True
            )
