"""The options that commands share, and how they find their study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from farthing.cli.config import read_config
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["DATABASE", "STUDY", "as_data", "locate", "open_study", "where"]

DATABASE = "farthing.db"
STUDY = "default"

Command = TypeVar("Command", bound=Callable[..., Any])


def where(command: Command) -> Command:
    """The options that say which study is meant."""
    storage = click.option(
        "--storage",
        metavar="URL",
        help=f"SQLite file or postgresql://user@host/database.  [default: {DATABASE}]",
    )
    name = click.option("--name", help=f"Of the study in it.  [default: {STUDY}]")
    return storage(name(command))


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


def open_study(storage: str | None, name: str | None) -> Study:
    """The study that is meant."""
    from farthing.study import Study

    url, name = locate(storage, name)
    file = Path(url.removeprefix("sqlite:///")) if _is_file(url) else None
    if file is not None and not file.exists():
        raise InvalidInput(
            f"There is no database {str(file)!r} here. `farthing run` makes one; "
            "--storage names another."
        )
    return Study.open(url, name)


def _is_file(url: str) -> bool:
    return "://" not in url or url.startswith("sqlite:///")
