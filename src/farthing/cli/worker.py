"""`farthing worker`: work on an existing study, from any machine."""

from __future__ import annotations

import os
from dataclasses import replace

import click

from farthing.cli.options import STORAGE, GroupedCommand, open_study, worker_options
from farthing.cli.output import same_command
from farthing.cli.run import finish, print_missing_cost
from farthing.errors import InvalidInput

__all__ = ["worker"]


@click.command(cls=GroupedCommand)
@worker_options
@click.option(
    "--trust",
    is_flag=True,
    help="Import code that is not part of Farthing if the study names it, also from this folder. "
    "Farthing remembers this.",
)
@click.option("--quiet", is_flag=True, help="Print only the result.")
@click.argument("url")
@click.argument("name", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def worker(
    url: str,
    name: str | None,
    trust: bool,
    quiet: bool,
    command: tuple[str, ...],
    workers: int | None,
    slots: str | None,
    env: tuple[str, ...],
    cwd: str | None,
) -> int:
    """Work on an existing study.

    URL is the database and NAME the study, as in --storage and --name of `farthing run`. NAME can
    be left out if the database has only one study. If URL is -, the command reads it from
    FARTHING_STORAGE. Other users of the machine can see arguments, but not that variable.

    The worker runs the command of the study, in the study's folder and with its variables, unless
    you give others. Start any number of workers, on any machine that can reach the database. Each
    runs one trial at a time, or as many as --workers says.

    Before a worker starts a trial, it checks that the folder, the program and the script exist. If
    its first three trials all fail while trials of other workers succeed, it is excluded: its
    trials are lost, and other workers repeat them.
    """
    from farthing.cli.request import slots_of, variables_of
    from farthing.running import CommandTask
    from farthing.view.progress import watching

    study = open_study(os.environ.get(STORAGE) if url == "-" else url, name, trust=trust)
    try:
        settings = study.settings
        if not (command or settings["command"]):
            raise InvalidInput(
                f"Study {study.name!r} has no command. Give one after --: "
                "farthing worker URL NAME -- python train.py --lr {lr}."
            )
        task = CommandTask(
            command or settings["command"], settings["metric"], cwd=cwd, env=variables_of(env)
        )
        with watching(study, quiet=quiet, parallel=True) as on_change:
            reason = study.work(
                task, workers=workers, slots=slots_of(slots), on_change=lambda _: on_change()
            )
        result = replace(study.result(), stop_reason=reason)
        code = finish(result, "table", again=same_command())
        print_missing_cost(study, result)
        return code
    finally:
        study.close()
