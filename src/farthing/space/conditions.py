"""Conditions: when a parameter is active.

    when={"solver": "sgd"}                 one value
    when={"kernel": ["rbf", "poly"]}       one of several values
    when={"layers": at_least(2)}           a range of an ordered parameter
    when={"solver": "sgd", "layers": 3}    all of them

A condition holds only if the parameters that it names are active themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput
from farthing.space.coordinates import Axis, Line, Span
from farthing.space.parameters import Categorical, Ordinal, Parameter, is_number, plain, to_number

__all__ = ["Condition", "Range", "ancestors", "at_least", "at_most", "between", "conditions_of"]

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Spans: TypeAlias = tuple[Span, ...]  # the coordinates that activate: any of these spans


@dataclass(frozen=True, repr=False)
class Range:
    """The values from `low` to `high`, both included. None is no bound."""

    low: Any = None
    high: Any = None

    def __post_init__(self) -> None:
        low, high = plain(self.low), plain(self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if low is None and high is None:
            raise InvalidInput("A range needs a bound, such as at_least(2).")
        for bound in (low, high):
            if isinstance(bound, bool) or bound != bound:
                raise InvalidInput(f"{self!r}: {bound!r} cannot be a bound. Give a number.")
        if is_number(low) and is_number(high) and low > high:
            raise InvalidInput(f"{self!r} is empty. Swap the bounds.")

    def __repr__(self) -> str:
        if self.high is None:
            return f"at_least({self.low!r})"
        return (
            f"at_most({self.high!r})"
            if self.low is None
            else f"between({self.low!r}, {self.high!r})"
        )

    def __str__(self) -> str:
        if self.high is None:
            return f"at least {self.low}"
        return f"at most {self.high}" if self.low is None else f"from {self.low} to {self.high}"


def at_least(value: Any) -> Range:
    """Return the condition that a parameter is `value` or more: when={"layers": at_least(2)}."""
    return Range(low=value)


def at_most(value: Any) -> Range:
    """Return the condition that a parameter is `value` or less: when={"layers": at_most(4)}."""
    return Range(high=value)


def between(low: Any, high: Any) -> Range:
    """Return the condition that a parameter is in a range, ends included."""
    if low is None or high is None:
        raise InvalidInput("between() needs two bounds. Use at_least() or at_most() for one.")
    return Range(low, high)


@dataclass(frozen=True)
class Condition:
    """A parameter is active if its parents are, and have the given values.

    Attributes:
        when: the condition as the user wrote it.
        parents: for each parent its coordinate, and the spans of it that activate.
    """

    when: Mapping[str, Any]
    parents: tuple[tuple[int, Spans], ...]

    def holds(self, x: Sequence[float], active: Sequence[bool]) -> bool:
        """Whether it holds at a point x (d,) with these active coordinates."""
        return all(
            active[j] and any(low <= x[j] <= high for low, high in spans)
            for j, spans in self.parents
        )

    def holds_at(self, X: Array, active: Mask) -> Mask:
        """(m,) where it holds at points X (m, d) with these active coordinates (m, d)."""
        rows: Mask = np.ones(len(X), dtype=np.bool_)
        for j, spans in self.parents:
            x = X[:, j]
            rows &= active[:, j] & reduce(
                np.logical_or,
                [x == low if low == high else (x >= low) & (x <= high) for low, high in spans],
            )
        return rows


def conditions_of(
    parameters: Mapping[str, Parameter], axes: Sequence[Axis]
) -> dict[int, Condition]:
    """The conditions by coordinate, those of parents before those of their children.

    Raises:
        InvalidInput: a condition names what it cannot name, or can never hold.
    """
    names = list(parameters)
    conditions: dict[int, Condition] = {}
    for j in _parents_first(parameters):
        name, when = names[j], parameters[names[j]].when
        if when is None:
            continue
        parents = []
        for parent, given in when.items():
            at = names.index(parent)
            parents.append((at, _spans(name, parent, parameters[parent], axes[at], given)))
        conditions[j] = Condition(when, tuple(parents))
        for at, spans in ancestors(conditions, j).items():
            if not spans:
                raise InvalidInput(
                    f"Parameter {name!r}: its `when` {when} is never true, because no value of "
                    f"{names[at]!r} agrees both with it and with the conditions of the parameters "
                    "that it names. Change one of them."
                )
    return conditions


def ancestors(conditions: Mapping[int, Condition], j: int) -> dict[int, Spans]:
    """The spans that must hold for coordinate j to be active, by coordinate."""
    found: dict[int, Spans] = {}
    for parent, spans in conditions[j].parents if j in conditions else ():
        for at, need in ((parent, spans), *ancestors(conditions, parent).items()):
            found[at] = _common(found.get(at, ((0.0, 1.0),)), need)
    return found


def _common(one: Spans, other: Spans) -> Spans:
    """The coordinates in both."""
    both = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((low, high) for low, high in both if low <= high)


def _parents_first(parameters: Mapping[str, Parameter]) -> list[int]:
    """The coordinates by the depth of their conditions."""
    names, depths = list(parameters), dict[str, int]()

    def depth(name: str, path: tuple[str, ...]) -> int:
        when = parameters[name].when
        for parent in when or ():
            if parent not in parameters:
                problem = f"names {parent!r}, but the parameters are {names}"
            elif parent == name:
                problem = "names itself; name another parameter"
            elif parent in path:
                cycle = " -> ".join((*path[path.index(parent) :], name, parent))
                problem = f"is part of a cycle of conditions, {cycle}; remove one of them"
            else:
                continue
            raise InvalidInput(f"Parameter {name!r}: its `when` {problem}.")
        if name not in depths:
            below = [depth(parent, (*path, name)) for parent in when or ()]
            depths[name] = 1 + max(below, default=-1)
        return depths[name]

    return sorted(range(len(names)), key=lambda j: depth(names[j], ()))


def _spans(name: str, parent: str, parameter: Parameter, axis: Axis, given: Any) -> Spans:
    if not isinstance(axis, Line):
        try:
            x = axis.encode(given)
            return ((x, x),)
        except InvalidInput as error:
            problem = str(error)
    else:
        problem = (
            f"it names the Float {parent!r}, of which it needs a range. Use at_least(), at_most() "
            "or between()."
        )
    if isinstance(given, Range):
        try:
            return (_span(parameter, axis, given),)
        except InvalidInput as error:
            problem = str(error)
    if isinstance(given, list | tuple | range | AbstractSet) and given:
        return tuple(span for each in given for span in _spans(name, parent, parameter, axis, each))
    raise InvalidInput(f"Parameter {name!r}: its `when` on {parent!r} is never true: {problem}")


def _span(parameter: Parameter, axis: Axis, given: Range) -> Span:
    if isinstance(parameter, Categorical):
        raise InvalidInput(f"{parameter} has no order. List its options instead of {given!r}.")
    if isinstance(parameter, Ordinal) and not parameter.numeric:
        first = 0.0 if given.low is None else axis.encode(given.low)
        last = 1.0 if given.high is None else axis.encode(given.high)
        found = (first, last) if first <= last else None
    else:
        low = -math.inf if given.low is None else to_number(given.low)
        found = axis.span(low, math.inf if given.high is None else to_number(given.high))
    if found is None:
        raise InvalidInput(f"no value of {parameter} is {given}.")
    return found
