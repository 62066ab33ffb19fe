"""`farthing export` and `farthing import`: trials out of a study and into another."""

from __future__ import annotations

from pathlib import Path

import click

from farthing.cli.options import open_study, where
from farthing.errors import InvalidInput
from farthing.tabular import parsed, row, to_csv, to_json

__all__ = ["export", "import_"]


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
        rows = [row(trial) for trial in study.history]
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
    try:
        with click.open_file(file, encoding="utf-8-sig") as stream:
            rows = parsed(stream.read(), file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}. Give a CSV or a JSON file.") from None
    study = open_study(storage, name)
    try:
        count = study.import_trials(rows, values=values, costs=costs)
        click.echo(f"{count} evaluations taken in.")
    finally:
        study.close()
