"""docs/evidence.md and its pictures, from what is kept in benchmarks/results: `make evidence`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.evidence import measures
from benchmarks.evidence.artefacts import ARTEFACTS, comparison
from benchmarks.evidence.artefacts.artefact import (
    PICTURES,
    REPO,
    RESULTS,
    Artefact,
    Json,
    markdown,
    picture,
)
from benchmarks.evidence.artefacts.duels import Duel

PAGE = REPO / "docs" / "evidence.md"
TOP = """# Evidence

Most experiments of two papers, CArBO's and the Pareto one, on our own recordings, first seeds of
the lookahead and the stopping papers', and the tuners people use, on recorded tables
of others. Every section is made by the command in it
from the runs kept in `benchmarks/results`; losses are in the tables with the rest, and what has not
been run says so. `make evidence` writes this page and its pictures;
[benchmarks/README.md](../benchmarks/README.md) says how runs are made, which experiments are
missing, and how to add a problem or a peer.

## Five findings

"""
GLOSSARY = """
## Words

| word | meaning |
| --- | --- |
| typical cost | the median cost of a problem's configurations; a budget is a multiple of it |
| seed | one repetition: a random start of its own, on every problem another one |
| group | one problem, seed and budget that every method of a table has run |
| duel | one problem, seed and budget that two methods have run: the lower value wins |
| tie | equal values; on our recordings, errors less than a test row apart (2e-4). Half a duel |
| mean rank | 1 + duels lost + half of those tied; mean over seeds, budgets, problems, families |
| interval | 95 %, by drawing families, problems and seeds again; of duels, Wilson's where wider |
| undecided | the interval holds one half (duels) or nothing (time saved) |
| time saved | (t_rival - t_ours) / the longer of them; t: time to the worse of both final values |
| control | the same figure for the rival against another seed of itself: what chance makes of it |
| surrogate | a model of a recording that makes it continuous; its R² is that of left-out rows |
| rows | a table of some configurations only: whatever is asked becomes the nearest free one |
| EI, EIpu, EI_a | expected improvement, per cost, per cost to the power a |
| cooling, CArBO | EI per cost, the exponent falling to 0; the same after a cheap initial design |
| CEI_s | the cheapest configuration with at least 1 - s of the best EI |
| PBGI | Gittins indices of the posterior |

## How it was planned

Seeds, budgets, problems and measures are constants of the files in `benchmarks/artefacts`. Not all
of them were fixed before anything was run: the kept files hold runs of methods that were dropped
later (`cooling+linear` and `CEI_0.7+linear` on five tables), and after an audit of the first
results the measures of savings were changed, controls, intervals and two budgets were added,
sampled tables became the same for everybody and the peers' initial designs smaller. Runs made
before that are kept where they are still runs of the same job. The budgets of the lookahead's toy
and depth problems were cut from 30 to 8 mean costs after everybody had converged, the exchange
rates of `stopping-figure-1` were calibrated twice after looking at runs, and the rules by which
`Linear` and `AutoCost` select were chosen on tables of `pareto-figure-2`, with seeds that it leaves
out.

Seeds of `default`, `peers`, `rows-known` and `max_overrun` were the same on every problem until
2026-11-17, and so were a method's first configurations, as far as the spaces are alike: five seeds
were five starts, however many problems, and the intervals did not know it. Optuna's random first
points of seed 1 alone beat our random search on three quarters of the problems before there was a
model; two seeds of its GP sampler were that one and another. Now every problem has seeds of its own
and all four were made again, as far as they are there. The other artefacts still have the old
seeds: read their intervals as narrower than they should be.

Until the same day ours was told what a row of a sampled table gave as if it were what it had asked
for, a tenth of every axis away in the mean, while Optuna, SMAC and Ax were told the row: on those
12 tables it won 35 % of its duels with 15 median costs against Optuna's GP sampler and 32 % against
its TPE, and 50 and 53 % once it was told alike (48 duels each, of runs that are not kept).
Everybody whose interface takes it is told the row; FLAML's does not. Older runs of ours, which the
sections of the papers use among themselves, are not told.

"""


def build(page: Path = PAGE, results: Path = RESULTS, pictures: Path = PICTURES) -> Path:
    """Write the page; an artefact that has never been run is listed as such."""
    index, sections, missing, numbers = [], [], [], {}
    for artefact in ARTEFACTS:
        path = results / f"{artefact.name}.json"
        if not path.exists():
            missing.append(artefact.name)
            continue
        kept = json.loads(path.read_text())
        numbers[artefact.name] = kept["numbers"]
        drawn = picture(artefact, kept["numbers"], pictures)
        seeds = "-" if artefact.seeds is None else artefact.seeds
        name = f"[{artefact.name}](#{artefact.name})"
        index.append([name, seeds, artefact.verdict(kept["numbers"])])
        sections.append(_section(artefact, kept, drawn.name))
    text = TOP + "\n".join(f"{i}. {said}" for i, said in enumerate(findings(numbers), 1)) + "\n"
    text += GLOSSARY + markdown(("artefact", "planned seeds", "verdict so far"), index) + "\n\n"
    if missing:
        text += f"Not run yet: {', '.join(missing)}.\n\n"
    page.write_text(text + "\n".join(sections))
    return page


# ── the findings ───────────────────────────────────────────────────────────────────────────────


def findings(numbers: Mapping[str, Json]) -> list[str]:
    """Five sentences or so, from the kept numbers."""
    said: dict[Callable[..., str], tuple[str, ...]] = {
        _among_ours: ("default",),
        _against_peers: ("peers",),
        _against_the_best: ("peers",),
        _of_carbo: ("carbo-table-2", "carbo-surrogates"),
        _of_exponents: ("pareto-figure-5",),
    }
    return [
        say(*(numbers[name] for name in names))
        if all(name in numbers for name in names)
        else f"Not yet run: {', '.join(names)}."
        for say, names in said.items()
    ]


def _side(bounds: Sequence[float], above: str, below: str, between: str) -> str:
    """By where the interval of [middle, low, high] lies about nothing."""
    return above if bounds[1] > 0 else below if bounds[2] < 0 else between


def _percent(bounds: Sequence[float]) -> str:
    return f"{bounds[0]:.0f} % [{bounds[1]:.0f}, {bounds[2]:.0f}]"


def _among_ours(kept: Json) -> str:
    if not kept["budgets"]:
        return "Which of our policies is best: not yet run."
    mean = dict(zip(kept["methods"], kept["mean"], strict=True))
    best = min(mean, key=lambda method: mean[method])
    highest = kept["high"][kept["methods"].index(best)]
    level = [m for m, low in zip(mean, kept["low"], strict=True) if low <= highest and m != best]
    groups = sum(part["groups"] for part in kept["budgets"].values())
    head = "No policy of ours is clearly the best" if level else f"{best} is our best policy"
    return (
        f"**{head}.** In {groups} groups of {len(kept['families'])} families at "
        f"{', '.join(kept['budgets'])} median costs, the intervals of {len(level)} of "
        f"{len(mean) - 1} others meet that of the best mean rank, {best}'s {mean[best]:.2f}; the "
        f"default {comparison.DEFAULT} has {mean[comparison.DEFAULT]:.2f}, random search "
        f"{mean['random']:.2f}."
    )


def _against_peers(kept: Json) -> str:
    by: dict[str, list[str]] = {"ahead": [], "undecided": [], "behind": []}
    for peer, part in kept["duels"].items():
        for budget, duel in part.items():
            met = Duel(**duel)
            share = f", {met.text()}" if met.verdict() != "undecided" else ""
            by[met.verdict()].append(f"{peer} ({budget}{share}; {met.duels} duels)")
    counts = {word: len(names) for word, names in by.items()}
    return (
        f"**Against others the default is ahead in {counts['ahead']} of {sum(counts.values())} "
        f"comparisons, behind in {counts['behind']}, the rest is undecided.** "
        + "; ".join(f"{word}: {', '.join(names) or 'none'}" for word, names in by.items())
        + "."
    )


def _against_the_best(kept: Json) -> str:
    if not kept["reach"]:
        return "What the default saves over the best peer: not yet run."
    said, sides = [], []
    for budget, problems in kept["reach"].items():
        saved, control = (
            measures.mean_of_medians(
                [[s for s in part[what] if s is not None] for part in problems.values()]
            )
            for what in ("saved", "control")
        )
        sides.append(_side(saved, "yes", "no, it loses", "undecided"))
        said.append(
            f"{_percent(saved)} at {budget} median costs on {len(problems)} problems (control "
            f"{_percent(control)})"
        )
    return (
        f"**Does the default save time over the best peer of each problem? "
        f"{', '.join(dict.fromkeys(sides)).capitalize()}.** Of that peer's own time: "
        f"{'; '.join(said)}."
    )


def _of_carbo(table: Json, kinds: Json) -> str:
    net = measures.mean_of_medians([part["time_saved"] for part in table["problems"].values()])
    others = {kind: part for kind, part in kinds["kinds"].items() if kind != "gp"}
    said = [
        f"{kind} {_percent(part['nets']['time_saved'])} ({part['pairs']} pairs)"
        if part["pairs"]
        else f"{kind}: not yet run"
        for kind, part in others.items()
    ]
    return (
        f"**Does CArBO save time? {_side(net, 'Yes', 'No, it loses', 'Undecided')}.** Over the "
        f"next best of EI, EIpu and random it saves {_percent(net)} of that one's time on the "
        "Gaussian-process surrogates, where the paper has 32.5 % by another measure; on the same "
        f"recordings without our kind of model: {', '.join(said)}."
    )


def _of_exponents(kept: Json) -> str:
    if not kept["pairs"]:
        return "What dividing by cost gives and takes: not yet run."
    part = kept["methods"]["EIpu"]
    gain, loss = part["gain"]["mean"], part["loss"]["mean"]
    cheaper = _side(gain, "is cheaper", "is dearer", "is not surely cheaper")
    worse = _side(loss, "is worse, as in the paper", "is better", "is not surely worse")
    return (
        f"**EI per cost {cheaper} than EI and {worse}.** EIpu's {kept['evaluations']} evaluations "
        f"cost {_percent(gain)} less than EI's and end {loss[0]:+.1f} % [{loss[1]:+.1f}, "
        f"{loss[2]:+.1f}] above its value ({part['pairs']} pairs of problem and seed, our log-GP "
        "cost model; the paper says that EIpu loses much)."
    )


def _section(artefact: Artefact, kept: Json, drawn: str) -> str:
    about, numbers = kept["about"], kept["numbers"]
    options = "" if about.get("seeds") is None else f" --seeds {about['seeds']}"
    options += " --kept" if about.get("kept_only") else ""
    made = f"{about['date']}, farthing {about['farthing']} at {about['commit']}, {about['cpu']}"
    quick = " **A quick run: no evidence.**" if about["quick"] else ""
    return (
        f"## {artefact.name}\n\n"
        f"`python -m benchmarks {artefact.name}{options}` ({made}){quick}\n\n"
        f"The question: {artefact.claim}.\n\n"
        f"**{artefact.verdict(numbers)}**\n\n"
        f"![{artefact.name}](evidence/{drawn})\n\n"
        f"{artefact.table(numbers)}\n"
    )
