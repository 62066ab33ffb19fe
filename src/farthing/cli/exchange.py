"""`farthing export` and `farthing import`: write the trials of a study, or read trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farthing.cli.config import FILE, Config, read_config
from farthing.cli.methods import names_own_code
from farthing.cli.options import (
    GroupedCommand,
    locate,
    only_study,
    open_study,
    study_argument,
    study_name,
)
from farthing.cli.run import run
from farthing.data.tabular import columns_of, curve_rows, parsed, row, to_csv, to_json
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["export", "import_"]

NOT_FOR_IMPORT = ("name", "workers", "quiet", "kind", "command", "tries", "trust", "log")


@click.command()
@study_argument
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "json"]),
    default="csv",
    show_default=True,
    help="Output format: csv or json.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file.  [default: stdout]")
@click.option(
    "--curves", is_flag=True, help="One row for each step that a training reported, not per trial."
)
def export(
    storage: str | None, name: str | None, kind: str, output: str | None, curves: bool
) -> None:
    """Write every trial as CSV or JSON."""
    study = open_study(storage, name)
    try:
        if curves:
            rows = curve_rows(study.history)
            columns = ["number", "step", "value"]
        else:
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
    "import",
    cls=GroupedCommand,
    params=[option for option in run.params if option.name not in NOT_FOR_IMPORT],
)
@click.argument("file")
@click.argument("study", metavar="[NAME]", required=False)
@click.option("--name", hidden=True)
@click.option(
    "--values/--no-values", default=True, help="Whether to learn the values from the rows."
)
@click.option("--costs/--no-costs", default=True, help="Whether to learn the costs from the rows.")
def import_(
    file: str,
    study: str | None,
    name: str | None,
    values: bool,
    costs: bool,
    **options: Any,
) -> None:
    """Import external evaluations from a file.

    \b
    farthing import old.csv --budget 10m --param lr=float:1e-5:1e-1:log

    FILE is CSV or JSON (- reads stdin). A CSV file has a column for each parameter (NAME or
    param_NAME), `value` (or the name of --metric), and `cost` or cost_RESOURCE. A JSON file is a
    list of such objects. Both may be the output of `farthing export`. Rows that were imported
    before are skipped.

    If the study does not exist yet, the command creates it. In that case, give the options of the
    later run, or use its farthing.toml.
    """
    from farthing.cli.mistakes import check_quoted

    check_quoted(options, (study,))
    try:
        with click.open_file(file, encoding="utf-8-sig") as stream:
            rows = parsed(stream.read(), file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{file} cannot be read: {error}. Expected a CSV or a JSON file."
        ) from None
    opened = _open_or_create({**options, "name": study_name(study, name)})
    try:
        try:
            found = opened.import_trials(rows, values=values, costs=costs)
        except InvalidInput as error:
            message = str(error).replace("values=False", "--no-values")
            raise InvalidInput(f"{file}: {message}") from None
        click.echo(str(found))
    finally:
        opened.close()


def _open_or_create(options: dict[str, Any]) -> Study:
    """The study; if it does not exist, it is created from the options or the file."""
    from farthing.cli.request import read_request
    from farthing.storage import is_missing, printable
    from farthing.study import Study

    named = options.pop("config")
    config = read_config(named)
    options["workers"] = None
    storage, name = locate(options["storage"], options["name"])
    creates = bool(options["param"] or config.params)
    if options["name"] is None and not creates and not is_missing(storage):
        name = only_study(storage)
    if not is_missing(storage) and name in Study.names(storage):
        given = [key for key, value in options.items() if value not in (None, ())]
        if others := [key for key in given if key not in ("storage", "name")]:
            raise InvalidInput(
                f"Study {name!r} exists already, so --{others[0].replace('_', '-')} has no effect. "
                "Leave it out, or change the study with `farthing change`."
            )
        return Study.open(storage, name, look=True)
    if not creates:
        raise InvalidInput(
            f"There is no study {name!r} in {printable(storage)}. To create it, give the --param "
            "and the --budget of the later run, or a farthing.toml. To use another study, give "
            "its name after the file."
        )
    if named is None:
        _check_no_code(config, options)
    request = read_request(options, (), config, needs_command=False)
    return Study.from_settings(request.storage, request.name, request.settings)


def _check_no_code(config: Config, options: Mapping[str, Any]) -> None:
    """Check that a file that the user did not name imports no code: `import` runs no trial.

    Raises:
        InvalidInput: it names a policy, rule or cost model that is not part of Farthing.
    """
    for setting in ("policy", "stop", "cost"):
        texts = () if options[setting] else config.run.get(setting, ())
        for text in [texts] if isinstance(texts, str) else texts:
            if names_own_code(text):
                raise InvalidInput(
                    f"{FILE} names {text!r} in {setting}, which is not part of Farthing. To import "
                    f"this code, name the file: --config {FILE}."
                )
