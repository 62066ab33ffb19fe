"""`Settings`: everything a study is created with, as one checked value, and what follows from it.

`Optimizer`, `minimize`, `Study`, the command line and `farthing.toml` all build a `Settings`. A new
setting is a field here, a key of `SearchOptions` or `RunOptions`, and a command-line option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from farthing.acquisition.protocols import Policy, StoppingRule
from farthing.budget.ledger import Ledger
from farthing.budget.rates import is_per_worker, rate_of
from farthing.budget.units import Budget, worth_of
from farthing.core.options import AnyBudget, AnySpace, Direction, Learner, RunOptions
from farthing.core.setting_checks import (
    as_amounts,
    as_learner,
    as_seconds,
    check_each,
    check_max_cost,
    check_rate,
    check_sources,
    check_steps,
    check_worth,
)
from farthing.core.unimported import UnimportedCode
from farthing.cost import CostLearner, KnownBeforehand, LogGP
from farthing.earlier import Source
from farthing.errors import InvalidInput
from farthing.models.constraints import Constraint, constraint_of
from farthing.policies import EI, Cooling, Gittins, StagedGittins
from farthing.space.space import Space
from farthing.steps import Steps

__all__ = ["DEFAULT", "Settings"]

DEFAULT = "default"  # names the default policy


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings that were checked, each by itself and all of them together. See `Settings.of`.

    Attributes:
        space: the parameters and their ranges.
        budget: the limit of what may be spent; None for no limit.
        policy: how to choose the next trial, an object or a name: EI(), "ei",
            "contextual(slack=0.5)". The default is Cooling(first=0.5) if the budget limits a cost,
            or Gittins if `worth` or `learn_from` is given, too. Without such a limit it is EI; with
            `steps` it is always StagedGittins. An existing study keeps its policy if you name none;
            "default" names the default.
        stop: a stopping rule besides the budget, an object or a name: "not_worth_it".
        cost: how to predict the cost of a trial: a function of the parameters if it is known, or a
            learner from `farthing.cost`, an object or a name. With several limited resources:
            {resource: either}.
        worth: exchange rate: how much objective one unit of cost is worth, as a number or as a
            text such as "0.01 = $20". "budget": the rate at which the policy would spend what is
            left of the budget after the initial design.
        direction: "minimize" or "maximize".
        noisy: whether the same parameters may return different values.
        seed: random seed. The same seed and the same results give the same suggestions.
        start: configurations to evaluate first, one or a list. The policy sets parameters that are
            missing.
        max_overrun: kill a trial whose expected remaining cost exceeds this many times its first
            estimate; None: trials run while the budget lasts.
        max_cost: the most that one trial can cost, such as "$2" or "10m, $2". Farthing reserves no
            more for a trial, and kills a trial that exceeds it. While costs are unknown, several
            workers start together only if this bound says that the budget can pay for them.
        overhead: share of the cost of trials that suggesting may take of a budget of seconds. With
            `steps`, quick suggestions may take up to four times as much.
        steps: for trainings that report their progress: their last step, or a `Steps`. A training
            can then be paused and resumed. None: trials are evaluated as a whole.
        constraints: bounds of quantities that trials measure, such as {"latency_ms": "<= 10"}. The
            best trial is the best one that meets all of them.
        learn_from: earlier studies from which this one learns, one or a list: a Study, its name in
            the database or "other.db#NAME", "all" for all studies of the database, a Result, an
            Optimizer, a data frame, a list of dicts, or the path of a CSV or JSON file. Names of
            your own: {"may": frame}. Their trials are copied into the settings.
        timeout: seconds after which a trial is killed; None: when the budget is spent.
        retries: how often a trial is repeated if its worker disappeared.
        failures_in_a_row: number of consecutive failures that stop the study; 0 or math.inf: never.
        grace: seconds between SIGTERM and SIGKILL.
        lease: seconds without a sign of life after which a worker and its trial count as lost.
        rate: price of the machine while a study runs, suggesting included, such as "$3.06/h" for
            all workers together or "$3.06/h per worker".
        measure: "wall" or "cpu": whether the compute of a trial is its wall-clock or CPU seconds.
            With "cpu" a rate is the price of CPU time.
        command: the program to tune and its arguments, if the objective is a program.
        metric: the key of the objective value in the program's result.
        cwd: the folder in which trials run; None: the folder of the process that runs them.
        env: environment variables of trials; `{slot}` stands for the slot of the worker.
        logs: the folder for what trials print; None: next to the database.
    """

    names_no_policy: ClassVar[bool] = False  # whether `of` was called without a policy

    space: Space
    budget: Budget | None
    policy: Policy
    stop: StoppingRule | None = None
    cost: Learner | Mapping[str, Learner] | None = None
    worth: float | str | None = None
    direction: Direction = "minimize"
    noisy: bool = False
    seed: int = 0
    start: tuple[Mapping[str, Any], ...] = ()
    max_overrun: float | None = None
    max_cost: Mapping[str, float] | None = None
    overhead: float = 0.05
    steps: Steps | None = None
    constraints: Mapping[str, str] | None = None
    learn_from: tuple[Source, ...] = ()
    timeout: float | None = None
    retries: int = 0
    failures_in_a_row: float = 5
    grace: float = 5.0
    lease: float = 15.0
    rate: str | None = None
    measure: Literal["wall", "cpu"] = "wall"
    command: tuple[str, ...] | None = None
    metric: str = "value"
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    logs: str | None = None

    @classmethod
    def of(
        cls, space: AnySpace, budget: AnyBudget = None, **options: Unpack[RunOptions]
    ) -> Settings:
        """Settings from values as a user writes them: "2h", {"lr": Float(0, 1)}, timeout="10m"."""
        limits = None if budget is None else Budget(budget)
        values: dict[str, Any] = {**options}
        policy = values.pop("policy", None)
        for name in ("timeout", "grace", "lease"):
            if name in values and (name, values[name]) != ("timeout", None):
                values[name] = as_seconds(values[name], name)
        start = values.pop("start", None)
        values["start"] = (start,) if isinstance(start, Mapping) else tuple(start or ())
        if values.get("max_cost") is not None:
            values["max_cost"] = as_amounts(values["max_cost"], "max_cost")
        sources = values.pop("learn_from", None)
        if sources is not None:
            several = isinstance(sources, list | tuple)
            values["learn_from"] = tuple(sources) if several else (sources,)
        if isinstance(command := values.get("command"), list):
            values["command"] = tuple(command)
        made = cls(
            space if isinstance(space, Space) else Space(space),
            limits,
            _default_policy(limits, values) if policy in (None, DEFAULT) else policy,
            **values,
        )
        object.__setattr__(made, "names_no_policy", policy is None)
        return made

    def __post_init__(self) -> None:
        for name, value in check_each(vars(self)).items():
            object.__setattr__(self, name, value)
        check_worth(self.policy, self.stop, self.budget, self.worth, self.cost_resources[0])
        check_rate(self.rate, self.measure, self.budget)
        check_steps(self.policy, self.stop, self.steps)
        check_max_cost(self.max_cost or {}, self.budget)
        check_sources(self.learn_from, self.space, self.policy, self.uses)
        _ = self.learners, self.exchange_rate  # refuse wrong ones now, not during a run

    # ── policy, rule and objective ─────────────────────────────────────────────────────────

    @property
    def sign(self) -> float:
        """+1 to minimise, -1 to maximise."""
        return 1.0 if self.direction == "minimize" else -1.0

    @cached_property
    def bounds(self) -> tuple[Constraint, ...]:
        """The constraints."""
        return tuple(constraint_of(*each) for each in (self.constraints or {}).items())

    @property
    def has_default_policy(self) -> bool:
        """Whether the policy is the one that these settings have if none is given."""
        return self.policy == _default_policy(self.budget, vars(self))

    @property
    def needs(self) -> frozenset[str]:
        """What the policy and the stopping rule need."""
        return self.policy.needs | (frozenset() if self.stop is None else self.stop.needs)

    @property
    def uses(self) -> frozenset[str]:
        """What the policy and the stopping rule need, or use if it is available."""
        stop = frozenset() if self.stop is None else self.stop.reads
        return self.needs | self.policy.reads | stop

    @property
    def unimported(self) -> dict[str, UnimportedCode]:
        """The parts whose code was not imported. With any of them no trial can be suggested."""
        parts = {"policy": self.policy, "stop": self.stop, "cost": self.cost}
        return {name: part for name, part in parts.items() if isinstance(part, UnimportedCode)}

    def seed_of(self, number: int) -> int:
        """The random seed of trial `number`, from the seed of the study and the number."""
        return int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])

    # ── costs ──────────────────────────────────────────────────────────────────────────────

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The accounts of the ledger, the primary one first."""
        return Ledger.of(self.budget).resources

    @cached_property
    def cost_resources(self) -> tuple[str, ...]:
        """The resources in which a cost may be reported, the primary one first."""
        return tuple(name for name in self.resources if name != "trials")

    @cached_property
    def required_costs(self) -> tuple[str, ...]:
        """The resources whose cost must be reported or known: limited, or used by the policy."""
        return _limited_costs(self.budget) or (
            self.cost_resources[:1] if "cost" in self.needs else ()
        )

    @cached_property
    def billed(self) -> frozenset[str]:
        """The limited resources whose cost nobody knows until a trial reports it.

        Time is measured while a trial runs, and so is what a rate charges for it.
        """
        measured = {"s", "worker_s"} | set({} if self.rate is None else rate_of(self.rate))
        known = {*self.known_costs, *(self.max_cost or {})}
        return frozenset(_limited_costs(self.budget)) - measured - known

    @cached_property
    def known_costs(self) -> Mapping[str, CostLearner]:
        """The cost learners of resources whose cost is known beforehand."""
        known = {r: each for r, each in self.learners.items() if isinstance(each, KnownBeforehand)}
        return known

    @cached_property
    def learners(self) -> Mapping[str, CostLearner]:
        """A cost learner for each of the required costs."""
        if self.cost is None:
            return {resource: LogGP() for resource in self.required_costs}
        if not self.required_costs:
            raise InvalidInput(
                f"cost={self.cost!r} has no effect: there is no budget, and "
                f"{type(self.policy).__name__} does not use costs. Set a budget, or leave cost out."
            )
        first = self.required_costs[0]
        given = dict(self.cost) if isinstance(self.cost, Mapping) else {first: self.cost}
        if unknown := [resource for resource in given if resource not in self.required_costs]:
            raise InvalidInput(
                f"cost for {unknown[0]!r} has no effect: this study uses the costs in "
                f"{', '.join(self.required_costs)}."
            )
        return {r: as_learner(given.get(r, LogGP()), r) for r in self.required_costs}

    @cached_property
    def clock(self) -> Mapping[str, float]:
        """The resources that time consumes: how much of each passes in one second."""
        rated = {} if self.rate is None or self.measure == "cpu" else rate_of(self.rate)
        return {"s": 1.0} | {r: price for r, price in rated.items() if r in self.resources}

    @cached_property
    def charged_per_worker(self) -> frozenset[str]:
        """The resources of `clock` that every worker consumes separately."""
        return frozenset(self.clock) - {"s"} if is_per_worker(self.rate) else frozenset()

    @cached_property
    def exchange_rate(self) -> float | None:
        """`worth` in objective units per unit of the primary resource; None if not given."""
        if self.worth is None or self.worth_from_budget:
            return None
        return worth_of(self.worth, self.cost_resources[0])

    @property
    def worth_from_budget(self) -> bool:
        """Whether the exchange rate is computed from the budget."""
        return self.worth == "budget"


def _limited_costs(budget: Budget | None) -> tuple[str, ...]:
    return () if budget is None else tuple(r for r in budget.limits if r != "trials")


def _default_policy(budget: Budget | None, values: Mapping[str, Any]) -> Policy:
    """The policy if none is given; docs/decisions.md has the comparisons that chose it."""
    steps = values.get("steps")
    if isinstance(steps, Steps) or (isinstance(steps, int) and steps > 1):
        return StagedGittins()
    if not _limited_costs(budget):
        return EI()
    if values.get("worth") is not None or values.get("learn_from"):
        return Gittins()
    return Cooling(first=0.5)
