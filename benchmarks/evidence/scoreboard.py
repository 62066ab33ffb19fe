"""The claims of the papers and what the kept numbers say about each: `numbers -> [Claim]`.

The limits beyond which a claim does not hold are here. The numbers of the papers are theirs; all
others come from the kept results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

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


def _difference(one: Sequence[float], other: Sequence[float], scale: float = 1.0) -> list[float]:
    """[mean, low, high] of the differences of seeds that both have."""
    gap = (np.asarray(one) - np.asarray(other)) * scale
    return [float(gap.mean()), *measures.bootstrap([gap])]


# ── CArBO (Lee et al. 2020) ────────────────────────────────────────────────────────────────────


def _carbo_seeds(parts: Mapping[str, Json]) -> int:
    return min(part["seeds"] for part in parts.values())


def _cost_spread(kept: Json) -> list[Claim]:
    spans = [float(str(row[5])) for row in carbo._distribution_rows(kept)]
    wide = sum(span >= 10 for span in spans)
    return [
        Claim(
            "costs of a model's configurations differ by a factor of ten",
            "all models",
            f"{wide} of {len(spans)} models",
            None,
            AGREES if wide == len(spans) else DIFFERS,
        )
    ]


def _expensive_optimum(kept: Json) -> list[Claim]:
    if "finals" not in kept:  # older kept numbers
        return []
    finals = {m: numbers(kept["finals"][m]) for m in ("EI", "EIpu")}
    gap = _difference(finals["EIpu"], finals["EI"], 100 / float(np.mean(finals["EI"])))
    verdict = judge(*gap[1:], ABOVE_ZERO, kept["seeds"], carbo.SEEDS)
    return [
        Claim(
            "EIpu ends above EI where the optimum is expensive",
            "above",
            in_words(gap) + " above",
            kept["seeds"],
            verdict,
        )
    ]


def _schedules(kept: Json) -> list[Claim]:
    rises = carbo.rises_most(kept)
    held = sum(rises.values())
    seeds = min(kept["seeds"])
    return [
        Claim(
            "CArBO's evaluations start cheap and end expensive",
            "yes",
            f"{of_count(held, len(rises))} problems",
            seeds,
            judge(*share(held, len(rises))[1:], MOST, seeds, carbo.SEEDS),
        )
    ]


def _cover(kept: Json) -> list[Claim]:
    grid = carbo._fill(np.array(kept["grid"]))[0]
    fills = [carbo._fill(np.array(part["Algorithm 1"]))[0] for part in kept["spans"].values()]
    better = sum(fill < grid for fill in fills)
    return [
        Claim(
            "a cost-effective design leaves smaller holes than a grid",
            "smaller",
            f"smaller at {better} of {len(fills)} cost ranges",
            None,
            AGREES if 2 * better > len(fills) else DIFFERS,
        )
    ]


def _fastest(kept: Json) -> list[Claim]:
    first = carbo.first_by_area(kept)
    won = sum(method == "CArBO" for method in first.values())
    seeds = _carbo_seeds(kept["problems"])
    return [
        Claim(
            "CArBO converges fastest, by model",
            "all models",
            of_count(won, len(first)),
            seeds,
            judge(*share(won, len(first))[1:], MOST, seeds, carbo.SEEDS),
        )
    ]


def _batch_loss(kept: Json) -> list[Claim]:
    if not kept["sizes"]:
        return []
    one = float(np.nanmean(numbers(kept["sizes"]["1"]["finals"])))
    loss = [100 * bound / one for bound in carbo_batches.losses(kept)["16"]]
    return [
        Claim(
            "batches of 16 lose little at equal compute",
            "little or none",
            in_words(loss, digits=2) + " of the error",
            kept["seeds"],
            judge(*loss[1:], (-inf, LITTLE), kept["seeds"], carbo.SEEDS),
        )
    ]


def _design_share(kept: Json) -> list[Claim]:
    finals = carbo._finals(kept)
    loss = _difference(finals["CArBO_6/8"], finals["CArBO"], 100 / float(np.mean(finals["CArBO"])))
    return [
        Claim(
            "a design of 6/8 of the budget is as good as one of 1/8",
            "as good",
            in_words(loss, digits=1) + " worse",
            kept["seeds"],
            judge(*loss[1:], (-inf, LITTLE), kept["seeds"], carbo.SEEDS),
        )
    ]


def _design_or_cooling(kept: Json) -> list[Claim]:
    finals = carbo._finals(kept)
    design, cooling = finals["EI"] - finals["cover+EI"], finals["cover+EI"] - finals["CArBO"]
    more = _difference(design, cooling, 100 / float(np.mean(finals["EI"])))
    return [
        Claim(
            "the design contributes more than the cooling",
            "more",
            in_words(more, digits=1) + " of the error",
            kept["seeds"],
            judge(*more[1:], ABOVE_ZERO, kept["seeds"], carbo.SEEDS),
        )
    ]


def _cooled(kept: Json) -> list[Claim]:
    last = {m: carbo._final(line["mean"]) for m, line in kept["normalised"].items()}
    order = sorted(last, key=lambda m: last[m])
    side = AGREES if order[0] == "cooling" else DIFFERS
    return [
        Claim(
            "EI-cool beats EI and EIpu in the aggregate",
            "first",
            f"place {order.index('cooling') + 1} of {len(order)}",
            kept["seeds"],
            with_seeds(side, kept["seeds"], carbo.SEEDS),
        )
    ]


def _lowest_errors(kept: Json) -> list[Claim]:
    parts, seeds = kept["problems"], _carbo_seeds(kept["problems"])
    tied, _ = carbo.win_counts(parts)
    worse = carbo.worse_than_ei(parts)
    papers = 9 / 20
    low, high = share(worse, len(parts))[1:]
    claims = [
        Claim(
            "CArBO has the lowest median error",
            "16 of 20",
            of_count(tied["CArBO"], len(parts)),
            seeds,
            judge(*share(tied["CArBO"], len(parts))[1:], MOST, seeds, carbo.SEEDS),
        ),
        Claim(
            "EIpu ends above EI",
            "9 of 20",
            of_count(worse, len(parts)),
            seeds,
            with_seeds(AGREES if low <= papers <= high else DIFFERS, seeds, carbo.SEEDS),
        ),
    ]
    batches = carbo_batches._batches(kept)
    if batches:
        counts = {size: carbo.win_counts(part)[0]["CArBO"] for size, part in batches.items()}
        lows, highs = zip(
            *(share(n, len(batches[size]))[1:] for size, n in counts.items()), strict=True
        )
        few = min(map(_carbo_seeds, batches.values()))
        claims.append(
            Claim(
                f"the same in batches of {', '.join(counts)}",
                ", ".join(str(carbo_batches.PAPER_WINS[int(size)]) for size in counts),
                ", ".join(map(str, counts.values())),
                few,
                judge(min(lows), max(highs), MOST, few, carbo_batches.BATCH_SEEDS),
            )
        )
    return claims


def _time_saved(kept: Json) -> list[Claim]:
    parts, seeds = kept["problems"], _carbo_seeds(kept["problems"])
    nets = carbo.net_savings(parts)
    claims = [
        Claim(
            "CArBO saves time over the next best",
            f"{carbo.GOAL} %",
            in_words(nets["time_saved"]),
            seeds,
            judge(*nets["time_saved"][1:], ABOVE_ZERO, seeds, carbo.SEEDS),
        )
    ]
    batches = carbo_batches._batches(kept)
    if batches:
        saved = {size: carbo.net_savings(part)["time_saved"] for size, part in batches.items()}
        few = min(map(_carbo_seeds, batches.values()))
        _, lows, highs = zip(*saved.values(), strict=True)
        claims.append(
            Claim(
                f"the same in batches of {', '.join(saved)}",
                ", ".join(f"{carbo_batches.PAPER_NETS[int(s)]:.0f}" for s in saved) + " %",
                ", ".join(f"{net[0]:.0f}" for net in saved.values()) + " %",
                few,
                judge(min(lows), max(highs), ABOVE_ZERO, few, carbo_batches.BATCH_SEEDS),
            )
        )
    return claims


def _flops(kept: Json) -> list[Claim]:
    gp, flops = (np.array(kept["rmse"][m])[:, 0] for m in ("warped GP", "flops"))
    more = 100 * (flops - gp) / gp.mean()
    problems = sum("/mlp-" in name for name in recorded.names("carbo"))
    groups = np.array_split(more, problems)  # kept problem by problem
    bounds, seeds = [float(more.mean()), *measures.bootstrap(groups)], len(more) // problems
    return [
        Claim(
            "counted flops predict a perceptron's cost better than a GP",
            "better",
            in_words(bounds) + " more error",
            seeds,
            judge(*bounds[1:], BELOW_ZERO, seeds, cost_models.SEEDS),
        )
    ]


def _flops_save(kept: Json) -> list[Claim]:
    groups = [np.array(part["saving"]) for part in kept["problems"].values()]
    if not groups:
        return []
    net = [float(np.mean([g.mean() for g in groups])), *measures.bootstrap(groups)]
    seeds = min(map(len, groups))
    verdict = judge(*net[1:], ABOVE_ZERO, seeds, cost_models.SEEDS)
    return [Claim("the flop model saves EIpu time", "27 %", in_words(net), seeds, verdict)]


def _flops_of_a_network(kept: Json) -> list[Claim]:
    both, gp = (np.array(kept["rmse"][m]) for m in ("GP, flops its mean", "warped GP"))
    few, many = (_difference(both[:, k], gp[:, k], 100 / float(gp[:, k].mean())) for k in (0, -1))
    sides = {judge(*few[1:], BELOW_ZERO, None, 0), judge(*many[1:], ABOVE_ZERO, None, 0)}
    side = DIFFERS if DIFFERS in sides else THIN if THIN in sides else AGREES
    first, last = kept["counts"][0], kept["counts"][-1]
    return [
        Claim(
            "flops help a convolutional network below 20 evaluations only",
            "below 20",
            f"n = {first}: {in_words(few)} more error; n = {last}: {in_words(many)}",
            len(gp),
            side,
        )
    ]


# ── Pareto (Guinet et al. 2020) ────────────────────────────────────────────────────────────────


def _pareto_seeds(kept: Json) -> int:
    return int(kept["pairs"] // max(1, len(kept["r2"])))


def _plateau(kept: Json) -> list[Claim]:
    parts = [part for at in kept["fronts"].values() for part in at.values()]
    saved = 100 * (1 - np.mean([part["plateau"] for part in parts]))
    return [
        Claim(
            "points with nearly the EI of EI's choice are much cheaper",
            "no number",
            f"{saved:.0f} % cheaper for a tenth less EI",
            1,
            THIN,
        )
    ]


def _linear_costs(kept: Json) -> list[Claim]:
    """Figure 2 is about XGBoost: the other families do not count here."""
    gaps = cost_models.linear_against_gp(kept, "xgboost")
    within = {n: gap for n, gap in gaps.items() if 5 <= n <= 20}
    if not within:
        return []
    _, lows, highs = zip(*within.values(), strict=True)
    said = ", ".join(f"{gap[0]:.0f}" for gap in within.values())
    return [
        Claim(
            f"a linear cost model beats a GP on XGBoost, n = {min(within)} to {max(within)}",
            "less",
            f"{said} % [{min(lows):.0f}, {max(highs):.0f}] error",
            kept["seeds"],
            judge(min(lows), max(highs), BELOW_ZERO, kept["seeds"], PARETO_SEEDS),
        )
    ]


def _exponents(kept: Json) -> list[Claim]:
    if not pareto._enough(kept):
        return []
    seeds = _pareto_seeds(kept)
    gain, loss = (numbers(kept["methods"]["EI_0.1"][what]["mean"]) for what in ("gain", "loss"))
    severe = numbers(kept["methods"]["EIpu"]["loss"]["mean"])
    half = pareto.GOAL_GAIN
    low, high = gain[1:]
    side = AGREES if low <= half <= high or low > half else DIFFERS
    return [
        Claim(
            "EI / c^0.1 saves half of EI's time for 1 % of accuracy",
            f"{half:.0f} % for 1 %",
            f"{in_words(gain)} for {in_words(loss, digits=1)}",
            seeds,
            with_seeds(side, seeds, PARETO_SEEDS),
        ),
        Claim(
            "EIpu loses much accuracy",
            "severe loss",
            in_words(severe, digits=1),
            seeds,
            judge(*severe[1:], (pareto.GOAL_LOSS, inf), seeds, PARETO_SEEDS),
        ),
    ]


def _best_exponent(kept: Json) -> list[Claim]:
    if not pareto._enough(kept):
        return []
    between, seeds = pareto.between_wins(kept), _pareto_seeds(kept)
    side = AGREES if 2 * between > len(pareto.MULTIPLES) else DIFFERS
    return [
        Claim(
            "in a given time an exponent near 0.2 is best",
            "near 0.2",
            f"one between 0 and 1 at {between} of {len(pareto.MULTIPLES)} budgets",
            seeds,
            with_seeds(side, seeds, PARETO_SEEDS),
        )
    ]


def _contextual(kept: Json) -> list[Claim]:
    if not pareto._enough(kept):
        return []
    gain, seeds = {}, _pareto_seeds(kept)
    for kind, methods in (("CEI", pareto.SLACKS), ("exponent", pareto.ALPHAS)):
        near = [m for m in methods if pareto._of(kept, m, "loss") <= pareto.GOAL_LOSS]
        best = max(near, key=lambda m: pareto._of(kept, m, "gain"))
        gain[kind] = numbers(kept["methods"][best]["gain"]["median"])
    ours, rival = gain["CEI"], gain["exponent"]
    return [
        Claim(
            "CEI saves as much as any exponent for 1 % of error",
            "as much",
            f"{in_words(ours)} against {in_words(rival)}",
            seeds,
            with_seeds(AGREES if ours[0] >= rival[0] else DIFFERS, seeds, PARETO_SEEDS),
        )
    ]


def _contextual_in_time(kept: Json) -> list[Claim]:
    if not pareto._enough(kept):
        return []
    wins, seeds = pareto.slack_wins(kept), _pareto_seeds(kept)
    middle = [count for method, count in wins.items() if 0.01 < pareto.SLACKS[method] < 0.9]
    always = sum(count == len(pareto.MULTIPLES) for count in middle)
    return [
        Claim(
            "CEI ranks before EI and EIpu at every budget",
            "all but extreme slacks",
            f"{always} of {len(middle)} slacks",
            seeds,
            with_seeds(AGREES if always == len(middle) else DIFFERS, seeds, PARETO_SEEDS),
        )
    ]


def _fronts_change(kept: Json) -> list[Claim]:
    shares = [pareto._local_shares(part) for part in kept["persistence"].values()]
    each, summed = (100 * float(np.mean(part)) for part in zip(*shares, strict=True))
    side = judge(min(each, summed), max(each, summed), (50.0, inf), 1, PARETO_SEEDS)
    return [
        Claim(
            "a front changes mainly by what is learnt locally",
            "mainly local",
            f"{each:.0f} % in the mean iteration, {summed:.0f} % of the sum",
            1,
            side,
        )
    ]


def _transferred(kept: Json) -> list[Claim]:
    caught = cost_models.caught_after(kept)
    about_ten = caught is not None and caught <= 10
    return [
        Claim(
            "evaluations after which a linear model beats transferred ones",
            "about 10",
            "later than 20" if caught is None else f"{caught}",
            kept["seeds"],
            with_seeds(AGREES if about_ten else DIFFERS, kept["seeds"], PARETO_SEEDS),
        )
    ]


def _models_in_use(kept: Json) -> list[Claim]:
    gains = cost_models._gains(kept)
    alpha = max(a for _, a in gains)
    at = {model: float(np.median(g)) for (model, a), (g, _) in gains.items() if a == alpha}
    seeds = len({run["seed"] for run in kept["runs"]})
    side = AGREES if min(at["linear"], at["transfer"]) >= at["GP"] else DIFFERS
    return [
        Claim(
            "EIpu saves more with a linear or transferred cost model",
            "more",
            ", ".join(f"{model} {at[model]:.0f} %" for model in ("linear", "transfer", "GP")),
            seeds,
            with_seeds(side, seeds, PARETO_SEEDS),
        )
    ]


# ── CMDP (Lee et al. 2021) and Stopping (Xie et al. 2025) ──────────────────────────────────────


def _deep_well(kept: Json) -> list[Claim]:
    if not kept["problems"]:
        return []
    (by,) = kept["problems"].values()
    found = {m: numbers(part["finals"]) < rollout.REACHED for m, part in by.items()}
    ours, rival = (
        max(some, key=lambda m: found[m].mean()) for some in (rollout.AHEAD, rollout.MYOPIC)
    )
    seeds = len(found[ours])
    gap = _difference(found[ours].astype(float), found[rival].astype(float), 100)
    return [
        Claim(
            "rollout reaches an expensive minimum more often",
            "more often",
            f"{in_words(gap)} of the runs",
            seeds,
            judge(*gap[1:], ABOVE_ZERO, seeds, rollout.SEEDS),
        )
    ]


def _rollouts(claim: str) -> Callable[[Json], list[Claim]]:
    """Duels of the longest rollout with the better of EI and EIpu on each problem."""

    def say(kept: Json) -> list[Claim]:
        if not kept["problems"]:
            return []
        ahead, won, count = rollout.AHEAD[-1], 0.0, 0
        for by in kept["problems"].values():
            rival = min(rollout.MYOPIC, key=lambda m: rollout._final(by[m]))
            seeds = len(by[ahead]["finals"])
            won, count = won + seeds * rollout.wins(by, ahead, rival), count + seeds
        bounds, fewest = [100 * b for b in share(won, count)], min(kept["seeds"].values())
        verdict = judge(*bounds[1:], (50.0, inf), fewest, rollout.SEEDS)
        return [Claim(claim, "more", f"{in_words(bounds)} of duels", fewest, verdict)]

    return say


def _stopping(kept: Json) -> list[Claim]:
    near, count = stopping.near_best(kept)
    if not count:
        return []
    seeds = stopping.fewest_runs(kept)
    return [
        Claim(
            "PBGI with its own rule matches or beats other pairs",
            "usually",
            f"{of_count(near, count)} settings",
            seeds,
            judge(*share(near, count)[1:], MOST, seeds, stopping.SEEDS),
        )
    ]


CLAIMS: dict[str, Callable[[Json], list[Claim]]] = {
    "carbo-figure-1": _cost_spread,
    "carbo-figure-2": _expensive_optimum,
    "carbo-figure-3": _schedules,
    "carbo-figure-4": _cover,
    "carbo-figure-5": _fastest,
    "carbo-figure-6": _batch_loss,
    "carbo-figure-7": _design_share,
    "carbo-figure-8": _design_or_cooling,
    "carbo-figure-9": _flops,
    "carbo-figure-10": _flops_of_a_network,
    "carbo-figure-11": _cooled,
    "carbo-figure-12": _schedules,
    "carbo-table-1": _lowest_errors,
    "carbo-table-2": _time_saved,
    "carbo-table-3": _flops_save,
    "pareto-figure-1": _plateau,
    "pareto-figure-2": _linear_costs,
    "pareto-figure-3": _exponents,
    "pareto-figure-3-linear": _exponents,
    "pareto-figure-4": _best_exponent,
    "pareto-figure-4-linear": _best_exponent,
    "pareto-figure-5": _contextual,
    "pareto-figure-5-linear": _contextual,
    "pareto-figure-6": _contextual_in_time,
    "pareto-figure-6-linear": _contextual_in_time,
    "pareto-figure-7": _fronts_change,
    "pareto-figure-8": _transferred,
    "pareto-figure-9": _models_in_use,
    "rollout-figure-3": _deep_well,
    "rollout-figure-4": _rollouts("rollout ends below EI and EIpu, expensive optimum"),
    "rollout-figure-5": _rollouts("the same on models and sensors"),
    "rollout-sensitivity": _rollouts("the same, the best depth at three prices"),
    "stopping-figure-1": _stopping,
}
