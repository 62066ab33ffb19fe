"""Is another trial worth its cost? The expected gain per cost at each step, and of the next trial.

    gain rate  =  max over affordable x of  EI(x) / c(x),

in objective units per unit of cost. Another trial does not pay if this is at most `worth` (Xie et
al. 2025, eq. 4). The rate is computed again from what was known at each step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, judge
from farthing.acquisition.scores import log_ei_per_cost, maximise_score
from farthing.acquisition.search import sobol
from farthing.budget.units import format_amount
from farthing.core.predict import unlimited
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import believed, one_thread
from farthing.history import Trial
from farthing.models.normal import expected_cost
from farthing.view.facts import state_before
from farthing.view.figures.spending import main_resource, spent_label, spent_until
from farthing.view.primitives import Axis, Figure, Layer, Line, Panel, Points, axis, thinned

__all__ = ["NextTrial", "Step", "next_trial", "prospect", "prospect_of"]

CANDIDATES = 512
STEPS = (8, 40)  # least and greatest number of steps that are computed
TRIALS = 4000  # total size of all histories that models are fitted to, about
FAR = 100.0  # a suggestion below 1/FAR of all other rates is drawn at that limit


class Step(NamedTuple):
    """The state of the search when a trial was suggested.

    Attributes:
        spent: the spending by then.
        promise: the greatest EI per unit of cost, over many points and the suggested one.
        chosen: the EI per unit of cost of the suggested point.
        worth: the exchange rate of a unit of cost; None: not set.
        number_seen, threshold: the statistic and threshold of the stopping rule; NaN: none.
    """

    number: int
    spent: float
    promise: float
    chosen: float
    worth: float | None
    number_seen: float
    threshold: float


@dataclass(frozen=True)
class NextTrial:
    """The trial with the greatest expected improvement per cost.

    Attributes:
        gain: the expected improvement.
        cost: the expected cost by resource.
        per_cost: gain per unit of the first resource; None: no cost is learnt.
        worth: the exchange rate of a unit of cost; None: not set.
        afforded: whether the budget covers the expected cost.
    """

    params: dict[str, Any]
    gain: float
    cost: dict[str, float]
    per_cost: float | None
    worth: float | None
    afforded: bool

    def __str__(self) -> str:
        price = ", ".join(format_amount(r, amount) for r, amount in self.cost.items())
        text = f"one more trial is expected to improve the value by {self.gain:.3g}"
        text += f" for {price}" if price else ""
        if not self.afforded:
            text += ", but the budget does not cover it"
        if self.worth is not None and self.per_cost is not None:
            verdict = "worth it" if self.per_cost > self.worth else "not worth it"
            rates = f"gain {self.per_cost:.3g} per unit of cost, exchange rate {self.worth:.3g}"
            text += f"; {verdict} ({rates})"
        return text


def prospect_of(settings: Settings, state: State) -> list[Step]:
    """The gain rates at a sample of the steps that had a model."""
    chosen = [trial for trial in state.history if not trial.is_external]
    fewest, most = STEPS
    count = min(max(TRIALS // max(len(state.history), 1), fewest), most)
    resource = main_resource(settings, state)
    spent = spent_until(state, resource)
    some = [chosen[i] for i in thinned(len(chosen), most=count)]
    with one_thread():
        found = [_step(settings, state, trial, spent[trial.number]) for trial in some]
    # A training that was resumed has spent later than trials with higher numbers.
    return sorted((step for step in found if step is not None), key=lambda step: step.spent)


def _step(settings: Settings, state: State, trial: Trial, spent: float) -> Step | None:
    belief = believed(settings, state_before(state, trial), model=True)
    if belief.objective is None or not belief.has_incumbent:
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
    """Draw gain and exchange rates, and the statistic of the stopping rule, against cost."""
    name, title = "prospect", "Is another trial worth its cost?"
    steps = prospect_of(settings, state)
    if not steps:
        return Figure(name, title, (), "", "There is no model of the objective yet.")
    resource = main_resource(settings, state)
    x = axis(spent_label(resource), (0.0, *(s.spent for s in steps)), resource=resource, zero=True)
    panels = [_rates_panel(settings, steps, x)]
    judged = [s for s in steps if math.isfinite(s.number_seen) and math.isfinite(s.threshold)]
    if judged:
        at = tuple(s.spent for s in judged)
        statistic = Line(at, tuple(s.number_seen for s in judged), "best", "statistic of the rule")
        threshold = Line(at, tuple(s.threshold for s in judged), "before", "threshold")
        y = axis("statistic of the stopping rule", (*statistic.y, *threshold.y))
        panels.append(Panel(x, y, (statistic, threshold), title="Stopping rule"))
    last = steps[-1]
    caption = f"At trial {last.number}, the best candidate had an expected improvement of "
    caption += f"{last.promise:.3g} per unit of cost."
    if last.worth is not None:
        caption += f" The exchange rate was {last.worth:.3g}."
    return Figure(name, title, tuple(panels), caption)


def _rates_panel(settings: Settings, steps: list[Step], x: Axis) -> Panel:
    at = tuple(s.spent for s in steps)
    worth = [(s.spent, s.worth) for s in steps if s.worth is not None and s.worth > 0]
    least = min([s.promise for s in steps] + [rate for _, rate in worth]) / FAR
    layers: list[Layer] = [
        Line(at, tuple(s.promise for s in steps), "best", "best candidate"),
        Points(at, tuple(max(s.chosen, least) for s in steps), "chosen", "suggested trial"),
    ]
    if worth:
        places, rates = zip(*worth, strict=True)
        layers.append(Line(places, rates, "before", "exchange rate (worth)"))
    values = [value for layer in layers for value in getattr(layer, "y", ())]
    unit = settings.required_costs[0] if settings.required_costs else "trial"
    return Panel(x, axis(f"expected improvement per {unit}", values, log=True), tuple(layers))


# ── one more trial ─────────────────────────────────────────────────────────────────────────────


def next_trial(settings: Settings, state: State) -> NextTrial | None:
    """The trial with the greatest expected improvement per cost; None: no model, or no incumbent.

    If the budget covers no trial, this is the best trial for a larger budget.
    """
    with one_thread():
        belief = believed(settings, state, model=True)
        afforded = belief.objective is not None
        if not afforded:
            belief = believed(settings, unlimited(state), model=True)
        if belief.objective is None:
            return None
        belief = belief.without_running().in_one_unit()
        if not belief.has_incumbent:
            return None
        found = _best_per_cost(belief, settings.seed)
        if found is None and afforded:
            larger = believed(settings, unlimited(state), model=True)
            belief, afforded = larger.without_running().in_one_unit(), False
            found = _best_per_cost(belief, settings.seed)
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
    return NextTrial(settings.space.decode(found), gain, cost, rate, belief.worth, afforded)


def _best_per_cost(belief: Belief, seed: int) -> Any:
    rng = np.random.default_rng([seed, belief.number])
    found = maximise_score(belief, log_ei_per_cost(1.0), rng)
    return found.X[0] if len(found.X) else None
