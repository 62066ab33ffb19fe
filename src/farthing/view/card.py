"""A study as the output of a notebook cell: its key figures and its main chart.

The chart is a page inside a frame, so that its styles, names and scripts are apart from those of
the notebook and of other outputs. It is stored in the notebook and loads nothing. A viewer that
removes frames and styles, as GitHub does, shows the static part: a table and a picture.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import Any

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.notebook import html_table
from farthing.view.figures.curve import curve, curve_of
from farthing.view.formatting import account_line, best_line, counted, why_no_best
from farthing.view.html import Html, element, joined
from farthing.view.plots import svg
from farthing.view.primitives import Heat, Line, thinned, visible
from farthing.view.report.report_facts import status_sentence
from farthing.view.web import SHEET, key_figures, trial_columns
from farthing.view.web.assets import CARD_SCRIPTS, script
from farthing.view.web.key_figures import next_trial_values
from farthing.view.web.standalone import data_part, standalone

__all__ = ["card", "picture_of", "study_card"]

MAX_TRIALS = 2000  # points of the chart, besides those that improved the best value
MAX_BARS = 300  # trials in the static picture, besides those
MAX_FITTED = 500  # trials up to which the models are fitted, which takes below a second
DIGITS = 6  # of a number, as many as the chart shows
HEIGHT = 530  # pixels of the frame


def study_card(name: str, settings: Settings, state: State) -> str:
    """The card of a study or of an optimizer."""
    best, history = best_trial(settings, state.history), state.history
    why = "" if best is not None else why_no_best(settings.bounds, history)
    facts = {
        "state": status_sentence(settings, state, suggestion=False),
        "trials": counted(history) or "none yet",
        "best": why if best is None else best_line(best),
        "spent": "; ".join(account_line(state.ledger, resource) for resource in state.ledger),
    }
    return card(name, facts, settings, state)


def card(title: str, facts: Mapping[str, str], settings: Settings, state: State) -> str:
    """The card of a study.

    Args:
        facts: the table of the static part; `stopped` is also the status of the chart.
    """
    page = _page(title, facts.get("stopped"), settings, state)
    # A name of its own: a style of one output applies to all outputs of a notebook, and of another
    # output the frame may have been removed.
    name = f"farthing-{hashlib.sha256(page.encode()).hexdigest()[:12]}"
    hidden = element("style", Html(f".{name}{{display:none}}"))  # only where styles are kept
    frame = element(
        "iframe",
        title=f"Farthing: {visible(title, 80)}",
        sandbox="allow-scripts",
        srcdoc=Html(escape(page)),
        width="100%",
        height=HEIGHT,
        style="border:0;max-width:1100px",
    )
    static = joined(
        element("p", element("strong", visible(title, 300))),
        Html(html_table({word: visible(fact, 2000) for word, fact in facts.items()})),
        picture_of(settings, state),
    )
    return joined(hidden, frame, element("div", static, class_=name))


def picture_of(settings: Settings, state: State) -> Html:
    """The best value against cost as a static picture."""
    drawn = curve(settings, state, most=MAX_BARS)
    panels = tuple(
        replace(panel, layers=tuple(_without_texts(layer) for layer in panel.layers))
        for panel in drawn.panels
    )
    source = base64.b64encode(svg.document(replace(drawn, panels=panels)).encode()).decode()
    words = f"{drawn.title}. {drawn.empty or drawn.caption}"
    return element("img", src=f"data:image/svg+xml;base64,{source}", alt=words)


def _without_texts(layer: Any) -> Any:
    """A picture shows no texts under the pointer."""
    return layer if isinstance(layer, Line | Heat) else replace(layer, texts=())


def _page(title: str, status: str | None, settings: Settings, state: State) -> str:
    found, history = curve_of(settings, state), state.history
    some = thinned(len(found.intervals), found.improved, MAX_TRIALS)
    shown = [found.intervals[i] for i in some]
    facts = key_figures(settings, state)
    if status is not None:
        facts |= {"status": visible(status, 500), "phase": "stopped"}
    data = {
        "facts": facts,
        "forecast": next_trial_values(settings, state) if len(history) <= MAX_FITTED else None,
        "trials": trial_columns(settings, state, [each.trial.number for each in shown]),
        "ends": [each.end for each in shown],
        "left_out": len(found.intervals) - len(shown),
    }
    body = joined(
        element(
            "main",
            element(
                "div",
                element("h1", visible(title, 300)),
                element("div", id="status"),
                class_="line",
            ),
            element("div", id="key-figures"),
            element("section", id="curve", aria_label="best value"),
            class_="notebook",
        ),
        data_part("card-data", _rounded(data)),
    )
    styles = element("style", Html(SHEET))
    return standalone(title, styles, body, sheets=[SHEET], code=script(CARD_SCRIPTS))


def _rounded(value: Any) -> Any:
    """Numbers with the digits that are shown, which makes a notebook smaller."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value
