"""A clock that advances only when a test advances it, and an engine that uses it."""

from __future__ import annotations

from farthing import Optimizer
from farthing.budget.ledger import Ledger
from farthing.core import asking
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.store import InMemoryStore
from farthing.running import Finished, Usage

TIMED = ("core.store", "core.clock", "core.session", "core.asking", "running.worker")


class Clock:
    """Replaces the module `time` in the modules of TIMED."""

    def __init__(self, monkeypatch, suggestion=0.0):
        self.now = 1000.0
        for module in TIMED:
            monkeypatch.setattr(f"farthing.{module}.time", self)
        suggest = asking.suggest

        def slowly(*given):
            self.now += suggestion
            return suggest(*given)

        monkeypatch.setattr(asking, "suggest", slowly)

    def monotonic(self):
        return self.now

    perf_counter = process_time = monotonic

    def sleep(self, seconds):
        self.now += seconds


class Timed:
    """An engine whose trials take a given number of seconds, and are killed at a tick."""

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


def made(space, budget, store=None, **settings):
    """An Optimizer with these settings, and the settings; `store` may be shared with others."""
    checked = Settings.of(space, budget, **settings)
    if store is None:
        return Optimizer.of(checked), checked
    optimizer = Optimizer.__new__(Optimizer)
    optimizer._attach(checked, store)
    return optimizer, checked


def shared(budget):
    return InMemoryStore(State(Ledger.of(budget)))
