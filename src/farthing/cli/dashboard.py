"""`farthing dashboard`: the studies of a database, live in a browser."""

from __future__ import annotations

import click

from farthing.cli.options import STORAGE, check_exists, locate

__all__ = ["dashboard"]


@click.command()
@click.argument("url", required=False, envvar=STORAGE)
@click.option(
    "--port", default=0, show_default=True, help="Port of the server (0: choose a free port)."
)
@click.option(
    "--allow-changes", is_flag=True, help="Allow visitors to stop studies and change their budgets."
)
def dashboard(url: str | None, port: int, allow_changes: bool) -> None:
    """Show the studies of a database in a browser.

    URL is an SQLite file or postgresql://user@host/database. The default is the database of
    `farthing run`, or the one in the variable FARTHING_STORAGE.

    Open the printed address in a browser. To open it from another machine, forward the port with
    ssh -L. Ctrl-C ends the dashboard; the studies continue.
    """
    from farthing.dashboard import serve

    storage, _ = locate(url, "")
    check_exists(storage)
    serve(storage, port=port, changes=allow_changes, ready=_print_address)


def _print_address(address: str) -> None:
    click.echo(f"Open {address}")
    click.echo("Press Ctrl-C to end the dashboard.", err=True)
