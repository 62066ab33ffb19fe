"""`farthing plot`: a figure in the terminal, or in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farthing.cli.options import open_study, where
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.view.primitives import Figure

__all__ = ["plot"]

# What each figure takes after its name.
FIGURES = {
    **{"curve": "", "pareto": "[TRIAL]", "money": "", "predictions": "", "prospect": ""},
    **{"drivers": "", "slice": "PARAMETER [PARAMETER]", "timeline": "", "learning": ""},
}


@click.command()
@click.argument("figure", type=click.Choice(list(FIGURES)))
@click.argument("about", nargs=-1)
@where
@click.option("-o", "--output", metavar="FILE", help=".svg, .html, .png, .pdf; by default letters.")
def plot(
    figure: str, about: tuple[str, ...], storage: str | None, name: str | None, output: str | None
) -> None:
    """Draw a figure of a study, in letters or to a file.

    `farthing plot curve`, `farthing plot pareto 12`, `farthing plot slice lr depth -o lr.svg`. An
    .svg needs nothing to be installed, .html (to zoom and point) and pictures the extra `plots`.
    """
    given = _numbers(figure, about)
    study = open_study(storage, name)
    try:
        plots = study.plot
        if output is None:
            from rich.console import Console

            wide = min(Console(file=sys.stdout).width, 120)
            drawn = _text(getattr(plots.values, figure)(*given), wide)
            click.echo(drawn)
            return
        write = _writer(Path(output))
        plots = plots.svg if output.endswith(".svg") else plots
        plots = plots.interactive if output.endswith(".html") else plots
        made = getattr(plots, figure)(*given)
    finally:
        study.close()
    try:
        write(made)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{output} cannot be written: {error}.") from None


def _numbers(figure: str, about: tuple[str, ...]) -> list[Any]:
    """What a figure is about: the number of a trial, or parameters."""
    takes = FIGURES[figure]
    least, most = takes.count("PARAMETER") and 1, len(takes.split())
    if not least <= len(about) <= most:
        raise InvalidInput(
            f"farthing plot {figure} {takes}".rstrip() + f": got {len(about)} after the name."
        )
    if figure != "pareto":
        return list(about)
    if about and not about[0].isdecimal():
        raise InvalidInput(f"farthing plot pareto {about[0]}: expected the number of a trial.")
    return [int(number) for number in about]


def _text(figure: Figure, width: int) -> str:
    from farthing.view.plots import terminal

    return terminal.drawn(figure, width)


def _writer(path: Path) -> Callable[[Any], object]:
    match path.suffix:
        case ".svg":
            return lambda made: path.write_text(made, encoding="utf-8")
        case ".html":
            return lambda made: made.write_html(path, include_plotlyjs=True)
        case _:
            return lambda made: made.savefig(path, dpi=150)
