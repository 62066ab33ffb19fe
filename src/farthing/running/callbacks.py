"""Callbacks of the user, called after every trial that ends during a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from farthing.errors import InvalidInput
from farthing.history import History, StopReason, Trial
from farthing.optimizer import Optimizer
from farthing.running.signals import ExitCheck, ExitRequest
from farthing.running.worker import OnChange

__all__ = ["Callback", "Calling", "calling"]

# Called with the Optimizer or Study and the trial that has ended.
Callback = Callable[[Any, Trial], object]


class Calling(NamedTuple):
    """How a run calls callbacks: on every change, and whether an error asks it to end."""

    on_change: OnChange
    exit_check: ExitCheck


@contextmanager
def calling(
    optimizer: Optimizer, callbacks: Sequence[Callback], on_change: OnChange
) -> Iterator[Calling]:
    """Call the callbacks with every trial that ends inside the block, in the order of their ends.

    StopIteration requests a stop of the study. After any other error no further trial starts, the
    running ones finish, and the error is raised when the block ends. A callback with a method
    `after_run` is called with the optimizer once more at the end, for example to log paused trials.

    Args:
        on_change: called before the callbacks.
    """
    _check(callbacks)
    ended = _ended(optimizer.history)
    errors = list[Exception]()

    def call(history: History, *, running: bool) -> None:
        nonlocal ended
        now = _ended(history)
        new = [trial for number, trial in now.items() if number not in ended]
        ended = now
        for trial in sorted(new, key=lambda trial: trial.run.told_at or 0.0):
            for callback in callbacks:
                try:
                    callback(optimizer, trial)
                except StopIteration as stop:
                    if running:
                        optimizer.request_stop(str(stop) or "a callback requested it")
                except Exception as error:
                    errors.append(error)
                    return

    def changed() -> None:
        on_change()
        if callbacks and not errors:
            call(optimizer.seen.history, running=True)

    def exit_check() -> ExitRequest | None:
        if not errors:
            return None
        what = f"a callback raised {type(errors[0]).__name__}"
        return ExitRequest(StopReason("requested", what), kill=False)

    yield Calling(changed, exit_check)
    if callbacks and not errors:  # the last trials
        call(optimizer.history, running=False)
    for callback in callbacks:
        if hasattr(callback, "after_run"):
            callback.after_run(optimizer)
    if errors:
        raise errors[0]


def _check(callbacks: Sequence[Callback]) -> None:
    if callable(callbacks) or not all(callable(each) for each in callbacks):
        raise InvalidInput(
            f"callbacks={callbacks!r}: expected a list of functions of the optimizer and the trial "
            "that has ended, such as [lambda optimizer, trial: print(trial.value)]."
        )


def _ended(history: History) -> dict[int, Trial]:
    """The trials of this study that have ended, by number."""
    ended = (t for t in history if t.state not in ("running", "paused") and not t.is_external)
    return {t.number: t for t in ended}
