"""`farthing status --watch`: the progress of a study, with a plot of the best value."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group

    from farthing.core.state import State
    from farthing.study import Study

__all__ = ["watch"]

INTERVAL = 0.5  # seconds between two updates
HEIGHT = 12  # lines of the plot


def watch(study: Study, interval: float = INTERVAL) -> None:
    """Show a study until it has stopped.

    In a terminal the picture is updated in place. In a file it is printed after every change.
    """
    from rich.console import Console
    from rich.live import Live

    from farthing.view.report import status_sentence

    console, known = Console(file=sys.stdout), None
    if not sys.stdout.isatty():
        while True:
            state = study.seen
            if state.version() != known:
                known = state.version()
                console.print(_picture(study, console.width))
            if _has_stopped(state):
                break
            time.sleep(interval)
    else:
        with Live(_picture(study, console.width), console=console, auto_refresh=False) as live:
            while True:
                state = study.seen
                live.update(_picture(study, console.width), refresh=True)
                if _has_stopped(state):
                    break
                time.sleep(interval)
    print(status_sentence(*study.facts, suggestion=False))


def _has_stopped(state: State) -> bool:
    return bool(state.stop_reason or state.stop_requested) and not state.history.running


def _picture(study: Study, width: int) -> Group:
    from rich.console import Group
    from rich.text import Text

    from farthing.view.figures import curve
    from farthing.view.plots import terminal
    from farthing.view.progress import picture

    drawn = terminal.drawn(curve(*study.facts), min(width, 100), HEIGHT)
    return Group(picture(study, width), Text(drawn, no_wrap=True, overflow="crop"))
