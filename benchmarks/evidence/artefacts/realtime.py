"""`realtime`, `realtime-default`: real models, budgets of wall-clock seconds, overhead included.

realtime          the default against four tuners and against Gittins on five models
realtime-default  policies that could be the default, and TPE, on these and four held-back models

benchmarks/evidence/realtime.py makes the runs. A duel is one model and seed; the method with the
lower error at the end of the time wins. Each model counts as a family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from benchmarks.evidence.artefacts.curves import (
    SHARES,
    draw_median,
    middle,
    numbers,
    plain,
    quartiles,
)
from benchmarks.evidence.artefacts.duels import Duel
from benchmarks.evidence.realtime import CANDIDATES, HELD_BACK, METHODS, MODELS, Job
from benchmarks.evidence.replay import Missing, same_decisions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "farthing"
SEEDS = 10
RIVAL = "optuna-tpe"
CHOICE_BUDGET = 30.0  # seconds
COLOURS = {OURS: "CArBO", "optuna-tpe": "EI", "optuna-gp": "cooling", "flaml-cfo": "CEI_0.7"}


def jobs_of(settings: Settings) -> list[Job]:
    """Seed by seed, so that an unfinished set of runs is balanced."""
    budgets = (1.0,) if settings.quick else settings.budgets or realtime.BUDGETS
    known = [model for model in MODELS if model not in HELD_BACK]
    models = known[:1] if settings.quick else known
    return [
        Job(model, method, seed, budget)
        for seed in range(settings.count(SEEDS))
        for budget in budgets
        for model in models
        for method in (METHODS if not settings.quick else (OURS, "random"))
    ]


def _compute(settings: Settings) -> Json:
    jobs = jobs_of(settings)
    return {**summary(_carried_out(jobs, settings)), "planned": len(jobs)}


def _carried_out(jobs: list[Job], settings: Settings) -> dict[Job, Json]:
    """The runs, and the note of those that are planned and not kept; one takes its budget."""
    same_source = not settings.any_source
    runs = realtime.carry_out(
        jobs, processes=settings.jobs, same_source=same_source, more=settings.more
    )
    todo = [job for job in jobs if job not in runs]
    settings.missing.append(Missing(len(todo), sum(job.budget for job in todo) / 3600.0))
    return runs


def _best(record: Json, shares: np.ndarray) -> np.ndarray:
    """Best so far at shares of the budget."""
    steps = np.diff(np.array([0.0, *record["ends"]]))
    return measures.best_at(steps, numbers(record["values"]), shares * record["budget"])


def summary(runs: Mapping[Job, Json]) -> Json:
    """Curves, finals, duels and overhead of the runs that did not crash.

    Budgets that the default has not run yet are left out.
    """
    known = {job.budget for job, record in runs.items() if job.method == OURS}
    runs = {job: record for job, record in runs.items() if job.budget in known}
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
            rows.append([model, f"{budget} s", *_medians(by, METHODS, ".4f")])
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


def _medians(by: Json, methods: Sequence[str], digits: str) -> list[str]:
    """Median final (median evaluations; runs) of each method, the lowest in bold."""
    medians = {m: float(np.median(numbers(part["finals"]))) for m, part in by.items()}
    cells = []
    for method in methods:
        text = "-"
        if part := by.get(method):
            counts = f"({part['evaluations']:.0f}; {len(part['finals'])})"
            text = f"{medians[method]:{digits}} {counts}"
            if medians[method] <= min(medians.values()):
                text = f"**{text}**"
        cells.append(text)
    return cells


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
            style = {"color": colour(COLOURS.get(method, method)), "label": method, "lw": 1.3}
            at = SHARES * float(budget)
            draw_median(axis, at, part["curve"], part["quartiles"], **style)
        few = min(len(part["finals"]) for part in by.values())
        axis.set(title=f"{model}, {budget} s ({few}+ seeds)", xlabel="seconds", yscale="log")
        axis.title.set_fontsize(8.5)
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
    axes[0].set_ylabel("median best error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


# ── the choice of the default ──────────────────────────────────────────────────────────────────


def choice_jobs(settings: Settings) -> list[Job]:
    """Seed by seed: the candidates and TPE on all models."""
    models = list(MODELS)[:1] if settings.quick else MODELS
    return [
        Job(model, method, seed, 1.0 if settings.quick else CHOICE_BUDGET)
        for seed in range(settings.count(SEEDS))
        for model in models
        for method in (*CANDIDATES, *(() if settings.quick else (RIVAL,)))
    ]


def _choice(settings: Settings) -> Json:
    jobs = choice_jobs(settings)
    runs = _carried_out(jobs, settings)
    ours = {record["source"] for job, record in runs.items() if job.method != RIVAL}
    older = not ours <= same_decisions("realtime")
    return {**choice(runs), "planned": len(jobs), "older": older}


def choice(runs: Mapping[Job, Json]) -> Json:
    """Duels of the candidates with TPE and each other: all models, and those held back."""
    finals: Json = {}
    evaluations: dict[tuple[str, str], list[int]] = {}
    for job, record in runs.items():
        if record["error"] is None:
            by = finals.setdefault(f"{job.model}/{job.model}", {}).setdefault(job.method, {})
            by[str(job.seed)] = plain(_best(record, duels.SHARES))
            evaluations.setdefault((job.model, job.method), []).append(len(record["ends"]))
    held = {name: by for name, by in finals.items() if name.partition("/")[0] in HELD_BACK}
    found: Json = {"models": {}, "duels": {}, "held_back": {}, "runs": len(runs)}
    for name, by in finals.items():
        model = name.partition("/")[0]
        found["models"][model] = {
            method: {
                "finals": [values[-1] for values in of.values()],
                "evaluations": float(np.median(evaluations[model, method])),
            }
            for method, of in by.items()
        }
    for part, problems in (("duels", finals), ("held_back", held)):
        for ours in CANDIDATES:
            for rival in (*CANDIDATES, RIVAL):
                met = duels.duel({"": problems}, ours, rival) if ours != rival else None
                if met is not None:
                    found[part].setdefault(ours, {})[rival] = met._asdict()
    return found


def _choice_table(kept: Json) -> str:
    if not kept["models"]:
        return f"Not yet run: {kept['runs']} of {kept['planned']} planned runs are complete."
    methods = (*CANDIDATES, RIVAL)
    rows = []
    for model, by in kept["models"].items():
        name = f"{model}{' (held back)' if model in HELD_BACK else ''}"
        rows.append([name, *_medians(by, methods, ".4g")])
    parts = [
        f"Median final error (median evaluations; runs) with {CHOICE_BUDGET:g} s. {kept['runs']} "
        f"of {kept['planned']} planned runs are complete.",
        markdown(("model", *methods), rows),
    ]
    for part, about in (("duels", "all models"), ("held_back", "the held-back models")):
        cells = [
            [ours, *(_won(kept[part].get(ours, {}).get(rival)) for rival in methods)]
            for ours in CANDIDATES
        ]
        parts += [
            f"Duels that the method of the row wins, on {about} (their number):",
            markdown(("", *methods), cells),
        ]
    return "\n\n".join(parts)


def _won(duel: Json | None) -> str:
    return "" if duel is None else f"{Duel(**duel).text()} ({duel['duels']})"


def _choice_verdict(kept: Json) -> str:
    against = {
        ours: by[RIVAL] for ours, by in kept["duels"].items() if RIVAL in by
    }  # of all models
    if not against:
        return f"Not yet run ({kept['runs']} of {kept['planned']} runs)."
    said = ", ".join(f"{ours} {Duel(**duel).text()}" for ours, duel in against.items())
    return (
        f"With {CHOICE_BUDGET:g} s, of the duels with {RIVAL} are won by {said} "
        f"({kept['runs']} of {kept['planned']} runs)."
    )


def _draw_choice(kept: Json) -> Figure:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 0.45 * len(kept["duels"]) + 1.4))
    names = list(kept["duels"])
    for part, dy, hue in (("duels", -0.12, "#0072b2"), ("held_back", 0.12, "#e69f00")):
        for place, ours in enumerate(names):
            duel = kept[part].get(ours, {}).get(RIVAL)
            if duel is not None:
                low, won, high = (100 * duel[key][-1] for key in ("low", "won", "high"))
                axis.plot([low, high], [place + dy] * 2, color=hue, lw=2)
                axis.plot(won, place + dy, "o", color=hue)
        axis.plot([], [], "o-", color=hue, label=part.replace("duels", "all").replace("_", " "))
    axis.axvline(50, color="black", lw=1)
    axis.set_yticks(range(len(names)), names)
    axis.set(xlim=(0, 100), xlabel=f"% of duels with {RIVAL} won, 95 % interval")
    axis.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=2)
    return figure


ARTEFACTS = (
    Artefact(
        "realtime",
        "our default against four tuners and Gittins on real models, in wall-clock seconds",
        _compute,
        _table,
        _verdict,
        _draw,
        SEEDS,
    ),
    Artefact(
        "realtime-default",
        "which policy should be the default, by real training in wall-clock seconds",
        _choice,
        _choice_table,
        _choice_verdict,
        _draw_choice,
        SEEDS,
    ),
)
