"""`suggest`: from settings and a state to the next trial, and whether to stop instead.

The functions here keep nothing between calls: a suggestion depends on the settings and the state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from farthing.acquisition.belief import (
    START,
    Z_AFFORDABLE,
    Belief,
    believe,
)
from farthing.acquisition.earlier_costs import with_shapes
from farthing.acquisition.exchange_rate import with_rate_of_budget
from farthing.acquisition.initial_design import batch_cap, cap, first_enqueued, propose
from farthing.acquisition.overhead import Depth, depth, step
from farthing.acquisition.paid_costs import evidence_for
from farthing.acquisition.protocols import Proposal, Verdict, judge
from farthing.acquisition.search import Effort, sobol
from farthing.acquisition.trainings import is_staged
from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.charging import out_of_time
from farthing.core.events import Asked, AskedAgain, AskedPart, Moment
from farthing.core.parts import best_checkpoint, is_spent, with_part
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply
from farthing.cost import CostLearner, CostModel, Evidence, KnownBeforehand, Linear, LogGP
from farthing.cost.part import PartCost
from farthing.errors import InvalidInput, Stopped
from farthing.history import (
    BUDGET_SPENT,
    Here,
    History,
    LimitRule,
    PricePoint,
    StopReason,
    Trial,
    origin_of,
)
from farthing.models.constraints import are_feasible
from farthing.models.normal import expected_cost, max_overrun
from farthing.models.prior_mean import effects
from farthing.policies import ASHA
from farthing.stopping import OutOfBudget

__all__ = [
    "AskOptions",
    "Suggester",
    "Suggestion",
    "believed",
    "best_trial",
    "cost_learners",
    "next_trials",
    "no_time_to_suggest",
    "one_thread",
    "suggest",
    "warm_up",
]

Array = NDArray[np.float64]

# The least standard deviation of ln c for `max_overrun`. An overconfident model would predict that
# a trial which took twenty times as long as expected ends at once.
OVERRUN_SPREAD = 0.7
UNPREDICTED = 2.0  # times the highest cost so far, to reserve while a few costs give no model
RECENT = 256  # trials: looking at the costs of thousands would take too long
NOTHING = Proposal(None, BUDGET_SPENT.sentence)


class Suggestion(NamedTuple):
    """The belief, the proposal of the policy, and the verdict of the stopping rule."""

    belief: Belief
    proposal: Proposal
    verdict: Verdict

    def trial(
        self, margin: float | None = None, billed: Collection[str] | None = None
    ) -> tuple[Trial, dict[str, float]]:
        """The trial to start or to resume, and the amounts to reserve for it, by limited resource.

        The predicted cost of a resumed trial is that of its next part.

        Args:
            margin: the `max_overrun` of the settings, see `normal.max_overrun`; None: no limit.
            billed: for a worker, who can wait until the budget pays for another trial: the
                resources whose cost is unknown until a trial reports it. None: a user who asks
                for several trials gets them, although their costs are unknown.
        """
        belief, proposal, verdict = self
        x, predicted, reservation = proposal.x, {}, {}
        assert x is not None
        limit = dict(proposal.notes.get("limit", {}))
        rules: dict[str, LimitRule] = dict.fromkeys(limit, "start")
        for resource, (m, s) in proposal.predicted.items():
            left = max(belief.ledger[resource].left, 1e-300)
            predicted[resource] = float(np.exp(expected_cost(m, s, left)[0]))
            # A trial is affordable if its 80 % quantile is left, so that amount is reserved.
            if np.isfinite(belief.ledger[resource].limit):
                reservation[resource] = min(float(np.exp(m[0] + Z_AFFORDABLE * s[0])), left)
            if margin is not None:
                end = float(
                    np.exp(max_overrun(float(m[0]), max(float(s[0]), OVERRUN_SPREAD), margin))
                )
                if end < limit.get(resource, np.inf):
                    limit[resource], rules[resource] = end, "max_overrun"
        before = {} if proposal.resume is None else belief.history[proposal.resume].cost
        max_cost = {r: max(most - before.get(r, 0.0), 0.0) for r, most in belief.max_cost.items()}
        for resource, most in max_cost.items():
            if most <= limit.get(resource, np.inf):
                limit[resource], rules[resource] = most, "max_cost"
        reservation |= _unpredicted(belief, proposal, limit, billed)
        for resource in max_cost.keys() & reservation.keys():
            reservation[resource] = min(reservation[resource], max_cost[resource])
        notes = {**belief.notes(), **verdict.notes, **proposal.notes}
        notes |= {"limit": limit, "limit_by": rules} if limit else {}
        if belief.prior is not None and belief.objective is not None:
            moved = effects(belief.objective, x)
            notes["from_sources"] = {name: belief.sign * part for name, part in moved.items()}
        if proposal.resume is not None:
            paused = belief.history[proposal.resume]
            kept = {k: note for k, note in paused.notes.items() if k not in ("limit", "limit_by")}
            return replace(
                paused,
                predicted=predicted,
                because=proposal.because,
                notes={**kept, **notes},
                until=proposal.until,
            ), reservation
        trial = Trial(
            number=belief.number,
            params=belief.space.decode(x),
            x=x,
            predicted=predicted,
            because=proposal.because,
            notes=notes,
            origin=origin_of(proposal.notes),
            until=proposal.until,
        )
        return trial, reservation


def _unpredicted(
    belief: Belief,
    proposal: Proposal,
    limit: Mapping[str, float],
    billed: Collection[str] | None,
) -> dict[str, float]:
    """The amounts to reserve of limited resources whose cost no model predicts.

    The first that exists: the limit of the trial, the highest cost of recent trials, the cap of the
    initial design. No limit can end a trial whose cost is unknown until it reports the cost: twice
    the highest cost, and all that is left until there is one.
    """
    reservation = {}
    for resource in belief.ledger.limited_resources:
        if resource in proposal.predicted:
            continue
        highest = _highest_cost(belief.history, resource)
        if billed is not None and resource in billed:
            guess = UNPREDICTED * highest or np.inf
        else:
            guess = limit.get(resource) or highest or cap(belief)[resource]
        if billed is None and not highest and resource not in belief.max_cost:
            guess = min(guess, batch_cap(belief, resource))
        reservation[resource] = min(guess, belief.ledger[resource].left)
    return reservation


def _highest_cost(history: History, resource: str) -> float:
    """The highest cost of recent trials in a resource; 0 if there is none."""
    finished = history.having("done", "paused", "failed", "killed")[-RECENT:]
    return max((trial.cost.get(resource, 0.0) for trial in finished), default=0.0)


def suggest(settings: Settings, state: State) -> Suggestion:
    """What to evaluate next, and whether to stop instead."""
    staged = is_staged(settings.steps) and "steps" in settings.policy.needs
    known = state.ledger, state.suggest_s, settings.overhead, settings.clock
    effort = depth(*known, trainings=staged)
    if effort == "none" and not _pays_for_any(settings, state):
        effort = "light"
    number = state.history.turns
    belief = believed(settings, state, depth=effort)
    rng = np.random.default_rng([settings.seed, number])
    if is_spent(settings, state):
        return Suggestion(belief, NOTHING, OutOfBudget()(belief, NOTHING, rng))
    if effort == "none" and len(state.history) >= START:
        proposal = _without_model(settings, belief, rng)
    else:
        proposal = propose(settings.policy, belief, rng, settings.start)
        if proposal.x is None:
            proposal = _on_the_cheap_side(settings, state, belief, rng) or proposal
    proposal = with_part(settings, proposal)
    if effort == "light" and belief.objective is not None:
        because = f"{proposal.because}; a quick suggestion, because the overhead is limited"
        proposal = replace(proposal, because=because)
    if state.ledger.used_up and proposal.resume is None:  # no trial is left to begin
        return Suggestion(belief, NOTHING, OutOfBudget()(belief, NOTHING, rng))
    queue = () if state.ledger.used_up else state.queue
    enqueued = first_enqueued(belief, proposal, queue) if queue else None
    if enqueued is not None:
        enqueued = with_part(settings, enqueued)
        # Only the budget can refuse it, not the stopping rule.
        return Suggestion(belief, enqueued, OutOfBudget()(belief, enqueued, rng))
    verdict = OutOfBudget()(belief, proposal, rng)
    if not verdict.stop and settings.stop is not None:
        rng = np.random.default_rng([settings.seed, number, 1])
        verdict = judge(settings.stop, belief, proposal, rng)
    return Suggestion(belief, proposal, verdict)


def _without_model(settings: Settings, belief: Belief, rng: np.random.Generator) -> Proposal:
    """The promotion of a training by its rank (ASHA), if one is due, or else a random step."""
    if "steps" in settings.policy.needs and settings.steps is not None:
        found = ASHA().promotion(belief)
        if found is not None:
            because = f"{found.because}; a model-based suggestion would cost more than it gains"
            return replace(found, because=because, notes={**found.notes, "effort": "none"})
    return step(belief, rng)


def _on_the_cheap_side(
    settings: Settings, state: State, belief: Belief, rng: np.random.Generator
) -> Proposal | None:
    """A point that is affordable if costs continue their trend, or None.

    Far from all trials, a Gaussian process predicts the usual cost. A linear model of ln c (Guinet
    et al. 2020) extrapolates: it finds a cheap side on which no trial has been.
    """
    learnt = [r for r in belief.cost if isinstance(settings.learners[r], LogGP)]
    fitted: dict[str, CostModel] = {}
    for resource, learner in _with_imported(dict.fromkeys(learnt, Linear()), state.prices).items():
        where = (belief.space, belief.history, resource, belief.steps)
        _, evidence, startup = evidence_for(learner, *where)
        if (model := learner.fit(evidence)) is not None:
            fitted[resource] = PartCost(model, startup) if is_staged(belief.steps) else model
    if not fitted:
        return None
    found = propose(settings.policy, replace(belief, cost={**belief.cost, **fitted}), rng)
    if found.x is None:
        return None
    because = f"{found.because}; affordable if costs continue their linear trend"
    return replace(found, because=because)


def _pays_for_any(settings: Settings, state: State) -> bool:
    """Whether what is left pays for the most expensive recent trial, where no cost is known."""
    learnt = set(state.ledger.limited_resources) - set(settings.known_costs)
    return all(_highest_cost(state.history, r) <= state.ledger[r].left for r in learnt)


def believed(
    settings: Settings, state: State, *, model: bool | None = None, depth: Depth = "whole"
) -> Belief:
    """The belief of the policy and the stopping rule: models fitted to the state.

    Args:
        model: whether to fit a model of the objective; None: if the policy or the rule uses one.
        depth: how much computing the overhead allows.
    """
    no_models = is_spent(settings, state) or depth == "none"
    curves = "steps" in settings.policy.needs and is_staged(settings.steps)
    if model is None:  # the model of the learning curves is enough for a policy that decides by it
        model = "model" in settings.uses and not (curves and settings.stop is None)
    belief = believe(
        settings.space,
        state.history,
        state.ledger,
        learners=settings.known_costs if no_models else cost_learners(settings, state),
        sign=settings.sign,
        noisy=settings.noisy,
        worth=settings.exchange_rate,
        seed=settings.seed,
        model=model and not no_models,
        light=depth == "light",
        steps=settings.steps,
        curves=curves and "model" in settings.uses and not no_models,
        max_cost=settings.max_cost or {},
        constraints=settings.bounds,
        sources=settings.learn_from,
    )
    return with_rate_of_budget(belief) if settings.worth_from_budget else belief


def best_trial(settings: Settings, history: History) -> Trial | None:
    """The best feasible trial, by posterior mean if `noisy`; None if no trial is feasible.

    With `steps`, if the value of a trial is the best one of its curve, the best checkpoint counts,
    whatever became of its trial. If it is the last one, only trials that are done count.
    """
    if settings.steps is not None and settings.steps.value == "best":
        return best_checkpoint(settings, history)
    done = history.done
    feasible = are_feasible(settings.bounds, done)
    if not feasible.any():
        return None
    y = settings.sign * np.array([trial.value for trial in done])
    if settings.noisy:
        # Without the pending trials: their fantasies must not change which trial is best.
        nothing_limited = Ledger.of(None)
        belief = believe(
            settings.space,
            History(done),
            nothing_limited,
            learners={},
            sign=settings.sign,
            noisy=True,
            sources=settings.learn_from,
        )
        if belief.objective is not None:
            y = belief.objective.at(history.points("done")).mean[:, 0]
    return done[int(np.argmin(np.where(feasible, y, np.inf)))]


# ── imported costs ───────────────────────────────────────────────────────────────────────────────


def cost_learners(settings: Settings, state: State) -> Mapping[str, CostLearner]:
    """The cost learners of the settings by resource, which also learn from imported costs."""
    learners = settings.learners
    if settings.cost is None:
        learners = with_shapes(learners, settings.learn_from)
    return _with_imported(learners, state.prices)


@dataclass(frozen=True)
class _WithImported:
    """A cost learner that also learns from imported costs."""

    learner: CostLearner
    X: Array
    cost: Array
    at_least: NDArray[np.bool_]

    def fit(self, evidence: Evidence) -> CostModel | None:
        return self.learner.fit(
            evidence._replace(
                X=np.concatenate([self.X, evidence.X]),
                cost=np.concatenate([self.cost, evidence.cost]),
                at_least=np.concatenate([self.at_least, evidence.at_least]),
                previous=None
                if evidence.previous is None
                else np.concatenate([np.full(self.X.shape, np.nan), evidence.previous]),
            )
        )


def _with_imported(
    learners: Mapping[str, CostLearner], prices: Sequence[PricePoint]
) -> Mapping[str, CostLearner]:
    """The learners, which also learn from imported prices unless they know the cost beforehand."""
    if not prices:
        return learners

    def wrapped(learner: CostLearner, resource: str) -> CostLearner:
        paid = [price for price in prices if price.cost.get(resource, 0.0) > 0]
        if not paid or isinstance(learner, KnownBeforehand):
            return learner
        return _WithImported(
            learner,
            np.array([price.x for price in paid]),
            np.array([price.cost[resource] for price in paid]),
            np.array([price.at_least for price in paid], dtype=np.bool_),
        )

    return {resource: wrapped(learner, resource) for resource, learner in learners.items()}


# ── BLAS and warm-up ─────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """The BLAS libraries. Finding them takes milliseconds, so it is done once per process."""
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run BLAS on one thread: for a few hundred rows, more threads are several times slower."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


def warm_up(settings: Settings) -> None:
    """Load what the first suggestion needs, so that loading is not charged as overhead."""
    sobol(Effort().screen, settings.space.d)  # scipy.stats
    _blas()


# ── asking ───────────────────────────────────────────────────────────────────────────────────────

Suggester = Callable[[State], tuple[Suggestion, float]]  # a suggestion, and the seconds it took


class AskOptions(NamedTuple):
    """How trials are asked for.

    Attributes:
        anyway: whether to start trials although the stopping rule says stop.
        suggester: the process that suggests them.
        worker: the worker that evaluates them.
        lease: seconds after which they are lost unless renewed; None: never.
        here: which paused trainings the worker can resume.
    """

    anyway: bool = False
    suggester: str | None = None
    worker: str | None = None
    lease: float | None = None
    here: Here = Here()


def next_trials(
    settings: Settings,
    state: State,
    count: int,
    suggest: Suggester,
    options: AskOptions,
    moment: Callable[[], Moment],
) -> tuple[Asked | AskedAgain | AskedPart, ...]:
    """The events that start the next trials: `count` of them, or fewer if no more may start.

    Args:
        moment: returns the present time, which goes on while suggestions are made.

    Raises:
        InvalidInput: the code of a part of the study was not imported.
        Stopped: no trial may start.
    """
    for part, code in settings.unimported.items():
        raise InvalidInput(
            f"The study's {part} is custom code that was not imported: {code.described!r}. Pass it "
            f"again, Study.open(url, name, {part}=...). If you trust the author of the study, use "
            "--trust or Study.open(..., trust=True)."
        )
    found = [_next(settings, state, suggest, options)]
    while len(found) < count:
        state = apply(settings, state, found[-1], moment())
        if out_of_time(settings, state, moment()) is not None:
            break
        try:
            found.append(_next(settings, state, suggest, options))
        except Stopped:
            break  # a smaller batch is better than an error after some suggestions
    return tuple(found)


def _next(
    settings: Settings, state: State, suggest: Suggester, options: AskOptions
) -> Asked | AskedAgain | AskedPart:
    """The oldest lost trial that is to be repeated, or else a suggested or resumed one.

    Raises:
        Stopped: the stopping rule or the budget stops the study.
    """
    if state.next_retry is not None:
        if state.ledger.used_up:
            raise Stopped(BUDGET_SPENT)
        if settings.stop is not None and not options.anyway:
            verdict = suggest(state)[0].verdict
            if verdict.stop:
                raise Stopped(verdict.reason)
        return AskedAgain(options.worker, options.lease)
    suggestion, seconds = suggest(state)
    if suggestion.proposal.x is None or (suggestion.verdict.stop and not options.anyway):
        raise Stopped(suggestion.verdict.reason)
    # A worker can wait for the cost of another trial. A user who asks twice wants two trials.
    billed = None if options.lease is None else settings.billed
    trial, reservation = suggestion.trial(settings.max_overrun, billed)
    asked_by = (options.suggester, options.worker, options.lease)
    if suggestion.proposal.resume is not None:
        return AskedPart(trial, reservation, seconds, *asked_by, len(state.changes))
    return Asked(trial, reservation, seconds, *asked_by, len(state.changes))


def no_time_to_suggest(ledger: Ledger, resource: str) -> StopReason:
    """Why no further suggestion starts: it would end after the budget of a resource is spent."""
    account = ledger[resource]
    because = f"the budget of {format_amount(resource, account.limit)} is spent"
    if account.left > 0:
        left = format_amount(resource, account.left)
        because += f", except for {left}, which another suggestion would take"
    return StopReason("budget_spent", because)
