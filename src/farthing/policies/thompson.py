"""Thompson sampling (Thompson 1933): draw one posterior path, minimise it.

A path by Matheron's rule (Wilson et al. 2020): a draw from the prior by random features (Rahimi and
Recht 2007), corrected by the data,

    f(x) = sqrt(2 v / F) sum_i w_i cos(omega_i . z + b_i)  +  k(x, X) K^-1 (y - f(X) - noise)

omega from the spectral density of Matern-5/2, a Student t with 5 degrees of freedom. The draws of
a coordinate depend on its parameter's name, not on its place, so permuting parameters permutes
the path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from farthing.acquisition import proposal
from farthing.belief import Belief
from farthing.decision import Proposal
from farthing.gp import GP
from farthing.search import Rated, maximise

__all__ = ["Thompson"]

Array = NDArray[np.float64]

FEATURES = 1024


@dataclass(frozen=True)
class _Path:
    """Minus one posterior path, in units of the data's scale, plus ln P(success)."""

    belief: Belief
    gp: GP
    omega: Array  # (e, F)
    phase: Array  # (F,)
    weight: Array  # (F,) with sqrt(2 v / F)
    correction: Array  # (n,)

    def _prior(self, Z: Array) -> Array:
        return np.asarray(np.cos(Z @ self.omega + self.phase) @ self.weight)

    def at(self, X: Array) -> Rated:
        Z = self.gp.embedded(X)
        value = self._prior(Z) + self.gp.correct(Z, self.correction)[0]
        success = self.belief.log_success(X)
        return Rated(success - value, self.belief.costs(X)[1])

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        Z = self.gp.embedded(X)
        wave = Z @ self.omega + self.phase
        prior = np.cos(wave) @ self.weight
        d_prior = self.gp.to_cube(-(np.sin(wave) * self.weight) @ self.omega.T)
        data, d_data = self.gp.correct(Z, self.correction)
        success, d_success = self.belief.log_success_slopes(X)
        _, shortfall, _, _, d_shortfall = self.belief.cost_slopes(X)
        rated = Rated(success - prior - data, shortfall)
        return rated, d_success - d_prior - d_data, d_shortfall


def draw(belief: Belief, rng: np.random.Generator) -> _Path:
    """A posterior path; running trials take part with their first fantasy."""
    gp = belief.objective
    assert gp is not None
    names = belief.space.names
    key = int(rng.integers(2**32))
    omega = np.vstack(
        [
            np.random.default_rng([key, crc32(name.encode())]).standard_normal(
                (max(int(count), 1), FEATURES)
            )
            for name, count in zip(names, gp.options, strict=True)
        ]
    )
    freedom = 5.0  # 2 nu
    omega *= np.sqrt(freedom / rng.chisquare(freedom, FEATURES))
    phase = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
    weight = rng.standard_normal(FEATURES) * np.sqrt(2.0 * gp.variance / FEATURES)
    prior = np.cos(gp.embedded(gp.X) @ omega + phase) @ weight
    noise = np.sqrt(gp.noise) * rng.standard_normal(len(prior))
    residual = gp.targets[:, 0] - gp.mean - prior - noise
    correction, _ = lapack.dpotrs(gp.L, residual, lower=1)
    return _Path(belief, gp, omega, phase, weight, correction)


@dataclass(frozen=True)
class Thompson:
    """The minimum of one function drawn from the posterior, among the affordable points."""

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin of a path."""
        path = draw(belief, rng)
        found = maximise(
            path,
            belief.space,
            rng,
            tried=belief.tried,
            near=belief.top,
            lengths=path.gp.lengthscales,
        )
        return proposal(belief, found, "minimum of a function drawn from the posterior")
