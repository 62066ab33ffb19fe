"""The door: the commands, and how an error becomes one sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from farthing.cli.costs import costs
from farthing.cli.demo import demo
from farthing.cli.exchange import export, import_
from farthing.cli.explain import explain
from farthing.cli.lists import policies, rules
from farthing.cli.replay import replay
from farthing.cli.run import run
from farthing.cli.show import best, status, trials
from farthing.cli.stop import stop
from farthing.cli.worker import worker
from farthing.errors import FarthingError

__all__ = ["app", "main"]

USAGE, INTERRUPTED = 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="farthing", prog_name="farthing")
def app() -> None:
    """Tune a program whose every run has its own price, on a budget that cannot be overspent."""


COMMANDS = (
    *(run, worker, stop, status, best, trials, explain, replay, costs, export, import_),
    *(policies, rules, demo),
)
for command in COMMANDS:
    app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit.

    Args:
        arguments: those of the process, unless given.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a study may have been made with a policy of this folder
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
    sys.exit(code or 0)
