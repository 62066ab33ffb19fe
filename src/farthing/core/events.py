"""The events that change the state of a study; `transition.apply` says how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import Wanted
from farthing.history import PricePoint, StopReason, Trial, TrialState

__all__ = [
    "Added",
    "Asked",
    "AskedAgain",
    "AskedTogether",
    "Changed",
    "Dropped",
    "Ended",
    "Enqueued",
    "Event",
    "LeasesExpired",
    "Moment",
    "Price",
    "Renewed",
    "Repeated",
    "Resumed",
    "Returned",
    "StopRequested",
    "SuggestLock",
    "TimePassed",
    "Told",
    "WorkerExcluded",
]


Price = float | Mapping[str, float] | None


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
    overhead_s: float = 0.0

    @property
    def on_clock(self) -> bool:
        """Whether time is charged as it passes."""
        return self.present is not None


class Asked(NamedTuple):
    """A thought led to a trial; `hold` is put aside for it, `lease` is in seconds.

    `changes` is how many of them it was thought under; None: whatever they are.
    """

    trial: Trial
    reservation: Mapping[str, float]
    suggest_s: float = 0.0
    suggester: str | None = None
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
    reports: tuple[Mapping[str, Any], ...] = ()
    run: Mapping[str, Any] = {}  # where it runs: `slot`, `log`


class Returned(NamedTuple):
    """A trial was asked and never begun: it costs nothing, and is offered again."""

    number: int
    because: str


class WorkerExcluded(NamedTuple):
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


class LeasesExpired(NamedTuple):
    """Trials whose lease has passed are lost, and charged to their last sign of life."""


class TimePassed(NamedTuple):
    """Nothing but time."""


class SuggestLock(NamedTuple):
    """Somebody begins to think, for at most so many seconds; None: he has ended."""

    suggester: str
    seconds: float | None = None


class StopRequested(NamedTuple):
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
    | Returned
    | WorkerExcluded
    | Told
    | Added
    | LeasesExpired
    | TimePassed
    | SuggestLock
    | StopRequested
    | Resumed
    | Ended
    | Changed
    | Enqueued
    | Dropped
    | Repeated
)
