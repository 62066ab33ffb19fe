"""Which part of the default is worth what: the default against itself without one part.

The arms are those of `benchmarks/without.py`. Both sides have the same problem, budget, seed and
source. A part is worth something if the default wins more than half of the duels against the arm
without it, with an interval above one half. The arms also meet the peers, with the kept runs of
these: so it is seen whether the default would still be ahead of them without a part.

The problems are those of `peers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = 10
BUDGETS = (15.0, 60.0)
PEERS = ("random", "optuna-tpe", "optuna-gp", "flaml-blendsearch")
ARMS = {
    "default-costs": "learnt costs (all configurations expected to cost the same)",
    "default-start": "start in the middle (four uniform points)",
    "default-kills": "kills at limits (as `minimize` in one process)",
    "default-explore": "forced exploration",
    "default-affordable": "affordability (P(c <= left), and the filter)",
    f"{DEFAULT}+median": "expected cost (exp of the mean of ln c)",
}


def _compute(settings: Settings) -> Json:
    if settings.budgets is None:
        settings = replace(settings, budgets=BUDGETS)
    methods, names = (DEFAULT, *ARMS), problems(2, settings)
    jobs = jobs_of(names, methods, settings, seeds=settings.count(SEEDS))
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
    return {
        "duels": found,
        "against": {peer: against(finals, peer, names, settings) for peer in PEERS},
        "counts": counted(runs, jobs),
    }


def against(finals: duels.Finals, peer: str, names: Sequence[str], settings: Settings) -> Json:
    """{budget: {arm: duel}} of the arms against the kept runs of a peer."""
    suite = f"peers-{peers.NAMES[peer]}" if peer in peers.NAMES else "tables"
    jobs = jobs_of(names, [peer], settings, seeds=settings.count(SEEDS))
    rival = finals_of(carry_out(jobs, suite, make_more=False, same_source=True))
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
