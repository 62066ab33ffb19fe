"""The events that change the state of a study. `transition.apply` defines what each one does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import QueueEntry
from farthing.history import CurvePoint, PricePoint, StopReason, Trial, TrialState

__all__ = [
    "Added",
    "Asked",
    "AskedAgain",
    "AskedPart",
    "AskedTogether",
    "Changed",
    "CheckpointsDeleted",
    "Continued",
    "Dropped",
    "Ended",
    "Enqueued",
    "Event",
    "LeasesExpired",
    "Moment",
    "Price",
    "Recovered",
    "Renewed",
    "Repeated",
    "Resumed",
    "Returned",
    "StopRequested",
    "SuggestLock",
    "TimePassed",
    "Told",
    "UntimedEvent",
    "WorkerExcluded",
]


Price = float | Mapping[str, float] | None


class Moment(NamedTuple):
    """When an event happens, and the time that it charges.

    Attributes:
        now: on the store's clock.
        present: seconds that the process was at work since its last event; None if its time is not
            charged as it passes.
        overhead_s: seconds that the process spent suggesting and that were not charged yet.
    """

    now: float
    present: float | None = None
    overhead_s: float = 0.0

    @property
    def on_clock(self) -> bool:
        """Whether time is charged as it passes."""
        return self.present is not None


# ── trials ───────────────────────────────────────────────────────────────────────────────────────


class Asked(NamedTuple):
    """A suggested trial starts.

    Attributes:
        reservation: the amounts to reserve for it, by resource.
        suggest_s: seconds that the suggestion took.
        suggester: the process that suggested it.
        worker: the worker that evaluates it.
        lease: seconds after which it is lost unless it is renewed; None: never.
        changes: the number of changes of the settings when it was suggested; None: not checked.
    """

    trial: Trial
    reservation: Mapping[str, float]
    suggest_s: float = 0.0
    suggester: str | None = None
    worker: str | None = None
    lease: float | None = None
    changes: int | None = None


class AskedAgain(NamedTuple):
    """The oldest lost trial that is to be repeated starts again under a new number."""

    worker: str | None = None
    lease: float | None = None


class AskedPart(NamedTuple):
    """A paused trial is resumed, and its training runs to another step.

    Attributes:
        trial: the paused trial, with the `predicted`, `because` and `notes` of its suggestion and
            with the step to run to, `until`. `predicted` is the cost of this part.

    The others are those of `Asked`.
    """

    trial: Trial
    reservation: Mapping[str, float]
    suggest_s: float = 0.0
    suggester: str | None = None
    worker: str | None = None
    lease: float | None = None
    changes: int | None = None


class AskedTogether(NamedTuple):
    """A batch of trials starts: all of them or none."""

    asked: tuple[Asked | AskedAgain | AskedPart, ...]


class Continued(NamedTuple):
    """A running training has reached the step of its part, and goes on to a later one.

    Attributes:
        trial: the trial with the `predicted`, `because`, `notes` and `until` of its suggestion, as
            in `AskedPart`.
        reservation: the amounts to reserve for the steps ahead, by resource.
        cost: what its part has used so far.
        curve: the points that its part has reported, each with the cost of the part until then.
        bound: if it goes on without a new suggestion, its index in the user's units, to minimise:
            it is refused once another trial has a better value.
    """

    trial: Trial
    reservation: Mapping[str, float]
    cost: Mapping[str, float]
    curve: tuple[CurvePoint, ...] = ()
    suggest_s: float = 0.0
    changes: int | None = None
    bound: float | None = None


class Renewed(NamedTuple):
    """A worker reports that its trial is still running.

    Attributes:
        lease: seconds after which the trial is lost unless it is renewed again.
        cost: what the trial, or its part, has used so far.
        ahead: what it will have used when it is renewed next.
        reports: the progress that it has reported.
        run: where it runs: `slot`, `log`.
        curve: the points that its part has reported, each with the cost of the part until then.
    """

    number: int
    lease: float
    cost: Mapping[str, float]
    ahead: Mapping[str, float]
    reports: tuple[Mapping[str, Any], ...] = ()
    run: Mapping[str, Any] = {}
    curve: tuple[CurvePoint, ...] = ()


class Returned(NamedTuple):
    """A worker returns a trial that it did not begin. It costs nothing and is repeated."""

    number: int
    because: str


class WorkerExcluded(NamedTuple):
    """A worker cannot evaluate trials. The trials that failed there are lost and repeated."""

    worker: str


class Told(NamedTuple):
    """The outcome of a trial, or of a part of its training.

    Attributes:
        trial: the trial as it was asked, or its number.
        state: "paused" if its training ended at a step before the last and can go on.
        cost: of the trial, or of this part.
        by_user: whether a user reports it. Then every required cost must be given. An engine may
            report an outcome without costs.
        run: measurements of the run: `run_s`, `cpu_s`, `peak_mb`, `reports`, `metrics`, `slot`,
            `log`, `tail`. The quantities that constraints limit are metrics.
        step: the step at which a training had this value; None: `until` if a user reports it.
        curve: the points that the part has reported, each with the cost of the part until then.
        because: why its training is paused; "" if the tuner did not decide it. PRUNED if a
            scheduler of another tool killed it.
    """

    trial: Trial | int
    state: TrialState
    value: float | None = None
    cost: Price = None
    error: str | None = None
    by_user: bool = True
    run: Mapping[str, Any] = {}
    step: int | None = None
    curve: tuple[CurvePoint, ...] = ()
    because: str = ""


class Recovered(NamedTuple):
    """Values that a part of a training reported, and that its worker did not store before it died.

    Attributes:
        asked_at: when that part began: another part of the trial may run by now.
        curve: the points of the part, each with the cost of the part until then.
    """

    number: int
    asked_at: float
    curve: tuple[CurvePoint, ...]


class CheckpointsDeleted(NamedTuple):
    """The checkpoints of these trials are given up. Those of running trials are not."""

    numbers: tuple[int, ...]


class Added(NamedTuple):
    """External evaluations are imported. They get numbers, but the budget does not pay for them."""

    trials: tuple[Trial, ...]
    prices: tuple[PricePoint, ...] = ()


class LeasesExpired(NamedTuple):
    """Trials whose lease has expired are lost, and charged until their last sign of life."""


# ── time and the suggestion lock ─────────────────────────────────────────────────────────────────


class TimePassed(NamedTuple):
    """Only time passes, and is charged."""


class SuggestLock(NamedTuple):
    """A process acquires the suggestion lock for `seconds` at most, or releases it with None."""

    suggester: str
    seconds: float | None = None


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


class StopRequested(NamedTuple):
    """No further trial may start. With `now`, running trials are killed."""

    because: StopReason
    now: bool = False


class Resumed(NamedTuple):
    """A run begins: it revokes the request to stop and releases the suggestion lock."""


class Ended(NamedTuple):
    """A run has ended."""

    because: StopReason


# ── edits by a user ──────────────────────────────────────────────────────────────────────────────


class Changed(NamedTuple):
    """The settings change.

    Attributes:
        settings: all settings from now on.
        differences: what changes, as texts: {name: (before, after)}.
        known: the number of earlier changes that the user knew of.
    """

    settings: Settings
    differences: Mapping[str, tuple[str, str]]
    known: int


class Enqueued(NamedTuple):
    """Configurations to evaluate next. With `once`, those that were enqueued before are skipped."""

    entries: tuple[QueueEntry, ...]
    once: bool = False


class Dropped(NamedTuple):
    """The models ignore a trial from now on. Its cost stays charged."""

    number: int


class Repeated(NamedTuple):
    """The parameters of a trial are enqueued again. If it failed, the models ignore the failure."""

    number: int


# Events that charge no time of the process that commits them.
UntimedEvent = (
    Added
    | CheckpointsDeleted
    | LeasesExpired
    | Recovered
    | SuggestLock
    | StopRequested
    | Resumed
    | Ended
    | Changed
    | Enqueued
    | Dropped
    | Repeated
)
Event = (
    Asked
    | AskedAgain
    | AskedPart
    | AskedTogether
    | Continued
    | Renewed
    | Returned
    | WorkerExcluded
    | Told
    | TimePassed
    | UntimedEvent
)
