"""What earlier studies know: their trials as points of the present space.

Parameters are matched by name, and their values by what they are, not by where they are in a range:

    a number      its place on the present scale, also between two values of a grid
    an option     the option with the same label
    inactive      1/2, as the space encodes it
    new here      nan in all rows: the earlier study does not know it

A trial with a number outside the present range, with an option that is missing here, or without a
parameter that is active here is left out. Its value says nothing certain about this space.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput
from farthing.space.coordinates import Axis, axis_of
from farthing.space.parameters import INACTIVE, is_number, plain
from farthing.space.space import Space

__all__ = ["Evaluation", "Source", "matched", "moved"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
LEAST = 3  # trials with a value that a source must have in the present space
MOST = 1500  # trials of one source that are copied


@dataclass(frozen=True, eq=False)
class Source:
    """The trials of one earlier study, as points of the present space.

    Attributes:
        name: how messages call it.
        x: (n, d) points of the unit cube; nan in the column of a parameter that the study lacked.
        y: (n,) values to minimise, in the study's own unit; nan if a trial returned none.
        cost: (n,) by resource, in the study's own unit; nan if unknown.
        censored: (n,) whether the cost is only a lower bound, because the trial was killed.
        fingerprint: a hash of the rows, which pins the source.
        about: which trials and parameters were used, and which were not.
    """

    name: str
    x: Array
    y: Array
    cost: Mapping[str, Array] = field(default_factory=dict)
    censored: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    fingerprint: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        if not len(self.censored):
            object.__setattr__(self, "censored", np.zeros(len(self.y), dtype=np.bool_))
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", self.hash_of_rows())

    def hash_of_rows(self) -> str:
        """The fingerprint that these rows have."""
        named = [(resource, self.cost[resource]) for resource in sorted(self.cost)]
        found = hashlib.sha256(f"{self.x.shape}{[name for name, _ in named]}".encode())
        for each in (self.x, self.y, *(amounts for _, amounts in named), self.censored):
            numbers = np.asarray(each, dtype="<f8") + 0.0  # -0.0 equals 0.0
            found.update(np.where(np.isnan(numbers), np.nan, numbers).tobytes())
        return found.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and (self.name, self.fingerprint) == (
            other.name,
            other.fingerprint,
        )

    def __hash__(self) -> int:
        return hash((self.name, self.fingerprint))

    def __str__(self) -> str:
        about = self.about if self.about.isprintable() else ascii(self.about)
        return f"{self.name!r} ({about or f'{len(self.y)} trials'})"


class Evaluation(NamedTuple):
    """A trial of an earlier study.

    Attributes:
        params: its parameters, by the names of the earlier study.
        value: to minimise; nan if it returned none.
        cost: by resource.
        censored: whether the cost is only a lower bound.
    """

    params: Mapping[str, Any]
    value: float
    cost: Mapping[str, float]
    censored: bool = False


# ── matching ───────────────────────────────────────────────────────────────────────────────────


def matched(
    name: str,
    rows: Sequence[Evaluation | str],
    space: Space,
    resources: Sequence[str],
    theirs: Sequence[str] = (),
) -> Source:
    """The source of some evaluations.

    Args:
        rows: the trials; a text instead of a trial says why it is left out: "that are running".
        resources: the costs that the present study needs. If no trial has one of them, but all
            costs are in one other resource, these stand for the first.
        theirs: the parameters of the earlier study, or the columns of a table.

    Raises:
        InvalidInput: no parameter is common, or too few trials have a value in this space.
    """
    given = dict.fromkeys(key for row in rows if not isinstance(row, str) for key in row.params)
    known = np.array([key in given for key in space.names])
    theirs = list(dict.fromkeys([*given, *theirs]))
    ignored = [key for key in theirs if key not in space.names]
    if len(ignored) == len(theirs):
        raise InvalidInput(
            f"{name!r} has no parameter of this space. It has {', '.join(ignored)[:500] or 'none'};"
            f" this space has {', '.join(space.names)}. Rename its columns, or leave it out."
        )
    points, left = _points(rows, space, known)
    kept = [row for i, row in enumerate(rows) if i in points and not isinstance(row, str)]
    valued = sum(not np.isnan(row.value) for row in kept)
    if valued < LEAST:
        raise InvalidInput(
            f"{name!r} has {_trials(valued)} with a value in this space, but {LEAST} are needed: "
            f"{_counts(len(kept), len(rows), left)}. Check its rows and the ranges here, or leave "
            "it out."
        )
    x, y = np.array(list(points.values())), np.array([row.value for row in kept])
    cost, unit = _costs(kept, resources)
    censored = np.array([row.censored for row in kept], dtype=np.bool_)
    says = np.flatnonzero(~np.isnan([y, *cost.values()]).all(axis=0))
    by_rank = says[np.argsort(y[says], kind="stable")]
    some = np.sort(by_rank[_thinned(len(says))])
    left["without a value or a cost"] += len(y) - len(says)
    left["left out to save space"] += len(says) - len(some)
    new = [key for key, there in zip(space.names, known, strict=True) if not there]
    facts = [
        _counts(len(some), len(rows), left),
        f"{_listed(new)} {'is' if len(new) == 1 else 'are'} new here" if new else "",
        f"{_listed(ignored)} ignored" if ignored else "",
        unit,
    ]
    return Source(
        name,
        x[some],
        y[some],
        {resource: amounts[some] for resource, amounts in cost.items()},
        censored[some],
        about="; ".join(fact for fact in facts if fact),
    )


def _points(
    rows: Sequence[Evaluation | str], space: Space, known: Mask
) -> tuple[dict[int, Array], Counter[str]]:
    """The points by the number of the row, and how many rows are left out for what reason."""
    axes = [axis_of(parameter) for parameter in space.parameters.values()]
    found, left = dict[int, Array](), Counter[str]()
    for i, row in enumerate(rows):
        x = row if isinstance(row, str) else _encoded(row.params, space.names, axes)
        if isinstance(x, str):
            left[x] += 1
        else:
            found[i] = x
    inactive = _inactive(np.array(list(found.values())).reshape(-1, space.d), space, known)
    for (i, x), absent in zip(list(found.items()), inactive, strict=True):
        x[absent & known] = INACTIVE
        missing = np.flatnonzero(np.isnan(x) & known)
        x[missing] = INACTIVE
        if needed := [space.names[j] for j in map(int, missing) if _is_needed(space, j, known)]:
            left[f"without {needed[0]}"] += 1
            del found[i]
    return found, left


def _inactive(X: Array, space: Space, known: Mask) -> Mask:
    """(n, d) which coordinates are known to be inactive; X (n, d) may have nan."""
    if not len(X):
        return np.zeros(X.shape, dtype=np.bool_)
    active = space.active(space.snap(np.where(np.isnan(X), INACTIVE, X)))
    return ~active & [_is_decided(space, j, known) for j in range(space.d)]


def _is_needed(space: Space, j: int, known: Mask) -> bool:
    """Whether a row must have parameter j unless it is inactive."""
    return _is_decided(space, j, known) and not space.combined[j]


def _is_decided(space: Space, j: int, known: Mask) -> bool:
    """Whether the source has all parameters that decide whether parameter j is active."""
    parents = [space.names.index(name) for name in space.parameters[space.names[j]].when or ()]
    return all(bool(known[at]) and _is_decided(space, at, known) for at in parents)


def _encoded(params: Mapping[str, Any], names: Sequence[str], axes: Sequence[Axis]) -> Array | str:
    """The coordinates (d,) of the parameters, nan for missing ones; or why there are none."""
    x = np.full(len(names), np.nan)
    for j, (name, axis) in enumerate(zip(names, axes, strict=True)):
        if name in params:
            place = _place(axis, params[name])
            if place is None:
                outside = axis.scale is not None and is_number(plain(params[name]))
                return f"with {name} outside its range" if outside else f"with another {name}"
            x[j] = place
    return x


def _place(axis: Axis, value: Any) -> float | None:
    """The coordinate of a value, also of a number between two values; None if there is none."""
    value = plain(value)
    try:
        return axis.encode(value)
    except InvalidInput:
        scale = axis.scale
        if scale is None or not is_number(value) or not scale.low <= value <= scale.high:
            return None
        return float(scale.place(float(value)))


def _thinned(count: int) -> NDArray[np.intp]:
    """At most `MOST` of the numbers 0 ... count - 1, evenly spaced, the first and last included."""
    return np.linspace(0, count - 1, min(count, MOST)).astype(np.intp)


def _costs(rows: Sequence[Evaluation], resources: Sequence[str]) -> tuple[dict[str, Array], str]:
    """The costs (n,) in the resources of this study, and a remark if they are in another unit."""
    there = dict.fromkeys(resource for row in rows for resource in row.cost)

    def amounts(resource: str) -> Array:
        return np.array([row.cost.get(resource, np.nan) for row in rows])

    common = {resource: amounts(resource) for resource in resources if resource in there}
    if common or not resources:
        return common, ""
    if len(there) != 1:
        return {}, "without costs" if not there else f"costs in {_listed([*there])} ignored"
    other = next(iter(there))
    return {resources[0]: amounts(other)}, f"costs in {other} stand for {resources[0]}"


def _counts(used: int, total: int, left: Mapping[str, int]) -> str:
    """How many trials are used, and how many are not for what reason."""
    reasons = [f"{count} {why}" for why, count in left.items() if count]
    return ", ".join([_trials(total) if used == total else f"{used} of {_trials(total)}", *reasons])


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


# ── a space that has grown ─────────────────────────────────────────────────────────────────────


def moved(source: Source, before: Space, after: Space) -> Source:
    """The source with the points of the same values in a space that has grown."""
    there = source.x
    known = np.asarray(~np.isnan(there).all(axis=0))
    fixed = np.isnan(there) | _inactive(there, before, known)
    levels = before.snap(np.where(np.isnan(there), INACTIVE, there))
    x = np.full((len(there), after.d), np.nan)
    for j, (name, parameter) in enumerate(before.parameters.items()):
        old, new = axis_of(parameter), axis_of(after.parameters[name])
        x[:, after.names.index(name)] = [
            at if stays else _moved(at, at == level, old, new)
            for at, level, stays in zip(there[:, j], levels[:, j], fixed[:, j], strict=True)
        ]
    return replace(source, x=x, fingerprint="")


def _moved(at: float, is_value: bool, old: Axis, new: Axis) -> float:
    """The new coordinate of a value, or of a number between two values."""
    if is_value:
        place = _place(new, old.decode(at))
    else:
        place = None if old.scale is None else _place(new, float(old.scale.value(at)))
    return at if place is None else place
