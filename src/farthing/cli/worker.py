"""`farthing worker`: be one of several that work on a study."""

from __future__ import annotations

import os
from dataclasses import replace

import click

from farthing.cli.options import STORAGE, open_study, places
from farthing.cli.run import finish, same_command
from farthing.errors import InvalidInput

__all__ = ["worker"]


@click.command()
@places
@click.option(
    "--trust",
    is_flag=True,
    help="Import code of others that the study names, also from this folder; remembered.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but the result.")
@click.argument("url")
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def worker(
    url: str,
    name: str,
    trust: bool,
    quiet: bool,
    command: tuple[str, ...],
    workers: int | None,
    slots: str | None,
    env: tuple[str, ...],
    cwd: str | None,
) -> int:
    """Work on a study that was made elsewhere.

    URL and NAME are its --storage and --name; - is what FARTHING_STORAGE names, which other users
    of the machine cannot see, as they can the words of a command. The command, its folder and its
    variables are those it was made with, unless others are given. Start as many workers as you
    like, on all machines that reach the database; each runs one trial at a time.

    What the command needs is looked for before a trial is taken. A worker whose first three trials
    all fail, while those of others do not, is set aside: they are lost, and others try them again.
    """
    from farthing.cli.request import slots_of, variables_of
    from farthing.running import CommandTask
    from farthing.view.progress import watching

    study = open_study(os.environ.get(STORAGE) if url == "-" else url, name, trust=trust)
    try:
        kept = study.settings
        if not (command or kept["command"]):
            raise InvalidInput(
                f"Study {name!r} was not made with a command. Give it after --, as in "
                "farthing worker URL NAME -- python train.py --lr {lr}."
            )
        task = CommandTask(
            command or kept["command"], kept["metric"], cwd=cwd, env=variables_of(env)
        )
        with watching(study, quiet=quiet) as on_change:
            reason = study.work(
                task, workers=workers, slots=slots_of(slots), on_change=lambda _: on_change()
            )
        result = replace(study.result(), stop_reason=reason)
        return finish(result, "table", again=same_command())
    finally:
        study.close()
