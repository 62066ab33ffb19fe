"""The report of one or several studies: one HTML page that loads nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from farthing.core.part_reasons import reasons_of
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.history import History
from farthing.view import figures
from farthing.view.formatting import amounts, spent
from farthing.view.html import Html, element, joined, text
from farthing.view.learnt import learnt_line
from farthing.view.plots import svg
from farthing.view.primitives import Figure, visible
from farthing.view.report.explained import part_sentence
from farthing.view.report.parts import (
    best_part,
    gallery,
    ledger_table,
    quick_figures,
    settings_tables,
    slow_figures,
    table,
    trials_table,
)
from farthing.view.report.report_facts import ReportFacts, lead, report_facts
from farthing.view.saved import HOW_SAVED
from farthing.view.training_parts import parts_of
from farthing.view.web import SHEET, answers, figure_values, forecast_values, script
from farthing.view.web.shell import studies_shell, study_shell
from farthing.view.web.standalone import data_part, standalone

__all__ = ["STYLE", "page"]

MAX_TRIALS = 1000  # listed: the latest, and the best trial
MAX_PAUSED = 200  # trainings whose parts are listed: the latest
STYLE = files("farthing.view.report").joinpath("style.css").read_text("utf-8") + svg.STYLE
SCRIPT = files("farthing.view.report").joinpath("copy.js").read_text("utf-8")

Studies = Mapping[str, tuple[Settings, State]]


def page(studies: Studies) -> str:
    """The report of one study, or of several studies with a comparison.

    Scripts draw it on a screen, as the dashboard does. Its static part is what a printer and a
    reader without scripts see.
    """
    names, made = list(studies), [_made(name, *each) for name, each in studies.items()]
    title, static = names[0], made[0].static
    data: dict[str, Any] = {"studies": [each.data for each in made]}
    nav: tuple[Html, ...] = (element("h1", visible(title, 300)),)
    several = None
    if len(names) > 1:
        title, figure = f"{len(names)} studies", figures.comparison(studies)
        static = _several(title, names, figure, made)
        several = element("div", studies_shell(title), class_="screen", id="all", hidden=True)
        nav = (element("a", "Studies", href="?"), text("/"), element("h1", ""))
        listed = [answers.list_entry(name, *each) for name, each in studies.items()]
        data |= {"list": listed, "comparison": figure_values(figure)}
    live = study_shell(element("nav", *nav), lead=made[0].lead if several is None else "")
    body = joined(
        svg.hatches(),
        several,
        element("div", live, class_="screen", id="one", hidden=True),
        element("main", static, class_="paper"),
        data_part("report-data", data),
    )
    styles = joined(
        element("style", Html(SHEET), media="screen"),
        element("style", Html(STYLE), media="print"),
        element("noscript", element("style", Html(STYLE))),
    )
    return standalone(title, styles, body, sheets=[SHEET, STYLE], code=SCRIPT + script())


class _Made(NamedTuple):
    """One study of a report: its first paragraph, its static part, and data for the scripts."""

    lead: str
    static: Html
    data: dict[str, Any]


def _made(name: str, settings: Settings, state: State) -> _Made:
    drawn, facts = list(_figures(settings, state)), report_facts(name, settings, state)
    words = lead(facts, settings)
    data = {"name": name, "shown": visible(name, 300), "lead": words}
    data |= _data(settings, state, drawn)
    return _Made(words, _study(facts, settings, state, drawn), data)


def _several(title: str, names: Sequence[str], figure: Figure, made: Sequence[_Made]) -> Html:
    links = (element("a", name, href=f"#study-{i}") for i, name in enumerate(names))
    contents = element("ul", *(element("li", link) for link in links))
    parts = (element("section", each.static, id=f"study-{i}") for i, each in enumerate(made))
    return joined(element("h1", title), contents, svg.inline(figure), *parts)


def _figures(settings: Settings, state: State) -> Iterator[Figure]:
    yield from quick_figures(settings, state)
    yield from slow_figures(settings, state)


def _data(settings: Settings, state: State, drawn: Sequence[Figure]) -> dict[str, Any]:
    """What the scripts of the report show: the trials, and the figures of each tab."""
    best, by_tab = best_trial(settings, state.history), dict[str, list[dict[str, Any]]]()
    for figure in drawn:
        if figure.name != answers.OWN_CHART:
            by_tab.setdefault(answers.tab_of(figure), []).append(figure_values(figure))
    about = {"version": 1, "forecast": forecast_values(settings, state)}
    return {
        "study": answers.study_answer(about, settings, state, range(len(state.history))),
        "figures": by_tab,
        "settings": answers.settings_answer(settings),
        "best": None
        if best is None
        else {"number": best.number, **answers.trial_answer(settings, best)},
    }


def _study(facts: ReportFacts, settings: Settings, state: State, drawn: Sequence[Figure]) -> Html:
    return joined(
        element("h1", facts.name),
        element("p", lead(facts, settings), class_="lead"),
        _tiles(facts, len(state.history)),
        gallery(drawn[:1]),
        _head(facts),
        element(
            "div",
            element("div", element("h2", "Best configuration"), best_part(settings, state)),
            element("div", element("h2", "Budget"), ledger_table(state.ledger)),
            class_="beside",
        ),
        element("h2", "Figures"),
        gallery(drawn[1:]),
        element("div", element("h2", "Trials"), _trials(settings, state.history), class_="all"),
        _parts(state.history),
        element("h2", "Settings"),
        element("div", settings_tables(settings), class_="beside"),
    )


def _tiles(facts: ReportFacts, trials: int) -> Html:
    """The key figures of the dashboard: a title, a number and a note each."""
    best, following = facts.best, facts.next_trial
    paid, of, limits = spent(facts.ledger).partition(" of ")
    tiles = [("Best value", f"{best.value:.6g}", f"trial {best.number}")] if best else []
    tiles += [
        ("Spent", paid or "nothing", of + limits),
        ("Trials", f"{trials:,}", facts.trials if trials else ""),
    ]
    if following is not None:
        price = f" for {amounts(following.cost)}" if following.cost else ""
        tiles.append(("One more trial", f"{following.gain:.3g}", f"expected improvement{price}"))
    made = (
        element("div", element("h4", title), element("strong", number), element("p", note))
        for title, number, note in tiles
    )
    return element("div", *made, class_="tiles")


def _head(facts: ReportFacts) -> Html:
    return joined(
        element("p", facts.status, class_="status"),
        element("p", f"Trials: {facts.trials}. Direction: {facts.direction}."),
        element("p", f"Saved: {facts.saved}. {HOW_SAVED}", class_="saved")
        if facts.saved.trials
        else None,
        element("p", visible(f"Learns from {learnt_line(facts.learnt)}.", 2000), class_="learnt")
        if facts.learnt
        else None,
        element("p", f"Next trial: {facts.forecast}.", class_="next"),
    )


def _trials(settings: Settings, history: History) -> Html:
    if len(history) <= MAX_TRIALS:
        return trials_table(settings, list(reversed(history.trials)))
    last = list(reversed(history.trials[-MAX_TRIALS:]))
    best = best_trial(settings, history)
    if best is not None and best.number < len(history) - MAX_TRIALS:
        last.append(best)
    note = (
        f"The latest {MAX_TRIALS:,} of {len(history):,} trials, and the best. To get all trials: "
    )
    shown = trials_table(settings, last)
    return joined(element("p", note, element("code", "farthing export")), shown)


def _parts(history: History) -> Html | None:
    """The parts of the latest trainings that were paused: their steps, costs and reasons."""
    paused = [trial for trial in history if trial.curve and len(reasons_of(trial)) > 1]
    if not paused:
        return None
    shown = list(reversed(paused[-MAX_PAUSED:]))
    rows = [
        [str(trial.number), str(part["part"]), visible(part_sentence(part), 1000)]
        for trial in shown
        for part in parts_of(trial)
    ]
    latest = f"the latest {MAX_PAUSED} of {len(paused):,}" if len(paused) > MAX_PAUSED else "all"
    title = element("summary", f"Parts of trainings that were paused or continued: {latest}")
    return element("details", title, table(["trial", "part", "what happened"], rows))
