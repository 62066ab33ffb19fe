"""A page that needs no other file. Its policy permits only its own script and style sheets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from farthing.view.html import Html, element
from farthing.view.web.assets import hash_of

__all__ = ["data_part", "standalone"]


def standalone(title: str, styles: Html, body: Html, *, sheets: Sequence[str], code: str) -> str:
    """The page.

    Args:
        styles: the elements that contain the sheets.
        sheets: the style sheets that the page may use.
        code: the script that the page runs.
    """
    rules = (
        f"default-src 'none'; img-src data:; style-src {' '.join(map(hash_of, sheets))}; "
        f"script-src {hash_of(code)}; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Html(rules)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · Farthing"),
        styles,
    )
    run = element("script", Html(code))
    return f"<!doctype html>\n{element('html', head, element('body', body, run), lang='en')}\n"


def data_part(name: str, data: Any) -> Html:
    """Data for the script of a page, which finds it by its name; it cannot end its element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return element("script", Html(text), type="application/json", id=name)
