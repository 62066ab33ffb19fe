"""Ours among themselves (`default`) and against the peers (`peers`), on the table families.

value      best so far at 25 %, 50 % and 100 % of a budget of 60 median costs
rank       per table, seed and share of the budget, ties averaged; then the mean over seeds,
           tables, families and shares, in this order: every family counts the same
interval   95 %, families drawn first, then tables and seeds within each
chosen     leave one family out: the method of the best mean rank on the other families,
           judged on the one it was not chosen on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import measures, peers
from benchmarks.artefacts.artefact import Artefact, Json, Settings, colour, markdown
from benchmarks.artefacts.curves import clock_and_values, curve, numbers, plain
from benchmarks.problems import tables
from benchmarks.replay import FOLDER, Job, Run, carry_out, kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

SHARES = np.array([0.25, 0.5, 1.0])
SEEDS = 10
COST_MODEL_SEEDS = 4
SUITE = "tables"
DEFAULT = "PBGI"  # what the Optimizer does when only a budget is given; a test holds it to that
OURS = (
    "random",
    "EI",
    "EIpu",
    "EI_0.2",
    "cooling",
    "CArBO",
    "CEI_0.3",
    "CEI_0.7",
    "PBGI",
)
COST_MODELS = (("PBGI+linear", "PBGI"), ("EIpu+linear", "EIpu"))  # each on one table a family
DRAWS = 1_000


# ── numbers ────────────────────────────────────────────────────────────────────────────────────


def _finals(runs: Mapping[Job, Run], *, thinking: bool = False) -> Json:
    """{problem: {method: {seed: [best at each share]}}}; an error ends a run, no more."""
    found: Json = {}
    for job, run in runs.items():
        line = plain(curve(run, SHARES, thinking=thinking))
        found.setdefault(job.problem, {}).setdefault(job.method, {})[str(job.seed)] = line
    return found


def _default(settings: Settings) -> Json:
    names = tables.names(most=1)[:1] if settings.quick else tables.names()
    seeds = settings.count(SEEDS)
    jobs = [
        Job(problem, method, seed, most=8 if settings.quick else 200)
        for seed in range(seeds)
        for problem in names
        for method in OURS
    ]
    jobs += [
        Job(problem, other, seed, most=8 if settings.quick else 200)
        for seed in range(min(seeds, COST_MODEL_SEEDS))
        for problem in (names[:1] if settings.quick else tables.names(most=1))
        for other, _ in COST_MODELS
    ]
    suite = f"{SUITE}-quick" if settings.quick else SUITE
    runs = carry_out(jobs, suite, processes=settings.jobs, folder=settings.data)
    return {"finals": _finals(runs), "methods": list(OURS)}


def _peers(settings: Settings) -> Json:
    """Ours are run here; the peers' runs are those that benchmarks/run_peers.py has kept."""
    most = 1 if settings.quick else 2
    names = tables.names(most=most)[: 1 if settings.quick else None]
    jobs = [
        Job(problem, method, seed, most=8 if settings.quick else 200)
        for seed in range(settings.count(SEEDS))
        for problem in names
        for method in (DEFAULT, "random")
    ]
    suite = f"{SUITE}-quick" if settings.quick else SUITE
    runs = carry_out(jobs, suite, processes=settings.jobs, folder=settings.data)
    if not settings.quick:
        for path in sorted(FOLDER.glob("peers*.jsonl*")):
            theirs = kept(path.name.partition(".")[0])
            runs |= {job: run for job, run in theirs.items() if job.problem in names}
    return {
        "finals": _finals(runs),
        "with_thinking": _finals(runs, thinking=True),
        "methods": [DEFAULT, "random", *sorted({j.method for j in runs} & set(peers.NAMES))],
        "missing": sorted(set(peers.NAMES) - {job.method for job in runs}),
        "errors": _errors(runs),
        "thinking": {
            method: float(
                np.median([t for j, r in runs.items() if j.method == method for t in r.thinking])
            )
            for method in {job.method for job, run in runs.items() if run.thinking}
        },
        "reach": _reach(runs),
    }


def _errors(runs: Mapping[Job, Run]) -> Json:
    """How many runs of a method ended in an error, and the first of them."""
    found: Json = {}
    for job, run in runs.items():
        if run.error:
            entry = found.setdefault(job.method, {"count": 0, "first": run.error})
            entry["count"] += 1
    return found


def _reach(runs: Mapping[Job, Run]) -> Json:
    """Per problem: the best peer by median final, and the share of the budget we need for that.

    Seed by seed; None where we do not get there.
    """
    found: Json = {}
    for problem in sorted({job.problem for job in runs}):
        finals: dict[str, dict[int, float]] = {}
        for job, run in runs.items():
            if job.problem == problem and job.method in peers.NAMES and run.values:
                finals.setdefault(job.method, {})[job.seed] = float(curve(run, np.ones(1))[0])
        if not finals:
            continue
        best = min(finals, key=lambda m: np.nanmedian(list(finals[m].values())))
        shares = []
        for seed, target in finals[best].items():
            ours = next(
                (
                    r
                    for j, r in runs.items()
                    if (j.problem, j.method, j.seed) == (problem, DEFAULT, seed)
                ),
                None,
            )
            if ours is not None:
                paid = measures.cost_to_reach(*clock_and_values(ours), target)
                shares.append(paid / ours.limit)
        found[problem] = {"peer": best, "shares": plain(np.array(shares))}
    return found


# ── ranks ──────────────────────────────────────────────────────────────────────────────────────


def ranks_by_table(finals: Json, methods: Sequence[str]) -> dict[str, Array]:
    """{problem: (seeds, shares, methods)} of the seeds that every one of the methods has run."""
    found = {}
    for problem, by in finals.items():
        if any(method not in by for method in methods):
            continue
        seeds = sorted(set.intersection(*(set(by[method]) for method in methods)), key=int)
        if seeds:
            values = np.array([[numbers(by[m][s]) for m in methods] for s in seeds])
            found[problem] = measures.ranks(values.transpose(0, 2, 1))
    return found


def families(ranks: Mapping[str, Array]) -> dict[str, list[Array]]:
    """The tables' ranks by family."""
    found: dict[str, list[Array]] = {}
    for problem, array in ranks.items():
        found.setdefault(problem.partition("/")[0], []).append(array)
    return found


def mean_ranks(by_family: Mapping[str, list[Array]]) -> Array:
    """(shares, methods): the mean over seeds, then tables, then families."""
    return np.asarray(
        np.mean(
            [
                np.mean([table.mean(axis=0) for table in part], axis=0)
                for part in by_family.values()
            ],
            axis=0,
        )
    )


def rank_interval(
    by_family: Mapping[str, list[Array]], *, draws: int = DRAWS
) -> tuple[Array, Array]:
    """(methods,) 95 % bounds of the mean rank; drawn are families, tables, then seeds."""
    rng = np.random.default_rng(0)
    flat = [
        [table.mean(axis=1) for table in part] for part in by_family.values()
    ]  # (seeds, methods)
    drawn = []
    for _ in range(draws):
        some = []
        for f in rng.integers(len(flat), size=len(flat)):
            part = flat[f]
            picked = [part[t] for t in rng.integers(len(part), size=len(part))]
            some.append(
                np.mean([t[rng.integers(len(t), size=len(t))].mean(axis=0) for t in picked], axis=0)
            )
        drawn.append(np.mean(some, axis=0))
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return low, high


def leave_one_out(
    by_family: Mapping[str, list[Array]], methods: Sequence[str]
) -> list[tuple[str, str, float]]:
    """For each family: what the others would choose, and its mean rank here."""
    found = []
    for family in by_family:
        others = {f: part for f, part in by_family.items() if f != family}
        if not others:
            continue
        chosen = int(np.argmin(mean_ranks(others).mean(axis=0)))
        here = mean_ranks({family: by_family[family]}).mean(axis=0)
        found.append((family, methods[chosen], float(here[chosen])))
    return found


def beats_random(finals: Json, method: str) -> dict[str, float]:
    """{family: share of (table, seed, share of the budget) won against random, ties half}."""
    found: dict[str, list[float]] = {}
    for problem, array in ranks_by_table(finals, [method, "random"]).items():
        won = (array[..., 0] < array[..., 1]) + 0.5 * (array[..., 0] == array[..., 1])
        found.setdefault(problem.partition("/")[0], []).append(float(won.mean()))
    return {family: float(np.mean(part)) for family, part in found.items()}


# ── the default ────────────────────────────────────────────────────────────────────────────────


def _choice(kept_: Json) -> dict[str, Any]:
    methods = [m for m in kept_["methods"] if any(m in by for by in kept_["finals"].values())]
    by_family = families(ranks_by_table(kept_["finals"], methods))
    mean = mean_ranks(by_family)
    low, high = rank_interval(by_family)
    return {
        "methods": methods,
        "families": list(by_family),
        "tables": sum(len(part) for part in by_family.values()),
        "seeds": sorted({len(table) for part in by_family.values() for table in part}),
        "mean": mean,
        "low": low,
        "high": high,
        "per_family": {f: mean_ranks({f: part}).mean(axis=0) for f, part in by_family.items()},
        "left_out": leave_one_out(by_family, methods),
        "against_random": {m: beats_random(kept_["finals"], m) for m in methods if m != "random"},
    }


def _default_table(kept_: Json) -> str:
    found = _choice(kept_)
    order = np.argsort(found["mean"].mean(axis=0))
    rows = []
    for i in order:
        method = found["methods"][i]
        lost = [
            f"{f} ({100 * share:.0f} %)"
            for f, share in found["against_random"].get(method, {}).items()
            if share < 0.5
        ]
        rows.append(
            [
                f"**{method}**" if method == DEFAULT else method,
                *(f"{rank:.2f}" for rank in found["mean"][:, i]),
                f"{found['mean'][:, i].mean():.2f} [{found['low'][i]:.2f}, {found['high'][i]:.2f}]",
                ", ".join(lost) if method != "random" else "",
            ]
        )
    header = ("method", "25 %", "50 %", "100 %", "mean rank [95 %]", "families lost to random")
    overall = markdown(header, rows)
    columns = [found["methods"][i] for i in order]
    per_family = markdown(
        ("family", *columns),
        [[f, *(f"{ranks[i]:.2f}" for i in order)] for f, ranks in found["per_family"].items()],
    )
    left_out = markdown(
        ("family left out", "chosen on the others", "its mean rank here"),
        [[family, method, f"{rank:.2f}"] for family, method, rank in found["left_out"]],
    )
    return "\n\n".join(
        [
            f"{found['tables']} tables of {len(found['families'])} families, "
            f"{'/'.join(map(str, found['seeds']))} seeds.",
            overall,
            "Mean rank by family:",
            per_family,
            "Chosen with one family left out:",
            left_out,
            "The cost model: duels of the linear one against the log-GP, won at 25, 50, 100 %:",
            _cost_model_table(kept_),
        ]
    )


def _cost_model_table(kept_: Json) -> str:
    rows = []
    for other, usual in COST_MODELS:
        ranks = ranks_by_table(kept_["finals"], [other, usual])
        if ranks:
            won = 2.0 - mean_ranks(families(ranks))[:, 0]
            rows.append([other, usual, len(ranks), *(f"{100 * share:.0f} %" for share in won)])
    return markdown(("ours", "against", "tables", "25 %", "50 %", "100 %"), rows)


def _default_verdict(kept_: Json) -> str:
    found = _choice(kept_)
    methods, mean = found["methods"], found["mean"].mean(axis=0)
    best = int(np.argmin(mean))
    i = methods.index(DEFAULT)
    inside = mean[i] <= found["high"][best]
    lost = [f for f, share in found["against_random"][DEFAULT].items() if share < 0.5]
    return (
        f"The default ({DEFAULT}) has a mean rank of {mean[i]:.2f}, the best is {methods[best]}'s "
        f"{mean[best]:.2f}: "
        f"{'the best or within its interval' if inside else 'outside the interval of the best'}. "
        f"It loses to random search on {len(lost)} of {len(found['families'])} families"
        f"{' (' + ', '.join(lost) + ')' if lost else ''}."
    )


def _draw_ranks(kept_: Json) -> Figure:
    import matplotlib.pyplot as plt

    found = _choice(kept_)
    mean = found["mean"].mean(axis=0)
    order = np.argsort(-mean)
    figure, axes = plt.subplots(1, 2, figsize=(9, 0.28 * len(order) + 1.4), width_ratios=(1, 1.3))
    left, right = axes
    for place, i in enumerate(order):
        method = found["methods"][i]
        left.plot([found["low"][i], found["high"][i]], [place, place], color=colour(method), lw=2)
        left.plot(mean[i], place, "o", color=colour(method))
    left.set_yticks(range(len(order)), [found["methods"][i] for i in order])
    left.set(xlabel="mean rank, 95 % interval", title="all families")
    grid = np.array([[found["per_family"][f][i] for f in found["families"]] for i in order])
    shade = right.imshow(grid, aspect="auto", cmap="RdYlBu_r", origin="lower")
    right.set_xticks(range(len(found["families"])), found["families"], rotation=45, ha="right")
    right.set_yticks([])
    right.grid(False)
    right.set(title="mean rank by family")
    figure.colorbar(shade, ax=right)
    return figure


# ── the peers ──────────────────────────────────────────────────────────────────────────────────


def _pairs(kept_: Json, finals: str) -> list[dict[str, Any]]:
    """The default against each peer, on the tables and seeds both have run."""
    found = []
    for peer in kept_["methods"]:
        if peer == DEFAULT:
            continue
        ranks = ranks_by_table(kept_[finals], [DEFAULT, peer])
        if not ranks:
            continue
        means = mean_ranks(families(ranks))  # (shares, 2)
        at_end = [float((array[:, -1, 0] - array[:, -1, 1]).mean()) for array in ranks.values()]
        wins, losses, _, rank = measures.better_on_problems(at_end, np.zeros(len(at_end)))
        found.append(
            {
                "peer": peer,
                "tables": len(ranks),
                "seeds": max(len(array) for array in ranks.values()),
                "won": 2.0 - means[:, 0],  # share of duels won, ties half
                "wins": wins,
                "losses": losses,
                "p": rank,
            }
        )
    return found


def _peers_table(kept_: Json) -> str:
    with_thinking = {pair["peer"]: pair for pair in _pairs(kept_, "with_thinking")}
    rows = []
    for pair in _pairs(kept_, "finals"):
        peer = pair["peer"]
        rows.append(
            [
                peer,
                f"{pair['tables']} x {pair['seeds']}",
                *(f"{100 * won:.0f} %" for won in pair["won"]),
                f"{pair['wins']} : {pair['losses']}",
                f"{pair['p']:.2g}",
                f"{100 * with_thinking[peer]['won'][-1]:.0f} %",
                f"{1e3 * kept_['thinking'].get(peer, float('nan')):.0f}",
            ]
        )
    header = (
        *("against", "tables x seeds", "won at 25 %", "50 %", "100 %"),
        *("tables won : lost", "Wilcoxon p", "won, thinking charged", "ms / suggestion"),
    )
    parts = [markdown(header, rows), _reach_table(kept_)]
    if kept_["errors"]:
        parts.append(
            markdown(
                ("peer", "runs that failed", "first error"),
                [[m, e["count"], e["first"][:120]] for m, e in kept_["errors"].items()],
            )
        )
    if kept_["missing"]:
        parts.append(f"Not run: {', '.join(kept_['missing'])}.")
    return "\n\n".join(parts)


def _reach_table(kept_: Json) -> str:
    rows = []
    for problem, part in kept_["reach"].items():
        shares = np.array([np.inf if s is None else s for s in part["shares"]])
        if len(shares):
            middle = float(np.median(shares))
            rows.append([problem, part["peer"], _percent(middle)])
    return markdown(("table", "best peer", "budget to reach its final value (median)"), rows)


def _percent(share: float) -> str:
    """A share of the budget; more than all of it is never."""
    return f"{100 * share:.0f} %" if np.isfinite(share) else "more than 100 %"


def _peers_verdict(kept_: Json) -> str:
    pairs = [pair for pair in _pairs(kept_, "finals") if pair["peer"] != "random"]
    charged = {pair["peer"]: pair for pair in _pairs(kept_, "with_thinking")}
    beaten = [pair["peer"] for pair in pairs if (pair["won"] > 0.5).all()]
    not_beaten = [pair["peer"] for pair in pairs if pair["peer"] not in beaten]
    by_table, by_run = _reached(kept_)
    change = [charged[p["peer"]]["won"][-1] - p["won"][-1] for p in pairs]
    grows, shrinks = sum(c > 0 for c in change), sum(c < 0 for c in change)
    return (
        f"The default ({DEFAULT}) wins more duels than it loses at 25, 50 and 100 % of the budget "
        f"against {len(beaten)} of {len(pairs)} peers"
        f"{' (not against ' + ', '.join(not_beaten) + ')' if not_beaten else ''}. It reaches the "
        f"best peer's final value for {_percent(by_table)} of the budget in the median of the "
        f"tables ({_percent(by_run)} in the median of the runs; goal: 60 %). With thinking charged "
        f"the lead grows against {grows} of {len(pairs)} and shrinks against {shrinks}."
    )


def _reached(kept_: Json) -> tuple[float, float]:
    """Share of the budget for the best peer's final: median of the tables' medians, and of all."""
    shares = [
        np.array([np.inf if share is None else share for share in part["shares"]])
        for part in kept_["reach"].values()
        if part["shares"]
    ]
    with np.errstate(invalid="ignore"):  # half-way between two that never got there
        middle = np.median([np.median(part) for part in shares])
        return float(np.nan_to_num(middle, nan=np.inf)), float(np.median(np.concatenate(shares)))


def _draw_peers(kept_: Json) -> Figure:
    import matplotlib.pyplot as plt

    pairs = _pairs(kept_, "finals")[::-1]
    charged = {pair["peer"]: pair for pair in _pairs(kept_, "with_thinking")}
    figure, axis = plt.subplots(figsize=(6.5, 0.35 * len(pairs) + 1.2))
    for place, pair in enumerate(pairs):
        for share, won, size in zip(SHARES, pair["won"], (4, 6, 8), strict=True):
            label = f"at {100 * share:.0f} % of the budget" if place == 0 else None
            axis.plot(
                100 * won, place, "o", color="#0072b2", markersize=size, label=label, alpha=0.7
            )
        label = "at 100 %, thinking charged" if place == 0 else None
        axis.plot(100 * charged[pair["peer"]]["won"][-1], place, "x", color="#d55e00", label=label)
    axis.axvline(50, color="black", lw=1)
    axis.set_yticks(range(len(pairs)), [pair["peer"] for pair in pairs])
    axis.set(xlabel="% of duels won by the default (ties half)", xlim=(0, 100))
    axis.legend(loc="lower left", fontsize=7)
    return figure


ARTEFACTS = (
    Artefact(
        "default",
        "what `Optimizer(space, budget=...)` should do when the user says only a budget",
        _default,
        _default_table,
        _default_verdict,
        _draw_ranks,
    ),
    Artefact(
        "peers",
        "our default against the tuners people use",
        _peers,
        _peers_table,
        _peers_verdict,
        _draw_peers,
    ),
)
