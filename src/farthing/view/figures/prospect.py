"""What going on promised, step by step, against what it is worth; and what one more trial buys.

    promise  =  max over affordable x of  EI(x) / c(x),

in objective units per unit of cost; the study is not worth going on with where that is at most
`worth` (Xie et al. 2025, eq. 4). It is worked out again from what was known at each step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, judge
from farthing.acquisition.scores import log_ei_per_cost, maximise_score
from farthing.acquisition.search import sobol
from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import believed, one_thread
from farthing.history import Trial
from farthing.models.normal import expected_cost
from farthing.view.figures.spending import cost_label, main_resource, spent_until
from farthing.view.primitives import Axis, Figure, Layer, Line, Panel, Points, axis, thinned
from farthing.view.result import state_before

__all__ = ["Buy", "Step", "next_buy", "prospect", "prospect_of"]

CANDIDATES = 512
STEPS = (8, 40)  # at which it is worked out: fewer where a model has many trials,
FAR = 100.0  # times below all others: a choice that promised less is drawn there
TRIALS = 4000  # so that it looks at about this many in all


class Step(NamedTuple):
    """A trial when it was chosen.

    Attributes:
        spent: by then.
        promise: the most EI per unit of cost, of many points and the chosen one.
        chosen: that of the chosen one.
        worth: of a unit of cost; None: nobody said.
        number_seen, threshold: of the stopping rule; NaN: it had none.
    """

    number: int
    spent: float
    promise: float
    chosen: float
    worth: float | None
    number_seen: float
    threshold: float


@dataclass(frozen=True)
class Buy:
    """The trial that promises most per cost, were there one more.

    Attributes:
        gain: expected improvement.
        cost: expected, by resource.
        per_cost: gain per unit of the first resource; None: no cost is learnt.
        worth: of a unit of cost; None: nobody said.
        afforded: whether the budget pays for it.
    """

    params: dict[str, Any]
    gain: float
    cost: dict[str, float]
    per_cost: float | None
    worth: float | None
    afforded: bool

    def __str__(self) -> str:
        price = ", ".join(format_amount(r, amount) for r, amount in self.cost.items())
        said = f"one more trial is expected to improve the value by {self.gain:.3g}"
        said += f" for {price}" if price else ""
        if not self.afforded:
            said += ", if there were a budget for it"
        if self.worth is not None and self.per_cost is not None:
            verdict = "worth it" if self.per_cost > self.worth else "not worth it"
            said += f": {verdict}, {self.per_cost:.3g} per unit of cost against {self.worth:.3g}"
        return said


def prospect_of(settings: Settings, state: State) -> list[Step]:
    """The promise at some of the steps that a model was there for."""
    chosen = [trial for trial in state.history if not trial.is_external]
    fewest, most = STEPS
    count = min(max(TRIALS // max(len(state.history), 1), fewest), most)
    resource = main_resource(settings, state)
    spent = spent_until(state, resource)
    some = [chosen[i] for i in thinned(len(chosen), most=count)]
    with one_thread():
        found = [_step(settings, state, trial, spent[trial.number]) for trial in some]
    return [step for step in found if step is not None]


def _step(settings: Settings, state: State, trial: Trial, spent: float) -> Step | None:
    belief = believed(settings, state_before(state, trial), model=True)
    if belief.objective is None:
        return None
    space = settings.space
    X = space.spread(sobol(CANDIDATES, space.d))
    outlook = belief.in_one_unit().outlook(np.concatenate([trial.x[None], X]))
    score = log_ei_per_cost(1.0)(outlook).score
    fits = outlook.shortfall <= 0
    fits[0] = True
    number = threshold = math.nan
    if settings.stop is not None:
        rng = np.random.default_rng([settings.seed, trial.number, 1])
        verdict = judge(settings.stop, belief, Proposal(trial.x, trial.because), rng)
        number, threshold = verdict.number, verdict.threshold
    promise, chosen = float(np.exp(score[fits].max())), float(np.exp(score[0]))
    return Step(trial.number, spent, promise, chosen, belief.worth, number, threshold)


def prospect(settings: Settings, state: State) -> Figure:
    """Promise against worth, and the numbers of the stopping rule, over what was spent."""
    name, title = "prospect", "Is going on worth it?"
    steps = prospect_of(settings, state)
    if not steps:
        return Figure(name, title, (), "", "There is no model yet that could promise anything.")
    resource = main_resource(settings, state)
    x = axis(cost_label(resource), (0.0, *(s.spent for s in steps)), resource=resource, zero=True)
    panels = [_promises(settings, steps, x)]
    seen = [s for s in steps if math.isfinite(s.number_seen) and math.isfinite(s.threshold)]
    if seen:
        at = tuple(s.spent for s in seen)
        number = Line(at, tuple(s.number_seen for s in seen), "best", "what the rule looked at")
        line = Line(at, tuple(s.threshold for s in seen), "before", "where it stops")
        y = axis("number of the stopping rule", (*number.y, *line.y))
        panels.append(Panel(x, y, (number, line), title="The stopping rule"))
    last = steps[-1]
    said = f"At trial {last.number}, {last.promise:.3g} per unit of cost was the most promised"
    said += "." if last.worth is None else f", and {last.worth:.3g} is what it is worth."
    return Figure(name, title, tuple(panels), said)


def _promises(settings: Settings, steps: list[Step], x: Axis) -> Panel:
    at = tuple(s.spent for s in steps)
    worth = [(s.spent, s.worth) for s in steps if s.worth is not None and s.worth > 0]
    least = min([s.promise for s in steps] + [rate for _, rate in worth]) / FAR
    layers: list[Layer] = [
        Line(at, tuple(s.promise for s in steps), "best", "the most promised by any point"),
        Points(at, tuple(max(s.chosen, least) for s in steps), "chosen", "by the chosen one"),
    ]
    if worth:
        places, rates = zip(*worth, strict=True)
        layers.append(Line(places, rates, "before", "what it is worth"))
    values = [value for layer in layers for value in getattr(layer, "y", ())]
    unit = settings.needed[0] if settings.needed else "trial"
    return Panel(x, axis(f"expected improvement per {unit}", values, log=True), tuple(layers))


# ── one more trial ─────────────────────────────────────────────────────────────────────────────


def next_buy(settings: Settings, state: State) -> Buy | None:
    """The trial that promises most per cost; None while there is no model.

    After the budget is spent it is the one that more money would buy first.
    """
    with one_thread():
        belief = believed(settings, state, model=True)
        afforded = belief.objective is not None
        if not afforded:
            belief = believed(settings, _unlimited(state), model=True)
        if belief.objective is None:
            return None
        belief = belief.without_running().in_one_unit()
        found = _best_buy(belief, settings.seed)
        if found is None and afforded:
            free = believed(settings, _unlimited(state), model=True)
            belief, afforded = free.without_running().in_one_unit(), False
            found = _best_buy(belief, settings.seed)
        if found is None:
            return None
        outlook = belief.outlook(found[None])
        gain = float(np.exp(log_ei_per_cost(0.0)(outlook).score[0]))
        cost = {
            resource: float(
                np.exp(expected_cost(*ln, max(belief.ledger[resource].left, 1e-300))[0])
            )
            for resource, ln in belief.predicted(found).items()
        }
    first = next(iter(cost.values()), None)
    rate = None if first is None else gain / first
    return Buy(settings.space.decode(found), gain, cost, rate, belief.worth, afforded)


def _best_buy(belief: Belief, seed: int) -> Any:
    rng = np.random.default_rng([seed, belief.number])
    found = maximise_score(belief, log_ei_per_cost(1.0), rng)
    return found.X[0] if len(found.X) else None


def _unlimited(state: State) -> State:
    """The same as if nothing were limited."""
    accounts = tuple((r, replace(state.ledger[r], limit=math.inf)) for r in state.ledger)
    return replace(state, ledger=replace(state.ledger, _accounts=accounts))
