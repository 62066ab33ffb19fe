"""Options that several commands share, and how a command finds its study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from farthing.cli.config import read_config
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = [
    "DATABASE",
    "STORAGE",
    "STUDY",
    "GroupedCommand",
    "check_exists",
    "format_option",
    "grouped_options",
    "locate",
    "no_database",
    "open_study",
    "storage_option",
    "study_name",
    "study_options",
    "worker_options",
]

DATABASE = "farthing.db"
STORAGE = "FARTHING_STORAGE"  # the environment variable with the default of --storage
STUDY = "default"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Problem": ("budget", "param", "metric", "maximize", "noisy"),
    "Study": ("storage", "name", "config", "trust", "values", "costs"),
    "Search": ("policy", "stop", "worth", "start", "tries", "seed", "overhead"),
    "Trainings": ("steps", "first_step", "resume", "step_value"),
    "Cost": ("cost", "rate", "max_overrun", "timeout", "grace"),
    "Trials and workers": (
        *("workers", "slots", "env", "cwd", "logs", "lease", "retries", "failures_in_a_row"),
    ),
}
OTHERS = "Output and help"

Command = TypeVar("Command", bound=Callable[..., Any])


class GroupedCommand(click.Command):
    """A command whose help lists the options under the headings of `GROUPS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading."""
        for heading, options in grouped_options(self.get_params(ctx)).items():
            records = [option.get_help_record(ctx) for option in options]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])


def grouped_options(params: list[click.Parameter]) -> dict[str, list[click.Parameter]]:
    """The options among the parameters of a command, under their headings."""
    heading_of = {name: heading for heading, names in GROUPS.items() for name in names}
    found: dict[str, list[click.Parameter]] = {heading: [] for heading in (*GROUPS, OTHERS)}
    for param in params:
        if isinstance(param, click.Option):
            found[heading_of.get(str(param.name), OTHERS)].append(param)
    return {heading: options for heading, options in found.items() if options}


def storage_option(command: Command) -> Command:
    """The option that names the database."""
    return click.option(
        "--storage",
        metavar="URL",
        envvar=STORAGE,
        help="Database: an SQLite file or postgresql://user@host/database.  "
        f"[default: ${STORAGE}, or {DATABASE}]",
    )(command)


def study_options(command: Command) -> Command:
    """The options that name a study."""
    name = click.option("--name", help=f"Name of the study.  [default: {STUDY}]")
    return storage_option(name(command))


def worker_options(command: Command) -> Command:
    """The options of where and with what trials run."""
    options = (
        click.option(
            "--workers",
            type=click.IntRange(1),
            metavar="N",
            help="Number of trials at the same time.  [default: 1, or the number of slots]",
        ),
        click.option(
            "--slots",
            metavar="A,B,...",
            help="A slot for each worker, such as the GPUs 0,1,2,3.  [default: 0,1,...]",
        ),
        click.option(
            "--env",
            "--slot-env",
            multiple=True,
            metavar="NAME=TEXT",
            help="Environment variable of the trials. In TEXT, {slot} is the slot of the worker.",
        ),
        click.option("--cwd", metavar="FOLDER", help="Working directory of the command."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def format_option(command: Command) -> Command:
    """The option that selects the output format."""
    kinds = click.Choice(["table", "json", "csv"])
    option = click.option(
        "--format",
        "kind",
        type=kinds,
        default="table",
        show_default=True,
        help="Output format: table, json or csv.",
    )
    return option(command)


def locate(storage: str | None, name: str | None) -> tuple[str, str]:
    """The database and the name of the study, from the options, the file or the defaults."""
    config = read_config(None).run if storage is None or name is None else {}
    return storage or str(config.get("storage", DATABASE)), name or str(config.get("name", STUDY))


def study_name(argument: str | None, option: str | None) -> str | None:
    """The name of a study, which a user may give as an argument or as --name."""
    if argument is not None and option not in (None, argument):
        raise InvalidInput(
            f"The argument names study {argument!r}, but --name is {option!r}. Give only one."
        )
    return argument or option


def open_study(
    storage: str | None, name: str | None, if_missing: str = "", *, trust: bool | None = None
) -> Study:
    """Open an existing study.

    Args:
        if_missing: the error message if there is no database.
        trust: whether to import the user's code that the study names, which is necessary to run
            it. None opens the study for reading, without importing that code.
    """
    from farthing.cli.trust import check_trust
    from farthing.study import Study

    url, name = locate(storage, name)
    check_exists(url, if_missing)
    study = Study.open(url, name, look=True)
    if trust is None or not study.own_code:
        return study
    try:
        check_trust(study, url, trust)
        return Study.open(url, name, trust=True)
    finally:
        study.close()


def check_exists(url: str, if_missing: str | None = None) -> None:
    """Raise an error if the file of a database does not exist: reading must not create it."""
    from farthing.storage import is_missing

    if is_missing(url):
        raise InvalidInput(if_missing or no_database(url))


def no_database(url: str) -> str:
    """The error message for a database that does not exist."""
    file = url.removeprefix("sqlite:///")
    return (
        f"There is no database {file!r} here. Create one with `farthing run`, or name another one "
        "with --storage."
    )
