"""The conditions of an Optuna study, read from which trials suggested which parameters.

Optuna's objectives say in code when a parameter exists. If it is in some trials only, a rule on
other parameters is sought that holds in the trials with it and in none without it:

    categorical q     q is one of the values seen with the parameter
    ordered q         q >= low, q <= high, low <= q <= high, or, of an int, one of the values

The rules on as few parameters as possible are chosen, and of these the shortest: a rule on k seen
values has k bits if it lists them, and log2 2k bits if it is a bound. A wrong rule is contradicted
by the next trials, because the sampler then proposes what the objective does not suggest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from farthing.space.conditions import Range

__all__ = ["When", "conditions_of", "seen"]

When = Mapping[str, Any]  # a Range, or a list of values, by parent; in values of Optuna

MOST_PARENTS = 3  # of one parameter
RARELY = 4.0  # bits: an objective seldom branches on a float
LATER = 8.0  # bits: what is suggested later can hardly be the condition


class Rule(NamedTuple):
    """A condition on one parent, the rows without the parameter that it explains, its length."""

    parent: str
    given: Any
    explains: frozenset[int]
    bits: float


def seen(trials: Iterable[FrozenTrial]) -> dict[str, BaseDistribution]:
    """The parameters that always had the same distribution, by name."""
    found: dict[str, BaseDistribution] = {}
    changed = set[str]()
    for trial in trials:
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            for name, distribution in trial.distributions.items():
                if found.setdefault(name, distribution) != distribution:
                    changed.add(name)
    return {name: found[name] for name in sorted(found) if name not in changed}


def conditions_of(
    trials: Iterable[FrozenTrial], distributions: Mapping[str, BaseDistribution]
) -> dict[str, When | None]:
    """The condition of each parameter: {} if it has none, None if no rule explains its absence.

    Only a complete trial shows that a parameter was absent. Others may have ended before it.
    """
    ended = [
        trial
        for trial in trials
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and _fits(trial, distributions)
    ]
    having = {
        name: frozenset(i for i, trial in enumerate(ended) if name in trial.params)
        for name in distributions
    }
    complete = frozenset(i for i, t in enumerate(ended) if t.state == TrialState.COMPLETE)
    found: dict[str, When | None] = {}
    for name in distributions:
        missing = complete - having[name]
        if not missing:
            found[name] = {}
        elif not having[name]:
            found[name] = None
        else:
            found[name] = _explained(name, ended, missing, having, distributions)
    unexplained = {name for name, when in found.items() if when is None}
    while unexplained:  # and what depends on it
        more = {n for n, when in found.items() if when and unexplained & when.keys()}
        found |= dict.fromkeys(more)
        unexplained = more
    return found


def _fits(trial: FrozenTrial, distributions: Mapping[str, BaseDistribution]) -> bool:
    """Whether the values of a trial are possible. Others are of another space, or were enqueued."""
    try:
        return all(
            distribution._contains(distribution.to_internal_repr(trial.params[name]))
            for name, distribution in distributions.items()
            if name in trial.params
        )
    except (ValueError, TypeError, OverflowError):
        return False


def _explained(
    name: str,
    rows: Sequence[FrozenTrial],
    missing: frozenset[int],
    having: Mapping[str, frozenset[int]],
    distributions: Mapping[str, BaseDistribution],
) -> When | None:
    """The rules that exclude all of the rows in which the parameter is missing."""
    parents = [  # a parent is in more trials than its child, so that no cycle is possible
        parent
        for parent in distributions
        if having[parent] > having[name] and not distributions[parent].single()
    ]
    when: dict[str, Any] = {}
    while missing:
        rules = [
            rule
            for parent in parents
            if parent not in when
            and (rule := _rule(name, parent, rows, missing, having, distributions[parent]))
        ]
        if not rules or len(when) == MOST_PARENTS:
            return None
        best = min(rules, key=lambda rule: (-len(rule.explains), rule.bits))
        when[best.parent] = best.given
        missing -= best.explains
    return when


def _rule(
    name: str,
    parent: str,
    rows: Sequence[FrozenTrial],
    missing: frozenset[int],
    having: Mapping[str, frozenset[int]],
    distribution: BaseDistribution,
) -> Rule | None:
    """The rule on one parent; None if it explains nothing by its value."""

    def value(i: int) -> float:
        return float(distribution.to_internal_repr(rows[i].params[parent]))

    within = {value(i): rows[i].params[parent] for i in having[name]}
    without = {i: value(i) for i in missing & having[parent]}
    if not without:
        return None
    low, high = min(within), max(within)
    count = len({*within, *without.values()})
    listed = Rule(
        parent,
        list(within.values()),
        _absent_or(missing, without, lambda v: v not in within),
        float(count),
    )
    if isinstance(distribution, CategoricalDistribution):
        rule = listed
    else:
        above, below = low > max(without.values()), high < min(without.values())
        bounds = (None if below else within[low], None if above else within[high])
        rule = Rule(
            parent,
            Range(*bounds),
            _absent_or(missing, without, lambda v: not low <= v <= high),
            math.log2(2 * count),
        )
        if not isinstance(distribution, IntDistribution):
            rule = rule._replace(bits=rule.bits + RARELY)
        elif len(listed.explains) > len(rule.explains):
            rule = listed
    if not any(i in rule.explains for i in without):
        return None
    first = list(rows[min(having[name])].params)
    return (
        rule._replace(bits=rule.bits + LATER) if first.index(parent) > first.index(name) else rule
    )


def _absent_or(
    missing: frozenset[int], without: Mapping[int, float], excluded: Any
) -> frozenset[int]:
    """The rows in which the parent is absent, or has an excluded value."""
    return frozenset(i for i in missing if i not in without or excluded(without[i]))
