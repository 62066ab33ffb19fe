"""The door: the commands, and how an error becomes one sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

import click

from farthing.cli.amend import drop, rerun
from farthing.cli.change import change
from farthing.cli.costs import costs
from farthing.cli.dashboard import dashboard
from farthing.cli.demo import demo
from farthing.cli.exchange import export, import_
from farthing.cli.explain import explain
from farthing.cli.lists import policies, rules
from farthing.cli.logs import logs
from farthing.cli.output import Unbroken
from farthing.cli.plot import plot
from farthing.cli.replay import replay
from farthing.cli.report import report
from farthing.cli.run import run
from farthing.cli.show import best, status, trials
from farthing.cli.stop import stop
from farthing.cli.studies import delete, rename, studies
from farthing.cli.worker import worker
from farthing.errors import FarthingError

__all__ = ["app", "main"]

USAGE, INTERRUPTED = 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="farthing", prog_name="farthing")
def app() -> None:
    """Tune a program whose every run has its own price, on a budget that cannot be overspent."""


COMMANDS = (
    *(run, change, worker, stop, status, best, trials, explain, logs, plot, report, dashboard),
    *(replay, costs, export, import_, drop, rerun, studies, rename, delete),
    *(policies, rules, demo),
)
for command in COMMANDS:
    app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit.

    Args:
        arguments: those of the process, unless given.
    """
    before = sys.stdout, sys.stderr
    seen = [Unbroken(stream or _nowhere()) for stream in before]
    sys.stdout, sys.stderr = seen
    try:
        code = app.main(arguments, prog_name="farthing", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = USAGE
    except FarthingError as error:
        click.echo(f"Error: {error}", err=True)
        code = USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        code = INTERRUPTED
    for stream in seen:
        stream.flush()
    lost = seen[0].lost
    if lost is not None and not isinstance(lost, BrokenPipeError):  # `| head` has seen enough
        click.echo(f"Error: What was printed could not be written: {lost.strerror}.", err=True)
        code = code or USAGE
    sys.stdout, sys.stderr = before
    sys.exit(code or 0)


def _nowhere() -> TextIO:
    """In place of a stream that was closed before this process began."""
    return open(os.devnull, "w", encoding="utf-8")
