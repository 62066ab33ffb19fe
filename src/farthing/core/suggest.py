"""From a state to a thought: what is believed, what to evaluate next, and whether to.

Nothing here remembers anything: the next proposal is a function of the settings and the state.
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
from farthing.acquisition.initial_design import cap, propose, wanted
from farthing.acquisition.overhead import Depth, depth, step
from farthing.acquisition.protocols import Proposal, Verdict, judge
from farthing.acquisition.search import Effort, sobol
from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.events import Asked, AskedAgain, Moment
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply, out_of_time
from farthing.cost import CostLearner, CostModel, Evidence, KnownBeforehand
from farthing.errors import InvalidInput, Stopped
from farthing.history import BUDGET_SPENT, History, PricePoint, StopReason, Trial, origin_of
from farthing.models.normal import expected_cost, max_overrun
from farthing.stopping import OutOfBudget

__all__ = [
    "Suggester",
    "Suggestion",
    "Terms",
    "believed",
    "best_trial",
    "cost_learners",
    "next_trials",
    "no_time_to_suggest",
    "one_thread",
    "own",
    "think",
    "warm_up",
]

Array = NDArray[np.float64]

# Of ln c, at least: a model that is sure of itself promises that what took twenty times as long as
# expected ends at once.
OVERRUN_SPREAD = 0.7
RECENT = 256  # trials: to look at the bills of thousands takes longer than a step may
NOTHING = Proposal(None, BUDGET_SPENT.sentence)


class Suggestion(NamedTuple):
    """What was believed, proposed and judged."""

    belief: Belief
    proposal: Proposal
    verdict: Verdict

    def trial(self, margin: float | None = None) -> tuple[Trial, dict[str, float]]:
        """The trial it leads to, and what to reservation for it of each limited resource.

        Args:
            margin: of its leash: see `normal.max_overrun`; None: it has none.
        """
        belief, proposal, verdict = self
        x, predicted, reservation = proposal.x, {}, {}
        assert x is not None
        limit = dict(proposal.notes.get("limit", {}))
        for resource, (m, s) in proposal.predicted.items():
            left = max(belief.ledger[resource].left, 1e-300)
            predicted[resource] = float(np.exp(expected_cost(m, s, left)[0]))
            # The 80 % quantile is what affordable means, so it is what is put aside.
            if np.isfinite(belief.ledger[resource].limit):
                reservation[resource] = min(float(np.exp(m[0] + Z_AFFORDABLE * s[0])), left)
            if margin is not None:
                end = float(
                    np.exp(max_overrun(float(m[0]), max(float(s[0]), OVERRUN_SPREAD), margin))
                )
                limit[resource] = min(limit.get(resource, np.inf), end)
        reservation |= _unpredicted(belief, proposal, limit)
        notes = {**belief.notes(), **verdict.notes, **proposal.notes}
        trial = Trial(
            number=belief.number,
            params=belief.space.decode(x),
            x=x,
            predicted=predicted,
            because=proposal.because,
            notes={**notes, "limit": limit} if limit else notes,
            origin=origin_of(proposal.notes),
        )
        return trial, reservation


def _unpredicted(
    belief: Belief, proposal: Proposal, limit: Mapping[str, float]
) -> dict[str, float]:
    """What to reservation of limited resources where no model says what a trial will cost of them: what it
    may cost at most, else what the dearest of late has cost, else what a trial of the start may.
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
    """What to evaluate next, and whether to."""
    deep = depth(state.ledger, state.suggest_s, settings.overhead, settings.clock)
    number = len(state.history)
    belief = believed(settings, state, depth=deep)
    rng = np.random.default_rng([settings.seed, number])
    if state.ledger.used_up:
        return Suggestion(belief, NOTHING, OutOfBudget()(belief, NOTHING, rng))
    if deep == "none" and len(state.history) >= START:
        proposal = step(belief, rng)
    else:
        proposal = propose(settings.policy, belief, rng, settings.start)
    if deep == "light" and belief.objective is not None:
        because = f"{proposal.because}; with little time to think"
        proposal = replace(proposal, because=because)
    asked_for = wanted(belief, proposal, state.queue) if state.queue else None
    if asked_for is not None:  # no rule is asked: only the budget can refuse a person
        return Suggestion(belief, asked_for, OutOfBudget()(belief, asked_for, rng))
    verdict = OutOfBudget()(belief, proposal, rng)
    if not verdict.stop and settings.stop is not None:
        rng = np.random.default_rng([settings.seed, number, 1])
        verdict = judge(settings.stop, belief, proposal, rng)
    return Suggestion(belief, proposal, verdict)


def believed(
    settings: Settings, state: State, *, model: bool | None = None, depth: Depth = "whole"
) -> Belief:
    """The models that policy and rule look at, fitted to what is known.

    Args:
        model: whether to fit the objective; None: where something looks at it.
        depth: how much of a thought there is time for.
    """
    poor = bool(state.ledger.used_up) or depth == "none"
    belief = believe(
        settings.space,
        state.history,
        state.ledger,
        learners={} if poor else cost_learners(settings, state),
        sign=settings.sign,
        noisy=settings.noisy,
        worth=settings.exchange,
        seed=settings.seed,
        model=(settings.models if model is None else model) and not poor,
        light=depth == "light",
    )
    return with_rate_of_budget(belief) if settings.spends else belief


def best_trial(settings: Settings, history: History) -> Trial | None:
    """The best trial, by posterior mean if `noisy`; None before the first value."""
    done = history.done
    if not done:
        return None
    y = settings.sign * np.array([trial.value for trial in done])
    if settings.noisy:
        # Whatever the running ones may return: only what is done.
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


# ── costs from elsewhere ───────────────────────────────────────────────────────────────────────


def cost_learners(settings: Settings, state: State) -> Mapping[str, CostLearner]:
    """The settings' learners by resource, told of what was paid elsewhere."""
    return _taught(settings.learners, state.prices)


@dataclass(frozen=True)
class _Taught:
    """A cost learner that was also told of costs paid elsewhere."""

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


def _taught(
    learners: Mapping[str, CostLearner], prices: Sequence[PricePoint]
) -> Mapping[str, CostLearner]:
    """The learners, told of what was paid elsewhere; what is known beforehand needs no telling."""
    if not prices:
        return learners

    def teach(learner: CostLearner, resource: str) -> CostLearner:
        told = [price for price in prices if price.cost.get(resource, 0.0) > 0]
        if not told or isinstance(learner, KnownBeforehand):
            return learner
        return _Taught(
            learner,
            np.array([price.x for price in told]),
            np.array([price.cost[resource] for price in told]),
            np.array([price.at_least for price in told], dtype=np.bool_),
        )

    return {resource: teach(learner, resource) for resource, learner in learners.items()}


# ── the machine ────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Finding the BLAS libraries takes milliseconds: once per process."""
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS on one thread: for matrices of a few hundred rows more are several times slower."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


def warm_up(settings: Settings) -> None:
    """Load what the first thought needs, so that it is not charged for it."""
    sobol(Effort().screen, settings.space.d)  # scipy.stats
    _blas()


Suggester = Callable[[State], tuple[Suggestion, float]]  # and the seconds that the thought took


class Terms(NamedTuple):
    """How trials are asked for.

    Attributes:
        anyway: although a rule said stop.
        thinker: who thinks.
        worker: who will evaluate them.
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
    terms: Terms,
    moment: Callable[[], Moment],
) -> tuple[Asked | AskedAgain, ...]:
    """The next trials, `count` of them or as many as may start.

    Args:
        moment: when it is, while it thinks.

    Raises:
        InvalidInput: a part of the study is there as text only.
        Stopped: not even one may start.
    """
    for part, unseen in settings.unseen.items():
        raise InvalidInput(
            f"The study's {part} is somebody's own code, which was not imported: "
            f"{unseen.described!r}. Give it again, Study.open(url, name, {part}=...), or, if you "
            "trust whoever made the study, say --trust or Study.open(..., trust=True)."
        )
    found = [_next(settings, state, suggest, terms)]
    while len(found) < count:
        state = apply(settings, state, found[-1], moment())
        if out_of_time(settings, state, moment()) is not None:
            break
        try:
            found.append(_next(settings, state, suggest, terms))
        except Stopped:
            break  # a smaller batch than wanted, rather than an error after some were made
    return tuple(found)


def _next(settings: Settings, state: State, suggest: Suggester, terms: Terms) -> Asked | AskedAgain:
    """The oldest trial that was lost and is to be tried again, or the one that a thought leads to;
    neither where a rule says stop.
    """
    if state.waiting is not None:
        if state.ledger.used_up:
            raise Stopped(BUDGET_SPENT)
        if settings.stop is not None and not terms.anyway:
            verdict = suggest(state)[0].verdict
            if verdict.stop:
                raise Stopped(verdict.reason)
        return AskedAgain(terms.worker, terms.lease)
    suggestion, seconds = suggest(state)
    if suggestion.proposal.x is None or (suggestion.verdict.stop and not terms.anyway):
        raise Stopped(suggestion.verdict.reason)
    trial, reservation = suggestion.trial(settings.max_overrun)
    begun = (terms.suggester, terms.worker, terms.lease)
    return Asked(trial, reservation, seconds, *begun, len(state.changes))


def own(trial: Trial) -> Trial:
    """The user's own, to pop and change."""
    return replace(trial, params=dict(trial.params))


def no_time_to_suggest(ledger: Ledger, resource: str) -> StopReason:
    """Why no thought may begin that would end after the budget of a resource."""
    account = ledger[resource]
    because = f"the budget of {format_amount(resource, account.limit)} is spent"
    if account.left > 0:
        left = format_amount(resource, account.left)
        because += f", but for the {left} that another thought would take"
    return StopReason("budget_spent", because)
