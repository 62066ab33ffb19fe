"""What is known of a study at one moment, and the events that change it.

`Optimizer` keeps a state in memory, `Study` in a database; both commit the same events, and
`transition.apply` holds the rules of what they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from farthing.history import History, PricePoint, StopReason, Trial, TrialState
from farthing.ledger import Ledger
from farthing.settings import Settings

__all__ = [
    "Added",
    "Asked",
    "AskedAgain",
    "AskedTogether",
    "Change",
    "Changed",
    "Dropped",
    "Ended",
    "Enqueued",
    "Event",
    "GivenBack",
    "GivenUp",
    "Halted",
    "Moment",
    "Passed",
    "Price",
    "Renewed",
    "Repeated",
    "Resumed",
    "SetAside",
    "State",
    "Told",
    "Turn",
    "Wanted",
]

Price = float | Mapping[str, float] | None


class Change(NamedTuple):
    """What a person changed about a study that was begun.

    Attributes:
        at: on the memory's clock.
        trials: how many there were.
        said: what was changed, as it was and as it is, in words.
        settings: those that hold from then on; None: the same, or read of an older change.
    """

    at: float
    trials: int
    said: Mapping[str, tuple[str, str]]
    settings: Settings | None = None


class Wanted(NamedTuple):
    """A configuration that a person wants evaluated; some of its parameters are enough."""

    params: Mapping[str, Any]
    because: str = ""


@dataclass(frozen=True)
class State:
    """A study at one moment.

    Attributes:
        prices: costs from elsewhere that belong to no trial.
        charged_until: until when wall clock time was charged, on the memory's clock.
        thinker: who thinks, where thoughts take long enough to wait for.
        thinker_until: when he must have died.
        thought_s: how long the last thought took.
        failures: how many trials in a row went wrong.
        first_error: of these.
        halted: why nothing may start, though the verdict is to go on.
        halted_now: whether what is running ends, too.
        stop_reason: how the last run ended.
        changes: what people changed since it was made.
        queue: what people want evaluated next.
        elapsed_s: seconds that it was worked on, by however many.
        thinking_s: how many of them were our own thought.
    """

    ledger: Ledger
    history: History = History()
    prices: tuple[PricePoint, ...] = ()
    charged_until: float | None = None
    thinker: str | None = None
    thinker_until: float | None = None
    thought_s: float = 0.0
    failures: int = 0
    first_error: str | None = None
    halted: StopReason | None = None
    halted_now: bool = False
    stop_reason: StopReason | None = None
    changes: tuple[Change, ...] = ()
    queue: tuple[Wanted, ...] = ()
    elapsed_s: float = 0.0
    thinking_s: float = 0.0

    @property
    def waiting(self) -> Trial | None:
        """The oldest trial that was lost, is to be tried again, and can be paid."""
        lost = (trial for trial in self.history.having("lost") if trial.run.retry)
        return next((trial for trial in lost if self._can_pay(trial)), None)

    def _can_pay(self, trial: Trial) -> bool:
        """Whether what is left is as much as a trial was expected to cost, or may at most."""
        expected = ((r, min(a, trial.limit.get(r, a))) for r, a in trial.predicted.items())
        return all(amount <= self.ledger[r].left for r, amount in expected if r in self.ledger)

    def is_thinking(self, other_than: str | None, now: float) -> bool:
        """Whether somebody else is thinking, and should be alive."""
        until = self.thinker_until
        return self.thinker not in (None, other_than) and until is not None and now < until

    def known(self) -> tuple[int, ...]:
        """What a thought depends on: it changes with every ask, tell, import and change, and never
        back.
        """
        states: tuple[TrialState, ...] = ("running", "done", "failed", "killed", "lost")
        counts = (len(self.history.having(each)) for each in states)
        return *counts, len(self.prices), len(self.changes), len(self.queue)


class Moment(NamedTuple):
    """When an event happens, and the time it brings with it.

    Attributes:
        now: on the memory's clock.
        present: for how many seconds its process has been there since its last event; None: it is
            not on the clock.
        thought: seconds of its thinking that nobody has paid for yet.
    """

    now: float
    present: float | None = None
    thought: float = 0.0

    @property
    def on_clock(self) -> bool:
        """Whether time is charged as it passes."""
        return self.present is not None


# ── events ─────────────────────────────────────────────────────────────────────────────────────


class Asked(NamedTuple):
    """A thought led to a trial; `hold` is put aside for it, `lease` is in seconds.

    `changes` is how many of them it was thought under; None: whatever they are.
    """

    trial: Trial
    hold: Mapping[str, float]
    think_s: float = 0.0
    thinker: str | None = None
    worker: str | None = None
    lease: float | None = None
    changes: int | None = None


class AskedAgain(NamedTuple):
    """The oldest lost trial is begun again under a new number."""

    worker: str | None = None
    lease: float | None = None


class AskedTogether(NamedTuple):
    """A batch: all of them begin, or none."""

    asked: tuple[Asked | AskedAgain, ...]


class Renewed(NamedTuple):
    """A worker is alive: what its trial has used, and what it will have when this comes next."""

    number: int
    lease: float
    cost: Mapping[str, float]
    ahead: Mapping[str, float]
    progress: tuple[Mapping[str, Any], ...] = ()
    run: Mapping[str, Any] = {}  # where it runs: `slot`, `log`


class GivenBack(NamedTuple):
    """A trial was asked and never begun: it costs nothing, and is offered again."""

    number: int
    because: str


class SetAside(NamedTuple):
    """A worker cannot work: what failed with it is lost, and offered again."""

    worker: str


class Told(NamedTuple):
    """What became of a trial.

    Attributes:
        trial: as it was asked, or its number.
        certain: a person says so, and a cost that is needed must be among it. What an evaluation
            could not say is not held against it.
        run: what it used and said: `run_s`, `cpu_s`, `peak_mb`, `progress`, `metrics`, `slot`,
            `log`, `tail`.
    """

    trial: Trial | int
    state: TrialState
    value: float | None = None
    cost: Price = None
    error: str | None = None
    certain: bool = True
    run: Mapping[str, Any] = {}


class Added(NamedTuple):
    """Evaluations made elsewhere; they take numbers, but nothing of the budget."""

    trials: tuple[Trial, ...]
    prices: tuple[PricePoint, ...] = ()


class GivenUp(NamedTuple):
    """Trials whose lease has passed are lost, and charged to their last sign of life."""


class Passed(NamedTuple):
    """Nothing but time."""


class Turn(NamedTuple):
    """Somebody begins to think, for at most so many seconds; None: he has ended."""

    thinker: str
    seconds: float | None = None


class Halted(NamedTuple):
    """Nothing may start any more; what is running ends with `now`."""

    because: StopReason
    now: bool = False


class Resumed(NamedTuple):
    """A stop is taken back, and nobody is waited for who was thinking."""


class Ended(NamedTuple):
    """A run has ended."""

    because: StopReason


class Changed(NamedTuple):
    """Settings are otherwise from now on.

    Attributes:
        settings: all of them.
        said: what differs, as it was and as it is, in words.
        known: how many changes there were when this one was thought of.
    """

    settings: Settings
    said: Mapping[str, tuple[str, str]]
    known: int


class Enqueued(NamedTuple):
    """Configurations to evaluate next; `once`: but for those that were wanted before."""

    wanted: tuple[Wanted, ...]
    once: bool = False


class Dropped(NamedTuple):
    """Nothing is learnt any more from a trial; what it cost is paid."""

    number: int


class Repeated(NamedTuple):
    """The parameters of a trial are wanted again; that it failed is not held against them."""

    number: int


Event = (
    Asked
    | AskedAgain
    | AskedTogether
    | Renewed
    | GivenBack
    | SetAside
    | Told
    | Added
    | GivenUp
    | Passed
    | Turn
    | Halted
    | Resumed
    | Ended
    | Changed
    | Enqueued
    | Dropped
    | Repeated
)
