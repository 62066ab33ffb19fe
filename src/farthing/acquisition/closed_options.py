"""Options that hang: killed twice, never finished, while other options are open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farthing.history import History
from farthing.space.space import Space

__all__ = ["ClosedOptions", "closed_options"]

Array = NDArray[np.float64]

KILLS = 2  # of an option that never finished


@dataclass(frozen=True)
class ClosedOptions:
    """Options of a space that are not proposed.

    Attributes:
        options: categorical coordinates, and the numbers of their closed options.
    """

    space: Space
    options: tuple[tuple[int, NDArray[np.int64]], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.options)

    def contain(self, X: Array) -> NDArray[np.bool_]:
        """(m,) whether a point has a closed option in a parameter that is active there."""
        active, found = self.space.active(X), np.zeros(len(X), dtype=np.bool_)
        for j, closed in self.options:
            found |= np.isin(_options_at(self.space, X, j), closed) & active[:, j]
        return found


def closed_options(space: Space, history: History) -> ClosedOptions:
    """The options that were killed twice and never finished, while others are open."""
    hung = [trial.x for trial in history.having("killed") if not trial.is_pruned]
    killed = np.array(hung).reshape(-1, space.d)
    if len(killed) < KILLS:
        return ClosedOptions(space)
    finished = history.points("done", "failed").reshape(-1, space.d)
    found = []
    for j in map(int, np.flatnonzero(space.categorical)):
        kills, ends = _counts(space, killed, j), _counts(space, finished, j)
        closed = np.flatnonzero((kills >= KILLS) & (ends == 0))
        if 0 < len(closed) < len(kills):
            found.append((j, closed))
    return ClosedOptions(space, tuple(found))


def _options_at(space: Space, X: Array, j: int) -> NDArray[np.int64]:
    """(m,) the number of the option at the categorical coordinate j."""
    count = int(space.options[j])
    return np.minimum((X[:, j] * count).astype(np.int64), count - 1)


def _counts(space: Space, X: Array, j: int) -> NDArray[np.int64]:
    """How often each option of the categorical coordinate j occurs in X, where it is active."""
    active = X[space.active(X)[:, j]]
    return np.bincount(_options_at(space, active, j), minlength=int(space.options[j]))
