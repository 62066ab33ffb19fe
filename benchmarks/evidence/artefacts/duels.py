"""Ranks and duels from final values.

finals     {budget: {problem: {method: {seed: best so far at each share of the budget}}}}
rank       1 + duels lost + half of those tied, among the methods of one problem, seed and budget
mean       over seeds, budgets, problems, then families: every family counts the same
interval   95 %: families are resampled, then problems, then seeds; a share of duels has the wider
           of this and Wilson's interval, which is wide if there are few duels
undecided  the interval contains one half
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks.evidence import measures
from benchmarks.evidence.artefacts.curves import numbers
from benchmarks.problems import recorded

Array = NDArray[np.float64]
Finals = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Sequence[float | None]]]]]
Cells = dict[str, dict[str, dict[str, Array]]]  # family -> problem -> budget -> (seeds, ..., k)

SHARES = np.array([0.25, 0.5, 1.0])
DRAWS = 1_000


def tie_of(problem: str) -> float:
    """Errors of a recording that differ by less than a test row are equal; a table's are exact."""
    return recorded.ONE_ROW if problem.partition("/")[0] in recorded.FAMILIES else 0.0


def ranked(finals: Finals, methods: Sequence[str], budgets: Iterable[str] | None = None) -> Cells:
    """Ranks (seeds, shares, methods) of the seeds that every one of the methods has run."""
    cells: Cells = {}
    for budget in finals if budgets is None else budgets:
        for problem, by in finals.get(budget, {}).items():
            if any(method not in by for method in methods):
                continue
            seeds = sorted(set.intersection(*(set(by[m]) for m in methods)), key=int)
            if seeds:
                values = np.array([[numbers(by[m][s]) for m in methods] for s in seeds])
                ranks = measures.ranks(values.transpose(0, 2, 1), tie=tie_of(problem))
                family = problem.partition("/")[0]
                cells.setdefault(family, {}).setdefault(problem, {})[budget] = ranks
    return cells


def count(cells: Cells) -> int:
    """Groups of problem, seed and budget that were ranked."""
    return sum(len(a) for part in cells.values() for by in part.values() for a in by.values())


def count_problems(cells: Cells) -> int:
    """Problems that were ranked."""
    return sum(map(len, cells.values()))


def mean(cells: Cells) -> Array:
    """(shares, methods)."""
    return np.asarray(
        np.mean(
            [
                np.mean(
                    [
                        np.mean([array.mean(axis=0) for array in by.values()], axis=0)
                        for by in part.values()
                    ],
                    axis=0,
                )
                for part in cells.values()
            ],
            axis=0,
        )
    )


def interval(cells: Cells, *, draws: int = DRAWS) -> tuple[Array, Array]:
    """Bounds (shares, methods) of the mean, from resampling families, problems, then seeds."""
    rng = np.random.default_rng(0)
    parts = [[list(by.values()) for by in part.values()] for part in cells.values()]
    drawn = []
    for _ in range(draws):
        some = []
        for f in rng.integers(len(parts), size=len(parts)):
            part = parts[f]
            picked = [part[p] for p in rng.integers(len(part), size=len(part))]
            some.append(
                np.mean(
                    [
                        np.mean(
                            [a[rng.integers(len(a), size=len(a))].mean(axis=0) for a in arrays],
                            axis=0,
                        )
                        for arrays in picked
                    ],
                    axis=0,
                )
            )
        drawn.append(np.mean(some, axis=0))
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return low, high


def over_shares(cells: Cells) -> Cells:
    """The same with the mean over the shares of the budget: (seeds, 1, methods)."""
    return {
        family: {
            problem: {budget: a.mean(axis=1, keepdims=True) for budget, a in by.items()}
            for problem, by in part.items()
        }
        for family, part in cells.items()
    }


class Duel(NamedTuple):
    """The share of duels that one method won against another, at each share of the budget."""

    won: list[float]
    low: list[float]
    high: list[float]
    duels: int
    problems: int

    def verdict(self, at: int = -1) -> str:
        """ahead, behind, or undecided."""
        if self.low[at] > 0.5:
            return "ahead"
        return "behind" if self.high[at] < 0.5 else "undecided"

    def p_value(self, at: int = -1) -> float:
        """Two-sided, against one half: the normal law whose 95 % interval has the nearer bound."""
        gap = self.won[at] - 0.5
        width = self.won[at] - self.low[at] if gap > 0 else self.high[at] - self.won[at]
        if not width:
            return float(gap == 0.0)
        return float(2.0 * ndtr(-1.959963984540054 * abs(gap) / width))

    def text(self, at: int = -1) -> str:
        """62 % [50, 73]."""
        won, low, high = (100 * part[at] for part in (self.won, self.low, self.high))
        return f"{won:.0f} % [{low:.0f}, {high:.0f}]"


def duel(
    finals: Finals, ours: str, rival: str, budgets: Iterable[str] | None = None
) -> Duel | None:
    """`ours` against `rival` where both have run; None if there is no duel."""
    cells = ranked(finals, [ours, rival], budgets)
    if not cells:
        return None
    won, (low, high) = 2.0 - mean(cells)[:, 0], interval(cells)
    wide = [measures.wilson(float(share), count(cells)) for share in won]
    return Duel(
        [round(float(share), 4) for share in won],
        [round(min(float(2.0 - h), w[0]), 4) for h, w in zip(high[:, 0], wide, strict=True)],
        [round(max(float(2.0 - x), w[1]), 4) for x, w in zip(low[:, 0], wide, strict=True)],
        count(cells),
        count_problems(cells),
    )


def leave_one_out(cells: Cells, methods: Sequence[str]) -> list[dict[str, Any]]:
    """For each family: the best method on the other families, its rank here, and the best rank."""
    found = []
    for family in cells:
        others = {f: part for f, part in cells.items() if f != family}
        if others:
            chosen = int(np.argmin(mean(others).mean(axis=0)))
            here = mean({family: cells[family]}).mean(axis=0)
            best = int(np.argmin(here))
            found.append(
                {
                    "family": family,
                    "chosen": methods[chosen],
                    "rank": round(float(here[chosen]), 3),
                    "best": methods[best],
                    "best_rank": round(float(here[best]), 3),
                }
            )
    return found
