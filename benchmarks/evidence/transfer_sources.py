"""The earlier studies of the transfer evidence: 30 trials each, on every task of a family.

    python -m benchmarks transfer --only-sources      make the missing studies

A study of the kind "default" was made by Farthing's default policy with a budget of 60 median
costs, rows hidden; one of the kind "random" has 30 random rows of the table. The studies are not
kept in the repository: they are lines of a cache file, and missing ones are made again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks import problems
from benchmarks.evidence.replay import Rows
from benchmarks.methods import make
from benchmarks.problems.problem import Evaluation, Problem
from benchmarks.problems.tables import data_folder
from farthing.earlier import Source

Array = NDArray[np.float64]
Json = dict[str, Any]

TRIALS = 30
BUDGET = 60.0  # median costs: trials that are expensive leave fewer of them
FAMILIES = (
    *("lcbench", "yahpo_rbv2_rpart", "yahpo_rbv2_xgboost", "tabrepo_lightgbm"),
    *("deepar", "hpobench_mlp", "fcnet", "nats_tss"),
)
LIGHTGBM_TASKS = 62
KINDS = ("default", "random")


def cache_file() -> Path:
    """The file of the earlier studies, outside the repository."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "farthing" / "transfer_sources.jsonl"


@cache
def tasks(folder: str | None = None) -> dict[str, tuple[str, ...]]:
    """The tasks of each family that share a space: `family/table` by family, or by variant of it.

    The tables of xgboost have two spaces, whose names end in t10 and g7.
    """
    found: dict[str, list[str]] = {}
    for family in FAMILIES:
        if family == "tabrepo_lightgbm":
            names = [str(i) for i in range(LIGHTGBM_TASKS)]
        else:
            names = sorted(p.stem for p in (data_folder(folder) / family).glob("*.parquet"))
        for name in names:
            variant = re.search("_(t10|g7)$", name)
            group = family + (variant[0] if variant and "xgboost" in family else "")
            found.setdefault(group, []).append(f"{family}/{name}")
    return {group: tuple(names) for group, names in found.items()}


def group_of(task: str, folder: str | None = None) -> str:
    """The tasks with the space of this one, by the name of their group."""
    return next(group for group, names in tasks(folder).items() if task in names)


def play(
    problem: Problem, method: Any, budget: float, most: int
) -> list[tuple[Mapping[str, Any], Evaluation, bool]]:
    """Ask, evaluate and tell: (parameters, value and cost, whether it was killed) of each trial."""
    rows = Rows(problem.table) if problem.table is not None else None
    found: list[tuple[Mapping[str, Any], Evaluation, bool]] = []
    left = budget
    while len(found) < most and left > 0:
        params = method.ask()
        if params is None:
            break
        params = params if rows is None else rows.nearest(params)
        value, cost = problem.at(params)
        limit = min(getattr(method, "limit", np.inf), left)
        killed = cost > limit
        paid = Evaluation(None if killed else value, min(cost, limit))
        found.append((params, paid, killed))
        left -= paid.cost
        if not killed:
            method.tell(params, paid)
        elif left > 0:
            method.killed(params, paid.cost)
    return found


def _study(task: str, kind: str, folder: str | None) -> Json:
    """Make an earlier study."""
    problem = problems.load(task, folder)
    seed = crc32(f"earlier {task}".encode()) >> 1
    if kind == "random":
        trials = [(params, problem.at(params), False) for params in _random_rows(problem, seed)]
    else:
        budget = BUDGET * problem.typical_cost
        method = make("PBGI", problem.space, budget=budget, seed=seed)
        trials = play(problem, method, budget, TRIALS)
    return {
        "task": task,
        "kind": kind,
        "x": [problem.space.encode(params).tolist() for params, _, _ in trials],
        "y": [paid.value for _, paid, _ in trials],
        "cost": [paid.cost for _, paid, _ in trials],
        "censored": [killed for _, _, killed in trials],
    }


def _random_rows(problem: Problem, seed: int) -> list[Mapping[str, Any]]:
    rng = np.random.default_rng(seed)
    if problem.table is None:
        return [problem.space.decode(x) for x in problem.space.sample(TRIALS, rng)]
    rows = problem.table.rows
    assert rows is not None
    return [problem.table.decode(x) for x in rng.permutation(rows)[:TRIALS]]


@cache
def _kept() -> dict[tuple[str, str], Json]:
    path = cache_file()
    lines = path.read_text().splitlines() if path.exists() else []
    return {(each["task"], each["kind"]): each for each in map(json.loads, lines)}


def study(task: str, kind: str, folder: str | None = None) -> Json:
    """The earlier study of a task, from the cache; a missing one is made and added."""
    found = _kept().get((task, kind))
    if found is None:
        found = _kept()[task, kind] = _study(task, kind, folder)
        if kind != "random":
            cache_file().parent.mkdir(parents=True, exist_ok=True)
            with cache_file().open("a") as file:
                file.write(json.dumps(found) + "\n")
    return found


def source_of(found: Json, name: str) -> Source:
    """The source of a study."""
    y = np.array([np.nan if value is None else value for value in found["y"]])
    return Source(
        name,
        np.array(found["x"]),
        y,
        {"cost": np.array(found["cost"])},
        np.array(found["censored"], dtype=np.bool_),
        f"{found['task']} {found['kind']} {name}",
    )


def make_all(names: Iterable[str], folder: str | None = None) -> None:
    """Make the missing studies of these tasks."""
    for task in names:
        if (task, "default") not in _kept():
            study(task, "default", folder)
            print(f"earlier study of {task}", flush=True)


def chosen(task: str, count: int, seed: int, folder: str | None = None) -> Sequence[str]:
    """`count` other tasks of the group, drawn at random; all if there are fewer."""
    others = [name for name in tasks(folder)[group_of(task, folder)] if name != task]
    rng = np.random.default_rng(crc32(f"sources of {task} {seed}".encode()))
    return [others[i] for i in rng.permutation(len(others))[:count]]
