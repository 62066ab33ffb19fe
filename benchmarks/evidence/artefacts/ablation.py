"""Which part of the default is worth what: the default against itself without one part.

The arms are those of `benchmarks/without.py`. Both sides have the same problem, budget, seed and
source. A part is worth something if the default wins more than half of the duels against the arm
without it, with an interval above one half. The arms also meet the peers, with the kept runs of
these: so it is seen whether the default would still be ahead of them without a part.

The problems are those of `peers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import peers
from benchmarks.evidence.artefacts import duels
from benchmarks.evidence.artefacts.artefact import Artefact, Json, Settings, markdown
from benchmarks.evidence.artefacts.comparison import (
    DEFAULT,
    counted,
    finals_of,
    jobs_of,
    problems,
    runs_of,
)
from benchmarks.evidence.artefacts.duels import Duel
from benchmarks.evidence.replay import Job, Run, carry_out
from benchmarks.without import NO_COSTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = Mapping[str, Mapping[str, Mapping[str, Sequence[float | None]]]]  # of one budget

LEAST_UNIT = 1e-12  # of a distance
SEEDS = 10
BUDGETS = (15.0, 60.0)
PEERS = ("random", "optuna-tpe", "optuna-gp", "flaml-blendsearch")
ARMS = {
    "default-costs": "learnt costs (all configurations expected to cost the same)",
    "default-start": "start in the middle (four uniform points)",
    "default-kills": "kills at limits (as `minimize` in one process)",
    "default-affordable": "affordability (P(c <= left), and the filter)",
    f"{DEFAULT}+median": "expected cost (exp of the mean of ln c)",
}

COST_SEEDS = 30  # learnt costs are what this library is about
SPREAD = (
    "Learnt costs can only help where costs vary. The same duels on each third of the problems, "
    "sorted by the 90 % over the 10 % quantile of random search's costs. This table was not "
    f"planned: it was made with seeds 0 to {SEEDS - 1}, and the later seeds were run to test it."
)
FAR = (
    "A duel does not say how bad a lost run is. Distance of the final value to the best one known, "
    "in\nunits of that of random search (its median), mean over problems and families:"
)


def _compute(settings: Settings) -> Json:
    if settings.budgets is None:
        settings = replace(settings, budgets=BUDGETS)
    methods, names = (DEFAULT, *ARMS), problems(2, settings)
    jobs = jobs_of(names, methods, settings, seeds=settings.count(SEEDS))
    jobs += jobs_of(names, (DEFAULT, NO_COSTS), settings, seeds=settings.count(COST_SEEDS))
    jobs = list(dict.fromkeys(jobs))
    runs = runs_of(jobs, settings)
    finals = finals_of(runs)
    found = {
        budget: {
            arm: met._asdict()
            for arm in ARMS
            if (met := duels.duel(finals, DEFAULT, arm, [budget])) is not None
            and met.problems == len(names)  # a whole seed at least
        }
        for budget in finals
    }
    kept = {peer: _kept(peer, names, settings) for peer in PEERS}
    rivals = {peer: finals_of(its) for peer, its in kept.items()}
    return {
        "duels": found,
        "by_spread": by_spread(finals, NO_COSTS, spreads(kept["random"])),
        "by_spread_later": by_spread(_later(finals), NO_COSTS, spreads(kept["random"])),
        "against": {peer: against(finals, peer, rivals[peer], names) for peer in PEERS},
        "distances": {
            budget: {arm: distances(finals[budget], rivals["random"][budget], arm) for arm in by}
            for budget, by in found.items()
            if budget in rivals["random"]
        },
        "counts": counted(runs, jobs),
    }


def _kept(peer: str, names: Sequence[str], settings: Settings) -> dict[Job, Run]:
    suite = f"peers-{peers.NAMES[peer]}" if peer in peers.NAMES else "tables"
    jobs = jobs_of(names, [peer], settings, seeds=settings.count(SEEDS))
    return carry_out(jobs, suite, make_more=False, same_source=True)


def spreads(runs: Mapping[Job, Run]) -> dict[str, float]:
    """The 90 % over the 10 % quantile of the costs of complete evaluations, by problem."""
    costs: dict[str, list[float]] = {}
    for job, run in runs.items():
        ended = zip(run.costs, run.values, strict=True)
        costs.setdefault(job.problem, []).extend(c for c, value in ended if value is not None)
    return {p: float(np.divide(*np.quantile(c, (0.9, 0.1)))) for p, c in costs.items() if c}


def _later(finals: duels.Finals) -> duels.Finals:
    """Without the first seeds, on which the thirds of the problems were first looked at."""
    return {
        budget: {
            problem: {
                method: {seed: ends for seed, ends in of.items() if int(seed) >= SEEDS}
                for method, of in by.items()
                if method in (DEFAULT, NO_COSTS)
            }
            for problem, by in each.items()
        }
        for budget, each in finals.items()
    }


def by_spread(finals: duels.Finals, arm: str, spread: Mapping[str, float]) -> Json:
    """{budget: [{low, high, duel}]} of the default against an arm on thirds of the problems."""
    thirds = np.array_split(sorted(spread, key=lambda problem: spread[problem]), 3)
    found = {}
    for budget, of in finals.items():
        parts = [
            {"low": spread[third[0]], "high": spread[third[-1]], "duel": met._asdict()}
            for third in thirds
            if (met := duels.duel({budget: {p: of[p] for p in third if p in of}}, DEFAULT, arm))
        ]
        if len(parts) == len(thirds):
            found[budget] = parts
    return found


def distances(finals: Values, random: Values, arm: str) -> dict[str, list[float]]:
    """How far the default and an arm end from the best value known, and by how much the arm more.

    (value - best) / (median of random search - best), with the best value of all these runs. The
    mean over seeds, problems and families, with its 95 % interval, as of ranks.
    """
    cells: duels.Cells = {}
    for problem, by in finals.items():
        ours, without, chance = (
            {seed: v[-1] for seed, v in of.items() if v[-1] is not None}
            for of in (by[DEFAULT], by[arm], random[problem]["random"])
        )
        best = min(v for of in (ours, without, chance) for v in of.values())
        unit = max(float(np.median(list(chance.values()))) - best, LEAST_UNIT)
        both = np.array([[ours[s], without[s]] for s in ours if s in without])
        far = (both - best) / unit
        far = np.column_stack([far, far[:, 1] - far[:, 0]])
        cells.setdefault(problem.partition("/")[0], {})[problem] = {"": far[:, None]}
    middle, (low, high) = duels.mean(cells)[0], duels.interval(cells)
    return {
        name: [float(middle[k]), float(low[0, k]), float(high[0, k])]
        for k, name in enumerate(("with", "without", "difference"))
    }


def against(finals: duels.Finals, peer: str, rival: duels.Finals, names: Sequence[str]) -> Json:
    """{budget: {arm: duel}} of the arms against the kept runs of a peer."""
    both = {
        budget: {
            problem: {**by, **rival.get(budget, {}).get(problem, {})}
            for problem, by in of.items()
            if problem in names
        }
        for budget, of in finals.items()
    }
    return {
        budget: {
            arm: met._asdict()
            for arm in (DEFAULT, *ARMS)
            if (met := duels.duel(both, arm, peer, [budget])) is not None
            and met.problems == len(names)
        }
        for budget in both
    }


def _table(kept: Json) -> str:
    rows = [
        [
            ARMS[arm],
            budget,
            Duel(**met).text(),
            met["duels"],
            met["problems"],
            Duel(**met).verdict(),
        ]
        for budget, by in kept["duels"].items()
        for arm, met in by.items()
    ]
    if not rows:
        return "Not yet run."
    header = ("the default against itself without", "median costs", "won", "duels", "problems")
    text = markdown((*header, "the default is"), rows)
    text += "\n\n" + FAR + "\n\n"
    text += markdown(
        ("without", "median costs", "the default", "without the part", "difference"),
        [
            [
                ARMS[arm].partition(" (")[0],
                budget,
                *(f"{m:.2f} [{low:.2f}, {high:.2f}]" for m, low, high in part.values()),
            ]
            for budget, by in kept["distances"].items()
            for arm, part in by.items()
        ],
    )
    parts = {
        f"at {budget}, {seeds} seeds": thirds
        for key, seeds in (("by_spread", "all"), ("by_spread_later", "later"))
        for budget, thirds in kept[key].items()
    }
    if parts:
        text += f"\n\n{SPREAD}\n\n"
        text += markdown(
            ("costs vary by a factor of", *parts),
            [
                [
                    f"{third[0]['low']:.1f} to {third[0]['high']:.1f}",
                    *(f"{Duel(**t['duel']).text()} ({t['duel']['duels']})" for t in third),
                ]
                for third in zip(*parts.values(), strict=True)
            ],
        )
    for budget in kept["duels"]:
        text += f"\n\nDuels won against peers at {budget} median costs (their number):\n\n"
        met = {peer: by[budget] for peer, by in kept["against"].items() if by.get(budget)}
        text += markdown(
            ("", *met),
            [
                [
                    f"without {ARMS[arm].partition(' (')[0]}" if arm in ARMS else "the default",
                    *(
                        f"{Duel(**by[arm]).text()} ({by[arm]['duels']})" if arm in by else "-"
                        for by in met.values()
                    ),
                ]
                for arm in (DEFAULT, *ARMS)
                if any(arm in by for by in met.values())
            ],
        )
    return text


def _verdict(kept: Json) -> str:
    said = []
    for verdict, what in (("ahead", "worth something"), ("behind", "harmful")):
        named = [
            f"{ARMS[arm].partition(' (')[0]} at {budget}"
            for budget, by in kept["duels"].items()
            for arm, met in by.items()
            if Duel(**met).verdict() == verdict
        ]
        said.append(f"{what}: {', '.join(named) or 'nothing'}")
    missing = [
        f"{ARMS[arm].partition(' (')[0]} at {budget}"
        for budget, by in kept["duels"].items()
        for arm in ARMS
        if arm not in by
    ]
    text = f"Parts of the default that are {'; '.join(said)}. The others are undecided."
    return text + (f" Not yet run on all problems: {', '.join(missing)}." if missing else "")


def _draw(kept: Json) -> Figure:
    import matplotlib.pyplot as plt

    budgets = list(kept["duels"])
    figure, axis = plt.subplots(figsize=(7, 0.45 * len(ARMS) + 1.4))
    for k, (budget, hue) in enumerate(
        zip(budgets, ("#56b4e9", "#0072b2", "#001f4d"), strict=False)
    ):
        for place, arm in enumerate(reversed(ARMS)):
            if arm not in kept["duels"][budget]:
                continue
            met, y = Duel(**kept["duels"][budget][arm]), place + 0.16 * (0.5 - k)
            axis.plot([100 * met.low[-1], 100 * met.high[-1]], [y, y], color=hue)
            axis.plot(100 * met.won[-1], y, "o", color=hue, ms=4)
        axis.plot([], [], "o-", color=hue, label=f"{budget} median costs")
    axis.axvline(50, color="black", lw=1)
    axis.set_yticks(range(len(ARMS)), [ARMS[arm].partition(" (")[0] for arm in reversed(ARMS)])
    axis.set(
        xlim=(0, 100), xlabel="% of duels that the default wins against itself without it, 95 %"
    )
    axis.legend(fontsize=7)
    return figure


ARTEFACTS = (
    Artefact(
        "ablation",
        "which part of the default is worth what",
        _compute,
        _table,
        _verdict,
        _draw,
        SEEDS,
    ),
)
