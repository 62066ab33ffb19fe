"""What the initial design costs (`start`), and what `max_overrun` saves and loses (`max-overrun`).

start         200 seeds on each problem with a budget of 100 typical costs. Measured is the share of
              the budget that is spent before the first suggestion of a model: with trials killed
              at the limits of the initial design, without kills, and for uniform configurations.
max-overrun   the default with each value of `max_overrun` against the default without it, on the
              same seeds. Reported by family: the share of the budget that the kills saved, how many
              killed trials would have been the best so far, and the duels at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.evidence.artefacts import duels
from benchmarks.evidence.artefacts.artefact import Artefact, Json, Settings, markdown
from benchmarks.evidence.artefacts.comparison import (
    DEFAULT,
    GITTINS,
    counted,
    finals_of,
    jobs_of,
    problems,
    runs_of,
)
from benchmarks.evidence.artefacts.duels import Duel
from benchmarks.evidence.replay import Job, Rows, Run
from benchmarks.methods import POLICIES
from benchmarks.problems import load, recorded
from farthing import Optimizer, Stopped
from farthing.acquisition.belief import START

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = 200
BUDGET = 100.0  # typical costs
WILD = tuple(  # every table of the family whose costs span decades
    f"hpobench_mlp/{table}"
    for table in ("australian", "blood_transfusion", "car", "credit_g", "segment")
)
RECORDINGS = tuple(name for family in ("carbo", "xgboost") for name in recorded.names(family))
KINDS = ("ours", "ours, nothing killed", "uniform")  # keys of the kept numbers
SHOWN = dict(zip(KINDS, ("default", "default without kills", "uniform"), strict=True))
WORST, USUAL = 0.25, 0.1  # shares of the budget promised for the worst and the median start
MARGINS = (1, 2, 4, 8)
OVERRUN_BUDGETS = (15.0, 60.0)
OVERRUN_SEEDS = 4
OFTEN = 0.8  # share of families that must gain before max_overrun is on by default


# ── the start ──────────────────────────────────────────────────────────────────────────────────


def paid_before_a_model(name: str, seed: int, *, killable: bool, folder: str | None) -> float:
    """The share of the budget that is spent before the default first uses its model."""
    problem = load(name, folder)
    limit = BUDGET * problem.typical_cost
    optimizer = Optimizer(
        problem.space, budget={"cost": limit}, policy=POLICIES[DEFAULT](), seed=seed
    )
    rows = None if problem.table is None else Rows(problem.table)
    spent = 0.0
    while spent < limit:
        try:
            trial = optimizer.ask()
        except Stopped:  # no remaining configuration is affordable: the model is never used
            return 1.0
        if trial.notes.get("phase") != "start":
            break
        value, cost = problem.at(trial.params if rows is None else rows.nearest(trial.params))
        most = min(limit - spent, *(trial.limit.values() if killable else ()), math.inf)
        spent += min(cost, most)
        if cost > most:
            optimizer.tell(trial, killed=True, cost=most)
        elif value is None:
            optimizer.tell(trial, failed="no value", cost=cost)
        else:
            optimizer.tell(trial, value, cost=cost)
    return spent / limit


def paid_uniformly(name: str, seed: int, *, folder: str | None) -> float:
    """The share of the budget that `START` uniform configurations cost, at most 1."""
    problem = load(name, folder)
    space = problem.table or problem.space
    X = space.sample(START, np.random.default_rng(seed))
    costs = sum(problem.at(space.decode(x)).cost for x in X)
    return min(costs / (BUDGET * problem.typical_cost), 1.0)


def _starts(settings: Settings) -> Json:
    names = [RECORDINGS[0]] if settings.quick else [*WILD, *RECORDINGS]
    count = settings.count(STARTS, quick=3)
    kinds = {
        "ours": partial(paid_before_a_model, killable=True, folder=settings.data),
        "ours, nothing killed": partial(paid_before_a_model, killable=False, folder=settings.data),
        "uniform": partial(paid_uniformly, folder=settings.data),
    }
    found: Json = {}
    with ProcessPoolExecutor(settings.jobs) as pool:
        for name in names:
            found[name] = {}
            for kind, pay in kinds.items():
                paid = list(pool.map(pay, [name] * count, range(count), chunksize=10))
                found[name][kind] = {
                    "median": round(float(np.median(paid)), 4),
                    "worst": round(max(paid), 4),
                }
            print(f"start: {name} {found[name]}", flush=True)
    return {"problems": found, "starts": count}


def _starts_table(kept: Json) -> str:
    header = ("problem", *(f"{SHOWN[k]}: {m}" for k in KINDS for m in ("median", "worst")))
    rows = [
        [name, *(f"{100 * by[kind][m]:.1f} %" for kind in KINDS for m in ("median", "worst"))]
        for name, by in kept["problems"].items()
    ]
    return (
        f"Share of a budget of {BUDGET:g} typical costs that is spent before the first suggestion "
        f"of a model, {kept['starts']} seeds on each problem.\n\n" + markdown(header, rows)
    )


def _starts_verdict(kept: Json) -> str:
    by = kept["problems"]
    over = [n for n, p in by.items() if p["ours"]["worst"] > WORST + 5e-4]
    slow = [n for n, p in by.items() if p["ours"]["median"] > USUAL + 5e-4]
    worst = {kind: max(p[kind]["worst"] for p in by.values()) for kind in KINDS}
    return (
        f"The worst of {kept['starts']} initial designs uses {100 * worst['ours']:.0f} % of the "
        f"budget on the worst of {len(by)} problems "
        f"({100 * worst['ours, nothing killed']:.0f} % if trials cannot be killed; "
        f"{100 * worst['uniform']:.0f} % with {START} uniform configurations). Problems above a "
        f"quarter in the worst case: {', '.join(over) or 'none'}; above a tenth in the median: "
        f"{', '.join(slow) or 'none'}."
    )


def _draw_starts(kept: Json) -> Figure:
    import matplotlib.pyplot as plt

    names = list(kept["problems"])[::-1]
    figure, axis = plt.subplots(figsize=(7, 0.2 * len(names) + 1.6))
    marks = dict(zip(KINDS, (("o", "#0072b2"), ("s", "#56b4e9"), ("x", "#7f7f7f")), strict=True))
    for k, (kind, (mark, hue)) in enumerate(marks.items()):
        for place, name in enumerate(names):
            part = kept["problems"][name][kind]
            y = place + 0.22 * (1 - k)
            ends = [100 * part["median"], 100 * part["worst"]]
            axis.plot(ends, [y, y], color=hue, lw=1)
            axis.plot(ends[1], y, mark, color=hue, ms=3.5, label=SHOWN[kind] if not place else None)
    for share in (USUAL, WORST):
        axis.axvline(100 * share, color="black", lw=0.8, ls=":")
    axis.set_yticks(range(len(names)), names, fontsize=6.5)
    axis.set(xlim=(0, 102), xlabel="% of the budget before the first model: median to worst")
    axis.legend(fontsize=7, loc="lower right")
    return figure


# ── max_overrun ────────────────────────────────────────────────────────────────────────────────


def _overruns(settings: Settings) -> Json:
    methods = (GITTINS, *(f"{GITTINS}+leash_{margin}" for margin in MARGINS))
    if settings.budgets is None:
        settings = replace(settings, budgets=OVERRUN_BUDGETS)
    seeds = settings.count(OVERRUN_SEEDS)
    jobs = jobs_of(problems(3, settings), methods, settings, seeds=seeds)
    runs = runs_of(jobs, settings)
    finals = finals_of(runs)
    found: Json = {}
    for margin, method in zip(MARGINS, methods[1:], strict=True):
        met = duels.duel(finals, method, GITTINS)
        if met is None:
            continue
        families: Json = {}
        for family in duels.ranked(finals, [method, GITTINS]):
            pairs = _pairs(runs, family, method)
            part = {
                budget: {p: by for p, by in of.items() if p.partition("/")[0] == family}
                for budget, of in finals.items()
            }
            against = duels.duel(part, method, GITTINS)
            assert against is not None, "a family that was ranked has been run"
            families[family] = {**_killed(pairs), "duel": against._asdict()}
        found[str(margin)] = {"families": families, "duel": met._asdict()}
    return {"margins": found, "counts": counted(runs, jobs)}


def _pairs(runs: Mapping[Job, Run], family: str, method: str) -> list[tuple[Run, Run]]:
    """(run with max_overrun, run without it) of the same problem, seed and budget."""
    return [
        (run, other)
        for job, run in runs.items()
        if job.method == method and job.problem.partition("/")[0] == family and run.error is None
        if (other := runs.get(replace(job, method=GITTINS))) is not None and other.error is None
    ]


def left(run: Run, i: int) -> float:
    """The budget that was left when evaluation i started, the most it could have cost."""
    return run.limit - sum(run.costs[:i])


def _killed(pairs: list[tuple[Run, Run]]) -> Json:
    """The trials that max_overrun killed and the limits of the initial design did not."""
    kills = best = 0
    saved: list[float] = []
    for run, other in pairs:
        anyway = {i for i, _, _ in other.killed}
        killed = [k for k in run.killed if k[0] not in anyway]
        saved.append(sum(min(cost, left(run, i)) - run.costs[i] for i, cost, _ in killed))
        saved[-1] /= run.limit
        kills += len(killed)
        for i, _, value in killed:
            before = [v for v in run.values[:i] if v is not None]
            best += value is not None and value < min(before, default=math.inf)
    return {
        "runs": len(pairs),
        "killed": kills,
        "would_be_best": best,
        "saved": round(float(np.mean(saved)), 5) if saved else 0.0,
    }


def _overrun_table(kept: Json) -> str:
    if not kept["margins"]:
        return "Not yet run."
    rows, header = [], ("max_overrun", "family", "runs", "killed", "of these would be the best")
    for margin, part in kept["margins"].items():
        shown = [*part["families"].items()]
        for family, by in shown:
            met = Duel(**by["duel"])
            cells = [by["runs"], by["killed"], by["would_be_best"], f"{100 * by['saved']:.2f} %"]
            rows.append([margin, family, *cells, met.text()])
        whole = [sum(by[k] for _, by in shown) for k in ("runs", "killed", "would_be_best")]
        saved = float(np.mean([by["saved"] for _, by in shown]))
        text = Duel(**part["duel"]).text()
        rows.append([margin, "**all**", *whole, f"{100 * saved:.2f} %", text])
    return markdown((*header, "of the budget saved by kills", "won at the end [95 %]"), rows)


def gains(kept: Json) -> dict[str, int]:
    """By value of max_overrun, the number of families on which it saves without losing."""
    return {
        margin: sum(
            by["saved"] > 0 and by["duel"]["won"][-1] >= 0.5 for by in part["families"].values()
        )
        for margin, part in kept["margins"].items()
    }


def _overrun_verdict(kept: Json) -> str:
    if not kept["margins"]:
        return "Not yet run."
    said = []
    for margin, part in kept["margins"].items():
        by = part["families"]
        met = Duel(**part["duel"])
        said.append(
            f"{margin}: {sum(p['killed'] for p in by.values())} killed, "
            f"{sum(p['would_be_best'] for p in by.values())} of them would have been the best, "
            f"{met.text()} of {met.duels} duels at the end, saving without losing on "
            f"{gains(kept)[margin]} of {len(by)} families"
        )
    return (
        f"With `max_overrun` against without, with {GITTINS}, by its value: {'; '.join(said)}. It "
        f"would be on by default if it saved on {100 * OFTEN:.0f} % of the families."
    )


def _draw_overruns(kept: Json) -> Figure:
    import matplotlib.pyplot as plt

    families = list(next(iter(kept["margins"].values()))["families"])[::-1]
    figure, axes = plt.subplots(1, 2, figsize=(8.2, 0.3 * len(families) + 1.6), sharey=True)
    hues = dict(zip(kept["margins"], ("#001f4d", "#0072b2", "#56b4e9", "#a6d8f5"), strict=False))
    for k, (margin, part) in enumerate(kept["margins"].items()):
        for place, family in enumerate(families):
            if family in part["families"]:
                by, y = part["families"][family], place + 0.18 * (1.5 - k)
                axes[0].plot(100 * by["saved"], y, "o", color=hues[margin], ms=4)
                met = Duel(**by["duel"])
                axes[1].plot([100 * met.low[-1], 100 * met.high[-1]], [y, y], color=hues[margin])
                axes[1].plot(100 * met.won[-1], y, "o", color=hues[margin], ms=4)
        axes[0].plot([], [], "o", color=hues[margin], label=f"max_overrun {margin}")
    axes[0].set_yticks(range(len(families)), families, fontsize=7.5)
    axes[0].set(xlabel="% of the budget saved by kills")
    axes[1].axvline(50, color="black", lw=1)
    axes[1].set(xlim=(0, 100), xlabel="% of duels won at the end, 95 % interval")
    axes[0].legend(fontsize=7)
    return figure


ARTEFACTS = (
    Artefact(
        "start",
        "what may be spent before the model is used for the first time",
        _starts,
        _starts_table,
        _starts_verdict,
        _draw_starts,
        STARTS,
    ),
    Artefact(
        "max-overrun",
        "what is saved and what is lost by killing trials that cost far more than expected",
        _overruns,
        _overrun_table,
        _overrun_verdict,
        _draw_overruns,
        OVERRUN_SEEDS,
    ),
)
