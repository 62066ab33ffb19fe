"""Rows as a table for people, or as JSON or CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from farthing.ledger import format_amount

__all__ = ["amounts", "print_one", "print_rows", "shown", "shown_params", "to_csv", "to_json"]

Row = Mapping[str, Any]
UNLIMITED = 10_000  # columns of a screen that is a file


def to_json(data: Any) -> str:
    """Data as JSON, one level to a line."""
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


def to_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV: `params` and dicts by resource become a column for each entry."""
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(row: Row) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            prefix = "param" if name == "params" else name
            cells |= {f"{prefix}_{key}": item for key, item in _flat(value).items()}
        else:
            cells[name] = json.dumps(value) if isinstance(value, list) else value
    return cells


def print_rows(rows: Sequence[Row], kind: str, *, table: Sequence[Row] | None = None) -> None:
    """Print rows.

    Args:
        kind: table, json or csv.
        table: the same in a person's words; by default as they are.
    """
    if kind == "json":
        click.echo(to_json(rows))
    elif kind == "csv":
        click.echo(to_csv(rows), nl=False)
    else:
        _print_table(rows if table is None else table)


def print_one(row: Row, kind: str, *, table: Mapping[str, Any]) -> None:
    """Print one row: as a table, a line for each of its facts."""
    if kind == "json":
        click.echo(to_json(row))
    elif kind == "csv":
        click.echo(to_csv([row]), nl=False)
    else:
        width = max(map(len, table)) + 1
        for name, value in table.items():
            click.echo(f"{name + ':':<{width}}  {shown(value)}")


def _print_table(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else UNLIMITED)
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(shown(row.get(name))) for name in columns))
    console.print(table)


def shown(value: Any) -> str:
    """A value for people."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if text.isprintable() else repr(text)


def shown_params(params: Mapping[str, Any]) -> str:
    """Parameters in one line."""
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={shown(value)}"
        for name, value in params.items()
    )


def amounts(cost: Mapping[str, float]) -> str:
    """A cost in one line."""
    return ", ".join(format_amount(resource, amount) for resource, amount in cost.items())
