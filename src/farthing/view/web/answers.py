"""What the scripts of a page ask for, as plain values: studies, figures, one trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.history import Trial
from farthing.view import figures
from farthing.view.facts import explanation
from farthing.view.figures.curve import curve_of
from farthing.view.figures.learning import learning, learning_of
from farthing.view.formatting import amounts
from farthing.view.html import multiline
from farthing.view.primitives import Figure, thinned, visible
from farthing.view.report.explained import explained
from farthing.view.report.parts import figure_or_reason, quick_figures, settings_rows
from farthing.view.report.report_facts import copies
from farthing.view.web.columns import trial_columns
from farthing.view.web.figure_values import figure_values
from farthing.view.web.key_figures import key_figures

__all__ = [
    "comparison_answer",
    "figures_answer",
    "list_entry",
    "log_answer",
    "outputs_answer",
    "settings_answer",
    "study_answer",
    "tab_of",
    "trial_answer",
    "why_answer",
]

FITTING = "The models are being fitted …"
MAX_REPORTS = 50  # progress reports shown: the latest
MAX_OUTPUT = 20_000  # characters of an error or of an output
LINES, MAX_LINES = 12, 4_000  # lines and characters of the output of a running trial
SPARKS = 60  # corners of the small line of a study in the list

# The tab that shows a figure, by its name; any other figure is about parameters.
TABS = {
    "money": "costs",
    "predictions": "costs",
    "pareto": "costs",
    "timeline": "running",
    "learning": "running",
    "prospect": "stopping",
    "trust": "parameters",
}
NEEDS_MODELS = ("parameters", "costs", "stopping")
OWN_CHART = "curve"  # the page draws it from its own trials


# ── figures ────────────────────────────────────────────────────────────────────────────────────


def figures_answer(
    tab: str, settings: Settings, state: State, slow: Sequence[Figure], behind: int | None
) -> dict[str, Any]:
    """The figures of a tab; `behind` is the number of changes since the slow ones were made."""
    shown = [*_quick(tab, settings, state), *(f for f in slow if tab_of(f) == tab)]
    note = ""
    if tab in NEEDS_MODELS and behind is None:
        note = FITTING
    elif tab in NEEDS_MODELS and behind:
        changes = "1 change" if behind == 1 else f"{behind} changes"
        note = f"Figures from the models are {changes} old. New ones are being computed."
    return {"figures": [figure_values(figure) for figure in shown], "note": note}


def tab_of(figure: Figure) -> str:
    """The tab that shows a figure."""
    return TABS.get(figure.name, "parameters")


def _quick(tab: str, settings: Settings, state: State) -> Iterator[Figure]:
    if tab in TABS.values():
        made = quick_figures(settings, state)
        yield from (f for f in made if tab_of(f) == tab and f.name != OWN_CHART)


def comparison_answer(studies: Mapping[str, tuple[Settings, State]]) -> dict[str, Any]:
    """The best values of several studies on one cost axis."""
    return figure_values(figures.comparison(studies))


# ── the list of studies ────────────────────────────────────────────────────────────────────────


def list_entry(name: str, settings: Settings, state: State) -> dict[str, Any]:
    """One study in the list."""
    facts, best = key_figures(settings, state), best_trial(settings, state.history)
    x, y = curve_of(settings, state).steps()
    some = thinned(len(x), [len(x) - 1], SPARKS)
    own = (trial.run for trial in state.history if not trial.is_external)
    active = max((run.told_at or run.asked_at for run in own), default=None)
    return {
        "name": name,
        "shown": visible(name, 120),
        **{key: facts[key] for key in ("status", "phase", "direction", "accounts")},
        "best": None if best is None else best.value,
        "trials": len(state.history),
        "curve": {"x": [x[i] for i in some], "y": [y[i] for i in some]},
        "active_at": active,
    }


# ── a study and a trial ────────────────────────────────────────────────────────────────────────


def study_answer(
    about: Mapping[str, Any], settings: Settings, state: State, numbers: Sequence[int]
) -> dict[str, Any]:
    """The key figures of a study and the trials with these numbers, added to `about`."""
    facts, trials = key_figures(settings, state), trial_columns(settings, state, numbers)
    return {**about, "facts": facts, "trials": trials}


def settings_answer(settings: Settings) -> list[dict[str, Any]]:
    """The space and the settings of a study as tables."""
    return [{"head": list(head), "rows": rows} for head, rows in settings_rows(settings)]


def trial_answer(settings: Settings, trial: Trial) -> dict[str, Any]:
    """The stored facts about a trial."""
    run = trial.run
    times = {
        "suggestion": run.suggest_s,
        "queue": run.queue_s,
        "run": run.run_s,
        "CPU": run.cpu_s,
    }
    facts: list[list[Any]] = [
        ["state", trial.state],
        ["value", trial.value],
        ["cost", ("at least " if trial.state == "killed" else "") + amounts(trial.cost)],
        ["expected cost", amounts(trial.predicted)],
        ["worker", visible(run.worker or "") + (f", slot {visible(run.slot)}" if run.slot else "")],
        ["time", ", ".join(f"{word} {s:.3g} s" for word, s in times.items() if s is not None)],
    ]
    return {
        "facts": [[name, fact] for name, fact in facts if fact not in ("", None)],
        "params": [[visible(n, 80), visible(v)] for n, v in trial.params.items()],
        "metrics": [[visible(n, 80), visible(v)] for n, v in run.metrics.items()],
        "copies": {
            kind: multiline(text, MAX_OUTPUT) for kind, text in copies(settings, trial).items()
        },
    }


def why_answer(settings: Settings, state: State, number: int) -> dict[str, Any]:
    """Why a trial was suggested, what was expected of it and its result, with the Pareto front.

    This fits the models to the earlier trials.
    """
    facts = explanation(settings, state, number)
    title = "Expected improvement against cost"
    figure = figure_or_reason("pareto", title, figures.front_figure, settings, state, number)
    short = {visible(n, 40): visible(v, 60) for n, v in facts["params"].items()}
    error = visible(facts["error"] or "", 500) or None
    words = explained({**facts, "params": short, "error": error})
    return {
        "words": [
            [name, visible(entry if isinstance(entry, str) else " / ".join(map(str, entry)), 1000)]
            for name, entry in words.items()
        ],
        "figure": figure_values(figure),
    }


def outputs_answer(trials: Sequence[Trial], printed: Sequence[str]) -> list[dict[str, Any]]:
    """The last lines of the output of each of these trials; those without output are left out."""
    texts = (text or trial.run.tail or "" for trial, text in zip(trials, printed, strict=True))
    tails = (multiline("\n".join(text.splitlines()[-LINES:]), MAX_LINES) for text in texts)
    found = zip(trials, tails, strict=True)
    return [{"number": trial.number, "output": tail} for trial, tail in found if tail]


def log_answer(settings: Settings, state: State, trial: Trial, printed: str) -> dict[str, Any]:
    """The progress reports, the error and the output of a trial.

    The output comes from the log file, or else from the last lines in the database.
    """
    lines = [
        ", ".join(f"{visible(k, 40)}={visible(v, 80)}" for k, v in line.items())
        for line in trial.run.reports[-MAX_REPORTS:]
    ]
    curves = learning_of(settings, state, None) if trial.curve or trial.run.reports else []
    curve = next((c for c in curves if c.number == trial.number), None)
    count = len(trial.run.reports)
    latest = f"{count} progress report{'s' * (count > 1)}" if count else ""
    if curve is not None:
        last = f"he last value is {curve.y[-1]:.6g} at step {curve.x[-1]:g}"
        latest += f"; t{last}" if latest else f"T{last}"
    return {
        "latest": latest,
        "reports": multiline("\n".join(lines), MAX_OUTPUT),
        "error": multiline(trial.error or "", MAX_OUTPUT),
        "output": multiline(printed or trial.run.tail or "", MAX_OUTPUT),
        "figure": figure_values(learning(settings, state, only=trial.number)) if curves else None,
    }
