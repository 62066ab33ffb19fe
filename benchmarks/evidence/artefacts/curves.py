"""Curves over the budget and final values of kept runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence import measures
from benchmarks.evidence.replay import Job, Run
from benchmarks.problems import recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

SHARES = np.linspace(0.0, 1.0, 101)  # of the budget


def by_method(runs: Mapping[Job, Run], problem: str) -> dict[str, list[Run]]:
    """The runs of one problem by method, each in the order of the seeds."""
    found: dict[str, list[Run]] = {}
    for job in sorted(runs, key=lambda job: job.seed):
        if job.problem == problem:
            found.setdefault(job.method, []).append(runs[job])
    return found


def clock_and_values(run: Run, *, overhead: bool = False) -> tuple[Array, Array]:
    """Costs and values as arrays, NaN for no value; with `overhead`, its seconds in the costs.

    In batches, the first evaluation has the time of the whole batch and the others have 0.
    """
    costs = np.array(run.costs, dtype=np.float64)
    values = np.array([np.nan if v is None else v for v in run.values], dtype=np.float64)
    if run.job.batch > 1:
        costs = wall(costs, run.job.batch)
    return (costs + np.array(run.overhead) if overhead else costs), values


def wall(costs: Array, batch: int) -> Array:
    """(n,) times of evaluations in synchronous batches; only the last batch may be smaller."""
    taken = np.zeros_like(costs)
    first = np.arange(0, len(costs), batch)
    taken[first] = np.maximum.reduceat(costs, first) if len(costs) else 0.0
    return taken


def curve(run: Run, shares: Array = SHARES, *, overhead: bool = False) -> Array:
    """Best so far at shares of the budget."""
    return measures.best_at(*clock_and_values(run, overhead=overhead), shares * run.limit)


def curves(runs: Iterable[Run], shares: Array = SHARES, *, overhead: bool = False) -> Array:
    """(seeds, shares)."""
    return np.array([curve(run, shares, overhead=overhead) for run in runs])


def middle(rows: Array) -> Array:
    """Median over the first axis once half of the runs have a value; NaN before."""
    filled = np.where(np.isnan(rows), np.inf, rows)
    median = np.median(filled, axis=0)
    return np.asarray(np.where(np.isfinite(median), median, np.nan))


def quartiles(rows: Array) -> list[list[float | None]]:
    """[lower, upper] over the first axis, for JSON; None where a run has no value yet."""
    filled = np.where(np.isnan(rows), np.inf, rows)
    with np.errstate(invalid="ignore"):
        return [plain(line) for line in np.percentile(filled, [25, 75], axis=0)]


def draw_median(
    axis: Axes,
    x: Array,
    line: Iterable[float | None],
    quartiles: Iterable[Iterable[float | None]],
    **style: Any,
) -> None:
    """A line, and the space between the quartiles in the same colour."""
    axis.plot(x, numbers(line), **style)
    axis.fill_between(x, *map(numbers, quartiles), color=style["color"], alpha=0.15, lw=0)


def plain(array: Array) -> list[float | None]:
    """For JSON: six digits, None for NaN."""
    return [None if not np.isfinite(x) else float(f"{x:.6g}") for x in np.asarray(array).ravel()]


def numbers(cells: Iterable[float | None]) -> Array:
    """Back from JSON."""
    return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)


def recorded_errors(names: Iterable[str]) -> dict[str, list[float]]:
    """Cross-validated R^2 of ln value and ln cost of each surrogate used."""
    return {name: [round(e, 2) for e in recorded.errors(name.split("/")[1])] for name in names}
