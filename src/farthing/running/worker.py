"""A worker: ask, evaluate, tell, until it is time to stop."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from farthing.budget.rates import rate_of
from farthing.core.events import Returned, Told, WorkerExcluded
from farthing.core.outcomes import in_strange_units
from farthing.core.settings import Settings
from farthing.core.worker_health import standing, unfit_because
from farthing.errors import Interrupted, InvalidInput, Stopped, StorageError, Unfit, Unreachable
from farthing.history import StopReason, Trial
from farthing.optimizer import Optimizer
from farthing.running import Allowance, Engine, Finished, Job, Pricing, Usage
from farthing.running.signals import INTERRUPTED, ExitCheck

__all__ = ["HERE", "POLL", "Place", "name_of", "until_stopped"]

KEPT_REPORTS = 1000  # lines of a trial
TICK = (0.05, 1.0)  # seconds between renewals: a hundredth of the time allowed, within these
POLL = 0.1  # seconds between looks whether other workers have finished

Notice = Callable[[], None]
SUSPECT = StopReason("worker_suspect", "its first trials all failed; others may do better")


class Place(NamedTuple):
    """Where a worker evaluates.

    Attributes:
        slot: what its trials are told of the place, such as the number of a GPU.
        logs: the folder that keeps what they print; None: it is not kept.
    """

    slot: str | None = None
    logs: Path | None = None


HERE = Place()


def name_of(process: int | None = None) -> str:
    """What a worker is called: its machine, and its process."""
    return f"{socket.gethostname()}:{os.getpid() if process is None else process}"


def until_stopped(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: Notice,
    exit_requested: ExitCheck = lambda: None,
    place: Place = HERE,
) -> StopReason:
    """Ask, evaluate, tell; why it ended.

    Raises:
        Unfit: its first trials all failed, while others succeeded; they are offered again.
    """
    name = name_of()
    lease = settings.lease if engine.kills else None
    idle: float | None = None  # since when there is nothing to do
    while (leave := exit_requested()) is None:
        fitness = standing(optimizer.seen, name)
        if fitness == "unfit":
            because = unfit_because(optimizer.seen, name)
            optimizer.commit(WorkerExcluded(name))
            raise Unfit(because)
        try:
            if fitness == "suspect":
                raise Stopped(SUSPECT)
            trial = optimizer.ask(worker=name, lease=lease)
        except Stopped as stopped:
            idle = time.monotonic() if idle is None else idle
            if not optimizer.is_worked_on():
                reason: StopReason = stopped.reason
                return reason
            # What another is running may leave something to do.
            time.sleep(_pause(settings, time.monotonic() - idle))
            continue
        idle = None
        if (leave := exit_requested()) is not None:  # while it was thought of
            optimizer.commit(Returned(trial.number, leave.because.sentence))
            break
        on_change()
        try:
            _evaluate(optimizer, settings, engine, trial, on_change, exit_requested, place)
        except Interrupted as interrupted:
            _conclude(optimizer, settings, trial, interrupted.finished, place)
            return INTERRUPTED
        on_change()
    return leave.because


def _pause(settings: Settings, idle: float) -> float:
    """Seconds until a worker that has been idle for so long asks again: a tenth of that, and no
    more than a tick, because what passes meanwhile is charged then.
    """
    return max(min(idle / 10, _tick(settings)), POLL)


def _evaluate(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    trial: Trial,
    on_change: Notice,
    exit_requested: ExitCheck,
    place: Place,
) -> None:
    pricing = _pricing(settings)
    tick = min(_tick(settings), settings.lease / 3)
    reports = list[dict[str, Any]]()
    heard = time.monotonic()  # when the memory last answered
    # The guard's own, for this process may be stopped; a tick later, for it may be slow.
    until = heard + _left(optimizer, trial) + tick

    def may_go_on(usage: Usage) -> str | None:
        nonlocal heard, until
        leave = exit_requested()
        if leave is not None and leave.now:
            return leave.because.sentence
        cost = pricing.cost(usage, {}, settings.resources)
        share = tick / max(usage.wall_s, tick)
        ahead = {resource: amount * (1 + share) for resource, amount in cost.items()}
        try:
            reason = optimizer.renew(
                trial,
                lease=settings.lease,
                cost=cost,
                ahead=ahead,
                reports=reports,
                run=_where(place, trial),
            )
            left = _left(optimizer, trial)
        except StorageError as error:
            if time.monotonic() - heard <= settings.lease:
                return None
            if not isinstance(error, Unreachable):
                raise
            # By now others may have given it up. What it has ended with by itself is told all the
            # same, or kept here.
            return f"the database did not answer for {settings.lease:g} s"
        heard = time.monotonic()
        until = heard + left + tick
        on_change()
        return reason

    def on_report(message: Mapping[str, Any], usage: Usage) -> None:
        reports.append({**message, "cost": pricing.cost(usage, {}, settings.resources)})
        if len(reports) > KEPT_REPORTS:  # half of them still show the whole way
            del reports[1:-1:2]

    whose = trial.params, trial.number, trial.run.seed
    job = Job(*whose, place.slot, settings.env, settings.cwd, _log(place, trial))
    try:
        finished = engine.run(job, Allowance(tick, may_go_on, on_report, lambda: until))
    except InvalidInput as error:  # no other trial could be run either
        optimizer.commit(Returned(trial.number, str(error)))
        raise
    _conclude(optimizer, settings, trial, finished, place, reports)


def _left(optimizer: Optimizer, trial: Trial) -> float:
    """Seconds of wall time that the budget has at most for a trial."""
    ledger = optimizer.seen.ledger
    if "s" not in ledger:
        return math.inf
    return max(ledger["s"].left, 0.0) + ledger.reserved_for(trial.number).get("s", 0.0)


def _conclude(
    optimizer: Optimizer,
    settings: Settings,
    trial: Trial,
    finished: Finished,
    place: Place,
    reports: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Tell what became of a trial, what it used, and what it said."""
    usage = finished.usage
    used = {"run_s": usage.wall_s, "cpu_s": usage.cpu_s, "peak_mb": usage.peak_mb}
    said = {"reports": tuple(reports), "metrics": dict(finished.metrics)}
    cost = _pricing(settings).cost(usage, finished.cost, settings.resources)
    if finished.state == "done" and (wrong := in_strange_units(settings, finished.cost, cost)):
        finished = replace(finished, state="failed", value=None, error=wrong)
    optimizer.commit(
        Told(
            *(trial, finished.state, finished.value, cost, finished.error),
            certain=False,
            run={**used, **said, **_where(place, trial), "tail": finished.tail or None},
        )
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
    # What a second takes of each: money is time where it has a rate.
    paces = {"s": 1.0, "worker_s": 1.0} | ({} if settings.rate is None else rate_of(settings.rate))
    allowed = (limits.get(resource, math.inf) / pace for resource, pace in paces.items())
    least, most = TICK
    return min(max(min(allowed) / 100, least), most)
