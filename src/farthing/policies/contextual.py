"""Contextual EI, CEI_lambda (Pareto paper; dossier 7).

    minimise c(x)  subject to  EI(x) >= (1 - lambda) max_z EI(z)

in logs: min ln c s.t. ln EI >= ln EI* + ln(1 - lambda). The result is on the EI/cost Pareto front.
Finite sets exactly; elsewhere a screen, then SLSQP on ln c from the cheapest feasible points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from farthing.acquisition import (
    ScoreSurface,
    chained,
    cheapness,
    log_ei_per_cost,
    maximise_score,
    proposal,
)
from farthing.belief import Belief
from farthing.decision import Proposal
from farthing.errors import InvalidInput
from farthing.policies.random import start
from farthing.search import Effort, Found, candidates, is_among

__all__ = ["ContextualEI"]

Array = NDArray[np.float64]

TOLERANCE = 1e-9  # in ln EI
POLISHED = 4  # cheapest feasible points to start SLSQP from
CHUNK = 4096


class _Rated(NamedTuple):
    """Points with ln EI, minus ln c and the shortfall."""

    X: Array
    log_ei: Array
    cheapness: Array
    shortfall: Array

    def only(self, keep: NDArray[np.bool_]) -> _Rated:
        return _Rated(*(part[keep] for part in self))


def _rate(belief: Belief, X: Array) -> _Rated:
    parts = []
    for i in range(0, max(len(X), 1), CHUNK):
        outlook = belief.outlook(X[i : i + CHUNK])
        parts.append(
            (log_ei_per_cost(0.0)(outlook).score, cheapness(outlook).score, outlook.shortfall)
        )
    return _Rated(X, *(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class ContextualEI:
    """The cheapest point whose expected improvement is at least (1 - slack) of the best."""

    slack: float = 0.3

    needs: ClassVar[frozenset[str]] = frozenset({"cost"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.slack < 1:
            raise InvalidInput(
                f"ContextualEI(slack={self.slack}): slack is a share from 0 up to, not including, "
                "1. At 1 every point would do and the cheapest would be chosen for ever; try 0.3."
            )

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin c among the points with enough EI."""
        if belief.objective is None:
            return start(belief, rng)
        found = maximise_score(belief, log_ei_per_cost(0.0), rng)
        if self.slack == 0 or not len(found.X):
            return proposal(belief, found, "most improvement to be expected")
        cheapest = cheapest_within(belief, found, self.slack, rng)
        share = 100 * (1 - self.slack)
        why = f"the cheapest point with at least {share:.0f} % of the best expected improvement"
        return proposal(belief, cheapest, why, notes={"log_ei_best": float(found.score[0])})


def cheapest_within(belief: Belief, found: Found, slack: float, rng: np.random.Generator) -> Found:
    """Steps 2 to 4 of dossier 7, given the local maxima of ln EI."""
    if belief.space.rows is not None:
        return _pick(_rate(belief, found.X), found.score[0] + np.log1p(-slack))
    pool = candidates(belief.space, rng, found.X, Effort())
    rated = _rate(belief, np.vstack([found.X, pool[~is_among(pool, belief.tried)]]))
    rated = rated.only(rated.shortfall <= 0)
    for _ in range(2):  # an EI above EI* found on the way would have loosened the constraint
        threshold = float(rated.log_ei.max() + np.log1p(-slack))
        ends = _polish(belief, rated, threshold)
        rated = _Rated(
            *(np.concatenate([a, b]) for a, b in zip(rated, _rate(belief, ends), strict=True))
        )
        rated = rated.only((rated.shortfall <= 0) & ~is_among(rated.X, belief.tried))
        if rated.log_ei.max() + np.log1p(-slack) <= threshold + TOLERANCE:
            break
    return _pick(rated, threshold)


def _pick(rated: _Rated, threshold: float) -> Found:
    """The cheapest with enough EI; ties: more EI, then the lower index."""
    enough = rated.only(rated.log_ei >= threshold - TOLERANCE)
    order = np.lexsort((np.arange(len(enough.X)), -enough.log_ei, -enough.cheapness))
    return Found(enough.X[order], enough.cheapness[order])


def _polish(belief: Belief, rated: _Rated, threshold: float) -> Array:
    """SLSQP on ln c with the EI and affordability constraints, over the numeric coordinates."""
    space = belief.space
    enough = rated.only(rated.log_ei >= threshold)
    order = np.lexsort((-enough.log_ei, -enough.cheapness))[:POLISHED]
    ends = [_descend(belief, enough.X[i], threshold) for i in order]
    return space.snap(np.array(ends))


def _descend(belief: Belief, x: Array, threshold: float) -> Array:
    """One SLSQP run; both surfaces are evaluated once per point."""
    space = belief.space
    free = space.active(x[None])[0] & (space.options == 0)
    if not free.any():
        return x
    improvement = ScoreSurface(belief, log_ei_per_cost(0.0))
    seen: dict[bytes, tuple[float, Array, float, Array, float, Array]] = {}

    def look(moving: Array) -> tuple[float, Array, float, Array, float, Array]:
        key = moving.tobytes()
        if key not in seen:
            full = x.copy()
            full[free] = np.clip(moving, 0.0, 1.0)
            outlook, d = belief.slopes(full[None])
            ei, low = improvement.score(outlook), cheapness(outlook)
            short = max(float(outlook.shortfall[0]), -50.0)  # -inf without a budget
            slope = d.d_shortfall[0, free] if short > -50.0 else np.zeros(int(free.sum()))
            seen[key] = (
                -float(low.score[0]),
                -chained(low, d)[0, free],
                float(ei.score[0]) - threshold,
                chained(ei, d)[0, free],
                -short,
                -slope,
            )
        return seen[key]

    result = minimize(
        lambda v: look(v)[0],
        x[free],
        jac=lambda v: look(v)[1],
        bounds=[(0.0, 1.0)] * int(free.sum()),
        constraints=[
            {"type": "ineq", "fun": lambda v: look(v)[2], "jac": lambda v: look(v)[3]},
            {"type": "ineq", "fun": lambda v: look(v)[4], "jac": lambda v: look(v)[5]},
        ],
        method="SLSQP",
        options={"maxiter": 50, "ftol": 1e-10},
    )
    end = x.copy()
    end[free] = np.clip(result.x, 0.0, 1.0)
    return _pull_back(improvement, x, end, threshold) if np.isfinite(end).all() else x


def _pull_back(improvement: ScoreSurface, x: Array, end: Array, threshold: float) -> Array:
    """The last point from x towards the end with enough EI: SLSQP may end just outside."""
    if improvement.at(end[None]).score[0] >= threshold:
        return end
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        inside = improvement.at((x + middle * (end - x))[None]).score[0] >= threshold
        low, high = (middle, high) if inside else (low, middle)
    return np.asarray(x + low * (end - x))
