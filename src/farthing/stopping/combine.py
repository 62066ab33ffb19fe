"""Combine or delay stopping rules: `any_of`, `all_of`, `after`, `in_a_row`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, StoppingRule, Verdict, checked_verdict, judge
from farthing.errors import InvalidInput

__all__ = ["after", "all_of", "any_of", "in_a_row"]


@dataclass(frozen=True)
class _Combined:
    """`any_of` or `all_of` several rules."""

    rules: tuple[StoppingRule, ...]
    everyone: bool  # whether all rules must agree; stored under this name

    def __repr__(self) -> str:
        return f"{'all_of' if self.everyone else 'any_of'}({', '.join(map(repr, self.rules))})"

    @property
    def needs(self) -> frozenset[str]:
        # `judge` treats each rule on its own, so a rule that needs no model does not wait for one.
        return frozenset().union(*(rule.needs for rule in self.rules)) - {"model"}

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(rule.reads | (rule.needs & {"model"}) for rule in self.rules))

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        verdicts = [judge(rule, belief, proposal, rng) for rule in self.rules]
        stop = (all if self.everyone else any)(verdict.stop for verdict in verdicts)
        # Give the reasons of the rules whose verdict is the combined one.
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
class _Delayed:
    """A rule that may stop only `after` some trials, or `in_a_row`."""

    rule: StoppingRule
    trials: int = 0  # that must have been made before it may stop
    times: int = 1  # in a row that its verdict must be to stop

    def __repr__(self) -> str:
        word, count = ("after", self.trials) if self.trials else ("in_a_row", self.times)
        return f"{word}({count}, {self.rule!r})"

    @property
    def needs(self) -> frozenset[str]:
        return self.rule.needs

    @property
    def reads(self) -> frozenset[str]:
        return self.rule.reads

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        # Always called, because it may take notes.
        verdict = checked_verdict(self.rule, self.rule(belief, proposal, rng))
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


def any_of(*rules: StoppingRule) -> StoppingRule:
    """Stop as soon as one of the rules says so."""
    return _Combined(_checked("any_of", *rules), everyone=False)


def all_of(*rules: StoppingRule) -> StoppingRule:
    """Stop only if all the rules say so at the same time."""
    return _Combined(_checked("all_of", *rules), everyone=True)


def after(trials: int, rule: StoppingRule) -> StoppingRule:
    """Stop if the rule says so, but not before `trials` trials were made."""
    return _Delayed(_checked("after", rule)[0], trials=_positive_int(trials, "after", "20"))


def in_a_row(times: int, rule: StoppingRule) -> StoppingRule:
    """Stop if the rule says so `times` times in a row, so that one unlucky moment does not."""
    return _Delayed(_checked("in_a_row", rule)[0], times=_positive_int(times, "in_a_row", "3"))


def _checked(name: str, *rules: StoppingRule) -> tuple[StoppingRule, ...]:
    if not rules:
        raise InvalidInput(f"{name}(): give at least one stopping rule, such as MaxTrials(50).")
    if wrong := [r for r in rules if isinstance(r, type) or not hasattr(r, "needs")]:
        raise InvalidInput(
            f"{name}(): expected stopping rules such as MaxTrials(50), got {wrong[0]!r}."
        )
    return rules


def _positive_int(count: int, name: str, example: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InvalidInput(
            f"{name}({count!r}, ...): the first argument must be a whole number of at least 1, "
            f"such as {example}. The second is the rule."
        )
    return int(count)
