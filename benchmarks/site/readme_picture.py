"""The picture of README.md: best value against cost, Farthing and two peers on one problem.

    python -m benchmarks.site.readme_picture      writes docs/figures/readme.png, prints its facts

The rule for the problem: of the tables whose costs were measured, take the one whose shares of
duels won, rival by rival, are nearest to the medians over all problems. "Measured" was added to
the rule after pictures of four candidates had been seen. Without it the rule gives
yahpo_rbv2_rpart/41150, a model of training times, where Farthing reaches its final value sooner.

The picture comes from the kept runs: no run and no data set is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.evidence.artefacts import duels
from benchmarks.evidence.artefacts.artefact import REPO, STYLE, Settings
from benchmarks.evidence.artefacts.comparison import (
    DEFAULT,
    SEEDS,
    SUITE,
    finals_of,
    jobs_of,
    problems,
)
from benchmarks.evidence.artefacts.curves import Array, curves, middle
from benchmarks.evidence.replay import Job, Run, carry_out, kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = REPO / "docs" / "figures" / "readme.png"
BUDGET = 60.0  # median costs
PROBLEM = "fcnet/parkinsons_telemonitoring"  # the result of `typical`; the labels fit this problem
RIVALS = ("random", "flaml-blendsearch", "flaml-cfo", "optuna-gp", "optuna-tpe")  # on all problems
# Families of tables that hold measured seconds. The costs of the other families are predictions of
# a model or formulas.
MEASURED = (
    *("deepar", "fcnet", "gpu_kernels", "hpobench_mlp", "nats_tss", "ongrid"),
    "tabrepo_lightgbm",
)
DRAWN = {  # label, colour, shift of the label in points
    "flaml-blendsearch": ("FLAML BlendSearch", "#6e6e6e", 7),  # ends lower here than FLAML's CFO
    "optuna-tpe": ("Optuna TPE", "#d55e00", -5),
    DEFAULT: ("Farthing", "#0072b2", 0),
}
STEPS = np.linspace(0.0, 1.0, 601)  # shares of the budget: ten for each median cost


def kept_runs() -> dict[Job, Run]:
    """The runs of the default and its rivals with this budget, from `benchmarks peers`."""
    settings = Settings(budgets=(BUDGET,))
    jobs = set(jobs_of(problems(2, settings), (DEFAULT, *RIVALS), settings))
    ours = carry_out(jobs, SUITE, make_more=False, same_source=True)
    theirs = kept("peers-flaml") | kept("peers-optuna")
    return {**ours, **{job: run for job, run in theirs.items() if job in jobs}}


def shares_won(runs: Mapping[Job, Run]) -> dict[str, Array]:
    """{problem: share of duels that the default won at the end, for each rival}."""
    finals = finals_of(runs)
    won: dict[str, list[float]] = {}
    for rival in RIVALS:
        for part in duels.ranked(finals, [DEFAULT, rival]).values():
            for problem, by in part.items():
                (ranks,) = by.values()  # (seeds, shares of the budget, [ours, theirs])
                won.setdefault(problem, []).append(float(2.0 - ranks[:, -1, 0].mean()))
    return {problem: np.array(each) for problem, each in won.items()}


def typical(won: Mapping[str, Array]) -> str:
    """The problem with measured costs whose shares are nearest to the medians of all problems."""
    middles = np.median(list(won.values()), axis=0)
    measured = [problem for problem in won if problem.partition("/")[0] in MEASURED]
    return min(measured, key=lambda problem: float(np.abs(won[problem] - middles).sum()))


def draw(runs: Mapping[Job, Run]) -> Figure:
    """Median and quartiles of each method: mean squared error against minutes of training."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.0, 4.3))
    for method, (name, hue, shift) in DRAWN.items():
        of = [runs[job] for job in runs if (job.problem, job.method) == (PROBLEM, method)]
        minutes = STEPS * of[0].limit / 60.0
        best = curves(of, STEPS)
        low, high = np.quantile(np.where(np.isnan(best), 9.0, best), (0.25, 0.75), axis=0)
        median = 10.0 ** middle(best)  # the table has log10 of the error
        axis.fill_between(minutes, 10.0**low, 10.0**high, step="post", color=hue, alpha=0.13, lw=0)
        axis.step(minutes, median, where="post", color=hue, lw=2.6 if method == DEFAULT else 1.8)
        axis.plot(minutes[-1], median[-1], "o", color=hue, ms=5, clip_on=False)
        axis.annotate(
            name,
            (minutes[-1], median[-1]),
            xytext=(10, shift),
            textcoords="offset points",
            va="center",
            color=hue,
            weight="bold" if method == DEFAULT else "normal",
            annotation_clip=False,
        )
    axis.set_yscale("log")
    axis.set(xlim=(0.0, minutes[-1]), ylim=(0.005, 0.2))
    ticks = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("training time paid for (minutes)")
    axis.set_ylabel("lowest validation error so far (log scale)")
    axis.set_title("Best result so far against what it cost", weight="bold", loc="left", pad=24)
    axis.annotate(
        "FCNet parkinsons_telemonitoring, a network with 9 hyperparameters; "
        f"median and quartiles of {SEEDS} seeds",
        (0, 1),
        xytext=(0, 9),
        xycoords="axes fraction",
        textcoords="offset points",
        color="#555555",
        fontsize=9.5,
    )
    return figure


def main() -> int:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = kept_runs()
    counts = {m: sum((job.problem, job.method) == (PROBLEM, m) for job in runs) for m in DRAWN}
    if set(counts.values()) != {SEEDS}:
        print(
            f"Each method needs {SEEDS} runs on {PROBLEM}, those of Farthing made by this source. "
            f"There are {counts}. Run `python -m benchmarks peers --budgets {BUDGET:g}` first."
        )
        return 1
    won = shares_won(runs)
    if typical(won) != PROBLEM:
        print(f"The typical problem is now {typical(won)}. Change PROBLEM and the labels.")
        return 1
    with plt.rc_context({**STYLE, "font.size": 11}):
        figure = draw(runs)
        figure.savefig(PICTURE, dpi=150, facecolor="white", metadata={"Software": None})
        plt.close(figure)
    print(f"{PROBLEM}, {BUDGET:g} median costs, {SEEDS} seeds of each method")
    print("duels won:", dict(zip(RIVALS, won[PROBLEM].round(2).tolist(), strict=True)))
    print(f"wrote {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
