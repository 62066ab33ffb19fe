"""Contextual EI, CEI_lambda (Guinet et al. 2020, eq. 2).

    minimise c(x)  subject to  EI(x) >= (1 - lambda) max_z EI(z)

in logs: min ln c s.t. ln EI >= ln EI* + ln(1 - lambda). The result is on the EI/cost Pareto front.
Finite sets exactly; elsewhere the usual search, too little EI being a shortfall, then SLSQP on ln c
from the cheapest points it found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from farthing.acquisition import (
    chained,
    cheapness,
    log_ei_per_cost,
    maximise_score,
    proposal,
)
from farthing.belief import Belief
from farthing.decision import Proposal
from farthing.errors import InvalidInput
from farthing.search import Effort, Found, Rated, is_among, maximise

__all__ = ["ContextualEI"]

Array = NDArray[np.float64]

TOLERANCE = 1e-9  # in ln EI
APART = 0.15  # of the cube: the second start of SLSQP is elsewhere,
PROMISES = 3.0  # and gains at most this many times what the first did, or is not worth it
# Feasible regions are small and near the maxima of EI; SLSQP does the last steps.
EFFORT = Effort(screen=64, around=512, starts=16, steps=(4,))
NO_LIMIT = -50.0  # a shortfall of -inf, as a number: e^50 times what it costs is left
BACK = np.append(0.0, np.geomspace(1e-10, 1.0, 40))  # from where SLSQP ended to where it began
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

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
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
        within = -float(np.log1p(-self.slack))
        found = maximise_score(belief, log_ei_per_cost(0.0), rng, within=within + TOLERANCE)
        if self.slack == 0 or not len(found.X):
            return proposal(belief, found, "most improvement to be expected")
        cheapest = cheapest_within(belief, found, self.slack, rng)
        share = 100 * (1 - self.slack)
        why = f"the cheapest point with at least {share:.0f} % of the best expected improvement"
        return proposal(belief, cheapest, why, notes={"log_ei_best": float(found.score[0])})


@dataclass(frozen=True)
class _Enough:
    """Cheapness, where too little EI is a shortfall just as too little money is."""

    belief: Belief
    threshold: float

    def at(self, X: Array) -> Rated:
        rated = _rate(self.belief, X)
        return Rated(rated.cheapness, np.maximum(rated.shortfall, self.threshold - rated.log_ei))

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        outlook, d = self.belief.slopes(X)
        improvement, cheap = log_ei_per_cost(0.0)(outlook), cheapness(outlook)
        lacking = self.threshold - improvement.score
        short = (lacking >= outlook.shortfall)[:, None]
        return (
            Rated(cheap.score, np.maximum(outlook.shortfall, lacking)),
            chained(cheap, d),
            np.where(short, -chained(improvement, d), d.d_shortfall),
        )


def cheapest_within(belief: Belief, found: Found, slack: float, rng: np.random.Generator) -> Found:
    """The points with enough EI, cheapest first, given the local maxima of ln EI."""
    if belief.space.rows is not None:
        return _pick(_rate(belief, found.X), found.score[0] + np.log1p(-slack))
    assert belief.objective is not None
    rated = _rate(belief, found.X)
    for _ in range(2):  # an EI above EI* found on the way would have loosened the constraint
        threshold = float(rated.log_ei.max() + np.log1p(-slack))
        cheap = maximise(
            _Enough(belief, threshold),
            belief.space,
            rng,
            tried=belief.tried,
            near=found.X,
            lengths=belief.objective.lengthscales,
            effort=EFFORT,
        )
        rated = _join(rated, _rate(belief, cheap.X))
        rated = _join(rated, _rate(belief, _polish(belief, rated, threshold)))
        rated = rated.only((rated.shortfall <= 0) & ~is_among(rated.X, belief.tried))
        if rated.log_ei.max() + np.log1p(-slack) <= threshold + TOLERANCE:
            break
    return _pick(rated, threshold)


def _join(some: _Rated, more: _Rated) -> _Rated:
    return _Rated(*(np.concatenate(pair) for pair in zip(some, more, strict=True)))


def _pick(rated: _Rated, threshold: float) -> Found:
    """The cheapest with enough EI; ties: more EI, then the lower index."""
    enough = rated.only(rated.log_ei >= threshold - TOLERANCE)
    order = np.lexsort((np.arange(len(enough.X)), -enough.log_ei, -enough.cheapness))
    return Found(enough.X[order], enough.cheapness[order])


def _polish(belief: Belief, rated: _Rated, threshold: float) -> Array:
    """SLSQP on ln c with the EI and affordability constraints, from the cheapest points."""
    enough = rated.only(rated.log_ei >= threshold)
    X = enough.X[np.lexsort((-enough.log_ei, -enough.cheapness))]
    cheap = np.sort(enough.cheapness)[::-1]
    end = belief.space.snap(_descend(belief, X[0], threshold)[None])
    reached = float(_rate(belief, end).cheapness[0])
    apart = np.abs(X - X[0]).max(axis=1) > APART
    second = int(np.argmax(apart))
    if not apart.any() or cheap[second] + PROMISES * (reached - cheap[0]) < reached:
        return end
    return np.vstack([end, belief.space.snap(_descend(belief, X[second], threshold)[None])])


def _descend(belief: Belief, x: Array, threshold: float) -> Array:
    """One SLSQP run over the continuous coordinates; the models are asked once per point."""
    space = belief.space
    free = space.active(x[None])[0] & np.array([levels is None for levels in space.levels])
    if not free.any():
        return x
    seen: dict[bytes, tuple[float, Array, Array, Array]] = {}

    def look(moving: Array) -> tuple[float, Array, Array, Array]:
        """ln c, its gradient, both constraints (>= 0) and their gradients."""
        key = moving.tobytes()
        if key not in seen:
            full = x.copy()
            full[free] = np.clip(moving, 0.0, 1.0)
            outlook, d = belief.slopes(full[None])
            improvement, cheap = log_ei_per_cost(0.0)(outlook), cheapness(outlook)
            shortfall = max(float(outlook.shortfall[0]), NO_LIMIT)
            d_shortfall = d.d_shortfall[0, free] if shortfall > NO_LIMIT else np.zeros(free.sum())
            seen[key] = (
                -float(cheap.score[0]),
                -chained(cheap, d)[0, free],
                np.array([improvement.score[0] - threshold, -shortfall]),
                np.stack([chained(improvement, d)[0, free], -d_shortfall]),
            )
        return seen[key]

    result = minimize(
        lambda v: look(v)[0],
        x[free],
        jac=lambda v: look(v)[1],
        bounds=[(0.0, 1.0)] * int(free.sum()),
        constraints={"type": "ineq", "fun": lambda v: look(v)[2], "jac": lambda v: look(v)[3]},
        method="SLSQP",
        options={"maxiter": 20, "ftol": 1e-6},
    )
    end = x.copy()
    end[free] = np.clip(result.x, 0.0, 1.0)
    return _pull_back(_Enough(belief, threshold), x, end) if np.isfinite(end).all() else x


def _pull_back(enough: _Enough, x: Array, end: Array) -> Array:
    """The last point on the way from x to the end that will do: SLSQP may end just outside."""
    back = BACK
    for _ in range(2):
        way = end + back[:, None] * (x - end)
        first = int(np.argmax(enough.at(way).shortfall <= 0))
        if first == 0:
            break
        back = np.linspace(back[first], back[first - 1], 32)[::-1]
    return np.asarray(way[first])
