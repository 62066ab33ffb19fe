"""`farthing policies` and `farthing rules`: the methods that options select by name."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import click

from farthing.cli.options import format_option
from farthing.cli.output import print_rows
from farthing.core.method_names import Folder, methods_in

__all__ = ["policies", "rules"]

DEFAULT = (
    "The default is cooling(first=0.5); with --worth or --learn-from it is gittins, with --steps "
    "staged_gittins, and without a budget that limits a cost ei."
)


@click.command()
@format_option
def policies(kind: str) -> None:
    """List the policies for --policy.

    With `--policy default`, an existing study gets the policy that a new one would have.
    """
    print_rows(_rows("policies"), kind)
    if kind == "table":
        click.echo(DEFAULT)


@click.command()
@format_option
def rules(kind: str) -> None:
    """List the stopping rules for --stop."""
    print_rows(_rows("stopping"), kind)


def _rows(folder: Folder) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "arguments": _arguments(method),
            "description": (method.__doc__ or "").strip().splitlines()[0],
        }
        for name, method in methods_in(folder).items()
    ]


def _arguments(method: Any) -> str:
    arguments = []
    for each in fields(method):
        has_default = each.default is not MISSING
        arguments.append(f"{each.name}={each.default!r}" if has_default else each.name)
    return ", ".join(arguments)
