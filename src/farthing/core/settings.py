"""What a study is made with: one value that checks itself, and what follows from it.

`Optimizer`, `minimize`, `Study`, the command line and `farthing.toml` all build a `Settings`, and
nothing else. A new setting is a field here, a key of `SearchOptions` or `RunOptions`, and an option.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, Unpack, cast

import numpy as np

from farthing.acquisition.protocols import Policy, Proposal, StoppingRule, Verdict
from farthing.budget.ledger import Ledger
from farthing.budget.rates import is_per_worker, rate_of
from farthing.budget.units import Budget, worth_of
from farthing.cost import CostLearner, Evidence, Known, LogGP
from farthing.errors import InvalidInput
from farthing.policies import EI, Gittins
from farthing.space.parameters import Kind
from farthing.space.space import Space

if TYPE_CHECKING:
    from farthing.acquisition.belief import Belief

__all__ = [
    "Direction",
    "Learner",
    "RunOptions",
    "SearchOptions",
    "Settings",
    "UnimportedCode",
    "takes_settings",
]

Direction = Literal["minimize", "maximize"]
Learner = CostLearner | Callable[[Mapping[str, Any]], float]
AnyBudget = str | float | Mapping[str, float] | Budget | None
AnySpace = Space | Mapping[str, Kind]
Taker = TypeVar("Taker", bound=Callable[..., Any])


class SearchOptions(TypedDict, total=False):
    """How to choose what is evaluated next, and when to stop: see `Settings`."""

    policy: Policy | None
    stop: StoppingRule | None
    cost: Learner | Mapping[str, Learner] | None
    worth: float | str | None
    direction: Direction
    noisy: bool
    seed: int
    start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    max_overrun: float | None
    overhead: float


class RunOptions(SearchOptions, total=False):
    """The same, and how trials are run by workers: see `Settings`."""

    timeout: float | str | None
    retries: int
    failures_in_a_row: float
    grace: float | str
    lease: float | str
    rate: str | None
    measure: Literal["wall", "cpu"]
    command: Sequence[str] | None
    metric: str
    cwd: str | None
    env: Mapping[str, str] | None
    logs: str | None


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings that were checked, each by itself and all of them together; see `Settings.of`.

    Attributes:
        space: what is searched.
        budget: what may be spent; None: no limit.
        policy: how to choose; by default Gittins with a budget of something paid, EI otherwise.
        stop: a reason to stop besides the budget.
        cost: what evaluations cost: a function of the parameters where it is known, else a learner
            from `farthing.cost`; {resource: either} where several resources are limited.
        worth: objective units that one unit of cost is worth, or "0.01 = $20"; "budget": so many
            that what is left after the start would be spent.
        direction: "minimize" or "maximize".
        noisy: whether the same parameters may return different values.
        seed: the same seed and the same answers give the same questions.
        start: configurations to evaluate first, what is missing completed: one, or a list of them.
        leash: a running trial is killed when it is expected to cost this many times more, still,
            than it was expected to cost in all; None: it is let run while the budget pays.
        thinking: the share of what trials cost that a budget of seconds is also spent thinking.
        timeout: seconds after which a trial is killed; None: when the budget is spent.
        retries: how many times a trial is tried again whose worker disappeared.
        failures_in_a_row: so many stop the study; 0 or math.inf: it goes on whatever happens.
        grace: seconds between SIGTERM and SIGKILL.
        lease: seconds after which a trial is lost whose worker was not heard of.
        rate: what the machine costs while a run is on, thinking included and once for all workers,
            "$3.06/h"; or each of the workers, "$3.06/h per worker".
        measure: whether the seconds or the CPU seconds of a trial are its compute; a rate is then
            that of its CPU seconds.
        command: the program that is tuned, where it is one, and its arguments.
        metric: the key of the value in its result.
        cwd: the folder in which trials run; None: that of whoever runs them.
        env: variables that trials are given; `{slot}` in one is the slot of its worker.
        logs: the folder that keeps what trials print; None: beside the database.
    """

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
    overhead: float = 0.05
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
    def of(cls, space: AnySpace, budget: AnyBudget = None, **given: Unpack[RunOptions]) -> Settings:
        """Settings from what a person writes: "2h", {"lr": Float(0, 1)}, timeout="10m"."""
        limits = None if budget is None else Budget(budget)
        policy = given.pop("policy", None)
        named: dict[str, Any] = {**given}
        for name in ("timeout", "grace", "lease"):
            if name in named and (name, named[name]) != ("timeout", None):
                named[name] = _seconds(named[name], name)
        begin = named.pop("start", None)
        named["start"] = (begin,) if isinstance(begin, Mapping) else tuple(begin or ())
        if isinstance(command := named.get("command"), list):
            named["command"] = tuple(command)
        return cls(
            space if isinstance(space, Space) else Space(space),
            limits,
            (Gittins() if _limited(limits) else EI()) if policy is None else policy,
            **named,
        )

    def __post_init__(self) -> None:
        object.__setattr__(self, "noisy", bool(self.noisy))
        if self.direction not in ("minimize", "maximize"):
            raise InvalidInput(f'direction={self.direction!r}: expected "minimize" or "maximize".')
        if self.measure not in ("wall", "cpu"):
            raise InvalidInput(f'measure={self.measure!r}: expected "wall" or "cpu".')
        for name in ("seed", "retries"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
                raise InvalidInput(f"{name}={number!r}: expected a whole number of at least 0.")
            object.__setattr__(self, name, int(number))
        if not 0 < self.lease < math.inf:
            raise InvalidInput(f"lease={self.lease!r}: expected seconds above 0, such as 15.")
        if not 0 <= self.grace < math.inf:
            raise InvalidInput(f"grace={self.grace!r}: expected seconds of at least 0.")
        if self.failures_in_a_row == 0 and _is_number(self.failures_in_a_row):
            object.__setattr__(self, "failures_in_a_row", math.inf)
        if not (_is_number(self.failures_in_a_row) and self.failures_in_a_row >= 1):
            raise InvalidInput(
                f"failures_in_a_row={self.failures_in_a_row!r}: expected a number of at least 1, "
                "or 0 to go on whatever happens."
            )
        if self.command is not None and not _are_texts(self.command):
            raise InvalidInput(
                f"command={self.command!r}: expected a program and its arguments, a list of texts "
                'such as ["python", "train.py"].'
            )
        if not _are_texts((self.metric,)):
            raise InvalidInput(f"metric={self.metric!r}: expected a key such as 'value'.")
        for name in ("cwd", "logs"):
            folder = getattr(self, name)
            if folder is not None and not _are_texts((folder,)):
                raise InvalidInput(f"{name}={folder!r}: expected the path of a folder.")
        if self.env is not None and not _are_variables(self.env):
            raise InvalidInput(
                f"env={self.env!r}: expected names and texts, such as "
                '{"CUDA_VISIBLE_DEVICES": "{slot}"}.'
            )
        if self.max_overrun is not None and not (
            _is_number(self.max_overrun) and 0 < self.max_overrun < math.inf
        ):
            raise InvalidInput(
                f"max_overrun={self.max_overrun!r}: expected a number above 0, or None for none."
            )
        if not (_is_number(self.overhead) and 0 < self.overhead <= 1):
            raise InvalidInput(f"overhead={self.overhead!r}: expected a share such as 0.05.")
        for params in self.start:
            if not isinstance(params, Mapping):
                raise InvalidInput(
                    f"start={params!r}: expected parameters such as {{'width': 16}}."
                )
            self.space.completed(params, np.full(self.space.d, 0.5))
        _check_made(self.policy, "policy", "EI()", "propose")
        if self.stop is not None:
            _check_made(self.stop, "stop", "MaxTrials(50)", "__call__")
        _check_together(self)
        _ = self.learners, self.exchange  # refused now, and not in the middle of a run

    # ── what follows ───────────────────────────────────────────────────────────────────────

    @property
    def sign(self) -> float:
        """+1, or -1 where the user maximises."""
        return 1.0 if self.direction == "minimize" else -1.0

    @property
    def needs(self) -> frozenset[str]:
        """What policy and rule need."""
        return self.policy.needs | (frozenset() if self.stop is None else self.stop.needs)

    @property
    def models(self) -> bool:
        """Whether anything looks at a model of the objective."""
        return self.policy.models or (self.stop is not None and self.stop.models)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The accounts of the ledger, the primary one first."""
        return Ledger.of(self.budget).resources

    @cached_property
    def cost_resources(self) -> tuple[str, ...]:
        """The resources in which a cost may be told, the primary one first."""
        return tuple(name for name in self.resources if name != "trials")

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Those whose cost must be told or known beforehand: what is limited or learnt from."""
        return _limited(self.budget) or (self.cost_resources[:1] if "cost" in self.needs else ())

    @cached_property
    def learners(self) -> Mapping[str, CostLearner]:
        """One for each resource that something depends on."""
        if self.cost is None:
            return {resource: LogGP() for resource in self.needed}
        if not self.needed:
            raise InvalidInput(
                f"cost={self.cost!r} would be read by nothing: there is no budget to keep and "
                f"{type(self.policy).__name__} does not look at cost. Give a budget, or leave it."
            )
        given = dict(self.cost) if isinstance(self.cost, Mapping) else {self.needed[0]: self.cost}
        if unknown := [resource for resource in given if resource not in self.needed]:
            raise InvalidInput(
                f"cost for {unknown[0]!r} would be read by nothing: what counts here is "
                f"{', '.join(self.needed)}."
            )
        return {r: _as_learner(given.get(r, LogGP()), r) for r in self.needed}

    @cached_property
    def clock(self) -> Mapping[str, float]:
        """What passes with the time of a run, by resource: how much a second."""
        rated = {} if self.rate is None or self.measure == "cpu" else rate_of(self.rate)
        return {"s": 1.0} | {r: price for r, price in rated.items() if r in self.resources}

    @cached_property
    def is_each_workers(self) -> frozenset[str]:
        """Of these, what passes once for every worker that is there."""
        return frozenset(self.clock) - {"s"} if is_per_worker(self.rate) else frozenset()

    @cached_property
    def exchange(self) -> float | None:
        """`worth` as objective units per one unit of the primary resource; None: not given."""
        if self.worth is None or self.spends:
            return None
        return worth_of(self.worth, self.cost_resources[0])

    @property
    def spends(self) -> bool:
        """Whether the exchange rate is to be found from the budget."""
        return self.worth == "budget"

    @property
    def unseen(self) -> dict[str, UnimportedCode]:
        """The parts that are there as text only; with any of them nothing can be asked."""
        parts = {"policy": self.policy, "stop": self.stop, "cost": self.cost}
        return {name: part for name, part in parts.items() if isinstance(part, UnimportedCode)}

    def seed_of(self, number: int) -> int:
        """For the randomness of trial `number` itself: a function of the study's seed and it."""
        return int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])


@dataclass(frozen=True)
class UnimportedCode:
    """A part of a study that is somebody's own code: as it is written there, and not imported.

    It stands where a policy, a rule or a cost model does, so that a study can be looked at.
    """

    described: Any
    needs: ClassVar[frozenset[str]] = frozenset({"cost"})
    reads: ClassVar[frozenset[str]] = frozenset({"worth"})
    models: ClassVar[bool] = False

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Nothing can be proposed by a text."""
        raise self._not_imported()

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Nothing can be judged by a text."""
        raise self._not_imported()

    def fit(self, evidence: Evidence) -> None:
        """Of its costs nothing is predicted."""

    def _not_imported(self) -> InvalidInput:
        return InvalidInput(
            f"This needs a part of the study that is somebody's own code, {self.described!r}, "
            "which is not imported to look at it. Give the part again: Study.open(url, name, "
            "policy=..., stop=..., cost=...)."
        )


def takes_settings(choices: type) -> Callable[[Taker], Taker]:
    """Show the settings that a function takes as `**settings` one by one, and refuse others."""
    defaults = {f.name: f.default for f in fields(Settings)} | {"policy": None}

    def shown(taker: Taker) -> Taker:
        signature = inspect.signature(taker)
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name])
            for name in choices.__annotations__
        ]
        signature = signature.replace(parameters=[*named, *more])

        @wraps(taker)
        def checked(*given: Any, **settings: Any) -> Any:
            signature.bind(*given, **settings)
            return taker(*given, **settings)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Taker, checked)

    return shown


def _limited(budget: Budget | None) -> tuple[str, ...]:
    return () if budget is None else tuple(r for r in budget.limits if r != "trials")


def _seconds(time: Any, name: str) -> float:
    """A time in words, or a number of seconds."""
    if isinstance(time, str):
        with suppress(InvalidInput):
            limits = Budget(time).limits
            if tuple(limits) == ("s",):
                return limits["s"]
    elif _is_number(time) and math.isfinite(time) and (time > 0 or name == "grace"):
        return float(time)
    least = "of at least 0" if name == "grace" else "above 0"
    raise InvalidInput(f'{name}={time!r}: expected seconds {least}, or a time such as "10m".')


def _is_number(given: Any) -> bool:
    return isinstance(given, Real) and not isinstance(given, bool)


def _are_texts(given: Any) -> bool:
    """A tuple of texts, of which the first says something."""
    return isinstance(given, tuple) and all(isinstance(t, str) for t in given) and any(given[:1])


def _are_variables(given: Any) -> bool:
    """Names and texts that a process can be given as its environment."""
    return isinstance(given, Mapping) and all(
        isinstance(name, str)
        and isinstance(text, str)
        and name.strip()
        and "=" not in name
        and "\0" not in name + text
        for name, text in given.items()
    )


def _check_made(part: Any, name: str, example: str, does: str) -> None:
    """Whether a policy or a rule is one."""
    if isinstance(part, type):
        raise InvalidInput(f"{name}={part.__name__}: give one that is made, {part.__name__}(...).")
    if any(not hasattr(part, attribute) for attribute in ("needs", "reads", "models", does)):
        raise InvalidInput(f"{name}={part!r}: expected a {name} such as {example}.")


def _check_together(settings: Settings) -> None:
    name, needs, worth = type(settings.policy).__name__, settings.needs, settings.worth
    reads = settings.policy.reads | needs
    reads |= frozenset() if settings.stop is None else settings.stop.reads
    if "budget" in needs and settings.budget is None:
        raise InvalidInput(
            f'{name} needs a budget: it decides by what is left. Give budget="2h", "$40" or a '
            "number, or choose a policy that needs none, such as EIPerCost."
        )
    if "worth" in needs and worth is None:
        raise InvalidInput(
            "The stopping rule needs to know what a unit of cost is worth. "
            'Give worth=..., in objective units per unit of cost, or a sentence: "0.01 = $20"; '
            'or worth="budget", to have it found from what may be spent.'
        )
    if worth is not None and "worth" not in reads:
        raise InvalidInput(
            f"worth={worth!r} would be read by nothing: neither {name} nor the stopping rule "
            "uses it. Add stop=NotWorthIt() or policy=Gittins(), or leave worth out."
        )
    if settings.spends and settings.cost_resources[0] not in _limited(settings.budget):
        raise InvalidInput(
            'worth="budget" needs a budget of something that is paid, such as "2h" or "$40": '
            "the exchange rate is found from it. Or give worth=... as a number or a sentence."
        )
    limits = {} if settings.budget is None else settings.budget.limits
    if settings.rate is not None:
        rated = rate_of(settings.rate)
        if not set(rated) & set(limits):
            raise InvalidInput(
                f"rate={settings.rate!r} would be read by nothing: the budget limits "
                f"{', '.join(limits) or 'nothing'}. Give a budget in {', '.join(rated)}, too."
            )
    elif settings.measure == "cpu" and "worker_s" not in limits:
        raise InvalidInput(
            "CPU seconds would be read by nothing: give a budget in them, such as "
            "'30 worker_m', or a rate."
        )


def _as_learner(cost: Learner, resource: str) -> CostLearner:
    if not isinstance(cost, type) and hasattr(cost, "fit"):
        return cost
    if not isinstance(cost, type) and callable(cost):
        return Known(cost)
    raise InvalidInput(
        f"cost={cost!r} for {resource!r}: expected a function of the parameters or a cost model "
        "from farthing.cost, such as LogGP()."
    )
