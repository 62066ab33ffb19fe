"""`farthing policies` and `farthing rules`: what there is to choose from."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import click

from farthing.cli.methods import methods_in
from farthing.cli.options import as_data
from farthing.cli.output import print_rows

__all__ = ["policies", "rules"]


@click.command()
@as_data
def policies(kind: str) -> None:
    """The methods of choosing that --policy takes."""
    print_rows(_rows("policies"), kind)


@click.command()
@as_data
def rules(kind: str) -> None:
    """The reasons to stop that --stop takes."""
    print_rows(_rows("stopping"), kind)


def _rows(folder: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "arguments": _arguments(method),
            "what it does": (method.__doc__ or "").strip().splitlines()[0],
        }
        for name, method in methods_in(folder).items()
    ]


def _arguments(method: Any) -> str:
    shown = []
    for each in fields(method):
        known = each.default is not MISSING
        shown.append(f"{each.name}={each.default!r}" if known else each.name)
    return ", ".join(shown)
