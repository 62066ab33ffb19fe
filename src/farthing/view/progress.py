"""What is seen of a run while it goes on: a bar that is the budget, or a line for each trial."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from farthing.budget.ledger import Ledger
from farthing.optimizer import Optimizer
from farthing.view.formatting import (
    account_line,
    amounts,
    shown_params,
    spent,
    time_line,
    trial_line,
)
from farthing.view.result import time_of

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

__all__ = ["picture", "watching"]

WIDTH = (8, 40)  # of the bar, at least and at most: the rest is for what is said beside it,
BESIDE = 46
REFRESH = 0.1  # seconds


@contextmanager
def watching(optimizer: Optimizer, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """What to call whenever something may have happened."""
    if quiet:
        yield lambda: None
    elif sys.stdout.isatty():
        with _live(optimizer) as show:
            yield show
    else:
        lines = _Lines(optimizer)
        yield lines.show
        lines.show()  # what others have finished meanwhile


class _Lines:
    """Every trial that has finished, once."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._shown = {t.number for t in optimizer.history if t.state != "running"}

    def show(self) -> None:
        """Print the trials that have finished since."""
        state = self._optimizer.seen
        for trial in state.history:
            if trial.state != "running" and trial.number not in self._shown:
                self._shown.add(trial.number)
                print(f"{trial_line(trial)}  [{spent(state.ledger)}]", flush=True)


@contextmanager
def _live(optimizer: Optimizer) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.live import Live

    # Refreshed from here: a thread of its own would not survive the forks of a run.
    console, last, running = Console(file=sys.stdout), -math.inf, list[int]()
    shown = picture(optimizer, console.width)
    with Live(shown, console=console, auto_refresh=False, transient=True) as live:

        def show() -> None:
            nonlocal last, running
            before = running
            running = [trial.number for trial in optimizer.seen.history.running]
            if running != before or time.monotonic() - last >= REFRESH:
                live.update(picture(optimizer, console.width), refresh=True)
                last = time.monotonic()

        yield show
        live.update(picture(optimizer, console.width), refresh=True)
    ledger = optimizer.ledger
    console.print(*[_bar(ledger, resource, console.width) for resource in ledger], sep="\n")


def picture(optimizer: Optimizer, screen: int) -> Group:
    """What a study has spent, its best trial, and what is running, on a screen so wide."""
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
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _bar(ledger: Ledger, resource: str, screen: int) -> Text:
    """Thinking, other spending and what is held, as parts of the budget."""
    from rich.text import Text

    account, bar = ledger[resource], Text()
    width = min(max(screen - BESIDE, WIDTH[0]), WIDTH[1])
    if math.isfinite(account.limit):
        places, ends = 0, 0.0
        parts = (account.overhead, account.spent - account.overhead, account.reserved)
        for amount, style in zip(parts, ("blue", "green", "yellow"), strict=True):
            ends += amount
            until = min(round(width * ends / account.limit), width)
            bar.append("━" * max(until - places, 0), style=style)
            places = max(until, places)
        bar.append("━" * (width - places) + " ", style="bright_black")
    bar.append(account_line(ledger, resource))
    return bar
