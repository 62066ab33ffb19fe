"""`farthing export` and `farthing import`: trials out of a study and into another."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import click

from farthing.cli.options import open_study, where
from farthing.cli.output import to_csv, to_json
from farthing.cli.show import trial_rows
from farthing.errors import InvalidInput

__all__ = ["export", "import_"]

COST_IS_UNKNOWN = ("killed", "running", "lost")  # states whose cost is only a part


@click.command()
@where
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "json"]),
    default="csv",
    show_default=True,
    help="csv or json.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file.  [default: stdout]")
def export(storage: str | None, name: str | None, kind: str, output: str | None) -> None:
    """Write every trial as CSV or JSON."""
    study = open_study(storage, name)
    try:
        rows = trial_rows(study)
    finally:
        study.close()
    text = to_csv(rows) if kind == "csv" else to_json(rows) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{output} cannot be written: {error.strerror}.") from None


@click.command("import")
@click.argument("file")
@where
@click.option("--values/--no-values", default=True, help="Learn the objective from them.")
@click.option("--costs/--no-costs", default=True, help="Learn the costs from them.")
def import_(file: str, storage: str | None, name: str | None, values: bool, costs: bool) -> None:
    """Learn from evaluations made elsewhere; - is stdin.

    FILE is CSV with a column for each parameter (or param_NAME), `value`, and `cost` or
    cost_RESOURCE; or JSON, a list of such objects, also as `farthing export` writes it.
    """
    study = open_study(storage, name)
    try:
        count = study.import_trials(_rows(file), values=values, costs=costs)
        click.echo(f"{count} evaluations taken in.")
    finally:
        study.close()


def _rows(file: str) -> list[dict[str, Any]]:
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            text = stream.read()
        is_json = text.lstrip().startswith(("[", "{"))
        rows = json.loads(text) if is_json else list(csv.DictReader(text.splitlines(keepends=True)))
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidInput(f"{file} cannot be read: {error}. Give a CSV or a JSON file.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(f"{file}: expected a list of objects, one for each evaluation.")
    return [_cells(row) for row in rows]


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """One evaluation, flat; what a trial that did not finish cost is not known."""
    cells = dict(row)
    for group, prefix in (("params", "param_"), ("cost", "cost_")):
        if isinstance(cells.get(group), dict):
            cells |= {f"{prefix}{name}": value for name, value in cells.pop(group).items()}
    if cells.get("state") in COST_IS_UNKNOWN:
        cells = {name: cell for name, cell in cells.items() if not name.startswith("cost")}
    return cells
