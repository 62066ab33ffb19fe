"""From thoughts to the trials that are asked, one or a batch.

The trials of a batch are thought of one after another, each on the state that those before it lead
to: they are running then, hold what they may cost, and take part as fantasies (Lee et al. 2020,
algorithm 3). So a batch is the same trials as so many single asks, and it begins as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from farthing.errors import InvalidInput, Stopped
from farthing.history import BUDGET_SPENT, StopReason, Trial
from farthing.ledger import Ledger, format_amount
from farthing.settings import Settings
from farthing.state import Asked, AskedAgain, Moment, State
from farthing.thinking import Thought
from farthing.transition import apply, out_of_time

__all__ = ["Terms", "Thinker", "next_trials", "no_time_to_think", "own"]

Thinker = Callable[[State], tuple[Thought, float]]  # and the seconds that the thought took


class Terms(NamedTuple):
    """How trials are asked for.

    Attributes:
        anyway: although a rule said stop.
        thinker: who thinks.
        worker: who will evaluate them.
        lease: seconds after which they are lost unless renewed; None: never.
    """

    anyway: bool = False
    thinker: str | None = None
    worker: str | None = None
    lease: float | None = None


def next_trials(
    settings: Settings,
    state: State,
    count: int,
    think: Thinker,
    terms: Terms,
    moment: Callable[[], Moment],
) -> tuple[Asked | AskedAgain, ...]:
    """The next trials, `count` of them or as many as may start.

    Args:
        moment: when it is, while it thinks.

    Raises:
        InvalidInput: a part of the study is there as text only.
        Stopped: not even one may start.
    """
    for part, unseen in settings.unseen.items():
        raise InvalidInput(
            f"The study's {part} is somebody's own code, which was not imported: "
            f"{unseen.described!r}. Give it again, Study.open(url, name, {part}=...), or, if you "
            "trust whoever made the study, say --trust or Study.open(..., trust=True)."
        )
    found = [_next(settings, state, think, terms)]
    while len(found) < count:
        state = apply(settings, state, found[-1], moment())
        if out_of_time(settings, state, moment()) is not None:
            break
        try:
            found.append(_next(settings, state, think, terms))
        except Stopped:
            break  # a smaller batch than wanted, rather than an error after some were made
    return tuple(found)


def _next(settings: Settings, state: State, think: Thinker, terms: Terms) -> Asked | AskedAgain:
    """The oldest trial that was lost and is to be tried again, or the one that a thought leads to;
    neither where a rule says stop.
    """
    if state.waiting is not None:
        if state.ledger.used_up:
            raise Stopped(BUDGET_SPENT)
        if settings.stop is not None and not terms.anyway:
            verdict = think(state)[0].verdict
            if verdict.stop:
                raise Stopped(verdict.reason)
        return AskedAgain(terms.worker, terms.lease)
    thought, seconds = think(state)
    if thought.proposal.x is None or (thought.verdict.stop and not terms.anyway):
        raise Stopped(thought.verdict.reason)
    trial, hold = thought.trial(settings.leash)
    begun = (terms.thinker, terms.worker, terms.lease)
    return Asked(trial, hold, seconds, *begun, len(state.changes))


def own(trial: Trial) -> Trial:
    """The user's own, to pop and change."""
    return replace(trial, params=dict(trial.params))


def no_time_to_think(ledger: Ledger, resource: str) -> StopReason:
    """Why no thought may begin that would end after the budget of a resource."""
    account = ledger[resource]
    because = f"the budget of {format_amount(resource, account.limit)} is spent"
    if account.left > 0:
        left = format_amount(resource, account.left)
        because += f", but for the {left} that another thought would take"
    return StopReason("budget_spent", because)
