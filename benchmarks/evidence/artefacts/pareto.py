"""The experiments of "Pareto-efficient acquisition functions for cost-aware Bayesian optimization".

Twelve problems: XGBoost (seven parameters) on twelve data sets, each with one of eight pipelines,
recorded by benchmarks/evidence/recorder.py and made continuous by a surrogate; the paper has 144. A
run has 100 evaluations and no other limit. All methods start from the same five uniform points.

    EI_alpha   argmax EI / c^alpha; alpha = 0 is EI and alpha = 1 is EIpu
    CEI        argmin c  subject to  EI >= (1 - slack) max EI; the paper's lambda is our slack

The paper's cost model is linear; `pareto-figure-k-linear` uses one. The figures without this
suffix use the log-GP, farthing's default.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence import measures
from benchmarks.evidence.artefacts.artefact import (
    RESULTS,
    Artefact,
    Json,
    Settings,
    colour,
    grid,
    markdown,
)
from benchmarks.evidence.artefacts.curves import clock_and_values, numbers, plain, recorded_errors
from benchmarks.evidence.artefacts.printed import NoRuns, carried_out, in_both_modes
from benchmarks.evidence.replay import Job, Run
from benchmarks.methods import Ours
from benchmarks.problems import load, recorded
from benchmarks.problems.problem import Evaluation
from farthing.acquisition.belief import Belief, believe
from farthing.acquisition.pareto import front, implied_alpha, improvement_split, persistence
from farthing.acquisition.scores import cheapness, log_ei_per_cost, maximise_score
from farthing.acquisition.search import sobol
from farthing.cost import LogGP
from farthing.policies import ContextualEI

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

ALPHAS = {
    "EI": 0.0,
    **{f"EI_{alpha}": alpha for alpha in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)},
    "EIpu": 1.0,
}
SLACKS = {f"CEI_{slack}": slack for slack in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)}
DIFFERS = (
    "Twelve recordings of XGBoost, made continuous by a surrogate, stand for the paper's 144 "
    "problems; the surrogate of EI and its search are Farthing's."
)
MULTIPLES = (1, 2, 5, 10, 20)  # of the minimal budget
SEEDS = 5
SUITE = "xgboost"
EVALUATIONS = 100
NO_LIMIT = 1e9  # typical costs: more than any run can spend

CONTROL = "EI, another seed"
FEW = 3  # problems of two seeds that a control needs, and pairs that a figure needs

GOAL_LOSS, GOAL_GAIN = 1.0, 50.0  # percent: EI's accuracy within 1 % for at most half of its cost

WATCHED = ("xgboost-a1a", "xgboost-a3a-s", "xgboost-splice-h")  # the data sets of figures 1 and 7
POINTS = 2_048  # of the Sobol sample on which a front is computed
SQUARES = (0.0, 0.1, 0.2, 0.5, 1.0)  # exponents shown on a front
PEAKS = 5  # local maxima taken of each
LADDER = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # exponents whose maximisers outline a front


def problems(settings: Settings) -> list[str]:
    """Our XGBoost recordings."""
    names = recorded.names("xgboost")
    return names[:1] if settings.quick else names


def watched(settings: Settings) -> list[str]:
    """The problems of figures 1 and 7."""
    return [name for name in problems(settings) if name.split("/")[1] in WATCHED]


def _evaluations(settings: Settings) -> int:
    return 12 if settings.quick else EVALUATIONS


def replays(methods: Sequence[str], settings: Settings, cost: str = "") -> dict[Job, Run]:
    """Runs of these methods on every problem, with the same number of evaluations each.

    Those of another cost model go by the names of the methods without it. A problem and seed that
    some method has not run is left out.
    """
    tail = f"+{cost}" if cost else ""
    jobs = [
        Job(problem, f"{method}{tail}", seed, budget=NO_LIMIT, most=_evaluations(settings))
        for seed in range(settings.count(SEEDS))
        for problem in problems(settings)
        for method in methods
    ]
    suite = f"{SUITE}-quick" if settings.quick else SUITE
    runs = carried_out(jobs, suite, settings)
    if not runs:
        raise NoRuns
    there = Counter((job.problem, job.seed) for job in runs)
    return {
        replace(job, method=job.method.removesuffix(tail)): run
        for job, run in runs.items()
        if there[job.problem, job.seed] == len(methods)
    }


Pairs = dict[str, list[dict[str, Run]]]  # problem -> for each seed {method: run}


def side_by_side(runs: Mapping[Job, Run]) -> Pairs:
    """The runs of each problem and seed; if one of them is incomplete, all are left out."""
    found: dict[tuple[str, int], dict[str, Run]] = {}
    for job, run in runs.items():
        found.setdefault((job.problem, job.seed), {})[job.method] = run
    pairs: Pairs = {}
    for (problem, _), by_method in found.items():
        if all(len(run.costs) == run.job.most for run in by_method.values()):
            pairs.setdefault(problem, []).append(by_method)
    return pairs


def _about(pairs: Pairs, settings: Settings, cost: str) -> Json:
    """The facts in the note below every table."""
    return {
        "r2": recorded_errors(list(pairs)),
        "pairs": sum(map(len, pairs.values())),
        "planned": settings.count(SEEDS) * len(problems(settings)),
        "evaluations": _evaluations(settings),
        "cost_model": cost or "log-GP",
    }


def _footnote(kept: Json) -> str:
    """Problems, seeds and the quality of the surrogates."""
    errors = np.array(list(kept["r2"].values()))
    return (
        f"{kept['pairs']} of {kept['planned']} pairs of problem and seed, which every method has "
        f"run, on {len(errors)} problems; {kept['evaluations']} evaluations a run; the "
        f"{kept['cost_model']} cost model; surrogates' cross-validated R² of ln error "
        f"{errors[:, 0].min():.2f} to {errors[:, 0].max():.2f}, of ln cost "
        f"{errors[:, 1].min():.2f} to {errors[:, 1].max():.2f}."
    )


def _enough(kept: Json) -> bool:
    """Whether there are enough pairs: three, or all of a smaller plan."""
    return bool(kept["pairs"] >= max(1, min(FEW, kept["planned"])))


def _if_run(say: Callable[[Json], str]) -> Callable[[Json], str]:
    """A table or verdict if there are enough pairs."""
    return lambda kept: (
        say(kept)
        if _enough(kept)
        else f"Not yet run: {kept['pairs']} of {kept['planned']} pairs of problem and seed have "
        "every method."
    )


def total(run: Run) -> float:
    """The total cost of a run."""
    return float(np.sum(run.costs))


def final(run: Run) -> float:
    """The best value of a run."""
    return float(np.nanmin(clock_and_values(run)[1]))


def _short(problem: str) -> str:
    return problem.split("/")[1].removeprefix("xgboost-")


def _label(method: str) -> str:
    """EI, EIpu, alpha = 0.2, CEI 0.3 or the control."""
    name, _, number = method.partition("_")
    return method if not number else f"CEI {number}" if name == "CEI" else f"alpha = {number}"


# ── figures 3 and 5, left: accuracy against time ───────────────────────────────────────────────


def summary(groups: Sequence[Sequence[float] | Array]) -> Json:
    """Mean and median over problems and seeds, with 95 % intervals.

    `groups` has one list of seeds per problem. Problems are drawn with replacement, then seeds
    within each problem drawn, and both statistics are taken over all that was drawn.
    """
    sizes = np.array([len(group) for group in groups])
    table = np.full((len(groups), sizes.max()), np.nan)
    for row, group in zip(table, groups, strict=True):
        row[: len(group)] = group
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(groups), size=(measures.DRAWS, len(groups), 1))
    seed = (rng.random((*drawn.shape[:2], sizes.max())) * sizes[drawn]).astype(np.intp)
    # A problem with fewer seeds than others has as few in every draw.
    missing = np.arange(sizes.max()) >= sizes[drawn]
    pools = np.where(missing, np.nan, table[drawn, seed]).reshape(measures.DRAWS, -1)
    return {
        name: plain(
            np.array([statistic(table), *np.percentile(statistic(pools, axis=1), [2.5, 97.5])])
        )
        for name, statistic in (("mean", np.nanmean), ("median", np.nanmedian))
    }


def trade_off(pairs: Pairs, method: str) -> Json:
    """Time gain and performance loss against EI's run of the same problem and seed, percent.

    gain = 100 (C_EI - C) / C_EI,   loss = 100 (y - y_EI) / |y_EI|;
    reach: what the method paid to come within 1 % of EI's final value, percent of what EI paid for
    that. CONTROL is EI's run of another seed, on the problems that have one.
    """
    gain, loss, reach = {}, {}, []
    for problem, seeds in pairs.items():
        if method == CONTROL:
            others = measures.another_seed([by["EI"] for by in seeds])
            ei, ours = [one for one, _ in others], [other for _, other in others]
        else:
            ours, ei = [by[method] for by in seeds], [by["EI"] for by in seeds]
        if not ours:
            continue
        gain[problem] = plain(measures.time_gain([*map(total, ours)], [*map(total, ei)]))
        loss[problem] = plain(measures.performance_loss([*map(final, ours)], [*map(final, ei)]))
        for run, other in zip(ours, ei, strict=True):
            target = final(other) + 0.01 * GOAL_LOSS * abs(final(other))
            paid, own = (measures.cost_to_reach(*clock_and_values(r), target) for r in (run, other))
            reach.append(100.0 * paid / own)
    return {
        "gain": summary(list(gain.values())),
        "loss": summary(list(loss.values())),
        "reach": plain(np.median(reach))[0],
        "pairs": len(reach),
    }


def _trade_offs(methods: Sequence[str], settings: Settings, cost: str = "") -> Json:
    pairs = side_by_side(replays(methods, settings, cost))
    twice = {problem: seeds for problem, seeds in pairs.items() if len(seeds) > 1}
    shown = (*methods, CONTROL) if len(twice) >= FEW else methods
    return {
        **_about(pairs, settings, cost),
        "methods": {method: trade_off(pairs, method) for method in shown} if pairs else {},
    }


def _interval(cells: Sequence[float | None]) -> str:
    middle, low, high = numbers(cells)
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"


def _trade_off_table(kept: Json) -> str:
    rows = [
        [
            _label(method),
            *(_interval(part[what][of]) for what in ("gain", "loss") for of in ("mean", "median")),
            "never" if part["reach"] is None else f"{part['reach']:.0f}",
            part["pairs"],
        ]
        for method, part in kept["methods"].items()
    ]
    header = (
        "method",
        "time gain, mean (%)",
        "median",
        "performance loss, mean (%)",
        "median",
        "median time to within 1 % of EI's final value, % of EI's own time to that (never: not in "
        "half of the runs)",
        "pairs",
    )
    control = (
        f" {CONTROL} is the control: the gain and loss by chance."
        if CONTROL in kept["methods"]
        else f" The control, EI against another seed of itself, needs two seeds of {FEW} problems: "
        "not yet run."
    )
    return markdown(header, rows) + "\n\n" + _footnote(kept) + control


_WHAT = ("gain", "loss")


def _of(kept: Json, method: str, what: str, of: str = "median") -> float:
    return float(kept["methods"][method][what][of][0])


def _figure_3_verdict(kept: Json) -> str:
    said = []
    for method in ("EI_0.01", "EI_0.1", "EIpu"):
        (gain, loss), (gain_of_half, loss_of_half) = (
            [_of(kept, method, what, of) for what in _WHAT] for of in ("mean", "median")
        )
        said.append(
            f"alpha = {ALPHAS[method]:g} gains {gain:.0f} % of EI's time for a loss of {loss:.1f} "
            f"% in the mean ({gain_of_half:.0f} % for {loss_of_half:.1f} % in the median)"
        )
    return (
        "; ".join(said)
        + ". The paper's means are 20 % for nothing and 50 % for 1 % with the first "
        "two, and a severe loss with alpha = 1, EIpu."
    )


def goal(kept: Json) -> str:
    """Whether CEI reaches EI's accuracy within 1 % for at most half of its cost, in the median.

    Undecided where the medians do and their 95 % intervals also hold what does not.
    """
    close = [m for m in kept["methods"] if m in SLACKS and _of(kept, m, "loss") <= GOAL_LOSS]
    reached = [m for m in close if _of(kept, m, "gain") >= GOAL_GAIN]
    question = f"CEI within {GOAL_LOSS:g} % of EI for at most half of its cost (medians)"
    if reached:
        how = [
            f"{SLACKS[m]} ({_of(kept, m, 'loss'):+.1f} % for {_of(kept, m, 'gain'):.0f} % less)"
            for m in reached
        ]
        sure = any(
            kept["methods"][m]["gain"]["median"][1] >= GOAL_GAIN
            and kept["methods"][m]["loss"]["median"][2] <= GOAL_LOSS
            for m in reached
        )
        said = "reached" if sure else "undecided; the medians themselves reach it"
        return f"{question}: {said} with slack {', '.join(how)}."
    if not close:
        return f"{question}: not reached; no slack is within {GOAL_LOSS:g} %."
    best = max(close, key=lambda m: _of(kept, m, "gain"))
    return (
        f"{question}: not reached with any slack; of those within {GOAL_LOSS:g} % slack "
        f"{SLACKS[best]} saves most, {_of(kept, best, 'gain'):.0f} %."
    )


def _draw_trade_off(axes: Sequence[Axes], kept: Json) -> None:
    """Gain and loss of each method, one line each: the mean with its interval, and the median."""
    shown = [m for m in kept["methods"] if m != "EI"]
    for axis, what, label in zip(
        axes, _WHAT, ("time gain over EI (%)", "performance loss against EI (%)"), strict=True
    ):
        for place, method in enumerate(shown):
            part = kept["methods"][method][what]
            hue = colour("EI") if method in SLACKS else colour("CArBO")
            hue = colour("random") if method == CONTROL else hue
            middle, low, high = numbers(part["mean"])
            axis.plot([low, high], [place, place], color=hue, lw=1.2)
            axis.plot(middle, place, "o", color=hue, ms=5)
            axis.plot(numbers(part["median"])[0], place, "|", color="black", ms=10, mew=1.5)
        axis.axvline(0, color="black", lw=0.6)
        axis.set(xlabel=label, ylim=(len(shown) - 0.5, -0.5))
        axis.set_yticks(range(len(shown)), [""] * len(shown))
    axes[0].set_yticks(range(len(shown)), [_label(m) for m in shown])
    axes[0].plot([], [], "o-", color=colour("CArBO"), label="mean, 95 % interval")
    axes[0].plot([], [], "|", color="black", ms=10, label="median")
    axes[0].legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)


def _height(kept: Json) -> float:
    return 0.22 * len(kept["methods"]) + 1.3


def _draw_figure_3(kept: Json) -> Figure:
    figure, axes = grid(2, width=3.9, height=_height(kept))
    _draw_trade_off(axes, kept)
    return figure


# ── figures 4 and 6: the best use of a given time ──────────────────────────────────────────────


def rank_table(pairs: Pairs, methods: Sequence[str]) -> Json:
    """Mean ranks of the best value at multiples of the minimal budget, ties averaged.

    The minimal budget of a problem and seed is the shortest time in which any alpha made all its
    evaluations. A method that has made them all keeps its last value from then on.
    """
    ranks = [np.array([_ranks(by, methods) for by in seeds]) for seeds in pairs.values()]
    ended = [_ended(by, methods) for seeds in pairs.values() for by in seeds]
    rows: Json = {}
    for j, method in enumerate(methods):
        at = [summary([seeds[:, i, j] for seeds in ranks]) for i in range(len(MULTIPLES))]
        columns = zip(*(part["mean"] for part in at), strict=True)
        rows[method] = dict(zip(("mean", "low", "high"), map(list, columns), strict=True))
    return {"ranks": rows, "ended": plain(np.mean(ended, axis=0))}


def _budgets(by_method: Mapping[str, Run]) -> Array:
    return min(total(by_method[m]) for m in ALPHAS) * np.array(MULTIPLES)


def _ranks(by_method: Mapping[str, Run], methods: Sequence[str]) -> Array:
    """(multiples, methods)."""
    at = _budgets(by_method)
    best = [measures.best_at(*clock_and_values(by_method[m]), at) for m in methods]
    return measures.ranks(np.array(best).T)


def _ended(by_method: Mapping[str, Run], methods: Sequence[str]) -> Array:
    """(multiples,) share of the methods that have made all their evaluations."""
    totals = np.array([total(by_method[m]) for m in methods])
    return np.asarray((totals[:, None] <= _budgets(by_method) * (1 + 1e-12)).mean(axis=0))


def _allocation(methods: Sequence[str], settings: Settings, cost: str = "") -> Json:
    wanted = [*ALPHAS, *(m for m in methods if m not in ALPHAS)]
    pairs = side_by_side(replays(wanted, settings, cost))
    return {**_about(pairs, settings, cost), **(rank_table(pairs, methods) if pairs else {})}


def _allocation_table(kept: Json) -> str:
    rows: list[list[object]] = []
    best = [min(part["mean"][i] for part in kept["ranks"].values()) for i in range(len(MULTIPLES))]
    for method, part in kept["ranks"].items():
        cells = []
        for mean, low, high, least in zip(
            part["mean"], part["low"], part["high"], best, strict=True
        ):
            text = f"{mean:.2f}"
            cells.append((f"**{text}**" if mean <= least else text) + f" [{low:.2f}, {high:.2f}]")
        rows.append([_label(method), *cells])
    rows.append(["*runs that had ended*", *(f"*{100 * share:.0f} %*" for share in kept["ended"])])
    note = (
        f"Mean rank among {len(kept['ranks'])} methods, lower is better, at multiples of the "
        "minimal budget, the shortest time in which any alpha made all its evaluations. The "
        "paper's runs go on until the end of the time. Here, runs end with the last evaluation and "
        "keep its value, which is a handicap for cheap methods at the larger multiples. "
    )
    header = ("method", *(f"{m} x" for m in MULTIPLES))
    return markdown(header, rows) + "\n\n" + note + _footnote(kept)


def _rank(kept: Json, method: str) -> Array:
    return numbers(kept["ranks"][method]["mean"])


def _first(kept: Json) -> list[str]:
    """The method with the best mean rank at each budget."""
    return [min(kept["ranks"], key=lambda m, i=i: _rank(kept, m)[i]) for i in range(len(MULTIPLES))]


def between_wins(kept: Json) -> int:
    """The number of budgets at which an exponent between those of EI and EIpu is best."""
    return sum(m not in ("EI", "EIpu") for m in _first(kept))


def _figure_4_verdict(kept: Json) -> str:
    first, between = _first(kept), between_wins(kept)
    said = ", ".join(f"{_label(m)} at {k} x" for m, k in zip(first, MULTIPLES, strict=True))
    return (
        f"Best mean rank: {said}. An exponent between those of EI and EIpu is best at {between} of "
        f"{len(MULTIPLES)} budgets; the paper finds a bell shape with the optimum around 0.2."
    )


def slack_wins(kept: Json) -> dict[str, int]:
    """By slack of CEI: the number of budgets at which it ranks before both EI and EIpu."""
    rivals = np.minimum(_rank(kept, "EI"), _rank(kept, "EIpu"))
    return {m: int((_rank(kept, m) < rivals).sum()) for m in kept["ranks"] if m in SLACKS}


def _figure_6_verdict(kept: Json) -> str:
    wins = slack_wins(kept)
    always = [f"{SLACKS[m]:g}" for m, count in wins.items() if count == len(MULTIPLES)]
    counts = ", ".join(f"{SLACKS[m]:g}: {count}" for m, count in wins.items())
    return (
        f"CEI ranks before both EI and EIpu at every budget with slack "
        f"{', '.join(always) or '(none)'} (budgets won of {len(MULTIPLES)}, by slack: {counts}); "
        "the paper says all but the extreme ones do, at every budget."
    )


def _draw_allocation(kept: Json) -> Figure:
    methods = list(kept["ranks"])
    figure, axes = grid(len(MULTIPLES), height=0.22 * len(methods) + 1.0)
    place = np.arange(len(methods))
    for i, (axis, multiple) in enumerate(zip(axes, MULTIPLES, strict=True)):
        for y, method in enumerate(methods):
            part = kept["ranks"][method]
            hue = colour(method) if method in ("EI", "EIpu") else colour("CArBO")
            axis.plot([part["low"][i], part["high"][i]], [y, y], color=hue, lw=1.2)
            axis.plot(part["mean"][i], y, "o", color=hue)
        axis.set(title=f"{100 * multiple} % of the\nminimal budget", xlabel="mean rank")
        axis.set_yticks(place, [_label(m) for m in methods] if i % 3 == 0 else [""] * len(methods))
        axis.invert_yaxis()
    return figure


# ── computing fronts ───────────────────────────────────────────────────────────────────────────


class Moment(NamedTuple):
    """An iteration with a model: its number, the belief before it and the chosen point."""

    number: int
    belief: Belief
    x: Array


def moments(problem: str, method: str, seed: int, count: int) -> Iterator[Moment]:
    """The iterations of a run, the same as in its replay."""
    box = load(problem)
    optimiser = Ours(method, box.space, budget=NO_LIMIT * box.typical_cost, seed=seed, clock=False)
    for number in range(count):
        known = optimiser.optimizer.history, optimiser.optimizer.ledger
        belief = believe(box.space, *known, learners={"cost": LogGP()}, seed=seed)
        params = optimiser.ask()
        assert params is not None, "there is no limit"
        if belief.objective is not None:
            yield Moment(number, belief, optimiser.trial.x)
        optimiser.tell(params, Evaluation(*box.at(params)))


def sample(belief: Belief) -> Array:
    """The points over which fronts are compared: always the same ones of a space."""
    return belief.space.spread(sobol(POINTS, belief.space.d))


def scored(belief: Belief, X: Array) -> tuple[Array, Array]:
    """ln EI and ln E[c] of the rows of X."""
    outlook = belief.outlook(X)
    return log_ei_per_cost(0.0)(outlook).score, -cheapness(outlook).score


def _line(log_ei: Array, log_cost: Array, rows: Any) -> Json:
    return {"cost": plain(np.exp(log_cost[rows])), "log10_ei": plain(log_ei[rows] / np.log(10))}


def _draw_line(axis: Axes, line: Json, style: str, **options: Any) -> None:
    axis.plot(numbers(line["cost"]), numbers(line["log10_ei"]), style, **options)


def _frame_front(axis: Axes, part: Json, title: str) -> None:
    """Log scales; EI from the best of both fronts down to a millionth of it, or their lowest."""
    from matplotlib.ticker import LogLocator, NullFormatter

    lines = [part[name] for name in ("front", "before")]
    cost, ei = (np.concatenate([numbers(line[w]) for line in lines]) for w in ("cost", "log10_ei"))
    axis.set(title=title, xscale="log")
    axis.set_ylim(max(ei.min(), ei.max() - 6) - 0.2, ei.max() + 0.4)
    axis.set_xlim(cost.min() * 0.9, max(cost.max() * 1.1, cost.min() * 3))  # space for two ticks
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


# ── figure 1: the front at two moments ─────────────────────────────────────────────────────────


def _front_points(belief: Belief, number: int) -> Array:
    """What outlines a front, and CEI's choices for every slack, which are on it."""
    rng = np.random.default_rng(number)
    chosen = [ContextualEI(slack).propose(belief, rng).x for slack in SLACKS.values()]
    return np.vstack([outlined(belief, number), *(x for x in chosen if x is not None)])


def _fronts(settings: Settings) -> Json:
    shown = [name for name in watched(settings) if "a3a" not in name]
    times = (8, 11) if settings.quick else (20, 60)
    found: Json = {}
    for problem in shown:
        before: Json = {}
        for number, belief, _ in moments(problem, "EI", 0, max(times) + 1):
            if number not in times and number + 1 not in times:
                continue
            log_ei, log_cost = scored(belief, _front_points(belief, number))
            line = _line(log_ei, log_cost, front(log_ei, log_cost))
            if number in times:
                part = {"front": line, "before": before, **_choices(log_ei, log_cost)}
                found.setdefault(problem, {})[str(number)] = part
            before = line
    return {"fronts": found, "r2": recorded_errors(shown), "points": POINTS}


def _choices(log_ei: Array, log_cost: Array) -> Json:
    """The maximiser of EI_alpha for some alpha, and what the cheapest with 90 % of the EI costs."""
    best = {alpha: int(np.argmax(log_ei - alpha * log_cost)) for alpha in SQUARES}
    of_ei = best[0.0]
    return {
        "squares": {
            str(alpha): {
                **_line(log_ei, log_cost, [i]),
                "share_of_ei": float(np.exp(log_ei[i] - log_ei[of_ei])),
                "share_of_cost": float(np.exp(log_cost[i] - log_cost[of_ei])),
            }
            for alpha, i in best.items()
        },
        "plateau": float(
            np.exp(log_cost[log_ei >= log_ei[of_ei] + np.log(0.9)].min() - log_cost[of_ei])
        ),
    }


def _front_table(kept: Json) -> str:
    rows = []
    for problem, at in kept["fronts"].items():
        for number, part in at.items():
            square = part["squares"]
            cells = [
                f"{100 * square[a]['share_of_ei']:.0f} / {100 * square[a]['share_of_cost']:.0f}"
                for a in map(str, SQUARES[1:])
            ]
            rows.append([_short(problem), number, f"{100 * part['plateau']:.0f}", *cells])
    header = (
        *(
            "problem",
            "iteration",
            "cost of the cheapest with 90 % of EI (%)",
        ),
        *(f"alpha = {a:g}: EI / cost (%)" for a in SQUARES[1:]),
    )
    note = (
        f"EI and cost in percent of those of EI's choice, among {kept['points']:,} Sobol points "
        "and the choices of EI_alpha and CEI, under EI's belief, seed 0; surrogates' R² of ln "
        "error and ln cost: "
        + ", ".join(f"{_short(p)} {e:.2f}, {c:.2f}" for p, (e, c) in kept["r2"].items())
    )
    return markdown(header, rows) + "\n\n" + note + "."


def _front_verdict(kept: Json) -> str:
    parts = [part for at in kept["fronts"].values() for part in at.values()]
    pu = [part["squares"]["1.0"] for part in parts]
    return (
        f"Accepting a tenth less EI saves "
        f"{100 * (1 - np.mean([p['plateau'] for p in parts])):.0f} % of the cost of EI's "
        f"choice in the mean of {len(parts)} moments; EIpu's choice has "
        f"{100 * np.mean([s['share_of_ei'] for s in pu]):.0f} % of the EI for "
        f"{100 * np.mean([s['share_of_cost'] for s in pu]):.0f} % of the cost."
    )


def _draw_fronts(kept: Json) -> Figure:
    panels = [(p, n, part) for p, at in kept["fronts"].items() for n, part in at.items()]
    figure, axes = grid(len(panels), 2, width=3.9, height=2.8)
    sizes = np.linspace(14, 6, len(SQUARES))  # those that choose the same stay visible
    for axis, (problem, number, part) in zip(axes, panels, strict=True):
        _draw_line(axis, part["before"], "--", color="#d62728", lw=1.2, label="front at t - 1")
        _draw_line(axis, part["front"], "o-", color=colour("CArBO"), ms=4, lw=0.6, label="at t")
        for (alpha, square), hue, size in zip(
            part["squares"].items(), _hues(SQUARES), sizes, strict=True
        ):
            label = f"alpha = {float(alpha):g}"
            _draw_line(axis, square, "s", mfc="none", mec=hue, mew=1.6, ms=size, label=label)
        _frame_front(axis, part, f"{_short(problem)}, t = {number}")
        axis.set_xlabel("expected cost (s)")
    axes[0].set_ylabel("log10 EI")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=7.5, loc="outside lower center", ncols=len(handles[0]))
    return figure


def _hues(levels: Sequence[float]) -> Any:
    import matplotlib.pyplot as plt

    return plt.get_cmap("viridis")(np.linspace(0.0, 0.9, len(levels)))


# ── figure 5, right: the exponent that would have chosen the same ──────────────────────────────


def outlined(belief: Belief, number: int) -> Array:
    """The sample, and the maximisers of EI_alpha up the ladder.

    Without them CEI's choice, which was climbed to, would beat every point it is compared with.
    """
    rng = np.random.default_rng(number)
    peaks = [maximise_score(belief, log_ei_per_cost(alpha), rng).X[:PEAKS] for alpha in LADDER]
    return np.vstack([sample(belief), *peaks])


def alphas_of(method: str, problem: str, seed: int, count: int) -> list[tuple[int, float, bool]]:
    """Iteration, least-regret alpha and whether an alpha makes that very choice."""
    found = []
    for number, belief, x in moments(problem, method, seed, count):
        X = np.vstack([x[None], outlined(belief, number)])
        implied = implied_alpha(*scored(belief, X), chosen=0)
        found.append((number, float(implied.minimax), implied.supported))
    return found


def _implied(settings: Settings) -> Json:
    names, seeds = watched(settings), settings.count(2, quick=1)
    drive = partial(alphas_of, count=8 if settings.quick else 30)
    jobs = list(product(SLACKS, names, range(min(seeds, 2))))
    with ProcessPoolExecutor(settings.jobs, mp_context=get_context("fork")) as pool:
        driven = list(pool.map(drive, *zip(*jobs, strict=True)))
    found: Json = {}
    for method in SLACKS:
        runs = [run for run, (of, _, _) in zip(driven, jobs, strict=True) if of == method]
        alpha = np.array([[moment[1] for moment in run] for run in runs])
        found[method] = {
            "iteration": [moment[0] for moment in runs[0]],
            "mean": plain(alpha.mean(axis=0)),
            "median": plain(np.median(alpha, axis=0)),
            "supported": float(np.mean([moment[2] for run in runs for moment in run])),
        }
    return {"implied": found, "implied_runs": len(names) * min(seeds, 2)}


def _figure_5(settings: Settings, cost: str = "") -> Json:
    """The right panel has separate runs, with the log-GP."""
    left = _trade_offs([*ALPHAS, *SLACKS], settings, cost)
    if cost:
        return left
    if settings.more:
        return {**left, **_implied(settings)}
    kept = json.loads((RESULTS / "pareto-figure-5.json").read_text())["numbers"]
    return {**left, **{name: kept[name] for name in ("implied", "implied_runs")}}


def _thirds(cells: Sequence[float | None]) -> tuple[float, float]:
    line = numbers(cells)
    third = max(1, len(line) // 3)
    return float(np.mean(line[:third])), float(np.mean(line[-third:]))


def _figure_5_table(kept: Json) -> str:
    if "implied" not in kept:
        return _trade_off_table(kept)
    rows = []
    for method, part in kept["implied"].items():
        thirds = [f"{a:.2f}" for of in ("mean", "median") for a in _thirds(part[of])]
        rows.append([_label(method), *thirds, f"{100 * part['supported']:.0f} %"])
    header = (
        *(
            "method",
            "mean alpha, first third",
            "last third",
            "median alpha, first third",
            "last third",
        ),
        "choices that some alpha makes",
    )
    note = (
        f"Implied alpha over {kept['implied_runs']} runs: the middle of the exponents that make "
        "CEI's choice or, if none does, the exponent with the least regret for it."
    )
    return _trade_off_table(kept) + "\n\n" + markdown(header, rows) + "\n\n" + note


def _figure_5_verdict(kept: Json) -> str:
    if "implied" not in kept:
        return goal(kept)
    moves = {m: _thirds(part["median"]) for m, part in kept["implied"].items()}
    said = ", ".join(f"{SLACKS[m]:g}: {a:.2f} to {b:.2f}" for m, (a, b) in moves.items())
    return (
        goal(kept)
        + f" From the first to the last third of a run the median implied alpha goes, by "
        f"slack, {said}."
    )


def _draw_figure_5(kept: Json) -> Figure:
    count = 3 if "implied" in kept else 2
    figure, axes = grid(count, 2, width=4.0, height=max(3.0, _height(kept)))
    _draw_trade_off(axes[:2], kept)
    for axis, level in zip(axes, (GOAL_GAIN, GOAL_LOSS), strict=False):
        axis.axvline(level, color="black", lw=0.8, ls=":")  # the goal: right of one, left of other
    if "implied" not in kept:
        return figure
    right = axes[2]
    for (method, part), hue in zip(
        kept["implied"].items(), _hues(list(SLACKS.values())), strict=True
    ):
        steady = _steady(numbers(part["median"]))
        right.plot(part["iteration"], steady, color=hue, label=_label(method))
    right.set(xlabel="iteration", ylabel="median implied alpha", title="what CEI's choice implies")
    right.set_yscale("symlog", linthresh=1.0)
    right.set_yticks([0.0, 0.5, 1.0, 2.0, 5.0, 10.0], ["0", "0.5", "1", "2", "5", "10"])
    right.minorticks_off()
    right.set_ylim(bottom=0.0)
    right.legend(fontsize=7.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return figure


def _steady(line: Array, around: int = 2) -> Array:
    """Mean of each value and its neighbours, two on either side; fewer at the ends."""
    return np.array([line[max(0, i - around) : i + around + 1].mean() for i in range(len(line))])


# ── figure 7: how long a front lasts ───────────────────────────────────────────────────────────


def _persistence(settings: Settings) -> Json:
    names = watched(settings)
    shown, count = ((8, 11), 12) if settings.quick else ((10, 30, 60), 61)
    found: Json = {}
    for problem in names:
        lasts: Json = {"iteration": [], "survival": [], "jaccard": [], "global": [], "local": []}
        panels: Json = {}
        old: tuple[Any, ...] | None = None
        for number, belief, _ in moments(problem, "EI", 0, count):
            X = sample(belief)
            outlook, (log_ei, log_cost) = belief.outlook(X), scored(belief, X)
            rows = front(log_ei, log_cost)
            if old is not None:
                was, was_rows, line = old
                kept = persistence(was_rows, rows)
                because_of = improvement_split(
                    *(was.mean[:, 0], was.std, was.best),
                    *(outlook.mean[:, 0], outlook.std, outlook.best),
                )
                lasts["iteration"].append(number)
                lasts["survival"].append(kept.survival)
                lasts["jaccard"].append(kept.jaccard)
                for what, change in zip(("global", "local"), because_of, strict=True):
                    lasts[what].append(float(np.abs(change[was_rows]).mean()))
                if number in shown:
                    panels[str(number)] = {
                        "front": _line(log_ei, log_cost, rows),
                        "before": line,
                        "now": _line(log_ei, log_cost, was_rows),
                    }
            old = outlook, rows, _line(log_ei, log_cost, rows)
        found[problem] = {**lasts, "panels": panels}
    return {"persistence": found, "r2": recorded_errors(names), "points": POINTS}


def _local_shares(part: Json) -> tuple[float, float]:
    """|local| / (|global| + |local|) of the change of EI on the old front, in two ways.

    The mean of each iteration's share, and the share of the sums over all iterations, which is
    decided by the first ones, where EI is orders of magnitude larger. They need not agree.
    """
    moved, learnt = np.array(part["global"]), np.array(part["local"])
    return float(np.mean(learnt / (moved + learnt))), float(learnt.sum() / (moved + learnt).sum())


def _persistence_table(kept: Json) -> str:
    rows = []
    for problem, part in kept["persistence"].items():
        early, late = _thirds(part["survival"])
        cells = [float(np.mean(part["survival"])), early, late, float(np.mean(part["jaccard"]))]
        r2 = kept["r2"][problem]
        rows.append(
            [
                _short(problem),
                *(f"{cell:.2f}" for cell in cells),
                f"{100 * np.mean(np.array(part['global']) > 0):.0f} %",
                *(f"{100 * share:.0f} %" for share in _local_shares(part)),
                f"{r2[0]:.2f} / {r2[1]:.2f}",
            ]
        )
    header = (
        *("problem", "survival", "first third", "last third", "Jaccard"),
        *(
            "iterations with a new best",
            "local share of the change of EI, mean iteration",
            "of the sum over iterations",
        ),
        "surrogate R² error / cost",
    )
    note = (
        f"From one iteration of EI to the next, seed 0, over the same {kept['points']:,} Sobol "
        "points; the change of EI is that of the points of the old front."
    )
    return markdown(header, rows) + "\n\n" + note


def _persistence_verdict(kept: Json) -> str:
    parts = kept["persistence"].values()
    survival = np.mean([np.mean(part["survival"]) for part in parts])
    each, summed = np.mean([_local_shares(part) for part in parts], axis=0)
    if min(each, summed) > 0.5:
        side = "mainly local, as the paper says"
    elif max(each, summed) <= 0.5:
        side = "mainly global, unlike the paper"
    else:
        side = "mainly local or mainly global, depending on how it is averaged"
    return (
        f"From one iteration to the next {100 * survival:.0f} % of a front stays on it; the change "
        f"of EI is {side} ({100 * each:.0f} % local in the mean iteration, {100 * summed:.0f} % of "
        "the sum over iterations)."
    )


def _draw_persistence(kept: Json) -> Figure:
    rows = max(len(part["panels"]) for part in kept["persistence"].values()) + 1
    count = len(kept["persistence"])
    figure, panels = grid(rows * count, count, width=2.7, height=2.2)
    columns = np.array(panels).reshape(rows, count).T  # a problem is a column
    for row, (problem, part) in zip(columns, kept["persistence"].items(), strict=True):
        for axis, (number, panel) in zip(row, part["panels"].items(), strict=False):
            _draw_line(axis, panel["before"], "--", color="#d62728", lw=1.2, label="front at t - 1")
            _draw_line(axis, panel["front"], "o-", color=colour("CArBO"), ms=3, lw=1, label="at t")
            _draw_line(
                axis, panel["now"], "x", color="#2ca02c", ms=7, label="old front's points, now"
            )
            _frame_front(axis, panel, f"{_short(problem)}, t = {number}")
            axis.set_xlabel("expected cost (s)")
        row[-1].plot(part["iteration"], _steady(numbers(part["survival"])), label="survival")
        row[-1].plot(part["iteration"], _steady(numbers(part["jaccard"])), label="Jaccard")
        row[-1].set(title="of a front, smoothed", ylim=(0, 1), xlabel="iteration")
    for axis in columns[0][:-1]:
        axis.set_ylabel("log10 EI")
    columns[0][0].legend(fontsize=7)
    columns[0][-1].legend(fontsize=7.5)
    return figure


# ── all of them ────────────────────────────────────────────────────────────────────────────────


def _by_cost(cost: str) -> Iterator[Artefact]:
    """Figures 3 to 6 with one cost model."""
    tail = f"-{cost}" if cost else ""
    model = "with the paper's linear cost model" if cost else "with our log-GP cost model"
    figures: dict[int, tuple[str, Any, Any, Any, Any]] = {
        3: (
            "EI / c^0.1 saves half of EI's time for 1 % of accuracy; EIpu loses much",
            lambda settings: _trade_offs(list(ALPHAS), settings, cost),
            _trade_off_table,
            _figure_3_verdict,
            _draw_figure_3,
        ),
        4: (
            "in a given time an exponent around 0.2 finds more than EI and EIpu",
            lambda settings: _allocation(list(ALPHAS), settings, cost),
            _allocation_table,
            _figure_4_verdict,
            _draw_allocation,
        ),
        5: (
            "CEI trades accuracy for time at least as well as any fixed exponent",
            lambda settings: _figure_5(settings, cost),
            _figure_5_table,
            _figure_5_verdict,
            _draw_figure_5,
        ),
        6: (
            "in a given time CEI finds more than EI and EIpu",
            lambda settings: _allocation(["EI", "EIpu", *SLACKS], settings, cost),
            _allocation_table,
            _figure_6_verdict,
            _draw_allocation,
        ),
    }
    for number, (claim, compute, table, verdict, draw) in figures.items():
        yield Artefact(
            f"pareto-figure-{number}{tail}",
            f"{claim} ({model})",
            in_both_modes(compute, DIFFERS),
            _if_run(table),
            _if_run(verdict),
            draw,
            SEEDS,
        )


ARTEFACTS = (
    Artefact(
        "pareto-figure-1",
        "EI's choice costs much more than points with nearly as much EI; alpha moves along a front",
        _fronts,
        _front_table,
        _front_verdict,
        _draw_fronts,
    ),
    *(artefact for cost in ("", "linear") for artefact in _by_cost(cost)),
    Artefact(
        "pareto-figure-7",
        "the front changes much from one iteration to the next, by what is learnt locally",
        _persistence,
        _persistence_table,
        _persistence_verdict,
        _draw_persistence,
    ),
)
