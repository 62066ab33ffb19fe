"""Your own policy: any object with these attributes and `propose`; you register nothing.

This one maximises the probability of improvement per cost (Kushner 1964, divided by the cost).
`differenced` turns a plain function of the predictions at each point into a score with gradients.
`maximise_score` searches for its maximum and skips points that were tried or cannot be paid for.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

from farthing import Float, minimize
from farthing.acquisition.scores import differenced, maximise_score, proposal
from farthing.policies import EI


@dataclass(frozen=True)
class LikelyPerCost:
    margin: float = 0.05  # an improvement is at least this share of the values' std

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        """Argmax of ln P(f(x) < best - margin std) - ln c(x)."""
        least = self.margin * np.std([trial.value for trial in belief.history.done])

        def score(outlook):
            gap = (outlook.best - least - outlook.mean) / outlook.std[:, None]
            return log_ndtr(gap).mean(axis=1) - outlook.cost.mean

        found = maximise_score(belief, differenced(score), rng)
        return proposal(belief, found, "most likely to improve, for its price")


def wave(params: dict) -> float:
    return math.sin(12 * params["x"]) + (params["x"] - 0.6) ** 2 * 8


for policy in (EI(), LikelyPerCost()):
    result = minimize(wave, {"x": Float(0, 1)}, 60, cost=lambda p: 1 + 9 * p["x"], policy=policy)
    print(f"{policy}\n{result}\nbecause: {result.best.because}\n")
