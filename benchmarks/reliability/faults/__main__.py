"""The command line: `python -m benchmarks.reliability.faults`."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import benchmarks.reliability.faults
from benchmarks.reliability.faults.injecting import Found, inject
from benchmarks.reliability.faults.kept import (
    COLUMNS,
    RESULTS,
    circumstances,
    faults_of,
    is_struck,
    keep,
    kept,
    summary,
    table,
)
from benchmarks.reliability.faults.overrun import overrun
from benchmarks.reliability.faults.plan import KINDS, Injection, can_be_done
from benchmarks.reliability.faults.server import Server, own_server
from benchmarks.speed.storage import databases
from farthing.running.worker import TICK

BUDGET = RESULTS.with_name("faults-budget.json")

Urls = dict[str, Callable[[], str]]


def missing(arguments: argparse.Namespace, made: Urls) -> Iterator[tuple[int, Injection]]:
    """The injections that are missing from `--count` that took effect, by number."""
    before = [one for one in kept(arguments.results) if one["seed"] == arguments.seed]
    done = {one["number"] for one in before}
    too_late = sum(not is_struck(one) for one in before)
    part, parts = arguments.part
    for number in range(arguments.count + too_late):
        drawn = Injection.draw(arguments.seed, number)
        ours = number % parts == part and number not in done
        ours = ours and (arguments.target is None or drawn.target in arguments.target)
        if ours and drawn.database in made and can_be_done(drawn.kind):
            yield number, drawn


def some_of(kind: str, count: int, made: Urls) -> Iterator[tuple[int, Injection]]:
    """`count` injections of one kind on every database that has it; they are not kept."""
    for number in range(count):
        for each, target, *times in KINDS:
            for database, often in zip(("SQLite", "PostgreSQL"), times, strict=True):
                if each == kind and often and database in made:
                    rng = random.Random(f"{kind} {number} {time.time_ns()}")
                    yield number, Injection.of(kind, target, database, rng)


def inject_all(made: Urls, arguments: argparse.Namespace) -> bool:
    """Inject, store and print. Return whether there was no fault."""
    deadline = time.monotonic() + 60 * arguments.minutes
    sound, only = True, arguments.only
    chosen = some_of(only, arguments.count, made) if only else missing(arguments, made)
    with ExitStack() as stack:
        server: Server | None = None
        for number, injection in chosen:
            if time.monotonic() > deadline:
                break
            if injection.kind == "restart server" and server is None:
                server = stack.enter_context(own_server(os.environ["FARTHING_TEST_POSTGRES"]))
            found = inject_one(made, injection, server)
            if not only:
                keep(arguments.results, arguments.seed, number, found)
            sound = sound and not any(found.faults)
            outcome = "; ".join(found.faults) or f"no fault, {found.trials} trials, {found.where}"
            print(number, injection.database, injection.kind, injection.target, outcome, flush=True)
    return sound


def inject_one(made: Urls, injection: Injection, server: Server | None) -> Found:
    url = made[injection.database]()
    if injection.kind == "restart server":
        assert server is not None
        schema = make_schema(server)
        url = f"{server.url}?options={quote(f'-csearch_path={schema}')}"
    with tempfile.TemporaryDirectory(prefix="farthing-faults-") as name:
        return inject(url, Path(name).resolve(), injection, server)


def make_schema(server: Server) -> str:
    """Create an empty schema on a server and return its name."""
    import psycopg

    name = f"s{time.time_ns()}"
    with psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return name


def check_budget(made: Urls) -> bool:
    """Check a budget of one minute with eight workers; the result has its own file."""
    figures = {}
    for where, url in made.items():
        with tempfile.TemporaryDirectory(prefix="farthing-faults-") as name:
            folder = Path(name).resolve()
            figures[where] = overrun(url(), folder, seconds=60.0, grace=5.0, workers=8)
        print(where, figures[where], flush=True)
    BUDGET.write_text(json.dumps({"run": circumstances(), **figures}, indent=1) + "\n")
    return all(
        not of["faults"] and of["left"] == 0 and of["overspend"] <= of["grace"] + TICK[1]
        for of in figures.values()
    )


def show(file: Path) -> bool:
    """Print the table of the kept results. Return whether there was no fault."""
    all_of = kept(file)
    for row in (COLUMNS, ["---"] * len(COLUMNS), *table(all_of)):
        print(f"| {' | '.join(row)} |")
    print(f"\n{summary(all_of)}" if any(map(is_struck, all_of)) else "")
    for one in all_of:
        for fault in faults_of(one):
            print(one["number"], one["injection"], fault)
    return not any(faults_of(one) for one in all_of)


def part_of(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    return int(part) - 1, int(parts)


def main() -> None:
    about = str(benchmarks.reliability.faults.__doc__).split("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--count", type=int, default=1000, help="number of injections in all (1000)"
    )
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--part", type=part_of, default=(0, 1), help="2/3 runs the second third")
    parser.add_argument(
        "--only",
        choices=sorted({kind for kind, *_ in KINDS}),
        help="inject only this kind, and keep no results",
    )
    parser.add_argument(
        "--target",
        action="append",
        choices=sorted({target for _, target, *_ in KINDS}),
        help="of the sequence, inject only faults with this target; repeatable (all)",
    )
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="start no injection after this time"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", action="store_true", help="only print the kept results")
    parser.add_argument(
        "--budget-check", action="store_true", help="check a budget of 60 s instead"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.table:
        sys.exit(0 if show(arguments.results) else 1)
    chosen = {"sqlite": ["SQLite"], "postgres": ["PostgreSQL"]}.get(
        arguments.database, ["SQLite", "PostgreSQL"]
    )
    with tempfile.TemporaryDirectory() as folder, databases(folder) as made:
        if not set(chosen) <= set(made):
            parser.error("FARTHING_TEST_POSTGRES does not name a server: .ci/postgres starts one")
        urls = {where: made[where] for where in chosen}
        passed = check_budget(urls) if arguments.budget_check else inject_all(urls, arguments)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
