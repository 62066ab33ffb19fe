"""HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

__all__ = ["html_table"]


def html_table(facts: Mapping[str, object]) -> str:
    """Facts by name as an HTML table, with their text escaped."""
    rows = (
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left; white-space:pre-wrap'>{escape(str(fact))}</td></tr>"
        for name, fact in facts.items()
    )
    return f"<table>{''.join(rows)}</table>"
