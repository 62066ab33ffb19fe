"""`farthing worker`: be one of several that work on a study."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace

import click

from farthing.cli.options import open_study
from farthing.cli.run import finish
from farthing.errors import InvalidInput

__all__ = ["worker"]


@click.command()
@click.option("--quiet", is_flag=True, help="Print nothing but the result.")
@click.argument("url")
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def worker(url: str, name: str, quiet: bool, command: tuple[str, ...]) -> int:
    """Work on a study that was made elsewhere.

    URL and NAME are its --storage and --name. The command is the one it was made with, unless
    another is given after --. Start as many workers as you like, on all machines that reach the
    database; each runs one trial at a time.
    """
    from farthing.display import watching
    from farthing.running import CommandTask

    study = open_study(url, name)
    try:
        kept = study.settings
        if not (command or kept["command"]):
            raise InvalidInput(
                f"Study {name!r} was not made with a command. Give it after --, as in "
                "farthing worker URL NAME -- python train.py --lr {lr}."
            )
        task = CommandTask(command or kept["command"], metric=kept["metric"])
        with watching(study, quiet=quiet) as on_change:
            reason = study.work(task, progress=lambda _: on_change())
        result = replace(study.result(), stop_reason=reason)
        return finish(result, "table", again=shlex.join(["farthing", *sys.argv[1:]]))
    finally:
        study.close()
