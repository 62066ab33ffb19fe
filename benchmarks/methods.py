"""Every method by name: our policies with their cost models, and the peers.

EI, EIpu, EI_0.2, cooling, CArBO, CEI_0.7, ...    a policy of farthing, the log-GP cost model
EIpu+linear, ...                                  a policy of farthing, another cost model
PBGI+leash_4, ...                                 a policy of farthing, max_overrun=4
default-costs, default-kills, ...                 the default without a part, see without.py
paper:EI, ...                                     a policy as its paper prints it, see paper.py
optuna-tpe, flaml-cfo, ...                        a peer, see benchmarks/peers
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from benchmarks import without
from benchmarks.paper import PREFIX, AsPrinted, Covered
from benchmarks.problems.problem import Evaluation
from farthing import Optimizer, Space, Stopped
from farthing.acquisition.protocols import Policy
from farthing.budget.ledger import Ledger
from farthing.core.events import AskedTogether, Event, Moment, Told
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import AskOptions, Suggestion, next_trials, one_thread, suggest
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
    """One run of a method, which suggests configurations and receives values and costs."""

    def ask(self) -> Params | None:
        """The next configuration; None when the method has no more."""

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report a result; `params` may be a table's row near to the suggested configuration."""


POLICIES: dict[str, Callable[[], Policy]] = {
    "random": Random,
    "sobol": Sobol,
    "EI": EI,
    "EIpu": EIPerCost,
    **{f"EI_{a}": lambda a=a: EIPerCost(alpha=a) for a in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)},
    "cooling": Cooling,
    "cooling_0.5": lambda: Cooling(first=0.5),
    "CArBO": CArBO,
    **{f"CArBO_{k}/8": lambda k=k: CArBO(share=k / 8) for k in (2, 4, 6)},
    "cover+EI": lambda: Covered(EI()),
    "cover+EIpu": lambda: Covered(EIPerCost()),
    **{f"CEI_{s}": lambda s=s: ContextualEI(slack=s) for s in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)},
    "PBGI": Gittins,
    **{f"rollout_{h}": lambda h=h: Rollout(horizon=h) for h in (2, 4)},
}
PAPER = tuple(name for name in POLICIES if name not in ("sobol", "PBGI"))
POLICIES |= without.POLICIES
POLICIES |= {f"{PREFIX}{n}": lambda make=POLICIES[n]: AsPrinted(make()) for n in PAPER}
WIDTHS = tuple(f"width_{i}" for i in (1, 2, 3, 4))  # of the recorded perceptrons


def first_layer(params: Params) -> float:
    """The first width; the constant number of columns is a factor that the model learns."""
    return float(params["width_1"])


def perceptron_flops() -> Flops:
    """The flops of training a recorded perceptron (CArBO section 6)."""
    return Flops([MLPFlops(WIDTHS, layers="layers"), first_layer])


# The names are part of kept runs and stay when classes are renamed.
COST_MODELS: dict[str, Callable[[], CostLearner]] = {
    "linear": Linear,
    "median": lambda: PointEstimate(LogGP()),
    "choose": AutoCost,
    "flops": perceptron_flops,
    "moving": lambda: SwitchingCost(LogGP()),
}

# Values of `max_overrun` by the name in kept runs, where the option was still called a leash.
MAX_OVERRUNS = {f"leash_{margin}": float(margin) for margin in (1, 2, 4, 8)}


def split(name: str) -> tuple[str, str]:
    """The policy of a name, and the name of its cost model or max_overrun; "" for the defaults."""
    policy, _, other = name.rpartition("+")
    return (policy, other) if other in COST_MODELS or other in MAX_OVERRUNS else (name, "")


class Ours:
    """A farthing.Optimizer with a budget in units of cost."""

    kills = True  # whether trials end at their limits

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
        self.kills = policy != without.NO_KILLS
        costs = COST_MODELS | {"": without.OneCost} if policy == without.NO_COSTS else COST_MODELS
        self.optimizer = Optimizer(
            space,
            # Overhead is charged only to a budget in seconds.
            budget={"s" if clock else "cost": budget},
            policy=POLICIES[policy](),
            cost=costs[other]() if other in costs else move,
            max_overrun=MAX_OVERRUNS.get(other),
            seed=seed,
        )

    def ask(self) -> Params | None:
        """The suggestion of the policy; None once the budget is spent."""
        try:
            self.trial = self.optimizer.ask()
        except Stopped:
            return None
        return self.trial.params

    @property
    def limit(self) -> float:
        """The cost at which the last suggested trial is killed."""
        return min(self.trial.limit.values(), default=math.inf) if self.kills else math.inf

    def killed(self, params: Params, cost: float) -> None:
        """Report that the last suggested trial was killed at its limit."""
        self._evaluated(params)
        self.optimizer.tell(self.trial, killed=True, cost=cost)

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report a value or a failure; `params` is the row of a table if one was evaluated."""
        value, cost = evaluation
        self._evaluated(params)
        if value is None:
            self.optimizer.tell(self.trial, failed="no value", cost=cost)
        else:
            self.optimizer.tell(self.trial, value, cost=cost)

    def _evaluated(self, params: Params) -> None:
        """Set the trial's parameters to those evaluated, since peers also receive these."""
        if dict(params) == dict(self.trial.params):
            return
        number, x = self.trial.number, self.optimizer.space.encode(params)

        def change(state: State, now: float) -> State:
            trials = list(state.history.trials)
            trials[number] = replace(trials[number], params=dict(params), x=x)
            return replace(state, history=History(tuple(trials)))

        self.optimizer._store.commit(change)
        self.trial = self.optimizer.history[number]


class Together:
    """farthing in synchronous batches: the seconds of the budget pass for all trials at once.

    The replay has its own clock, so this class calls `next_trials` and `apply` with its times.
    Overhead is not charged.
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
        """A batch of at most `count` trials, as many as may start."""

        def suggester(state: State) -> tuple[Suggestion, float]:
            with one_thread():
                return suggest(self.settings, state), 0.0

        try:
            asked = next_trials(
                self.settings, self.state, count, suggester, AskOptions(), lambda: self._moment
            )
        except Stopped:
            return []
        self._commit(AskedTogether(asked))
        return list(self.state.history.trials[-len(asked) :])

    def tell(self, trial: Trial, state: TrialState, evaluation: Evaluation) -> None:
        """Report the outcome of a trial."""
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
    """A new run of a method.

    `evaluations` is the number of random configurations that the budget pays for, as a hint for
    peers that need one. `move`, a cost that depends on the previous evaluation, is known to
    farthing only.
    """
    if split(name)[0] in POLICIES:
        return Ours(name, space, budget=budget, seed=seed, clock=clock, move=move)
    from benchmarks import peers

    return peers.make(name, space, budget=budget, seed=seed, evaluations=evaluations)
