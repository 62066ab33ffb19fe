"""Where the middle of each space ranks, since the default evaluates it first (`centre`).

The middle is compared with uniform configurations (rows of a sampled table): the share of them that
is better, and its cost over theirs. A share of one half is what a random first point has in the
median. `moved/...` is compared over ten seeds, and the median is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.evidence.artefacts.artefact import Artefact, Json, Settings, markdown
from benchmarks.evidence.artefacts.comparison import SYNTHETIC, problems
from benchmarks.evidence.replay import Rows
from benchmarks.problems import Evaluation, load
from farthing.acquisition.initial_design import first_point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 1_000
SEEDS = 10
GOOD = 0.05  # share of better configurations below which the middle is a gift


def ranked(name: str, seed: int, settings: Settings) -> tuple[float, float]:
    """(share of uniform configurations better than the middle, its cost over their median)."""
    problem = load(name, settings.data, seed=seed)
    middle = problem.space.decode(first_point(problem.space))
    rng = np.random.default_rng(0)
    draws = 20 if settings.quick else DRAWS
    if problem.table is None:
        X = problem.space.sample(draws, rng)
        drawn = [problem.at(problem.space.decode(x)) for x in X]
    else:
        rows = problem.table.rows
        assert rows is not None
        drawn = [
            problem.at(problem.table.decode(x)) for x in rows[rng.permutation(len(rows))[:draws]]
        ]
        middle = Rows(problem.table).nearest(middle)
    here = problem.at(middle)
    better = np.mean([_value(each) < _value(here) for each in drawn])
    return float(better), float(here.cost / np.median([each.cost for each in drawn]))


def _value(evaluation: Evaluation) -> float:
    """A failure is worse than every value."""
    return np.inf if evaluation.value is None else evaluation.value


def _compute(settings: Settings) -> Json:
    usual = problems(3, settings)
    fixed = [name.replace("moved/", "synthetic/") for name in usual if name in SYNTHETIC]
    found = {}
    for name in [*usual, *fixed]:
        seeds = range(SEEDS if name in SYNTHETIC else 1)
        better, cost = np.median([ranked(name, s, settings) for s in seeds], axis=0)
        found[name] = {"better": round(float(better), 4), "cost": round(float(cost), 4)}
    return {"problems": found, "draws": 20 if settings.quick else DRAWS}


def _families(kept: Json) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for name, part in kept["problems"].items():
        found.setdefault(name.partition("/")[0], []).append(part)
    return found


def _table(kept: Json) -> str:
    rows = [
        [name, f"{100 * part['better']:.1f} %", part["cost"]]
        for name, part in kept["problems"].items()
    ]
    header = ("problem", "uniform configurations better than the middle", "cost / median cost")
    return markdown(header, rows) + f"\n\n{kept['draws']:,} uniform configurations of each problem."


def _verdict(kept: Json) -> str:
    said = "; ".join(
        f"{family} {100 * np.median([part['better'] for part in parts]):.0f} %"
        for family, parts in _families(kept).items()
    )
    gifts = [name for name, part in kept["problems"].items() if part["better"] < GOOD]
    recorded = [n for n in kept["problems"] if n.partition("/")[0] not in ("synthetic", "moved")]
    over = np.median([kept["problems"][name]["better"] for name in recorded])
    return (
        f"On recorded problems {100 * over:.0f} % of uniform configurations are better than the "
        f"middle, in the median (by family: {said}). Fewer than {100 * GOOD:.0f} % are better on "
        f"{len(gifts)} of {len(kept['problems'])} problems: {', '.join(gifts) or 'none'}."
    )


def _draw(kept: Json) -> Figure:
    import matplotlib.pyplot as plt

    families = _families(kept)
    figure, axis = plt.subplots(figsize=(6.5, 0.28 * len(families) + 1.0))
    for place, parts in enumerate(families.values()):
        better = [100 * part["better"] for part in parts]
        axis.plot(better, [place] * len(better), "o", ms=5, color="#0072b2", alpha=0.7)
    axis.axvline(50, color="black", lw=1)
    axis.set_yticks(range(len(families)), list(families))
    axis.set(xlim=(-2, 102), xlabel="% of uniform configurations better than the middle")
    axis.invert_yaxis()
    return figure


ARTEFACTS = (
    Artefact(
        "centre",
        "whether the middle of the space, where the default starts, is a gift",
        _compute,
        _table,
        _verdict,
        _draw,
    ),
)
