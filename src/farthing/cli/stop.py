"""`farthing stop`: ask every worker of a study to end."""

from __future__ import annotations

import click

from farthing.cli.options import open_study, where

__all__ = ["stop"]


@click.command()
@where
@click.option("--now", is_flag=True, help="Kill what is running; what it has used is charged.")
def stop(storage: str | None, name: str | None, now: bool) -> None:
    """Ask all workers of a study to end.

    Each lets the trial finish that it is running, on whatever machine. The same `farthing run` goes
    on with the study.
    """
    study = open_study(storage, name)
    try:
        study.request_stop(now=now)
        running = [str(trial.number) for trial in study.history if trial.state == "running"]
    finally:
        study.close()
    if not running:
        click.echo("Nothing is running; nothing will start.")
    else:
        will = "is killed" if now else "is let finish"
        trials = f"trial{'s' * (len(running) > 1)} {', '.join(running)}"
        click.echo(f"Nothing will start any more; what is running {will}: {trials}.")
