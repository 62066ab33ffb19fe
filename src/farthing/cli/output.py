"""Print rows as a table, as JSON or as CSV."""

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

__all__ = ["ClosableStream", "print_changes", "print_one", "print_rows"]

Row = Mapping[str, Any]
UNLIMITED = 10_000  # characters in a line if the output is not a terminal
MIN_WIDTH = 16  # characters that the last column of a line has at least
GAP = "  "


class ClosableStream:
    """An output stream whose file may be closed or full: the run continues without output.

    Attributes:
        error: the first error of writing; None if there was none.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write a text; ignore it if the stream is closed."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._discard(error)
            return len(text)

    def flush(self) -> None:
        """Flush the stream; do nothing if it is closed."""
        try:
            self._stream.flush()
        except OSError as error:
            self._discard(error)

    def _discard(self, error: OSError) -> None:
        """Send all further output, and what is not flushed yet, to the null device."""
        self.error = self.error or error
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

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
        table: the rows with formatted values, for a table; by default the rows themselves.
        columns: the columns of the CSV, even if no row has a value for them.
        fits: print one line per row, and shorten the last column to the width of the terminal.
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
    """Print one row; as a table, one line for each of its values."""
    if kind == "json":
        click.echo(to_json(row))
    elif kind == "csv":
        click.echo(to_csv([row]), nl=False)
    else:
        indent = max(map(len, table)) + 1 + len(GAP)
        for name, value in table.items():
            values = value if isinstance(value, list) else [value]
            lines = [line for each in values for line in _wrapped(shown(each), indent)]
            for label, line in zip([f"{name}:", *[""] * len(lines)], lines, strict=False):
                click.echo(f"{label:<{indent}}{line}")


def _print_lines(rows: Sequence[Row]) -> None:
    """Print one line per row. A narrow terminal loses columns, from the second to last on."""
    from rich.cells import cell_len, set_cell_size

    if not rows:
        click.echo("Nothing to show.", err=True)
        return
    columns = [name for name in rows[0] if any(shown(row[name]) for row in rows)]
    cells = [columns, *([shown(row[name]) for name in columns] for row in rows)]
    while True:
        widths = [max(cell_len(line[i]) for line in cells) for i in range(len(cells[0]) - 1)]
        space = _width() - sum(each + len(GAP) for each in widths)
        if space >= MIN_WIDTH or len(widths) <= 3:
            break
        cells = [[*line[:-2], line[-1]] for line in cells]
    for number, line in enumerate(cells):
        padded = [set_cell_size(cell, size) for cell, size in zip(line, widths, strict=False)]
        text = GAP.join([*padded, _cut(line[-1], space)] if space > 0 else padded).rstrip()
        click.echo(click.style(text, bold=True) if number == 0 else text)


def _wrapped(text: str, indent: int) -> list[str]:
    """The lines of a text, wrapped to the width of the terminal."""
    if text[:1] == " ":  # code or a traceback keeps its lines
        return [text]
    width = max(_width() - indent, MIN_WIDTH)  # words stay whole, so that users can copy paths
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def print_changes(changed: Mapping[str, tuple[str, str]]) -> None:
    """Print one line for each changed setting."""
    for name, (was, now) in changed.items():
        click.echo(f"Changed: {name.replace('_', '-')}: {was} -> {now}")


def _print_table(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        click.echo("Nothing to show.", err=True)
        return
    console = Console(file=sys.stdout, width=_width())
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(shown(row.get(name))) for name in columns))
    console.print(table)
