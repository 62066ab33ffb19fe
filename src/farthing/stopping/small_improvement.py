"""The global stopping strategy of Ax (Bakshy et al. 2018).

    stop when  best(n - window + 1) - best(n)  <  share (Q3 - Q1)

best(i) is the best feasible one of the first i values. Q1 and Q3 are the quartiles of all n values.
If Q1 = Q3, the rule continues. Ax requires a minimum number of trials: use
`after(20, SmallImprovement())`.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, Verdict
from farthing.errors import InvalidInput
from farthing.stopping.no_improvement import check_window
from farthing.stopping.regret_gap import left_out

__all__ = ["SmallImprovement"]


@dataclass(frozen=True)
class SmallImprovement:
    """Stop if the last values improved the best by little, compared with the spread of all values.

    Attributes:
        share: the run stops if the improvement is below this share of the interquartile range.
        window: the number of last values.
    """

    share: float = 0.1
    window: int = 5

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_window(self.window, "SmallImprovement", least=2)
        if not (isinstance(self.share, Real) and np.isfinite(self.share) and self.share > 0):
            raise InvalidInput(
                f"SmallImprovement(share={self.share!r}): share, the share of the interquartile "
                "range below which an improvement is small, must be positive. Use for example 0.1."
            )

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Improvement over the window < share IQR."""
        if belief.lacks_feasible:
            return NOTHING_FEASIBLE
        y = belief.y
        if len(y) < self.window:
            because = f"{len(y)} of the {self.window} values that the rule needs"
            return Verdict(False, because, np.inf, 0.0)
        feasible = belief.feasible_y
        improved = float(feasible[: len(y) - self.window + 1].min() - feasible.min())
        threshold = self.share * float(np.subtract(*np.percentile(y, [75, 25])))
        stop = improved < threshold
        relation = "less than" if stop else "at least"
        because = (
            f"the last {self.window} values improved the best by {improved:.3g}{left_out(belief)}, "
            f"{relation} {self.share:g} of the interquartile range, {threshold:.3g}"
        )
        return Verdict(stop, because, improved, threshold)
