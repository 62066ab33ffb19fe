"""Runs whose decisions are recorded: 30 trials each, paid in virtual dollars, without a clock.

    python tests/frozen.py [FILE]

plays all runs and records every proposal, bit for bit. `tests/snapshots/decisions.npz` was recorded
on 2026-11-19, when policies stopped exploring once EI is negligible. That changed 187 of the 279
runs, from that moment on; the others are those before, bit for bit. A refactoring must reproduce
the record. A commit that changes decisions on purpose records them again and says so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from farthing import (
    Categorical,
    Float,
    Int,
    Optimizer,
    Ordinal,
    Space,
    Stopped,
    cost,
    policies,
    stopping,
)

FILE = Path(__file__).parent / "snapshots" / "decisions.npz"
TRIALS = 30
SEEDS = (0, 1, 2)
BUDGET = 120.0  # dollars: all trials fit, and the last ones have to look at what is left
MACHINE = "machine"  # the key of what the bits depend on

SPACES = {
    "continuous": Space({"a": Float(-3, 5), "b": Float(1e-4, 1, log=True), "c": Float(10, 11)}),
    "mixed": Space(
        {
            "a": Float(-3, 5),
            "k": Int(1, 60, log=True),
            "o": Ordinal([1, 2, 4, 8]),
            "s": Categorical(["u", "v", "w"]),
        }
    ),
    "conditional": Space(
        {
            "s": Categorical(["u", "v"]),
            "a": Float(-3, 5),
            "m": Float(2, 3, when={"s": "u"}),
            "n": Int(1, 9, when={"s": "v"}),
        }
    ),
    "table": Space.from_rows(
        [
            {"width": width, "solver": solver, "a": round(math.sin(width + 3 * i), 3)}
            for width in (8, 16, 32, 64, 128, 256, 512)
            for i, solver in enumerate(("adam", "sgd", "lbfgs"))
        ]
        + [
            {"width": width, "solver": "adam", "a": round(math.cos(width * j), 3)}
            for width in (8, 32, 128, 512)
            for j in range(1, 8)
        ]
    ),
}


def value_of(params: Mapping[str, Any]) -> float:
    """A smooth function with a few kinks of whatever parameters there are."""
    total = 0.0
    for i, (name, given) in enumerate(sorted(params.items())):
        if isinstance(given, str):
            total += {"u": 0.0, "v": 0.7, "w": 1.5, "adam": 0.1, "sgd": 0.8}.get(given, 1.1)
        else:
            number = math.log10(given) + 2 if name == "b" else float(given)
            scale = {"k": 30, "width": 200, "o": 4, "n": 5}.get(name, 3)
            total += math.sin(1.3 * number / scale + i) + ((number / scale) - 0.4) ** 2
    return total


def price_of(params: Mapping[str, Any]) -> float:
    """From 0.3 to about 8 dollars."""
    total = 0.3
    for given in params.values():
        if not isinstance(given, str):
            total += 0.2 + abs(math.sin(given)) + 0.01 * math.sqrt(abs(given))
        elif given in ("v", "sgd"):
            total *= 1.7
    return total


def earlier() -> list[dict[str, Any]]:
    """Costs of two other tasks in the mixed space."""
    rng = np.random.default_rng(5)
    rows = []
    for task, factor in (("one", 1.0), ("two", 3.0)):
        for _ in range(20):
            params = SPACES["mixed"].decode(rng.random(4))
            spread = math.exp(0.05 * rng.standard_normal())
            rows.append({**params, "cost": factor * price_of(params) * spread, "task": task})
    return rows


def work_of(params: Mapping[str, Any]) -> float:
    """Something like a number of operations."""
    return 1.0 + sum(abs(v) for v in params.values() if not isinstance(v, str))


POLICIES: dict[str, Callable[[Space], Any]] = {
    name: lambda _, kind=getattr(policies, name): kind()
    for name in policies.__all__
    if name != "StartWith" and "steps" not in getattr(policies, name).needs
} | {
    "StartWith": lambda space: policies.StartWith(
        [space.decode(space.rows[3] if space.rows is not None else np.full(space.d, 0.7))],
        then=policies.EIPerCost(alpha=0.5),
    ),
    "CostEffectiveDesign, greedy": lambda _: policies.CostEffectiveDesign(greedy=True),
    "Gittins, worth": lambda _: policies.Gittins(worth=0.02),
    "Rollout, horizon 4": lambda _: policies.Rollout(horizon=4),
}
COSTS: dict[str, Callable[[], Any]] = {
    "Known": lambda: cost.Known(price_of),
    "LogGP": cost.LogGP,
    "Linear": cost.Linear,
    "Flops": lambda: cost.Flops(work_of),
    "ResidualGP": lambda: cost.ResidualGP(cost.Linear()),
    "SelectedGP": cost.SelectedGP,
    "Transfer": lambda: cost.Transfer(earlier(), task="task"),
    "SwitchingCost": cost.SwitchingCost,
    "AutoCost": cost.AutoCost,
    "PointEstimate": lambda: cost.PointEstimate(cost.LogGP()),
}
RULES: dict[str, Callable[[], Any]] = {
    "NotWorthIt": lambda: stopping.NotWorthIt(worth=0.02),
    "NotWorthIt, patience": lambda: stopping.NotWorthIt(worth=0.05, patience=2),
    "RegretGap": lambda: stopping.RegretGap(within=1.0),
    "EIRatio": stopping.EIRatio,
    "RegretGapRatio": stopping.RegretGapRatio,
    "ProbableRegret": lambda: stopping.ProbableRegret(within=0.5),
    "NoImprovement": lambda: stopping.NoImprovement(5),
    "SmallImprovement": lambda: stopping.SmallImprovement(share=0.05),
    "Target": lambda: stopping.Target(0.5),
    "MaxTrials": lambda: stopping.MaxTrials(12),
    "any_of": lambda: stopping.any_of(stopping.NoImprovement(6), stopping.EIRatio()),
    "all_of": lambda: stopping.all_of(stopping.NoImprovement(3), stopping.MaxTrials(9)),
    "after": lambda: stopping.after(15, stopping.NoImprovement(3)),
    "in_a_row": lambda: stopping.in_a_row(3, stopping.EIRatio()),
}


def runs() -> dict[str, Callable[[], np.ndarray]]:
    """{name: how it is played}. Every policy in every space, every cost model, every rule."""
    found: dict[str, Callable[[], np.ndarray]] = {}

    def add(name: str, space: str, batch: int = 1, **settings: Callable[[], Any] | Any) -> None:
        found[name] = lambda: play(SPACES[space], batch, **settings)

    for seed in SEEDS:
        for space in SPACES:
            for name, make in POLICIES.items():
                policy = make(SPACES[space])
                add(f"{name} / {space} / {seed}", space, policy=policy, seed=seed)
    for name, learner in COSTS.items():
        for space in ("continuous", "mixed"):
            if name == "Transfer" and space != "mixed":
                continue
            add(f"cost {name} / {space}", space, cost=learner(), seed=3)
    for name, rule in RULES.items():
        add(f"stop {name}", "continuous", stop=rule(), seed=4)
        add(f"stop {name} / EI", "conditional", stop=rule(), policy=policies.EI(), seed=5)
    for space in SPACES:
        add(f"default / {space}", space, seed=6)
        add(f"batches / {space}", space, batch=4, seed=7)
        add(f"CArBO in batches / {space}", space, batch=4, policy=policies.CArBO(), seed=8)
        add(f"noisy / {space}", space, noisy=True, seed=9)
        add(f"maximised / {space}", space, direction="maximize", seed=10)
        add(f"worth of the budget / {space}", space, worth="budget", seed=11)
        add(f"a small budget / {space}", space, budget=25.0, seed=12)
    return found


def play(space: Space, batch: int, budget: float = BUDGET, **settings: Any) -> np.ndarray:
    """(trials, d + 3): the point, its predicted cost, its limit, and whether a rule said stop.

    One trial in eleven fails, and what costs more than its limit is killed there.
    """
    # Gittins was the default when the decisions were recorded.
    optimizer = Optimizer(space, f"${budget}", **{"policy": policies.Gittins(), **settings})
    rows: list[list[float]] = []
    maximised = settings.get("direction") == "maximize"
    while len(rows) < TRIALS:
        stop = optimizer.verdict.stop
        try:
            asked = optimizer.ask(batch, anyway=True)
        except Stopped:
            break
        for trial in asked:
            limit = trial.limit.get("usd", math.inf)
            rows.append([*trial.x, trial.predicted.get("usd", math.nan), limit, float(stop)])
        for trial in asked:
            paid, limit = price_of(trial.params), trial.limit.get("usd", math.inf)
            paid = paid + (optimizer.history.before(trial.number) is not None) * _moves(settings)
            if paid > limit:
                optimizer.tell(trial, killed=True, cost=limit)
            elif trial.number % 11 == 7:
                optimizer.tell(trial, failed="diverged", cost=0.5 * paid)
            else:
                value = value_of(trial.params)
                optimizer.tell(trial, -value if maximised else value, cost=paid)
    return np.array(rows)


def _moves(settings: Mapping[str, Any]) -> int:
    return int(type(settings.get("cost")).__name__ in ("SwitchingCost", "SwitchingCost"))


def machine() -> str:
    """What the bits of a decision depend on besides the code."""
    blas = sorted(
        f"{each['internal_api']} {each['version']} {each.get('architecture')}"
        for each in threadpool_info()
        if each["user_api"] == "blas"
    )
    about = Path("/proc/cpuinfo")  # its features and caches decide the order of sums
    lines = about.read_text().split("\n\n")[0].splitlines() if about.exists() else []
    kept = [line for line in lines if line.startswith(("cpu family", "model", "cache", "flags"))]
    processor = f"processor {crc32('|'.join(kept).encode()):08x}"
    versions = [f"numpy {np.__version__}", f"scipy {scipy.__version__}"]
    return "; ".join([*versions, *blas, processor])


def _played(name: str) -> tuple[str, np.ndarray]:
    return name, runs()[name]()


def main() -> None:
    """Play and record every run."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with ProcessPoolExecutor(2) as pool:
        played = dict(pool.map(_played, runs()))
    decisions = sum(map(len, played.values()))
    print(f"{len(played)} runs, {decisions} decisions, {machine()}")
    np.savez_compressed(file, **{MACHINE: np.array(machine())}, **played)


if __name__ == "__main__":
    main()
