"""A simulation of a study's workers, from the costs of the parts of a trial.

See `benchmarks.speed.scale`. Every worker waits for the suggestion lock, reads, suggests, commits,
evaluates and tells. There is one lock, one row that every commit locks, the cores of one shared
machine (or a machine for each worker), and the cores of the database. Renewals are not events. They
take a share of the row,

    locked = running / tick x (one renewal),

so that a commit waits for  locked / (1 - locked) x (one renewal), or for one renewal of each
running trial if that is less: a renewal waits too, and comes back a tick later.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from farthing.running.worker import TICK

DATABASE_CORES = 8  # of the database of a cluster
ROUND_TRIP = 0.0005  # seconds that a statement travels to a database on another machine
TRIPS = 6  # statements of a commit
FULL = 0.9  # a resource limits if it is busy for more than this share of the time
IDEAL = 0.95  # nothing limits above this share of the ideal rate

Process = Generator[tuple[Any, ...], None, None]


class Semaphore:
    """`free` processes may continue. The others wait, and a random one is next."""

    def __init__(self, world: World, free: int) -> None:
        self._world, self.free, self.waiting = world, free, list[Process]()

    def give(self) -> None:
        if self.waiting:
            k = self._world.rng.randrange(len(self.waiting))
            self.waiting[k], self.waiting[-1] = self.waiting[-1], self.waiting[k]
            self._world.later(0.0, self.waiting.pop())
        else:
            self.free += 1


class Cores:
    """Processor sharing: each of n jobs beside o others on c cores gets min(1, c / (n + o))."""

    def __init__(self, world: World, count: float, others: float = 0.0) -> None:
        self._world, self.count, self._others = world, count, others
        self._jobs, self._number = list[tuple[float, int, Process | None, int]](), 0
        self._done = self._at = self.used = self.full = (
            0.0  # done: work of a job that was always there
        )
        self._alarm = 0

    def _speed(self) -> float:
        return min(1.0, self.count / (self._number + self._others))

    def _advance(self) -> None:
        passed = self._world.now - self._at
        if self._number:
            self._done += passed * self._speed()
            self.used += passed * self._speed() * self._number
            self.full += passed * (self._number + self._others > self.count)
        self._at = self._world.now

    def add(self, work: float, process: Process | None, alike: int = 1) -> None:
        """Add a job, or several equal jobs, which end together."""
        self._advance()
        heappush(self._jobs, (self._done + work, self._world.tick(), process, alike))
        self._number += alike
        self._set_alarm()

    def _set_alarm(self) -> None:
        self._alarm += 1
        if self._jobs:
            left = max(self._jobs[0][0] - self._done, 0.0)
            self._world.later(left / self._speed(), self._ring(self._alarm))

    def _ring(self, alarm: int) -> Process:
        if alarm == self._alarm:  # no job was added or ended meanwhile
            self._advance()
            _, _, process, alike = heappop(self._jobs)
            self._number -= alike
            if process is not None:
                self._world.later(0.0, process)
            self._set_alarm()
        yield from ()


class World:
    """A queue of events. A process yields what it waits for, ("sleep", seconds), ("use", cores,
    seconds) or ("take", semaphore), and continues when it has it.
    """

    def __init__(self, seed: int) -> None:
        self.now, self.rng = 0.0, random.Random(seed)
        self._events, self._ticks = list[tuple[float, int, Process]](), 0

    def tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def later(self, seconds: float, process: Process) -> None:
        heappush(self._events, (self.now + seconds, self.tick(), process))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, process = heappop(self._events)
            for verb, *what in process:
                if verb == "sleep":
                    self.later(what[0], process)
                    break
                if verb == "use" and what[1] > 0:
                    what[0].add(what[1], process)
                    break
                if verb == "take" and what[0].free == 0:
                    what[0].waiting.append(process)
                    break
                if verb == "take":
                    what[0].free -= 1
        self.now = until


@dataclass(frozen=True)
class Costs:
    """Seconds of one core, of the worker or of the database.

    Attributes:
        overhead: ((running trials, seconds), ...) of one suggestion, rising.
        spread: equally likely factors of it.
        looking: to read the changes of other workers, while the lock is held.
        row: the same for each additional trial that changed.
        at: the number of workers for which `looking` and `renewing` were measured.
        committing, locking: of the worker in a commit, without and with the row locked.
        serving: of the database in a commit.
        starting, telling: to start a trial's processes; to report its end, without the commit.
        renewing: one renewal of a running trial with its commit; 0: a renewal locks nothing.
        waiting: share of a core that a worker uses while it waits for the lock on its own machine.
        handover: seconds until a waiting worker of the same machine has the lock.
        waking, waking_served: of the worker and the database, if a far worker is woken and reads
            whether it is next.
        vain: suggestions of far workers that came too late, per suggestion that became a trial.
        statements, waking_statements: of a trial that is renewed once; of one wake-up.
        batch: ((k, cost of a batch of k as a multiple of one suggestion), ...).
    """

    overhead: tuple[tuple[float, float], ...]
    spread: tuple[float, ...] = (1.0,)
    looking: float = 0.0
    row: float = 0.0
    at: int = 0
    committing: float = 0.0
    locking: float = 0.0
    serving: float = 0.0
    starting: float = 0.0
    telling: float = 0.0
    renewing: float = 0.0
    waiting: float = 0.0
    handover: float = 0.0
    waking: float = 0.0
    waking_served: float = 0.0
    vain: float = 0.0
    statements: float = 0.0
    waking_statements: float = 0.0
    batch: tuple[tuple[int, float], ...] = ((1, 1.0),)

    def suggestion(self, running: int) -> float:
        """Interpolate the measurements linearly, and extrapolate with the last power."""
        r1, t1 = self.overhead[-1]
        if running <= r1 or len(self.overhead) == 1:
            at, seconds = zip(*self.overhead, strict=True)
            return float(np.interp(running, at, seconds))
        r0, t0 = self.overhead[-2]
        return float(t1 * (running / r1) ** (math.log(t1 / t0) / math.log(r1 / r0)))

    def read(self, changed: int) -> float:
        """To read the changes of more workers than the run had that gave the costs."""
        return self.row * max(changed - self.at, 0)


@dataclass(frozen=True)
class Setting:
    """The workers and their machines.

    Attributes:
        workers: their number; each evaluates one trial at a time.
        run, runs: seconds of a trial, and equally likely factors of it.
        cores: of the machine that all workers and the database share; None: each has its own.
        others: other jobs on these cores.
        far: whether workers get the lock through the database, as between machines.
        herd: if far, whether every waiting worker is woken, not only the next.
        batch: trials that are suggested at once and evaluated in parallel.
        ahead: number of suggestions that a separate process prepares; 0: there is no such process.
        suggests: False for a policy without a model.
    """

    workers: int
    run: float
    runs: tuple[float, ...] = (1.0,)
    cores: float | None = None
    others: float = 0.0
    far: bool = True
    herd: bool = True
    batch: int = 1
    ahead: int = 0
    suggests: bool = True


@dataclass(frozen=True)
class Found:
    """Trials per second, shares of the time, and the limit."""

    rate: float
    share: float  # of the rate without waiting
    asks: tuple[float, ...]  # seconds of each ask
    asking: float  # of a worker's time
    lock: float  # of the time that a worker held the lock
    overhead: float  # of the time that a suggestion was being made
    row: float  # of the time that the row is locked, renewals included
    database: float  # of its cores
    cores: float  # of the time with more jobs than cores; 0 if each worker has its machine
    statements: float  # per second
    cpu: float  # seconds per trial, of the workers and the database

    @property
    def limit(self) -> str:
        if self.share > IDEAL:
            return "none"
        if self.cores > FULL:
            return "cores"
        if max(self.row, self.database) > FULL:
            return "database"
        if self.lock > FULL:
            return "suggestion" if self.overhead > self.lock / 2 else "lock"
        return "itself"


class Workers:
    """The workers of one study in a simulated world."""

    def __init__(self, costs: Costs, setting: Setting, seed: int) -> None:
        self.world = world = World(seed)
        self.costs, self.setting = costs, setting
        cores = math.inf if setting.cores is None else setting.cores
        self.here = Cores(world, cores, setting.others)
        self.there = self.here if setting.cores else Cores(world, DATABASE_CORES)
        self.lock, self.row = Semaphore(world, 1), Semaphore(world, 1)
        self.ready, self.space = Semaphore(world, 0), Semaphore(world, setting.ahead)
        self.trip = 0.0 if setting.cores else TRIPS * ROUND_TRIP
        self.ratio = dict(costs.batch)[setting.batch] if setting.suggests else 0.0
        self.running, self.asks, self.asking, self._changed = 0, list[float](), 0, 0.0
        names = ("told", "asking", "lock", "overhead", "row", "statements", "commits", "locked")
        self.sums = dict.fromkeys(names, 0.0)
        if setting.ahead:
            world.later(0.0, self._suggester())
        for _ in range(setting.workers // (1 if setting.ahead else setting.batch)):
            world.later(setting.run * world.rng.random(), self._worker())

    def until(self, seconds: float) -> dict[str, float]:
        """The sums after `seconds`."""
        self.world.run(seconds)
        self._ask_more(0)
        there = 0.0 if self.there is self.here else self.there.used
        cores = {"full": self.here.full, "used": self.here.used + there, "there": there}
        return {**self.sums, **cores}

    def _ask_more(self, workers: int) -> None:
        self.sums["asking"] += self.asking * (self.world.now - self._changed)
        self.asking, self._changed = self.asking + workers, self.world.now

    def _aside(self, cores: Cores, work: float, alike: int = 1) -> None:
        if work > 0 and alike > 0:  # no process waits for it
            cores.add(work, None, alike)

    def _commit(self) -> Process:
        costs = self.costs
        work = costs.locking + costs.serving + self.trip
        each = work + costs.read(self.running) if costs.renewing else 0.0
        locked, most = self.running / TICK[1] * each, self.running * each
        yield "use", self.here, costs.committing
        yield "sleep", min(each * locked / (1 - locked), most) if locked < 1 else most
        yield "take", self.row
        yield "use", self.here, costs.locking
        yield "use", self.there, costs.serving
        yield "sleep", self.trip
        self.row.give()
        self.sums["row"] += work
        self.sums["commits"] += 1
        self.sums["locked"] += locked

    def _look(self) -> Process:
        yield "use", self.here, self.costs.looking + self.costs.read(self.setting.workers)

    def _suggest(self) -> Process:
        begun, costs = self.world.now, self.costs
        some = self.ratio * self.world.rng.choice(costs.spread)
        yield "use", self.here, costs.suggestion(self.running) * some
        self.sums["overhead"] += self.world.now - begun

    def _suggester(self) -> Process:
        """A separate process that prepares suggestions."""
        while True:
            for _ in range(self.setting.batch):
                yield "take", self.space
            begun = self.world.now
            yield from self._look()
            yield from self._suggest()
            yield from self._commit()
            self.sums["lock"] += self.world.now - begun
            for _ in range(self.setting.batch):
                self.ready.give()

    def _wake(self, others: int) -> Process:
        """Wake the next worker, and with `herd` the others too."""
        costs, woken = self.costs, others if self.setting.herd else 0
        self.sums["statements"] += (1 + woken) * costs.waking_statements
        self._aside(self.there, costs.waking_served, woken)
        self._aside(self.here, costs.waking, woken)
        yield "use", self.here, costs.waking
        yield "use", self.there, costs.waking_served

    def _ask(self) -> Process:
        costs, wanted = self.costs, self.world.now
        yield "take", self.lock
        begun = self.world.now
        if begun > wanted and self.setting.far:
            yield from self._wake(len(self.lock.waiting))
            yield from self._commit()  # commits that it has the lock
            self._aside(self.here, costs.vain * costs.suggestion(self.running) * self.ratio)
        elif begun > wanted:
            self._aside(self.here, costs.waiting * (begun - wanted))
            yield "sleep", costs.handover
        yield from self._look()
        yield from self._suggest()
        yield from self._commit()
        self.sums["lock"] += self.world.now - begun
        self.lock.give()

    def _take(self) -> Process:
        wanted = self.world.now
        yield "take", self.ready
        self.space.give()
        if self.world.now > wanted:
            yield from self._wake(len(self.ready.waiting))
        yield from self._commit()

    def _worker(self) -> Process:
        setting, costs = self.setting, self.costs
        size = 1 if setting.ahead else setting.batch
        while True:
            wanted = self.world.now
            self._ask_more(size)
            yield from self._take() if setting.ahead else self._ask()
            self._ask_more(-size)
            self.asks.append(self.world.now - wanted)
            self._aside(self.here, costs.starting, size - 1)
            yield "use", self.here, costs.starting
            self.running += size
            if setting.cores:
                renewal = costs.renewing + costs.serving + costs.read(self.running)
                self._aside(self.here, size * setting.run / TICK[1] * renewal)
            yield "sleep", setting.run * self.world.rng.choice(setting.runs)
            self.running -= size
            for _ in range(size - 1):
                self.world.later(0.0, self._tell())
            yield from self._tell()

    def _tell(self) -> Process:
        yield "use", self.here, self.costs.telling
        yield from self._commit()
        self.sums["told"] += 1
        renewed = max(self.setting.run / TICK[1] - 1, 0.0)  # beside the one that was measured
        self.sums["statements"] += self.costs.statements + renewed * TRIPS


def simulate(costs: Costs, setting: Setting, seed: int = 0, lasting: float = 60.0) -> Found:
    """Simulate, and measure after a warm-up."""
    workers = Workers(costs, setting, seed)
    warm, seconds = 2 * setting.run + lasting / 3, 2 * setting.run + lasting
    before, asked = workers.until(warm), len(workers.asks)
    after = workers.until(warm + seconds)
    passed = {name: after[name] - before[name] for name in before}
    each = {name: sum / seconds for name, sum in passed.items()}
    return Found(
        rate=each["told"],
        share=each["told"] * setting.run / setting.workers,
        asks=tuple(workers.asks[asked:]),
        asking=each["asking"] / setting.workers,
        lock=each["lock"],
        overhead=each["overhead"],
        row=each["row"] + passed["locked"] / max(passed["commits"], 1.0),
        database=each["there"] / workers.there.count,
        cores=each["full"],
        statements=each["statements"],
        cpu=passed["used"] / max(passed["told"], 1.0),
    )
