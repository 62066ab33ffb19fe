"""The pages of the dashboard, and their parts, which are asked for again when something changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.history import Trial
from farthing.view.figures.learning import learning_of
from farthing.view.formatting import amounts, counted, spent
from farthing.view.html import Html, element, joined, texts
from farthing.view.plots import svg
from farthing.view.primitives import Figure, visible
from farthing.view.report import explained, standing
from farthing.view.report.parts import (
    best_part,
    gallery,
    ledger_table,
    made_with,
    quick_figures,
    table,
    trials_table,
)

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

ROWS = 100  # of trials in a page
PARTS = ("head", "best", "ledger", "quick", "models", "trials", "settings")
STATES = ("done", "failed", "killed", "lost", "running")
PROGRESS = 50  # lines shown, the last ones


def address(path: str, **query: object) -> str:
    """Of a page: names may hold anything."""
    return f"{path}?{urlencode({key: str(value) for key, value in query.items()})}"


def _document(title: str, *body: Html, **about: object) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{visible(title, 80)} · Farthing"),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href="/static/style.css"),
        element("script", src="/static/live.js", defer=True),
    )
    # Encoded, so that whatever is in a name arrives as it is.
    query = urlencode({key: str(value) for key, value in about.items()}) if about else None
    trouble = element("p", id="trouble", class_="trouble", hidden=True)
    whole = element(
        "html",
        head,
        element("body", svg.hatches(), element("main", trouble, *body), data_query=query),
        lang="en",
    )
    return f"<!doctype html>\n{whole}\n"


def _part(name: str, said: str = "Loading …") -> Html:
    """A place that is filled when its part has come."""
    return element("section", element("p", said, class_="empty"), data_part=name)


# ── the list of studies ────────────────────────────────────────────────────────────────────────


def list_page(database: str) -> str:
    """All studies of a database."""
    return _document("Studies", element("h1", "Studies"), element("p", database), _part("list"))


def list_table(rows: list[list[str | Html]]) -> Html:
    """A line for each study."""
    if not rows:
        return element("p", "There is no study in this database yet.", class_="empty")
    return table(["study", "", "trials", "best", "spent"], rows)


def list_row(name: str, facts: tuple[Settings, State] | None, trouble: str) -> list[str | Html]:
    """One of them."""
    link = element("a", visible(name, 120), href=address("/study", name=name))
    if facts is None:
        return [link, visible(trouble, 300), "", "", ""]
    settings, state = facts
    best = best_trial(settings, state.history)
    value = "" if best is None else f"{best.value:.6g}"
    where = standing(settings, state, suggestion=False)
    return [link, visible(where, 300), counted(state.history), value, spent(state.ledger)]


# ── a study ────────────────────────────────────────────────────────────────────────────────────


def study_page(name: str, *, changes: bool) -> str:
    """The frame of a study's page; its parts come when they are ready."""
    return _document(
        name,
        element("nav", element("a", "all studies", href="/")),
        element("h1", visible(name, 300)),
        _part("head"),
        _change_forms(name) if changes else Html(""),
        element("h2", "The best"),
        _part("best"),
        element("h2", "The money"),
        _part("ledger"),
        element("h2", "Figures"),
        _part("quick"),
        element("h2", "What the models say"),
        _part("models", "The models are being fitted …"),
        element("h2", "Trials"),
        _part("trials"),
        element("h2", "Made with"),
        _part("settings"),
        name=name,
    )


def _change_forms(name: str) -> Html:
    """Two forms: Enter in the second must not press a button of the first."""
    send = {"method": "post", "action": address("/change", name=name), "class_": "changes"}
    stops = (("Stop", "stop", "What runs is let finish."),
             ("Stop now", "stop now", "What runs is killed."))  # fmt: skip
    stop = element("form", *(_button(*each) for each in stops), **send)
    told = element("input", name="budget", placeholder="+10m", aria_label="budget", size=8,
                   required=True)  # fmt: skip
    change = _button("Change budget", "budget", "All that may be spent, or +10m.")
    return joined(stop, element("form", told, change, **send))


def _button(said: str, action: str, title: str) -> Html:
    return element("button", said, name="action", value=action, title=title)


def study_part(
    name: str, part: str, settings: Settings, state: State, query: Mapping[str, str]
) -> Html:
    """A part of a study's page that takes no model."""

    def link(number: int) -> str:
        return address("/trial", name=name, number=number)

    match part:
        case "head":
            return _head(settings, state)
        case "best":
            return best_part(settings, best_trial(settings, state.history), link)
        case "ledger":
            return ledger_table(state.ledger)
        case "quick":
            return gallery(quick_figures(settings, state))
        case "trials":
            return _trials(settings, state, query, link)
        case _:
            return made_with(settings)


def _head(settings: Settings, state: State) -> Html:
    running = [
        element(
            "li",
            f"trial {trial.number}: {amounts(trial.cost) or 'starting'}"
            + (f", about {amounts(trial.predicted)} expected" if trial.predicted else ""),
        )
        for trial in state.history.running[:20]
    ]
    return joined(
        element("p", standing(settings, state, suggestion=False), class_="standing"),
        element("p", f"{len(state.history):,} trials: {counted(state.history) or 'none yet'}. "
                f"To {settings.direction}. {spent(state.ledger) or 'Nothing'} spent."),
        element("ul", *running) if running else None,
    )  # fmt: skip


def figures_part(figures: list[Figure], *, behind: int | None) -> Html:
    """What the models say; `behind`: so many changes ago."""
    if not figures:
        return element("p", "The models are being fitted …", class_="empty")
    said = f"As it was {behind} changes ago; it is being worked out again." if behind else None
    return joined(element("p", said, class_="empty") if said else None, gallery(figures))


def _trials(settings: Settings, state: State, query: Mapping[str, str], link: Any) -> Html:
    """A page of trials: the last first, or the best."""
    wanted, order = query.get("state", ""), query.get("order", "last")
    found = [t for t in state.history if not wanted or t.state == wanted]
    if order == "best":
        found = [t for t in found if t.value is not None]
        found.sort(key=lambda t: settings.sign * (t.value or 0.0))
    else:
        found.reverse()
    pages = max((len(found) + ROWS - 1) // ROWS, 1)
    page = min(int(query["page"]) if query.get("page", "").isdecimal() else 1, pages)
    page = max(page, 1)

    def go(said: str, **to: object) -> Html:
        new = {"state": wanted, "order": order, "page": 1, **to}
        same = new == {"state": wanted, "order": order, "page": page}
        return element("strong", said) if same else element("a", said, href=address("", **new))

    choices = [go("all", state=""), *(go(state_, state=state_) for state_ in STATES)]
    orders = [go("last first", order="last"), go("best first", order="best")]
    turns = [go("newer", page=page - 1) if page > 1 else None,
             f"page {page} of {pages}",
             go("older", page=page + 1) if page < pages else None]  # fmt: skip
    bar = element("p", joined(*choices, "·", *orders, "·", *turns, by=" "), class_="bar")
    shown = found[(page - 1) * ROWS : page * ROWS]
    none = element("p", "None yet.", class_="empty")
    return joined(bar, trials_table(shown, link) if shown else none)


# ── a trial ────────────────────────────────────────────────────────────────────────────────────


def trial_page(name: str, number: int) -> str:
    """The frame of a trial's page."""
    return _document(
        f"trial {number}",
        element("nav", element("a", visible(name, 120), href=address("/study", name=name))),
        element("h1", f"Trial {number}"),
        _part("trial"),
        element("h2", "Why it was chosen"),
        _part("explanation", "Worked out again from the trials before it …"),
        element("h2", "What it reported"),
        _part("log"),
        name=name,
        number=number,
    )


def trial_part(trial: Trial) -> Html:
    """What is stored of a trial."""
    run = trial.run
    times = {"thought": run.suggest_s, "queued": run.queue_s, "ran": run.run_s, "CPU": run.cpu_s}
    rows: list[list[str | Html]] = [
        ["state", element("span", trial.state, class_=f"state {trial.state}")],
        ["value", "" if trial.value is None else f"{trial.value:.6g}"],
        ["cost", amounts(trial.cost) + (" at least" if trial.state == "killed" else "")],
        ["expected to cost", amounts(trial.predicted)],
        ["worker", visible(run.worker or "") + (f", slot {visible(run.slot)}" if run.slot else "")],
        ["took", ", ".join(f"{word} {s:.3g} s" for word, s in times.items() if s is not None)],
    ]
    params: list[list[str | Html]] = [[visible(n, 80), visible(v)] for n, v in trial.params.items()]
    metrics: list[list[str | Html]] = [[visible(n, 80), visible(v)] for n, v in run.metrics.items()]
    return joined(
        table(["", ""], rows),
        table(["parameter", "value"], params),
        table(["metric", "value"], metrics) if metrics else None,
    )


def explanation_part(facts: Mapping[str, Any], figure: Figure) -> Html:
    """Its place on the front, what it was expected to buy and to cost, and what it did."""
    short = {visible(n, 40): visible(v, 60) for n, v in facts["params"].items()}
    error = visible(facts["error"] or "", 500) or None
    words = explained({**facts, "params": short, "error": error})
    rows: list[list[str | Html]] = [
        [name, visible(said if isinstance(said, str) else " / ".join(map(str, said)), 1000)]
        for name, said in words.items()
    ]
    return joined(table(["", ""], rows), gallery([figure]))


def log_part(settings: Settings, state: State, trial: Trial, printed: str) -> Html:
    """Its progress, its error, and what it printed: the file, or the last lines in its row."""
    printed = printed or trial.run.tail or ""
    lines = [
        ", ".join(f"{visible(k, 40)}={visible(v, 80)}" for k, v in line.items())
        for line in trial.run.reports[-PROGRESS:]
    ]
    curve = next((c for c in learning_of(settings, state, None) if c.number == trial.number), None)
    latest = f"{len(trial.run.reports)} lines of progress" if trial.run.reports else ""
    if curve is not None:
        latest += f"; the last value is {curve.y[-1]:.6g} at step {curve.x[-1]:g}"
    return joined(
        element("p", latest or "It has reported nothing.", class_=None if latest else "empty"),
        element("pre", texts("\n".join(lines), 20_000)) if lines else None,
        element("pre", texts(trial.error, 20_000), class_="error") if trial.error else None,
        element("h3", "What it printed") if printed else None,
        element("pre", texts(printed, 20_000), class_="printed") if printed else None,
    )
