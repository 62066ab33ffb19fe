"""The claims of the papers and what the kept numbers say about each: the table `CLAIMS`.

The limits beyond which a claim does not hold are here. The numbers of the papers are theirs; all
others come from the kept results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np

from benchmarks.evidence import measures
from benchmarks.evidence.artefacts import (
    carbo,
    carbo_batches,
    cost_models,
    pareto,
    rollout,
    stopping,
)
from benchmarks.evidence.artefacts.artefact import Json, markdown
from benchmarks.evidence.artefacts.curves import numbers
from benchmarks.evidence.claims import (
    ABOVE_ZERO,
    AGREES,
    BELOW_ZERO,
    DIFFERS,
    MOST,
    THIN,
    Claim,
    in_words,
    judge,
    of_count,
    share,
    with_seeds,
)
from benchmarks.problems import recorded

LITTLE = 1.0  # percent of an error: what "little or no loss" may be
PARETO_SEEDS = 5


def of_all(kept: Mapping[str, Json]) -> dict[str, list[Claim]]:
    """The claims of every artefact that has numbers; "-" if only Farthing's version has one."""
    found = {}
    for name, say in CLAIMS.items():
        if part := kept.get(name):
            found[name] = say(part)
            there = {claim.claim for claim in found[name]}
            others = say(part["farthing"]) if "farthing" in part else []
            found[name] += [replace(c, ours="-") for c in others if c.claim not in there]
    return found


def board(kept: Mapping[str, Json], found: Mapping[str, Sequence[Claim]]) -> str:
    """One row per claim."""
    rows = []
    for name, claims in found.items():
        part = kept[name]
        others = CLAIMS[name](part["farthing"]) if "farthing" in part else []
        versions = {claim.claim: claim.ours for claim in others}
        for claim in claims:
            rows.append(
                [
                    f"[{name}](evidence/{name}.md)",
                    claim.claim,
                    claim.paper,
                    claim.ours + (" *" if part.get("as_printed") and claim.ours != "-" else ""),
                    versions.get(claim.claim),
                    claim.seeds,
                    claim.verdict,
                ]
            )
    header = ("where", "the paper's claim", "the paper", "ours", "Farthing's version", "seeds")
    if all(row[4] is None for row in rows):  # no artefact has both
        return markdown([*header[:4], "seeds", "verdict"], [[*r[:4], *r[5:]] for r in rows])
    return markdown([*header, "verdict"], rows)


def verdicts(found: Mapping[str, Sequence[Claim]]) -> dict[str, int]:
    """The number of claims that agree, differ and are too thin."""
    counts = {AGREES: 0, DIFFERS: 0, THIN: 0}
    for claim in (claim for claims in found.values() for claim in claims):
        counts[THIN if claim.verdict.startswith(THIN) else claim.verdict] += 1
    return counts


class Finding(NamedTuple):
    """What the kept numbers say about a claim; `fields` fills the braces of the claim's texts."""

    ours: str
    seeds: int | None
    verdict: str
    fields: Mapping[str, str] = {}


Find = Callable[[Json], Finding | None]  # None: there are no numbers


def _difference(one: Sequence[float], other: Sequence[float], scale: float = 1.0) -> list[float]:
    """[mean, low, high] of the differences of seeds that both have."""
    gap = (np.asarray(one) - np.asarray(other)) * scale
    return [float(gap.mean()), *measures.bootstrap([gap])]


def _judged(
    bounds: Sequence[float],
    holds: tuple[float, float],
    seeds: int,
    enough: int,
    unit: str = "",
    digits: int = 0,
) -> Finding:
    """A percentage with its interval."""
    verdict = judge(*bounds[1:], holds, seeds, enough)
    return Finding(in_words(bounds, digits=digits) + unit, seeds, verdict)


def _mostly(held: int, total: int, seeds: int, enough: int, unit: str = "") -> Finding:
    """A count of cases, which should be more than half of them."""
    verdict = judge(*share(held, total)[1:], MOST, seeds, enough)
    return Finding(of_count(held, total) + unit, seeds, verdict)


# ── CArBO (Lee et al. 2020) ────────────────────────────────────────────────────────────────────


def _carbo_seeds(parts: Mapping[str, Json]) -> int:
    return min(part["seeds"] for part in parts.values())


def _cost_spread(kept: Json) -> Finding:
    spans = [float(str(row[5])) for row in carbo._distribution_rows(kept)]
    wide = sum(span >= 10 for span in spans)
    verdict = AGREES if wide == len(spans) else DIFFERS
    return Finding(f"{wide} of {len(spans)} models", None, verdict)


def _expensive_optimum(kept: Json) -> Finding:
    finals = {m: numbers(kept["finals"][m]) for m in ("EI", "EIpu")}
    gap = _difference(finals["EIpu"], finals["EI"], 100 / float(np.mean(finals["EI"])))
    return _judged(gap, ABOVE_ZERO, kept["seeds"], carbo.SEEDS, " of EI's error")


def _schedules(kept: Json) -> Finding:
    rises = carbo.rises_most(kept)
    held, seeds = sum(rises.values()), min(kept["seeds"])
    return _mostly(held, len(rises), seeds, carbo.SEEDS, " problems")


def _cover(kept: Json) -> Finding:
    grid = carbo._fill(np.array(kept["grid"]))[0]
    fills = [carbo._fill(np.array(part["Algorithm 1"]))[0] for part in kept["spans"].values()]
    better = sum(fill < grid for fill in fills)
    verdict = AGREES if 2 * better > len(fills) else DIFFERS
    return Finding(f"smaller at {better} of {len(fills)} cost ranges", None, verdict)


def _fastest(kept: Json) -> Finding:
    first = carbo.first_by_area(kept)
    won = sum(method == "CArBO" for method in first.values())
    return _mostly(won, len(first), _carbo_seeds(kept["problems"]), carbo.SEEDS)


def _batch_loss(kept: Json) -> Finding | None:
    if not kept["sizes"]:
        return None
    one = float(np.nanmean(numbers(kept["sizes"]["1"]["finals"])))
    loss = [100 * bound / one for bound in carbo_batches.losses(kept)["16"]]
    return _judged(loss, (-inf, LITTLE), kept["seeds"], carbo.SEEDS, " of the error", digits=2)


def _design_share(kept: Json) -> Finding:
    finals = carbo._finals(kept)
    loss = _difference(finals["CArBO_6/8"], finals["CArBO"], 100 / float(np.mean(finals["CArBO"])))
    return _judged(loss, (-inf, LITTLE), kept["seeds"], carbo.SEEDS, " worse", digits=1)


def _design_or_cooling(kept: Json) -> Finding:
    finals = carbo._finals(kept)
    design, cooling = finals["EI"] - finals["cover+EI"], finals["cover+EI"] - finals["CArBO"]
    more = _difference(design, cooling, 100 / float(np.mean(finals["EI"])))
    return _judged(more, ABOVE_ZERO, kept["seeds"], carbo.SEEDS, " of the error", digits=1)


def _cooled(kept: Json) -> Finding:
    last = {m: carbo._final(line["mean"]) for m, line in kept["normalised"].items()}
    order = sorted(last, key=lambda m: last[m])
    verdict = with_seeds(AGREES if order[0] == "cooling" else DIFFERS, kept["seeds"], carbo.SEEDS)
    return Finding(f"place {order.index('cooling') + 1} of {len(order)}", kept["seeds"], verdict)


def _lowest_errors(kept: Json) -> Finding:
    parts = kept["problems"]
    lowest = carbo.win_counts(parts)[0]["CArBO"]
    return _mostly(lowest, len(parts), _carbo_seeds(parts), carbo.SEEDS)


def _above_ei(kept: Json) -> Finding:
    parts, papers = kept["problems"], 9 / 20
    worse, seeds = carbo.worse_than_ei(parts), _carbo_seeds(parts)
    _, low, high = share(worse, len(parts))
    side = AGREES if low <= papers <= high else DIFFERS
    verdict = with_seeds(side, seeds, carbo.SEEDS)
    return Finding(of_count(worse, len(parts)), seeds, verdict)


def _lowest_in_batches(kept: Json) -> Finding | None:
    batches = carbo_batches._batches(kept)
    if not batches:
        return None
    counts = {size: carbo.win_counts(part)[0]["CArBO"] for size, part in batches.items()}
    bounds = [share(count, len(batches[size])) for size, count in counts.items()]
    papers = ", ".join(str(carbo_batches.PAPER_WINS[int(size)]) for size in counts)
    return _batched(batches, ", ".join(map(str, counts.values())), bounds, MOST, papers)


def _time_saved(kept: Json) -> Finding:
    parts = kept["problems"]
    saved = carbo.net_savings(parts)["time_saved"]
    return _judged(saved, ABOVE_ZERO, _carbo_seeds(parts), carbo.SEEDS)


def _time_saved_in_batches(kept: Json) -> Finding | None:
    batches = carbo_batches._batches(kept)
    if not batches:
        return None
    saved = [carbo.net_savings(part)["time_saved"] for part in batches.values()]
    ours = ", ".join(f"{net[0]:.0f}" for net in saved) + " %"
    papers = ", ".join(f"{carbo_batches.PAPER_NETS[int(size)]:.0f}" for size in batches) + " %"
    return _batched(batches, ours, saved, ABOVE_ZERO, papers)


def _batched(
    batches: Mapping[str, Mapping[str, Json]],
    ours: str,
    bounds: Sequence[Sequence[float]],
    holds: tuple[float, float],
    papers: str,
) -> Finding:
    """One claim for all sizes of batches; it must hold for each."""
    _, lows, highs = zip(*bounds, strict=True)
    few = min(map(_carbo_seeds, batches.values()))
    verdict = judge(min(lows), max(highs), holds, few, carbo_batches.BATCH_SEEDS)
    return Finding(ours, few, verdict, {"sizes": ", ".join(batches), "papers": papers})


def _flops(kept: Json) -> Finding:
    gp, flops = (np.array(kept["rmse"][m])[:, 0] for m in ("warped GP", "flops"))
    more = 100 * (flops - gp) / gp.mean()
    problems = sum("/mlp-" in name for name in recorded.names("carbo"))
    groups = np.array_split(more, problems)  # kept problem by problem
    bounds, seeds = [float(more.mean()), *measures.bootstrap(groups)], len(more) // problems
    return _judged(bounds, BELOW_ZERO, seeds, cost_models.SEEDS, " more error")


def _flops_save(kept: Json) -> Finding | None:
    groups = [np.array(part["saving"]) for part in kept["problems"].values()]
    if not groups:
        return None
    net = [float(np.mean([g.mean() for g in groups])), *measures.bootstrap(groups)]
    return _judged(net, ABOVE_ZERO, min(map(len, groups)), cost_models.SEEDS)


def _flops_of_a_network(kept: Json) -> Finding:
    both, gp = (np.array(kept["rmse"][m]) for m in ("GP, flops its mean", "warped GP"))
    few, many = (_difference(both[:, k], gp[:, k], 100 / float(gp[:, k].mean())) for k in (0, -1))
    sides = {judge(*few[1:], BELOW_ZERO, None, 0), judge(*many[1:], ABOVE_ZERO, None, 0)}
    side = DIFFERS if DIFFERS in sides else THIN if THIN in sides else AGREES
    first, last = kept["counts"][0], kept["counts"][-1]
    ours = f"n = {first}: {in_words(few)} error; n = {last}: {in_words(many)} error"
    return Finding(ours, len(gp), side)


# ── Pareto (Guinet et al. 2020) ────────────────────────────────────────────────────────────────


def _pareto_seeds(kept: Json) -> int:
    return int(kept["pairs"] // max(1, len(kept["r2"])))


def _plateau(kept: Json) -> Finding:
    parts = [part for at in kept["fronts"].values() for part in at.values()]
    saved = 100 * (1 - np.mean([part["plateau"] for part in parts]))
    return Finding(f"{saved:.0f} % cheaper for a tenth less EI", 1, THIN)


def _linear_costs(kept: Json) -> Finding | None:
    """Figure 2 is about XGBoost: the other families do not count here."""
    gaps = cost_models.linear_against_gp(kept, "xgboost")
    within = {n: gap for n, gap in gaps.items() if 5 <= n <= 20}
    if not within:
        return None
    _, lows, highs = zip(*within.values(), strict=True)
    said = ", ".join(f"{gap[0]:.0f}" for gap in within.values())
    return Finding(
        f"{said} % [{min(lows):.0f}, {max(highs):.0f}] error",
        kept["seeds"],
        judge(min(lows), max(highs), BELOW_ZERO, kept["seeds"], PARETO_SEEDS),
        {"counts": f"{min(within)} to {max(within)}"},
    )


def _exponents(kept: Json) -> Finding | None:
    if not pareto._enough(kept):
        return None
    seeds, half = _pareto_seeds(kept), pareto.GOAL_GAIN
    gain, loss = (numbers(kept["methods"]["EI_0.1"][what]["mean"]) for what in ("gain", "loss"))
    low, high = gain[1:]
    verdict = with_seeds(
        AGREES if low <= half <= high or low > half else DIFFERS, seeds, PARETO_SEEDS
    )
    return Finding(f"{in_words(gain)} for {in_words(loss, digits=1)}", seeds, verdict)


def _severe_loss(kept: Json) -> Finding | None:
    if not pareto._enough(kept):
        return None
    loss = numbers(kept["methods"]["EIpu"]["loss"]["mean"])
    severe = (pareto.GOAL_LOSS, inf)
    return _judged(loss, severe, _pareto_seeds(kept), PARETO_SEEDS, digits=1)


def _best_exponent(kept: Json) -> Finding | None:
    if not pareto._enough(kept):
        return None
    between, seeds, total = pareto.between_wins(kept), _pareto_seeds(kept), len(pareto.MULTIPLES)
    verdict = with_seeds(AGREES if 2 * between > total else DIFFERS, seeds, PARETO_SEEDS)
    return Finding(f"one between 0 and 1 at {between} of {total} budgets", seeds, verdict)


def _contextual(kept: Json) -> Finding | None:
    if not pareto._enough(kept):
        return None
    gain, seeds = {}, _pareto_seeds(kept)
    for kind, methods in (("CEI", pareto.SLACKS), ("exponent", pareto.ALPHAS)):
        near = [m for m in methods if pareto._of(kept, m, "loss") <= pareto.GOAL_LOSS]
        best = max(near, key=lambda m: pareto._of(kept, m, "gain"))
        gain[kind] = numbers(kept["methods"][best]["gain"]["median"])
    ours, rival = gain["CEI"], gain["exponent"]
    verdict = with_seeds(AGREES if ours[0] >= rival[0] else DIFFERS, seeds, PARETO_SEEDS)
    return Finding(f"{in_words(ours)} against {in_words(rival)}", seeds, verdict)


def _contextual_in_time(kept: Json) -> Finding | None:
    if not pareto._enough(kept):
        return None
    wins, seeds = pareto.slack_wins(kept), _pareto_seeds(kept)
    middle = [count for method, count in wins.items() if 0.01 < pareto.SLACKS[method] < 0.9]
    always = sum(count == len(pareto.MULTIPLES) for count in middle)
    verdict = with_seeds(AGREES if always == len(middle) else DIFFERS, seeds, PARETO_SEEDS)
    return Finding(f"{always} of {len(middle)} slacks", seeds, verdict)


def _fronts_change(kept: Json) -> Finding:
    shares = [pareto._local_shares(part) for part in kept["persistence"].values()]
    each, summed = (100 * float(np.mean(part)) for part in zip(*shares, strict=True))
    verdict = judge(min(each, summed), max(each, summed), (50.0, inf), 1, PARETO_SEEDS)
    ours = f"{each:.0f} % in the mean iteration, {summed:.0f} % of the sum"
    return Finding(ours, 1, verdict)


def _transferred(kept: Json) -> Finding:
    caught = cost_models.caught_after(kept)
    side = AGREES if caught is not None and caught <= 10 else DIFFERS
    verdict = with_seeds(side, kept["seeds"], PARETO_SEEDS)
    return Finding("later than 20" if caught is None else f"{caught}", kept["seeds"], verdict)


def _models_in_use(kept: Json) -> Finding:
    gains = cost_models._gains(kept)
    alpha = max(a for _, a in gains)
    at = {model: float(np.median(g)) for (model, a), (g, _) in gains.items() if a == alpha}
    seeds = len({run["seed"] for run in kept["runs"]})
    side = AGREES if min(at["linear"], at["transfer"]) >= at["GP"] else DIFFERS
    ours = ", ".join(f"{model} {at[model]:.0f} %" for model in ("linear", "transfer", "GP"))
    return Finding(ours, seeds, with_seeds(side, seeds, PARETO_SEEDS))


# ── CMDP (Lee et al. 2021) and Stopping (Xie et al. 2025) ──────────────────────────────────────


def _deep_well(kept: Json) -> Finding | None:
    if not kept["problems"]:
        return None
    (by,) = kept["problems"].values()
    found = {m: numbers(part["finals"]) < rollout.REACHED for m, part in by.items()}
    ours, rival = (
        max(some, key=lambda m: found[m].mean()) for some in (rollout.AHEAD, rollout.MYOPIC)
    )
    gap = _difference(found[ours].astype(float), found[rival].astype(float), 100)
    return _judged(gap, ABOVE_ZERO, len(found[ours]), rollout.SEEDS, " of the runs")


def _rollouts(kept: Json) -> Finding | None:
    """Duels of the longest rollout with the better of EI and EIpu on each problem."""
    if not kept["problems"]:
        return None
    ahead, won, count = rollout.AHEAD[-1], 0.0, 0
    for by in kept["problems"].values():
        rival = min(rollout.MYOPIC, key=lambda m: rollout._final(by[m]))
        seeds = len(by[ahead]["finals"])
        won, count = won + seeds * rollout.wins(by, ahead, rival), count + seeds
    bounds, fewest = [100 * b for b in share(won, count)], min(kept["seeds"].values())
    return _judged(bounds, (50.0, inf), fewest, rollout.SEEDS, " of duels")


def _stopping(kept: Json) -> Finding | None:
    near, count = stopping.near_best(kept)
    if not count:
        return None
    return _mostly(near, count, stopping.fewest_runs(kept), stopping.SEEDS, " settings")


# ── all claims ─────────────────────────────────────────────────────────────────────────────────


def _say(*claims: tuple[str, str, Find]) -> Callable[[Json], list[Claim]]:
    """The rows of claims: the text, the paper's number, and what finds ours."""

    def say(kept: Json) -> list[Claim]:
        rows = []
        for text, paper, find in claims:
            if found := find(kept):
                texts = (part.format(**found.fields) for part in (text, paper))
                rows.append(Claim(*texts, found.ours, found.seeds, found.verdict))
        return rows

    return say


SCHEDULE = _say(("CArBO's evaluations start cheap and end expensive", "yes", _schedules))
EXPONENTS = _say(
    (
        "EI / c^0.1 saves half of EI's time for 1 % of accuracy",
        f"{pareto.GOAL_GAIN:.0f} % for 1 %",
        _exponents,
    ),
    ("EIpu loses much accuracy", "severe loss", _severe_loss),
)
BEST_EXPONENT = _say(("in a given time an exponent near 0.2 is best", "near 0.2", _best_exponent))
CONTEXTUAL = _say(("CEI saves as much as any exponent for 1 % of error", "as much", _contextual))
CONTEXTUAL_IN_TIME = _say(
    ("CEI ranks before EI and EIpu at every budget", "all but extreme slacks", _contextual_in_time)
)

CLAIMS: dict[str, Callable[[Json], list[Claim]]] = {
    "carbo-figure-1": _say(
        ("costs of a model's configurations differ by a factor of ten", "all models", _cost_spread)
    ),
    "carbo-figure-2": _say(
        ("EIpu ends above EI where the optimum is expensive", "above", _expensive_optimum)
    ),
    "carbo-figure-3": SCHEDULE,
    "carbo-figure-4": _say(
        ("a cost-effective design leaves smaller holes than a grid", "smaller", _cover)
    ),
    "carbo-figure-5": _say(("CArBO converges fastest, by model", "all models", _fastest)),
    "carbo-figure-6": _say(
        ("batches of 16 lose little at equal compute", "little or none", _batch_loss)
    ),
    "carbo-figure-7": _say(
        ("a design of 6/8 of the budget is as good as one of 1/8", "as good", _design_share)
    ),
    "carbo-figure-8": _say(
        ("the design contributes more than the cooling", "more", _design_or_cooling)
    ),
    "carbo-figure-9": _say(
        ("counted flops predict a perceptron's cost better than a GP", "better", _flops)
    ),
    "carbo-figure-10": _say(
        (
            "flops help a convolutional network below 20 evaluations only",
            "below 20",
            _flops_of_a_network,
        )
    ),
    "carbo-figure-11": _say(("EI-cool beats EI and EIpu in the aggregate", "first", _cooled)),
    "carbo-figure-12": SCHEDULE,
    "carbo-table-1": _say(
        ("CArBO has the lowest median error", "16 of 20", _lowest_errors),
        ("EIpu ends above EI", "9 of 20", _above_ei),
        ("the same in batches of {sizes}", "{papers}", _lowest_in_batches),
    ),
    "carbo-table-2": _say(
        ("CArBO saves time over the next best", f"{carbo.GOAL} %", _time_saved),
        ("the same in batches of {sizes}", "{papers}", _time_saved_in_batches),
    ),
    "carbo-table-3": _say(("the flop model saves EIpu time", "27 %", _flops_save)),
    "pareto-figure-1": _say(
        ("points with nearly the EI of EI's choice are much cheaper", "no number", _plateau)
    ),
    "pareto-figure-2": _say(
        ("a linear cost model beats a GP on XGBoost, n = {counts}", "less", _linear_costs)
    ),
    "pareto-figure-3": EXPONENTS,
    "pareto-figure-3-linear": EXPONENTS,
    "pareto-figure-4": BEST_EXPONENT,
    "pareto-figure-4-linear": BEST_EXPONENT,
    "pareto-figure-5": CONTEXTUAL,
    "pareto-figure-5-linear": CONTEXTUAL,
    "pareto-figure-6": CONTEXTUAL_IN_TIME,
    "pareto-figure-6-linear": CONTEXTUAL_IN_TIME,
    "pareto-figure-7": _say(
        ("a front changes mainly by what is learnt locally", "mainly local", _fronts_change)
    ),
    "pareto-figure-8": _say(
        (
            "evaluations after which a linear model beats transferred ones",
            "about 10",
            _transferred,
        )
    ),
    "pareto-figure-9": _say(
        ("EIpu saves more with a linear or transferred cost model", "more", _models_in_use)
    ),
    "rollout-figure-3": _say(
        ("rollout reaches an expensive minimum more often", "more often", _deep_well)
    ),
    "rollout-figure-4": _say(
        ("rollout ends below EI and EIpu, expensive optimum", "more", _rollouts)
    ),
    "rollout-figure-5": _say(("the same on models and sensors", "more", _rollouts)),
    "rollout-sensitivity": _say(("the same, the best depth at three prices", "more", _rollouts)),
    "stopping-figure-1": _say(
        ("PBGI with its own rule matches or beats other pairs", "usually", _stopping)
    ),
}
