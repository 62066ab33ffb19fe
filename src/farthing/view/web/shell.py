"""The places of pages that their scripts fill, in the dashboard and in a report."""

from __future__ import annotations

from farthing.view.html import Html, element, joined

__all__ = ["error_banner", "studies_shell", "study_shell"]

LOADING = element("p", "Loading …", class_="empty")


def error_banner() -> Html:
    """The place of a message that concerns the whole page."""
    return element("p", id="error-banner", class_="error-banner", role="alert", hidden=True)


def studies_shell(title: str, note: str = "") -> Html:
    """The list of studies, and the comparison of some of them."""
    nav = element("nav", element("h1", title))
    return joined(
        element("header", nav, element("span", note, class_="note"), class_="top"),
        element(
            "main",
            error_banner(),
            element("div", element("div", LOADING, id="studies"), class_="sheet"),
            element("div", id="comparison", class_="sheet", hidden=True),
        ),
    )


def study_shell(nav: Html, forms: Html | None = None, lead: str | None = None) -> Html:
    """The header, the key figures, the main chart, the tabs, and the panel of a trial.

    Args:
        forms: what changes the study.
        lead: a first paragraph.
    """
    tabs = element("div", id="tabs", role="tablist", aria_label="parts of the study")
    return joined(
        element("header", nav, element("div", id="status"), forms, class_="top"),
        element(
            "main",
            error_banner(),
            element("p", lead, class_="lead") if lead is not None else None,
            element("div", id="key-figures"),
            element("section", LOADING, id="curve", class_="sheet", aria_label="best value"),
            element("div", tabs, element("div", id="tab", role="tabpanel"), class_="sheet"),
        ),
        element("aside", id="trial", hidden=True, aria_label="trial"),
    )
