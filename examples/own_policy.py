"""A policy of your own: any object that keeps the contract, nothing is registered.

This one maximises the probability of improvement per cost (Kushner 1964, divided by the price).
`differenced` makes a score of a plain function of what is believed of each point; the search for
its maximum, what cannot be paid, and what was tried already are taken care of.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

from farthing import Float, minimize
from farthing.acquisition import differenced, maximise_score, proposal
from farthing.policies import EI


@dataclass(frozen=True)
class LikelyPerCost:
    margin: float = 0.05  # less than this share of the values' spread is no improvement

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def propose(self, belief, rng):
        """Argmax of ln P(f(x) < best - margin spread) - ln c(x)."""
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
