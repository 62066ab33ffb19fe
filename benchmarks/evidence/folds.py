"""Simulated cross-validation: the racing of BudgetSearchCV, and the one that it replaced.

    python -m benchmarks.evidence.folds --seeds 10          make missing runs, print a table
    python -m benchmarks.evidence.folds --seeds 10 --kept   print a table of kept runs

Fold j of a candidate x takes c(x) seconds, and its score is

    -f(x) / sd(f) + difficulty_j + NOISE e(x, j),    difficulty_j ~ N(0, 1/4),  e ~ N(0, 1)

A budget is a number of median candidates with all folds, in simulated seconds. The regret of a run
is (f(x) - min f) / sd(f) of the complete candidate of highest mean score. The racing before ended a
hopeless candidate for good, and added its expected score to what the model learns from.

A run is a line of `benchmarks/results/folds.jsonl`. An interruption loses the active run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence import replay
from benchmarks.problems import synthetic
from farthing import Float, Optimizer, Space
from farthing.core.settings import Settings
from farthing.errors import Stopped
from farthing.integrations.sklearn_fits import Fit, Fits, Out
from farthing.integrations.sklearn_folds import FoldSearch, steps_of
from farthing.integrations.sklearn_racing import MIN_COMPLETE, Racing, is_hopeless
from farthing.integrations.sklearn_space import Candidates
from farthing.running import Pricing

Json = dict[str, Any]
Array = NDArray[np.float64]
RESULTS = Path(__file__).resolve().parents[1] / "results" / "folds.jsonl"
BUDGETS = (8, 25)
FOLDS = 5
NOISE = 0.1
TIE = 1e-3  # regrets that differ by less are equal


PROBLEMS: dict[str, synthetic.Problem] = {
    "Branin": synthetic.BRANIN,
    "Hartmann-6": synthetic.HARTMANN_6,
    "Bumps-2": synthetic.bumps(2),
    "Styblinski-Tang-3": synthetic.styblinski_tang(3),
}


@dataclass(frozen=True)
class Simulation:
    """A problem as a cross-validation: the scores and the seconds of the folds of a candidate."""

    problem: synthetic.Problem
    seed: int
    scale: float  # sd of f over the space
    median: float  # of the seconds of a fold

    @classmethod
    def of(cls, name: str, seed: int) -> Simulation:
        problem = PROBLEMS[name]
        if problem.cost is synthetic.free:  # it rises with the first coordinate
            low, high = problem.bounds[0]
            problem = replace(problem, cost=lambda X: np.exp(3 * (X[:, 0] - low) / (high - low)))
        X = problem.from_cube(np.random.default_rng(0).random((4096, problem.d)))
        return cls(problem, seed, float(problem.f(X).std()), float(np.median(problem.cost(X))))

    @property
    def space(self) -> Space:
        """The space of the problem."""
        bounds = zip(self.problem.names, self.problem.bounds, strict=True)
        return Space({name: Float(low, high) for name, (low, high) in bounds})

    def fold(self, params: Mapping[str, Any], j: int) -> tuple[float, float]:
        """The score and the seconds of a fold."""
        value, seconds = self.problem.at(params)
        difficulty = np.random.default_rng([self.seed, j]).normal(0.0, 0.5)
        bits = np.array([params[name] for name in self.problem.names]).view(np.uint64)
        error = np.random.default_rng([self.seed, j, *bits.tolist()]).normal(0.0, NOISE)
        return float(-value / self.scale + difficulty + error), seconds

    def regret(self, params: Mapping[str, Any] | None) -> float:
        """How far the value of a candidate is from the least one, in sd of f."""
        if params is None:
            return math.inf
        return (self.problem.at(params)[0] - self.problem.optimum) / self.scale


@dataclass
class SimulatedFits(Fits):
    """Fits that take no time."""

    simulation: Simulation | None = None

    @property
    def at_once(self) -> int:
        return 1

    def run(self, fits: Sequence[Fit], seconds: float) -> list[Out | None]:
        assert self.simulation is not None
        outs: list[Out | None] = []
        for fit in fits:
            score, took = self.simulation.fold(fit.params, fit.fold)
            outs.append(
                {"test_scores": score, "fit_time": took, "score_time": 0.0, "fit_error": None}
            )
        return outs


def now(simulation: Simulation, budget: float, z: float = Racing.z) -> tuple[Optimizer, int]:
    """The search of BudgetSearchCV; the number of candidates that it began."""
    settings = Settings.of(
        simulation.space,
        {"worker_s": budget},
        policy=Racing(z),
        steps=steps_of(FOLDS, 1),
        direction="maximize",
        seed=simulation.seed,
    )
    fits = SimulatedFits(None, (None, None), [(None, None)] * FOLDS, {}, 1, None, None)
    fits.simulation = simulation
    search = FoldSearch(
        fits=fits,
        score=lambda out: float(out["test_scores"]),
        optimizer=Optimizer.of(settings),
        space=Candidates(simulation.space),
        pricing=Pricing({}, cpu=True),
        resources=settings.resources,
    )
    search.until_stopped()
    return search.optimizer, len(search.candidates)


def before(simulation: Simulation, budget: float) -> tuple[Optimizer, int]:
    """Candidates one after the other; a hopeless one ends, and counts with its expected score."""
    optimizer = Optimizer(
        simulation.space, {"worker_s": budget}, direction="maximize", seed=simulation.seed
    )
    complete: list[Array] = []  # losses
    for begun in range(10**6):
        try:
            trial = optimizer.ask()
        except Stopped:
            return optimizer, begun
        losses, paid = np.zeros(0), 0.0
        for j in range(FOLDS):
            score, seconds = simulation.fold(trial.params, j)
            losses, paid = np.append(losses, -score), paid + seconds
            ahead = paid * FOLDS / len(losses)
            if len(losses) == FOLDS or not complete:
                continue
            if optimizer.renew(
                trial, lease=math.inf, cost={"worker_s": paid}, ahead={"worker_s": ahead}
            ):
                optimizer.tell(trial, cost=paid, killed=True)
                break
            if len(complete) >= MIN_COMPLETE and is_hopeless(losses, complete, 3.0):
                optimizer.tell(trial, cost=paid, killed=True)
                best = min(complete, key=lambda each: float(each.mean()))
                expected = float(best.mean() + np.mean(losses - best[: len(losses)]))
                optimizer.add(trial.params, -expected, cost=ahead)
                break
        else:
            complete.append(losses)
            optimizer.tell(trial, -float(losses.mean()), cost=paid)
    raise AssertionError("a budget ends")


METHODS = {"before": before, "now": now}


def run(name: str, method: str, seed: int, budget: int) -> Json:
    """One run. Only complete candidates that the search evaluated count."""
    simulation = Simulation.of(name, seed)
    optimizer, begun = METHODS[method](simulation, budget * FOLDS * simulation.median)
    done = [t for t in optimizer.history.done if not t.is_external]
    best = max(done, key=lambda trial: float(trial.value or -math.inf), default=None)
    return {
        "problem": name,
        "method": method,
        "seed": seed,
        "budget": budget,
        "regret": simulation.regret(None if best is None else best.params),
        "complete": len(done),
        "begun": begun,
        "spent": optimizer.ledger.spent / optimizer.ledger["worker_s"].limit,
        "source": replay.source(),
    }


def kept() -> dict[tuple[str, str, int, int], Json]:
    """Every kept run; the later one of two equal ones."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    records = map(json.loads, lines)
    return {(r["problem"], r["method"], r["seed"], r["budget"]): r for r in records}


def table(runs: Mapping[tuple[str, str, int, int], Json], seeds: int) -> list[str]:
    """A row for each problem and budget, and one for all problems."""
    rows = [
        "| budget | problem | regret before | regret now | complete before / now | begun | won / "
        "lost / equal |",
        "|---|---|---|---|---|---|---|",
    ]
    for budget in BUDGETS:
        total = np.zeros(3, dtype=int)
        for name in PROBLEMS:
            keys = [(name, seed, budget) for seed in range(seeds)]
            pairs = [
                tuple(runs.get((name, method, seed, budget)) for method in METHODS)
                for name, seed, budget in keys
            ]
            both = [(old, new) for old, new in pairs if old is not None and new is not None]
            if not both:
                continue
            gaps = np.array([old["regret"] - new["regret"] for old, new in both])
            counts = np.array(
                [(gaps > TIE).sum(), (gaps < -TIE).sum(), (np.abs(gaps) <= TIE).sum()]
            )
            total += counts
            old, new = zip(*both, strict=True)
            medians = [float(np.median([r["regret"] for r in each])) for each in (old, new)]
            complete = [float(np.median([r["complete"] for r in each])) for each in (old, new)]
            begun = [float(np.median([r["begun"] for r in each])) for each in (old, new)]
            rows.append(
                f"| {budget} | {name} | {medians[0]:.3f} | {medians[1]:.3f} | {complete[0]:g} / "
                f"{complete[1]:g} | {begun[0]:g} / {begun[1]:g} | {' / '.join(map(str, counts))} |"
            )
        rows.append(f"| {budget} | all | | | | | {' / '.join(map(str, total))} |")
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence.folds")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kept", action="store_true", help="run nothing: use the kept runs")
    options = parser.parse_args(arguments)
    runs = kept()
    jobs = [
        (name, method, seed, budget)
        for budget in BUDGETS
        for seed in range(options.seeds)
        for name in PROBLEMS
        for method in METHODS
    ]
    missing = [] if options.kept else [job for job in jobs if job not in runs]
    for i, job in enumerate(missing):
        runs[job] = run(*job)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(runs[job]) + "\n")
        print(f"{i + 1} of {len(missing)}: {runs[job]}", file=sys.stderr)
    print("\n".join(table(runs, options.seeds)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
