"""`farthing report`: one HTML page about one or several studies."""

from __future__ import annotations

from pathlib import Path

import click

from farthing.cli.options import check_exists, locate, only_study, open_study, storage_option
from farthing.errors import InvalidInput

__all__ = ["report"]


@click.command()
@click.argument("studies", metavar="[NAME]...", nargs=-1)
@click.option("--name", hidden=True)
@storage_option
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

    With several names, the page also compares the best values that the studies reached at each
    cost. If the database has only one study, NAME can be left out.

    The page is a single file that works offline. `farthing dashboard` shows the same figures while
    a study runs.
    """
    from farthing.view.report.page import page

    url, _ = locate(storage, "")
    check_exists(url)
    facts = {}
    for each in studies or (name or only_study(url),):
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
