"""LogEIPC-median: what may be had is a small share of what could at first.

    stop when  max_x [ln EI - ln c]  <=  ln ratio + median of its first values

The rule of Ishibashi et al. 2023 for the acquisition of Xie et al. 2025: EI per cost where there
are costs, EI where there are none. The maximum is over what is affordable and untried, and a stop
is certified by a second, independent search. The first values are noted with the trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.budget.units import one_more
from farthing.errors import InvalidInput
from farthing.stopping.not_worth_it import averaged, most_per_cost, proposed_per_cost

__all__ = ["EIRatio"]


@dataclass(frozen=True)
class EIRatio:
    """The improvement to be expected has faded to a share of what it was.

    Attributes:
        ratio: the share that is too little.
        first: how many values at the beginning it is compared with.
    """

    ratio: float = 0.01
    first: int = 20

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_faded(self.ratio, self.first, "EIRatio")

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """max ln EI - ln c <= ln ratio + median of the first."""
        seen: list[float] = list(belief.history.last_note("ei_faded") or [])[: self.first]
        ready = len(seen) == self.first
        one = belief.in_one_unit()
        most = max(proposed_per_cost(one, proposal), most_per_cost(one, rng))
        if not ready:
            seen = [*seen, most]
        threshold = float(np.log(self.ratio) + np.median(seen))
        if ready and most <= threshold:
            most = max(most, most_per_cost(one, rng))
        below = most <= threshold
        because = (
            f"{one_more(one.unit)} is expected to improve the objective by {np.exp(most):.3g}"
            f"{averaged(belief)}, "
            f"{'at most' if below else 'more than'} {self.ratio:g} of what it was at first, "
            f"{np.exp(threshold):.3g}{still_first(seen, self.first, ready)}"
        )
        notes = {} if ready else {"ei_faded": seen}
        return Verdict(bool(ready and below), because, most, threshold, notes)


def still_first(seen: Sequence[object], first: int, ready: bool) -> str:
    """That a rule is still gathering what it compares with."""
    return "" if ready else f" ({len(seen)} of the first {first} times)"


def check_faded(ratio: float | None, first: int, name: str) -> None:
    """A share between 0 and 1, of the median of at least one value."""
    if ratio is not None and not (isinstance(ratio, Real) and 0 < ratio < 1):
        raise InvalidInput(
            f"{name}(ratio={ratio!r}): give the share, between 0 and 1, of what it was at first "
            "that is too little to go on for, such as 0.01."
        )
    if isinstance(first, bool) or not isinstance(first, int | np.integer) or first < 1:
        raise InvalidInput(
            f"{name}(first={first!r}): give a whole number of at least 1, how many values at the "
            "beginning to compare with."
        )
