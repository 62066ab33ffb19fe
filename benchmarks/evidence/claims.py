"""A claim of a paper, and what the kept numbers say about it: one row of the scoreboard.

`judge` makes the verdict, so that nobody types one:

    agrees     the interval lies where the claim holds
    differs    it lies where the claim does not hold
    too thin   it contains both, or there are fewer seeds than `enough`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from benchmarks.evidence.measures import wilson

AGREES, DIFFERS, THIN = "agrees", "differs", "too thin"
ABOVE_ZERO, BELOW_ZERO, MOST = (0.0, inf), (-inf, 0.0), (0.5, inf)


@dataclass(frozen=True)
class Claim:
    """One row of the scoreboard.

    Attributes:
        claim: what the paper says, in a few words.
        paper: the paper's number, with its unit.
        ours: our number for it, with its 95 % interval.
        seeds: the number of seeds; None if nothing is random.
        verdict: agrees, differs or too thin.
    """

    claim: str
    paper: str
    ours: str
    seeds: int | None
    verdict: str


def judge(
    low: float, high: float, holds: tuple[float, float], seeds: int | None, enough: int
) -> str:
    """The verdict if the claim holds between `holds[0]` and `holds[1]`, these left out."""
    inside = holds[0] < low and high < holds[1]
    outside = high <= holds[0] or low >= holds[1]
    return with_seeds(AGREES if inside else DIFFERS if outside else THIN, seeds, enough)


def with_seeds(side: str, seeds: int | None, enough: int) -> str:
    """`side`, or with too few seeds that this is only what they say so far."""
    if seeds is None or seeds >= enough or side == THIN:
        return side
    return f"{THIN} (so far: {side})"


def in_words(bounds: Sequence[float], unit: str = " %", digits: int = 0) -> str:
    """14 % [-2, 29]."""
    middle, low, high = (f"{bound:.{digits}f}" for bound in bounds)
    return f"{middle}{unit} [{low}, {high}]"


def share(count: float, total: int) -> list[float]:
    """[share, low, high] of a count, with Wilson's interval."""
    return [count / total, *wilson(count / total, total)]


def of_count(count: float, total: int) -> str:
    """14 of 20 [9, 17]: a count with Wilson's interval, as counts."""
    low, high = (total * bound for bound in wilson(count / total, total))
    return f"{count:g} of {total} [{low:.0f}, {high:.0f}]"
