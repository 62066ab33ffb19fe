"""The log EI that Farthing's search reaches, compared with BoTorch's on the same posterior.

Farthing fits and suggests. A BoTorch model gets its hyperparameters, and the posteriors must agree
to 1e-6. BoTorch then maximises its own log EI. Farthing's log EI scores both points.
`python -m benchmarks.speed.log_ei COUNT` prints one JSON line per problem.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.synthetic import Problem, ackley, bumps, levy, rosenbrock, styblinski_tang
from benchmarks.speed.peers import past

Array = NDArray[np.float64]
D = 8
SIZES = (25, 50, 100, 200)
RESTARTS, RAW_SAMPLES = 20, 1024
AGREE = 1e-6  # tolerance for the posterior's mean and std, relative to the scale of y


def problems() -> list[tuple[Problem, int]]:
    """Twenty (problem, n): five landscapes in eight dimensions, four sizes."""
    landscapes = (bumps(D), ackley(D), rosenbrock(D), levy(D), styblinski_tang(D))
    return [(landscape, n) for n in SIZES for landscape in landscapes]


def compare(problem: Problem, n: int, *, seed: int) -> dict[str, Any]:
    """ln EI at the point each optimiser chooses."""
    from farthing import Float, Optimizer, Space, policies
    from farthing.models import gp
    from farthing.models.normal import log_ei

    U = past(problem, n, seed=seed)
    y = problem.f(problem.from_cube(U))
    optimizer = Optimizer(
        Space({name: Float(0.0, 1.0) for name in problem.names}), policy=policies.EI(), seed=seed
    )
    for u, value in zip(U, y, strict=True):
        optimizer.add(dict(zip(problem.names, map(float, u), strict=True)), float(value))
    params = optimizer.ask().params
    chosen = np.array([[params[name] for name in problem.names]])

    model = gp.fit(U, y)  # as the Optimizer fits its first history
    twin = common_posterior(model)
    disagreement = check(model, twin, np.random.default_rng(seed).random((200, problem.d)))
    rival = maximise(twin, best=float((y.min() - model.shift) / model.scale), seed=seed)
    ours, theirs = (float(log_ei(*model.at(x), y.min())[0, 0]) for x in (chosen, rival))
    return {
        "problem": problem.name,
        "n": n,
        "seed": seed,
        "farthing": ours,
        "botorch": theirs,
        "ahead": ours - theirs,
        "posteriors_differ_by": disagreement,
    }


def common_posterior(model: Any) -> Any:
    """A BoTorch model on the standardised scale with farthing's data and hyperparameters."""
    import torch
    from botorch.models import SingleTaskGP
    from gpytorch.constraints import GreaterThan
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ConstantMean

    twin = SingleTaskGP(
        torch.as_tensor(model.X),
        torch.as_tensor(model.targets),
        likelihood=GaussianLikelihood(noise_constraint=GreaterThan(1e-9)),
        covar_module=ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=model.X.shape[1])),
        mean_module=ConstantMean(),
        outcome_transform=None,
    ).double()
    twin.covar_module.base_kernel.lengthscale = torch.as_tensor(model.lengthscales)
    twin.covar_module.outputscale = model.variance
    twin.likelihood.noise = model.noise
    twin.mean_module.constant = model.mean
    return twin.eval().requires_grad_(False)


def check(model: Any, twin: Any, X: Array) -> float:
    """Largest difference of means and stds, relative to the scale of y; fails above `AGREE`."""
    import torch

    posterior = twin.posterior(torch.as_tensor(X))
    mean = model.shift + model.scale * posterior.mean.numpy()[:, 0]
    std = model.scale * posterior.variance.sqrt().numpy()[:, 0]
    ours = model.at(X)
    worst = max(
        float(np.abs(ours.mean[:, 0] - mean).max() / model.scale),
        float((np.abs(ours.std - std) / ours.std).max()),
    )
    if worst > AGREE:
        raise AssertionError(f"the two posteriors differ by {worst:.1e}, more than {AGREE:.0e}")
    return worst


def maximise(twin: Any, *, best: float, seed: int) -> Array:
    """BoTorch's maximiser of its log EI, (1, d)."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.optim import optimize_acqf

    torch.manual_seed(seed)
    d = twin.train_inputs[0].shape[-1]
    x, _ = optimize_acqf(
        LogExpectedImprovement(twin, best_f=best, maximize=False),
        bounds=torch.stack([torch.zeros(d), torch.ones(d)]).double(),
        q=1,
        num_restarts=RESTARTS,
        raw_samples=RAW_SAMPLES,
    )
    return np.asarray(x.numpy())


def main(count: int) -> None:
    """Print one JSON line per problem. Output of the libraries goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    for seed, (problem, n) in enumerate(problems()[:count]):
        answers.write(json.dumps(compare(problem, n, seed=seed)) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
