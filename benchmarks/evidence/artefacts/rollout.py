"""The experiments of "A Nonmyopic Approach to Cost-Constrained Bayesian Optimization", rerun.

All methods start from the same five uniform points, and learn costs with the log-GP, as in the
paper; the sensors' cost is known. The toy, the trees of section 6.4 and the weather imitate the
paper's (benchmarks/problems/lookahead.py). Figure 4 is run as printed and with the optimum at
the most expensive point, as its text says: as printed, the most expensive point has the value 0
and the lowest value, -7.66, is on a ring of medium cost. The expensive optimum moves with the seed,
since in the middle of the space any policy that starts there would find it at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.artefacts.artefact import (
    Artefact,
    Json,
    Settings,
    colour,
    grid,
    markdown,
)
from benchmarks.evidence.artefacts.curves import (
    SHARES,
    by_method,
    clock_and_values,
    curves,
    draw_median,
    middle,
    numbers,
    plain,
    quartiles,
)
from benchmarks.evidence.artefacts.printed import NoRuns, carried_out, in_both_modes
from benchmarks.evidence.replay import MOST, Job, Run
from benchmarks.problems import load, recorded
from benchmarks.problems.lookahead import TIMES
from benchmarks.problems.tables import NoData

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

MYOPIC = ("EI", "EIpu")
AHEAD = ("rollout_2", "rollout_4")
METHODS = (*MYOPIC, *AHEAD)
SEEDS = 50
SUITE = "rollout"
PRINTED = 150.0  # the budget of figure 4, in its units of cost
MEAN_COSTS = 30.0  # the budget on recordings,
FEW_COSTS = 13.0  # and elsewhere: five for the start, and a few steps after it, as in figure 3
FIGURE_4 = ("synthetic/cmdp", "moved/dear-optimum")
DIFFERS = (
    "The toy, the trees and the sensors imitate the paper's; a learnt cost enters with its mean; "
    "the surrogate and its search are Farthing's."
)
FIGURE_5 = ("carbo/knn-w2a", "carbo/dt-w2a", "carbo/rf-w2a", "sensors/wind-1969")
SENSITIVITY = tuple(f"lookahead/depth-{k}" for k in TIMES)
TOY = ("lookahead/toy",)
REACHED = -1.2  # of the toy: only in the deep well
COLOURS = {"EI": "EI", "EIpu": "EIpu", "rollout_2": "cooling", "rollout_4": "CArBO"}


def budget_of(problem: str, seed: int, settings: Settings) -> float:
    """In typical costs: the paper's where it is printed, else a multiple of the mean cost."""
    box = load(problem, settings.data, seed=seed)
    mean_costs = MEAN_COSTS if problem.startswith("carbo/") else FEW_COSTS
    spend = PRINTED if problem in FIGURE_4 else mean_costs * box.mean_cost
    return float(f"{spend / box.typical_cost:.6g}")


def replays(names: Sequence[str], settings: Settings) -> dict[Job, Run]:
    """Runs of all methods on the available problems, of the seeds that all methods have run."""
    chosen = [
        name for name in (names[:1] if settings.quick else names) if _is_there(name, settings)
    ]
    jobs = [
        Job(name, method, seed, budget_of(name, seed, settings), most=8 if settings.quick else MOST)
        for seed in range(settings.count(SEEDS, quick=1))
        for name in chosen
        for method in METHODS
    ]
    runs = carried_out(jobs, f"{SUITE}-quick" if settings.quick else SUITE, settings)
    if not runs:
        raise NoRuns
    whole = {(j.problem, j.seed, j.method) for j, run in runs.items() if run.error is None}
    return {
        job: run
        for job, run in runs.items()
        if all((job.problem, job.seed, method) in whole for method in METHODS)
    }


def _is_there(name: str, settings: Settings) -> bool:
    if name.startswith("carbo/"):
        return name in recorded.names("carbo")
    try:
        load(name, settings.data)
    except NoData:
        return False
    return True


def summary(names: Sequence[str], settings: Settings) -> Json:
    """Of each problem and method: the curve of the best so far, finals, evaluations, costs."""
    runs = replays(names, settings)
    found: Json = {}
    for name in dict.fromkeys(job.problem for job in runs):
        found[name] = {m: _method(part) for m, part in by_method(runs, name).items()}
    return {
        "problems": found,
        "missing": [name for name in names if name not in found],
        "limits": {job.problem: run.limit for job, run in runs.items()},
        "seeds": {name: len({j.seed for j in runs if j.problem == name}) for name in found},
    }


def _method(runs: Sequence[Run]) -> Json:
    lines = curves(runs)
    costs = np.concatenate([clock_and_values(run)[0] for run in runs])
    return {
        "curve": plain(middle(lines)),
        "quartiles": quartiles(lines),
        "finals": plain(lines[:, -1]),
        "evaluations": float(np.median([len(run.costs) for run in runs])),
        "cost": float(np.median(costs)),
        "thinking": float(np.median(np.concatenate([run.overhead for run in runs]))),
    }


# ── tables, verdicts, pictures ─────────────────────────────────────────────────────────────────


def _short(name: str) -> str:
    return name.partition("/")[2].replace("-", " ")


def _final(part: Json) -> float:
    return float(np.median(numbers(part["finals"])))


def _table(kept: Json) -> str:
    rows = []
    for name, by in kept["problems"].items():
        best = min(_final(part) for part in by.values())
        for method, part in by.items():
            spread = np.percentile(numbers(part["finals"]), [25, 75])
            text = f"{_final(part):.4g} ({spread[0]:.4g} to {spread[1]:.4g})"
            rows.append(
                [
                    _short(name),
                    method,
                    f"**{text}**" if _final(part) <= best else text,
                    part["evaluations"],
                    part["cost"],
                    1000 * part["thinking"],
                ]
            )
    header = ("problem", "method", "median final (quartiles)", "evaluations", "median cost")
    seeds = ", ".join(f"{_short(name)} {count}" for name, count in kept["seeds"].items())
    text = f"Seeds so far: {seeds or 'none'}."
    if kept["missing"]:
        text += f" Data missing: {', '.join(kept['missing'])}."
    return text + "\n\n" + markdown((*header, "ms per suggestion"), rows)


def wins(by: Mapping[str, Json], one: str, other: str) -> float:
    """Share of the seeds in which one method ends lower than another, a tie being half."""
    mine, theirs = numbers(by[one]["finals"]), numbers(by[other]["finals"])
    return float(np.mean((mine < theirs) + 0.5 * (mine == theirs)))


def _order(by: Mapping[str, Json]) -> str:
    ranked = sorted(by, key=lambda method: _final(by[method]))
    return ", ".join(f"{method} ({_final(by[method]):.4g})" for method in ranked)


def _compared(by: Mapping[str, Json]) -> str:
    """The better rollout against the better myopic policy."""
    ahead = min(AHEAD, key=lambda method: _final(by[method]))
    rival = min(MYOPIC, key=lambda method: _final(by[method]))
    return f"{ahead} ends below {rival} in {100 * wins(by, ahead, rival):.0f} % of the seeds"


def rollout_is_lowest(by: Mapping[str, Json]) -> bool:
    """Whether a rollout has the lowest median final value of a problem."""
    return min(by, key=lambda method: _final(by[method])) in AHEAD


def _verdict(kept: Json, *, claim: str) -> str:
    """Whether a rollout has the lowest median on each problem."""
    if not kept["problems"]:
        return f"Not yet run: {', '.join(kept['missing'])}."
    parts, held = [], 0
    for name, by in kept["problems"].items():
        held += rollout_is_lowest(by)
        parts.append(f"{_short(name)}: {_order(by)}; {_compared(by)}")
    few = min(kept["seeds"].values())
    doubt = "" if few >= SEEDS else f" With {few} of {SEEDS} seeds this is no more than a hint."
    outcome = f"{claim}; this holds on {held} of {len(parts)} problems"
    return f"{outcome}. {'. '.join(parts)}.{doubt}"


def _toy_verdict(kept: Json) -> str:
    if not kept["problems"]:
        return "Not yet run: lookahead/toy."
    (by,) = kept["problems"].values()
    shares = {m: float(np.mean(numbers(part["finals"]) < REACHED)) for m, part in by.items()}
    reached = ", ".join(f"{method} in {100 * share:.0f} %" for method, share in shares.items())
    better = max(shares[m] for m in AHEAD) > max(shares[m] for m in MYOPIC)
    answer = "more often" if better else "no more often"
    few = min(kept["seeds"].values())
    doubt = "" if few >= SEEDS else f" With {few} of {SEEDS} seeds this is no more than a hint."
    found = f"Rollout finds the deep, expensive well {answer} than the myopic policies"
    return f"{found}: {reached} of the runs.{doubt}"


def _draw(kept: Json) -> Figure:
    figure, axes = grid(len(kept["problems"]), 2, width=3.9, height=2.7)
    for axis, (name, by) in zip(axes, kept["problems"].items(), strict=True):
        for method, part in by.items():
            style = {"color": colour(COLOURS[method]), "label": method}
            draw_median(axis, 100 * SHARES, part["curve"], part["quartiles"], **style)
        axis.set(title=f"{_short(name)} ({kept['seeds'][name]} seeds)", xlabel="% of the budget")
    axes[0].set_ylabel("median best value")
    axes[-1].legend()
    return figure


def _artefact(name: str, claim: str, problems: Sequence[str], **parts: Any) -> Artefact:
    says = partial(_verdict, claim="The claim is that a rollout ends lowest")
    compute = in_both_modes(partial(summary, problems), DIFFERS)
    made = Artefact(name, claim, compute, _table, says, _draw, SEEDS)
    return replace(made, **parts)


ARTEFACTS = (
    _artefact(
        "rollout-figure-3",
        "a myopic policy spends the budget before it reaches the expensive minimum (a similar toy)",
        TOY,
        verdict=_toy_verdict,
    ),
    _artefact(
        "rollout-figure-4",
        "rollout with horizons 2 and 4 beats EI and EIpu where the optimum is expensive",
        FIGURE_4,
    ),
    _artefact(
        "rollout-figure-5",
        "the same for KNN, tree and forest on w2a and for moving sensors (similar ones)",
        FIGURE_5,
    ),
    _artefact(
        "rollout-sensitivity",
        "EIpu depends on whether the best depth is expensive, medium or cheap; rollout less",
        SENSITIVITY,
    ),
)
