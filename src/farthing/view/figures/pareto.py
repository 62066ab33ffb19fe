"""Expected improvement against cost: the Pareto front of one step, and the suggested point.

Guinet et al. 2020, figures 1 and 7: the front of ln EI and ln c, the front of the previous step,
and for alpha in 0, 0.5, 1 the line ln EI = ln EI* + alpha (ln c - ln c*) through the point
(c*, EI*) that maximises EI / c^alpha.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.pareto import front, implied_alpha
from farthing.acquisition.scores import cheapness, log_ei_per_cost
from farthing.acquisition.search import sobol
from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import believed, one_thread
from farthing.errors import InvalidInput
from farthing.history import Trial
from farthing.view.chosen import WITHOUT_COMPARISON, ChosenBy, chosen_by
from farthing.view.facts import state_before
from farthing.view.figures.spending import cost_label
from farthing.view.primitives import Figure, Layer, Line, Panel, Points, axis, thinned

__all__ = ["Front", "front_figure", "front_of", "last_chosen"]

Array = NDArray[np.float64]
CANDIDATES = 2048  # points that the suggestion is compared with
MAX_DRAWN = 300  # candidates that are not on the front
ALPHAS = (0.0, 0.5, 1.0)
DECADES = 8.0  # of EI shown below the best: no point further down is ever suggested


class Front(NamedTuple):
    """The candidates of one step; the first is the suggested point.

    Attributes:
        log_ei: (m,) ln EI.
        log_cost: (m,) ln of the expected cost, or of its share of the scarcest resource.
        rows: the rows on the front, cheapest first.
        before: (log_cost, log_ei) of the previous step's front; None: there was no model.
        resource: the resource of the cost; None: the cost is a share, or no cost is learnt.
        priced: whether a cost is learnt.
        preferred: for each of `ALPHAS`, the row that maximises EI / c^alpha.
        alpha: the range of alpha for which the suggested point is the maximum; None: no alpha.
        chosen_by: what chose the trial.
    """

    number: int
    log_ei: Array
    log_cost: Array
    rows: NDArray[np.intp]
    before: tuple[Array, Array] | None
    resource: str | None
    priced: bool
    preferred: tuple[int, ...]
    alpha: tuple[float, float] | None
    chosen_by: ChosenBy


def last_chosen(state: State) -> int | None:
    """The number of the last trial that this study suggested; None: there is none."""
    return next((t.number for t in reversed(state.history.trials) if not t.is_external), None)


def front_of(settings: Settings, state: State, number: int) -> Front | None:
    """Trial `number` among alternative candidates; None: no model, or nothing to improve on."""
    if not 0 <= number < len(state.history):
        available = f"0 to {len(state.history) - 1}" if state.history else "none yet"
        raise InvalidInput(f"There is no trial {number}: the study has {available}.")
    trial = state.history[number]
    space = settings.space
    X = space.rows if space.rows is not None else space.spread(sobol(CANDIDATES, space.d))
    X = np.concatenate([trial.x[None], np.asarray(X)])
    with one_thread():
        belief = believed(settings, state_before(state, trial), model=True)
        if belief.objective is None or not belief.has_incumbent:
            return None
        log_ei, log_cost, fits = _look(belief, X)
        fits[0] = True
        before = _before(settings, state, trial, X[fits])
    log_ei, log_cost = log_ei[fits], log_cost[fits]
    alpha = implied_alpha(log_ei, log_cost, 0)
    return Front(
        number,
        log_ei,
        log_cost,
        front(log_ei, log_cost),
        before,
        next(iter(belief.cost)) if len(belief.cost) == 1 else None,
        bool(belief.cost),
        tuple(int(np.argmax(log_ei - each * log_cost)) for each in ALPHAS),
        (alpha.low, alpha.high) if alpha.supported else None,
        chosen_by(settings, trial),
    )


def _look(belief: Belief, X: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    outlook = belief.outlook(X)
    log_ei, log_cost = log_ei_per_cost(0.0)(outlook).score, -cheapness(outlook).score
    return log_ei, log_cost, outlook.shortfall <= 0


def _before(settings: Settings, state: State, trial: Trial, X: Array) -> tuple[Array, Array] | None:
    """The front of the same candidates when the previous trial was suggested."""
    earlier = [t for t in state.history.trials[: trial.number] if not t.is_external]
    if not earlier:
        return None
    belief = believed(settings, state_before(state, earlier[-1]), model=True)
    if belief.objective is None or not belief.has_incumbent:
        return None
    log_ei, log_cost, _ = _look(belief, X[1:])
    rows = front(log_ei, log_cost)
    return log_cost[rows], log_ei[rows]


def front_figure(settings: Settings, state: State, number: int | None = None) -> Figure:
    """Draw the front at the time when a trial was suggested; by default the last trial."""
    name, title = "pareto", "Expected improvement against cost"
    if number is None:
        number = last_chosen(state)
    found = None if number is None else front_of(settings, state, number)
    if number is not None:
        title = f"Trial {number}: expected improvement against cost"
    if found is None:
        why = "There was no model of the objective yet."
        if settings.bounds:
            why = "There was no model of the objective or no feasible trial yet."
        return Figure(name, title, (), "", why)
    log_ei, cost = found.log_ei, np.exp(found.log_cost)
    lowest = log_ei.max() - DECADES * np.log(10.0)
    log_ei = np.append(max(log_ei[0], lowest), log_ei[1:])  # always show the suggestion
    ei = np.exp(log_ei)
    shown = np.flatnonzero(log_ei >= lowest)
    x = axis(_label(found), cost[shown], log=True, resource=found.resource)
    y = axis("expected improvement", ei[shown], log=True)
    layers: list[Layer] = [
        _points(
            cost,
            ei,
            shown[thinned(len(shown), most=MAX_DRAWN)],
            "other",
            "candidates",
            0.6,
        )
    ]
    if found.before is not None:
        kept = found.before[1] >= lowest
        cheap, good = (_numbers(np.exp(part[kept])) for part in found.before)
        layers.append(Line(cheap, good, "before", "front of the previous trial", step=True))
    rows = found.rows[np.isin(found.rows, shown)]
    layers.append(Line(_numbers(cost[rows]), _numbers(ei[rows]), "best", step=True))
    layers.append(_points(cost, ei, rows, "best", f"front ({len(found.rows)})", 0.8))
    label = f"EI / cost^a, a = {', '.join(f'{alpha:g}' for alpha in ALPHAS)}"  # of all three lines
    for alpha, row in zip(ALPHAS, found.preferred, strict=True):
        layers.append(_alpha_line(alpha, cost[row], ei[row], x.low, x.high, label))
        label = ""
    layers.append(_points(cost, ei, np.array([0]), "chosen", f"trial {number}", 1.8))
    return Figure(name, title, (Panel(x, y, tuple(layers)),), _caption(found))


def _points(
    cost: Array, ei: Array, rows: NDArray[np.intp], style: str, label: str, size: float
) -> Points:
    return Points(_numbers(cost[rows]), _numbers(ei[rows]), style, label, size=size)


def _numbers(values: Array) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())


def _alpha_line(alpha: float, cost: float, ei: float, low: float, high: float, label: str) -> Line:
    x = np.geomspace(low, high, 2)
    y = np.exp(np.log(ei) + alpha * (np.log(x) - np.log(cost)))
    return Line(_numbers(x), _numbers(y), "line", label)


def _label(found: Front) -> str:
    if not found.priced:
        return "cost (no cost model: all points cost the same)"
    if found.resource is None:
        return "expected cost (share of the remaining scarcest resource)"
    return cost_label(found.resource, "expected cost")


def _caption(found: Front) -> str:
    cost = float(np.exp(found.log_cost[0]))
    price = f"{cost:.3g} of the remaining budget"
    if found.resource is not None:
        price = format_amount(found.resource, cost)
    caption = f"The trial had an expected improvement of {np.exp(found.log_ei[0]):.3g}"
    caption += f" for an expected cost of {price}." if found.priced else "."
    if found.chosen_by != "model":
        return f"{caption} {WITHOUT_COMPARISON[found.chosen_by]}"
    if found.alpha is None:
        return f"{caption} The policy may also count more than these two numbers."
    low, high = found.alpha
    exponents = f"a >= {low:.2f}" if np.isinf(high) else f"a from {low:.2f} to {high:.2f}"
    return f"{caption} It maximises EI / cost^a for {exponents}."
