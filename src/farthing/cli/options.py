"""Options that several commands share, and how a command finds its study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

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
    "only_study",
    "open_study",
    "storage_option",
    "study_argument",
    "study_name",
    "worker_options",
]

DATABASE = "farthing.db"
STORAGE = "FARTHING_STORAGE"  # the environment variable with the default of --storage
STUDY = "default"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Problem": ("budget", "param", "allowed", "metric", "maximize", "noisy", "constraints"),
    "Study": ("storage", "name", "config", "trust", "values", "costs"),
    "Search": ("policy", "stop", "worth", "start", "learn_from", "tries", "seed", "overhead"),
    "Trainings": ("steps", "first_step", "resume", "suspended", "checkpoints", "step_value"),
    "Cost": ("cost", "rate", "max_overrun", "max_cost", "timeout", "grace"),
    "Trials and workers": (
        *("workers", "slots", "env", "cwd", "logs", "lease", "retries", "failures_in_a_row"),
    ),
}
OTHERS = "Output and help"
MAX_LISTED = 20  # studies that an error lists

Command = TypeVar("Command", bound=Callable[..., Any])


class GroupedCommand(click.Command):
    """A command whose help lists the options under the headings of `GROUPS`.

    If its last argument is a command to run, that is everything after `--`, even if an optional
    argument before it is left out.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before `--`, and take the rest as the command to run."""
        takes_command = any(param.name == "command" for param in self.params)
        if not (takes_command and ctx.allow_interspersed_args and "--" in args):
            return click.Command.parse_args(self, ctx, args)
        mark = args.index("--")
        left = click.Command.parse_args(self, ctx, args[:mark])
        ctx.params["command"] = (*ctx.params["command"], *args[mark + 1 :])
        return left

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


def study_argument(command: Command) -> Command:
    """The argument NAME, the study, and --storage. A hidden option --name means the same."""

    @wraps(command)
    def named(*, study: str | None, name: str | None, **others: Any) -> Any:
        return command(name=study_name(study, name), **others)

    argument = click.argument("study", metavar="[NAME]", required=False)
    option = click.option("--name", hidden=True)
    return storage_option(argument(option(cast(Command, named))))


def worker_options(command: Command) -> Command:
    """The options of where and with what trials run."""
    options = (
        click.option(
            "--workers",
            type=click.IntRange(1),
            metavar="N",
            help="Number of trials that run at once.  [default: 1, or the number of slots]",
        ),
        click.option(
            "--slots",
            metavar="A,B,...",
            help="The slots, one for each worker, such as the GPUs 0,1,2,3.  [default: 0,1,...]",
        ),
        click.option(
            "--env",
            "--slot-env",
            multiple=True,
            metavar="NAME=TEXT",
            help="Environment variable for the trials. In TEXT, {slot} is the slot of the worker.",
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


def only_study(url: str, how: str = "Give the name of one of them") -> str:
    """The study that a command means if the user names none: of `farthing.toml`, or the only one.

    Args:
        how: the advice of the error if there are several.
    """
    from farthing.storage import printable
    from farthing.study import Study

    if name := read_config(None).run.get("name"):
        return str(name)
    names = Study.names(url)
    if len(names) == 1:
        return names[0]
    if not names:
        raise InvalidInput(
            f"The database {printable(url)} has no study. Create one with `farthing run`."
        )
    listed = ", ".join(map(repr, names[-MAX_LISTED:]))
    more = f" and {len(names) - MAX_LISTED} older ones" if len(names) > MAX_LISTED else ""
    raise InvalidInput(
        f"The database {printable(url)} has {len(names)} studies: {listed}{more}. {how}."
    )


def open_study(
    storage: str | None, name: str | None, if_missing: str = "", *, trust: bool | None = None
) -> Study:
    """Open an existing study; without a name, that of `only_study`.

    Args:
        if_missing: the error message if there is no database.
        trust: whether to import the user's code that the study names, which is necessary to run
            it. None opens the study for reading, without importing that code.
    """
    from farthing.cli.trust import check_trust
    from farthing.study import Study

    url, _ = locate(storage, "")
    check_exists(url, if_missing)
    name = name or only_study(url)
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
