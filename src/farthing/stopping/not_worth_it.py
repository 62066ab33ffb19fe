"""The cost-aware stopping rule, PBGI/LogEIPC (Xie et al. 2025, eq. 4 to 6).

    stop when  EI(x) <= worth c(x) for every x not yet evaluated
          <=>  max_x [ln EI - ln c] <= ln worth      <=>  min_x g(x) >= best

c is E[min(c, cap)], the same number as in the acquisition. If trials are pending, EI is the mean
over their fantasies, as in the acquisition. Their true values are judged when they arrive. An
optimiser finds the maximum, and an unlucky search must not end a run. So a second, independent
search must confirm a stop.

With learning curves, g is the staged index of a training, new or paused: what is judged is whether
its next rung is worth its cost (`staged_index.py`).

The expected cost of continuing is bounded if the policy compares improvement with cost at the same
exchange rate (`Proposal.rates`; theorem 1). Every x that it chooses before the stop then has
worth c(x) <= EI(x), so

    E[worth (remaining cost)]  <=  E[remaining improvement]  <=  best - E[min f],

given the present data. The last expectation is an average over joint draws at a few points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, Verdict
from farthing.acquisition.rungs import paused_trainings, rest_of
from farthing.acquisition.scores import ScoreSurface, log_ei_per_cost, maximise_score
from farthing.acquisition.search import Effort, candidates
from farthing.acquisition.staged_search import Smallest, StagedSearch
from farthing.acquisition.trainings import Trainings
from farthing.budget.units import check_worth, format_amount, one_more
from farthing.errors import InvalidInput

__all__ = ["NotWorthIt"]

POINTS = 128  # of the joint draws that estimate E[min f]
DRAWS = 128  # at these points


@dataclass(frozen=True)
class NotWorthIt:
    """Stop if no evaluation is expected to improve the objective by as much as it costs.

    Attributes:
        worth: objective units that one unit of cost is worth. None uses the setting `worth`.
        patience: the number of consecutive proposals for which this must hold.
    """

    worth: float | None = None
    patience: int = 1

    def __post_init__(self) -> None:
        check_worth(self.worth, "NotWorthIt")
        if not (isinstance(self.patience, int) and self.patience >= 1):
            raise InvalidInput(
                f"NotWorthIt(patience={self.patience!r}): expected a whole number of at least 1."
            )

    @property
    def needs(self) -> frozenset[str]:
        """A model and costs, and the setting `worth` unless the rule has its own."""
        return frozenset({"cost", "model"} | ({"worth"} if self.worth is None else set()))

    @property
    def reads(self) -> frozenset[str]:
        """The setting `worth`, unless the rule has its own, and the learning curves."""
        return frozenset({"steps"} | ({"worth"} if self.worth is None else set()))

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """max ln EI - ln c <= ln worth, `patience` times in a row."""
        if belief.lacks_feasible:
            return NOTHING_FEASIBLE
        worth = self.worth if self.worth is not None else belief.worth
        assert worth is not None
        if belief.trainings is not None:
            return self._judged(belief, belief.trainings, worth)
        threshold = float(np.log(worth))
        one = belief.in_one_unit()
        most = proposed_per_cost(one, proposal)  # one point above the threshold suffices
        for _ in range(2):
            if most <= threshold:
                most = max(most, most_per_cost(one, rng))
        below = most <= threshold
        streak = (belief.history.last_note("not_worth_it") or 0) + 1 if below else 0
        stop = below and streak >= self.patience
        relation = "at most" if below else "more than"
        because = (
            f"{one_more(one.unit)} is expected to improve the objective by {np.exp(most):.3g}"
            f"{averaged(belief)}, {relation} the {worth:.3g} it is worth"
        )
        if below and not stop:
            because += f" ({streak} of {self.patience} times in a row)"
        if not below:
            because += "; " + _bound(belief, proposal, worth, rng)
        return Verdict(stop, because, most, threshold, {"not_worth_it": streak})

    def _judged(self, belief: Belief, trainings: Trainings, worth: float) -> Verdict:
        """min g >= best over all trainings, new or paused: the same rule by the staged index.

        Before the first training is complete, nobody knows how far values fall after early steps.
        """
        if not belief.history.done:
            return Verdict(False, "no training is complete yet")
        rate = worth * trainings.curves.scaling.rate(trainings.value)
        found = StagedSearch(belief.in_one_unit(), trainings).smallest(rate)
        below = found is None or found.index >= found.best
        streak = (belief.history.last_note("not_worth_it") or 0) + 1 if below else 0
        stop = below and streak >= self.patience
        best = belief.sign * trainings.value
        if found is None:
            return Verdict(stop, "no training can afford its next rung", np.inf, trainings.value)
        needed = float(trainings.curves.scaling.undo(found.index))
        relation = "which it has" if below else "which it has not"
        because = (
            f"the most promising training, {_training(belief, found)}, is worth its cost until the "
            f"best value, {best:.4g}, has reached {belief.sign * needed:.4g}, {relation}"
            f"{averaged(belief)}{_best_paused(belief, found)}"
        )
        if below and not stop:
            because += f" ({streak} of {self.patience} times in a row)"
        return Verdict(stop, because, needed, trainings.value, {"not_worth_it": streak})


def _training(belief: Belief, found: Smallest) -> str:
    """The training of smallest index: a new one, or a paused one with its step."""
    number = int(found.chains.trials[found.k])
    if number < 0:
        return "a new one"
    return f"trial {number}, paused at step {belief.history[number].step}"


def _best_paused(belief: Belief, found: Smallest) -> str:
    """A remark about the paused training of best value, if another one is more promising."""
    valued = [(belief.sign * t.value, t) for t in paused_trainings(belief) if t.value is not None]
    if not valued:
        return ""
    value, trial = min(valued, key=lambda each: (each[0], each[1].number))
    if trial.number == int(found.chains.trials[found.k]):
        return ""
    value *= belief.sign
    return (
        f"; the best paused training is trial {trial.number}, {value:.4g} at step {trial.step}; "
        f"to go on with it takes {rest_of(belief, trial)}"
    )


def averaged(belief: Belief) -> str:
    """A remark that the expectation is also over the values of pending trials."""
    running = len(belief.history.running)
    if not running:
        return ""
    trials = "the running trial" if running == 1 else f"the {running} running trials"
    return f" (averaged over the possible values of {trials})"


def _bound(belief: Belief, proposal: Proposal, worth: float, rng: np.random.Generator) -> str:
    """A sentence with the bound on the cost of continuing, or why there is none."""
    low, high = proposal.rates or (np.inf, -np.inf)
    if not belief.cost:
        return "there is no bound on the cost of continuing, because no costs are known yet"
    if not low <= worth <= high:
        return (
            "there is no bound on the cost of continuing, because the policy does not use this "
            "exchange rate"
        )
    if belief.light:
        return "the cost of continuing was not estimated, to keep the overhead of suggesting low"
    gain = remaining_improvement(belief, rng)
    cost = format_amount(next(iter(belief.cost)), gain / worth)
    return (
        f"continuing is expected to cost at most about {cost}, which is what the expected "
        f"remaining improvement of {gain:.3g} is worth"
    )


def remaining_improvement(belief: Belief, rng: np.random.Generator) -> float:
    """best - E[min f], an average over joint draws at the points of lowest mean - 2 std."""
    belief = belief.without_running()
    gp = belief.objective
    assert gp is not None
    rows = belief.space.rows
    X = candidates(belief.space, rng, belief.top, Effort()) if rows is None else rows
    mean, std = gp.at(X)
    X = X[np.argsort(mean[:, 0] - 2.0 * std, kind="stable")[:POINTS]]
    best = float(belief.best[0])
    return best - float(np.minimum(gp.sample(X, DRAWS, rng).min(axis=1), best).mean())


def proposed_per_cost(belief: Belief, proposal: Proposal) -> float:
    """ln EI - ln c of the proposal; -inf if nothing is proposed."""
    if proposal.x is None:
        return -np.inf
    return float(ScoreSurface(belief, log_ei_per_cost(1.0)).at(proposal.x[None]).score[0])


def most_per_cost(belief: Belief, rng: np.random.Generator) -> float:
    """max ln EI - ln c over affordable, untried points, by one search; -inf if there are none."""
    found = maximise_score(belief, log_ei_per_cost(1.0), rng)
    return float(found.score[0]) if len(found.X) else -np.inf
