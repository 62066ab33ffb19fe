"""`farthing report`: one HTML page about one or several studies."""

from __future__ import annotations

from pathlib import Path

import click

from farthing.cli.options import locate, open_study, study_options
from farthing.errors import InvalidInput

__all__ = ["report"]


@click.command()
@click.argument("studies", nargs=-1)
@study_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="report.html",
    show_default=True,
    help="The file to write.",
)
def report(studies: tuple[str, ...], storage: str | None, name: str | None, output: str) -> None:
    """Write an HTML report of one or more studies.

    STUDIES are names of studies. With several names, the page also compares the studies over cost.
    The page is one file that needs no network. `farthing dashboard` shows the same figures while a
    study runs.
    """
    from farthing.view.report import page

    url, default_name = locate(storage, name)
    facts = {}
    for each in studies or (default_name,):
        study = open_study(url, each)
        try:
            facts[each] = study.facts
        finally:
            study.close()
    html = page(facts)
    try:
        Path(output).write_text(html, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{output} cannot be written: {error.strerror}.") from None
    size = f"{len(html) / 1e3:.0f} kB" if len(html) < 1e6 else f"{len(html) / 1e6:.1f} MB"
    click.echo(f"Wrote {output} ({size}).")
