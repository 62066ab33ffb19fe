"""The plan of an injection: the fault, its target and its time, drawn from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from benchmarks.reliability.faults.books import STUDY

GRACE, LEASE = 0.3, 1.5  # seconds
BUDGETS = ("2s", "3 worker_s", "2s, 3 worker_s")
POLICIES = ("random", "ei", "carbo")
DAY = 86_400.0
GAPS = 9  # more than the statements of an ask, a renewal or a tell; the last is after the commit
CROWD = 32  # workers

# A trial logs its start and, after its result, its end. Some start a process that ignores SIGTERM
# and outlives them.
TRIAL = """
echo "start $FARTHING_TRIAL $$" >> log
case $FARTHING_TRIAL in *3|*7) (trap '' TERM; exec sleep 600) & ;; esac
sleep "$0"
echo "{\\"value\\": $0}"
echo "end $FARTHING_TRIAL $$" >> log
"""

# Kind, target, and the number in each hundred injections on SQLite and on PostgreSQL. The names are
# keys of the kept results ("guard" is the supervisor process).
KINDS: tuple[tuple[str, str, int, int], ...] = (
    ("kill", "runner", 2, 2),
    ("kill", "worker", 2, 2),
    ("kill", "runner and workers", 2, 2),
    ("kill", "tree", 2, 2),
    ("kill", "guard", 2, 2),
    ("stop", "runner", 1, 1),
    ("stop", "worker", 2, 2),
    ("stop", "guard", 1, 1),
    ("between", "ask", 6, 6),
    ("between", "renew", 6, 6),
    ("between", "tell", 6, 6),
    ("drop connections", "all", 0, 6),
    ("restart server", "at once", 0, 4),
    ("lock", "1 s of patience", 2, 1),
    ("lock", "30 s of patience", 1, 0),
    ("fill disk", "of the database", 3, 0),
    ("fill disk", "of the worker", 0, 1),
    ("jump", "ahead", 1, 1),
    ("jump", "back", 1, 1),
    ("jump", "ahead, a worker dead", 1, 1),
    ("jump", "back, a worker dead", 1, 1),
    ("come back", "worker", 3, 3),
    ("crowd", "worker", 1, 1),
    ("crowd", "tree", 1, 1),
)


@dataclass(frozen=True)
class Injection:
    """One fault and its time.

    Attributes:
        kind, target: the fault, and the process or thing that it affects.
        database: SQLite or PostgreSQL.
        lease: seconds after which a silent worker's trial counts as lost.
        share: the share of the budget that is spent before; None: while the command starts.
        delay: seconds after that.
        more: other values that this kind needs.
    """

    kind: str
    target: str
    database: str
    share: float | None
    delay: float
    budget: str
    policy: str
    workers: int = 2
    lease: float = LEASE
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def draw(cls, seed: int, number: int) -> Injection:
        """Injection `number` of a sequence. Each hundred has the numbers of `KINDS`."""
        return cls.of(*hundred(seed)[number % 100], random.Random(f"{seed} {number}"), number)

    @classmethod
    def of(
        cls, kind: str, target: str, database: str, rng: random.Random, number: int = 0
    ) -> Injection:
        """Draw an injection of this kind."""
        early = kind == "kill" and target not in ("worker", "guard") and rng.random() < 0.15
        drawn = cls(
            kind=kind,
            target=target,
            database=database,
            share=None if early else rng.uniform(0.0, 0.5),
            delay=rng.uniform(0.0, 0.3 if early else 0.1),
            budget=rng.choice(BUDGETS),
            policy=rng.choice(POLICIES),
        )
        return drawn.with_more(rng, number)

    def with_more(self, rng: random.Random, number: int) -> Injection:
        """Add the values that only its kind has."""
        fields = dict(vars(self))
        match self.kind:
            case "between":
                alone = rng.random() < 0.3  # then the runner is the worker
                fields |= {"share": None, "delay": 0.0, "workers": 1 if alone else 2}
                fields["more"] = {"gap": number // 100 % GAPS, "after": rng.randrange(3)}
                if number < 100:  # the first hundred and single injections: any gap
                    fields["more"]["gap"] = rng.randrange(GAPS)
            case "stop":
                fields["more"] = {"seconds": LEASE * rng.uniform(1.2, 2.0)}
            case "drop connections":
                fields["more"] = {"times": rng.randint(1, 3), "pause": rng.uniform(0.02, 0.3)}
            case "lock":
                patience = 30.0 if self.target.startswith("30") else 1.0
                fields["more"] = {"patience": patience, "seconds": patience + rng.uniform(0.5, 2.0)}
            case "fill disk":
                fields["more"] = {"seconds": rng.uniform(0.2, 3.0)}
            case "jump":
                fields["more"] = {"seconds": DAY if self.target.startswith("ahead") else -DAY}
                fields["workers"] = 3 if "dead" in self.target else 2
            case "come back":
                fields |= {"budget": "10 worker_s", "share": rng.uniform(0.0, 0.2)}
            case "crowd":
                fields |= {"budget": "80 trials", "policy": "random", "workers": CROWD}
                fields["lease"] = 15.0  # 32 workers wait longer for each other than for a trial
        return Injection(**fields)

    def command(self, url: str) -> list[str]:
        study = ["--storage", url, "--name", STUDY, "--budget", self.budget]
        terms = ["--grace", f"{GRACE}s", "--lease", f"{self.lease}s", "--retries", "1"]
        how = ["--workers", str(self.workers), "--policy", self.policy]
        longest = 0.02 if self.kind == "crowd" else 0.3
        shortest = 0.01 if self.kind == "crowd" else 0.05
        space = ["--param", f"seconds=float:{shortest}:{longest}"]
        logs = ["--logs", "small/logs"] if self.target == "of the worker" else []
        return ["run", *study, *terms, *how, *logs, *space, "--", "sh", "-c", TRIAL, "{seconds}"]


@cache
def hundred(seed: int) -> tuple[tuple[str, str, str], ...]:
    """The kinds, targets and databases of a hundred injections in random order."""
    all_of = [
        (kind, target, database)
        for kind, target, *times in KINDS
        for database, count in zip(("SQLite", "PostgreSQL"), times, strict=True)
        for _ in range(count)
    ]
    assert len(all_of) == 100, len(all_of)
    random.Random(seed).shuffle(all_of)
    return tuple(all_of)


def can_be_done(kind: str) -> bool:
    """Whether this user can inject it: only root can mount a small file system."""
    return kind != "fill disk" or os.geteuid() == 0
