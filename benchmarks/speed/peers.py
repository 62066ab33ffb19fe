"""One suggestion of each library, through its public interface, in its own process.

`python -m benchmarks.speed.peers NAME` answers JSON lines on standard input with JSON lines on
standard output: `{"start": {"n", "d", "seed"}}` feeds n past observations, `{"suggest": k}` times
k consecutive suggestions. A suggestion is ask and tell (for Farthing verdict, ask and tell),
without the objective.

Every library keeps its defaults (threads, restarts, refits) unless its class names another setting.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from benchmarks.problems.synthetic import Problem, bumps

Array = NDArray[np.float64]
NEAR_THE_OPTIMUM = 0.2  # share of past observations, as in a run that has made progress
CLOSENESS = 0.05  # their standard deviation around it, in the cube


class Peer(Protocol):
    """A library with past observations: y and cost of the points U (n, d) of the unit cube."""

    def ask(self) -> Array:
        """The next point (d,)."""

    def tell(self, value: float, cost: float) -> None:
        """Report the result of the last point."""


class Farthing:
    """EI, no budget; `verdict` is part of the suggestion."""

    def __init__(self, U: Array, y: Array, cost: Array, *, seed: int) -> None:
        from farthing import Float, Optimizer, Space, policies

        self.names = [f"x{j}" for j in range(U.shape[1])]
        space = Space({name: Float(0.0, 1.0) for name in self.names})
        self.optimizer = Optimizer(space, policy=policies.EI(), seed=seed)
        for u, value in zip(U, y, strict=True):
            self.optimizer.add(dict(zip(self.names, map(float, u), strict=True)), float(value))

    def ask(self) -> Array:
        assert not self.optimizer.verdict.stop
        self.trial = self.optimizer.ask()
        return np.array([self.trial.params[name] for name in self.names])

    def tell(self, value: float, cost: float) -> None:
        self.optimizer.tell(self.trial, value)


class OptunaGP:
    """GPSampler with a deterministic objective, which is its quicker setting."""

    def __init__(self, U: Array, y: Array, cost: Array, *, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore")  # GPSampler is marked experimental
        self.names = [f"x{j}" for j in range(U.shape[1])]
        sampler = optuna.samplers.GPSampler(deterministic_objective=True, seed=seed)
        self.study = optuna.create_study(sampler=sampler)
        box = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in self.names}
        self.study.add_trials(
            [
                optuna.trial.create_trial(
                    params=dict(zip(self.names, map(float, u), strict=True)),
                    distributions=box,
                    value=float(value),
                )
                for u, value in zip(U, y, strict=True)
            ]
        )

    def ask(self) -> Array:
        self.trial = self.study.ask()
        return np.array([self.trial.suggest_float(name, 0.0, 1.0) for name in self.names])

    def tell(self, value: float, cost: float) -> None:
        self.study.tell(self.trial, value)


class BoTorch:
    """SingleTaskGP refitted each time, log EI, 10 restarts from 512 raw samples, float64."""

    def __init__(self, U: Array, y: Array, cost: Array, *, seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        warnings.simplefilter("ignore")
        self.X = torch.as_tensor(U, dtype=torch.double)
        self.y = torch.as_tensor(y, dtype=torch.double)[:, None]

    def ask(self) -> Array:
        import torch
        from botorch.acquisition import LogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Standardize
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        model = SingleTaskGP(self.X, self.y, outcome_transform=Standardize(m=1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        d = self.X.shape[1]
        self.x, _ = optimize_acqf(
            LogExpectedImprovement(model, best_f=self.y.min(), maximize=False),
            bounds=torch.stack([torch.zeros(d), torch.ones(d)]).double(),
            q=1,
            num_restarts=10,
            raw_samples=512,
        )
        return np.asarray(self.x[0].numpy())

    def tell(self, value: float, cost: float) -> None:
        import torch

        self.X = torch.cat([self.X, self.x])
        self.y = torch.cat([self.y, torch.tensor([[value]], dtype=torch.double)])


class ScikitOptimize:
    """Gaussian process; EI, or EIps with (value, time). It fits and searches in `tell`."""

    def __init__(self, U: Array, y: Array, cost: Array, *, seed: int, acquisition: str) -> None:
        from skopt import Optimizer

        warnings.simplefilter("ignore")
        self.per_second = acquisition == "EIps"
        self.optimizer = Optimizer(
            [(0.0, 1.0)] * U.shape[1],
            base_estimator="GP",
            acq_func=acquisition,
            n_initial_points=1,
            random_state=seed,
        )
        outcomes = [self._outcome(*both) for both in zip(y, cost, strict=True)]
        self.optimizer.tell(U.tolist(), outcomes)

    def _outcome(self, value: float, cost: float) -> float | tuple[float, float]:
        return (float(value), float(cost)) if self.per_second else float(value)

    def ask(self) -> Array:
        self.x = self.optimizer.ask()
        return np.array(self.x)

    def tell(self, value: float, cost: float) -> None:
        self.optimizer.tell(self.x, self._outcome(value, cost))


class SMAC:
    """BlackBoxFacade. Its initial design is one point, because the observations are the design."""

    def __init__(self, U: Array, y: Array, cost: Array, *, seed: int) -> None:
        from ConfigSpace import Configuration, ConfigurationSpace
        from smac import BlackBoxFacade, Scenario
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        self.value = TrialValue
        self.names = [f"x{j}" for j in range(U.shape[1])]
        self.folder = tempfile.TemporaryDirectory()
        space = ConfigurationSpace(dict.fromkeys(self.names, (0.0, 1.0)), seed=seed)
        scenario = Scenario(
            space,
            deterministic=True,
            n_trials=100_000,
            seed=seed,
            output_directory=self.folder.name,
        )
        self.facade = BlackBoxFacade(
            scenario,
            lambda config, seed=0: 0.0,
            initial_design=BlackBoxFacade.get_initial_design(scenario, n_configs=1),
            overwrite=True,
            logging_level=logging.ERROR,
        )
        for u, value in zip(U, y, strict=True):
            params = dict(zip(self.names, map(float, u), strict=True))
            info = TrialInfo(Configuration(space, params), seed=0)
            self.facade.tell(info, TrialValue(cost=float(value)), save=False)

    def ask(self) -> Array:
        self.info = self.facade.ask()
        return np.array([self.info.config[name] for name in self.names])

    def tell(self, value: float, cost: float) -> None:
        self.facade.tell(self.info, self.value(cost=value))


class Ax:
    """Client with its own choice of generation strategy."""

    def __init__(self, U: Array, y: Array, cost: Array, *, seed: int) -> None:
        from ax.api.client import Client
        from ax.api.configs import RangeParameterConfig

        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        self.names = [f"x{j}" for j in range(U.shape[1])]
        self.client = Client(random_seed=seed)
        self.client.configure_experiment(
            [
                RangeParameterConfig(name=name, bounds=(0.0, 1.0), parameter_type="float")
                for name in self.names
            ]
        )
        self.client.configure_optimization(objective="-value")  # minus: minimise
        for u, value in zip(U, y, strict=True):
            params = dict(zip(self.names, map(float, u), strict=True))
            index = self.client.attach_trial(params)
            self.client.complete_trial(index, {"value": float(value)})

    def ask(self) -> Array:
        ((self.index, params),) = self.client.get_next_trials(1).items()
        return np.array([params[name] for name in self.names])

    def tell(self, value: float, cost: float) -> None:
        self.client.complete_trial(self.index, {"value": value})


# Each library by name: how to make it, and the distributions whose versions matter, its own first.
PEERS: dict[str, tuple[Callable[..., Peer], tuple[str, ...]]] = {
    "farthing": (Farthing, ("farthing",)),
    "optuna": (OptunaGP, ("optuna", "torch")),
    "botorch": (BoTorch, ("botorch", "gpytorch", "torch")),
    "skopt-ei": (partial(ScikitOptimize, acquisition="EI"), ("scikit-optimize", "scikit-learn")),
    "skopt-eips": (
        partial(ScikitOptimize, acquisition="EIps"),
        ("scikit-optimize", "scikit-learn"),
    ),
    "smac": (SMAC, ("smac",)),
    "ax": (Ax, ("ax-platform", "botorch", "torch")),
}


# ── the case that every library gets ────────────────────────────────────────────────────────────


def past(problem: Problem, n: int, *, seed: int) -> Array:
    """(n, d) of the cube: scrambled Sobol points, and a fifth of them near the optimum."""
    near = int(NEAR_THE_OPTIMUM * n)
    sobol = qmc.Sobol(problem.d, seed=seed).random_base2(int(np.ceil(np.log2(n - near))))
    low, high = np.array(problem.bounds).T
    centre = (np.array(problem.minimiser) - low) / (high - low)
    cloud = np.random.default_rng([seed, n]).normal(centre, CLOSENESS, size=(near, problem.d))
    return np.vstack([sobol[: n - near], np.clip(cloud, 0.0, 1.0)])


def price(U: Array) -> Array:
    """exp(2 mean u)."""
    return np.asarray(np.exp(2.0 * U.mean(axis=1)))


class Case:
    """One library with n past observations in d dimensions."""

    def __init__(self, peer: Callable[..., Peer], *, n: int, d: int, seed: int) -> None:
        problem = bumps(d)
        U = past(problem, n, seed=seed)
        self.f = problem.f
        self.peer = peer(U, self.f(U), price(U), seed=seed)

    def suggest(self) -> float:
        """Seconds of one suggestion, without the objective."""
        start = time.perf_counter()
        u = self.peer.ask()
        asked = time.perf_counter()
        value, cost = float(self.f(u[None])[0]), float(price(u[None])[0])
        again = time.perf_counter()
        self.peer.tell(value, cost)
        seconds = time.perf_counter() - again + asked - start
        assert u.min() >= 0.0
        assert u.max() <= 1.0
        return seconds


# ── the process ────────────────────────────────────────────────────────────────────────────────


def versions(distributions: tuple[str, ...]) -> dict[str, str]:
    """Installed version of each distribution, or "missing"."""
    found = {}
    for name in (*distributions, "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def peak_mib() -> float:
    """Peak memory of this process in MiB."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, KiB on other systems
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def serve(name: str) -> None:
    """Answer requests until standard input ends. An exception is also an answer."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of the libraries goes to standard error
    peer, distributions = PEERS[name]
    case: Case | None = None
    answers.write(json.dumps({"versions": versions(distributions)}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "start" in request:
                case = None  # free the last case first
                case = Case(peer, **request["start"])
                answer: dict[str, Any] = {"ready": True}
            else:
                assert case is not None
                answer = {"seconds": suggestions(case, request["suggest"], request["limit"])}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        used = {"peak_mib": peak_mib(), "cpu_seconds": time.process_time()}
        answers.write(json.dumps({**answer, **used}) + "\n")


def suggestions(case: Case, k: int, limit: float) -> list[float]:
    """Seconds of up to k consecutive suggestions; the first above the limit is the last."""
    seconds: list[float] = []
    while len(seconds) < k and not (seconds and seconds[-1] > limit):
        seconds.append(case.suggest())
    return seconds


if __name__ == "__main__":
    serve(sys.argv[1])
