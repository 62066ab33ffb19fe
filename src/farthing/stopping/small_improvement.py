"""The global stopping strategy of Ax (Bakshy et al. 2018): improvement that is lost in the spread.

    stop when  best(n - window + 1) - best(n)  <  share (Q3 - Q1),

best(i) the best of the first i values, Q1 and Q3 the quartiles of all n. Where the middle half of
the values are equal nothing is significant or not, and the rule goes on. Ax asks for a least number
of trials: `after(20, SmallImprovement())`.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.errors import InvalidInput
from farthing.stopping.no_improvement import check_window
from farthing.stopping.regret_gap import left_out

__all__ = ["SmallImprovement"]


@dataclass(frozen=True)
class SmallImprovement:
    """The improvement of the last values is small against the spread of all of them.

    Attributes:
        share: of the interquartile range that an improvement must be to count.
        window: over how many values it is counted.
    """

    share: float = 0.1
    window: int = 5

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_window(self.window, "SmallImprovement", least=2)
        if not (isinstance(self.share, Real) and np.isfinite(self.share) and self.share > 0):
            raise InvalidInput(
                f"Insignificant(share={self.share!r}): give the positive share of the "
                "interquartile range that an improvement must be to count, such as 0.1."
            )

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Improvement over the window < share IQR."""
        y = belief.y
        if len(y) < self.window:
            because = f"{len(y)} of the {self.window} values there must be to judge"
            return Verdict(False, because, np.inf, 0.0)
        improved = float(y[: len(y) - self.window + 1].min() - y.min())
        bar = self.share * float(np.subtract(*np.percentile(y, [75, 25])))
        stop = improved < bar
        relation = "less than" if stop else "at least"
        because = (
            f"the last {self.window} values improved the best by {improved:.3g}{left_out(belief)}, "
            f"{relation} {self.share:g} of the interquartile range, {bar:.3g}"
        )
        return Verdict(stop, because, improved, bar)
