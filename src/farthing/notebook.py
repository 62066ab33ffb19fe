"""HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

__all__ = ["html_rows", "html_table"]


def html_table(facts: Mapping[str, object]) -> str:
    """Facts by name as an HTML table, with their text escaped."""
    rows = (
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left; white-space:pre-wrap'>{escape(str(fact))}</td></tr>"
        for name, fact in facts.items()
    )
    return f"<table>{''.join(rows)}</table>"


def html_rows(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows below the names of their columns as an HTML table, with their text escaped."""
    lines = [_line("th", names), *(_line("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _line(kind: str, cells: Iterable[object]) -> str:
    texts = (f"<{kind} style='text-align:left'>{escape(str(cell))}</{kind}>" for cell in cells)
    return f"<tr>{''.join(texts)}</tr>"
