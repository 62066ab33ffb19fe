"""What every cost-aware policy pays to reach the result of random search.

    python -m benchmarks.evidence.cost_to_target              20 seeds, three problems, some minutes
    python -m benchmarks.evidence.cost_to_target --seeds 5 --jobs 2

    budget   100 mean costs: what 100 uniform points cost on average
    target   the median over the seeds of random search's best value once the budget is spent
    paid     everything spent up to and with the first evaluation that reaches the target; inf if
             the budget ends before
    win      paid less than random search with the same seed; both inf is no win

Costs are learnt, not given. Every method starts with the same uniform points as random search with
that seed. Writes benchmarks/results/cost_to_target.json and docs/cost_to_target.md.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scipy.stats import qmc

from benchmarks.problems.synthetic import PRICED, Problem
from benchmarks.speed.suggestions import commit, cpu_model, say
from farthing import Float, Optimizer, Space
from farthing.acquisition.protocols import Policy
from farthing.policies import CArBO, ContextualEI, Cooling, EIPerCost, Gittins, Random

Json = dict[str, Any]

REPO = Path(__file__).resolve().parents[2]
RESULTS = REPO / "benchmarks" / "results" / "cost_to_target.json"
PAGE = REPO / "docs" / "cost_to_target.md"

MEAN_COSTS = 100
POLICIES: dict[str, Callable[[], Policy]] = {
    "EIPerCost": EIPerCost,
    "Cooling": Cooling,
    "CArBO": CArBO,
    "ContextualEI": ContextualEI,
    "Gittins": Gittins,
}
ENOUGH = 0.75  # share of the seeds to win: 15 of 20
ENOUGH_PROBLEMS = 2

PROBLEMS = {problem.name: problem for problem in PRICED}


@dataclass(frozen=True)
class Run:
    """One policy on one problem with one seed; `steps` are (all spent so far, best so far)."""

    problem: str
    policy: str
    seed: int
    steps: tuple[tuple[float, float], ...]

    @property
    def best(self) -> float:
        """The last best value."""
        return self.steps[-1][1]

    def paid(self, target: float) -> float:
        """The cost until the best value first reached the target; inf if it never did."""
        return next((spent for spent, best in self.steps if best <= target), math.inf)


def mean_cost(problem: Problem) -> float:
    """E[c(x)], x uniform on the box, by 2^16 Sobol points."""
    U = qmc.Sobol(problem.d, scramble=False).random_base2(16)
    return float(problem.cost(problem.from_cube(U)).mean())


def run(
    problem: Problem, name: str, policy: Policy, seed: int, *, target: float = -math.inf
) -> Run:
    """Run until 100 mean costs are spent or the target is reached."""
    bounds = zip(problem.names, problem.bounds, strict=True)
    space = Space({name: Float(low, high) for name, (low, high) in bounds})
    budget = MEAN_COSTS * mean_cost(problem)
    optimizer = Optimizer(space, budget, policy=policy, seed=seed)
    steps: list[tuple[float, float]] = []
    best = math.inf
    while best > target and not optimizer.verdict.stop:
        trial = optimizer.ask()
        value, cost = problem.at(trial.params)
        optimizer.tell(trial, value, cost=cost)
        best = min(best, value)
        steps.append((optimizer.ledger.spent, best))
    return Run(problem.name, name, seed, tuple(steps))


def target_of(random_runs: list[Run]) -> float:
    """The median result of random search."""
    return statistics.median(run.best for run in random_runs)


def wins(runs: list[Run], rivals: list[Run], target: float) -> int:
    """The number of seeds in which the target cost less than the rival of that seed paid."""
    theirs = {run.seed: run.paid(target) for run in rivals}
    return sum(run.paid(target) < theirs[run.seed] for run in runs)


# ── the whole table ────────────────────────────────────────────────────────────────────────────


def _job(problem: str, policy: str, seed: int, target: float) -> Run:
    """Run by names, because problems contain lambdas and cannot be pickled."""
    made = POLICIES.get(policy, Random)()
    return run(PROBLEMS[problem], policy, made, seed, target=target)


def every_run(seeds: int, jobs: int) -> Iterator[Run]:
    """Random search first, because it defines the targets, then every policy."""
    # New processes read this when they load NumPy: each uses one core.
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        tasks = [
            pool.submit(_job, problem, "Random", seed, -math.inf)
            for problem in PROBLEMS
            for seed in range(seeds)
        ]
        random_runs = [task.result() for task in tasks]
        yield from random_runs
        targets = {p: target_of([r for r in random_runs if r.problem == p]) for p in PROBLEMS}
        say(f"random search done; targets {targets}")
        tasks = [
            pool.submit(_job, problem, policy, seed, targets[problem])
            for problem in PROBLEMS
            for policy in POLICIES
            for seed in range(seeds)
        ]
        for task in as_completed(tasks):
            yield task.result()


def summary(runs: list[Run], seeds: int) -> Json:
    """The targets, and for each policy the costs to target, their median and the wins."""
    problems: Json = {}
    for name, problem in PROBLEMS.items():
        here = [run for run in runs if run.problem == name]
        rivals = [run for run in here if run.policy == "Random"]
        target = target_of(rivals)
        unit = mean_cost(problem)
        figures: Json = {}
        for policy in ("Random", *POLICIES):
            own = sorted((r for r in here if r.policy == policy), key=lambda r: r.seed)
            paid = [run.paid(target) / unit for run in own]
            figures[policy] = {
                "wins": wins(own, rivals, target) if policy != "Random" else None,
                "reached": sum(math.isfinite(cost) for cost in paid),
                "median": _json(statistics.median(paid)),
                "paid": [_json(cost) for cost in paid],
                "evaluations": [len(run.steps) for run in own],
            }
        problems[name] = {"target": target, "mean_cost": unit, "policies": figures}
    return {"seeds": seeds, "problems": problems}


def made_with() -> Json:
    """Version, date, commit and machine, read before the runs, because the code may change."""
    return {
        "version": version("farthing"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count()},
    }


def _json(cost: float) -> float | None:
    """Costs in mean costs; null if never reached, because JSON has no infinity."""
    return None if math.isinf(cost) else cost


def kept(results: Json) -> dict[str, bool]:
    """Whether each policy beats random search in three seeds of four on two of the problems."""
    least = math.ceil(ENOUGH * results["seeds"])
    figures = [problem["policies"] for problem in results["problems"].values()]
    return {
        policy: sum(f[policy]["wins"] >= least for f in figures) >= ENOUGH_PROBLEMS
        for policy in POLICIES
    }


def page(results: Json) -> str:
    """The text of docs/cost_to_target.md."""
    seeds, problems = results["seeds"], results["problems"]
    header = "".join(f" {name} |" for name in problems)
    lines = [f"| policy |{header}", "|---|" + "---|" * len(problems)]
    for policy in ("Random", *POLICIES):
        cells = [_cell(problem["policies"][policy], seeds) for problem in problems.values()]
        lines.append(f"| {policy} | {' | '.join(cells)} |")
    targets = ", ".join(f"{name} {problem['target']:.4g}" for name, problem in problems.items())
    good = [policy for policy, holds in kept(results).items() if holds]
    machine = results["machine"]
    text = (
        f"Each cell: the median over {seeds} seeds of the cost until the target was reached, "
        "in mean costs (the cost of a uniform point), and in how many seeds that was less than "
        "random search paid with the same seed. The budget is "
        f"{MEAN_COSTS} mean costs; the target is the median result of random search once it is "
        f"spent ({targets}), so random search itself reaches it in half the seeds. Costs are "
        "learnt, not given: exp(2 u1) on Branin, exp(3 mean u) on Hartmann-6, 10 - 5 |x| on "
        "the problem of the CMDP paper, u in the unit cube."
    )
    verdict = (
        f"Random search is beaten in at least {math.ceil(ENOUGH * seeds)} of {seeds} seeds on at "
        f"least {ENOUGH_PROBLEMS} of the {len(problems)} problems by: "
        f"{', '.join(good) if good else 'none'}."
    )
    made = (
        f"Version {results['version']}, commit {results['commit']}, {results['date'][:10]}, "
        f"{machine['cpu']}, {machine['cores']} cores. Every figure is in "
        "[cost_to_target.json](../benchmarks/results/cost_to_target.json)."
    )
    return "\n\n".join(
        [
            "# Cost to target",
            "Made by `make cost-to-target` (`python -m benchmarks.evidence.cost_to_target`).",
            textwrap.fill(text, 100),
            "\n".join(lines),
            textwrap.fill(verdict, 100),
            textwrap.fill(made, 100, break_long_words=False, break_on_hyphens=False) + "\n",
        ]
    )


def _cell(figure: Json, seeds: int) -> str:
    median = f"over {MEAN_COSTS}" if figure["median"] is None else f"{figure['median']:.1f}"
    if figure["wins"] is None:
        return f"{median}, reached in {figure['reached']} of {seeds}"
    return f"{median}, wins {figure['wins']} of {seeds}"


def main() -> int:
    """Run everything, print the page and write both files; 1 if a policy misses the goal."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evidence.cost_to_target",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--dry", action="store_true", help="print the page, write nothing")
    arguments = parser.parse_args()
    origin, runs = made_with(), []
    total = len(PROBLEMS) * (1 + len(POLICIES)) * arguments.seeds
    for done in every_run(arguments.seeds, arguments.jobs):
        runs.append(done)
        if len(runs) % 10 == 0:
            say(f"{len(runs)} of {total} runs; {done.problem} {done.policy} seed {done.seed}")
    results = origin | summary(runs, arguments.seeds)
    if not arguments.dry:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(results), encoding="utf-8")
    print(page(results))
    return 0 if all(kept(results).values()) else 1


if __name__ == "__main__":
    sys.exit(main())
