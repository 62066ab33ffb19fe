"""Figure 1 of "Cost-aware Stopping for Bayesian Optimization": every acquisition with every rule.

    tables       LCBench Fashion-MNIST, adult, higgs, volkert, NATS-Bench topology cifar10-valid
                 and cifar100; validation error is minimised, test error is scored
    costs        known: thousands of weights (LCBench), MFLOPs (NATS); learnt: seconds (LCBench)
    a run        16 (NATS 12) uniform points, the same for all, then 200 choices; the cost of
                 the uniform points is left out
    rates        three for each table: hindsight stops a LogEIPC run after about 20, 60 and 150
                 choices, in the mean of pilot runs with separate seeds; if these find the best
                 row sooner, after the same shares of the choices they need
    measure      regret of the best by validation + rate * (cost of the choices)

Every rule is evaluated on the run on which it is scored, from choice 20 on, as in the paper's code.
The bars are two standard errors, as in the paper. Policies are as printed (benchmarks/paper.py),
and so is PRB. Kept runs without a source mark are Farthing's version: they explored, and their PRB
was the certified one.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.artefacts.artefact import (
    RESULTS,
    Artefact,
    Json,
    Settings,
    grid,
    markdown,
)
from benchmarks.evidence.artefacts.printed import NoRuns, Origin, in_both_modes
from benchmarks.evidence.measures import DRAWS, cost_adjusted_regret
from benchmarks.evidence.replay import Missing, same_decisions, source
from benchmarks.paper import AsPrinted
from benchmarks.problems import tables
from farthing import Optimizer, Space
from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Policy, Proposal, StoppingRule, Verdict, judge
from farthing.cost import Known, LogGP
from farthing.policies import ConfidenceBound, EIPerCost, Gittins, Thompson
from farthing.stopping import (
    EIRatio,
    NoImprovement,
    NotWorthIt,
    ProbableRegret,
    RegretGap,
    RegretGapRatio,
    SmallImprovement,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

LCBENCH = ("Fashion-MNIST", "adult", "higgs", "volkert")
NATS = ("cifar10-valid", "cifar100")
CASES = (
    *(f"lcbench/{table}/known" for table in LCBENCH),
    *(f"nats_tss/{table}/known" for table in NATS),
    *(f"lcbench/{table}/learnt" for table in LCBENCH),
)
ACQUISITIONS = ("PBGI", "LogEIPC", "LCB", "TS")
CERTIFIED = "PRB, certified"
RULES = (
    *("PBGI/LogEIPC", "UCB-LCB", "LogEIPC-med", "SRGap-med", "PRB", CERTIFIED, "convergence"),
    *("GSS", "200 choices", "hindsight"),
)
DIFFERS = "NATS has its topology space, and the surrogate is Farthing's."
STARTS = {"lcbench": 16, "nats_tss": 12}
CHOICES = 200
LISTEN = 20  # choices before which no rule is evaluated
HINDSIGHT = (20, 60, 150)
PILOTS = (900, 901, 902)
SEEDS = 20
TIMES_HINDSIGHT = (1, 2, 5, 10, 20, 50)  # ticks
COLOURS = {"PBGI": "#e69f00", "LogEIPC": "#009e73", "LCB": "#0072b2", "TS": "#cc79a7"}


# ── the tables ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Table:
    """A table with the columns of this experiment, by row."""

    space: Space
    row: Mapping[tuple[Any, ...], int]  # values of the parameters -> row
    value: Array
    scored: Array  # the values for the regret
    cost: Array

    def number(self, params: Mapping[str, Any]) -> int:
        """The row of a configuration."""
        return self.row[tuple(params[name] for name in self.space.names)]


@cache
def read(case: str, folder: str | None) -> Table:
    """The table of a case, family/table/cost."""
    family, table, cost = case.split("/")
    root = tables.data_folder(folder)
    if not (root / family).is_dir():
        raise tables.NoData(f"There is no {family} in {root}. Point --data or FARTHING_DATA at it.")
    frame, specification = tables._read(family, table, root)
    if family == "lcbench":  # its table has no accuracies; the recorded curves of its rows have
        frame = _last_epoch(root / "curves" / family / f"{table}.parquet")
    parameters = {
        column.removeprefix("hp_"): tables._parameter(described)
        for column, described in specification.items()
    }
    frame = frame.rename(columns=lambda column: column.removeprefix("hp_"))
    frame = frame.drop_duplicates(list(parameters), ignore_index=True)
    rows = [
        {name: tables._plain(value) for name, value in row.items()}
        for row in frame[list(parameters)].to_dict("records")
    ]
    price = "cost" if cost == "learnt" else "alt_cost_mflops_cifar"
    if cost == "known" and family == "lcbench":
        price = "weights"
    # NATS is the product of six choices of five; LCBench is two thousand rows.
    space = Space(parameters) if family == "nats_tss" else Space.from_rows(rows, parameters)
    return Table(
        space,
        {tuple(row[name] for name in space.names): i for i, row in enumerate(rows)},
        frame["objective"].to_numpy(np.float64),
        frame["test_objective"].to_numpy(np.float64),
        frame[price].to_numpy(np.float64),
    )


def _last_epoch(path: Path) -> Any:
    """LCBench after the last epoch: errors in percent, seconds, thousands of weights."""
    import pandas as pd

    if not path.exists():
        raise tables.NoData(f"{path} does not exist. Set --data or FARTHING_DATA to its folder.")
    frame = pd.read_parquet(path)
    return frame.assign(
        objective=100.0 - frame["val_accuracy"],
        test_objective=100.0 - frame["test_accuracy"],
        cost=51 * frame["cost_per_epoch"],
        weights=0.001 * frame["n_params"],
    )


@dataclass(frozen=True)
class Price:
    """The known cost of a configuration, which pickles and compares."""

    case: str
    folder: str | None

    def __call__(self, params: Mapping[str, Any]) -> float:
        """By its row."""
        table = read(self.case, self.folder)
        return float(table.cost[table.number(params)])


def rules(case: str, rates: Sequence[float], folder: str | None) -> dict[str, StoppingRule]:
    """The rules with the paper's constants; PBGI/LogEIPC once for each rate."""
    table = read(case, folder)
    least = float(table.scored.min())
    nats = case.startswith("nats")
    return {
        **{f"PBGI/LogEIPC {i}": NotWorthIt(worth=rate) for i, rate in enumerate(rates)},
        "UCB-LCB": RegretGap(within=0.01),  # percent of error
        "LogEIPC-med": EIRatio(),
        "SRGap-med": RegretGapRatio(),
        # Of the best test error, which only an oracle knows: 5 % on NATS, 0.5 % on LCBench.
        "PRB": ProbableRegret(within=(0.05 if nats else 0.005) * least, plain=True),
        "convergence": NoImprovement(5),
        "GSS": SmallImprovement(share=0.01, window=5),
    }


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Watch:
    """Evaluates every rule that has not stopped yet, notes when it does, and never stops."""

    rules: tuple[tuple[str, StoppingRule], ...]
    listen: int

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Notes {"fired": {rule: choices made}}."""
        fired = dict(belief.history.last_note("fired") or {})
        made = sum(not trial.is_external for trial in belief.history)
        notes: Json = {}
        for name, rule in self.rules:
            if name not in fired:
                verdict = judge(rule, belief, proposal, rng)
                notes |= verdict.notes
                if verdict.stop and made >= self.listen:
                    fired[name] = made
        return Verdict(False, "watching", notes={**notes, "fired": fired})


class Job(NamedTuple):
    """One run; `rates` are those of the case, `rate` is PBGI's, -1 for other policies."""

    case: str
    acquisition: str
    rate: int
    seed: int
    choices: int
    rates: tuple[float, ...]


def attempt(job: Job, folder: str | None) -> Json:
    """The job, its costs and scores after the initial design, and the stop of each rule."""
    table = read(job.case, folder)
    family, _, kind = job.case.split("/")
    watched = rules(job.case, job.rates, folder) if job.rates else {}
    optimizer = Optimizer(
        table.space,
        policy=AsPrinted(_policy(job)),
        stop=Watch(tuple(watched.items()), min(LISTEN, job.choices // 2)) if watched else None,
        cost=LogGP() if kind == "learnt" else Known(Price(job.case, folder)),
        seed=job.seed,
    )
    rng = np.random.default_rng([job.seed, STARTS[family]])
    best: tuple[float, float] = (np.inf, np.nan)
    for x in table.space.sample(STARTS[family], rng):
        params = table.space.decode(x)
        i = table.number(params)
        optimizer.add(params, table.value[i], cost=float(table.cost[i]))
        best = min(best, (table.value[i], table.scored[i]))
    costs, scores = [0.0], [best[1]]
    started = time.process_time()
    for _ in range(job.choices):
        trial = optimizer.ask()
        i = table.number(trial.params)
        optimizer.tell(trial, table.value[i], cost=float(table.cost[i]))
        best = min(best, (table.value[i], table.scored[i]))
        costs.append(float(table.cost[i]))
        scores.append(best[1])
    return {
        **job._asdict(),
        "costs": [float(f"{cost:.5g}") for cost in costs],
        "scores": [float(f"{score:.7g}") for score in scores],
        "fired": dict(optimizer.verdict.notes.get("fired", {})),
        "unwatched": [CERTIFIED],
        "seconds": round(time.process_time() - started, 1),
        "source": source(),
    }


def _policy(job: Job) -> Policy:
    if job.acquisition == "PBGI":
        return Gittins(worth=job.rates[job.rate])
    return {"LogEIPC": EIPerCost(), "LCB": ConfidenceBound(), "TS": Thompson()}[job.acquisition]


def kept(path: Path, *, printed: bool = True) -> dict[Job, Json]:
    """Every run that is kept, by its job: those as printed of this source, or those before them."""
    if not path.exists():
        return {}
    with gzip.open(path, "rt") as file:
        records = [json.loads(line) for line in file]
    if printed:
        records = [r for r in records if r.get("source") in same_decisions("stopping")]
    else:
        records = [_before(r) for r in records if "source" not in r]
    return {Job(*(tuple(r[f]) if f == "rates" else r[f] for f in Job._fields)): r for r in records}


def _before(record: Json) -> Json:
    """A kept run without a source mark, whose PRB was the certified one."""
    fired = {CERTIFIED if rule == "PRB" else rule: at for rule, at in record["fired"].items()}
    return {**record, "fired": fired, "unwatched": ["PRB"]}


def carry_out(jobs: Iterable[Job], path: Path, settings: Settings) -> dict[Job, Json]:
    """The run of every job: kept runs are read, missing ones are made and kept at once."""
    wanted = list(jobs)
    have = kept(path, printed=settings.printed)
    more = settings.more and settings.printed
    todo = [job for job in wanted if job not in have] if more else []
    path.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(settings.jobs, mp_context=get_context("fork")) as pool:
        futures = {pool.submit(attempt, job, settings.data): job for job in todo}
        for i, future in enumerate(as_completed(futures), 1):
            have[futures[future]] = future.result()
            line = json.dumps(future.result(), separators=(",", ":")) + "\n"
            with path.open("ab") as file:  # a gzip file may be several, one after the other
                file.write(gzip.compress(line.encode(), mtime=0))
            if not settings.quick:
                print(f"stopping: {i} of {len(todo)} runs", flush=True)
    if settings.printed:
        missing = sum(job not in have for job in wanted)
        seconds = [run.get("seconds", 0.0) for run in have.values()] or [0.0]
        hours = missing * float(np.median(seconds)) / 3600.0
        settings.missing.append(Missing(missing, hours))
    return {job: have[job] for job in wanted if job in have}


# ── rates ──────────────────────────────────────────────────────────────────────────────────────


def hindsight(costs: Sequence[float], regrets: Sequence[float], rate: float) -> int:
    """The number of choices at which regret + rate * cost is lowest."""
    return int(np.argmin(cost_adjusted_regret(costs, regrets, optimum=0.0, worth=rate)))


Trace = tuple[Any, Any]  # costs and regrets of a run


def mean_of(runs: Sequence[Trace]) -> Trace:
    """Costs and regrets of the mean run, choice by choice."""
    costs, regrets = (np.mean([run[k] for run in runs], axis=0) for k in (0, 1))
    return costs, regrets


def rate_for(run: Trace, choices: float) -> float:
    """A rate at which hindsight stops a run as near as possible to a number of choices.

    Where it stops is a step function of the rate: the middle of the step, or half of its highest
    rate if that is more.
    """
    log_rates = np.linspace(-30.0, 10.0, 4001)
    stops = np.array([hindsight(*run, rate) for rate in np.exp(log_rates)])
    apart = np.abs(np.log((stops + 1) / (choices + 1)))
    step = log_rates[stops == stops[np.argmin(apart)]]
    return float(f"{np.exp(max(step.mean(), step.max() - np.log(2.0))):.3g}")


def targets(run: Trace, choices: int) -> tuple[float, ...]:
    """20, 60 and 150 choices, or the same shares of the choices the run needs to find the best."""
    most = min(hindsight(*run, 0.0), 0.75 * choices)
    return tuple(at / HINDSIGHT[-1] * most for at in HINDSIGHT)


def rates_of(case: str, path: Path, settings: Settings) -> tuple[float, ...]:
    """Three exchange rates for a table, from pilot runs of LogEIPC."""
    choices = _choices(settings)
    pilots = PILOTS[:1] if settings.quick else PILOTS
    jobs = [Job(case, "LogEIPC", -1, seed, choices, ()) for seed in pilots]
    runs = carry_out(jobs, path, settings)
    if not runs:
        return ()
    least = float(read(case, settings.data).scored.min())
    run = mean_of([(run["costs"], np.array(run["scores"]) - least) for run in runs.values()])
    first, middle, last = (rate_for(run, at) for at in targets(run, choices))
    if middle in (first, last):  # one step for two targets
        middle = float(f"{np.sqrt(first * last):.3g}")
    return first, middle, last


def _choices(settings: Settings) -> int:
    return 20 if settings.quick else CHOICES


# ── numbers ────────────────────────────────────────────────────────────────────────────────────


def _compute(settings: Settings) -> Json:
    path = RESULTS / "stopping.jsonl.gz"
    if settings.quick:
        with tempfile.TemporaryDirectory() as scratch:
            return _figure(CASES[1:2], Path(scratch) / path.name, settings)
    return _figure(CASES, path, settings)


def _figure(cases: Sequence[str], path: Path, settings: Settings) -> Json:
    rates = {case: rates_of(case, path, settings) for case in cases}
    jobs = [
        Job(case, acquisition, rate, seed, _choices(settings), rates[case])
        for kind in ("known", "learnt")
        for seed in range(settings.count(SEEDS))
        for case in cases
        if rates[case] and case.endswith(kind)
        for acquisition in ACQUISITIONS
        for rate in (range(len(HINDSIGHT)) if acquisition == "PBGI" else (-1,))
    ]
    runs, few = with_spread(whole(carry_out(jobs, path, settings), jobs))
    if not runs:
        raise NoRuns
    settings.origins.append(Origin(source() if settings.printed else "", 0))
    found: Json = {}
    for case in cases:
        if any(job.case == case for job in runs):
            least = float(read(case, settings.data).scored.min())
            found[case] = [
                summary([run for job, run in runs.items() if job.case == case], least, i, rate)
                for i, rate in enumerate(rates[case])
            ]
    return {
        "cases": found,
        "planned": len(jobs),
        "made": len(runs),
        "left_out_cases": few,
        "choices": _choices(settings),
    }


def with_spread(runs: dict[Job, Json]) -> tuple[dict[Job, Json], list[str]]:
    """The runs of the tables that have two seeds at least, and the other tables."""
    seeds = {case: {job.seed for job in runs if job.case == case} for case, *_ in runs}
    few = sorted(case for case, have in seeds.items() if len(have) < 2)
    return {job: run for job, run in runs.items() if job.case not in few}, few


def whole(runs: Mapping[Job, Json], jobs: Sequence[Job]) -> dict[Job, Json]:
    """The runs of the tables and seeds that every acquisition has run."""
    missing = {(job.case, job.seed) for job in jobs if job not in runs}
    return {job: run for job, run in runs.items() if (job.case, job.seed) not in missing}


def summary(runs: Sequence[Json], least: float, index: int, rate: float) -> Json:
    """Cost-adjusted regret of each acquisition and rule at one rate: mean, two s.e., choices."""
    pairs: dict[str, Json] = {}
    for acquisition in ACQUISITIONS:
        own = index if acquisition == "PBGI" else -1
        mine = [r for r in runs if r["acquisition"] == acquisition and r["rate"] == own]
        for rule in RULES if mine else ():
            if any(rule in run.get("unwatched", ()) for run in mine):
                continue
            ends = [_end(run, rule, index, rate, least) for run in mine]
            at = np.array(
                [_adjusted(r, least, rate)[end] for r, end in zip(mine, ends, strict=True)]
            )
            pairs[f"{acquisition} + {rule}"] = {
                "mean": float(f"{at.mean():.5g}"),
                "two_se": float(f"{2 * at.std() / np.sqrt(len(at)):.3g}"),
                "choices": float(np.mean(ends)),
                "stopped": float(np.mean([_fired(run, rule, index) is not None for run in mine])),
                "runs": len(mine),
            }
    return {"rate": rate, "pairs": pairs}


def _adjusted(run: Json, least: float, rate: float) -> Array:
    return cost_adjusted_regret(run["costs"], run["scores"], optimum=least, worth=rate)


def _fired(run: Json, rule: str, index: int) -> int | None:
    found = run["fired"].get(f"{rule} {index}" if rule == "PBGI/LogEIPC" else rule)
    return None if found is None else int(found)


def _end(run: Json, rule: str, index: int, rate: float, least: float) -> int:
    """The number of choices after which the rule ends the run."""
    if rule == "hindsight":
        return int(np.argmin(_adjusted(run, least, rate)))
    fired = None if rule == "200 choices" else _fired(run, rule, index)
    return len(run["costs"]) - 1 if fired is None else fired


# ── table and verdict ──────────────────────────────────────────────────────────────────────────

OURS = "PBGI + PBGI/LogEIPC"


def _rivals(part: Json) -> dict[str, Json]:
    """The pairs that can be used in practice, without hindsight."""
    return {pair: p for pair, p in part["pairs"].items() if not pair.endswith("hindsight")}


def _excess(part: Json, pair: str) -> float:
    """Cost-adjusted regret over that of the best hindsight of any acquisition."""
    best = min(p["mean"] for pair_, p in part["pairs"].items() if pair_.endswith("hindsight"))
    return float(part["pairs"][pair]["mean"] / best)


def _parts(kept: Json) -> list[tuple[str, Json]]:
    return [(case, part) for case, parts in kept["cases"].items() for part in parts]


NONE_YET = "Not yet run: no table has a seed that every acquisition was run with."


def _table(kept: Json) -> str:
    parts = [part for _, part in _parts(kept)]
    if not parts:
        return NONE_YET
    rows = []
    for acquisition in ACQUISITIONS:
        for rule in RULES:
            pair = f"{acquisition} + {rule}"
            there = [part for part in parts if pair in part["pairs"]]
            if not there:
                continue
            ranks = [
                sum(p["mean"] < part["pairs"][pair]["mean"] for p in _rivals(part).values()) + 1
                for part in there
            ]
            rows.append(
                [
                    acquisition,
                    rule,
                    float(np.exp(np.mean(np.log([_excess(part, pair) for part in there])))),
                    "-" if rule == "hindsight" else float(np.mean(ranks)),
                    float(np.mean([part["pairs"][pair]["choices"] for part in there])),
                    f"{100 * np.mean([part['pairs'][pair]['stopped'] for part in there]):.0f} %",
                ]
            )
    summary = [
        [rule, *(_with_bounds(by[a]) if a in by else "-" for a in ACQUISITIONS)]
        for rule, by in relative(kept).items()
        if by
    ]
    header = ("acquisition", "rule", "regret / hindsight", "mean rank", "choices", "stopped by it")
    seeds = sorted({p["runs"] for part in parts for p in part["pairs"].values()})
    note = (
        f"Cost-adjusted regret over that of the best acquisition stopped in hindsight, geometric "
        f"mean over {len(parts)} settings (tables, costs, exchange rates), "
        f"{' to '.join(str(s) for s in dict.fromkeys((seeds[0], seeds[-1])))} runs each; "
        f"{kept['made']} of {kept['planned']} runs made."
    )
    if kept.get("left_out_cases"):
        note += f" Left out, with one seed so far: {', '.join(kept['left_out_cases'])}."
    return "\n\n".join([markdown(("rule", *ACQUISITIONS), summary), note, markdown(header, rows)])


def _with_bounds(bounds: Sequence[float]) -> str:
    return f"{bounds[0]:.3g} [{bounds[1]:.3g}, {bounds[2]:.3g}]"


def _best(part: Json) -> str:
    """The pair with the least regret at one setting."""
    rivals = _rivals(part)
    return min(rivals, key=lambda pair: rivals[pair]["mean"])


def near_best(kept: Json) -> tuple[int, int]:
    """The settings where ours is within two standard errors of the best pair, of all settings."""
    near = 0
    for _, part in _parts(kept):
        first, ours = (part["pairs"][pair] for pair in (_best(part), OURS))
        near += ours["mean"] <= first["mean"] + np.hypot(first["two_se"], ours["two_se"])
    return near, len(_parts(kept))


def fewest_runs(kept: Json) -> int:
    """The smallest number of runs of any pair and setting."""
    return min(pair["runs"] for _, part in _parts(kept) for pair in part["pairs"].values())


def _verdict(kept: Json) -> str:
    parts = _parts(kept)
    if not parts:
        return NONE_YET
    best = Counter(_best(part) for _, part in parts)
    near, _ = near_best(kept)
    won = sorted(best, key=lambda pair: -best[pair])[:3]
    excess = {
        pair: float(np.exp(np.mean(np.log([_excess(part, pair) for _, part in parts]))))
        for pair in _rivals(parts[0][1])
    }
    order = sorted(excess, key=lambda pair: excess[pair])
    few = (
        ""
        if kept["made"] == kept["planned"]
        else (f" So far, with {kept['made']} of {kept['planned']} runs:")
    )
    return (
        f"{few} PBGI with its own rule is best or within two standard errors of the best pair in "
        f"{near} of {len(parts)} settings; its regret is {excess[OURS]:.2f} times hindsight's in "
        f"the mean, place {order.index(OURS) + 1} of {len(order)} pairs (first: {order[0]}, "
        f"{excess[order[0]]:.2f}). Most often best: "
        + ", ".join(f"{pair} ({best[pair]})" for pair in won)
        + "."
    ).strip()


def relative(kept: Json) -> dict[str, dict[str, list[float]]]:
    """By rule and acquisition: regret over that of hindsight, [mean, low, high] over the tables.

    The mean is geometric, and the 95 % interval comes from drawing the cases (a table with a cost)
    with all their exchange rates.
    """
    found: dict[str, dict[str, list[float]]] = {rule: {} for rule in RULES}
    for rule in RULES:
        for acquisition in ACQUISITIONS:
            pair = f"{acquisition} + {rule}"
            logs = [
                np.log([_excess(part, pair) for part in parts])
                for parts in kept["cases"].values()
                if all(pair in part["pairs"] for part in parts)
            ]
            if logs:
                means = np.array([part.mean() for part in logs])
                drawn = np.random.default_rng(0).integers(len(means), size=(DRAWS, len(means)))
                bounds = np.percentile(means[drawn].mean(axis=1), [2.5, 97.5])
                found[rule][acquisition] = [*map(float, np.exp([means.mean(), *bounds]))]
    return found


def _draw(kept: Json) -> Figure:
    """One row per rule, over all tables, costs and rates."""
    figure, (axis,) = grid(1, width=7.5, height=4.2)
    found = {rule: by for rule, by in relative(kept).items() if by}
    for place, by in enumerate(found.values()):
        for k, (acquisition, (middle, low, high)) in enumerate(by.items()):
            y, hue = place + 0.17 * (k - 1.5), COLOURS[acquisition]
            axis.plot([low, high], [y, y], color=hue, lw=1.2)
            axis.plot(middle, y, "s", color=hue, ms=4, label=acquisition if not place else None)
    axis.set_yticks(range(len(found)), list(found))
    axis.set(xscale="log", ylim=(len(found) - 0.5, -0.5))
    axis.set_xticks(TIMES_HINDSIGHT, [f"{times:g}" for times in TIMES_HINDSIGHT])
    axis.minorticks_off()
    axis.set_xlabel("regret over that of the best acquisition stopped in hindsight, 95 % interval")
    figure.legend(loc="outside lower center", ncols=len(ACQUISITIONS))
    return figure


def _draw_panels(kept: Json) -> Figure:
    """Every table, cost and rate."""
    from matplotlib.ticker import NullFormatter

    rates = len(HINDSIGHT)
    figure, axes = grid(len(kept["cases"]) * rates, rates, width=2.7, height=2.3, sharey=True)
    shown = [rule for rule, by in relative(kept).items() if by]
    for axis, (case, part) in zip(axes, _parts(kept), strict=True):
        for k, acquisition in enumerate(ACQUISITIONS):
            for place, rule in enumerate(shown):
                pair = part["pairs"].get(f"{acquisition} + {rule}")
                if pair is not None:
                    label = acquisition if not place and axis is axes[0] else None
                    y, hue = place + 0.17 * (k - 1.5), COLOURS[acquisition]
                    axis.errorbar(
                        *(pair["mean"], y), xerr=pair["two_se"], fmt="s", ms=2.5, lw=0.9, color=hue,
                        label=label,
                    )  # fmt: skip
        axis.set(xscale="log", ylim=(len(shown) - 0.5, -0.5))
        axis.set_title(f"{case}\n{part['rate']:.2g} a unit of cost", fontsize=7.5)
        axis.set_yticks(range(len(shown)), shown, fontsize=7.5)
        axis.tick_params(axis="x", labelsize=7)
        axis.xaxis.set_minor_formatter(NullFormatter())
    for axis in axes[-rates:]:
        axis.set_xlabel("cost-adjusted regret, ± 2 s.e.", fontsize=8)
    figure.legend(loc="outside upper center", ncols=len(ACQUISITIONS))
    return figure


ARTEFACTS = (
    Artefact(
        "stopping-figure-1",
        "PBGI with its own stopping rule matches or beats every other pair of acquisition and rule",
        in_both_modes(_compute, DIFFERS),
        _table,
        _verdict,
        _draw,
        seeds=SEEDS,
        appendix=_draw_panels,
    ),
)
