"""A worker: it asks for a trial, evaluates it and tells the result, until the study stops."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from farthing.budget.rates import rate_of
from farthing.core.events import Returned, TimePassed, Told, WorkerExcluded
from farthing.core.outcomes import unknown_units
from farthing.core.settings import Settings
from farthing.core.worker_health import exclusion_message, worker_health
from farthing.errors import Interrupted, InvalidInput, Stopped, StorageError, Unfit, Unreachable
from farthing.history import CurvePoint, Here, StopReason, Trial
from farthing.optimizer import Optimizer
from farthing.running import Allowance, Engine, Finished, Job, Part, Pricing, Usage
from farthing.running.checkpoints import (
    checkpoint_folder,
    delete_checkpoints,
    lacking,
    say_that_it_begins_again,
)
from farthing.running.curve_points import Curve, point_of
from farthing.running.journal import delete_journal, journal_of
from farthing.running.process_group import ProcessGroup
from farthing.running.recovery import Outcome, recover, rescue
from farthing.running.signals import INTERRUPTED, ORPHANED, ExitCheck, ExitRequest
from farthing.running.survivors import sweep
from farthing.running.suspending import (
    check_suspending,
    end_suspended,
    limit_suspended,
    waiting_in,
)
from farthing.steps import Steps

__all__ = [
    "HERE",
    "POLL",
    "OnChange",
    "Place",
    "Report",
    "run_trials",
    "run_worker",
    "running_trials",
    "worker_name",
]

MAX_REPORTS = 1000  # progress messages kept of a trial
TICK = (0.05, 1.0)  # seconds between lease renewals: 1 % of the time budget, within these bounds
POLL = 0.1  # seconds between checks whether other workers have finished

OnChange = Callable[[], None]  # called whenever the study may have changed
Report = StopReason | BaseException  # how a worker ended
SUSPECT = StopReason(
    "worker_suspect", "the first trials of this worker all failed; other workers continue"
)


class Place(NamedTuple):
    """Where a worker evaluates.

    Attributes:
        slot: passed to its trials as FARTHING_SLOT, for example the number of a GPU.
        logs: the folder for the log files of its trials; None for no log files.
        checkpoints: the folder for the checkpoints of its trainings, one folder per trial; None for
            no checkpoints.
    """

    slot: str | None = None
    logs: Path | None = None
    checkpoints: Path | None = None


HERE = Place()


def worker_name(pid: int | None = None) -> str:
    """The name of a worker, "host:pid"; None for this process."""
    return f"{socket.gethostname()}:{os.getpid() if pid is None else pid}"


def running_trials(optimizer: Optimizer, *pids: int | None) -> list[int]:
    """The numbers of the trials that these worker processes are running."""
    names = {worker_name(pid) for pid in pids}
    return [t.number for t in optimizer.history.running if t.run.worker in names]


def run_worker(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: OnChange,
    exit_check: ExitCheck,
    place: Place,
) -> StopReason:
    """Run trials until the study stops, and charge the wall-clock time that passes meanwhile."""
    with optimizer.on_the_clock():
        reason = run_trials(optimizer, settings, engine, on_change, exit_check, place)
        optimizer.commit(TimePassed())  # the last suggestion is charged though it led to no trial
        return reason


def run_trials(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: OnChange,
    exit_check: ExitCheck = lambda: None,
    place: Place = HERE,
) -> StopReason:
    """Ask, evaluate and tell until the study stops or an exit is requested; return why.

    Raises:
        Unfit: the first trials of this worker all failed while other workers succeeded. Its trials
            are offered to the other workers.
    """
    check_suspending(settings, engine)
    if isinstance(engine, ProcessGroup):
        sweep()
    optimizer.before_loss(partial(rescue, optimizer, place.logs, _outcome(settings, place)))
    try:
        return _run_trials(optimizer, settings, engine, on_change, exit_check, place)
    finally:
        optimizer.before_loss(None)
        end_suspended(engine)


def _run_trials(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: OnChange,
    exit_check: ExitCheck,
    place: Place,
) -> StopReason:
    name = worker_name()
    lease = settings.lease if engine.kills else None
    idle_since: float | None = None
    refused: tuple[int, ...] | None = None  # in which state nobody worked and nothing could start
    while (request := exit_check()) is None:
        _recover(optimizer, settings, place)
        health = worker_health(optimizer.seen, name)
        if health == "unfit":
            message = exclusion_message(optimizer.seen, name)
            optimizer.commit(WorkerExcluded(name))
            raise Unfit(message)
        try:
            if health == "suspect":
                raise Stopped(SUSPECT)
            trial = optimizer.ask(worker=name, lease=lease, here=_here(settings, engine, place))
        except Stopped as stopped:
            idle_since = time.monotonic() if idle_since is None else idle_since
            if not optimizer.is_worked_on():
                _recover(optimizer, settings, place)  # of trainings that were lost only now
                refused, before = optimizer.seen.version(), refused
                if refused != before:  # a trial may have ended since the ask
                    continue
                reason: StopReason = stopped.reason
                return reason
            # Another worker's trial may end below its reservation, and so make a trial affordable.
            time.sleep(_pause(settings, time.monotonic() - idle_since))
            continue
        idle_since = None
        if (request := exit_check()) is not None:  # it came during the suggestion
            optimizer.commit(Returned(trial.number, request.reason.sentence))
            break
        on_change()
        try:
            _Evaluation(optimizer, settings, engine, trial, on_change, exit_check, place).run()
        except Interrupted:
            return INTERRUPTED
        on_change()
    return request.reason


def _pause(settings: Settings, idle: float) -> float:
    """Seconds until an idle worker asks again: a tenth of its idle time, at most one tick.

    The limit exists because the time until then is charged when the worker asks.
    """
    return max(min(idle / 10, _tick(settings)), POLL)


@dataclass
class _Evaluation:
    """One trial that this worker evaluates, and its answers to the engine."""

    optimizer: Optimizer
    settings: Settings
    engine: Engine
    trial: Trial
    on_change: OnChange
    exit_check: ExitCheck
    place: Place

    def __post_init__(self) -> None:
        self.pricing = _pricing(self.settings)
        self.tick = min(_tick(self.settings), self.settings.lease / 3)
        self.reports = list[dict[str, Any]]()
        self.curve = Curve(self.settings.steps)
        self.until, self.paused_because = self.trial.until, ""
        self.is_left = False  # whether this worker leaves its part like one that was killed
        self._answered()

    def run(self) -> None:
        """Evaluate the trial and tell its outcome."""
        optimizer, settings, trial, place = self.optimizer, self.settings, self.trial, self.place
        allowance = Allowance(self.tick, self._may_go_on, self._on_report, lambda: self.deadline)
        try:
            job = Job(
                trial.params,
                trial.number,
                trial.run.seed,
                slot=place.slot,
                env=settings.env,
                cwd=settings.cwd,
                log=_log(place, trial),
                part=_part(settings, trial, place),
                journal=_journal(place, trial),
            )
            finished = self.engine.run(job, allowance)
        except InvalidInput as error:  # no other trial could run either
            optimizer.commit(Returned(trial.number, str(error)))
            raise
        except Interrupted as interrupted:
            self._conclude(interrupted.finished)
            raise
        self._conclude(finished)
        if job.part is None:  # of a part, `recover` compares it with the curve first
            delete_journal(job.journal)
        delete_checkpoints(optimizer, settings, place.checkpoints)
        limit_suspended(self.engine, settings, optimizer.seen.history)

    def _answered(self) -> None:
        """Note that the store has answered.

        The supervisor process enforces the deadline if this process is stopped. It is one tick
        late, so that this process, if it runs, ends the trial first.
        """
        left = _left(self.optimizer, self.trial)
        self.answered_at = time.monotonic()
        self.deadline = self.answered_at + left + self.tick

    def _renew(self, cost: Mapping[str, float], ahead: Mapping[str, float]) -> str | None:
        """Say what the trial has cost and reported, and why it must end now, if it must."""
        return self.optimizer.renew(
            self.trial,
            lease=self.settings.lease,
            cost=cost,
            ahead=ahead,
            reports=self.reports,
            run=_where(self.place, self.trial),
            curve=self.curve.points,
        )

    def _may_go_on(self, usage: Usage) -> str | None:
        """Why the trial must end now; None if it may continue."""
        settings, request = self.settings, self.exit_check()
        if request is not None and request.kill:
            self.is_left = settings.steps is not None and request.reason.kind == ORPHANED.kind
            return request.reason.sentence
        cost = self.pricing.cost(usage, {}, settings.resources)
        share = self.tick / max(usage.wall_s, self.tick)
        ahead = {resource: amount * (1 + share) for resource, amount in cost.items()}
        try:
            reason = self._renew(cost, ahead)
            self._answered()
        except StorageError as error:
            if time.monotonic() - self.answered_at <= settings.lease:
                return None
            if not isinstance(error, Unreachable):
                raise
            # The lease has expired, so other workers may treat the trial as lost. If the trial has
            # ended by itself, its result is still reported, or stored on this machine.
            return f"the database did not answer for {settings.lease:g} s"
        self.on_change()
        return reason

    def _on_report(self, message: Mapping[str, Any], usage: Usage) -> str | None:
        """Keep a report; at a rung, return the decision of the tuner."""
        settings, cost = self.settings, self.pricing.cost(usage, {}, self.settings.resources)
        if settings.steps is not None and (point := point_of(settings, message, cost)) is not None:
            if not self.curve.points:
                say_that_it_begins_again(self.place.checkpoints, self.trial, point.step)
            self.curve.add(point)
            return self._at_step(settings.steps, point, usage)
        self.reports.append({**message, "cost": cost})
        if len(self.reports) > MAX_REPORTS:  # every second one still shows the whole curve
            del self.reports[1:-1:2]
        return None

    def _at_step(self, steps: Steps, point: CurvePoint, usage: Usage) -> str | None:
        """The answer to a report: at a rung the decision of the tuner, else None."""
        if self.until is None or not self.until <= point.step < steps.last:
            return None
        request: ExitRequest | None = None
        decided: Trial | str
        run = {"run_s": usage.wall_s, **_where(self.place, self.trial)}
        told = Told(
            *(self.trial, "paused", None, point.cost),
            by_user=False,
            run=run,
            curve=tuple(self.curve.points),
        )
        try:
            request = self.exit_check()
            if request is None:
                here = _here(self.settings, self.engine, self.place)
                decided = self.optimizer.continue_trial(told, here)
            else:
                decided = request.reason.sentence
        except StorageError:  # it has waited long enough: the outcome can be told later
            decided = "the database did not answer"
        self.on_change()
        if isinstance(decided, Trial):
            self.until = decided.until
            return f"continue {self.until}"
        self.until, self.paused_because = None, decided  # asked once
        if steps.suspends:
            return "suspend" if request is None else "stop"
        return "pause" if steps.can_resume else "stop"

    def _conclude(self, finished: Finished) -> None:
        """Tell the outcome of the trial.

        A part whose caller was killed is left: the worker says what it has cost and reported, and
        lets its lease expire. It is lost like one of a killed worker, and continues from its
        checkpoint.
        """
        settings = self.settings
        if self.is_left and finished.state == "killed":
            cost = self.pricing.cost(finished.usage, finished.cost, settings.resources)
            with suppress(StorageError):  # the journal has what the last renewal has not
                self._renew(cost, cost)
            return
        told = _told(settings, self.trial, finished, self.place, self.reports, self.curve.points)
        self.optimizer.commit(told._replace(because=self.paused_because))


# ── trainings in parts ───────────────────────────────────────────────────────────────────────────


def _recover(optimizer: Optimizer, settings: Settings, place: Place) -> None:
    """Report what evaluations have reported or returned and their workers did not store."""
    pricing = _pricing(settings)

    def points(messages: Iterable[tuple[Mapping[str, Any], Usage]]) -> list[CurvePoint]:
        curve = Curve(settings.steps)
        for message, usage in messages if settings.steps is not None else ():
            point = point_of(settings, message, pricing.cost(usage, {}, settings.resources))
            if point is not None:
                curve.add(point)
        return curve.points

    recover(optimizer, place.logs, points, _outcome(settings, place))


def _outcome(settings: Settings, place: Place) -> Outcome:
    """What to tell of a trial whose worker has died, if its evaluation returned a value."""

    def outcome(trial: Trial, finished: Finished) -> Told | None:
        """A value, if there is one. Before its last step, a training may only have been paused."""
        if settings.steps is not None and trial.step < settings.steps.last:
            return None
        told = _told(settings, trial, finished, place, trial.run.reports, ())
        if told.state != "done":  # the trial is repeated
            return None
        charged = trial.part_cost
        paid = dict(told.cost) if isinstance(told.cost, Mapping) else {}
        return told._replace(cost=paid | {r: max(a, paid.get(r, 0.0)) for r, a in charged.items()})

    return outcome


def _here(settings: Settings, engine: Engine, place: Place) -> Here:
    """Which paused trainings this worker can resume."""
    return Here(waiting_in(engine), partial(lacking, place.checkpoints, settings.steps))


def _part(settings: Settings, trial: Trial, place: Place) -> Part | None:
    """What the engine needs to know of the part of a training, whose checkpoint folder exists."""
    steps = settings.steps
    if steps is None:
        return None
    folder = None
    if steps.has_checkpoints and place.checkpoints is not None:
        folder = checkpoint_folder(place.checkpoints, trial).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"The folder {folder} for the checkpoint of a training cannot be made: "
                f"{error.strerror}. Choose another folder for logs and checkpoints, logs=... or "
                "--logs, or set resume to 'suspend' or 'never'."
            ) from None
    until = trial.until or steps.last
    measured = {"s", "worker_s", *_pricing(settings).rate, *settings.known_costs}
    is_reported = not measured.issuperset(settings.required_costs)
    resources = settings.cost_resources if is_reported else ()
    return Part(trial.run.since, until, steps.last, folder, resources)


def _journal(place: Place, trial: Trial) -> Path | None:
    """The journal of a trial, whose folder exists; None if this worker has no folder for it."""
    if place.logs is None:
        return None
    journal = journal_of(place.logs, trial).absolute()
    try:
        journal.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:  # the disk may be full: then nothing survives this worker
        return None
    return journal


# ── the outcome ──────────────────────────────────────────────────────────────────────────────────


def _left(optimizer: Optimizer, trial: Trial) -> float:
    """Seconds of wall-clock time that the budget allows the trial at most."""
    ledger = optimizer.seen.ledger
    if "s" not in ledger:
        return math.inf
    return ledger["s"].left + ledger.reserved_for(trial.number).get("s", 0.0)


def _told(
    settings: Settings,
    trial: Trial,
    finished: Finished,
    place: Place,
    reports: Iterable[Mapping[str, Any]],
    curve: Iterable[CurvePoint],
) -> Told:
    """What is told of a trial: its state, its cost and what it reported."""
    usage = finished.usage
    measured = {"run_s": usage.wall_s, "cpu_s": usage.cpu_s, "peak_mb": usage.peak_mb}
    reported = {"reports": tuple(reports), "metrics": dict(finished.metrics)}
    cost = _pricing(settings).cost(usage, finished.cost, settings.resources)
    if finished.state == "done" and (wrong := unknown_units(settings, finished.cost, cost)):
        finished = replace(finished, state="failed", value=None, error=wrong)
    return Told(
        *(trial, finished.state, finished.value, cost, finished.error),
        by_user=False,
        run={**measured, **reported, **_where(place, trial), "tail": finished.tail or None},
        curve=tuple(curve),
    )


def _where(place: Place, trial: Trial) -> dict[str, str | None]:
    log = _log(place, trial)
    return {"slot": place.slot, "log": None if log is None else str(log)}


def _log(place: Place, trial: Trial) -> Path | None:
    return None if place.logs is None else place.logs / f"{trial.number}.log"


def _pricing(settings: Settings) -> Pricing:
    rate = {} if settings.rate is None else rate_of(settings.rate)
    on_top = [resource for resource in settings.clock if resource != "s"]
    return Pricing(rate, cpu=settings.measure == "cpu", on_top=on_top)


def _tick(settings: Settings) -> float:
    limits = {} if settings.budget is None else settings.budget.limits
    # What one second costs in each resource. With a rate, money runs like time.
    paces = {"s": 1.0, "worker_s": 1.0} | ({} if settings.rate is None else rate_of(settings.rate))
    allowed = (limits.get(resource, math.inf) / pace for resource, pace in paces.items())
    least, most = TICK
    return min(max(min(allowed) / 100, least), most)
