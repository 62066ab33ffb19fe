"""The pages of the dashboard, and their parts, which a page loads again after a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.history import Trial
from farthing.models.constraints import is_feasible
from farthing.view.figures.learning import learning, learning_of
from farthing.view.formatting import amounts, counted, spent
from farthing.view.html import Html, element, joined, texts
from farthing.view.plots import svg
from farthing.view.primitives import Figure, visible
from farthing.view.report import explained, status_sentence
from farthing.view.report.parts import (
    best_part,
    gallery,
    ledger_table,
    quick_figures,
    settings_tables,
    table,
    trials_table,
)
from farthing.view.saved import HOW_SAVED, saved_by_pausing

__all__ = [
    "PARTS",
    "address",
    "explanation_part",
    "figures_part",
    "list_page",
    "list_row",
    "list_table",
    "log_part",
    "study_page",
    "study_part",
    "trial_page",
    "trial_part",
]

ROWS = 100  # trials per page
MAX_DIGITS = 9  # of the number of a page
PARTS = ("head", "best", "ledger", "quick", "models", "trials", "settings")
FITTING = "The models are being fitted …"
STATES = ("done", "paused", "failed", "killed", "lost", "running")
MAX_REPORTS = 50  # progress reports shown: the latest


def address(path: str, **query: object) -> str:
    """The address of a page beside this one; names may contain any character."""
    return f"{path}?{urlencode({key: str(value) for key, value in query.items()})}"


def _document(title: str, *body: Html, **about: object) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{visible(title, 80)} · Farthing"),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href="static/style.css"),
        element("script", src="static/live.js", defer=True),
    )
    # The query is encoded, so names may contain any character.
    query = urlencode({key: str(value) for key, value in about.items()}) if about else None
    banner = element("p", id="error-banner", class_="error-banner", hidden=True)
    whole = element(
        "html",
        head,
        element("body", svg.hatches(), element("main", banner, *body), data_query=query),
        lang="en",
    )
    return f"<!doctype html>\n{whole}\n"


def _part(name: str, placeholder: str = "Loading …") -> Html:
    """A placeholder that the script replaces with its part."""
    return element("section", element("p", placeholder, class_="empty"), data_part=name)


# ── the list of studies ────────────────────────────────────────────────────────────────────────


def list_page(database: str) -> str:
    """The page with all studies of a database."""
    return _document("Studies", element("h1", "Studies"), element("p", database), _part("list"))


def list_table(rows: list[list[str | Html]]) -> Html:
    """A table with one row per study."""
    if not rows:
        return element("p", "There are no studies in this database yet.", class_="empty")
    return table(["study", "status", "trials", "best", "spent"], rows)


def list_row(name: str, facts: tuple[Settings, State] | None, error: str) -> list[str | Html]:
    """The row of one study."""
    link = element("a", visible(name, 120), href=address("study", name=name))
    if facts is None:
        return [link, visible(error, 300), "", "", ""]
    settings, state = facts
    best = best_trial(settings, state.history)
    value = "" if best is None else f"{best.value:.6g}"
    status = status_sentence(settings, state, suggestion=False)
    return [link, visible(status, 300), counted(state.history), value, spent(state.ledger)]


# ── a study ────────────────────────────────────────────────────────────────────────────────────


def study_page(name: str, *, changes: bool) -> str:
    """The page of a study, without its parts; the script loads them."""
    return _document(
        name,
        element("nav", element("a", "all studies", href="./")),
        element("h1", visible(name, 300)),
        _part("head"),
        _change_forms(name) if changes else Html(""),
        element("h2", "Best configuration"),
        _part("best"),
        element("h2", "Budget"),
        _part("ledger"),
        element("h2", "Figures"),
        _part("quick"),
        element("h2", "Figures from the models"),
        _part("models", FITTING),
        element("h2", "Trials"),
        _part("trials"),
        element("h2", "Settings"),
        _part("settings"),
        name=name,
    )


def _change_forms(name: str) -> Html:
    """Two forms, so that Enter in the second does not press a button of the first."""
    send = {"method": "post", "action": address("change", name=name), "class_": "changes"}
    stops = (
        ("Stop", "stop", "Running trials finish first."),
        ("Stop now", "stop now", "Running trials are killed."),
    )
    stop = element("form", *(_button(*each) for each in stops), **send)
    budget = element("input", name="budget", placeholder="+10m", aria_label="budget", size=8,
                   required=True)  # fmt: skip
    change = _button(
        "Change budget", "budget", "The new total budget, or an increase such as +10m."
    )
    return joined(stop, element("form", budget, change, **send))


def _button(label: str, action: str, title: str) -> Html:
    return element("button", label, name="action", value=action, title=title)


def study_part(
    name: str, part: str, settings: Settings, state: State, query: Mapping[str, str]
) -> Html:
    """A part of the page of a study that needs no model."""

    def link(number: int) -> str:
        return address("trial", name=name, number=number)

    match part:
        case "head":
            return _head(settings, state)
        case "best":
            return best_part(settings, state, link)
        case "ledger":
            return ledger_table(state.ledger)
        case "quick":
            return gallery(quick_figures(settings, state))
        case "trials":
            return _trials(settings, state, query, link)
        case _:
            return settings_tables(settings)


def _head(settings: Settings, state: State) -> Html:
    running = [
        element(
            "li",
            f"trial {trial.number}: {amounts(trial.cost) or 'starting'}"
            + (f", {trial.curve[-1].value:.6g} at step {trial.step}" if trial.curve else "")
            + (f", about {amounts(trial.predicted)} expected" if trial.predicted else ""),
        )
        for trial in state.history.running[:20]
    ]
    saved = saved_by_pausing(settings, state)
    return joined(
        element("p", status_sentence(settings, state, suggestion=False), class_="status"),
        element("p", f"{len(state.history):,} trials: {counted(state.history) or 'none yet'}. "
                f"Direction: {settings.direction}. {spent(state.ledger) or 'Nothing'} spent."),
        element("p", f"Saved: {saved}. {HOW_SAVED}") if saved.trials else None,
        element("ul", *running) if running else None,
    )  # fmt: skip


def figures_part(figures: list[Figure], *, behind: int | None) -> Html:
    """The figures from the models; `behind` is the number of changes since they were made."""
    if not figures:
        return element("p", FITTING, class_="empty")
    changes = "1 change" if behind == 1 else f"{behind} changes"
    note = f"These figures are {changes} old. New ones are being computed." if behind else None
    return joined(element("p", note, class_="empty") if note else None, gallery(figures))


def _trials(settings: Settings, state: State, query: Mapping[str, str], link: Any) -> Html:
    """One page of the table of trials, the latest or the best first."""
    state_filter, order = query.get("state", ""), query.get("order", "last")
    found = [t for t in state.history if not state_filter or t.state == state_filter]
    if order == "best":
        found = [t for t in found if t.value is not None]
        bounds, sign = settings.bounds, settings.sign
        found.sort(key=lambda t: (not is_feasible(bounds, t), sign * (t.value or 0.0)))
    else:
        found.reverse()
    pages = max((len(found) + ROWS - 1) // ROWS, 1)
    wanted = query.get("page", "")[:MAX_DIGITS]
    page = max(min(int(wanted) if wanted.isdecimal() else 1, pages), 1)

    def link_to(label: str, **query: object) -> Html:
        new = {"state": state_filter, "order": order, "page": 1, **query}
        is_current = new == {"state": state_filter, "order": order, "page": page}
        return (
            element("strong", label) if is_current else element("a", label, href=address("", **new))
        )

    filters = [link_to("all", state=""), *(link_to(kind, state=kind) for kind in STATES)]
    orders = [link_to("latest first", order="last"), link_to("best first", order="best")]
    before, after = ("previous", "next") if order == "best" else ("newer", "older")
    paging = [link_to(before, page=page - 1) if page > 1 else None,
              f"page {page} of {pages}",
              link_to(after, page=page + 1) if page < pages else None]  # fmt: skip
    bar = element("p", joined(*filters, "·", *orders, "·", *paging, by=" "), class_="bar")
    shown = found[(page - 1) * ROWS : page * ROWS]
    none = element("p", "There are no such trials yet.", class_="empty")
    return joined(bar, trials_table(settings, shown, link) if shown else none)


# ── a trial ────────────────────────────────────────────────────────────────────────────────────


def trial_page(name: str, number: int) -> str:
    """The page of a trial, without its parts; the script loads them."""
    return _document(
        f"trial {number}",
        element("nav", element("a", visible(name, 120), href=address("study", name=name))),
        element("h1", f"Trial {number}"),
        _part("trial"),
        element("h2", "Why it was suggested"),
        _part("explanation", "The models are being fitted to the earlier trials …"),
        element("h2", "Reports and output"),
        _part("log"),
        name=name,
        number=number,
    )


def trial_part(trial: Trial) -> Html:
    """The stored facts about a trial."""
    run = trial.run
    times = {
        "suggestion": run.suggest_s,
        "queue": run.queue_s,
        "run": run.run_s,
        "CPU": run.cpu_s,
    }
    rows: list[list[str | Html]] = [
        ["state", element("span", trial.state, class_=f"state {trial.state}")],
        ["value", "" if trial.value is None else f"{trial.value:.6g}"],
        ["cost", ("at least " if trial.state == "killed" else "") + amounts(trial.cost)],
        ["expected cost", amounts(trial.predicted)],
        ["worker", visible(run.worker or "") + (f", slot {visible(run.slot)}" if run.slot else "")],
        ["time", ", ".join(f"{word} {s:.3g} s" for word, s in times.items() if s is not None)],
    ]
    params: list[list[str | Html]] = [[visible(n, 80), visible(v)] for n, v in trial.params.items()]
    metrics: list[list[str | Html]] = [[visible(n, 80), visible(v)] for n, v in run.metrics.items()]
    return joined(
        table(["", ""], rows),
        table(["parameter", "value"], params),
        table(["metric", "value"], metrics) if metrics else None,
    )


def explanation_part(facts: Mapping[str, Any], figure: Figure) -> Html:
    """Why a trial was suggested, what was expected of it and its result, with the Pareto front."""
    short = {visible(n, 40): visible(v, 60) for n, v in facts["params"].items()}
    error = visible(facts["error"] or "", 500) or None
    words = explained({**facts, "params": short, "error": error})
    rows: list[list[str | Html]] = [
        [name, visible(entry if isinstance(entry, str) else " / ".join(map(str, entry)), 1000)]
        for name, entry in words.items()
    ]
    return joined(table(["", ""], rows), gallery([figure]))


def log_part(settings: Settings, state: State, trial: Trial, printed: str) -> Html:
    """The progress reports, the error and the output of a trial.

    The output comes from the log file, or else from the last lines in the database.
    """
    printed = printed or trial.run.tail or ""
    lines = [
        ", ".join(f"{visible(k, 40)}={visible(v, 80)}" for k, v in line.items())
        for line in trial.run.reports[-MAX_REPORTS:]
    ]
    figure = learning(settings, state, only=trial.number)
    curve = next((c for c in learning_of(settings, state, None) if c.number == trial.number), None)
    count = len(trial.run.reports)
    latest = f"{count} progress report{'s' * (count > 1)}" if count else ""
    if curve is not None:
        last = f"he last value is {curve.y[-1]:.6g} at step {curve.x[-1]:g}"
        latest += f"; t{last}" if latest else f"T{last}"
    return joined(
        element(
            "p",
            latest or "This trial has reported no progress.",
            class_=None if latest else "empty",
        ),
        None if figure.empty else svg.inline(figure),
        element("pre", texts("\n".join(lines), 20_000)) if lines else None,
        element("pre", texts(trial.error, 20_000), class_="error") if trial.error else None,
        element("h3", "Output") if printed else None,
        element("pre", texts(printed, 20_000), class_="printed") if printed else None,
    )
