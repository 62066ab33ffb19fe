"""`farthing stop`: ask every worker of a study to stop."""

from __future__ import annotations

import click

from farthing.cli.options import open_study, study_argument

__all__ = ["stop"]


@click.command()
@study_argument
@click.option("--now", is_flag=True, help="Kill running trials and charge what they have used.")
def stop(storage: str | None, name: str | None, now: bool) -> None:
    """Ask all workers of a study to stop.

    Every worker, on any machine, finishes its running trial and then ends. To resume the study,
    repeat its `farthing run` command.
    """
    study = open_study(storage, name)
    try:
        study.request_stop(now=now)
        running = [str(trial.number) for trial in study.history if trial.state == "running"]
    finally:
        study.close()
    if not running:
        click.echo("No trial is running, and no new trial will start.")
    else:
        action = "Killing" if now else "Waiting for"
        trials = f"trial{'s' * (len(running) > 1)} {', '.join(running)}"
        click.echo(f"No new trial will start. {action} {trials}.")
