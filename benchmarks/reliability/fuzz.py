"""Odd input must give an error message or a defined answer, not a traceback or a NaN.

    python -m benchmarks.reliability.fuzz --count 100000 --seed 1          about ten minutes
    python -m benchmarks.reliability.fuzz --only budget --count 5000

Each case is a valid one with a few parts removed, repeated or replaced by odd characters. It has
one target: what a user types (parameters, budgets, rates, methods, addresses), files (TOML, CSV,
JSON), the output of a program, sequences of ask, tell, add and similar calls, damaged databases, or
odd studies of the Optimizer, Optuna, scikit-learn and Ray Tune. A case is wrong if it raises
anything but Farthing's own errors, or breaks what the target promises. Wrong cases are printed with
their seed, and the exit code is 1. tests/faults/test_odd_input.py runs a few thousand.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import (
    ExitStack,
    closing,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.reliability import fuzz_integrations as integrations
from farthing import (
    Budget,
    Categorical,
    FarthingError,
    Float,
    Int,
    Optimizer,
    Ordinal,
    Settings,
    Study,
)
from farthing.cli import main as command_line
from farthing.cli.config import read_config
from farthing.cli.methods import make_method
from farthing.cli.parameters import configuration_of, parameter_of, split_parameter
from farthing.data.tabular import learnt_from, parsed
from farthing.policies import EI, Cooling, EIPerCost, Gittins, Random
from farthing.running.finished import Usage
from farthing.running.output import Messages
from farthing.running.result import ended
from farthing.space.space import Space
from farthing.storage import close_sqlite_files
from farthing.storage.database import _url

ODD = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "\r",
        "\0",
        "\ufeff",
        "\u202e",
        "\ud800",
        "é",
        "💸",
        "'",
        '"',
        "\\",
        "`",
    ),
    *(":", ",", "=", ";", "(", ")", "[", "]", "{", "}", "{{", "$", "%", "&", "#", "/", "-", "+"),
    *("nan", "inf", "-inf", "1e309", "1e-320", "0", "-1", "1_000", "0x10", "١٢", "true", "null"),
    *("None", "__import__('os')", "a" * 3000, "[" * 700, "9" * 400, "log", "..", "//", "://"),
)


class Target(NamedTuple):
    """Valid cases, and the function that processes a changed one."""

    examples: tuple[str, ...]
    play: Callable[[str], None]


def mutated(text: str, rng: random.Random) -> str:
    """Remove, repeat, swap or insert a few pieces."""
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        at, to = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        kind = rng.randrange(4)
        if kind == 0:
            text = text[:at] + rng.choice(ODD) + text[at:]
        elif kind == 1:
            text = text[:at] + text[to:]
        elif kind == 2:
            text = text[:to] + text[at:to] + text[to:]
        else:
            text = text[:at] + rng.choice(ODD) + text[to:]
    return text


# ── what a user types ──────────────────────────────────────────────────────────────────────────

SPACE = Space(
    {
        "lr": Float(1e-4, 1e-1, log=True),
        "depth": Int(1, 8),
        "size": Ordinal([16, 32, 64]),
        "solver": Categorical(["adam", "sgd"]),
        "momentum": Float(0, 1, when={"solver": "sgd"}),
    }
)


def parameter(text: str) -> None:
    """An accepted parameter has values inside its range."""
    name, described = split_parameter(text)
    space = Space({name: parameter_of(name, described)})
    x = space.sample(1, np.random.default_rng(0))
    assert ((x >= 0) & (x <= 1)).all(), x
    assert np.array_equal(space.encode(space.decode(x[0])), x[0])


def budget(text: str) -> None:
    """An accepted amount is positive and finite."""
    limits = Budget(text).limits
    assert limits
    assert all(0 < limit < math.inf for limit in limits.values()), limits


def worth(text: str) -> None:
    """An exchange rate is a positive number, or refused."""
    settings = Settings.of({"x": Float(0, 1)}, "$40", policy=Gittins(), worth=text)
    exchange = settings.exchange_rate
    assert exchange is None or 0 < exchange < math.inf, exchange


def method(text: str) -> None:
    """A policy, a rule or a cost model of Farthing; external modules are not tried."""
    if ":" in text:
        return
    for folder in ("policies", "stopping", "cost"):
        with suppress(FarthingError):
            make_method(text, folder, "--any")


def start(text: str) -> None:
    """A completed point is inside the space."""
    x = SPACE.completed(configuration_of(text, SPACE.parameters), np.full(SPACE.d, 0.5))
    assert ((x >= 0) & (x <= 1)).all(), x


def address(text: str) -> None:
    """Parsed, never opened."""
    _url(text)


# ── files, and the output of a program ───────────────────────────────────────────────────────────


def config(text: str) -> None:
    """A TOML file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "farthing.toml"
        path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
        for name, described in read_config(str(path)).params.items():
            parameter_of(name, described)


SETTINGS = Settings.of(SPACE, {"usd": 40.0}, policy=EIPerCost())


def table(text: str) -> None:
    """Accepted trials and prices are finite and inside the space."""
    trials, prices = learnt_from(parsed(text, "the file"), SETTINGS)
    for x in [trial.x for trial in trials] + [price.x for price in prices]:
        assert ((x >= 0) & (x <= 1)).all(), x
    for trial in trials:
        assert trial.value is None or math.isfinite(trial.value)
    for bill in [trial.cost for trial in trials] + [price.cost for price in prices]:
        assert all(0 <= amount < math.inf for amount in bill.values()), bill


def printed(text: str) -> None:
    """The output of a program: a finite value, or a failure with a reason."""
    messages = Messages("value")
    messages.feed(text.encode("utf-8", errors="surrogatepass"))
    messages.feed(b"\n")
    found = ended(messages, Usage(0.1, 0.1, 10.0))
    assert (found.state == "done") == (found.value is not None)
    assert found.value is None or math.isfinite(found.value)
    assert all(0 <= amount < math.inf for amount in found.cost.values()), found.cost
    assert found.state == "done" or found.error


# ── sequences ──────────────────────────────────────────────────────────────────────────────────


def sequence(text: str) -> None:
    """Any order of events: points inside, no point twice, spent + reserved + left = limit."""
    rng = random.Random(repr(text))
    policy = rng.choice((Random(), EI(), EIPerCost(), Cooling(), Gittins()))
    limits = {"usd": rng.choice((0.5, 3.0, 1e9)), **({"s": 50.0} if rng.random() < 0.3 else {})}
    optimizer = Optimizer(SPACE, limits, policy=policy, seed=rng.randrange(99))
    running = []
    for event in text[:24]:
        cost = {r: 10.0 ** rng.uniform(-6, 1) * limits[r] for r in limits}
        odd = rng.choice((0.0, -1.0, math.nan, math.inf, 1e308, 1e-320, "x", None))
        value = odd if rng.random() < 0.15 else rng.gauss(0, 10.0 ** rng.uniform(-3, 3))
        if rng.random() < 0.1:
            cost = {"usd": odd}
        number = ord(event) % 7
        try:
            if number < 3:
                running.append(optimizer.ask())
                x = running[-1].x
                assert ((x >= 0) & (x <= 1)).all(), x
            elif number == 3 and running:
                optimizer.tell(running.pop(rng.randrange(len(running))), value, cost=cost)
            elif number == 4 and running:
                trial = running.pop(rng.randrange(len(running)))
                ending = rng.choice(({"failed": "why"}, {"killed": True}))
                optimizer.tell(trial, cost=cost, **ending)
            elif number == 5:
                optimizer.add(SPACE.decode(SPACE.sample(1, np.random.default_rng(5))[0]), value)
            else:
                _ = optimizer.verdict.because
        except FarthingError:
            pass  # refused: nothing may have changed
        for name in limits:
            account = optimizer.ledger[name]
            whole = account.spent + account.reserved + account.left - account.overspent
            rounding = 1e-9 * max(account.limit, account.spent)
            assert abs(whole - account.limit) <= rounding, account
            assert account.spent >= 0, account
            assert account.reserved >= 0, account


# ── databases ──────────────────────────────────────────────────────────────────────────────────


@cache
def _sound() -> bytes:
    """The file of a small study."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.db"
        study = Study.create(file, name="s", space=SPACE, budget={"usd": 40.0}, policy=EI())
        for number in range(6):
            study.tell(study.ask(), float(number), cost=1.0)
        study.ask()
        study.close()
        close_sqlite_files()
        return file.read_bytes()


def damaged(text: str) -> None:
    """A database in which someone has changed cells or bytes: it can be looked at, or refused."""
    rng = random.Random(repr(text))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.db"
        sound = bytearray(_sound())
        if rng.random() < 0.5:
            for _ in range(rng.choice((1, 3, 30))):
                sound[rng.randrange(len(sound))] = rng.randrange(256)
            file.write_bytes(sound[: rng.choice((len(sound), rng.randrange(len(sound))))])
        else:
            file.write_bytes(sound)
            _change_cells(file, text, rng)
        try:
            for name in Study.names(file):
                study = Study.open(file, name, look=True)
                _ = str(study.result), study.trials, study.best, study.verdict
                study.close()
            Study.overview(file)
        finally:
            close_sqlite_files()


def _change_cells(file: Path, text: str, rng: random.Random) -> None:
    odd = (None, -1, 2**62, 1e308, math.inf, b"\xff", "", "{}", "[]", "null", text[:300], "NaN")
    with closing(sqlite3.connect(file)) as connection, connection:
        names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = [name for (name,) in connection.execute(names)]
        for _ in range(rng.choice((1, 1, 2, 4))):
            table = rng.choice(tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rows = [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]
            if rows:
                change = f'UPDATE {table} SET "{rng.choice(columns)}" = ? WHERE rowid = ?'
                with suppress(sqlite3.Error, UnicodeEncodeError):
                    connection.execute(change, (rng.choice(odd), rng.choice(rows)))


def imported(text: str) -> None:
    """`farthing import` of a file: an exit code of its own."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / random.Random(repr(text)).choice(("runs.csv", "runs.json", "runs"))
        file.write_bytes(text.encode("utf-8", errors="surrogatepass"))
        for stream in (redirect_stdout, redirect_stderr):
            stack.enter_context(stream(io.StringIO()))
        stack.callback(close_sqlite_files)
        stack.enter_context(suppress(SystemExit))
        space = ["lr=float:1e-4:1e-1:log", "depth=int:1:8", "solver=choice:adam,sgd"]
        options = [part for each in space for part in ("--param", each)]
        where = ["--storage", os.fspath(Path(folder) / "study.db"), "--budget", "$40"]
        command_line(["import", os.fspath(file), *where, *options])


TARGETS = {
    "parameter": Target(
        (
            *("lr=float:1e-5:1e-1:log", "depth=int:1:16", "n=int:1:99:log:increases"),
            *("loss=choice:hinge,log", 'a=choice:"x, y",--b', "size=ordinal:16,32,64:log"),
        ),
        parameter,
    ),
    "budget": Target(
        ("2h", "90s", "$40", "1.5kWh", "30 trials", "2h, $40", "1h 30m", "30 worker_m", "40"),
        budget,
    ),
    "worth": Target(("0.01 = $20", "0.02", "1 = $3", "1e-3 = 5 $"), worth),
    "method": Target(
        (
            *("cooling", "contextual(slack=0.5)", "gittins(worth=0.1)", "rollout(horizon=2)"),
            *("any_of(stalled, max_trials(7))", "after(6, in_a_row(2, stalled(window=3)))"),
            *("linear(at_most=2)", "start_with([{'lr': 0.1}], then=ei)"),
        ),
        method,
    ),
    "start": Target(("lr=0.01,depth=6", "solver=sgd,momentum=0.5", "size=32"), start),
    "address": Target(
        (
            *("tune.db", "sqlite:///tune.db", "postgresql://user:secret@host:5432/name"),
            "postgresql://host/name?password=secret&sslmode=require",
        ),
        address,
    ),
    "config": Target(
        (
            '[run]\nbudget = "10m"\nworkers = 2\nmaximize = true\n[params]\nlr = "float:0:1"\n',
            '[params]\nm = {type = "float", low = 0.0, high = 0.9, when = {s = "sgd"}}\n',
            '[params]\ns = {type = "choice", values = ["a", "b"]}\nk = "ordinal:1,2,4:log"\n',
        ),
        config,
    ),
    "table": Target(
        (
            "lr,depth,size,solver,momentum,value,cost\n0.01,3,16,sgd,0.5,0.3,1.5\n",
            "lr,depth,size,solver,value,usd,state\n0.01,3,32,adam,,2.5,killed\n",
            json.dumps(
                [
                    {
                        "params": {"lr": 0.01, "depth": 2, "size": 64, "solver": "adam"},
                        "value": 0.5,
                        "cost": {"usd": 1.0},
                    }
                ]
            ),
        ),
        table,
    ),
    "printed": Target(
        (
            '{"value": 0.31}\n',
            'epoch 1\n{"step": 1, "value": 0.5}\n{"value": 0.4, "cost": {"usd": 0.2}}\n',
            '{"failed": "out of memory"}\n',
            '{"infrastructure": "no GPU", "cost": 3}\n',
        ),
        printed,
    ),
    "sequence": Target(("aadbadcabeafga", "aaabbbdddeee", "abcabcdefgdefg"), sequence),
    "imported": Target(
        (
            "lr,depth,solver,value,usd\n0.01,3,sgd,0.3,1.5\n0.02,4,adam,,2.5\n",
            '[{"params": {"lr": 0.01, "depth": 2, "solver": "adam"}, "value": 0.5, "cost": 1}]',
        ),
        imported,
    ),
    "damaged": Target(("abcdefgh", '{"x": 1}', "1.5"), damaged),
    "optimizer": Target(("abcdefghijkl", "$3"), integrations.optimizer),
    "optuna": Target(("abcdefghijkl", "$3"), integrations.optuna),
    "sklearn": Target(("3 trials", "1s, 2 trials", "$3"), integrations.sklearn),
    "ray_tune": Target(("abcdefghijkl", "$3"), integrations.ray_tune),
}
# Cases that make suggestions or open databases take as long as many others.
WEIGHTS = dict.fromkeys(("imported", "damaged", "ray_tune", "optuna", "optimizer"), 0.02)
WEIGHTS |= {"sequence": 0.01, "sklearn": 0.01}
PATIENCE = 60  # seconds of CPU time after which a case counts as endless


class Wrong(NamedTuple):
    """A case that went wrong."""

    target: str
    case: str
    why: str


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError inside after PATIENCE seconds of CPU time."""

    def end(*_: object) -> None:
        raise TimeoutError(f"endless: it took {PATIENCE} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def fuzz(name: str, count: int, seed: int) -> list[Wrong]:
    """The cases of one target that went wrong."""
    target, found = TARGETS[name], []
    for k in range(count):
        rng = random.Random(f"{name} {seed} {k}")
        case = mutated(rng.choice(target.examples), rng)
        try:
            with _limited():
                target.play(case)
        except FarthingError as sentence:
            if not str(sentence) or len(str(sentence)) > 20_000 + 2 * len(case):
                found.append(Wrong(name, case, f"a message of {len(str(sentence))} characters"))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            line = f"{Path(where.filename).name}:{where.lineno}"
            found.append(Wrong(name, case, f"{type(error).__name__}: {error} ({line})"[:300]))
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reliability.fuzz", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--count", type=int, default=100_000, help="cases in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=TARGETS, help="one target")
    asked = parser.parse_args(arguments)
    names = [asked.only] if asked.only else list(TARGETS)
    begun, wrong = time.monotonic(), []
    weights = {name: WEIGHTS.get(name, 1.0) for name in names}
    for name in names:
        count = round(asked.count * weights[name] / sum(weights.values()))
        found = fuzz(name, count, asked.seed)
        wrong += found
        print(f"{name:10} {count:6} cases, {len(found)} wrong", flush=True)
        for why in dict.fromkeys(each.why for each in found):
            first = next(each for each in found if each.why == why)
            print(f"    {why}\n        {first.case[:200]!r}")
    print(f"{len(wrong)} wrong in {time.monotonic() - begun:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
