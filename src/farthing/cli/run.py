"""`farthing run`: evaluate a command until it is time to stop."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farthing.cli.config import read_config
from farthing.cli.options import where

if TYPE_CHECKING:
    from farthing.cli.request import Request
    from farthing.facts import Result
    from farthing.running import CommandTask
    from farthing.space import Space
    from farthing.study import Study

__all__ = ["finish", "run"]

NO_SUCCESS, INTERRUPTED = 1, 130


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--budget", help="What may be spent: 10m, '$40', 1.5kWh, '50 trials', '2h, $40'.")
@click.option(
    "--param",
    multiple=True,
    metavar="NAME=KIND",
    help="float:LOW:HIGH[:log], int:LOW:HIGH[:log], choice:A,B,... or ordinal:1,2,...[:log]; a "
    "range ends in :increases or :decreases where a larger value costs more or less.",
)
@where
@click.option("--metric", help="The key of the value in the result.  [default: value]")
@click.option("--maximize/--minimize", default=None, help="The value.  [default: minimize]")
@click.option(
    "--noisy", is_flag=True, default=None, help="The same parameters may return another value."
)
@click.option("--workers", type=click.IntRange(1), help="Trials at the same time.  [default: 1]")
@click.option("--policy", help="How to choose: a name from `farthing policies`, or module:Name.")
@click.option(
    "--stop", multiple=True, help="A reason to stop from `farthing rules`; any of several."
)
@click.option(
    "--worth", help="What cost is worth: '0.01 = $20', objective units per unit, or budget."
)
@click.option("--rate", help="What the machine costs: '$3.06/h'.")
@click.option(
    "--cost",
    multiple=True,
    help="Measure `wall` or `cpu` seconds, and learn costs by log_gp, linear, median or module:f.",
)
@click.option(
    "--start",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Evaluate this first; what is missing is filled in.",
)
@click.option(
    "--leash",
    type=float,
    help="Kill a trial that will cost, still, this many times what it was expected to in all.",
)
@click.option(
    "--thinking",
    type=float,
    help="Thinking, as a share of what trials take, in a budget of time.  [default: 0.05]",
)
@click.option("--timeout", help="Kill a trial after this time.")
@click.option("--grace", help="Time between SIGTERM and SIGKILL.  [default: 5s]")
@click.option("--lease", help="Time after which a silent worker's trial is lost.  [default: 15s]")
@click.option("--seed", type=click.IntRange(0), help="The same seed asks the same.  [default: 0]")
@click.option("--retries", type=click.IntRange(0), help="Try a lost trial again.  [default: 0]")
@click.option(
    "--failures-in-a-row", type=click.IntRange(0), help="So many end it, 0: none.  [default: 5]"
)
@click.option(
    "--config", metavar="FILE", help="Settings.  [default: farthing.toml, if there is one]"
)
@click.option("--quiet", is_flag=True, help="Print nothing but the result.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "json"]),
    default="table",
    help="Of the result: table or json.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    command: tuple[str, ...], config: str | None, quiet: bool, kind: str, **options: Any
) -> int:
    """Tune a command on a budget.

    \b
    farthing run --budget 10m --param lr=float:1e-5:1e-1:log \\
        --param depth=int:1:16 -- python train.py --lr {lr} --depth {depth}

    The command gets its parameters in place of {name}, and as JSON in FARTHING_PARAMS. Its result
    is the last line it prints that is JSON with a value, {"value": 0.31} or {"value": 0.31,
    "cost": 12.5}, or the contents of the file that FARTHING_RESULT names. There is no shell: every
    argument arrives as it is written.

    The same command again goes on where it ended. Settings may also stand in farthing.toml.

    It ends with 0 when the budget is used or a rule stopped it, with 1 when no trial succeeded, and
    with 130 after Ctrl-C, which kills what is running, charges it, and loses nothing.
    """
    from farthing.cli.request import read_request
    from farthing.display import watching
    from farthing.running import CommandTask

    request = read_request(options, command, read_config(config))
    quiet = quiet or kind != "table"
    settings = request.settings
    task = CommandTask(settings.command or (), metric=settings.metric)
    _try_on_paper(task, settings.space)
    study = _start(request, task, quiet)
    try:
        with watching(study, quiet=quiet) as on_change:
            result = study.run(task, workers=request.workers, progress=lambda _: on_change())
        return finish(result, kind, again=shlex.join(["farthing", *sys.argv[1:]]))
    finally:
        study.close()


def _try_on_paper(task: CommandTask, space: Space) -> None:
    """The command must be there, and find its parameters, in every branch of the space."""
    import numpy as np

    from farthing.running import Job

    for x in space.sample(32, np.random.default_rng(0)):
        task.prepare(Job(space.decode(x), 0, 0), Path())


def _start(request: Request, task: CommandTask, quiet: bool) -> Study:
    """Make the study, or go on with it; and say so."""
    from farthing.study import Study
    from farthing.words import spent

    study = Study.made(request.storage, request.name, request.settings)
    if quiet:
        return study
    if study.history:
        so_far = f"{len(study.history)} trials, {spent(study.ledger) or 'nothing'} spent"
        click.echo(f"Going on with study {request.name!r} in {request.storage}: {so_far}.")
        if before := study.changed.get("command"):
            click.echo(f"The command was {shlex.join(before)} until now.", err=True)
    unused = [name for name in study.space.names if name not in task.placeholders]
    if unused:
        names = ", ".join(f"{{{name}}}" for name in unused)
        click.echo(f"No argument has {names}: the command finds it in FARTHING_PARAMS.", err=True)
    return study


def finish(result: Result, kind: str, *, again: str) -> int:
    """Print how it ended; the exit code.

    Args:
        again: the command that goes on with it.
    """
    from farthing.facts import summary
    from farthing.tabular import to_json
    from farthing.worker import INTERRUPTED as BY_KEYBOARD

    if kind == "json":
        facts = summary("", result)
        spent = {name: account["spent"] for name, account in facts["budget"].items()}
        ended = {"best": facts["best"], "stop_reason": result.stop_reason, "spent": spent}
        click.echo(to_json({**ended, "trials": len(result.history)}))
    else:
        click.echo(str(result))
    if result.stop_reason == BY_KEYBOARD:
        click.echo(f"Nothing is lost. Go on with: {again}", err=True)
        return INTERRUPTED
    if result.best is None:
        error = next((trial.error for trial in result.history if trial.error), None)
        told = "" if error is None or error in result.stop_reason else f" The first:\n{error}"
        click.echo(f"No trial succeeded.{told}", err=True)
        return NO_SUCCESS
    return 0
