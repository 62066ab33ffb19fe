"""Several stopping rules as one: `any_of`, `all_of`, `after`, `in_a_row`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, StoppingRule, Verdict, judge
from farthing.errors import InvalidInput

__all__ = ["after", "all_of", "any_of", "in_a_row"]


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
