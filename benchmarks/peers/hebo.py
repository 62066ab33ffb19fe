"""HEBO: a Gaussian process of the transformed value, a Pareto front of acquisitions. No costs."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

from benchmarks.peers._terms import Params, Penalties, from_indexed, indexed
from benchmarks.problems.problem import Evaluation
from farthing import Categorical, Float, Ordinal, Space

# Its own pins are left out: Farthing needs a newer numpy than 1.25, and pymoo 0.6.0 has no wheel
# for this Python. GPy and catboost belong to models that are not the default.
REQUIREMENTS = (
    "torch==2.13.0",
    "numpy==1.26.4",
    "pandas<3",
    "pyarrow==19.0.1",  # later versions need numpy 2
    "pymoo==0.6.1",
    "scikit-learn",
    "gpytorch",
    "disjoint-set",
    "--no-deps HEBO==0.3.6",
)


class HEBO:
    """HEBO with its defaults, which won the NeurIPS 2020 black-box challenge.

    Its initial design of d + 1 points does not depend on the budget. Ordinals are integers, log
    scales are its "pow" kinds. It leaves failures out, so they are told as the worst value so far.
    """

    def __init__(self, space: Space, *, budget: float, seed: int, evaluations: int) -> None:
        warnings.simplefilter("ignore")
        import torch
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers import hebo

        for seeded in (
            random.seed,
            np.random.seed,
            torch.manual_seed,
        ):  # HEBO itself seeds only its design
            seeded(seed)
        self.space = space
        described = [{"name": name, **_parameter(p)} for name, p in space.parameters.items()]
        self.optimizer = hebo.HEBO(DesignSpace().parse(described), scramble_seed=seed)
        self.penalties = Penalties()

    def ask(self) -> Params:
        """The next point."""
        return from_indexed(self.space, self.optimizer.suggest(1).iloc[0].to_dict())

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report a data frame with one row, and its value."""
        import pandas as pd

        for told in self.penalties.tell(params, evaluation):
            row = pd.DataFrame([indexed(self.space, told.params)])
            self.optimizer.observe(row, np.array([[told.value]]))


def _parameter(parameter: Any) -> dict[str, Any]:
    if isinstance(parameter, Categorical):
        return {"type": "cat", "categories": list(parameter.options)}
    if isinstance(parameter, Ordinal):
        return {"type": "int", "lb": 0, "ub": len(parameter.values) - 1}
    if isinstance(parameter, Float):
        kind = "pow" if parameter.log else "num"
    else:
        kind = "pow_int" if parameter.log else "int"
    return {"type": kind, "lb": parameter.low, "ub": parameter.high}


PEERS = {"hebo": HEBO}
