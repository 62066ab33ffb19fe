"""The entry point: all commands, and how an error becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
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
from farthing.cli.output import ClosableStream
from farthing.cli.plot import plot
from farthing.cli.replay import replay
from farthing.cli.report import report
from farthing.cli.run import run
from farthing.cli.show import best, status, trials
from farthing.cli.stop import stop
from farthing.cli.studies import delete, rename, studies
from farthing.cli.top import top
from farthing.cli.worker import worker
from farthing.errors import FarthingError

__all__ = ["app", "main"]

USAGE, INTERRUPTED = 2, 130  # exit codes


class Commands(click.Group):
    """The commands, under headings in the help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading."""
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(str(c.name), c.get_short_help_str(60)) for c in commands])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="farthing", prog_name="farthing")
def app() -> None:
    """Tune a program within a budget of time, money or energy.

    Farthing learns what each run costs, and spends the budget where it improves the result most. It
    can stop when going on is no longer worth the cost (--stop not_worth_it).

    Many commands take the NAME of a study. You can leave it out if the database has only one study.
    """


COMMANDS: Mapping[str, tuple[click.Command, ...]] = {
    "Run a study": (run, change, worker, stop),
    "See results": (
        status,
        top,
        best,
        trials,
        explain,
        logs,
        plot,
        report,
        dashboard,
        replay,
        costs,
    ),
    "Exchange and edit trials": (export, import_, drop, rerun),
    "Manage studies": (studies, rename, delete),
    "Learn more": (policies, rules, demo),
}
for command in (command for commands in COMMANDS.values() for command in commands):
    app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit.

    Args:
        arguments: by default those of the process.
    """
    original = sys.stdout, sys.stderr
    streams = [ClosableStream(stream or _null()) for stream in original]
    sys.stdout, sys.stderr = streams
    try:
        code = app.main(arguments, prog_name="farthing", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = USAGE
    except FarthingError as error:
        from farthing.view.formatting import without_controls

        click.echo(f"Error: {without_controls(str(error))}", err=True)
        code = USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        code = INTERRUPTED
    for stream in streams:
        stream.flush()
    lost = streams[0].error
    if lost is not None and not isinstance(lost, BrokenPipeError):  # `| head` reads only a part
        click.echo(f"Error: The output could not be written: {lost.strerror}.", err=True)
        code = code or USAGE
    sys.stdout, sys.stderr = original
    sys.exit(code or 0)


def _null() -> TextIO:
    """A replacement for a stream that was closed before this process started."""
    return open(os.devnull, "w", encoding="utf-8")
