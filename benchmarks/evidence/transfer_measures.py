"""What the runs of `python -m benchmarks transfer` say: duels, shares, costs to reach a value.

duel      two methods on the same task and seed; the smaller share of better configurations wins,
          and a tie counts one half
cost to   the median costs after which a method first reached the value that Farthing without
reach     sources has at the end of 15 median costs, in the median of the runs
interval  95 %, from drawing tasks
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evidence.curves_measures import estimate

Json = dict[str, Any]
Key = tuple[str, str, float, int]  # task, method, budget, seed

BASE, OURS, PORTFOLIO = "no sources", "3 sources", "portfolio only"
HARM = ("3 negated", "3 shuffled", "3 of another family", "9 negated, 1 good")
RIVALS = ("TPE", "GPSampler")
TARGET_BUDGET = 15.0
GOALS = ("lcbench", "yahpo_rbv2_rpart", "yahpo_rbv2_xgboost")  # families with a goal of their own


def family_of(task: str) -> str:
    """The part of the name before the slash."""
    return task.partition("/")[0]


def duels(
    runs: Mapping[Key, Json], one: str, other: str, budget: float, family: str = ""
) -> tuple[float, float, float, int] | None:
    """The share of duels that the first method wins, its interval, and the number of duels."""
    found: dict[str, list[float]] = {}
    for (task, method, at, seed), record in runs.items():
        rival = runs.get((task, other, at, seed))
        if (method, at) == (one, budget) and rival is not None and task.startswith(family):
            won = 0.5 + 0.5 * float(np.sign(rival["better"] - record["better"]))
            found.setdefault(task, []).append(won)
    if not found:
        return None
    won, low, high = estimate(found, lambda by_task: np.nanmean(by_task, axis=-1).mean(axis=-1))
    return won, low, high, sum(map(len, found.values()))


def cost_to_reach(record: Json, value: float) -> float:
    """Median costs after which a run had reached a value; infinite if it never did."""
    return next((cost for cost, found in record["best"] if found <= value), np.inf)


def costs_to_reach(
    runs: Mapping[Key, Json], method: str, family: str = ""
) -> tuple[float, float, int] | None:
    """Median cost of a method and of the base to reach the base's last value, and the runs."""
    mine, its = [], []
    for (task, name, at, seed), record in runs.items():
        base = runs.get((task, BASE, at, seed))
        if (name, at) != (method, TARGET_BUDGET) or base is None or not task.startswith(family):
            continue
        if base["best"]:
            value = base["best"][-1][1]
            mine.append(cost_to_reach(record, value))
            its.append(cost_to_reach(base, value))
    if not mine:
        return None
    return float(np.quantile(mine, 0.5, method="lower")), float(np.median(its)), len(mine)


def better(runs: Mapping[Key, Json], method: str, budget: float, family: str = "") -> list[float]:
    """The shares of better configurations of a method's runs, in percent."""
    return [
        record["better"]
        for (task, name, at, _), record in runs.items()
        if (name, at) == (method, budget) and task.startswith(family)
    ]


# ── tables ─────────────────────────────────────────────────────────────────────────────────────


def _cell(duel: tuple[float, float, float, int] | None) -> str:
    if duel is None:
        return "-"
    won, low, high, count = duel
    return f"{won:.0%} [{low:.0%}, {high:.0%}] of {count}"


def table_of(runs: Mapping[Key, Json], methods: Sequence[str]) -> Iterator[str]:
    """The lines that are printed."""
    families = list(dict.fromkeys(family_of(key[0]) for key in runs))
    for budget in sorted({key[2] for key in runs}):
        yield f"\n## {budget:g} median costs\n"
        yield "| method | better configurations, median | duels won against no sources |"
        yield "|---|---|---|"
        for method in methods:
            if share := better(runs, method, budget):
                duel = _cell(duels(runs, method, BASE, budget)) if method != BASE else ""
                yield f"| {method} | {np.median(share):.2g} % of {len(share)} runs | {duel} |"
        yield ""
        others = [m for m in (BASE, "TPE", PORTFOLIO) if duels(runs, OURS, m, budget)]
        yield f"| {OURS}, family | better: {BASE}, {OURS} | against {' | against '.join(others)} |"
        yield "|" + "---|" * (len(others) + 2)
        for family in (*families, ""):
            pair = [better(runs, method, budget, family) for method in (BASE, OURS)]
            if all(pair):
                shares = ", ".join(f"{np.median(each):.2g} %" for each in pair)
                against = [duels(runs, OURS, other, budget, family) for other in others]
                yield f"| {family or 'all'} | {shares} | {' | '.join(map(_cell, against))} |"
    yield from _goals(runs)


def _goals(runs: Mapping[Key, Json]) -> Iterator[str]:
    """The goals, what was measured, and whether each is reached."""
    at = TARGET_BUDGET
    yield f"\n## Goals at {at:g} median costs\n"
    yield "| goal | measured | reached |"
    yield "|---|---|---|"
    for family in GOALS:
        if duel := duels(runs, OURS, BASE, at, family + "/"):
            met = duel[0] >= 0.75 and duel[1] > 0.5
            yield f"| 75 % against no sources, {family} | {_cell(duel)} | {_yes(met)} |"
    for rival in RIVALS:
        if duel := duels(runs, OURS, rival, at):
            yield f"| 70 % against {rival} | {_cell(duel)} | {_yes(duel[0] >= 0.7)} |"
    if reach := costs_to_reach(runs, OURS):
        cost = f"{reach[0]:.3g} (no sources: {reach[1]:.3g}) of {reach[2]} runs"
        yield f"| the value without sources for at most 6 | {cost} | {_yes(reach[0] <= 6.0)} |"
    for method in HARM:
        if duel := duels(runs, method, BASE, at):
            yield f"| at least 47 %: {method} | {_cell(duel)} | {_yes(duel[0] >= 0.47)} |"
        if duel := duels(runs, method, BASE, 60.0):
            met = duel[2] >= 0.5
            yield f"| no harm to be seen at 60: {method} | {_cell(duel)} | {_yes(met)} |"
    if duel := duels(runs, OURS, BASE, at, "tabrepo_lightgbm/"):
        yield f"| not behind, tabrepo_lightgbm | {_cell(duel)} | {_yes(duel[2] >= 0.5)} |"


def _yes(met: bool) -> str:
    return "yes" if met else "no"


# ── the picture ────────────────────────────────────────────────────────────────────────────────


def draw(runs: Mapping[Key, Json], path: Path) -> None:
    """Duels won against no sources with 15 median costs, by method and by family."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    families = list(dict.fromkeys(family_of(key[0]) for key in runs))
    by_method = [
        (m, duels(runs, m, BASE, TARGET_BUDGET)) for m in dict.fromkeys(k[1] for k in runs)
    ]
    by_family = [(f, duels(runs, OURS, BASE, TARGET_BUDGET, f + "/")) for f in families]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharex=True)
    titles = ("all families", f"{OURS}, by family")
    for axis, rows, title in zip(axes, (by_method, by_family), titles, strict=True):
        known = [(name, duel) for name, duel in rows if duel is not None and name != BASE]
        for i, (_, (won, low, high, _)) in enumerate(known):
            axis.plot([100 * low, 100 * high], [i, i], color="#4477aa")
            axis.plot(100 * won, i, "o", color="#4477aa")
        axis.set_yticks(range(len(known)), [name for name, _ in known])
        axis.invert_yaxis()
        axis.axvline(50, color="#999999", linewidth=0.8)
        axis.set_xlim(0, 100)
        axis.set_xlabel("duels won against no sources, %")
        axis.set_title(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
