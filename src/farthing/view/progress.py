"""Progress of a run: a budget bar in a terminal, or one line per finished trial."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import nlargest
from typing import TYPE_CHECKING

from farthing.budget.ledger import Ledger
from farthing.history import History, Trial
from farthing.view.formatting import (
    account_line,
    amounts,
    shown_params,
    spent,
    time_line,
    trial_line,
)
from farthing.view.result import time_of
from farthing.view.watched import Watched

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

__all__ = ["picture", "watching"]

BAR_WIDTH = (8, 40)  # least and greatest width of a bar in characters
TEXT_WIDTH = 46  # characters reserved for the text beside a bar
REFRESH = 0.1  # seconds between two updates
LATEST = 5  # ended trials that are shown
RECENT = 500  # trials that are searched for them, because the view is drawn ten times a second


@contextmanager
def watching(
    optimizer: Watched, *, quiet: bool = False, parallel: bool = False
) -> Iterator[Callable[[], None]]:
    """Show progress inside the block; yields a function to call after every possible change.

    Args:
        parallel: whether several workers may wait for the cost of one trial, which is then said.
    """
    if quiet:
        yield lambda: None
    elif sys.stdout.isatty():
        with _live(optimizer, parallel) as show:
            yield show
    else:
        lines = _Lines(optimizer, parallel)
        yield lines.show
        lines.show()  # trials that other workers have finished since the last call


class _Lines:
    """Prints one line for each finished trial."""

    def __init__(self, optimizer: Watched, parallel: bool) -> None:
        self._optimizer = optimizer
        self._says_waiting = parallel
        self._shown = {_ending(t) for t in optimizer.history if t.state != "running"}

    def show(self) -> None:
        """Print the trials that have finished since the last call."""
        state = self._optimizer.seen
        for trial in state.history:
            if trial.state != "running" and _ending(trial) not in self._shown:
                self._shown.add(_ending(trial))
                print(f"{trial_line(trial)}  [{spent(state.ledger)}]", flush=True)
        if self._says_waiting and (waiting := _waiting(self._optimizer)):
            self._says_waiting = False
            print(waiting, flush=True)


def _waiting(optimizer: Watched) -> str | None:
    """Why other workers wait, if the cost of the running trial is unknown until it reports it."""
    ledger = optimizer.seen.ledger
    for trial in optimizer.seen.history.running:
        for resource in optimizer.waits_for_cost:
            if ledger[resource].left == 0 < ledger.reserved_for(trial.number).get(resource, 0.0):
                return (
                    f"Waiting for the cost of trial {trial.number}: until it is known, no other "
                    "trial starts. If you know the most that a trial can cost, give it: "
                    "--max-cost, max_cost=."
                )
    return None


def _ending(trial: Trial) -> tuple[int, int | None]:
    """What one line shows: the end of a trial, or its pause at a step."""
    return trial.number, trial.step if trial.state == "paused" else None


@contextmanager
def _live(optimizer: Watched, parallel: bool) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.live import Live

    # No refresh thread: it would not survive the forks of a run.
    console, last, running = Console(file=sys.stdout), -math.inf, list[int]()
    shown = picture(optimizer, console.width, parallel)
    with Live(shown, console=console, auto_refresh=False, transient=True) as live:

        def show() -> None:
            nonlocal last, running
            before = running
            running = [trial.number for trial in optimizer.seen.history.running]
            if running != before or time.monotonic() - last >= REFRESH:
                live.update(picture(optimizer, console.width, parallel), refresh=True)
                last = time.monotonic()

        yield show
        live.update(picture(optimizer, console.width), refresh=True)
    ledger = optimizer.ledger
    console.print(*[_bar(ledger, resource, console.width) for resource in ledger], sep="\n")


def picture(optimizer: Watched, screen: int, parallel: bool = False) -> Group:
    """Render budgets, the best, running and latest trials for a screen of `screen` columns.

    Args:
        parallel: as in `watching`.
    """
    from rich.console import Group
    from rich.text import Text

    state, best = optimizer.seen, optimizer.best
    ledger = state.ledger
    lines = [_bar(ledger, resource, screen) for resource in ledger]
    if "s" not in ledger:
        lines.append(Text(time_line(*time_of(state))))
    if best is not None:
        lines.append(Text(f"best {best.value:.6g}  trial {best.number} at ", style="bold"))
        lines[-1].append(shown_params(best.params), style="not bold")
    for trial in state.history.running:
        text = f"trial {trial.number}: {amounts(trial.cost) or 'starting'}"
        text += f", about {amounts(trial.predicted)} expected" if trial.predicted else ""
        lines.append(Text(f"{text}  {shown_params(trial.params)}", style="cyan"))
    for trial in _latest(state.history):
        style = "green" if best is not None and trial.number == best.number else "bright_black"
        lines.append(Text(trial_line(trial), style=style))
    if parallel and (waiting := _waiting(optimizer)):
        lines.append(Text(waiting, style="yellow"))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _latest(history: History) -> list[Trial]:
    """The trials that ended last, the latest first."""
    recent = history.trials[-RECENT:]
    ended = [(t.run.told_at, t.number) for t in recent if t.run.told_at is not None]
    return [history[number] for _, number in nlargest(LATEST, ended)]


def _bar(ledger: Ledger, resource: str, screen: int) -> Text:
    """A bar with overhead, other spending and reservations as parts of the budget."""
    from rich.text import Text

    account, bar = ledger[resource], Text()
    width = min(max(screen - TEXT_WIDTH, BAR_WIDTH[0]), BAR_WIDTH[1])
    if math.isfinite(account.limit):
        drawn, total = 0, 0.0
        parts = (account.overhead, account.spent - account.overhead, account.reserved)
        for amount, style in zip(parts, ("blue", "green", "yellow"), strict=True):
            total += amount
            end = min(round(width * total / account.limit), width)
            bar.append("━" * max(end - drawn, 0), style=style)
            drawn = max(end, drawn)
        bar.append("━" * (width - drawn) + " ", style="bright_black")
    bar.append(account_line(ledger, resource))
    return bar
