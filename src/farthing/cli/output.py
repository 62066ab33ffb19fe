"""Rows as a table for people, or as JSON or CSV for programs."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

import click

from farthing.data.tabular import to_csv, to_json
from farthing.view.formatting import shown

__all__ = ["Unbroken", "print_one", "print_rows", "say_changes"]

Row = Mapping[str, Any]
UNLIMITED = 10_000  # columns of a screen that is a file
LEAST = 16  # columns that the last column of a line has
GAP = "  "


class Unbroken:
    """A stream to print to that may be closed or full: a run goes on without being seen.

    Attributes:
        lost: why it cannot be written to any more.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        """Print, or let it be."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        """See that it is printed, or let it be."""
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        """From now on it goes nowhere, also what is still to be flushed."""
        self.lost = self.lost or error
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_rows(
    rows: Sequence[Row],
    kind: str,
    *,
    table: Sequence[Row] | None = None,
    columns: Sequence[str] = (),
    fits: bool = False,
) -> None:
    """Print rows.

    Args:
        kind: table, json or csv.
        table: the same in a person's words; by default as they are.
        columns: of the CSV, whatever the rows have.
        fits: a row of the table is one line, whose last column gives way to a narrow screen.
    """
    if kind == "json":
        click.echo(to_json(rows))
    elif kind == "csv":
        click.echo(to_csv(rows, columns), nl=False)
    elif fits:
        _print_lines(rows if table is None else table)
    else:
        _print_table(rows if table is None else table)


def print_one(row: Row, kind: str, *, table: Mapping[str, Any]) -> None:
    """Print one row: as a table, a line for each of its facts."""
    if kind == "json":
        click.echo(to_json(row))
    elif kind == "csv":
        click.echo(to_csv([row]), nl=False)
    else:
        indent = max(map(len, table)) + 1 + len(GAP)
        for name, value in table.items():
            said = value if isinstance(value, list) else [value]
            lines = [line for each in said for line in _wrapped(shown(each), indent)]
            for label, line in zip([f"{name}:", *[""] * len(lines)], lines, strict=False):
                click.echo(f"{label:<{indent}}{line}")


def _print_lines(rows: Sequence[Row]) -> None:
    """A line for each row. A screen that is too narrow loses columns from the right but one."""
    from rich.cells import cell_len, set_cell_size

    if not rows:
        click.echo("There are none.", err=True)
        return
    named = [name for name in rows[0] if any(shown(row[name]) for row in rows)]
    cells = [named, *([shown(row[name]) for name in named] for row in rows)]
    while True:
        widths = [max(cell_len(line[i]) for line in cells) for i in range(len(cells[0]) - 1)]
        room = _width() - sum(each + len(GAP) for each in widths)
        if room >= LEAST or len(widths) <= 3:
            break
        cells = [[*line[:-2], line[-1]] for line in cells]
    for number, line in enumerate(cells):
        padded = [set_cell_size(cell, size) for cell, size in zip(line, widths, strict=False)]
        text = GAP.join([*padded, _cut(line[-1], room)] if room > 0 else padded).rstrip()
        click.echo(click.style(text, bold=True) if number == 0 else text)


def _wrapped(text: str, indent: int) -> list[str]:
    """A text as lines of the screen."""
    if text[:1] == " ":  # code, or a traceback: it stays as it is
        return [text]
    room = max(_width() - indent, LEAST)  # words stay whole: paths are copied
    return textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def _cut(text: str, room: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + "…"


def say_changes(changed: Mapping[str, tuple[str, str]]) -> None:
    """Print what is otherwise now, a line for each setting."""
    for name, (was, now) in changed.items():
        click.echo(f"Changed: {name.replace('_', '-')}: {was} -> {now}")


def _print_table(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        click.echo("There are none.", err=True)
        return
    console = Console(file=sys.stdout, width=_width())
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(shown(row.get(name))) for name in columns))
    console.print(table)
