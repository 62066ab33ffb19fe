"""The settings of a study, and what follows from them: one thought, one trial, one bill.

Nothing here remembers anything: the next proposal is a function of the plan, the history and the
ledger. `Optimizer` keeps these two in memory, `Study` in a database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from farthing.belief import Z_AFFORDABLE, Belief, believe
from farthing.cost import CostLearner, CostModel, Evidence, Known, KnownBeforehand, LogGP
from farthing.decision import Policy, Proposal, StoppingRule, Verdict, judge
from farthing.errors import InvalidInput
from farthing.history import History, State, Trial
from farthing.ledger import Budget, Ledger, worth_of
from farthing.normal import expected_cost
from farthing.policies import EI, Gittins
from farthing.search import Effort, sobol
from farthing.space import Parameter, Space
from farthing.start import propose
from farthing.stopping import OutOfBudget

__all__ = [
    "Direction",
    "Learner",
    "Plan",
    "Price",
    "Thought",
    "added_trial",
    "asked_trial",
    "best_trial",
    "bill",
    "informed",
    "make_plan",
    "one_thread",
    "outcome_of",
    "think",
    "what_is_believed",
]

Array = NDArray[np.float64]
Direction = Literal["minimize", "maximize"]
Price = float | Mapping[str, float] | None
Learner = CostLearner | Callable[[Mapping[str, Any]], float]

NOTHING = Proposal(None, "the budget is spent")


@dataclass(frozen=True)
class Plan:
    """Settings that were checked against each other.

    Attributes:
        learners: one for each resource that something depends on.
        sign: +1, or -1 where the user maximises.
        priced: the resources in which a cost may be told, the primary one first.
        needed: those whose cost must be told, or be known beforehand.
        needs_cost: whether the policy or the rule learns from costs.
    """

    space: Space
    budget: Budget | None
    policy: Policy
    stop: StoppingRule | None
    learners: Mapping[str, CostLearner]
    worth: float | None
    sign: float
    noisy: bool
    seed: int
    priced: tuple[str, ...]
    needed: tuple[str, ...]
    needs_cost: bool


class Thought(NamedTuple):
    """What was believed, proposed and judged."""

    belief: Belief
    proposal: Proposal
    verdict: Verdict


# ── settings ───────────────────────────────────────────────────────────────────────────────────


def make_plan(
    space: Space | Mapping[str, Parameter],
    budget: str | float | Mapping[str, float] | Budget | None,
    *,
    policy: Policy | None,
    stop: StoppingRule | None,
    cost: Learner | Mapping[str, Learner] | None,
    worth: float | str | None,
    direction: Direction,
    noisy: bool,
    seed: int,
) -> Plan:
    """A plan, if its parts fit together; the arguments are those of `Optimizer`."""
    if direction not in ("minimize", "maximize"):
        raise InvalidInput(f'direction={direction!r}: expected "minimize" or "maximize".')
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"seed={seed!r}: expected a whole number of at least 0.")
    space = space if isinstance(space, Space) else Space(space)
    budget = None if budget is None else Budget(budget)
    ledger = Ledger.of(budget)
    priced = tuple(name for name in ledger.resources if name != "trials")
    limited = tuple(r for r in priced if np.isfinite(ledger[r].limit))
    policy = _made(policy or (Gittins() if limited else EI()), "policy", "EI()", "propose")
    stop = stop if stop is None else _made(stop, "stop", "MaxTrials(50)", "__call__")
    assert policy is not None
    needs = policy.needs | (stop.needs if stop is not None else frozenset())
    reads = policy.reads | (stop.reads if stop is not None else frozenset())
    _check_settings(type(policy).__name__, budget, needs, reads, worth)
    # What must be told with a value, and what a model is learnt of: no more than is needed.
    needed = limited or (priced[:1] if "cost" in needs else ())
    sobol(Effort().screen, space.d)  # loads scipy.stats now: no thought is charged for it
    return Plan(
        space=space,
        budget=budget,
        policy=policy,
        stop=stop,
        learners=_assign(cost, needed, type(policy).__name__),
        worth=None if worth is None else worth_of(worth, priced[0]),
        sign=1.0 if direction == "minimize" else -1.0,
        noisy=bool(noisy),
        seed=int(seed),
        priced=priced,
        needed=needed,
        needs_cost="cost" in needs,
    )


def _check_settings(
    name: str,
    budget: Budget | None,
    needs: frozenset[str],
    reads: frozenset[str],
    worth: float | str | None,
) -> None:
    if "budget" in needs and budget is None:
        raise InvalidInput(
            f'{name} needs a budget: it decides by what is left. Give budget="2h", "$40" or a '
            "number, or choose a policy that needs none, such as EIPerCost."
        )
    if "worth" in needs and worth is None:
        raise InvalidInput(
            "The stopping rule needs to know what a unit of cost is worth. "
            'Give worth=..., in objective units per unit of cost, or a sentence: "0.01 = $20".'
        )
    if worth is not None and "worth" not in reads | needs:
        raise InvalidInput(
            f"worth={worth!r} would be read by nothing: neither {name} nor the stopping rule "
            "uses it. Add stop=NotWorthIt() or policy=Gittins(), or leave worth out."
        )


def _assign(
    cost: Learner | Mapping[str, Learner] | None, needed: tuple[str, ...], policy: str
) -> dict[str, CostLearner]:
    """A learner for every resource that something depends on."""
    if cost is None:
        return {resource: LogGP() for resource in needed}
    if not needed:
        raise InvalidInput(
            f"cost={cost!r} would be read by nothing: there is no budget to keep and "
            f"{policy} does not look at cost. Give a budget, or leave it."
        )
    given = dict(cost) if isinstance(cost, Mapping) else {needed[0]: cost}
    if unknown := [resource for resource in given if resource not in needed]:
        raise InvalidInput(
            f"cost for {unknown[0]!r} would be read by nothing: what counts here is "
            f"{', '.join(needed)}."
        )
    return {resource: _as_learner(given.get(resource, LogGP()), resource) for resource in needed}


def _made(part: Any, name: str, example: str, does: str) -> Any:
    """A policy or a rule as it was given, if it is one."""
    if isinstance(part, type):
        raise InvalidInput(f"{name}={part.__name__}: give one that is made, {part.__name__}(...).")
    if any(not hasattr(part, attribute) for attribute in ("needs", "reads", "models", does)):
        raise InvalidInput(f"{name}={part!r}: expected a {name} such as {example}.")
    return part


def _as_learner(cost: Learner, resource: str) -> CostLearner:
    if not isinstance(cost, type) and hasattr(cost, "fit"):
        return cost
    if not isinstance(cost, type) and callable(cost):
        return Known(cost)
    raise InvalidInput(
        f"cost={cost!r} for {resource!r}: expected a function of the parameters or a cost model "
        "from farthing.cost, such as LogGP()."
    )


# ── thinking ───────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Finding the BLAS libraries takes milliseconds: once per process."""
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS on one thread: for matrices of a few hundred rows more are several times slower."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


def what_is_believed(plan: Plan, history: History, ledger: Ledger) -> Belief:
    """The models this plan looks at, fitted to what is known."""
    models = plan.policy.models or (plan.stop is not None and plan.stop.models)
    return believe(
        plan.space,
        history,
        ledger,
        learners={} if ledger.used_up else plan.learners,
        sign=plan.sign,
        noisy=plan.noisy,
        worth=plan.worth,
        seed=plan.seed,
        model=models and not ledger.used_up,
    )


def think(plan: Plan, history: History, ledger: Ledger) -> Thought:
    """What to evaluate next, and whether to."""
    belief = what_is_believed(plan, history, ledger)
    rng = np.random.default_rng([plan.seed, len(history)])
    if ledger.used_up:
        return Thought(belief, NOTHING, OutOfBudget()(belief, NOTHING, rng))
    proposal = propose(plan.policy, belief, rng)
    verdict = OutOfBudget()(belief, proposal, rng)
    if not verdict.stop and plan.stop is not None:
        rng = np.random.default_rng([plan.seed, len(history), 1])
        verdict = judge(plan.stop, belief, proposal, rng)
    return Thought(belief, proposal, verdict)


@dataclass(frozen=True)
class _Informed:
    """A cost learner that was also told of costs paid elsewhere."""

    learner: CostLearner
    X: Array
    cost: Array

    def fit(self, evidence: Evidence) -> CostModel | None:
        exact = np.zeros(len(self.cost), dtype=np.bool_)
        return self.learner.fit(
            evidence._replace(
                X=np.concatenate([self.X, evidence.X]),
                cost=np.concatenate([self.cost, evidence.cost]),
                at_least=np.concatenate([exact, evidence.at_least]),
            )
        )


def informed(plan: Plan, prices: Sequence[tuple[Array, Mapping[str, float]]]) -> Plan:
    """The plan with cost models that also learn from costs paid elsewhere, at points (d,)."""

    def teach(learner: CostLearner, resource: str) -> CostLearner:
        known = [(x, cost[resource]) for x, cost in prices if resource in cost]
        if not known or isinstance(learner, KnownBeforehand):
            return learner
        X, cost = zip(*known, strict=True)
        return _Informed(learner, np.array(X), np.array(cost))

    taught = {resource: teach(learner, resource) for resource, learner in plan.learners.items()}
    return replace(plan, learners=taught)


# ── trials ─────────────────────────────────────────────────────────────────────────────────────


def asked_trial(plan: Plan, thought: Thought) -> tuple[Trial, dict[str, float]]:
    """The trial a thought leads to, and what to hold for it of each limited resource."""
    belief, proposal, verdict = thought
    x, predicted, hold = proposal.x, {}, {}
    assert x is not None
    for resource, (m, s) in proposal.predicted.items():
        left = max(belief.ledger[resource].left, 1e-300)
        predicted[resource] = float(np.exp(expected_cost(m, s, left)[0]))
        # The 80 % quantile is what affordable means, so it is what is put aside.
        if np.isfinite(belief.ledger[resource].limit):
            hold[resource] = min(float(np.exp(m[0] + Z_AFFORDABLE * s[0])), left)
    trial = Trial(
        number=belief.number,
        params=plan.space.decode(x),
        x=x,
        predicted=predicted,
        because=proposal.because,
        notes={**belief.notes(), **verdict.notes, **proposal.notes},
    )
    return trial, hold


def added_trial(
    plan: Plan,
    number: int,
    params: Mapping[str, Any],
    value: float,
    *,
    cost: Price,
    cost_required: bool,
) -> Trial:
    """An evaluation made elsewhere, as a trial."""
    x = plan.space.encode(params)
    told = _finite(value, "The value", "Leave out an evaluation that has none.")
    paid = bill(plan, cost, x, required=cost_required)
    return Trial(
        number=number,
        params=plan.space.decode(x) if plan.space.rows is not None else dict(params),
        x=x,
        state="done",
        value=told,
        cost=paid,
        because="evaluated elsewhere",
        notes={"phase": "start", "elsewhere": True},
    )


def outcome_of(
    number: int, value: float | None, failed: str | None, killed: bool
) -> tuple[State, float | None]:
    """The state a trial ends in, and its value."""
    given = (value is not None, failed is not None, bool(killed))
    if sum(given) != 1:
        raise InvalidInput(
            "Tell exactly one of a value, failed='why', or killed=True; "
            f"got value={value!r}, failed={failed!r}, killed={killed!r}."
        )
    if failed is not None and not (isinstance(failed, str) and failed):
        raise InvalidInput(f"failed={failed!r}: say in words why, such as failed='out of memory'.")
    if not given[0]:
        return "failed" if given[1] else "killed", None
    advice = "If the evaluation went wrong, tell(trial, failed='why') instead."
    return "done", _finite(value, f"The value of trial {number}", advice)


def bill(plan: Plan, cost: Price, x: Array, *, required: bool) -> dict[str, float]:
    """What was paid by resource; what is known beforehand need not be told."""
    first = plan.priced[0]
    told = {} if cost is None else dict(cost) if isinstance(cost, Mapping) else {first: cost}
    paid = {}
    for resource, amount in told.items():
        if resource not in plan.priced:
            raise InvalidInput(
                f"A cost in {resource!r} was told, but what is counted here is "
                f"{', '.join(plan.priced)}."
            )
        what, advice = f"The cost in {resource!r}", "Tell what the evaluation really used."
        paid[resource] = _finite(amount, what, advice)
        if not paid[resource] > 0:
            raise InvalidInput(f"{what} is {amount!r}: expected a positive number. {advice}")
    for resource in plan.needed:
        if resource in paid:
            continue
        learner = plan.learners[resource]
        if isinstance(learner, KnownBeforehand):
            paid[resource] = learner.price_at(plan.space, x)
        elif required:
            raise InvalidInput(
                f"The cost in {resource!r} is missing, which the budget or the policy needs. "
                "Say tell(trial, value, cost=...), or return Outcome(value, cost=...)."
            )
    return paid


def best_trial(plan: Plan, history: History, ledger: Ledger) -> Trial | None:
    """The best trial, by posterior mean if `noisy`; None before the first value."""
    done = history.done
    if not done:
        return None
    y = plan.sign * np.array([trial.value for trial in done])
    if plan.noisy:
        # Whatever the running ones may return: only what is done.
        belief = believe(plan.space, History(done), ledger, learners={}, sign=plan.sign, noisy=True)
        if belief.objective is not None:
            y = belief.objective.at(np.array([trial.x for trial in done])).mean[:, 0]
    return done[int(np.argmin(y))]


def _finite(value: object, what: str, advice: str) -> float:
    """A number, also one of NumPy or of a tensor library, but not a text that looks like one."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} is {value!r}: expected a finite number. {advice}") from None
    if not np.isfinite(number):
        raise InvalidInput(f"{what} is {number}: expected a finite number. {advice}")
    return number
