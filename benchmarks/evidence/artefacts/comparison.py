"""farthing's policies (`default`), the default against the peers (`peers`) and with known rows.

problems   the table families, synthetic functions with costs and our recordings, by family
budgets    15, 60 and 240 typical costs, each with separate runs, since methods know their budget
overhead   charged to the budget on the recordings, whose costs are seconds of a similar machine
value      best so far at 25 %, 50 % and 100 % of the budget; a crashed run has none and is counted
chosen     leave one family out: the method of the best mean rank on the other families,
           judged on the family that was left out
rows       `rows-known`: the default that knows the rows of a sampled table against itself without

benchmarks/evidence/artefacts/duels.py has the ranks, the duels and their intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import peers
from benchmarks.evidence import measures, run_peers
from benchmarks.evidence.artefacts import duels
from benchmarks.evidence.artefacts.artefact import Artefact, Json, Settings, colour, markdown
from benchmarks.evidence.artefacts.curves import Array, clock_and_values, curve, plain
from benchmarks.evidence.artefacts.duels import SHARES, Duel
from benchmarks.evidence.replay import FOLDER, Job, Run, carry_out, job_of, kept, missing_of
from benchmarks.problems import load, tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (15.0, 60.0, 240.0)  # typical costs
SEEDS = 10
COST_MODEL_SEEDS = 4
SUITE = "tables"
GITTINS = "PBGI"  # the default until 19 November 2026
DEFAULT = "cooling_0.5"  # the Optimizer's policy if only a budget is given; a test checks this
OURS = (
    "random",
    "EI",
    "EIpu",
    "EI_0.2",
    "cooling",
    "cooling_0.5",
    "CArBO",
    "CEI_0.3",
    "CEI_0.7",
    "PBGI",
)
COST_MODELS = (("PBGI+linear", "PBGI"), ("EIpu+linear", "EIpu"))  # each on one table a family
# Moved with the seed, so that the middle, where some methods start, is no optimum.
SYNTHETIC = (
    "moved/branin-rising",
    "moved/hartmann6-periodic",
    "moved/ackley5-falling",
    "moved/rosenbrock4-wide",
    "moved/hartmann6-constant",
    "moved/cmdp",
    "moved/dear-optimum",
    "moved/matern8-0-periodic",
)
RECORDINGS = (
    "carbo/knn-a1a",
    "carbo/mlp-splice",
    "carbo/rf-a3a",
    "carbo/svm-w2a",
    "xgboost/xgboost-abalone-hs",
    "xgboost/xgboost-satimage-p",
    "xgboost/xgboost-openml_1489_phoneme-sp",
)
SLOW = (
    "ax",
    "botorch-logei",
    "hebo",
    "neps-cooling",
    "skopt-eips",
)  # about a second per suggestion
SLOW_SEEDS = 5
SLOW_PROBLEMS = (
    "deepar/electricity",
    "gpu_kernels/convolution_A100",
    "hpobench_mlp/australian",
    "lcbench/Fashion-MNIST",
    "ongrid/svm",
    "yahpo_rbv2_xgboost/6_t10",
)
ENOUGH_GROUPS = 4  # a family needs to be ranked
NOISE = 0.05  # significance level of the sign test over the seeds of a problem
GOAL = 0.6  # the default should pay this share of the best peer's cost of its final value


def problems(most: int, settings: Settings) -> list[str]:
    """At most `most` tables of each family, and the same share of the other problems."""
    if settings.quick:
        return [*tables.names(most=1)[:1], SYNTHETIC[0]]
    share = most / 3
    return [
        *tables.names(most=most),
        *SYNTHETIC[: round(share * len(SYNTHETIC))],
        *RECORDINGS[:: 1 if most == 3 else 2],
    ]


def jobs_of(
    names: Iterable[str],
    methods: Sequence[str],
    settings: Settings,
    *,
    seeds: int | None = None,
    rows: bool = False,
) -> list[Job]:
    """Seed by seed and budget by budget, so that an unfinished set of runs is balanced."""
    names = list(names)
    budgets = BUDGETS[:1] if settings.quick else settings.budgets or BUDGETS
    return [
        job_of(problem, m, seed, budget, most=8 if settings.quick else None, rows=rows)
        for seed in range(settings.count(SEEDS) if seeds is None else seeds)
        for budget in budgets
        for problem in names
        for m in methods
    ]


def runs_of(jobs: Iterable[Job], settings: Settings, suite: str = SUITE) -> dict[Job, Run]:
    """The kept runs of these jobs; those that are missing are made if the settings say so."""
    jobs, suite = list(jobs), f"{suite}-quick" if settings.quick else suite
    runs = carry_out(
        jobs,
        suite,
        processes=settings.jobs,
        folder=settings.data,
        make_more=settings.more,
        same_source=not settings.any_source,
    )
    settings.missing.append(missing_of(jobs, runs, suite))
    return runs


def finals_of(runs: Mapping[Job, Run]) -> Json:
    """{budget: {problem: {method: {seed: [best at each share]}}}} of the runs that did not crash.

    A method that knows the rows of the table is `method (rows)`.
    """
    found: Json = {}
    for job, run in runs.items():
        if run.error is None:
            by = found.setdefault(f"{job.budget:g}", {}).setdefault(job.problem, {})
            name = f"{job.method} (rows)" if job.rows else job.method
            line = curve(run, SHARES, overhead=job.clock)
            by.setdefault(name, {})[str(job.seed)] = plain(line)
    return found


def counted(runs: Mapping[Job, Run], planned: Iterable[Job]) -> Json:
    """{method: numbers of runs planned, complete, crashed, too slow, and cut at `most`}."""
    found: Json = {}
    for job in planned:
        entry = found.setdefault(
            job.method, {"planned": 0, "runs": 0, "crashed": 0, "given_up": 0, "cut": 0}
        )
        entry["planned"] += 1
        if job in runs:
            run = runs[job]
            entry["runs"] += 1
            entry["crashed"] += run.error is not None
            entry["given_up"] += run.ended == "too slow"
            entry["cut"] += run.ended == "evaluations"
    return found


def _sources(runs: Mapping[Job, Run]) -> list[str]:
    """The source marks of farthing's runs; "" for runs without a mark."""
    ours = {r.versions.get("source", "") for j, r in runs.items() if j.method not in peers.NAMES}
    return sorted(ours)


def _counts_text(counts: Mapping[str, Mapping[str, int]], sources: Sequence[str]) -> str:
    total = {k: sum(c[k] for c in counts.values()) for k in ("planned", "runs", "crashed", "cut")}
    text = (
        f"{total['runs']:,} of {total['planned']:,} planned runs are complete; {total['crashed']} "
        f"crashed and are left out, {total['cut']} ended at the maximum number of evaluations"
    )
    if len(sources) > 1:
        text += f"; the runs of farthing are from {len(sources)} versions of its source"
    return text + "."


def _order(budgets: Iterable[str]) -> list[str]:
    return sorted(budgets, key=float)


# ── the default ────────────────────────────────────────────────────────────────────────────────


def _default(settings: Settings) -> Json:
    jobs = jobs_of(problems(3, settings), OURS, settings)
    few = min(settings.count(SEEDS), COST_MODEL_SEEDS)
    first = problems(3, settings)[:1] if settings.quick else tables.names(most=1)
    linear = jobs_of(first, [other for other, _ in COST_MODELS], settings, seeds=few)
    runs = runs_of([*jobs, *linear], settings)
    finals = finals_of(runs)
    return {
        **choice(finals, list(OURS)),
        "own_duels": {
            method: met._asdict()
            for method in OURS
            if method != DEFAULT and (met := duels.duel(finals, DEFAULT, method)) is not None
        },
        "cost_models": [
            {"ours": other, "against": usual, **found._asdict()}
            for other, usual in COST_MODELS
            if (found := duels.duel(finals, other, usual)) is not None
        ],
        "counts": counted(runs, [*jobs, *linear]),
        "sources": _sources(runs),
    }


def choice(finals: duels.Finals, methods: Sequence[str]) -> Json:
    """Mean ranks by budget and family, their intervals, and the choice without each family."""
    every = duels.over_shares(duels.ranked(finals, methods))
    cells = {f: part for f, part in every.items() if duels.count({f: part}) >= ENOUGH_GROUPS}
    few = {f: duels.count({f: part}) for f, part in every.items() if f not in cells}
    if not cells:
        return {"methods": list(methods), "budgets": {}, "few": few}
    low, high = duels.interval(cells)
    by_budget: Json = {}
    for budget in _order(finals):
        ranked = duels.ranked(finals, methods, [budget])
        part = {f: by for f, by in ranked.items() if f in cells}
        if part:
            by_budget[budget] = {
                "mean": plain(duels.mean(part).mean(axis=0)),
                "at_end": plain(duels.mean(part)[-1]),
                "problems": duels.count_problems(part),
                "groups": duels.count(part),
            }
    return {
        "methods": list(methods),
        "budgets": by_budget,
        "few": few,
        "mean": plain(duels.mean(cells)[0]),
        "low": plain(low[0]),
        "high": plain(high[0]),
        "families": {
            family: {
                "ranks": plain(duels.mean({family: part})[0]),
                "problems": len(part),
                "groups": duels.count({family: part}),
            }
            for family, part in cells.items()
        },
        "without_family": duels.leave_one_out(cells, methods),
        "against_random": {
            method: {
                family: _of_family(finals, family, method, "random")._asdict() for family in cells
            }
            for method in methods
            if method != "random"
        },
    }


def _of_family(finals: duels.Finals, family: str, ours: str, rival: str) -> Duel:
    part = {
        budget: {p: by for p, by in of.items() if p.partition("/")[0] == family}
        for budget, of in finals.items()
    }
    found = duels.duel(part, ours, rival)
    assert found is not None, "a family that was ranked has been run"
    return found


def _against_random(kept_: Json, method: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"ahead": [], "undecided": [], "behind": []}
    for family, part in kept_["against_random"].get(method, {}).items():
        found[Duel(**part).verdict()].append(family)
    return found


def _default_table(kept_: Json) -> str:
    if not kept_["budgets"]:
        return "Not yet run: no problem has every method. " + _counts_text(
            kept_["counts"], kept_["sources"]
        )
    methods, order = kept_["methods"], np.argsort(kept_["mean"])
    rows = []
    for i in order:
        method = methods[i]
        random = _against_random(kept_, method)
        rows.append(
            [
                f"**{method}**" if method == DEFAULT else method,
                *(f"{part['mean'][i]:.2f}" for part in kept_["budgets"].values()),
                f"{kept_['mean'][i]:.2f} [{kept_['low'][i]:.2f}, {kept_['high'][i]:.2f}]",
                f"{len(random['ahead'])} / {len(random['undecided'])} / {len(random['behind'])}"
                if method != "random"
                else "",
                _won(kept_.get("own_duels", {}).get(method)),
                f"{kept_['counts'][method]['runs']} of {kept_['counts'][method]['planned']}",
            ]
        )
    header = (
        "method",
        *(f"budget {b}" for b in kept_["budgets"]),
        "mean rank [95 %]",
        "families ahead of / undecided / behind random",
        "duels that the default wins",
        "runs",
    )
    counts = ", ".join(
        f"{part['groups']} groups on {part['problems']} problems at {budget}"
        for budget, part in kept_["budgets"].items()
    )
    return "\n\n".join(
        [
            "Mean rank over 25, 50 and 100 % of each budget (in median costs), of the groups (one "
            f"problem, seed and budget) that every method has run: {counts}. "
            + _too_few(kept_["few"])
            + _counts_text(kept_["counts"], kept_["sources"]),
            markdown(header, rows),
            "Mean rank by family:",
            markdown(
                ("family", "groups", *(methods[i] for i in order)),
                [
                    [family, part["groups"], *(f"{part['ranks'][i]:.2f}" for i in order)]
                    for family, part in kept_["families"].items()
                ],
            ),
            "Chosen with one family left out:",
            markdown(
                (
                    "left out",
                    "chosen on the other families",
                    "its rank here",
                    "best here",
                    "its rank",
                ),
                [
                    [p["family"], p["chosen"], f"{p['rank']:.2f}", p["best"], p["best_rank"]]
                    for p in kept_["without_family"]
                ],
            ),
            _cost_model_table(kept_),
        ]
    )


def _won(met: Json | None) -> str:
    return "" if met is None else f"{Duel(**met).text()} of {met['duels']}"


def _too_few(few: Mapping[str, int]) -> str:
    """The families with too few groups."""
    if not few:
        return ""
    said = ", ".join(f"{family} {count}" for family, count in few.items())
    return f"Families with fewer than {ENOUGH_GROUPS} groups are left out ({said}). "


def _cost_model_table(kept_: Json) -> str:
    rows = []
    for part in kept_["cost_models"]:
        found = Duel(**{name: part[name] for name in Duel._fields})
        rows.append([part["ours"], part["against"], found.duels, *map(found.text, range(3))])
    if not rows:
        return "The linear cost model against the log-GP: not yet run."
    header = ("method", "against", "duels", "won at 25 %", "50 %", "100 %")
    return "The cost model, the linear one against the log-GP:\n\n" + markdown(header, rows)


def _default_verdict(kept_: Json) -> str:
    if not kept_["budgets"]:
        return "Not yet run."
    methods, mean = kept_["methods"], kept_["mean"]
    best, i = int(np.argmin(mean)), methods.index(DEFAULT)
    within = [
        m
        for m, low in zip(methods, kept_["low"], strict=True)
        if low <= kept_["high"][best] and m != methods[best]
    ]
    random = _against_random(kept_, DEFAULT)
    first = [p["chosen"] for p in kept_["without_family"]]
    chosen = ", ".join(f"{m} {first.count(m)} times" for m in dict.fromkeys(first))
    missing = [f"{b:g}" for b in BUDGETS if f"{b:g}" not in kept_["budgets"]]
    return (
        f"The default ({DEFAULT}) has a mean rank of {mean[i]:.2f}, the best is {methods[best]}'s "
        f"{mean[best]:.2f}; its interval overlaps those of {', '.join(within) or 'none'}. "
        f"With one family left out, the best is {chosen}. Against random search the default is "
        f"ahead on {len(random['ahead'])} of {len(kept_['families'])} families, undecided on "
        f"{len(random['undecided'])}, behind on {len(random['behind'])}."
        + (f" Not yet run: budgets of {', '.join(missing)}." if missing else "")
    )


def _draw_ranks(kept_: Json) -> Figure:
    import matplotlib.pyplot as plt

    methods, order = kept_["methods"], np.argsort(-np.array(kept_.get("mean", [0.0])))
    figure, axes = plt.subplots(1, 2, figsize=(8.2, 0.3 * len(order) + 2.0), width_ratios=(1, 1.5))
    left, right = axes
    several = kept_["budgets"] if len(kept_["budgets"]) > 1 else {}
    for place, i in enumerate(order):
        hue = colour(methods[i])
        left.plot([kept_["low"][i], kept_["high"][i]], [place, place], color=hue, lw=2)
        left.plot(kept_["mean"][i], place, "o", color=hue)
        for part, mark in zip(several.values(), "<d>", strict=False):
            left.plot(part["mean"][i], place, mark, mfc="none", mec=hue, ms=5)
    for budget, mark in zip(several, "<d>", strict=False):
        left.plot([], [], mark, mfc="none", mec="black", ms=5, label=f"budget {budget}")
    left.set_yticks(range(len(order)), [methods[i] for i in order])
    left.set(xlabel="mean rank, 95 % interval", title="all families")
    if several:
        left.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3)
    families = kept_["families"]
    grid = np.array([[families[f]["ranks"][i] for f in families] for i in order])
    shade = right.imshow(grid, aspect="auto", cmap="RdYlBu_r", origin="lower")
    labels = [f"{f} ({part['groups']})" for f, part in families.items()]
    right.set_xticks(range(len(families)), labels, rotation=45, ha="right", fontsize=7.5)
    right.set_yticks([])
    right.grid(False)
    right.set(title="mean rank by family (groups ranked)")
    figure.colorbar(shade, ax=right)
    return figure


# ── the peers ──────────────────────────────────────────────────────────────────────────────────


def _peers(settings: Settings) -> Json:
    """Run farthing here and each peer with the Python of its environment; read the kept runs."""
    names = problems(2, settings)
    jobs = jobs_of(names, (DEFAULT, "random"), settings)
    runs = runs_of(jobs, settings)
    fast = [peer for peer in peers.NAMES if peer not in SLOW]
    few = min(settings.count(SEEDS), SLOW_SEEDS)
    plans = {
        "fast": jobs_of(names, fast, settings),
        "slow": jobs_of(SLOW_PROBLEMS, SLOW, settings, seeds=few),
    }
    if not settings.quick:
        if settings.more:
            _run_the_peers(names, fast, settings.count(SEEDS), settings)
            _run_the_peers(SLOW_PROBLEMS, SLOW, few, settings)
        of_peers: dict[Job, Run] = {}
        for path in sorted(FOLDER.glob("peers*.jsonl*")):
            of_peers |= kept(path.name.partition(".")[0])
        planned = {*plans["fast"], *plans["slow"]}
        runs |= {job: run for job, run in of_peers.items() if job in planned}
        for library in dict.fromkeys(peers.NAMES.values()):
            its = [job for job in planned if peers.NAMES[job.method] == library]
            settings.missing.append(missing_of(its, runs, f"peers-{library}"))
    return {
        **against(runs),
        "counts": counted(runs, [*jobs, *plans["fast"], *plans["slow"]]),
        "sources": _sources(runs),
    }


def _run_the_peers(
    names: Iterable[str], methods: Sequence[str], seeds: int, settings: Settings
) -> None:
    data = ["--data", settings.data] if settings.data else []
    run_peers.main(
        [
            *("--peers", ",".join(methods), "--problems", ",".join(names)),
            *("--seeds", str(seeds), "--jobs", str(settings.jobs), *data),
            *("--budgets", ",".join(f"{b:g}" for b in settings.budgets or BUDGETS)),
        ]
    )


def against(runs: Mapping[Job, Run]) -> Json:
    """The default's duels with every other method, what it saves over the best peer, errors."""
    finals = finals_of(runs)
    others = [m for m in ("random", *sorted(peers.NAMES)) if any(j.method == m for j in runs)]
    found: Json = {}
    for method in others:
        for budget in _order(finals):
            met = duels.duel(finals, DEFAULT, method, [budget])
            if met is not None:
                found.setdefault(method, {})[budget] = met._asdict()
    return {
        "duels": found,
        "thinking": {  # the kept name of the overhead
            method: plain(
                np.median([t for j, r in runs.items() if j.method == method for t in r.overhead])
            )[0]
            for method in sorted({job.method for job, run in runs.items() if run.overhead})
        },
        "reach": _reach(runs),
        "problems": by_problem(finals),
        "errors": _errors(runs),
    }


def by_problem(finals: duels.Finals) -> Json:
    """{budget: {problem: seeds won and lost against random search at the end}}, without ties."""
    found: Json = {}
    for budget in _order(finals):
        for problem, by in finals[budget].items():
            ours, random = by.get(DEFAULT, {}), by.get("random", {})
            gaps = np.array([_last(ours[s]) - _last(random[s]) for s in ours if s in random])
            gaps = gaps[np.abs(gaps) > duels.tie_of(problem)]
            found.setdefault(budget, {})[problem] = [int((gaps < 0).sum()), int((gaps > 0).sum())]
    return found


def _last(cells: Sequence[float | None]) -> float:
    return np.inf if cells[-1] is None else cells[-1]


def against_random_by_problem(kept_: Json, budget: str) -> dict[str, list[str]]:
    """The problems on which a sign test puts the default ahead of random search, or behind."""
    from scipy.stats import binomtest

    found: dict[str, list[str]] = {"ahead": [], "behind": []}
    for problem, (won, lost) in kept_["problems"][budget].items():
        if won != lost and binomtest(won, won + lost).pvalue < NOISE:
            found["ahead" if won > lost else "behind"].append(f"{problem} ({won} to {lost})")
    return found


def _errors(runs: Mapping[Job, Run]) -> Json:
    """How many runs of a method ended in an error, and the first of them."""
    found: Json = {}
    for job, run in runs.items():
        if run.error:
            entry = found.setdefault(job.method, {"count": 0, "first": run.error[:120]})
            entry["count"] += 1
    return found


def _reach(runs: Mapping[Job, Run]) -> Json:
    """Per budget and problem: the best peer by median final value, and the time saved over it.

    Every peer takes part with the seeds that it and the default have. Of peers with the same median
    the best is the one that needs the smaller share of its budget to reach its final values.

    saved     `time_saved` over its run of the same seed; control: it over another seed of itself
    ours      the share of the budget the default needs for the peer's final value; inf is None
    itself    the share that the peer needs; another: the share that another seed of it needs
    """
    found: Json = {}
    cells: dict[tuple[str, str], dict[str, dict[int, Run]]] = {}
    for job, run in runs.items():
        if run.error is None and not job.rows:
            by = cells.setdefault((f"{job.budget:g}", job.problem), {})
            by.setdefault(job.method, {})[job.seed] = run
    for (budget, problem), by in cells.items():
        ours = by.get(DEFAULT, {})
        rivals = {
            peer: some
            for peer in peers.NAMES
            if (some := {seed: run for seed, run in by.get(peer, {}).items() if seed in ours})
        }
        if rivals:
            best = _best_peer(rivals, duels.tie_of(problem))
            found.setdefault(budget, {})[problem] = {
                "peer": best,
                **_reached(ours, rivals[best], duels.tie_of(problem)),
            }
    return found


def _best_peer(rivals: Mapping[str, Mapping[int, Run]], tie: float) -> str:
    """The peer with the lowest median final value; of tied ones, the one that was faster."""
    ends = {peer: [_end(run, tie) for run in runs.values()] for peer, runs in rivals.items()}
    value = {peer: float(np.median([v for v, _ in found])) for peer, found in ends.items()}
    share = {peer: float(np.median([t for _, t in found])) for peer, found in ends.items()}
    lowest = min(value.values())
    tied = [peer for peer in rivals if value[peer] <= lowest + tie]
    return min(tied, key=lambda peer: (share[peer], peer))


def _end(run: Run, tie: float) -> tuple[float, float]:
    """The final value of a run, and the share of the budget that it needed for it."""
    trace = _shares(run)
    final = float(np.nan_to_num(measures.best_at(*trace, [1.0])[0], nan=np.inf))
    return final, measures.cost_to_reach(*trace, final + tie)


def _shares(run: Run) -> tuple[Array, Array]:
    """Costs as shares of the budget, because costs of a problem may move with the seed."""
    costs, values = clock_and_values(run, overhead=run.job.clock)
    return costs / run.limit, values


def _reached(ours: Mapping[int, Run], theirs: Mapping[int, Run], tie: float) -> Json:
    seeds = sorted(theirs)
    others = measures.another_seed([theirs[seed] for seed in seeds])
    saved, control, own, itself, another = [], [], [], [], []
    for i, seed in enumerate(seeds):
        trace, rival = _shares(ours[seed]), _shares(theirs[seed])
        saved.append(measures.time_saved(trace, rival, 1.0, tie=tie))
        target = float(measures.best_at(*rival, [1.0])[0]) + tie
        own.append(measures.cost_to_reach(*trace, target))
        itself.append(measures.cost_to_reach(*rival, target))
        if others:  # a peer with one seed has no control
            other = _shares(others[i][1])
            control.append(measures.time_saved(other, rival, 1.0, tie=tie))
            another.append(measures.cost_to_reach(*other, target))
    return {
        "saved": plain(np.array(saved)),
        "control": plain(np.array(control)),
        **{
            name: plain(np.array([np.median(shares)]))[0] if shares else None
            for name, shares in (("ours", own), ("itself", itself), ("another", another))
        },
    }


def surviving(kept_: Json) -> dict[tuple[str, str], bool]:
    """{(peer, budget): whether the duels at the end differ from one half after Holm's correction}.

    All duels of the table count as comparisons, those against random search included.
    """
    met = {
        (peer, budget): Duel(**part)
        for peer, by_budget in kept_["duels"].items()
        for budget, part in by_budget.items()
    }
    return dict(zip(met, measures.holm([each.p_value() for each in met.values()]), strict=True))


def _peers_table(kept_: Json) -> str:
    rows, survives = [], surviving(kept_)
    for peer, by_budget in kept_["duels"].items():
        for budget, part in by_budget.items():
            met = Duel(**part)
            rows.append(
                [
                    peer,
                    budget,
                    met.duels,
                    met.problems,
                    *map(met.text, range(len(SHARES))),
                    met.verdict(),
                    "yes" if survives[peer, budget] else "no",
                    f"{1e3 * kept_['thinking'].get(peer, float('nan')):.0f}",
                ]
            )
    header = (
        *("against", "budget", "duels", "problems", "won at 25 % [95 %]", "50 %", "100 %"),
        *("at the end", f"survives Holm ({len(rows)} comparisons)", "ms / suggestion"),
    )
    counts = kept_["counts"]
    not_run = [m for m, c in counts.items() if c["runs"] == 0]
    partly = [
        f"{m} {c['runs']} of {c['planned']}"
        + (f" ({c['crashed']} crashed)" if c["crashed"] else "")
        for m, c in counts.items()
        if c["runs"] > 0
    ]
    parts = [
        markdown(header, rows),
        f"Complete runs: {', '.join(partly)}. Not yet run: {', '.join(not_run) or 'none'}. "
        + _counts_text(counts, kept_["sources"]),
        _reach_table(kept_),
    ]
    if kept_["errors"]:
        parts.append(
            markdown(
                ("method", "runs that crashed", "first error"),
                [[m, e["count"], e["first"]] for m, e in kept_["errors"].items()],
            )
        )
    return "\n\n".join(parts)


def net(kept_: Json, budget: str, what: str) -> list[float]:
    parts = kept_["reach"][budget]
    return measures.mean_of_medians(
        [[s for s in part[what] if s is not None] for part in parts.values()],
        families=[problem.partition("/")[0] for problem in parts],
    )


def _percent(share: float | None) -> str:
    """A share; None is "never"."""
    return "never" if share is None else f"{100 * share:.0f} %"


def _reach_table(kept_: Json) -> str:
    if not kept_["reach"]:
        return "Time saved over the best peer: not yet run."
    rows = []
    for budget in _order(kept_["reach"]):
        for problem, part in kept_["reach"][budget].items():
            saved, control = (
                f"{np.median(some):+.0f}"
                if (some := [s for s in part[what] if s is not None])
                else "-"
                for what in ("saved", "control")
            )
            cells = [_percent(part[name]) for name in ("ours", "itself", "another")]
            seeds = len(part["saved"])
            rows.append([problem, budget, part["peer"], seeds, saved, control, *cells])
    header = (
        *("problem", "budget", "best peer", "seeds", "time saved, median (%)"),
        *("control (%)", "the default reaches its final value at", "itself", "another seed of it"),
    )
    return (
        "Time saved over the best peer, as a share of its own time to the worse of the two final "
        "values. Every peer takes part with the seeds that it has; the table says how many the "
        "best one has. Of peers with the same median, the best is the one that was faster. The "
        "control is another seed of that peer against itself. Intervals draw families, then "
        "problems, then seeds.\n\n" + markdown(header, rows) + "\n\n" + _reach_text(kept_)
    )


def _relative_costs(by_problem: Mapping[str, Json], key: str) -> list[float]:
    """Per problem, the cost of the best peer's final value relative to the peer's; inf: never."""
    return [
        np.inf if part[key] is None else part[key] / part["itself"] for part in by_problem.values()
    ]


def _reach_text(kept_: Json) -> str:
    """Whether the goal is reached, with the control."""
    said = []
    for budget in _order(kept_["reach"]):
        ours, another = (
            _relative_costs(kept_["reach"][budget], key) for key in ("ours", "another")
        )
        part, chance = (
            _percent(m if np.isfinite(m := float(np.median(parts))) else None)
            for parts in (ours, another)
        )
        goal = "reached" if np.median(ours) <= GOAL else "NOT reached"
        said.append(
            f"with {budget}, {part} ({np.isinf(ours).sum()} of {len(ours)} never; another seed of "
            f"that peer: {chance}, {np.isinf(another).sum()} never): {goal}"
        )
    return (
        "The default's cost of the best peer's final value, relative to that peer's own cost, in "
        f"the median of the problems (goal: at most {100 * GOAL:.0f} %): {'; '.join(said)}. The "
        "best peer is chosen after the fact on each problem, so part of its value is luck. Its "
        "other seeds show how much, above all where a run has only a dozen evaluations."
    )


def _peers_verdict(kept_: Json) -> str:
    said = []
    budgets = _order({b for by in kept_["duels"].values() for b in by})
    for budget in budgets:
        by: dict[str, list[str]] = {"ahead": [], "undecided": [], "behind": []}
        for peer, part in kept_["duels"].items():
            if peer != "random" and budget in part:
                by[Duel(**part[budget]).verdict()].append(peer)
        said.append(
            f"at the end of {budget} median costs it is ahead of {len(by['ahead'])} peers "
            f"({', '.join(by['ahead']) or 'none'}), behind {len(by['behind'])} "
            f"({', '.join(by['behind']) or 'none'}), undecided against "
            f"{', '.join(by['undecided']) or 'none'}"
        )
    text = f"The default ({DEFAULT}): {'; '.join(said) or 'not yet run'}."
    for budget in _order(kept_["reach"]):
        saved, control = net(kept_, budget, "saved"), net(kept_, budget, "control")
        text += (
            f" With {budget} it saves {saved[0]:.0f} % [{saved[1]:.0f}, {saved[2]:.0f}] of the "
            f"best peer's own time (that peer against another seed of itself: {control[0]:.0f} % "
            f"[{control[1]:.0f}, {control[2]:.0f}]) on {len(kept_['reach'][budget])} problems."
        )
    for budget in kept_["problems"]:
        judged = against_random_by_problem(kept_, budget)
        text += (
            f" Problem by problem (sign test, 5 %) it is ahead of random search on "
            f"{len(judged['ahead'])} of {len(kept_['problems'][budget])} with {budget}, behind on "
            f"{len(judged['behind'])} ({', '.join(judged['behind']) or 'none'})."
        )
    survives = surviving(kept_)
    ahead = [f"{peer} at {budget}" for (peer, budget), yes in survives.items() if yes]
    text += (
        f" Of {len(survives)} comparisons, {len(ahead)} survive Holm's correction: "
        f"{', '.join(ahead) or 'none'}."
    )
    missing = [f"{b:g}" for b in BUDGETS if f"{b:g}" not in budgets]
    return text + (f" Not yet run: budgets of {', '.join(missing)}." if missing else "")


def _draw_peers(kept_: Json) -> Figure:
    import matplotlib.pyplot as plt

    budgets = _order({b for by in kept_["duels"].values() for b in by})
    others = list(kept_["duels"])[::-1]
    figure, axis = plt.subplots(figsize=(7.5, 0.5 * len(others) + 1.4))
    hues = dict(zip(budgets, ("#56b4e9", "#0072b2", "#001f4d"), strict=False))
    for place, peer in enumerate(others):
        for k, budget in enumerate(budgets):
            if budget not in kept_["duels"][peer]:
                continue
            met = Duel(**kept_["duels"][peer][budget])
            y = place + 0.22 * (k - (len(budgets) - 1) / 2)
            low, high = 100 * met.low[-1], 100 * met.high[-1]
            axis.plot([low, high], [y, y], color=hues[budget], lw=1.5)
            full = hues[budget] if met.verdict() != "undecided" else "white"
            axis.plot(100 * met.won[-1], y, "o", mfc=full, mec=hues[budget], ms=5)
            axis.text(101, y, f"{met.duels}", va="center", fontsize=6.5, color=hues[budget])
    for budget in budgets:
        axis.plot([], [], "o-", color=hues[budget], label=f"budget {budget}")
    axis.plot([], [], "o", mfc="white", mec="black", label="undecided")
    axis.text(101, len(others) - 0.45, "duels", fontsize=7)
    axis.axvline(50, color="black", lw=1)
    axis.set_yticks(range(len(others)), others)
    axis.set(xlabel="% of duels won by the default at the end (ties half), 95 % interval")
    axis.set(xlim=(0, 100), ylim=(-0.6, len(others) - 0.3))
    axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4)
    return figure


# ── known rows ─────────────────────────────────────────────────────────────────────────────────


def _rows_known(settings: Settings) -> Json:
    names = [n for n in problems(3, settings) if load(n, settings.data).table is not None]
    known = jobs_of(names, (GITTINS,), settings, rows=True)
    unknown = jobs_of(names, (GITTINS,), settings)
    runs = runs_of([*known, *unknown], settings)
    finals, name = finals_of(runs), f"{GITTINS} (rows)"
    return {
        "duels": {
            budget: met._asdict()
            for budget in _order(finals)
            if (met := duels.duel(finals, name, GITTINS, [budget])) is not None
        },
        "families": {
            family: _of_family(finals, family, name, GITTINS)._asdict()
            for family in duels.ranked(finals, [name, GITTINS])
        },
        "counts": {
            "told": counted(runs, known)[GITTINS],
            "not told": counted(runs, unknown)[GITTINS],
        },
        "sources": _sources(runs),
    }


def _rows_table(kept_: Json) -> str:
    rows = [
        [what, part["duels"], part["problems"], *map(Duel(**part).text, range(3))]
        for what, part in [
            *((f"budget {b}", part) for b, part in kept_["duels"].items()),
            *kept_["families"].items(),
        ]
    ]
    header = ("where", "duels", "tables", "won at 25 % [95 %]", "50 %", "100 %")
    return markdown(header, rows) + "\n\n" + _counts_text(kept_["counts"], kept_["sources"])


def _rows_verdict(kept_: Json) -> str:
    said = [
        f"{Duel(**part).text()} of {part['duels']} duels at the end of {budget} median costs "
        f"({Duel(**part).verdict()})"
        for budget, part in kept_["duels"].items()
    ]
    return (
        f"If it knows the rows of a sampled table, {GITTINS} wins against itself "
        f"without them {'; '.join(said) or '(not yet run)'}. No comparison with peers uses this."
    )


def _draw_rows(kept_: Json) -> Figure:
    import matplotlib.pyplot as plt

    shown = [
        *((f"budget {b}", part) for b, part in kept_["duels"].items()),
        *kept_["families"].items(),
    ]
    figure, axis = plt.subplots(figsize=(6.5, 0.32 * len(shown) + 1.2))
    for place, (_what, part) in enumerate(shown[::-1]):
        met = Duel(**part)
        axis.plot([100 * met.low[-1], 100 * met.high[-1]], [place, place], color="#0072b2")
        axis.plot(100 * met.won[-1], place, "o", color="#0072b2")
        axis.text(101, place, f"{met.duels}", va="center", fontsize=7)
    axis.axvline(50, color="black", lw=1)
    axis.set_yticks(range(len(shown)), [what for what, _ in shown[::-1]])
    axis.set(xlim=(0, 100), xlabel="% of duels won with known rows, 95 % interval")
    axis.set_title("duels on the right", fontsize=8, loc="right")
    return figure


ARTEFACTS = (
    Artefact(
        "default",
        "what `Optimizer(space, budget=...)` should do if the user gives only a budget",
        _default,
        _default_table,
        _default_verdict,
        _draw_ranks,
        SEEDS,
    ),
    Artefact(
        "peers",
        "the default of farthing against widely used tuners",
        _peers,
        _peers_table,
        _peers_verdict,
        _draw_peers,
        SEEDS,
    ),
    Artefact(
        "rows-known",
        "what it is worth to know the rows of a table that has only some configurations",
        _rows_known,
        _rows_table,
        _rows_verdict,
        _draw_rows,
        SEEDS,
    ),
)
