"""`suggest`: from settings and a state to the next trial, and whether to stop instead.

The functions here keep nothing between calls: a suggestion depends on the settings and the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from farthing.acquisition.belief import START, Z_AFFORDABLE, Belief, believe
from farthing.acquisition.exchange_rate import with_rate_of_budget
from farthing.acquisition.initial_design import cap, first_enqueued, propose
from farthing.acquisition.overhead import Depth, depth, step
from farthing.acquisition.protocols import Proposal, Verdict, judge
from farthing.acquisition.search import Effort, sobol
from farthing.acquisition.trainings import is_staged
from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.charging import out_of_time
from farthing.core.events import Asked, AskedAgain, AskedPart, Moment
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply
from farthing.cost import CostLearner, CostModel, Evidence, KnownBeforehand
from farthing.errors import InvalidInput, Stopped
from farthing.history import BUDGET_SPENT, History, PricePoint, StopReason, Trial, origin_of
from farthing.models.normal import expected_cost, max_overrun
from farthing.steps import Steps
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
RECENT = 256  # trials: looking at the costs of thousands would take too long
NOTHING = Proposal(None, BUDGET_SPENT.sentence)


class Suggestion(NamedTuple):
    """The belief, the proposal of the policy, and the verdict of the stopping rule."""

    belief: Belief
    proposal: Proposal
    verdict: Verdict

    def trial(self, margin: float | None = None) -> tuple[Trial, dict[str, float]]:
        """The trial to start or to resume, and the amounts to reserve for it, by limited resource.

        The predicted cost of a resumed trial is that of its next part.

        Args:
            margin: the `max_overrun` of the settings, see `normal.max_overrun`; None: no limit.
        """
        belief, proposal, verdict = self
        x, predicted, reservation = proposal.x, {}, {}
        assert x is not None
        limit = dict(proposal.notes.get("limit", {}))
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
                limit[resource] = min(limit.get(resource, np.inf), end)
        reservation |= _unpredicted(belief, proposal, limit)
        notes = {**belief.notes(), **verdict.notes, **proposal.notes}
        if proposal.resume is not None:
            paused = belief.history[proposal.resume]
            kept = {key: note for key, note in paused.notes.items() if key != "limit"}
            notes = {**kept, **notes, **({"limit": limit} if limit else {})}
            return replace(
                paused,
                predicted=predicted,
                because=proposal.because,
                notes=notes,
                until=proposal.until,
            ), reservation
        trial = Trial(
            number=belief.number,
            params=belief.space.decode(x),
            x=x,
            predicted=predicted,
            because=proposal.because,
            notes={**notes, "limit": limit} if limit else notes,
            origin=origin_of(proposal.notes),
            until=proposal.until,
        )
        return trial, reservation


def _unpredicted(
    belief: Belief, proposal: Proposal, limit: Mapping[str, float]
) -> dict[str, float]:
    """The amounts to reserve of limited resources whose cost no model predicts.

    The first that exists: the limit of the trial, the highest cost of recent trials, the cap of the
    initial design.
    """
    reservation = {}
    for resource in belief.ledger.limited_resources:
        if resource not in proposal.predicted:
            guess = limit.get(resource)
            if guess is None:
                finished = belief.history.having("done", "failed", "killed")[-RECENT:]
                most_expensive = max(
                    (trial.cost.get(resource, 0.0) for trial in finished), default=0.0
                )
                guess = most_expensive or cap(belief)[resource]
            reservation[resource] = min(guess, max(belief.ledger[resource].left, 0.0))
    return reservation


def suggest(settings: Settings, state: State) -> Suggestion:
    """What to evaluate next, and whether to stop instead."""
    effort = depth(state.ledger, state.suggest_s, settings.overhead, settings.clock)
    number = state.history.turns
    belief = believed(settings, state, depth=effort)
    rng = np.random.default_rng([settings.seed, number])
    if _is_spent(settings, state):
        return Suggestion(belief, NOTHING, OutOfBudget()(belief, NOTHING, rng))
    if effort == "none" and len(state.history) >= START:
        proposal = step(belief, rng)
    else:
        proposal = propose(settings.policy, belief, rng, settings.start)
    proposal = _with_part(settings, proposal)
    if effort == "light" and belief.objective is not None:
        because = f"{proposal.because}; a quick suggestion, because the overhead is limited"
        proposal = replace(proposal, because=because)
    if state.ledger.used_up and proposal.resume is None:  # no trial is left to begin
        return Suggestion(belief, NOTHING, OutOfBudget()(belief, NOTHING, rng))
    queue = () if state.ledger.used_up else state.queue
    enqueued = first_enqueued(belief, proposal, queue) if queue else None
    if enqueued is not None:
        enqueued = _with_part(settings, enqueued)
        # Only the budget can refuse it, not the stopping rule.
        return Suggestion(belief, enqueued, OutOfBudget()(belief, enqueued, rng))
    verdict = OutOfBudget()(belief, proposal, rng)
    if not verdict.stop and settings.stop is not None:
        rng = np.random.default_rng([settings.seed, number, 1])
        verdict = judge(settings.stop, belief, proposal, rng)
    return Suggestion(belief, proposal, verdict)


def _is_spent(settings: Settings, state: State) -> bool:
    """Whether nothing may start. If all trials have begun, paused trainings may still go on."""
    goes_on = settings.steps is not None and bool(state.history.having("paused"))
    return any(not (goes_on and resource == "trials") for resource in state.ledger.used_up)


def _with_part(settings: Settings, proposal: Proposal) -> Proposal:
    """The proposal with the step to which its training runs.

    A policy that decides by steps looks at every training at the first rung; for all other policies
    a training is one evaluation. The cost of the part is its share of the steps.
    """
    steps = settings.steps
    if steps is None or proposal.x is None or proposal.until is not None:
        return proposal
    until = steps.decision_steps[0] if "steps" in settings.policy.needs else steps.last
    share = np.log(until / steps.last)
    predicted = {
        resource: normal._replace(mean=normal.mean + share)
        for resource, normal in proposal.predicted.items()
    }
    return replace(proposal, until=until, predicted=predicted)


def believed(
    settings: Settings, state: State, *, model: bool | None = None, depth: Depth = "whole"
) -> Belief:
    """The belief of the policy and the stopping rule: models fitted to the state.

    Args:
        model: whether to fit a model of the objective; None: if the policy or the rule uses one.
        depth: how much computing the overhead allows.
    """
    no_models = _is_spent(settings, state) or depth == "none"
    curves = "steps" in settings.policy.needs and is_staged(settings.steps)
    if model is None:  # the model of the learning curves is enough for a policy that decides by it
        model = "model" in settings.uses and not (curves and settings.stop is None)
    belief = believe(
        settings.space,
        state.history,
        state.ledger,
        learners={} if no_models else cost_learners(settings, state),
        sign=settings.sign,
        noisy=settings.noisy,
        worth=settings.exchange_rate,
        seed=settings.seed,
        model=model and not no_models,
        light=depth == "light",
        steps=settings.steps,
        curves=curves and "model" in settings.uses and not no_models,
    )
    return with_rate_of_budget(belief) if settings.worth_from_budget else belief


def best_trial(settings: Settings, history: History) -> Trial | None:
    """The best trial, by posterior mean if `noisy`; None before the first value.

    With `steps`, if the value of a trial is the best one of its curve, the best checkpoint counts,
    whatever became of its trial. If it is the last one, only trials that are done count.
    """
    if settings.steps is not None and settings.steps.value == "best":
        return _best_checkpoint(settings, settings.steps, history)
    done = history.done
    if not done:
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
        )
        if belief.objective is not None:
            y = belief.objective.at(history.points("done")).mean[:, 0]
    return done[int(np.argmin(y))]


def _best_checkpoint(settings: Settings, steps: Steps, history: History) -> Trial | None:
    """The trial with the best value of any step, with that value."""
    found = [
        (trial, value)
        for trial in history
        if not trial.is_dropped
        and (value := steps.value_of(trial.curve, settings.sign)) is not None
    ]
    found += [(t, t.value) for t in history.done if not t.curve and t.value is not None]
    if not found:
        return None
    trial, value = min(found, key=lambda each: (settings.sign * each[1], each[0].number))
    return trial if trial.value == value else replace(trial, value=value)


# ── imported costs ───────────────────────────────────────────────────────────────────────────────


def cost_learners(settings: Settings, state: State) -> Mapping[str, CostLearner]:
    """The cost learners of the settings by resource, which also learn from imported costs."""
    return _with_imported(settings.learners, state.prices)


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
    """

    anyway: bool = False
    suggester: str | None = None
    worker: str | None = None
    lease: float | None = None


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
    trial, reservation = suggestion.trial(settings.max_overrun)
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
