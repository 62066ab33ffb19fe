"""What is seen of a run: on a terminal a bar that is the budget, else a line for each trial."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from farthing.cli.output import amounts, shown_params
from farthing.history import Trial
from farthing.ledger import Ledger, format_amount
from farthing.loop import Result

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from farthing.study import Study

__all__ = ["Progress", "account_line", "first_line", "shown_result", "spent", "watching"]

WIDTH = 40  # of the bar
REFRESH = 0.1  # seconds


class Progress(Protocol):
    """What is called whenever something may have happened."""

    def __call__(self, study: Study) -> None:
        """Show it."""


@contextmanager
def watching(study: Study, *, quiet: bool) -> Iterator[Progress | None]:
    """What shows a run while it goes on."""
    if quiet:
        yield None
    elif sys.stdout.isatty():
        with _live(study) as progress:
            yield progress
    else:
        yield _Lines(study)


# ── a line for each trial ──────────────────────────────────────────────────────────────────────


class _Lines:
    """Every trial that has finished, once."""

    def __init__(self, study: Study) -> None:
        self._shown = {t.number for t in study.history if t.state != "running"}

    def __call__(self, study: Study) -> None:
        """Print the trials that have finished since."""
        new = [t for t in study.history if t.state != "running" and t.number not in self._shown]
        for trial in new:
            self._shown.add(trial.number)
            click.echo(f"{_trial_line(trial)}  [{spent(study.ledger)}]")


def _trial_line(trial: Trial) -> str:
    result = f"{trial.value:.6g}" if trial.value is not None else trial.state
    line = f"trial {trial.number}: {result}"
    if trial.cost:
        line += f" for {amounts(trial.cost)}"
        line += f", about {amounts(trial.predicted)} expected" if trial.predicted else ""
    line += f"  {shown_params(trial.params)}"
    return f"{line}  ({first_line(trial.error)})" if trial.error else line


def first_line(error: str) -> str:
    """What was wrong: the first line, or the last of a traceback."""
    lines = error.strip().splitlines() or [""]
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


def spent(ledger: Ledger) -> str:
    """What was paid of each budget, in one line."""
    parts = []
    for resource in ledger:
        account = ledger[resource]
        text = format_amount(resource, account.spent)
        if math.isfinite(account.limit):
            text += f" of {format_amount(resource, account.limit)}"
        elif not account.spent:
            continue
        parts.append(text)
    return ", ".join(parts)


# ── a bar ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _live(study: Study) -> Iterator[Progress]:
    from rich.console import Console
    from rich.live import Live

    # Refreshed from here: a thread of its own would not survive the forks of a run.
    console, last, running = Console(file=sys.stdout), -math.inf, list[int]()
    with Live(_picture(study), console=console, auto_refresh=False, transient=True) as live:

        def progress(study: Study) -> None:
            nonlocal last, running
            before, running = running, [trial.number for trial in study.history.running]
            if running != before or time.monotonic() - last >= REFRESH:
                live.update(_picture(study), refresh=True)
                last = time.monotonic()

        yield progress
        live.update(_picture(study), refresh=True)
    console.print(*[_bar(study.ledger, resource) for resource in study.ledger], sep="\n")


def _picture(study: Study) -> Group:
    from rich.console import Group
    from rich.text import Text

    ledger, best = study.ledger, study.best
    lines = [_bar(ledger, resource) for resource in ledger]
    if best is not None:
        lines.append(Text(f"best {best.value:.6g}  trial {best.number} at ", style="bold"))
        lines[-1].append(shown_params(best.params), style="not bold")
    for trial in study.history.running:
        text = f"trial {trial.number}: {amounts(trial.cost) or 'starting'}"
        text += f", about {amounts(trial.predicted)} expected" if trial.predicted else ""
        lines.append(Text(f"{text}  {shown_params(trial.params)}", style="cyan"))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _bar(ledger: Ledger, resource: str) -> Text:
    """Thinking, other spending and what is held, as parts of the budget."""
    from rich.text import Text

    account, bar = ledger[resource], Text()
    if math.isfinite(account.limit):
        places, ends = 0, 0.0
        parts = (account.thinking, account.spent - account.thinking, account.reserved)
        for amount, style in zip(parts, ("blue", "green", "yellow"), strict=True):
            ends += amount
            until = min(round(WIDTH * ends / account.limit), WIDTH)
            bar.append("━" * max(until - places, 0), style=style)
            places = max(until, places)
        bar.append("━" * (WIDTH - places) + " ", style="bright_black")
    bar.append(account_line(ledger, resource))
    return bar


def account_line(ledger: Ledger, resource: str) -> str:
    """One budget in words: spent, reserved, thinking."""
    account = ledger[resource]
    line = format_amount(resource, account.spent)
    if math.isfinite(account.limit):
        line += f" of {format_amount(resource, account.limit)}"
    line += " spent"
    if account.reserved:
        line += f", {format_amount(resource, account.reserved)} reserved"
    if account.thinking:
        line += f", {format_amount(resource, account.thinking)} of it thinking"
    return line


# ── the end ────────────────────────────────────────────────────────────────────────────────────


def shown_result(result: Result) -> str:
    """How a run ended, what it found, and what it paid."""
    lines = [f"stopped: {result.stop_reason}"]
    if result.best is not None:
        at = shown_params(result.best.params)
        lines.append(f"best:    {result.best.value:.6g} (trial {result.best.number}) at {at}")
    else:
        lines.append("best:    no trial returned a value")
    ledger = result.ledger
    thinking = (
        f", {format_amount('s', ledger['s'].thinking)} of it thinking" if "s" in ledger else ""
    )
    states = Counter(trial.state for trial in result.history)
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    paid = spent(ledger) or "nothing"
    trials = f"{len(result.history)} trials" + (f" ({counted})" if counted else "")
    return "\n".join([*lines, f"spent:   {paid}{thinking}; {trials}"])
