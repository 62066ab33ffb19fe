"""`farthing plot`: a figure in the terminal, or in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farthing.cli.options import locate, open_study, storage_option, study_name
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.view.primitives import Figure

__all__ = ["plot"]

# The arguments of each figure.
FIGURES = {
    **{"curve": "", "pareto": "[TRIAL]", "money": "", "predictions": "", "prospect": ""},
    **{
        "drivers": "",
        "slice": "PARAMETER [PARAMETER]",
        "timeline": "",
        "learning": "",
        "trust": "",
    },
}


@click.command()
@click.argument("figure", type=click.Choice(list(FIGURES)))
@click.argument("about", metavar="[ABOUT]... [NAME]", nargs=-1)
@click.option("--name", hidden=True)
@storage_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write an .svg, .html, .png or .pdf file.  [default: a plot in the terminal]",
)
def plot(
    figure: str, about: tuple[str, ...], storage: str | None, name: str | None, output: str | None
) -> None:
    """Plot a figure in the terminal or to a file.

    \b
    farthing plot curve
    farthing plot pareto 12
    farthing plot slice lr depth -o lr.svg

    ABOUT is the number of a trial for `pareto`, and one or two parameters for `slice`; the other
    figures have no ABOUT. NAME is the study. It can be left out if the database has only one.

    The formats
    .html (interactive), .png and .pdf need the extra `plots`: pip install 'farthing[plots]'.
    """
    about, name = _split(figure, about, storage, name)
    arguments = _arguments(figure, about)
    study = open_study(storage, name)
    try:
        plots = study.plot
        if output is None:
            from rich.console import Console

            width = min(Console(file=sys.stdout).width, 120)
            click.echo(_terminal_plot(getattr(plots.values, figure)(*arguments), width))
            return
        write = _writer(Path(output))
        plots = plots.svg if output.endswith(".svg") else plots
        plots = plots.interactive if output.endswith(".html") else plots
        made = getattr(plots, figure)(*arguments)
    finally:
        study.close()
    try:
        write(made)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{output} cannot be written: {error}.") from None


def _split(
    figure: str, about: tuple[str, ...], storage: str | None, name: str | None
) -> tuple[tuple[str, ...], str | None]:
    """What the figure is about, and the study, which may be the last argument."""
    from farthing.study import Study

    least, most = _count(figure)
    if len(about) <= least or (figure == "pareto" and len(about) == 1 and about[0].isdecimal()):
        return about, name
    if len(about) <= most and about[-1] not in Study.names(locate(storage, "")[0]):
        return about, name
    return about[:-1], study_name(about[-1], name)


def _count(figure: str) -> tuple[int, int]:
    """The least and the greatest number of arguments of a figure."""
    usage = FIGURES[figure]
    return int("PARAMETER" in usage), len(usage.split())


def _arguments(figure: str, about: tuple[str, ...]) -> list[Any]:
    """The arguments of a figure: the number of a trial, or parameters."""
    least, most = _count(figure)
    if not least <= len(about) <= most:
        usage = f"{FIGURES[figure]} [NAME]".lstrip()
        raise InvalidInput(
            f"farthing plot {figure}: got {len(about)} arguments, expected {usage} after the name "
            "of the figure."
        )
    if figure != "pareto":
        return list(about)
    if about and not about[0].isdecimal():
        raise InvalidInput(f"farthing plot pareto {about[0]}: expected the number of a trial.")
    return [int(number) for number in about]


def _terminal_plot(figure: Figure, width: int) -> str:
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
