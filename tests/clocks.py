"""A clock that goes on only when it is told to, and a run by it."""

from __future__ import annotations

from farthing import Optimizer, optimizer
from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.store import InMemoryStore
from farthing.running import Finished, Usage

TIMED = ("core.store", "core.clock", "optimizer", "running.worker")


class Clock:
    """What these rooms know as the module `time`."""

    def __init__(self, monkeypatch, suggestion=0.0):
        self.now = 1000.0
        for room in TIMED:
            monkeypatch.setattr(f"farthing.{room}.time", self)
        suggest = optimizer.suggest

        def slowly(*given):
            self.now += suggestion
            return suggest(*given)

        monkeypatch.setattr(optimizer, "suggest", slowly)

    def monotonic(self):
        return self.now

    perf_counter = process_time = monotonic

    def sleep(self, seconds):
        self.now += seconds


class Timed:
    """An engine whose trials take the seconds they are told to, and are killed at a tick."""

    kills = True

    def __init__(self, clock, seconds, cost=()):
        self.clock, self.seconds, self.cost = clock, seconds, dict(cost)

    def run(self, job, allowance):
        takes = self.seconds(job.params)
        begun, at = self.clock.now, 0.0
        while at < takes:
            step = min(allowance.tick, takes - at)
            self.clock.now += step
            at = self.clock.now - begun
            why = allowance.may_go_on(Usage(at, at, 1.0))
            if why is not None:
                return Finished("killed", None, self.cost, why, Usage(at, at, 1.0))
        return Finished("done", job.params["x"], self.cost, None, Usage(at, at, 1.0))


def made(space, budget, memory=None, **settings):
    """An Optimizer of those settings, and the settings; `memory` is one that others share."""
    of = Settings.of(space, budget, **settings)
    if memory is None:
        return Optimizer.of(of), of
    here = Optimizer.__new__(Optimizer)
    here._remember(of, memory)
    return here, of


def shared(budget):
    return InMemoryStore(State(Ledger.of(budget)))
