"""The default on tables that did not serve to choose it, against peers and against itself.

The default was chosen on the tables of `problems/tables.py`, and the constants of earlier studies
on those of `evidence/transfer.py`. These are others of the same families. Some have served for
other questions: cost models were compared on their costs (`pareto-figure-2`), and Gittins with
earlier studies was judged on them.

They are the first six by name of each family where costs vary much (the 90 % over the 10 % quantile
of all rows is ten or more), and the first six where they vary less. The tables, seeds, budgets and
rivals, and the question below, were fixed before the first run. GPSampler and Gittins were added
afterwards.

question   where costs vary much, do learnt costs win more than half of the duels at 60?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks import peers
from benchmarks.evidence import run_peers
from benchmarks.evidence.artefacts import duels
from benchmarks.evidence.artefacts.artefact import Artefact, Json, Settings, markdown
from benchmarks.evidence.artefacts.comparison import (
    DEFAULT,
    GITTINS,
    counted,
    finals_of,
    jobs_of,
    runs_of,
)
from benchmarks.evidence.artefacts.duels import Duel
from benchmarks.evidence.replay import kept, missing_of
from benchmarks.without import NO_COSTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUITE = "unused"
SEEDS = 10
BUDGETS = (15.0, 60.0)
PEERS = {"optuna-tpe": SEEDS, "flaml-blendsearch": SEEDS, "optuna-gp": 5}  # and their seeds
RIVALS = {
    "random": "random search",
    **{peer: peer for peer in PEERS},
    GITTINS: "Gittins",
    NO_COSTS: "itself without learnt costs",
}
MUCH, LESS = "costs vary tenfold or more", "costs vary less"
TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    MUCH: {
        "deepar": ("m4-Daily", "m4-Monthly", "m4-Yearly", "wiki-rolling"),
        "gpu_kernels": ("convolution_W6600",),
        "hpobench_mlp": ("blood_transfusion", "car"),
        "tabrepo_lightgbm": ("8", "15", "24", "30", "40", "52"),
        "yahpo_rbv2_xgboost": ("1476_g7", "1476_t10", "1497_t10", "182_t10", "32_t10", "40499_t10"),
    },
    LESS: {
        "gpu_kernels": ("convolution_A4000", "dedispersion_A100"),
        "lcbench": (
            *("Amazon_employee_access", "Australian", "KDDCup09_appetency"),
            *("MiniBooNE", "airlines", "bank-marketing"),
        ),
        "tabrepo_lightgbm": ("4", "5", "6", "7", "9", "10"),
        "yahpo_rbv2_rpart": ("1475", "23517", "40966"),
        "yahpo_rbv2_xgboost": ("1053_g7", "1053_t10", "1067_g7", "1067_t10", "1068_g7", "1068_t10"),
    },
}


def names(part: str) -> list[str]:
    """`family/table` of one part of the tables."""
    return [f"{family}/{table}" for family, some in TABLES[part].items() for table in some]


def _compute(settings: Settings) -> Json:
    if settings.budgets is None:
        settings = replace(settings, budgets=BUDGETS)
    parts = {part: names(part)[: 1 if settings.quick else None] for part in TABLES}
    every = [name for part in parts.values() for name in part]
    jobs = jobs_of(every, (DEFAULT, NO_COSTS, GITTINS, "random"), settings)
    runs = runs_of(jobs, settings, SUITE)
    if not settings.quick:
        for peer, most in PEERS.items():
            seeds, its = min(settings.count(SEEDS), most), f"{SUITE}-{peers.NAMES[peer]}"
            planned = jobs_of(every, [peer], settings, seeds=seeds)
            if settings.more:
                _run(peer, seeds, every, settings)
            of_peer = kept(its)
            runs |= {job: of_peer[job] for job in planned if job in of_peer}
            settings.missing.append(missing_of(planned, runs, its))
            jobs += planned
    return {**against(finals_of(runs), parts), "counts": counted(runs, jobs)}


def _run(peer: str, seeds: int, every: list[str], settings: Settings) -> None:
    budgets = ",".join(f"{budget:g}" for budget in settings.budgets or BUDGETS)
    run_peers.main(
        [
            *("--suite", SUITE, "--peers", peer, "--problems", ",".join(every)),
            *("--seeds", str(seeds), "--jobs", str(settings.jobs), "--budgets", budgets),
            *(["--data", settings.data] if settings.data else []),
        ]
    )


def against(finals: duels.Finals, parts: Mapping[str, list[str]]) -> Json:
    """{rival: {part of the tables: {budget: duel}}}, and the tables of each part."""
    some = {"all": [name for part in parts.values() for name in part], **parts}
    found: Json = {}
    for rival in RIVALS:
        for part, tables in some.items():
            for budget in sorted(finals, key=float):
                these = {name: finals[budget][name] for name in tables if name in finals[budget]}
                met = duels.duel({budget: these}, DEFAULT, rival)
                if met is not None and met.problems == len(tables):  # a whole seed at least
                    found.setdefault(rival, {}).setdefault(part, {})[budget] = met._asdict()
    return {"duels": found, "tables": some}


def _rows(kept_: Json) -> list[tuple[str, str, str, Duel]]:
    """(rival, part of the tables, budget, duel)."""
    return [
        (RIVALS[rival], part, budget, Duel(**met))
        for rival, by_part in kept_["duels"].items()
        for part, by_budget in by_part.items()
        for budget, met in by_budget.items()
    ]


def _table(kept_: Json) -> str:
    rows = [
        [rival, part, budget, met.duels, met.problems, *map(met.text, range(3)), met.verdict()]
        for rival, part, budget, met in _rows(kept_)
    ]
    if not rows:
        return "Not yet run."
    header = ("the default against", "tables", "median costs", "duels", "tables in them")
    return markdown((*header, "won at 25 % [95 %]", "50 %", "100 %", "at the end"), rows)


def _verdict(kept_: Json) -> str:
    costs = kept_["duels"].get(NO_COSTS, {})
    if not costs:
        return "Not yet run."
    said = [
        f"{part if part == 'all' else f'where {part}'}: "
        + ", ".join(f"{Duel(**met).text()} at {budget}" for budget, met in by_budget.items())
        for part, by_budget in costs.items()
    ]
    others = [
        f"{RIVALS[rival]} "
        + ", ".join(f"{Duel(**met).text()} at {budget}" for budget, met in by["all"].items())
        for rival, by in kept_["duels"].items()
        if rival != NO_COSTS and "all" in by
    ]
    return (
        f"On {len(kept_['tables']['all'])} tables that did not serve to choose it, the default "
        f"wins against {'; '.join(others) or 'no rival yet'}. Against itself without learnt costs "
        f"it wins {'; '.join(said)}.{_answer(costs)}"
    )


def _answer(costs: Json) -> str:
    """Of the question that was fixed before the first run."""
    met = costs.get(MUCH, {}).get("60")
    if met is None:
        return ""
    says = {"ahead": "yes", "behind": "no"}.get(Duel(**met).verdict(), "undecided")
    return f" The question that was fixed before (at 60, where {MUCH}): {says}."


def _draw(kept_: Json) -> Figure:
    import matplotlib.pyplot as plt

    rows = _rows(kept_)
    places = list(dict.fromkeys((rival, part) for rival, part, *_ in rows))[::-1]
    figure, axis = plt.subplots(figsize=(7.5, 0.34 * len(places) + 1.4))
    hues = {"15": "#56b4e9", "60": "#0072b2"}
    for rival, part, budget, met in rows:
        y = places.index((rival, part)) + 0.12 * (1 if budget == "15" else -1)
        low, high = 100 * met.low[-1], 100 * met.high[-1]
        axis.plot([low, high], [y, y], color=hues[budget], lw=1.5)
        full = hues[budget] if met.verdict() != "undecided" else "white"
        axis.plot(100 * met.won[-1], y, "o", mfc=full, mec=hues[budget], ms=5)
    for budget, hue in hues.items():
        axis.plot([], [], "o-", color=hue, label=f"{budget} median costs")
    axis.plot([], [], "o", mfc="white", mec="black", label="undecided")
    axis.axvline(50, color="black", lw=1)
    axis.set_yticks(range(len(places)), [f"{rival}, {part}" for rival, part in places])
    axis.set(xlim=(0, 100), xlabel="% of duels won by the default at the end, 95 % interval")
    figure.legend(fontsize=7, loc="outside lower center", ncols=3)
    return figure


ARTEFACTS = (
    Artefact(
        "unused-tables",
        "the default on tables that did not serve to choose it, against peers and against itself",
        _compute,
        _table,
        _verdict,
        _draw,
        SEEDS,
    ),
)
