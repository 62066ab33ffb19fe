"""`realtime`: five real models, budgets of wall-clock seconds, overhead included.

benchmarks/evidence/realtime.py makes the runs. A duel is one model and seed; the method with the
lower error at the end of the time wins. The five models count as five families.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.evidence import measures, realtime
from benchmarks.evidence.artefacts import duels
from benchmarks.evidence.artefacts.artefact import (
    Artefact,
    Json,
    Settings,
    colour,
    grid,
    markdown,
)
from benchmarks.evidence.artefacts.curves import SHARES, middle, numbers, plain, quartiles, shade
from benchmarks.evidence.artefacts.duels import Duel
from benchmarks.evidence.realtime import METHODS, MODELS, Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "farthing"
SEEDS = 10
COLOURS = {OURS: "CArBO", "optuna-tpe": "EI", "optuna-gp": "cooling", "flaml-cfo": "PBGI"}


def jobs_of(settings: Settings) -> list[Job]:
    """Seed by seed, so that an unfinished set of runs is balanced."""
    budgets = (1.0,) if settings.quick else settings.budgets or realtime.BUDGETS
    models = list(MODELS)[:1] if settings.quick else MODELS
    return [
        Job(model, method, seed, budget)
        for seed in range(settings.count(SEEDS))
        for budget in budgets
        for model in models
        for method in (METHODS if not settings.quick else (OURS, "random"))
    ]


def _compute(settings: Settings) -> Json:
    jobs = jobs_of(settings)
    runs = realtime.carry_out(
        jobs,
        processes=settings.jobs,
        same_source=not settings.any_source,
        more=settings.more,
    )
    return {**summary(runs), "planned": len(jobs)}


def _best(record: Json, shares: np.ndarray) -> np.ndarray:
    """Best so far at shares of the budget."""
    steps = np.diff(np.array([0.0, *record["ends"]]))
    return measures.best_at(steps, numbers(record["values"]), shares * record["budget"])


def summary(runs: Mapping[Job, Json]) -> Json:
    """Curves, finals, duels and overhead of the runs that did not crash."""
    finals: Json = {}
    cells: dict[tuple[str, str, str], list[Json]] = {}
    for job, record in runs.items():
        if record["error"] is None:
            budget = f"{job.budget:g}"
            by = finals.setdefault(budget, {}).setdefault(f"{job.model}/{job.model}", {})
            by.setdefault(job.method, {})[str(job.seed)] = plain(_best(record, duels.SHARES))
            cells.setdefault((budget, job.model, job.method), []).append(record)
    found: Json = {"models": {}, "duels": {}, "thinking": {}}  # kept name of the overhead
    for (budget, model, method), part in cells.items():
        lines = np.array([_best(record, SHARES) for record in part])
        found["models"].setdefault(budget, {}).setdefault(model, {})[method] = {
            "curve": plain(middle(lines)),
            "quartiles": quartiles(lines),
            "finals": plain(lines[:, -1]),
            "evaluations": float(np.median([len(record["ends"]) for record in part])),
        }
    for method in METHODS:
        for budget in finals:
            met = duels.duel(finals, OURS, method, [budget]) if method != OURS else None
            if met is not None:
                found["duels"].setdefault(method, {})[budget] = met._asdict()
            shares = [
                record["thinking"] / max(record["ends"][-1], record["budget"])
                for (b, _, m), part in cells.items()
                if (b, m) == (budget, method)
                for record in part
                if record["ends"]
            ]
            if shares:
                found["thinking"].setdefault(method, {})[budget] = plain(
                    np.percentile(shares, [50, 0, 100])
                )
    records = runs.values()
    return {
        **found,
        "runs": len(runs),
        "crashed": sum(record["error"] is not None for record in records),
        "errors": sorted({record["error"] for record in records if record["error"]})[:5],
        "load": max((record["load"] for record in records), default=0.0),
        "machines": sorted({record["machine"] for record in records}),
    }


def _table(kept: Json) -> str:
    counts = (
        f"{kept['runs']} of {kept['planned']} planned runs are complete, {kept['crashed']} crashed "
        f"and are left out"
    )
    if not kept["models"]:
        return f"Not yet run: {counts}."
    rows = []
    for budget, by_model in kept["models"].items():
        for model, by in by_model.items():
            medians = {m: float(np.median(numbers(part["finals"]))) for m, part in by.items()}
            cells = []
            for method in METHODS:
                if method not in by:
                    cells.append("-")
                    continue
                part = by[method]
                count = len(part["finals"])
                text = f"{medians[method]:.4f} ({part['evaluations']:.0f}; {count})"
                lowest = medians[method] <= min(medians.values())
                cells.append(f"**{text}**" if lowest else text)
            rows.append([model, f"{budget} s", *cells])
    finals = markdown(("model", "budget", *METHODS), rows)
    rows = [
        [method, f"{budget} s", part["duels"], *map(Duel(**part).text, range(3)), _verdict_of(part)]
        for method, by_budget in kept["duels"].items()
        for budget, part in by_budget.items()
    ]
    header = ("against", "budget", "duels", "won at 25 % [95 %]", "50 %", "100 %", "at the end")
    overhead = [
        [method, f"{budget} s", *(f"{100 * share:.1f} %" for share in part)]
        for method, by_budget in kept["thinking"].items()
        for budget, part in by_budget.items()
    ]
    return "\n\n".join(
        [
            f"Median final error (median evaluations; runs). {counts}; machine: "
            f"{', '.join(kept['machines'])}; highest load at the start of a run "
            f"{kept['load']:.1f} processes on two cores. Each run is bound to one core, all other "
            "processes to the other core.",
            finals,
            markdown(header, rows),
            "Share of the time that was not spent evaluating:",
            markdown(("method", "budget", "median", "least", "most"), overhead),
        ]
    )


def _verdict_of(part: Json) -> str:
    return Duel(**part).verdict()


def _verdict(kept: Json) -> str:
    if not kept["models"]:
        return f"Not yet run (0 of {kept['planned']} runs)."
    said = []
    for budget in kept["models"]:
        by: dict[str, list[str]] = {"ahead": [], "undecided": [], "behind": []}
        for method, by_budget in kept["duels"].items():
            if budget in by_budget:
                by[_verdict_of(by_budget[budget])].append(method)
        share = kept["thinking"].get(OURS, {}).get(budget)
        said.append(
            f"With {budget} s the default is "
            + ", ".join(
                f"{word} {'against' if word == 'undecided' else 'of'} {', '.join(names)}"
                for word, names in by.items()
                if names
            )
            + (f" and its overhead is {100 * share[0]:.1f} % of the time" if share else "")
        )
    return f"{'. '.join(said)} ({kept['runs']} of {kept['planned']} runs)."


def _draw(kept: Json) -> Figure:
    from matplotlib.ticker import LogLocator, NullFormatter

    shown = [
        (budget, model, by)
        for budget, models in kept["models"].items()
        for model, by in models.items()
    ]
    figure, axes = grid(len(shown), width=2.7, height=2.5)
    for axis, (budget, model, by) in zip(axes, shown, strict=True):
        for method, part in by.items():
            hue, at = colour(COLOURS.get(method, method)), SHARES * float(budget)
            axis.plot(at, numbers(part["curve"]), color=hue, label=method, lw=1.3)
            if "quartiles" in part:
                shade(axis, at, part["quartiles"], hue)
        few = min(len(part["finals"]) for part in by.values())
        axis.set(title=f"{model}, {budget} s ({few}+ seeds)", xlabel="seconds", yscale="log")
        axis.title.set_fontsize(8.5)
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
    axes[0].set_ylabel("median best error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


ARTEFACTS = (
    Artefact(
        "realtime",
        "our default against four tuners on real models, in wall-clock seconds",
        _compute,
        _table,
        _verdict,
        _draw,
        SEEDS,
    ),
)
