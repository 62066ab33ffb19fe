"""Print rows as a table, as JSON or as CSV."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

import click

from farthing.cli.options import STORAGE
from farthing.data.tabular import to_csv, to_json
from farthing.view.formatting import shown

__all__ = ["ClosableStream", "print_changes", "print_one", "print_rows", "same_command"]

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
    shortened: Sequence[str] = (),
) -> None:
    """Print rows.

    Args:
        kind: table, json or csv.
        table: the rows with formatted values, for a table; by default the rows themselves.
        columns: the columns of the CSV, even if no row has a value for them.
        shortened: the last columns of the table. If any, each row is one line, and these columns
            are shortened to the width of the terminal.
    """
    if kind == "json":
        click.echo(to_json(rows))
    elif kind == "csv":
        click.echo(to_csv(rows, columns), nl=False)
    elif shortened:
        _print_lines(rows if table is None else table, shortened)
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


def _print_lines(rows: Sequence[Row], shortened: Sequence[str]) -> None:
    """Print one line per row. A narrow terminal loses columns before the shortened ones."""
    from rich.cells import cell_len

    if not rows:
        click.echo("Nothing to show.", err=True)
        return
    columns = [name for name in rows[0] if any(shown(row[name]) for row in rows)]
    cells = {name: [name, *(shown(row[name]) for row in rows)] for name in columns}
    widths = {name: max(map(cell_len, texts)) for name, texts in cells.items()}
    fixed = [name for name in columns if name not in shortened]
    flexible = [name for name in columns if name in shortened]
    while True:
        space = _width() - sum(widths[name] + len(GAP) for name in fixed)
        if space >= len(flexible) * (MIN_WIDTH + len(GAP)) or len(fixed) <= 3:
            break
        fixed.pop()
    space -= len(GAP) * (len(flexible) - 1)
    for i, name in enumerate(sorted(flexible, key=lambda name: widths[name])):
        widths[name] = min(widths[name], max(space // (len(flexible) - i), 0))
        space -= widths[name]  # what a short column leaves is for the others
    shown_columns = [name for name in (*fixed, *flexible) if widths[name] > 0]
    for number in range(len(rows) + 1):
        texts = (_cell(cells[name][number], widths[name]) for name in shown_columns)
        line = GAP.join(texts).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def _wrapped(text: str, indent: int) -> list[str]:
    """The lines of a text, wrapped to the width of the terminal."""
    if text[:1] == " ":  # code or a traceback keeps its lines
        return [text]
    width = max(_width() - indent, MIN_WIDTH)  # words stay whole, so that users can copy paths
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def _cell(text: str, width: int) -> str:
    """A text that is padded or shortened to a width."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(set_cell_size(text, width - 1).rstrip() + "…", width)


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


def same_command() -> str:
    """The command line of this process, without passwords."""
    from farthing.storage import printable

    words, ours = ["farthing"], True
    for given in sys.argv[1:]:
        ours = ours and given != "--"  # the rest belongs to the tuned program
        shown = printable(given) if "://" in given else given
        if shown == given or not ours:
            words.append(shlex.quote(shown))
        else:
            words.append(f'{"--storage=" * given.startswith("--storage=")}"${STORAGE}"')
    return " ".join(words)
