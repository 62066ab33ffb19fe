"""Thompson sampling (Thompson 1933): draw one posterior sample and minimise it.

x = argmin f(x),   f ~ the posterior given all values,   see acquisition/posterior_samples.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.posterior_samples import Paths, draw
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import first_feasible, proposal
from farthing.acquisition.search import Rated, maximise

__all__ = ["Thompson"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Surface:
    """Minus one posterior sample, in units of the data's scale, plus ln P(success)."""

    belief: Belief
    path: Paths

    def at(self, X: Array) -> Rated:
        success = self.belief.log_success(X)
        return Rated(success - self.path.at(X)[:, 0], self.belief.costs(X)[1])

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        value, d_value = self.path.along(X, np.zeros(len(X), dtype=np.int64))
        success, d_success = self.belief.log_success_slopes(X)
        _, shortfall, _, _, d_shortfall = self.belief.cost_slopes(X)
        return Rated(success - value, shortfall), d_success - d_value, d_shortfall


def surface(belief: Belief, rng: np.random.Generator) -> _Surface:
    """The surface of one posterior sample, given the first fantasy of each pending trial."""
    assert belief.objective is not None
    return _Surface(belief, draw(belief.objective, belief.space.names, 1, rng))


@dataclass(frozen=True)
class Thompson:
    """The minimum of one function drawn from the posterior, among the affordable points."""

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def surface(self, belief: Belief, rng: np.random.Generator) -> _Surface:
        """Minus one posterior sample, plus ln P(success)."""
        return surface(belief, rng)

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin of a posterior sample."""
        if not belief.has_incumbent:
            return first_feasible(belief, rng, 0.0)
        drawn = surface(belief, rng)
        found = maximise(
            drawn,
            belief.space,
            rng,
            tried=belief.tried,
            near=belief.top,
            lengths=drawn.path.gp.lengthscales,
        )
        return proposal(belief, found, "minimum of a function drawn from the posterior")
