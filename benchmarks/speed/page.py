"""Write docs/speed.md from speed.json."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

TITLES = {
    "farthing": "farthing",
    "optuna": "Optuna GPSampler",
    "botorch": "BoTorch LogEI",
    "skopt-ei": "scikit-optimize EI",
    "skopt-eips": "scikit-optimize EIps",
    "smac": "SMAC3 BlackBox",
    "ax": "Ax",
}
MODELS = ("farthing", "farthing, clipped", "botorch", "skopt")
WIDTH = 100
DISTURBED = 0.1  # share of other work on the machine above which times do not count
NATS = 0.01  # a difference in log EI up to this counts as equal
# Targets at d = 8: library -> {n: smallest ratio}.
RATIOS = {
    "optuna": {50: 10, 100: 6, 200: 6, 400: 4},
    "botorch": {25: 25, 50: 25, 100: 25, 200: 25, 400: 25, 800: 25},
}


def write(results: Json) -> str:
    """The whole page."""
    sections = [
        heading(results),
        targets(results),
        suggestion_times(results),
        large(results),
        own(results),
        log_ei(results),
        density(results),
        machines(results),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table with right-aligned numbers."""
    header = list(header)
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def paragraph(text: str) -> str:
    """Text, wrapped to `WIDTH`."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False)


def heading(results: Json) -> str:
    """What the page shows and how to repeat it."""
    quick = any(run["quick"] for run in results["runs"].values())
    warning = "\n\n**This was a quick run: do not use the numbers.**" if quick else ""
    return f"# How fast is a suggestion, and how good?{warning}\n\n" + paragraph(
        """`make speed` installs the peers in their own environment and writes this page and
        [speed.json](../benchmarks/results/speed.json), which has every single time.
        `.venv-peers/bin/python -m benchmarks.speed --only time` repeats one part (`time`, `own`,
        `ei` or `density`). Read ratios, not seconds: at each (n, d) all libraries take turns in
        one run on one machine, each in its own process, with its own default number of
        threads."""
    )


# ── targets ───────────────────────────────────────────────────────────────────────────────────


def targets(results: Json) -> str:
    """The targets beside the measurements."""
    rows = [*ratio_targets(results), *size_targets(results), *quality_targets(results)]
    if not rows:
        return ""
    cells = [[what, target, got, MET[met]] for what, target, got, met in rows]
    return "## Targets\n\n" + table(["what", "target", "measured", "met"], cells)


Target = tuple[str, str, str, bool | None]  # what, target, measured, met (None: undecided)
MET = {True: "yes", False: "**no**", None: "undecided"}


def ratio_targets(results: Json) -> list[Target]:
    """The ratios to Optuna and BoTorch at d = 8."""
    found = {(r["peer"], r["n"]): r for r in results["times"] if r["d"] == 8}
    return [
        (
            f"faster than {TITLES[peer]}, d = 8, n = {n}",
            f"{least}x",
            ratio(found[peer, n]),
            at_least(found[peer, n], least),
        )
        for peer, targets in RATIOS.items()
        for n, least in targets.items()
        if (peer, n) in found
    ]


def at_least(record: Json, least: float) -> bool | None:
    """Whether a ratio is large enough; None if there is none or other work disturbed it."""
    return None if "ratio" not in record or disturbed(record) else record["ratio"] >= least


def size_targets(results: Json) -> list[Target]:
    """The growth of time and memory."""
    rows: list[Target] = []
    ours = {r["n"]: r["mean"] for r in of(results, "farthing", 8) if "mean" in r}
    if {400, 800} <= ours.keys():
        growth = ours[800] / ours[400]
        rows.append(("time at n = 800 over n = 400, d = 8", "6x", f"{growth:.1f}x", growth <= 6.0))
    big = results.get("large", {})
    if "mean" in big:
        slowest = max(big["first"], *big["seconds"])
        rows += [
            (f"slowest suggestion, n = {big['n']}", "1 s", f"{slowest:.2f} s", slowest < 1.0),
            (
                f"peak memory, n = {big['n']}",
                "1024 MiB",
                f"{big['peak_mib']:.0f} MiB",
                big["peak_mib"] <= 1024.0,
            ),
        ]
    return rows


def quality_targets(results: Json) -> list[Target]:
    """The quality of suggestions and of the model."""
    rows: list[Target] = []
    searched = results.get("log_ei", {}).get("rows", [])
    if searched:
        good = sum(row["ahead"] >= -NATS for row in searched)
        rows.append(
            (
                f"log EI at most {NATS} nats behind BoTorch's optimiser",
                "19 of 20",
                f"{good} of {len(searched)}",
                good >= 0.95 * len(searched),
            )
        )
    modelled = results.get("density", {}).get("rows", [])
    readings = (
        ("farthing", "all", "the Gaussian process"),
        ("farthing, clipped", "inside", "as the Optimizer clips it, points inside the fence"),
        ("farthing, clipped", "all", "as the Optimizer clips it, all points"),
    )
    for ours, points, words in readings:
        for rival in ("botorch", "skopt"):
            lead = lead_over(modelled, ours, rival, points)
            if lead is not None:
                what = f"log density against {rival}, {len(modelled)} problems: {words}"
                rows.append((what, "-0.05", f"{lead:+.2f}", lead >= -0.05))
    return rows


# ── time ───────────────────────────────────────────────────────────────────────────────────────


def of(results: Json, peer: str, d: int) -> list[Json]:
    """Records of one library at one d, by n."""
    found = [r for r in results["times"] if r["peer"] == peer and r["d"] == d]
    return sorted(found, key=lambda record: int(record["n"]))


def suggestion_times(results: Json) -> str:
    """Ratios and seconds for every d."""
    if not results["times"]:
        return ""
    peers = [p for p in TITLES if p in {r["peer"] for r in results["times"]}]
    parts = [
        "## Suggestion time",
        paragraph(
            """A suggestion is verdict, ask and tell for Farthing (policy EI, no budget), and ask
            and tell for the others. It excludes the time of the objective. The first suggestion of
            every process and of every (n, d) is left out. Farthing's mean covers at least one
            whole refit cycle, in which n grows by a tenth; the others refit every time. Of the
            past observations, four fifths are scrambled Sobol points and one fifth is near the
            optimum. `12x` is the library's mean divided by Farthing's in the same run. *Other
            work* is the share of the machine that other programs used. If it is bold, the times
            beside it do not count."""
        ),
    ]
    for d in sorted({r["d"] for r in results["times"]}):
        records = {(r["peer"], r["n"]): r for r in results["times"] if r["d"] == d}
        sizes = sorted({n for _, n in records})
        parts.append(f"### d = {d}: times slower than Farthing")
        parts.append(
            table(
                ["n", "farthing", *(TITLES[p] for p in peers if p != "farthing"), "other work"],
                [
                    [str(n), seconds(records.get(("farthing", n)))]
                    + [ratio(records.get((p, n))) for p in peers if p != "farthing"]
                    + [others(r for (_, at), r in records.items() if at == n)]
                    for n in sizes
                ],
            )
        )
        parts.append(f"### d = {d}: seconds, mean / median")
        parts.append(
            table(
                ["n", *(TITLES[p] for p in peers)],
                [[str(n), *(both(records.get((p, n))) for p in peers)] for n in sizes],
            )
        )
    return "\n\n".join(parts + trouble(results))


def trouble(results: Json) -> list[str]:
    """Libraries that could not be installed or that failed, with their errors."""
    lines = [f"- {TITLES[p]}: {e['error']}" for p, e in results["peers"].items() if "error" in e]
    lines += [
        f"- {TITLES[r['peer']]}, d = {r['d']}, n = {r['n']}: {r['error']}"
        for r in results["times"]
        if "error" in r
    ]
    lines = [" ".join(line.split()) for line in lines]
    return ["### Errors", "\n".join(lines)] if lines else []


def absent(record: Json | None) -> str:
    """Why there is no number."""
    if record is None:
        return "not measured"
    if "error" in record:
        return "failed"
    reason: str = record.get("skipped", "not measured")
    return reason if reason.startswith("skipped") else "not available"  # explained below the tables


def disturbed(record: Json) -> bool:
    """Whether other work disturbed the times, above all of libraries with many threads."""
    return (record["others"] or 0.0) > DISTURBED


def others(records: Iterable[Json]) -> str:
    """The largest share of the machine that other programs used, bold if it matters."""
    known = [record for record in records if record["others"] is not None]
    if not known:
        return "unknown"
    worst = max(known, key=lambda record: float(record["others"]))
    share = f"{100.0 * worst['others']:.0f} %"
    return f"**{share}**" if disturbed(worst) else share


def ratio(record: Json | None) -> str:
    """`12x`."""
    if record is None or "ratio" not in record:
        return absent(record)
    return f"{record['ratio']:.{0 if record['ratio'] >= 20 else 1}f}x"


def seconds(record: Json | None) -> str:
    """Mean in milliseconds."""
    return (
        absent(record)
        if record is None or "mean" not in record
        else f"{1e3 * record['mean']:.1f} ms"
    )


def both(record: Json | None) -> str:
    """Mean / median in seconds."""
    if record is None or "mean" not in record:
        return absent(record)
    return f"{record['mean']:.3g} / {record['median']:.3g}"


def large(results: Json) -> str:
    """Farthing with thousands of observations."""
    big = results.get("large")
    if not big:
        return ""
    title = "## Thousands of observations\n\n"
    if "error" in big:
        return f"{title}Failed: {big['error']}"
    return title + paragraph(
        f"""Farthing in a fresh process, n = {big["n"]}, d = {big["d"]}. The first suggestion fits
        the hyperparameters from scratch and takes {big["first"]:.2f} s. The next
        {len(big["seconds"])} have a mean of {big["mean"]:.3f} s and a median of
        {big["median"]:.3f} s. The peak memory of the process is {big["peak_mib"]:.0f} MiB."""
    )


def own(results: Json) -> str:
    """The default policy with a learnt cost, compared with EI in a continuous space."""
    part = results.get("own")
    if not part:
        return ""
    title = "## The default policy, a mixed space, a table\n\n"
    if "error" in part:
        return f"{title}Failed: {part['error']}"
    rows = part["rows"]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    found = {(row["case"], row["n"]): row for row in rows}
    size = next((row["rows"] for row in rows if "rows" in row), 0)
    text = paragraph(
        f"""Only Farthing: CPU milliseconds of verdict, ask and tell, medians of
        {len(rows[0]["seconds"])} suggestions, cases taking turns. In brackets: the ratio to EI in
        a continuous space with 8 parameters and without costs. The other cases have a budget and
        learn the cost from the trials. *Mixed* is a space with 8 parameters: ints, an ordinal, a
        categorical and two floats that depend on it. The table has {size:,} rows. Command:
        `.venv-peers/bin/python -m benchmarks.speed --only own`."""
    )
    cells = [
        [str(n), *(own_cell(found.get((case, n))) for case in cases)]
        for n in sorted({row["n"] for row in rows})
    ]
    return f"{title}{text}\n\n" + table(["n", *cases], cells)


def own_cell(row: Json | None) -> str:
    """Milliseconds and ratio."""
    return "not measured" if row is None else f"{1e3 * row['median']:.1f} ({row['ratio']:.1f}x)"


# ── quality ────────────────────────────────────────────────────────────────────────────────────


def log_ei(results: Json) -> str:
    """Log EI of the suggested points on the same posterior."""
    part = results.get("log_ei")
    if not part:
        return ""
    title = "## Log EI on the same posterior\n\n"
    if "error" in part:
        return f"{title}Failed: {part['error']}"
    rows = part["rows"]
    good = sum(row["ahead"] >= -NATS for row in rows)
    worst = max(row["posteriors_differ_by"] for row in rows)
    cells = [
        [
            row["problem"],
            str(row["n"]),
            f"{row['farthing']:.4f}",
            f"{row['botorch']:.4f}",
            f"{row['ahead']:+.4f}",
        ]
        for row in rows
    ]
    text = paragraph(
        f"""A BoTorch model gets Farthing's hyperparameters; the posteriors differ by at most
        {worst:.0e}. BoTorch's `optimize_acqf` then maximises log EI with 20 restarts from 1024 raw
        samples. Farthing's log EI scores both points. Farthing is ahead, or at most {NATS} nats
        behind, in **{good} of {len(rows)}** problems."""
    )
    return f"{title}{text}\n\n" + table(["problem", "n", "farthing", "BoTorch", "ahead by"], cells)


def lead_over(rows: list[Json], ours: str, rival: str, points: str) -> float | None:
    """Mean over problems of our log density minus the rival's."""
    found = [
        row[points][ours] - row[points][rival]
        for row in rows
        if ours in row[points] and rival in row[points]
    ]
    return statistics.fmean(found) if found else None


def density(results: Json) -> str:
    """Predictive log density of held-out points."""
    part = results.get("density")
    if not part:
        return ""
    title = "## Predictive log density of held-out points\n\n"
    if "error" in part:
        return f"{title}Failed: {part['error']}"
    rows = part["rows"]
    sizes = ", ".join(map(str, rows[0]["training"]))
    text = title + paragraph(
        f"""The score is the mean of ln N(y; mean, variance). The variance includes observation
        noise, and y is standardised by its training set. Training sets have {sizes} points, with
        {rows[0]["splits"]} splits each. *Clipped* is the model as the Optimizer uses it: bad
        outliers are clipped to the fence Q3 + 1.5 IQR. This model does not describe values beyond
        the fence, so a second table scores all models on the held-out points inside it."""
    )
    parts = [text]
    for points, caption in (("all", "All held-out points"), ("inside", "Points inside the fence")):
        cells = [
            [row["problem"], *(figure(row[points].get(name)) for name in MODELS)] for row in rows
        ]
        for ours in MODELS[:2]:
            leads = [lead_over(rows, ours, rival, points) for rival in MODELS[2:]]
            cells.append([f"**mean lead of {ours}**", "", "", *(signed(lead) for lead in leads)])
        parts += [f"### {caption}", table(["problem", *MODELS], cells)]
    notes = [f"- {row['problem']}: {row['note']}" for row in rows if row["note"]]
    notes += [
        f"- {row['problem']}, {name}: {error}"
        for row in rows
        for name, error in row["errors"].items()
    ]
    return "\n\n".join([*parts, "\n".join(notes)] if notes else parts)


def figure(value: float | None) -> str:
    """Two decimals."""
    return "failed" if value is None else f"{value:.2f}"


def signed(value: float | None) -> str:
    """Two decimals and a sign."""
    return "failed" if value is None else f"{value:+.2f}"


# ── machines ───────────────────────────────────────────────────────────────────────────────────


def machines(results: Json) -> str:
    """The date, machine and versions of each run."""
    lines = [
        f"- {run['date']}: commit {run['commit']}, {run['cpu']}, {run['cores']} cores, "
        f"{run['system']}, Python {run['python']}"
        + (f", {run['threads']}" if run["threads"] else "")
        for run in results["runs"].values()
    ]
    versions: dict[str, str] = {}
    for entry in results["peers"].values():
        versions |= entry.get("versions", {})
    listed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return "\n\n".join(
        [
            "## Dates, machines, versions",
            "\n".join(lines),
            paragraph(f"Versions: {listed}.") if listed else "",
        ]
    ).strip()
