"""A simulation of a study's workers, from what the parts of a trial cost: see `benchmarks.speed.scale`.

Every worker waits for its turn, looks, thinks, commits, evaluates and tells. There is one turn, one
row that every commit locks, the cores of the one machine that all share (or a machine each), and
those of the database. Renewals are no events: they take their share of the row,

    locked = running / tick x (one renewal),

so that a commit waits for  locked / (1 - locked) x (one renewal), or for one of each if that is
less: who renews waits, too, and comes back a tick later.
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

DATABASE_CORES = 8  # of a cluster's database
ROUND_TRIP = 0.0005  # seconds of a statement on the way, where the database is another machine
TRIPS = 6  # statements of a commit
FULL = 0.9  # of the time: what is busy that long limits
IDEAL = 0.95  # of what is possible: nothing limits

Process = Generator[tuple[Any, ...], None, None]


class Semaphore:
    """So many may go on; the others wait, and whoever looks first is next."""

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
    """Processor sharing: each of n jobs and o of others' on c cores gets min(1, c / (n + o))."""

    def __init__(self, world: World, count: float, others: float = 0.0) -> None:
        self._world, self.count, self._others = world, count, others
        self._jobs, self._number = list[tuple[float, int, Process | None, int]](), 0
        self._done = self._at = self.used = self.full = 0.0  # done: by a job that was always there
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
        """A job, or as many alike, which end together."""
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
        if alarm == self._alarm:  # nobody came or went meanwhile
            self._advance()
            _, _, process, alike = heappop(self._jobs)
            self._number -= alike
            if process is not None:
                self._world.later(0.0, process)
            self._set_alarm()
        yield from ()


class World:
    """A queue of events: a process yields what it waits for, ("sleep", seconds), ("use", cores,
    seconds) or ("take", semaphore), and goes on when it has it.
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
    """Seconds of one core: of the worker's, or of the database's.

    Attributes:
        thinking: ((trials that run, seconds), ...) of one thought, rising.
        spread: equally likely multiples of it.
        looking: in the turn beside thought and commit, what others did taken in.
        row: for each trial of others that changed.
        at: workers for whom `looking` and `renewing` are so.
        committing, locking: by the worker, before and after the row is locked, and while it is.
        serving: by the database, for one commit.
        starting, telling: for a trial's processes; for its end, beside the commit.
        renewing: a running trial, its commit included; 0: that locks nothing.
        waiting: share of a core, while one waits for a turn of one's own machine.
        handover: seconds until one who waits on the same machine has the turn.
        waking, waking_served: worker's and database's, of one far worker that looks if it is next.
        vain: thoughts of a far worker that others were quicker than, for each that led to a trial.
        statements, waking_statements: of a trial that is renewed once; of such a look.
        batch: {size: times what one thought takes}.
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
        """Between what was measured a line, beyond it the last power."""
        r1, t1 = self.overhead[-1]
        if running <= r1 or len(self.overhead) == 1:
            at, seconds = zip(*self.overhead, strict=True)
            return float(np.interp(running, at, seconds))
        r0, t0 = self.overhead[-2]
        return float(t1 * (running / r1) ** (math.log(t1 / t0) / math.log(r1 / r0)))

    def read(self, changed: int) -> float:
        """What so many workers did, beyond those of the run that the costs are from."""
        return self.row * max(changed - self.at, 0)


@dataclass(frozen=True)
class Setting:
    """Who works where.

    Attributes:
        workers: how many; each evaluates one trial at a time.
        run, runs: seconds of a trial, and equally likely multiples of that.
        cores: of the one machine that all of them and the database share; None: a machine each.
        others: jobs of others on these cores.
        far: turns are taken by way of the database, as between machines.
        herd: where they are, everybody who waits is woken, and not only who is next.
        batch: trials that are asked for at once, and evaluated side by side.
        ahead: a process of its own thinks, up to so many trials ahead; 0: there is none.
        thinks: False for a policy without a model.
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
    """Trials a second, shares of the time, and what limits."""

    rate: float
    share: float  # of the rate without any waiting
    asks: tuple[float, ...]  # seconds from wanting a trial to having one
    asking: float  # of a worker's time
    turn: float  # of the time that somebody had it
    overhead: float  # of the time that somebody thought
    row: float  # of the time that it would have to be locked, renewals included
    database: float  # of its cores
    cores: float  # of the time that more jobs were there than cores; 0 with a machine each
    statements: float  # a second
    cpu: float  # seconds of a trial, of the workers' machine and of the database

    @property
    def limit(self) -> str:
        if self.share > IDEAL:
            return "none"
        if self.cores > FULL:
            return "cores"
        if max(self.row, self.database) > FULL:
            return "database"
        if self.turn > FULL:
            return "thinking" if self.overhead > self.turn / 2 else "turn"
        return "itself"


class Workers:
    """Those of one study, in a world."""

    def __init__(self, costs: Costs, setting: Setting, seed: int) -> None:
        self.world = world = World(seed)
        self.costs, self.setting = costs, setting
        cores = math.inf if setting.cores is None else setting.cores
        self.here = Cores(world, cores, setting.others)
        self.there = self.here if setting.cores else Cores(world, DATABASE_CORES)
        self.turn, self.row = Semaphore(world, 1), Semaphore(world, 1)
        self.ready, self.room = Semaphore(world, 0), Semaphore(world, setting.ahead)
        self.trip = 0.0 if setting.cores else TRIPS * ROUND_TRIP
        self.ratio = dict(costs.batch)[setting.batch] if setting.suggests else 0.0
        self.running, self.asks, self.asking, self._changed = 0, list[float](), 0, 0.0
        names = ("told", "asking", "turn", "thought", "row", "statements", "commits", "locked")
        self.sums = dict.fromkeys(names, 0.0)
        if setting.ahead:
            world.later(0.0, self._thinker())
        for _ in range(setting.workers // (1 if setting.ahead else setting.batch)):
            world.later(setting.run * world.rng.random(), self._worker())

    def until(self, seconds: float) -> dict[str, float]:
        """The sums after so many seconds."""
        self.world.run(seconds)
        self._ask_more(0)
        there = 0.0 if self.there is self.here else self.there.used
        cores = {"full": self.here.full, "used": self.here.used + there, "there": there}
        return {**self.sums, **cores}

    def _ask_more(self, workers: int) -> None:
        self.sums["asking"] += self.asking * (self.world.now - self._changed)
        self.asking, self._changed = self.asking + workers, self.world.now

    def _aside(self, cores: Cores, work: float, alike: int = 1) -> None:
        if work > 0 and alike > 0:  # nobody waits for it
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
        self.sums["thought"] += self.world.now - begun

    def _thinker(self) -> Process:
        """Thoughts made ahead, by one that does nothing else."""
        while True:
            for _ in range(self.setting.batch):
                yield "take", self.room
            begun = self.world.now
            yield from self._look()
            yield from self._suggest()
            yield from self._commit()
            self.sums["turn"] += self.world.now - begun
            for _ in range(self.setting.batch):
                self.ready.give()

    def _wake(self, others: int) -> Process:
        """Who is next, and so many others for nothing."""
        costs, woken = self.costs, others if self.setting.herd else 0
        self.sums["statements"] += (1 + woken) * costs.waking_statements
        self._aside(self.there, costs.waking_served, woken)
        self._aside(self.here, costs.waking, woken)
        yield "use", self.here, costs.waking
        yield "use", self.there, costs.waking_served

    def _ask(self) -> Process:
        costs, wanted = self.costs, self.world.now
        yield "take", self.turn
        begun = self.world.now
        if begun > wanted and self.setting.far:
            yield from self._wake(len(self.turn.waiting))
            yield from self._commit()  # that it is its turn
            self._aside(self.here, costs.vain * costs.suggestion(self.running) * self.ratio)
        elif begun > wanted:
            self._aside(self.here, costs.waiting * (begun - wanted))
            yield "sleep", costs.handover
        yield from self._look()
        yield from self._suggest()
        yield from self._commit()
        self.sums["turn"] += self.world.now - begun
        self.turn.give()

    def _take(self) -> Process:
        wanted = self.world.now
        yield "take", self.ready
        self.room.give()
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
    """The second part of a simulation."""
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
        turn=each["turn"],
        overhead=each["thought"],
        row=each["row"] + passed["locked"] / max(passed["commits"], 1.0),
        database=each["there"] / workers.there.count,
        cores=each["full"],
        statements=each["statements"],
        cpu=passed["used"] / max(passed["told"], 1.0),
    )
