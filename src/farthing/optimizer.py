"""Ask and tell, in memory: the one object that changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from farthing.belief import Z_AFFORDABLE, Belief, believe
from farthing.cost import CostLearner, Known, LogGP
from farthing.decision import Policy, Proposal, StoppingRule, Verdict
from farthing.errors import InvalidInput, Stopped
from farthing.history import History, State, Trial
from farthing.ledger import Budget, Ledger, worth_of
from farthing.normal import expected_cost
from farthing.policies import EI, CArBO
from farthing.search import Effort, sobol
from farthing.space import Parameter, Space
from farthing.stopping import OutOfBudget

__all__ = ["Optimizer"]

Price = float | Mapping[str, float] | None
Learner = CostLearner | Callable[[Mapping[str, Any]], float]

NOTHING = Proposal(None, "the budget is spent")


class _Thought(NamedTuple):
    """What was believed, proposed and judged; kept until something new is known."""

    belief: Belief
    proposal: Proposal
    verdict: Verdict


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Finding the BLAS libraries takes milliseconds: once per process."""
    return ThreadpoolController()


class Optimizer:
    """Choose evaluations, learn from what they returned and cost, and say when to stop.

        optimizer = Optimizer(space, budget="$40")
        while not optimizer.verdict.stop:
            trial = optimizer.ask()
            optimizer.tell(trial, value, cost=...)
        optimizer.best.params

    Args:
        space: a Space, or {name: parameter}.
        budget: what may be spent: "2h", "$40", 40, {"s": 3600, "usd": 5}, a Budget; None: no limit.
        policy: how to choose; by default CArBO with a budget of something paid, EI otherwise.
        stop: a reason to stop besides the budget, such as `stopping.NotWorthIt(worth=0.01)`.
        cost: what evaluations cost: a function of the parameters where it is known, else a learner
            from `farthing.cost`; {resource: either} where several resources are limited.
        worth: objective units that one unit of cost is worth, or "0.01 = $20".
        direction: "minimize" or "maximize".
        noisy: whether the same parameters may return different values.
        seed: the same seed and the same answers give the same questions.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Parameter],
        budget: str | float | Mapping[str, float] | Budget | None = None,
        *,
        policy: Policy | None = None,
        stop: StoppingRule | None = None,
        cost: Learner | Mapping[str, Learner] | None = None,
        worth: float | str | None = None,
        direction: Literal["minimize", "maximize"] = "minimize",
        noisy: bool = False,
        seed: int = 0,
    ) -> None:
        if direction not in ("minimize", "maximize"):
            raise InvalidInput(f'direction={direction!r}: expected "minimize" or "maximize".')
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidInput(f"seed={seed!r}: expected a whole number of at least 0.")
        self.space = space if isinstance(space, Space) else Space(space)
        self.budget = None if budget is None else Budget(budget)
        self._ledger = Ledger.of(self.budget)
        self._priced = tuple(name for name in self._ledger.resources if name != "trials")
        limited = tuple(r for r in self._priced if np.isfinite(self._ledger[r].limit))
        self.policy = _made(policy or (CArBO() if limited else EI()), "policy", "EI()", "propose")
        self.stop = stop if stop is None else _made(stop, "stop", "MaxTrials(50)", "__call__")
        needs = self.policy.needs | (stop.needs if stop is not None else frozenset())
        reads = self.policy.reads | (stop.reads if stop is not None else frozenset())
        self._check_settings(needs, reads, worth)
        self.worth = None if worth is None else worth_of(worth, self._priced[0])
        # What must be told with a value, and what a model is learnt of: no more than is needed.
        self._needs_cost = "cost" in needs
        self._needed = limited or (self._priced[:1] if self._needs_cost else ())
        self._learners = self._assign(cost)
        self.noisy = bool(noisy)
        self.seed = int(seed)
        self._sign = 1.0 if direction == "minimize" else -1.0
        self._history = History()
        self._thought: _Thought | None = None
        self._best: Trial | None = None
        sobol(Effort().screen, self.space.d)  # loads scipy.stats now: no thought is charged for it

    # ── settings ───────────────────────────────────────────────────────────────────────────

    def _check_settings(
        self, needs: frozenset[str], reads: frozenset[str], worth: float | str | None
    ) -> None:
        name = type(self.policy).__name__
        if "budget" in needs and self.budget is None:
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

    def _assign(self, cost: Learner | Mapping[str, Learner] | None) -> dict[str, CostLearner]:
        """A learner for every resource that something depends on."""
        if cost is None:
            return {resource: LogGP() for resource in self._needed}
        if not self._needed:
            raise InvalidInput(
                f"cost={cost!r} would be read by nothing: there is no budget to keep and "
                f"{type(self.policy).__name__} does not look at cost. Give a budget, or leave it."
            )
        given = dict(cost) if isinstance(cost, Mapping) else {self._needed[0]: cost}
        if unknown := [resource for resource in given if resource not in self._needed]:
            raise InvalidInput(
                f"cost for {unknown[0]!r} would be read by nothing: what counts here is "
                f"{', '.join(self._needed)}."
            )
        return {
            resource: _as_learner(given.get(resource, LogGP()), resource)
            for resource in self._needed
        }

    # ── thinking ───────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _thinking(self) -> Iterator[None]:
        """Measure what happens inside and charge it, with BLAS held to one thread.

        For matrices of a few hundred rows more threads are several times slower.
        """
        begun = time.perf_counter()
        try:
            with _blas().limit(limits=1, user_api="blas"):
                yield
        finally:  # a thought that ends in Stopped took its time, too
            self._ledger = self._ledger.think(time.perf_counter() - begun)

    def _think(self) -> _Thought:
        if self._thought is None:
            belief = self._believe()
            number = len(self._history)
            rng = np.random.default_rng([self.seed, number])
            verdict = OutOfBudget()(belief, NOTHING, rng) if self._ledger.used_up else None
            proposal = NOTHING
            if verdict is None:
                proposal = self.policy.propose(belief, rng)
                verdict = OutOfBudget()(belief, proposal, rng)
            if not verdict.stop and self.stop is not None:
                verdict = self.stop(belief, proposal, np.random.default_rng([self.seed, number, 1]))
            self._thought = _Thought(belief, proposal, verdict)
        return self._thought

    def _believe(self) -> Belief:
        models = self.policy.models or (self.stop is not None and self.stop.models)
        return believe(
            self.space,
            self._history,
            self._ledger,
            learners={} if self._ledger.used_up else self._learners,
            sign=self._sign,
            noisy=self.noisy,
            worth=self.worth,
            seed=self.seed,
            model=models and not self._ledger.used_up,
        )

    @property
    def verdict(self) -> Verdict:
        """Whether to stop now, and why."""
        with self._thinking():
            return self._think().verdict

    # ── asking ─────────────────────────────────────────────────────────────────────────────

    @overload
    def ask(self, count: None = None, *, anyway: bool = False) -> Trial: ...

    @overload
    def ask(self, count: int, *, anyway: bool = False) -> list[Trial]: ...

    def ask(self, count: int | None = None, *, anyway: bool = False) -> Trial | list[Trial]:
        """The next trial, or a list of `count`; what is running takes part as fantasies.

        Args:
            count: how many to evaluate at the same time.
            anyway: ask although a rule said stop; the ledger cannot be overruled.

        Raises:
            Stopped: the verdict is to stop.
        """
        if count is None:
            with self._thinking():
                return self._ask(anyway)
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidInput(f"ask({count!r}): expected how many trials, at least 1.")
        with self._thinking():
            trials = [self._ask(anyway)]
            while len(trials) < count:
                if (self._think().verdict.stop and not anyway) or self._think().proposal.x is None:
                    break  # a smaller batch than wanted, rather than an error after some were made
                trials.append(self._ask(anyway))
            return trials

    def _ask(self, anyway: bool) -> Trial:
        belief, proposal, verdict = self._think()
        if proposal.x is None or (verdict.stop and not anyway):
            raise Stopped(verdict.because)
        x, predicted, hold = proposal.x, {}, {}
        for resource, (m, s) in belief.predicted(x).items():
            left = max(self._ledger[resource].left, 1e-300)
            predicted[resource] = float(np.exp(expected_cost(m, s, left)[0]))
            # The 80 % quantile is what affordable means, so it is what is put aside.
            hold[resource] = min(float(np.exp(m[0] + Z_AFFORDABLE * s[0])), left)
        trial = Trial(
            number=len(self._history),
            params=self.space.decode(x),
            x=x,
            predicted=predicted,
            because=proposal.because,
            notes={**belief.notes(), **verdict.notes, **proposal.notes},
        )
        self._ledger = self._ledger.reserve(
            trial.number, {r: v for r, v in hold.items() if np.isfinite(self._ledger[r].limit)}
        )
        self._history = self._history.adding(trial)
        self._thought = None
        return replace(trial, params=dict(trial.params))  # the user's own, to pop and change

    # ── telling ────────────────────────────────────────────────────────────────────────────

    def tell(
        self,
        trial: Trial | int,
        value: float | None = None,
        *,
        cost: Price = None,
        failed: str | None = None,
        killed: bool = False,
    ) -> None:
        """What became of a trial: a value, a failure, or that it was killed; and what it cost.

        Args:
            trial: what `ask` returned, or its number.
            value: what is optimised.
            cost: in the budget's first resource, or {resource: amount}; of a killed trial, a lower
                bound of what it would have cost. Not needed where the cost is known beforehand.
            failed: why there is no value. Such parameters are avoided from then on.
            killed: it was stopped before it had a value.
        """
        begun = self._running(trial)
        state = _state(value, failed, killed)
        told = None
        if state == "done":
            advice = "If the evaluation went wrong, tell(trial, failed='why') instead."
            told = _finite(value, f"The value of trial {begun.number}", advice)
        paid = self._paid(cost, begun.x, required=True)
        with self._thinking():
            self._history = self._history.replacing(
                begun.number, state=state, value=told, cost=paid, error=failed
            )
            self._ledger = self._ledger.charge(begun.number, paid, start=begun.is_start)
            self._thought, self._best = None, None

    def add(self, params: Mapping[str, Any], value: float, *, cost: Price = None) -> Trial:
        """Learn from an evaluation made elsewhere; it takes a number, but nothing of the budget."""
        x = self.space.encode(params)
        told = _finite(value, "The value", "Leave out an evaluation that has none.")
        paid = self._paid(cost, x, required=self._needs_cost)
        trial = Trial(
            number=len(self._history),
            params=self.space.decode(x) if self.space.rows is not None else dict(params),
            x=x,
            state="done",
            value=told,
            cost=paid,
            because="evaluated elsewhere",
            notes={"phase": "start"},
        )
        self._history = self._history.adding(trial)
        self._thought, self._best = None, None
        return replace(trial, params=dict(trial.params))

    def _running(self, trial: Trial | int) -> Trial:
        number = trial.number if isinstance(trial, Trial) else trial
        known = isinstance(number, int | np.integer) and 0 <= number < len(self._history)
        begun = self._history[int(number)] if known else None
        if begun is None or (isinstance(trial, Trial) and not np.array_equal(trial.x, begun.x)):
            raise InvalidInput(
                f"Trial {number!r} was never asked here. Tell what ask() returned; "
                "use add(params, value) for an evaluation made elsewhere."
            )
        if begun.state != "running":
            raise InvalidInput(
                f"Trial {number} was told already ({begun.state}). A trial is told once."
            )
        return begun

    def _paid(self, cost: Price, x: NDArray[np.float64], *, required: bool) -> dict[str, float]:
        """What was paid by resource; what is known beforehand need not be told."""
        first = self._priced[0]
        told = {} if cost is None else dict(cost) if isinstance(cost, Mapping) else {first: cost}
        paid = {}
        for resource, amount in told.items():
            if resource not in self._priced:
                raise InvalidInput(
                    f"A cost in {resource!r} was told, but what is counted here is "
                    f"{', '.join(self._priced)}."
                )
            what, advice = f"The cost in {resource!r}", "Tell what the evaluation really used."
            paid[resource] = _finite(amount, what, advice)
            if not paid[resource] > 0:
                raise InvalidInput(f"{what} is {amount!r}: expected a positive number. {advice}")
        for resource in self._needed:
            if resource in paid:
                continue
            learner = self._learners[resource]
            if isinstance(learner, Known):
                paid[resource] = learner.bind(self.space).price(x)
            elif required:
                raise InvalidInput(
                    f"The cost in {resource!r} is missing, which the budget or the policy needs. "
                    "Say tell(trial, value, cost=...), or return Outcome(value, cost=...)."
                )
        return paid

    # ── looking ────────────────────────────────────────────────────────────────────────────

    @property
    def best(self) -> Trial | None:
        """The best trial so far, by posterior mean if `noisy`; None before the first value."""
        done = self._history.done
        if done and self._best is None:
            y = self._sign * np.array([trial.value for trial in done])
            if self.noisy:
                with self._thinking():
                    y = self._without_noise(done)
            self._best = done[int(np.argmin(y))]
        return self._best

    def _without_noise(self, done: tuple[Trial, ...]) -> NDArray[np.float64]:
        """Posterior means at the trials done, whatever the running ones may return."""
        belief = believe(
            self.space, History(done), self._ledger, learners={}, sign=self._sign, noisy=True
        )
        if belief.objective is None:
            return belief.y
        return belief.objective.at(np.array([trial.x for trial in done])).mean

    @property
    def ledger(self) -> Ledger:
        """What was spent, what is held for running trials, what is left."""
        return self._ledger

    @property
    def history(self) -> History:
        """Every trial, in the user's units and direction."""
        return self._history


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


def _state(value: float | None, failed: str | None, killed: bool) -> State:
    given = (value is not None, failed is not None, bool(killed))
    if sum(given) != 1:
        raise InvalidInput(
            "Tell exactly one of a value, failed='why', or killed=True; "
            f"got value={value!r}, failed={failed!r}, killed={killed!r}."
        )
    if failed is not None and not (isinstance(failed, str) and failed):
        raise InvalidInput(f"failed={failed!r}: say in words why, such as failed='out of memory'.")
    return "done" if given[0] else "failed" if given[1] else "killed"


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
