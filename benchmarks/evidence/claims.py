"""A claim of a paper, and what the kept numbers say about it: one row of the scoreboard.

`of_counts` and `of_interval` make the verdict, so that nobody types one:

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
    """The verdict if the claim holds from `holds[0]` to `holds[1]`."""
    inside = holds[0] <= low and high <= holds[1]
    outside = high < holds[0] or low > holds[1]
    side = AGREES if inside else DIFFERS if outside else THIN
    if seeds is None or seeds >= enough or side == THIN:
        return side
    return f"{THIN} (so far: {side})"


def of_interval(
    claim: str,
    paper: str,
    bounds: Sequence[float],
    *,
    unit: str = " %",
    digits: int = 0,
    holds: tuple[float, float] = (0.0, inf),
    seeds: int | None,
    enough: int,
) -> Claim:
    """A claim about a number with [middle, low, high]."""
    middle, low, high = (f"{bound:.{digits}f}" for bound in bounds)
    verdict = judge(bounds[1], bounds[2], holds, seeds, enough)
    return Claim(claim, paper, f"{middle}{unit} [{low}, {high}]", seeds, verdict)


def of_counts(
    claim: str,
    paper: str,
    count: int,
    total: int,
    *,
    holds: tuple[float, float],
    seeds: int | None,
    enough: int,
    what: str = "",
) -> Claim:
    """A claim about `count` of `total`; `holds` are shares, the interval is Wilson's."""
    low, high = wilson(count / total, total)
    verdict = judge(low, high, holds, seeds, enough)
    ours = f"{count} of {total}{what} [{total * low:.1f}, {total * high:.1f}]"
    return Claim(claim, paper, ours, seeds, verdict)
