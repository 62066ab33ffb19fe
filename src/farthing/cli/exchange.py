"""`farthing export` and `farthing import`: trials out of a study and into another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farthing.cli.config import read_config
from farthing.cli.options import locate, open_study, where
from farthing.cli.run import run
from farthing.data.tabular import columns_of, parsed, row, to_csv, to_json
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["export", "import_"]

NOT_FOR_IMPORT = ("workers", "quiet", "kind", "command", "tries", "trust")


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
        columns = columns_of(study.space.names, study.ledger.resources, study.history)
    finally:
        study.close()
    text = to_csv(rows, columns) if kind == "csv" else to_json(rows) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{output} cannot be written: {error.strerror}.") from None


@click.command(
    "import", params=[option for option in run.params if option.name not in NOT_FOR_IMPORT]
)
@click.argument("file")
@click.option("--values/--no-values", default=True, help="Learn the objective from them.")
@click.option("--costs/--no-costs", default=True, help="Learn the costs from them.")
def import_(file: str, values: bool, costs: bool, **options: Any) -> None:
    """Learn from evaluations made elsewhere; - is stdin.

    FILE is CSV with a column for each parameter (or param_NAME), `value` (or what --metric names),
    and `cost` or cost_RESOURCE; or JSON, a list of such objects, also as `farthing export` writes
    it. What was taken in before is not taken in again.

    Before the first run the study is made from the same options, or the same farthing.toml, as the
    run will be: farthing import old.csv --budget 10m --param lr=float:1e-5:1e-1:log
    """
    try:
        with click.open_file(file, encoding="utf-8-sig") as stream:
            rows = parsed(stream.read(), file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}. Give a CSV or a JSON file.") from None
    study = _found_or_made(options)
    try:
        try:
            found = study.import_trials(rows, values=values, costs=costs)
        except InvalidInput as error:
            said = str(error).replace("values=False", "--no-values")
            raise InvalidInput(f"{file}: {said}") from None
        click.echo(str(found))
    finally:
        study.close()


def _found_or_made(options: dict[str, Any]) -> Study:
    """The study that is meant; it is made if it is not there and the options say of what."""
    from farthing.cli.request import read_request
    from farthing.storage import is_missing, printable
    from farthing.study import Study

    config = read_config(options.pop("config"))
    options["workers"] = None
    storage, name = locate(options["storage"], options["name"])
    if not is_missing(storage) and name in Study.names(storage):
        given = [key for key, value in options.items() if value not in (None, ())]
        if others := [key for key in given if key not in ("storage", "name")]:
            raise InvalidInput(
                f"There is a study {name!r} already: --{others[0].replace('_', '-')} would be "
                "read by nothing. Leave it out, or change the study: farthing change."
            )
        return Study.open(storage, name, look=True)
    if not (options["param"] or config.params):
        raise InvalidInput(
            f"There is no study {name!r} in {printable(storage)} yet. Say what it is made of, with "
            "the --param and the --budget of the run, or in farthing.toml; or name one that is "
            "there."
        )
    request = read_request(options, (), config, needs_command=False)
    return Study.from_settings(request.storage, request.name, request.settings)
