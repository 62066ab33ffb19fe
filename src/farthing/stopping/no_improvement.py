"""Convergence: the best value has not changed for a while (Xie et al. 2025, section 4).

    stop when the last `window` values did not improve on the best before them

Only values count, because a failed trial does not show how low the objective goes. Use
`after(20, NoImprovement())` to exempt the first trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, Verdict
from farthing.errors import InvalidInput
from farthing.stopping.regret_gap import left_out

__all__ = ["NoImprovement"]


@dataclass(frozen=True)
class NoImprovement:
    """Stop if the last `window` values brought no improvement."""

    window: int = 5

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_window(self.window, "NoImprovement")

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """len(y) - 1 - argmin(y) >= window; an infeasible value is no improvement."""
        if belief.lacks_feasible:
            return NOTHING_FEASIBLE
        y = belief.feasible_y
        since = len(y) - 1 - int(np.argmin(y)) if len(y) else 0
        values = "value" if since == 1 else "values"
        because = (
            f"the last {since} {values} brought no improvement{left_out(belief)}; "
            f"the run stops at {self.window} (window={self.window})"
        )
        return Verdict(since >= self.window, because, since, self.window)


def check_window(window: int, name: str, least: int = 1) -> None:
    """Check that a window is a whole number of at least `least` values."""
    whole = isinstance(window, int | np.integer) and not isinstance(window, bool)
    if not whole or window < least:
        raise InvalidInput(
            f"{name}(window={window!r}): window, the number of latest values to look at, must be a "
            f"whole number of at least {least}. Use for example 5."
        )
