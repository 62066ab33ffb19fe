"""`farthing report`: one page with everything to be seen of a study, or of several."""

from __future__ import annotations

from pathlib import Path

import click

from farthing.cli.options import locate, open_study, where
from farthing.errors import InvalidInput

__all__ = ["report"]


@click.command()
@click.argument("studies", nargs=-1)
@where
@click.option(
    "-o", "--output", metavar="FILE", default="report.html", show_default=True, help="The page."
)
def report(studies: tuple[str, ...], storage: str | None, name: str | None, output: str) -> None:
    """Write one HTML page with all there is to see.

    STUDIES are names; of several, the page also compares them over cost. The page needs no other
    file and no network: it can be mailed. `farthing dashboard` shows the same while a study runs.
    """
    from farthing.view.report import page

    url, usual = locate(storage, name)
    facts = {}
    for each in studies or (usual,):
        study = open_study(url, each)
        try:
            facts[each] = study.facts
        finally:
            study.close()
    made = page(facts)
    try:
        Path(output).write_text(made, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{output} cannot be written: {error.strerror}.") from None
    click.echo(f"{output}: {len(made) / 1e6:.1f} MB")
