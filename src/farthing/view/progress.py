"""Progress of a run: a live view in a terminal or a notebook, or one line per finished trial."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from farthing.budget.ledger import Ledger
from farthing.history import History, Trial
from farthing.view.card import picture_of
from farthing.view.formatting import (
    account_line,
    amounts,
    shown_params,
    spent,
    time_line,
    time_of,
    trial_line,
)
from farthing.view.html import Html, element, joined
from farthing.view.primitives import STYLES, visible
from farthing.view.watched import Watched, status_of

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

__all__ = ["notebook_view", "picture", "watching"]

BAR_WIDTH = (8, 40)  # least and greatest width of a bar in characters
TEXT_WIDTH = 58  # characters reserved for the text beside a bar
REFRESH = 0.1  # seconds between two updates of a terminal
NOTEBOOK_REFRESH = 1.0  # seconds between two updates of a notebook, at least
NOTEBOOK_SHARE = 0.02  # of the time of a run that drawing for a notebook takes, at most
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
    elif (display := _notebook()) is not None:
        with _in_notebook(optimizer, parallel, display) as show:
            yield show
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
        lines.append(Text(_running_line(trial), style="cyan"))
    for trial in _latest(state.history):
        style = "green" if best is not None and trial.number == best.number else "bright_black"
        lines.append(Text(trial_line(trial), style=style))
    if parallel and (waiting := _waiting(optimizer)):
        lines.append(Text(waiting, style="yellow"))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _running_line(trial: Trial) -> str:
    expected = f", about {amounts(trial.predicted)} expected" if trial.predicted else ""
    paid = amounts(trial.cost) or "starting"
    return f"trial {trial.number}: {paid}{expected}  {shown_params(trial.params)}"


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


# ── notebook ───────────────────────────────────────────────────────────────────────────────────


def _notebook() -> Callable[..., Any] | None:
    """IPython's `display`, if this code runs in a notebook."""
    if "IPython" not in sys.modules:  # it takes time to load
        return None
    from IPython import get_ipython
    from IPython.display import display

    return None if getattr(get_ipython(), "kernel", None) is None else display


@contextmanager
def _in_notebook(
    optimizer: Watched, parallel: bool, display: Callable[..., Any]
) -> Iterator[Callable[[], None]]:
    """Show one output that is replaced by each update."""

    def shown() -> dict[str, str]:
        # The plain text is for a front end without HTML.
        return {"text/html": notebook_view(optimizer, parallel), "text/plain": status_of(optimizer)}

    handle, due = display(shown(), raw=True, display_id=True), -math.inf

    def show() -> None:
        nonlocal due
        if (started := time.monotonic()) >= due:
            handle.update(shown(), raw=True)
            now = time.monotonic()
            due = now + max(NOTEBOOK_REFRESH, (now - started) / NOTEBOOK_SHARE)

    yield show
    handle.update(shown(), raw=True)


def notebook_view(optimizer: Watched, parallel: bool = False) -> Html:
    """Budgets, the best, running and latest trials, and the best value against cost.

    A notebook has its own colours and fonts, so only the bars are styled.
    """
    settings, state = optimizer.facts
    best, ledger = optimizer.best, state.ledger
    waiting = _waiting(optimizer) if parallel else None
    lines = [
        *(element("strong", _running_line(trial)) for trial in state.history.running),
        *(visible(trial_line(trial), 300) for trial in _latest(state.history)),
        *([waiting] if waiting else []),
    ]
    found = "" if best is None else f"best {best.value:.6g}  trial {best.number} at "
    return element(
        "div",
        *(_html_bar(ledger, resource) for resource in ledger),
        element("p", element("strong", found), visible(shown_params(best.params), 300))
        if best is not None
        else None,
        element("pre", joined(*lines, by="\n"), style="white-space:pre-wrap") if lines else None,
        picture_of(settings, state) if best is not None else None,
        class_="farthing-progress",
    )


def _html_bar(ledger: Ledger, resource: str) -> Html:
    account = ledger[resource]
    words = element("div", account_line(ledger, resource))
    if not math.isfinite(account.limit):
        return words
    parts = (account.overhead, account.spent - account.overhead, account.reserved)
    hues = (STYLES["overhead"].light, STYLES["best"].light, "#9cc3ea")
    pieces = (
        element("i", style=f"width:{100 * amount / account.limit:.2f}%;background:{hue}")
        for amount, hue in zip(parts, hues, strict=True)
    )
    look = "display:flex;height:8px;max-width:420px;overflow:hidden;border-radius:4px"
    return joined(words, element("div", *pieces, style=f"{look};background:#8884;margin:2px 0 6px"))
