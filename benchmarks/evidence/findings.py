"""The findings and the weak points of the first page: one sentence each, from the kept numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.evidence.artefacts import ablation, comparison, unused_tables
from benchmarks.evidence.artefacts.artefact import Json
from benchmarks.evidence.artefacts.duels import Duel

FEW_DUELS = 100  # fewer on every budget decide little
BUDGET = "60"  # median costs of the first finding


def findings(numbers: Mapping[str, Json]) -> list[str]:
    """Five sentences with a number each."""
    return _each(
        numbers,
        {
            _of_peers: ("peers",),
            _of_savings: ("peers",),
            _of_policies: ("default",),
            _of_parts: ("ablation", "unused-tables"),
            _of_realtime: ("realtime",),
        },
    )


def weak_points(numbers: Mapping[str, Json]) -> list[str]:
    """What is thin, and what is lost."""
    return [
        *_each(
            numbers,
            {
                _few_duels: ("peers",),
                _few_runs: ("default", "peers", "realtime"),
                _losses: ("peers",),
                _chosen_here: ("unused-tables",),
            },
        ),
    ]


def _each(
    numbers: Mapping[str, Json], sentences: Mapping[Callable[..., str], tuple[str, ...]]
) -> list[str]:
    """Each sentence from the numbers of its artefacts, or that they have not been run."""
    return [
        sentence(*(numbers[name] for name in names))
        if all(name in numbers for name in names)
        else f"Not yet run: {', '.join(names)}."
        for sentence, names in sentences.items()
    ]


def _percent(bounds: Sequence[float]) -> str:
    return f"{bounds[0]:.0f} % [{bounds[1]:.0f}, {bounds[2]:.0f}]"


def _well_run(kept: Json) -> list[str]:
    """The peers with enough duels on some budget, without random search."""
    return [
        peer
        for peer, by in kept["duels"].items()
        if peer != "random" and max(part["duels"] for part in by.values()) >= FEW_DUELS
    ]


def _of_peers(kept: Json) -> str:
    met = {
        peer: Duel(**kept["duels"][peer][BUDGET])
        for peer in _well_run(kept)
        if BUDGET in kept["duels"][peer]
    }
    if not met:
        return "The duels with the peers: not yet run."
    order = sorted(met, key=lambda peer: -met[peer].won[-1])
    said = ", ".join(f"{met[peer].text()} against {peer}" for peer in order)
    undecided = {
        peer: [
            b for b, part in kept["duels"][peer].items() if Duel(**part).verdict() == "undecided"
        ]
        for peer in order
    }
    open_ = [f"{peer} with {', '.join(some)}" for peer, some in undecided.items() if some]
    survives = comparison.surviving(kept)
    sure = [peer for peer in order if survives[peer, BUDGET]]
    ahead = sum(duel.verdict() == "ahead" for duel in met.values())
    return (
        f"**With {BUDGET} median costs the default is ahead of {ahead} of the {len(met)} peers "
        f"that have {FEW_DUELS} duels**: it wins {said} of the duels. Undecided: "
        f"{'; '.join(open_) or 'none'}. If all {len(survives)} comparisons are tested together "
        f"(Holm), {', '.join(sure) or 'none'} remain."
    )


def _of_savings(kept: Json) -> str:
    said, sure = [], 0
    for budget in sorted(kept["reach"], key=float):
        net, control = (comparison.net(kept, budget, what) for what in ("saved", "control"))
        sure += net[1] > 0 or net[2] < 0
        said.append(f"{_percent(net)} with {budget} (control {_percent(control)})")
    head = "Time is saved or lost surely with some budgets" if sure else "No saving is sure"
    return (
        f"**{head}**: over the best peer of each problem the default saves "
        f"{', '.join(said) or 'an amount not yet measured'} median costs, of that peer's own time."
    )


def _of_policies(kept: Json) -> str:
    if not kept["budgets"]:
        return "Which policy of Farthing is best: not yet run."
    mean = dict(zip(kept["methods"], kept["mean"], strict=True))
    best = min(mean, key=lambda method: mean[method])
    highest = kept["high"][kept["methods"].index(best)]
    level = [m for m, low in zip(mean, kept["low"], strict=True) if low <= highest and m != best]
    groups = sum(part["groups"] for part in kept["budgets"].values())
    head = "No policy of Farthing is clearly the best" if level else f"{best} is the best policy"
    return (
        f"**{head}**: {len(level)} of {len(mean) - 1} intervals overlap that of the best mean "
        f"rank, {best}'s {mean[best]:.2f} (default {mean[comparison.DEFAULT]:.2f}, random search "
        f"{mean['random']:.2f}; {groups} groups)."
    )


def _of_parts(kept: Json, unused: Json) -> str:
    """What the cost model is worth, and which other parts are worth something."""
    by_arm = {
        (arm, budget): Duel(**met)
        for budget, by in kept["duels"].items()
        for arm, met in by.items()
    }
    if not by_arm:
        return "Which part of the default is worth what: not yet run."
    aware = {budget: met for (arm, budget), met in by_arm.items() if arm == ablation.NO_COSTS}
    said = ", ".join(f"{met.text()} with {budget}" for budget, met in aware.items())
    sure = {met.verdict() for met in aware.values()} - {"undecided"}
    at = ", ".join(budget for budget, met in aware.items() if met.verdict() in sure)
    one = len(sure) == 1
    head = f"{WORTH[sure.pop()]} with {at}" if one else "are not surely worth anything"
    sides = [
        f"{', '.join(some)} {word}"
        for word, side in (("surely helps", "ahead"), ("surely harms", "behind"))
        if (
            some := [
                f"{ablation.ARMS[arm].partition(' (')[0]} with {budget}"
                for (arm, budget), met in by_arm.items()
                if met.verdict() == side and arm != ablation.NO_COSTS
            ]
        )
    ]
    where = ", ".join(
        f"{_on_unused(unused, ablation.NO_COSTS, part)} where {part}"
        for part in (unused_tables.MUCH, unused_tables.LESS)
    )
    return (
        f"**Learnt costs {head}**: against itself without them the default wins "
        f"{said or 'a share not yet measured'} median costs. On "
        f"{len(unused['tables']['all'])} other tables it wins "
        f"{_on_unused(unused, ablation.NO_COSTS)} with {BUDGET} ({where}). Of its other "
        f"parts, {'; '.join(sides) or 'none is surely worth anything'}."
    )


def _on_unused(unused: Json, rival: str, part: str = "all") -> str:
    """The share of duels won on the tables of `unused-tables`, at the end of BUDGET."""
    met = unused["duels"].get(rival, {}).get(part, {}).get(BUDGET)
    return "a share not yet measured" if met is None else Duel(**met).text()


WORTH = {"ahead": "are worth something", "behind": "do harm"}


def _of_realtime(kept: Json) -> str:
    parts = []
    for budget in kept["models"]:
        met = {m: Duel(**by[budget]) for m, by in kept["duels"].items() if budget in by}
        shares = ", ".join(f"{duel.text()} against {method}" for method, duel in met.items())
        parts.append(f"with {budget} s the default wins {shares}")
    return (
        f"**Real training, overhead included**: {'; '.join(parts) or 'not yet run'} "
        f"({kept['runs']} of {kept['planned']} runs)."
    )


def _few_duels(kept: Json) -> str:
    most = {peer: max(part["duels"] for part in by.values()) for peer, by in kept["duels"].items()}
    few = {peer: duels for peer, duels in most.items() if duels < FEW_DUELS}
    return f"At most {max(few.values(), default=0)} duels per budget: {', '.join(few) or 'none'}."


def _few_runs(default: Json, peers: Json, realtime: Json) -> str:
    def share(counts: Json) -> str:
        runs, planned = (sum(c[k] for c in counts.values()) for k in ("runs", "planned"))
        return f"{runs:,} of {planned:,}"

    return (
        f"Complete runs: {share(default['counts'])} (`default`), "
        f"{share(peers['counts'])} (`peers`), {realtime['runs']} of {realtime['planned']} "
        "(`realtime`)."
    )


def _losses(kept: Json) -> str:
    behind = [
        f"{peer} at {budget}"
        for peer, by in kept["duels"].items()
        for budget, part in by.items()
        if Duel(**part).verdict() == "behind"
    ]
    lost = [
        f"{problem} at {budget} median costs"
        for budget in kept["problems"]
        for problem in comparison.against_random_by_problem(kept, budget)["behind"]
    ]
    return (
        f"The default is behind {', '.join(behind) or 'no peer'} over all problems, and behind "
        f"random search on {', '.join(lost) or 'no problem'}."
    )


def _chosen_here(unused: Json) -> str:
    said = ", ".join(
        f"{_on_unused(unused, peer)} against {unused_tables.RIVALS[peer]}"
        for peer in ("random", *unused_tables.PEERS)
    )
    return (
        "The default was chosen on these problems. On "
        f"{len(unused['tables']['all'])} other tables, with {BUDGET}, it wins {said} of the duels."
    )
