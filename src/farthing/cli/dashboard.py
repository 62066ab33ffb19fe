"""`farthing dashboard`: the studies of a database, live in a browser."""

from __future__ import annotations

import click

from farthing.cli.options import STORAGE, check_there, locate

__all__ = ["dashboard"]


@click.command()
@click.argument("url", required=False, envvar=STORAGE)
@click.option("--port", default=0, show_default=True, help="0: one that is free.")
@click.option(
    "--allow-changes", is_flag=True, help="Studies may be stopped and given another budget."
)
def dashboard(url: str | None, port: int, allow_changes: bool) -> None:
    """Show the studies of a database in a browser.

    URL is an SQLite file or postgresql://user@host/database, by default that of `farthing run`;
    FARTHING_STORAGE names one, too. Open the address that is printed; from another machine, forward
    its port with ssh -L. Ctrl-C ends it, and nothing that it shows.
    """
    from farthing.dashboard import serve

    where, _ = locate(url, "")
    check_there(where)
    serve(where, port=port, changes=allow_changes, ready=_print)


def _print(address: str) -> None:
    click.echo(f"Open {address}")
    click.echo("Ctrl-C ends it.", err=True)
