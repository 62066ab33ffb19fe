"""What the runs of `python -m benchmarks curves` say: tables, duels, savings, losses, pictures.

duel      two methods on the same task and seed; the smaller share of better configurations
          wins, and a tie counts one half
saving    the cost at which we reach the final result of a rival, relative to the cost at which
          the rival reached it; infinite if we never do. The control is the rival with another
          seed in our place: the target is chosen after the rival's run, so 100 % is not what
          two equal methods have.
interval  95 %, from drawing tasks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.curves_simulator import OURS
from benchmarks.problems.curve_tables import DEVELOPMENT

Array = NDArray[np.float64]
Json = dict[str, Any]
Key = tuple[str, str, float, int]  # task, method, budget, seed
SUITES = ("LCBench, development", "LCBench, held back", "TaskSet", "Recorded")
AT = (0.25, 0.5, 1.0)  # shares of the budget at which methods duel
DRAWN_BUDGET = 15.0
LEAST_DRAWN = 0.02  # percent; less, also 0, is drawn here
DRAWS = 1000  # of tasks, for an interval
# A method is compared with ours in its own setting.
SETTINGS = (", last value", ", 4 workers", ", continuous")


def suite_of(task: str) -> str:
    """The part of the table of results that a task belongs to."""
    suite, _, name = task.partition("/")
    if suite == "lcbench":
        return "LCBench, development" if name in DEVELOPMENT else "LCBench, held back"
    return {"taskset": "TaskSet", "recorded": "Recorded"}[suite]


def ours_for(method: str) -> str:
    """Our method in the setting of another."""
    return OURS + next((each for each in SETTINGS if method.endswith(each)), "")


# ── numbers ────────────────────────────────────────────────────────────────────────────────────


def measure_at(record: Json, share: float) -> float | None:
    """The measure after a share of the budget; None if an old run did not keep it."""
    if share == 1.0:
        return float(record["better"])
    anytime = record.get("anytime")
    return None if anytime is None else float(anytime[max(round(share * len(anytime)), 1) - 1])


def _mean(by_task: Array) -> Array:
    """(...,) the mean over tasks of the mean of each, of (..., tasks, seeds)."""
    return np.asarray(np.nanmean(by_task, axis=-1).mean(axis=-1))


def _median(by_task: Array) -> Array:
    """(...,) the median over all runs, of (..., tasks, seeds)."""
    return np.asarray(np.nanmedian(by_task.reshape(*by_task.shape[:-2], -1), axis=-1))


def estimate(
    found: Mapping[str, Sequence[float]], measure: Callable[[Array], Array]
) -> tuple[float, float, float]:
    """The measure of numbers by task, and its interval."""
    most = max(map(len, found.values()))
    by_task = np.array([[*each, *[np.nan] * (most - len(each))] for each in found.values()])
    rng = np.random.default_rng(0)
    drawn = measure(by_task[rng.integers(len(by_task), size=(DRAWS, len(by_task)))])
    low, high = np.quantile(drawn, [0.025, 0.975], method="nearest")  # infinite values stay
    return float(measure(by_task)), float(low), float(high)


def scores(
    runs: Mapping[Key, Json], one: str, other: str, suite: str, budget: float, share: float = 1.0
) -> dict[str, list[float]]:
    """By task: 1 for each duel that the first method wins, 0 if it loses, 0.5 for a tie."""
    found: dict[str, list[float]] = {}
    for (task, method, at, seed), record in runs.items():
        rival = runs.get((task, other, at, seed))
        if (method, at) != (one, budget) or rival is None or suite_of(task) != suite:
            continue
        mine, its = measure_at(record, share), measure_at(rival, share)
        if mine is not None and its is not None:
            found.setdefault(task, []).append(0.5 + 0.5 * float(np.sign(its - mine)))
    return found


def duels(
    runs: Mapping[Key, Json], one: str, other: str, suite: str, budget: float, share: float = 1.0
) -> Json:
    """The share of duels that the first method wins, with its interval."""
    found = scores(runs, one, other, suite, budget, share)
    if not found:
        return {"duels": 0}
    won, low, high = estimate(found, _mean)
    return {"duels": sum(map(len, found.values())), "won": won, "low": low, "high": high}


def cost_to(record: Json, target: float) -> float:
    """The share of its budget after which a run has reached a target; infinite if never."""
    reached = np.flatnonzero(np.array(record["anytime"]) <= target)
    return (int(reached[0]) + 1) / len(record["anytime"]) if len(reached) else np.inf


def savings(
    runs: Mapping[Key, Json], one: str, other: str, suite: str, budget: float, *, shift: int = 0
) -> Json:
    """The median cost of one to reach the other's results, relative to the other's cost.

    Args:
        shift: how many seeds further the runs of `one` are; 1 for the control.
    """
    seeds = 1 + max((key[3] for key in runs if key[1:3] == (other, budget)), default=0)
    found: dict[str, list[float]] = {}
    for (task, method, at, seed), rival in runs.items():
        if (method, at) != (other, budget) or suite_of(task) != suite:
            continue
        mine = runs.get((task, one, at, (seed + shift) % seeds))
        if mine is not None and mine is not rival and "anytime" in mine and "anytime" in rival:
            target = rival["better"]
            found.setdefault(task, []).append(cost_to(mine, target) / cost_to(rival, target))
    if not found:
        return {"runs": 0}
    cost, low, high = estimate(found, _median)
    return {"runs": sum(map(len, found.values())), "cost": cost, "low": low, "high": high}


# ── tables ─────────────────────────────────────────────────────────────────────────────────────


def _duel_cell(duel: Json) -> str:
    if not duel["duels"]:
        return "-"
    return f"{duel['won']:.0%} [{duel['low']:.0%}, {duel['high']:.0%}] of {duel['duels']}"


def _saving_cell(saving: Json) -> str:
    if not saving["runs"]:
        return "-"
    parts = (saving["cost"], saving["low"], saving["high"])
    return "{} [{}, {}]".format(*(f"{x:.0%}" if np.isfinite(x) else "never" for x in parts))


def table_of(
    runs: Mapping[Key, Json], budgets: Sequence[float], methods: Sequence[str]
) -> list[str]:
    """For each suite and budget: the measure, duels and savings against each method; losses."""
    lines = []
    for suite in SUITES:
        mine = {key: each for key, each in runs.items() if suite_of(key[0]) == suite}
        for budget in budgets:
            some = {key: each for key, each in mine.items() if key[2] == budget}
            if some:
                tasks = len({key[0] for key in some})
                lines += [f"\n{suite} ({tasks} tasks), budget {budget:g}\n"]
                lines += _one_table(some, suite, budget, methods)
                lines += losses(some, suite, budget, methods)
    return lines


def _one_table(
    runs: Mapping[Key, Json], suite: str, budget: float, methods: Sequence[str]
) -> list[str]:
    wins = [f"we win at {share:.0%}" for share in AT]
    heads = ("median / mean (runs)", *wins, "our cost to its result", "its own, other seed")
    lines = [f"| method | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for method in methods:
        better = [each["better"] for key, each in runs.items() if key[1] == method]
        if not better:
            continue
        cells = [f"{np.median(better):.2f} / {np.mean(better):.2f} ({len(better)})"]
        ours = ours_for(method)
        if method == ours:
            cells += ["-"] * (len(heads) - 1)
        else:
            cells += [_duel_cell(duels(runs, ours, method, suite, budget, at)) for at in AT]
            cells.append(_saving_cell(savings(runs, ours, method, suite, budget)))
            cells.append(_saving_cell(savings(runs, method, method, suite, budget, shift=1)))
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def losses(
    runs: Mapping[Key, Json], suite: str, budget: float, methods: Sequence[str]
) -> list[str]:
    """The tasks where our method loses most duels at the end, for each rival."""
    lines = []
    for method in methods:
        found = scores(runs, ours_for(method), method, suite, budget)
        lost = sorted(task.partition("/")[2] for task, each in found.items() if np.mean(each) < 0.5)
        if found and method != ours_for(method):
            text = f"{len(lost)} of {len(found)}: {', '.join(lost)}" if lost else "none"
            lines.append(f"lost against {method}: {text}")
    return ["", *lines] if lines else []


# ── pictures ───────────────────────────────────────────────────────────────────────────────────


def draw(runs: Mapping[Key, Json], methods: Sequence[str], path: Path) -> None:
    """A dot per run and the median of each method, with a budget of 15 whole trainings."""
    from matplotlib.figure import Figure

    shown = {key: each for key, each in runs.items() if key[2] == DRAWN_BUDGET}
    suites = [s for s in SUITES[1:] if any(suite_of(key[0]) == s for key in shown)]
    names = [m for m in methods if any(key[1] == m for key in shown)]
    figure = Figure(figsize=(1 + 4 * len(suites), 3.6), layout="constrained")
    axes = figure.subplots(1, len(suites), sharey=True, squeeze=False)[0]
    for axis, suite in zip(axes, suites, strict=True):
        for row, method in enumerate(names):
            found = [
                max(record["better"], LEAST_DRAWN)
                for (task, name, _, _), record in shown.items()
                if name == method and suite_of(task) == suite
            ]
            if not found:
                continue
            colour = "C0" if method == OURS else "0.5"
            axis.plot(found, [row] * len(found), "o", color=colour, alpha=0.5, markersize=4)
            axis.plot(np.median(found), row, "|", color=colour, markersize=18, markeredgewidth=2.5)
        count = len({key[0] for key in shown if suite_of(key[0]) == suite})
        axis.set(xscale="log", title=f"{suite} ({count} tasks)", yticks=range(len(names)))
        axis.set_yticklabels(names)
        axis.set_xlabel("configurations that are better, in percent")
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=100)


def draw_anytime(
    runs: Mapping[Key, Json], suite: str, budget: float, methods: Sequence[str], path: Path
) -> bool:
    """The mean over tasks at every time, with intervals; whether there was anything to draw."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axis = figure.subplots()
    tasks = len({key[0] for key in runs if key[2] == budget and suite_of(key[0]) == suite})
    for number, method in enumerate(methods):
        found: dict[str, list[list[float]]] = {}
        for (task, name, at, _), record in runs.items():
            if (name, at) == (method, budget) and suite_of(task) == suite and "anytime" in record:
                found.setdefault(task, []).append(record["anytime"])
        if not found:
            continue
        means = np.array([np.mean(each, axis=0) for each in found.values()])  # (tasks, shares)
        rng = np.random.default_rng(0)
        drawn = means[rng.integers(len(means), size=(DRAWS, len(means)))].mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0).clip(LEAST_DRAWN)
        cost = budget * np.arange(1, means.shape[1] + 1) / means.shape[1]
        style: dict[str, Any] = {"color": f"C{number % 10}", "zorder": 3 if method == OURS else 2}
        style["linestyle"] = "-" if number < 10 else "--"
        middle = means.mean(axis=0).clip(LEAST_DRAWN)
        label = method if len(found) == tasks else f"{method} ({len(found)} of {tasks} tasks)"
        axis.plot(cost, middle, label=label, linewidth=2.5 if method == OURS else 1.2, **style)
        axis.fill_between(cost, low, high, color=style["color"], alpha=0.12, linewidth=0)
    if not axis.lines:
        return False
    axis.set(yscale="log", title=f"{suite}: mean over tasks, with 95 % intervals")
    axis.set_xlabel("cost, in whole trainings")
    axis.set_ylabel("configurations that are better, in percent")
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=100)
    return True
