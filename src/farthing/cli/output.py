"""Rows as a table for people, or as JSON or CSV for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from farthing.tabular import to_csv, to_json
from farthing.words import shown

__all__ = ["print_one", "print_rows"]

Row = Mapping[str, Any]
UNLIMITED = 10_000  # columns of a screen that is a file


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
