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
from benchmarks.evidence.replay import carry_out
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
    rivals = {peer: _kept(peer, names, settings) for peer in PEERS}
    return {
        "duels": found,
        "against": {peer: against(finals, peer, rivals[peer], names) for peer in PEERS},
        "distances": {
            budget: {arm: distances(finals[budget], rivals["random"][budget], arm) for arm in by}
            for budget, by in found.items()
            if budget in rivals["random"]
        },
        "counts": counted(runs, jobs),
    }


def _kept(peer: str, names: Sequence[str], settings: Settings) -> duels.Finals:
    suite = f"peers-{peers.NAMES[peer]}" if peer in peers.NAMES else "tables"
    jobs = jobs_of(names, [peer], settings, seeds=settings.count(SEEDS))
    return finals_of(carry_out(jobs, suite, make_more=False, same_source=True))


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
