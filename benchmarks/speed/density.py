"""Predictive log density of held-out observations, for twelve named problems.

    ln N(y; mean, std^2 + noise), y standardised by the training mean and standard deviation

so that the numbers of different problems are comparable. The models are Farthing's Gaussian
process, BoTorch's SingleTaskGP and scikit-optimize's GP, each with the defaults of its library.
Farthing's model is also scored as its Optimizer uses it: with bad outliers of the training data
clipped to the fence Q3 + 1.5 IQR. Such a model does not describe values beyond the fence, so every
model is scored twice: on all held-out points, and on those inside the fence.
`python -m benchmarks.speed.density SPLITS` prints one JSON line per problem.

Nine problems are synthetic. Three are tables of recorded tuning runs in the folder FARTHING_DATA,
or else in ../shared/data. If they are missing, synthetic problems replace them, with a note.
"""

from __future__ import annotations

import fnmatch
import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.synthetic import SUBSTITUTES, SYNTHETIC, Problem

Array = NDArray[np.float64]
DATA = Path(os.environ.get("FARTHING_DATA", Path(__file__).parents[3] / "shared" / "data"))
TABLES = ("lcbench/Fashion-MNIST", "hpobench_mlp/segment", "yahpo_rbv2_xgboost/1049_t10")
TRAINING = (20, 50, 100)  # observations
HELD_BACK = 500


# ── observations ───────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Source:
    """Draws (U, y): distinct points of the unit cube and their observations."""

    name: str
    draw: Callable[[int, np.random.Generator], tuple[Array, Array]]
    noisy: bool = False
    note: str = ""


def synthetic(problem: Problem, note: str = "") -> Source:
    """Uniform points of a test problem, with its noise."""

    def draw(m: int, rng: np.random.Generator) -> tuple[Array, Array]:
        U = rng.random((m, problem.d))
        return U, problem.f(problem.from_cube(U)) + problem.noise * rng.standard_normal(m)

    return Source(problem.name, draw, noisy=problem.noise > 0.0, note=note)


def table(name: str) -> Source:
    """Rows of a recorded table, scaled to the unit cube by its space.json."""
    import pyarrow.parquet as parquet

    path = DATA / f"{name}.parquet"
    columns = parquet.read_table(path).to_pydict()
    spaces = json.loads((path.parent / "space.json").read_text())
    space = next(v for pattern, v in spaces.items() if fnmatch.fnmatch(path.stem, pattern))
    everything_U = np.column_stack([place(columns[hp], rule) for hp, rule in space.items()])
    everything_y = np.array(columns["objective"], dtype=np.float64)

    def draw(m: int, rng: np.random.Generator) -> tuple[Array, Array]:
        rows = rng.choice(len(everything_y), size=m, replace=False)
        return everything_U[rows], everything_y[rows]

    return Source(name, draw)


def place(values: list[float], rule: dict[str, Any]) -> Array:
    """Natural units -> [0, 1]."""
    ends = (
        (min(rule["values"]), max(rule["values"]))
        if "values" in rule
        else (rule["low"], rule["high"])
    )
    low, high, x = (np.asarray(part, dtype=np.float64) for part in (*ends, values))
    if rule.get("log"):
        low, high, x = np.log(low), np.log(high), np.log(x)
    return np.clip((x - low) / (high - low), 0.0, 1.0)


def sources() -> list[Source]:
    """The twelve problems."""
    found = [synthetic(problem) for problem in SYNTHETIC]
    for name, substitute in zip(TABLES, SUBSTITUTES, strict=True):
        try:
            found.append(table(name))
        except (ImportError, OSError) as error:
            reason = type(error).__name__
            found.append(synthetic(substitute, f"instead of the table {name}: {reason}"))
    return found


# ── the models: (U, y), V -> mean and variance of an observation at V ──────────────────────────

Predict = Callable[[Array, Array, Array, bool], tuple[Array, Array]]


def farthing(U: Array, y: Array, V: Array, noisy: bool) -> tuple[Array, Array]:
    """farthing.models.gp on the unclipped values; it knows whether the objective is noisy."""
    return _farthing(U, y, V, noisy=noisy, clip=False)


def farthing_clipped(U: Array, y: Array, V: Array, noisy: bool) -> tuple[Array, Array]:
    """farthing.models.gp as the Optimizer calls it."""
    return _farthing(U, y, V, noisy=noisy, clip=True)


def _farthing(U: Array, y: Array, V: Array, *, noisy: bool, clip: bool) -> tuple[Array, Array]:
    from farthing.models import gp

    model = gp.fit(U, y, noisy=noisy, clip=clip)
    mean, std = model.at(V)
    return mean[:, 0], std**2 + model.noise * model.scale**2


def botorch(U: Array, y: Array, V: Array, noisy: bool) -> tuple[Array, Array]:
    """SingleTaskGP with its default kernel, prior and standardisation."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    model = SingleTaskGP(torch.as_tensor(U), torch.as_tensor(y)[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    posterior = model.posterior(torch.as_tensor(V), observation_noise=True)
    return (
        posterior.mean.detach().numpy()[:, 0],
        posterior.variance.detach().numpy()[:, 0],
    )


def skopt(U: Array, y: Array, V: Array, noisy: bool) -> tuple[Array, Array]:
    """The estimator behind base_estimator="GP"; its predictions exclude its learnt noise."""
    from skopt.utils import cook_estimator

    model = cook_estimator("GP", space=[(0.0, 1.0)] * U.shape[1], random_state=0)
    model.fit(U, y)
    mean, std = model.predict(V, return_std=True)
    return mean, std**2 + model.noise_ * model.y_train_std_**2


MODELS: dict[str, Predict] = {
    "farthing": farthing,
    "farthing, clipped": farthing_clipped,
    "botorch": botorch,
    "skopt": skopt,
}


# ── the comparison ─────────────────────────────────────────────────────────────────────────────


def log_density(y: Array, mean: Array, variance: Array) -> Array:
    """ln N(y; mean, variance), (m,)."""
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance))


def fence(y: Array) -> float:
    """Q3 + 1.5 IQR."""
    lower, upper = np.quantile(y, [0.25, 0.75])
    return float(upper + 1.5 * (upper - lower))


def compare(source: Source, splits: int) -> dict[str, Any]:
    """Mean log density of each model over training sizes and splits, and the errors."""
    everywhere: dict[str, list[float]] = {name: [] for name in MODELS}
    inside: dict[str, list[float]] = {name: [] for name in MODELS}
    errors: dict[str, str] = {}
    for n in TRAINING:
        for split in range(splits):
            rng = np.random.default_rng([n, split])
            U, raw = source.draw(n + HELD_BACK, rng)
            y = (raw - raw[:n].mean()) / raw[:n].std()
            good = y[n:] <= fence(y[:n])
            for name, predict in MODELS.items():
                try:
                    density = log_density(y[n:], *predict(U[:n], y[:n], U[n:], source.noisy))
                except Exception as error:
                    errors[name] = f"n = {n}: {type(error).__name__}: {error}"
                else:
                    everywhere[name].append(float(density.mean()))
                    inside[name].append(float(density[good].mean()))
    sound = [name for name in MODELS if name not in errors]
    return {
        "problem": source.name,
        "note": source.note,
        "training": TRAINING,
        "splits": splits,
        "all": {name: float(np.mean(everywhere[name])) for name in sound},
        "inside": {name: float(np.mean(inside[name])) for name in sound},
        "every_split": everywhere,
        "errors": errors,
    }


def main(splits: int) -> None:
    """Print one JSON line per problem. Output of the libraries goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    for source in sources():
        answers.write(json.dumps(compare(source, splits)) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
