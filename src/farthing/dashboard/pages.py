"""The pages of the dashboard, without their content: the scripts load and show it."""

from __future__ import annotations

from urllib.parse import urlencode

from farthing.view.html import Html, element
from farthing.view.primitives import visible
from farthing.view.web import SCRIPTS
from farthing.view.web.shell import studies_shell, study_shell

__all__ = ["address", "list_page", "study_page"]


def address(path: str, **query: object) -> str:
    """The address of a page beside this one; names may contain any character."""
    return f"{path}?{urlencode({key: str(value) for key, value in query.items()})}"


def _document(title: str, *body: Html, page: str, **about: object) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{visible(title, 80)} · Farthing"),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href="static/style.css"),
        *(element("script", src=f"static/{name}", defer=True) for name in SCRIPTS),
    )
    # The query is encoded, so names may contain any character.
    query = urlencode({key: str(value) for key, value in about.items()}) if about else None
    whole = element(
        "html", head, element("body", *body, data_page=page, data_query=query), lang="en"
    )
    return f"<!doctype html>\n{whole}\n"


def list_page(database: str) -> str:
    """The page with all studies of a database."""
    return _document("Studies", studies_shell("Studies", database), page="studies")


def study_page(name: str, *, changes: bool) -> str:
    """The page of a study."""
    nav = element("nav", element("a", "Studies", href="./"), "/", element("h1", visible(name, 300)))
    forms = _change_forms(name) if changes else None
    return _document(name, study_shell(nav, forms), page="study", name=name)


def _change_forms(name: str) -> Html:
    """Two forms, so that Enter in the second does not press a button of the first."""
    send = {"method": "post", "action": address("change", name=name), "class_": "changes"}
    stops = (
        ("Stop", "stop", "Running trials finish first."),
        ("Stop now", "stop now", "Running trials are killed."),
    )
    stop = element("form", *(_button(*each) for each in stops), **send)
    budget = element(
        "input", name="budget", placeholder="+10m", aria_label="budget", size=8, required=True
    )
    change = _button(
        "Change budget", "budget", "The new total budget, or an increase such as +10m."
    )
    return Html(stop + element("form", budget, change, **send))


def _button(label: str, action: str, title: str) -> Html:
    return element("button", label, name="action", value=action, title=title)
