"""The options that commands share, and how they find their study."""

from __future__ import annotations

from collections.abc import Callable
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
    "as_data",
    "check_there",
    "locate",
    "named",
    "no_database",
    "open_study",
    "places",
    "storage_option",
    "where",
]

DATABASE = "farthing.db"
STORAGE = "FARTHING_STORAGE"  # the variable that names the database where --storage does not
STUDY = "default"

Command = TypeVar("Command", bound=Callable[..., Any])


def storage_option(command: Command) -> Command:
    """The option that says which database is meant."""
    return click.option(
        "--storage",
        metavar="URL",
        envvar=STORAGE,
        help="SQLite file or postgresql://user@host/database.  "
        f"[default: ${STORAGE}, or {DATABASE}]",
    )(command)


def where(command: Command) -> Command:
    """The options that say which study is meant."""
    name = click.option("--name", help=f"Of the study in it.  [default: {STUDY}]")
    return storage_option(name(command))


def places(command: Command) -> Command:
    """The options that say where trials run."""
    options = (
        click.option(
            "--workers",
            type=click.IntRange(1),
            help="Trials at the same time.  [default: 1, or one for each slot]",
        ),
        click.option(
            "--slots",
            metavar="A,B,...",
            help="What belongs to each worker, such as GPUs 0,1,2,3.  [default: 0,1,...]",
        ),
        click.option(
            "--env",
            "--slot-env",
            multiple=True,
            metavar="NAME=TEXT",
            help="A variable for trials; {slot} in it is the worker's slot, also in FARTHING_SLOT.",
        ),
        click.option("--cwd", metavar="FOLDER", help="Where the command runs."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def as_data(command: Command) -> Command:
    """The option that says what output looks like."""
    kinds = click.Choice(["table", "json", "csv"])
    option = click.option(
        "--format",
        "kind",
        type=kinds,
        default="table",
        show_default=True,
        help="table, json or csv.",
    )
    return option(command)


def locate(storage: str | None, name: str | None) -> tuple[str, str]:
    """Where the study is and what it is called: as told, as the file says, or as usual."""
    told = read_config(None).run if storage is None or name is None else {}
    return storage or str(told.get("storage", DATABASE)), name or str(told.get("name", STUDY))


def named(argument: str | None, option: str | None) -> str | None:
    """The name of a study, which may be given as an argument or as --name."""
    if argument is not None and option not in (None, argument):
        raise InvalidInput(f"Two studies are named, {argument!r} and {option!r}. Name one.")
    return argument or option


def open_study(
    storage: str | None, name: str | None, otherwise: str = "", *, trust: bool | None = None
) -> Study:
    """The study that is meant.

    Args:
        otherwise: what to do if there is none.
        trust: whether to import the code that it names, which has to be known to run it; None: it
            is only looked at, and none of it is imported.
    """
    from farthing.cli.trust import trusted
    from farthing.study import Study

    url, name = locate(storage, name)
    check_there(url, otherwise)
    study = Study.open(url, name, look=True)
    if trust is None or not study.own_code:
        return study
    try:
        trusted(study, url, trust)
        return Study.open(url, name, trust=True)
    finally:
        study.close()


def check_there(url: str, otherwise: str | None = None) -> None:
    """Whether the file of a database is there: to look at one must not make it."""
    from farthing.storage import is_missing

    if is_missing(url):
        raise InvalidInput(otherwise or no_database(url))


def no_database(url: str) -> str:
    """What to say where there is none."""
    file = url.removeprefix("sqlite:///")
    return f"There is no database {file!r} here. `farthing run` makes one; --storage names another."
