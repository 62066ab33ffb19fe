"""BoTorch: a Gaussian process and log EI. No costs."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.peers._terms import Params, Penalties, initial
from benchmarks.problems.problem import Evaluation
from farthing import Space

REQUIREMENTS = ("torch==2.13.0", "botorch==0.18.1")


class LogEI:
    """SingleTaskGP (MixedSingleTaskGP with categories), refitted each time, float64.

    LogExpectedImprovement by `optimize_acqf`, or where something is discrete by
    `optimize_acqf_mixed_alternating`, which its documentation names for spaces with too many
    combinations to enumerate; 10 restarts from 512 points. Inputs are farthing's unit cube: log
    scales are applied, an Ordinal sits where its value does.
    """

    def __init__(self, space: Space, *, budget: float, seed: int, evaluations: int) -> None:
        import torch

        torch.manual_seed(seed)
        warnings.simplefilter("ignore")
        self.space = Space(space.parameters)  # without the rows of a table
        self.sobol = torch.quasirandom.SobolEngine(space.d, scramble=True, seed=seed)
        self.X: list[np.ndarray] = []
        self.y: list[float] = []
        self.initial = initial(evaluations)  # at most 10 Sobol points, as in its tutorials
        self.penalties = Penalties()

    def ask(self) -> Params:
        """Sobol points first, then the maximiser of log EI."""
        if len(self.y) < self.initial:
            return self.space.decode(self.space.spread(self.sobol.draw(1).double().numpy())[0])
        return self.space.decode(self._best())

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Add one row."""
        for told in self.penalties.tell(params, evaluation):
            self.X.append(self.space.encode(told.params))
            self.y.append(told.value)

    def _best(self) -> np.ndarray:
        import torch
        from botorch.acquisition import LogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import MixedSingleTaskGP, SingleTaskGP
        from botorch.optim import optimize_acqf
        from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
        from gpytorch.mlls import ExactMarginalLogLikelihood

        X = torch.as_tensor(np.array(self.X))
        y = torch.as_tensor(self.y, dtype=torch.double)[:, None]
        categorical = np.flatnonzero(self.space.categorical).tolist()
        model = MixedSingleTaskGP(X, y, cat_dims=categorical) if categorical else SingleTaskGP(X, y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        log_ei = LogExpectedImprovement(model, best_f=y.min(), maximize=False)
        levels = {j: v.tolist() for j, v in enumerate(self.space.levels) if v is not None}
        ends = [
            (levels[j][0], levels[j][-1]) if j in levels else (0.0, 1.0) for j in range(X.shape[1])
        ]
        bounds = torch.tensor(ends, dtype=torch.double).T
        settings = {"q": 1, "num_restarts": 10, "raw_samples": 512}
        if levels:
            x, _ = optimize_acqf_mixed_alternating(
                log_ei,
                bounds,
                discrete_dims={j: v for j, v in levels.items() if j not in categorical},
                cat_dims={j: v for j, v in levels.items() if j in categorical},
                **settings,
            )
        else:
            x, _ = optimize_acqf(log_ei, bounds, **settings)
        return np.asarray(x[0].detach().numpy())


PEERS = {"botorch-logei": LogEI}
