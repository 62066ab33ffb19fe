"""LogEIPC-median: EI per cost has fallen to a small share of its first values.

    stop when  max_x [ln EI - ln c]  <=  ln ratio + median of its first values

This is the rule of Ishibashi et al. 2023 with the acquisition of Xie et al. 2025: EI per cost, or
EI if no costs are known. The maximum is over affordable, untried points. A second, independent
search must confirm a stop. The first values are stored in the notes of the trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, Verdict
from farthing.budget.units import one_more
from farthing.errors import InvalidInput
from farthing.stopping.not_worth_it import averaged, most_per_cost, proposed_per_cost

__all__ = ["EIRatio"]


@dataclass(frozen=True)
class EIRatio:
    """Stop if the expected improvement per cost has fallen to a share of its first values.

    Attributes:
        ratio: the share of the median of the first values below which the run stops.
        first: the number of first values.
    """

    ratio: float = 0.01
    first: int = 20

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_ratio(self.ratio, self.first, "EIRatio")

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """max ln EI - ln c <= ln ratio + median of the first values."""
        if belief.lacks_feasible:
            return NOTHING_FEASIBLE
        noted: list[float] = list(belief.history.last_note("ei_faded") or [])[: self.first]
        ready = len(noted) == self.first
        one = belief.in_one_unit()
        most = max(proposed_per_cost(one, proposal), most_per_cost(one, rng))
        if not ready:
            noted = [*noted, most]
        threshold = float(np.log(self.ratio) + np.median(noted))
        if ready and most <= threshold:
            most = max(most, most_per_cost(one, rng))
        below = most <= threshold
        because = (
            f"{one_more(one.unit)} is expected to improve the objective by {np.exp(most):.3g}"
            f"{averaged(belief)}, "
            f"{'at most' if below else 'more than'} {self.ratio:g} of what it was at first, "
            f"{np.exp(threshold):.3g}{gathering(noted, self.first, ready)}"
        )
        notes = {} if ready else {"ei_faded": noted}
        return Verdict(bool(ready and below), because, most, threshold, notes)


def gathering(noted: Sequence[object], first: int, ready: bool) -> str:
    """A remark that the rule is still collecting its first values; empty if it has them."""
    return "" if ready else f" (value {len(noted)} of the first {first})"


def check_ratio(ratio: float | None, first: int, name: str) -> None:
    """Check the share, between 0 and 1, and the number of first values, at least 1."""
    if ratio is not None and not (isinstance(ratio, Real) and 0 < ratio < 1):
        raise InvalidInput(
            f"{name}(ratio={ratio!r}): ratio must be between 0 and 1. The rule stops below this "
            "share of the median of the first values. Use for example 0.01."
        )
    if isinstance(first, bool) or not isinstance(first, int | np.integer) or first < 1:
        raise InvalidInput(
            f"{name}(first={first!r}): first, the number of first values to compare with, must be "
            "a whole number of at least 1. Use for example 20."
        )
