"""The two seams: a Policy makes a Proposal of a belief, a StoppingRule makes a Verdict of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farthing.belief import Belief
from farthing.errors import InvalidInput
from farthing.gp import Normal
from farthing.history import StopKind, StopReason

__all__ = [
    "Policy",
    "Proposal",
    "StoppingRule",
    "Verdict",
    "after",
    "all_of",
    "any_of",
    "in_a_row",
    "judge",
    "one_more",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Proposal:
    """What to evaluate next, and why.

    Attributes:
        x: a snapped point of the cube; None when nothing affordable and untried is left.
        score: what the policy maximised, or NaN where it maximised nothing.
        because: one sentence.
        notes: what the policy needs to remember; plain JSON values.
        predicted: ln c at x by resource, mean and std of shape (1,); a policy leaves it empty.
        rates: the least and the greatest exchange rate at which such a choice is worth its cost
            whenever any is, by which the cost of going on is bounded (Xie et al. 2025, theorem 1);
            None: at no rate.
    """

    x: Array | None
    because: str
    score: float = np.nan
    notes: Mapping[str, Any] = field(default_factory=dict)
    predicted: Mapping[str, Normal] = field(default_factory=dict)
    rates: tuple[float, float] | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether to stop, and the number that decided against its threshold.

    Attributes:
        kind: what stops it, if it stops; a rule of your own leaves it as it is.
    """

    stop: bool
    because: str
    number: float = np.nan
    threshold: float = np.nan
    notes: Mapping[str, Any] = field(default_factory=dict)
    kind: StopKind = "rule"

    @property
    def reason(self) -> StopReason:
        """Why to stop."""
        return StopReason(self.kind, self.because)


class Policy(Protocol):
    """A method of choosing, one file each in `policies/`."""

    @property
    def needs(self) -> frozenset[str]:
        """What must be there besides a space: "budget", "cost" (told with each value), "worth",
        "model" (of the objective: until there is one, the start is made for it, see `start.py`).
        """

    @property
    def reads(self) -> frozenset[str]:
        """Settings of the Optimizer it makes use of where they are given: "worth"."""

    @property
    def models(self) -> bool:
        """Whether it looks at a model of the objective."""

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The next evaluation."""


class StoppingRule(Protocol):
    """A reason to stop, one file each in `stopping/`; `needs`, `reads`, `models` as a Policy."""

    @property
    def needs(self) -> frozenset[str]:
        """What must be there besides a space; without a "model" that it needs it says go on."""

    @property
    def reads(self) -> frozenset[str]:
        """Settings of the Optimizer it makes use of where they are given."""

    @property
    def models(self) -> bool:
        """Whether it looks at a model of the objective."""

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Whether to stop before this proposal is evaluated."""


def judge(
    rule: StoppingRule, belief: Belief, proposal: Proposal, rng: np.random.Generator
) -> Verdict:
    """The rule's verdict; to go on, while there is no model of the objective that it needs."""
    if "model" in rule.needs and belief.objective is None:
        return Verdict(False, "too few values to judge yet")
    return rule(belief, proposal, rng)


@dataclass(frozen=True)
class _Several:
    """Several rules as one."""

    rules: tuple[StoppingRule, ...]
    everyone: bool  # whether all must agree

    def __repr__(self) -> str:
        return f"{'all_of' if self.everyone else 'any_of'}({', '.join(map(repr, self.rules))})"

    @property
    def needs(self) -> frozenset[str]:
        # Each part is judged by itself: one that needs no model does not wait for the others.
        return frozenset().union(*(rule.needs for rule in self.rules)) - {"model"}

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(rule.reads for rule in self.rules))

    @property
    def models(self) -> bool:
        return any(rule.models for rule in self.rules)

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        verdicts = [judge(rule, belief, proposal, rng) for rule in self.rules]
        stop = (all if self.everyone else any)(verdict.stop for verdict in verdicts)
        # The reasons that decided: those who said what was then done.
        deciding = [verdict for verdict in verdicts if verdict.stop == stop]
        notes = {key: note for verdict in verdicts for key, note in verdict.notes.items()}
        return Verdict(
            stop,
            "; ".join(verdict.because for verdict in deciding),
            deciding[0].number,
            deciding[0].threshold,
            notes,
            deciding[0].kind,
        )


@dataclass(frozen=True)
class _Held:
    """A rule that is not believed at once."""

    rule: StoppingRule
    trials: int = 0  # made before it may stop
    times: int = 1  # in a row that it must have said so

    def __repr__(self) -> str:
        word, count = ("after", self.trials) if self.trials else ("in_a_row", self.times)
        return f"{word}({count}, {self.rule!r})"

    @property
    def needs(self) -> frozenset[str]:
        return self.rule.needs

    @property
    def reads(self) -> frozenset[str]:
        return self.rule.reads

    @property
    def models(self) -> bool:
        return self.rule.models

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        verdict = self.rule(belief, proposal, rng)  # asked from the first: it may have to remember
        key = f"in a row: {self.rule!r}"
        streak = (belief.history.last_note(key) or 0) + 1 if verdict.stop else 0
        notes = {**verdict.notes, key: streak} if self.times > 1 else verdict.notes
        why = verdict.because
        if verdict.stop and streak < self.times:
            why += f" ({streak} of {self.times} times in a row)"
        if belief.number < self.trials:
            why += f" ({belief.number} of at least {self.trials} trials made)"
        stop = verdict.stop and streak >= self.times and belief.number >= self.trials
        return replace(verdict, stop=stop, because=why, notes=notes)


def one_more(resource: str | None) -> str:
    """A unit of a resource in a sentence: `one more second`; None: an evaluation."""
    if resource is None:
        return "one more evaluation"
    names = {"s": "second", "worker_s": "second of worker time", "cost": "unit of cost"}
    names |= {"usd": "dollar", "eur": "euro", "gbp": "pound"}
    return f"one more {names.get(resource, resource)}"


def any_of(*rules: StoppingRule) -> StoppingRule:
    """Stop as soon as one of the rules says so."""
    return _Several(_made("any_of", *rules), everyone=False)


def all_of(*rules: StoppingRule) -> StoppingRule:
    """Stop only when all the rules say so."""
    return _Several(_made("all_of", *rules), everyone=True)


def after(trials: int, rule: StoppingRule) -> StoppingRule:
    """Stop when the rule says so, but not before so many trials were made."""
    return _Held(_made("after", rule)[0], trials=_whole(trials, "after", "20"))


def in_a_row(times: int, rule: StoppingRule) -> StoppingRule:
    """Stop when the rule has said so so many times in a row: one unlucky moment is not enough."""
    return _Held(_made("in_a_row", rule)[0], times=_whole(times, "in_a_row", "3"))


def _made(name: str, *rules: StoppingRule) -> tuple[StoppingRule, ...]:
    """The rules, if they are some."""
    if not rules:
        raise InvalidInput(f"{name}() joins stopping rules: give at least one.")
    if strange := [r for r in rules if isinstance(r, type) or not hasattr(r, "needs")]:
        raise InvalidInput(
            f"{name}() takes stopping rules such as MaxTrials(50); got {strange[0]!r}."
        )
    return rules


def _whole(count: int, name: str, example: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InvalidInput(
            f"{name}({count!r}, ...): give a whole number of at least 1, such as {example}, and "
            "then the rule."
        )
    return int(count)
