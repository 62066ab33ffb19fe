"""Every method by name: our policies with their cost models, and the peers.

EI, EIpu, EI_0.2, cooling, CArBO, CEI_0.7, ...    ours, the log-GP cost model
EIpu+linear, ...                                  ours, another cost model
PBGI+leash_4, ...                                 ours, with a leash of that margin
optuna-tpe, flaml-cfo, ...                        a peer, see benchmarks/peers
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from benchmarks.problems.problem import Evaluation
from farthing import Optimizer, Space, Stopped
from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Policy, Proposal
from farthing.budget.ledger import Ledger
from farthing.core.events import AskedTogether, Event, Moment, Told
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import Suggestion, Terms, next_trials, one_thread, suggest
from farthing.core.transition import apply
from farthing.cost import (
    AutoCost,
    CostLearner,
    Flops,
    Linear,
    LogGP,
    MLPFlops,
    PointEstimate,
    SwitchingCost,
)
from farthing.history import History, Trial, TrialState
from farthing.policies import (
    EI,
    CArBO,
    ContextualEI,
    Cooling,
    EIPerCost,
    Gittins,
    Random,
    Rollout,
    Sobol,
)

Params = Mapping[str, Any]


class Method(Protocol):
    """One run of a method: asked for a configuration, told what it was worth and cost."""

    def ask(self) -> Params | None:
        """The next configuration; None when it has nothing more to ask."""

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """What came of it; `params` may be a table's row near to what was asked."""


@dataclass(frozen=True)
class Covered:
    """CArBO with another policy in place of its cooling: cheap cover for an eighth, then `then`."""

    then: Policy
    needs: ClassVar[frozenset[str]] = CArBO.needs
    reads: ClassVar[frozenset[str]] = CArBO.reads
    models: ClassVar[bool] = True

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """As CArBO while it starts and covers."""
        account = belief.ledger[belief.ledger.resources[0]]
        if (account.spent + account.reserved) / account.limit < CArBO().share:
            return CArBO().propose(belief, rng)
        return self.then.propose(belief, rng)


POLICIES: dict[str, Callable[[], Policy]] = {
    "random": Random,
    "sobol": Sobol,
    "EI": EI,
    "EIpu": EIPerCost,
    **{f"EI_{a}": lambda a=a: EIPerCost(alpha=a) for a in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)},
    "cooling": Cooling,
    "CArBO": CArBO,
    **{f"CArBO_{k}/8": lambda k=k: CArBO(share=k / 8) for k in (2, 4, 6)},
    "cover+EI": lambda: Covered(EI()),
    "cover+EIpu": lambda: Covered(EIPerCost()),
    **{f"CEI_{s}": lambda s=s: ContextualEI(slack=s) for s in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)},
    "PBGI": Gittins,
    **{f"rollout_{h}": lambda h=h: Rollout(horizon=h) for h in (2, 4)},
}
WIDTHS = tuple(f"width_{i}" for i in (1, 2, 3, 4))  # of the recorded perceptrons


def first_layer(params: Params) -> float:
    """The data's columns, whatever they are, times the first width."""
    return float(params["width_1"])


def perceptron_flops() -> Flops:
    """What training a recorded perceptron takes (CArBO section 6)."""
    return Flops([MLPFlops(WIDTHS, layers="layers"), first_layer])


COST_MODELS: dict[str, Callable[[], CostLearner]] = {
    "linear": Linear,
    "median": lambda: PointEstimate(LogGP()),
    "choose": AutoCost,
    "flops": perceptron_flops,
    "moving": lambda: SwitchingCost(LogGP()),
}


LEASHES = {f"leash_{margin}": float(margin) for margin in (1, 2, 4, 8)}


def split(name: str) -> tuple[str, str]:
    """The policy of a name, and its cost model or leash, "" for the usual ones."""
    policy, _, other = name.rpartition("+")
    return (policy, other) if other in COST_MODELS or other in LEASHES else (name, "")


class Ours:
    """A farthing.Optimizer that sees a budget in units of cost."""

    def __init__(
        self,
        name: str,
        space: Space,
        *,
        budget: float,
        seed: int,
        clock: bool,
        move: Callable[..., float] | None = None,
    ) -> None:
        policy, other = split(name)
        self.optimizer = Optimizer(
            space,
            # Only an account in seconds is charged for thinking.
            budget={"s" if clock else "cost": budget},
            policy=POLICIES[policy](),
            cost=COST_MODELS[other]() if other in COST_MODELS else move,
            max_overrun=LEASHES.get(other),
            seed=seed,
        )

    def ask(self) -> Params | None:
        """What the policy proposes, until its budget is spent."""
        try:
            self.trial = self.optimizer.ask()
        except Stopped:
            return None
        return self.trial.params

    @property
    def limit(self) -> float:
        """The most that what was asked last may cost; it is killed there."""
        return min(self.trial.limit.values(), default=math.inf)

    def killed(self, params: Params, cost: float) -> None:
        """What was asked last was killed at its limit."""
        self._evaluated(params)
        self.optimizer.tell(self.trial, killed=True, cost=cost)

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """A value, or that it failed; of the row of a table that was evaluated instead, if so."""
        value, cost = evaluation
        self._evaluated(params)
        if value is None:
            self.optimizer.tell(self.trial, failed="no value", cost=cost)
        else:
            self.optimizer.tell(self.trial, value, cost=cost)

    def _evaluated(self, params: Params) -> None:
        """The trial is of these parameters: peers are told what was evaluated, too."""
        if dict(params) == dict(self.trial.params):
            return
        number, x = self.trial.number, self.optimizer.space.encode(params)

        def change(state: State, now: float) -> State:
            trials = list(state.history.trials)
            trials[number] = replace(trials[number], params=dict(params), x=x)
            return replace(state, history=History(tuple(trials)))

        self.optimizer._memory.commit(change)
        self.trial = self.optimizer.history[number]


class Together:
    """Ours in batches: a budget of seconds that pass for all trials of a batch at once.

    The clock is the replay's, so this is the machine itself, `next_trials` and `apply`, told what
    time it is. Thinking takes none of it.
    """

    def __init__(self, name: str, space: Space, *, budget: float, seed: int) -> None:
        policy, cost = split(name)
        self.settings = Settings.of(
            space,
            {"s": budget},
            policy=POLICIES[policy](),
            cost=COST_MODELS[cost]() if cost else None,
            seed=seed,
        )
        self.state = State(Ledger.of(self.settings.budget))
        self.now = self._charged = 0.0

    def ask(self, count: int) -> list[Trial]:
        """A batch, smaller or empty where so many may not start."""

        def suggester(state: State) -> tuple[Suggestion, float]:
            with one_thread():
                return suggest(self.settings, state), 0.0

        try:
            asked = next_trials(
                self.settings, self.state, count, suggester, Terms(), lambda: self._moment
            )
        except Stopped:
            return []
        self._commit(AskedTogether(asked))
        return list(self.state.history.trials[-len(asked) :])

    def tell(self, trial: Trial, state: TrialState, evaluation: Evaluation) -> None:
        """What became of a trial."""
        error = "no value" if state == "failed" else None
        self._commit(Told(trial, state, evaluation.value, {"s": evaluation.cost}, error))

    @property
    def _moment(self) -> Moment:
        return Moment(self.now, present=self.now - self._charged)

    def _commit(self, event: Event) -> None:
        self.state = apply(self.settings, self.state, event, self._moment)
        self._charged = self.now


def make(
    name: str,
    space: Space,
    *,
    budget: float,
    seed: int,
    clock: bool = False,
    evaluations: int = 60,
    move: Callable[..., float] | None = None,
) -> Method:
    """A method ready to be asked; so many `evaluations` at random is what the budget buys.

    A cost that depends on the evaluation before, `move`, is known to ours.
    """
    if split(name)[0] in POLICIES:
        return Ours(name, space, budget=budget, seed=seed, clock=clock, move=move)
    from benchmarks import peers

    return peers.make(name, space, budget=budget, seed=seed, evaluations=evaluations)
