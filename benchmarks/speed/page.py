"""docs/speed.md, written from the figures of speed.json and nothing else."""

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
WIDTH = 120
DISTURBED = 0.1  # share of the machine gone to other work from which times are not to be trusted
NATS = 0.01  # log EI this far behind counts as equal
# Ratios promised at d = 8: library -> {n: least ratio}.
RATIOS = {
    "optuna": {50: 10, 100: 6, 200: 6, 400: 4},
    "botorch": {25: 25, 50: 25, 100: 25, 200: 25, 400: 25, 800: 25},
}


def write(results: Json) -> str:
    """The whole page."""
    sections = [
        heading(results),
        promises(results),
        suggestion_times(results),
        large(results),
        own(results),
        log_ei(results),
        density(results),
        machines(results),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, numbers to the right."""
    header = list(header)
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def paragraph(text: str) -> str:
    """Prose, filled to the width of the other pages."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False)


def heading(results: Json) -> str:
    """What the page is and how to make it again."""
    quick = any(run["quick"] for run in results["runs"].values())
    warning = "\n\n**A quick run, for a look only.**" if quick else ""
    return f"# How fast is a suggestion, and how good?{warning}\n\n" + paragraph(
        """Made by `make speed`, which installs the peers in an environment of their own and
        writes this page and [speed.json](../benchmarks/results/speed.json), where every single
        time is; one part of it again by `.venv-peers/bin/python -m benchmarks.speed --only time`
        (or `ei`, or `density`). Read ratios, not seconds: at each (n, d) all libraries take
        turns in one run on one machine, each in its own process, with its own default number of
        threads."""
    )


# ── promises ───────────────────────────────────────────────────────────────────────────────────


def promises(results: Json) -> str:
    """What issue 2 asks for beside what was measured."""
    rows = [*ratio_promises(results), *size_promises(results), *quality_promises(results)]
    if not rows:
        return ""
    cells = [[what, asked, got, KEPT[kept]] for what, asked, got, kept in rows]
    return "## What was promised\n\n" + table(["promise", "asked", "measured", "kept"], cells)


Promise = tuple[str, str, str, bool | None]  # what, asked, measured, kept (None: cannot tell)
KEPT = {True: "yes", False: "**no**", None: "undecided"}


def ratio_promises(results: Json) -> list[Promise]:
    """How many times faster than Optuna and BoTorch, d = 8."""
    found = {(r["peer"], r["n"]): r for r in results["times"] if r["d"] == 8}
    return [
        (
            f"faster than {TITLES[peer]}, d = 8, n = {n}",
            f"{least}x",
            ratio(found[peer, n]),
            at_least(found[peer, n], least),
        )
        for peer, asked in RATIOS.items()
        for n, least in asked.items()
        if (peer, n) in found
    ]


def at_least(record: Json, least: float) -> bool | None:
    """Whether a ratio is large enough; None without a ratio to be trusted."""
    return None if "ratio" not in record or disturbed(record) else record["ratio"] >= least


def size_promises(results: Json) -> list[Promise]:
    """How time and memory grow."""
    rows: list[Promise] = []
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


def quality_promises(results: Json) -> list[Promise]:
    """That speed was not bought with worse suggestions or a worse model."""
    rows: list[Promise] = []
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
        ("farthing, clipped", "inside", "as the Optimizer clips it, inside the fence"),
        ("farthing, clipped", "all", "as the Optimizer clips it, beyond the fence too"),
    )
    for ours, points, words in readings:
        for rival in ("botorch", "skopt"):
            lead = lead_over(modelled, ours, rival, points)
            if lead is not None:
                promise = f"log density against {rival}, {len(modelled)} problems: {words}"
                rows.append((promise, "-0.05", f"{lead:+.2f}", lead >= -0.05))
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
            """A suggestion is verdict, ask and tell for farthing (policy EI, no budget), ask and
            tell for the others; the objective's own time is left out, and so is the first
            suggestion of every process and of every (n, d). farthing's mean is over at least one
            whole refit cycle, during which n grows by a tenth; the others refit every time. Past
            observations: four fifths scrambled Sobol points, one fifth near the optimum. `12x`
            is the library's mean over farthing's in the same run. *Other work* is the share of
            the machine that went to anybody else meanwhile; times beside a bold figure decide
            nothing."""
        ),
    ]
    for d in sorted({r["d"] for r in results["times"]}):
        records = {(r["peer"], r["n"]): r for r in results["times"] if r["d"] == d}
        sizes = sorted({n for _, n in records})
        parts.append(f"### d = {d}: times slower than farthing")
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
    """Libraries that could not be installed or failed, with the error."""
    lines = [f"- {TITLES[p]}: {e['error']}" for p, e in results["peers"].items() if "error" in e]
    lines += [
        f"- {TITLES[r['peer']]}, d = {r['d']}, n = {r['n']}: {r['error']}"
        for r in results["times"]
        if "error" in r
    ]
    lines = [" ".join(line.split()) for line in lines]
    return ["### What went wrong", "\n".join(lines)] if lines else []


def absent(record: Json | None) -> str:
    """Why there is no figure."""
    if record is None:
        return "not measured"
    if "error" in record:
        return "failed"
    reason: str = record.get("skipped", "not measured")
    return reason if reason.startswith("skipped") else "not available"  # told below the tables


def disturbed(record: Json) -> bool:
    """Whether other work spoiled the times: libraries with many threads suffer most."""
    return (record["others"] or 0.0) > DISTURBED


def others(records: Iterable[Json]) -> str:
    """The largest share of the machine that went to anybody else, in bold where it matters."""
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
    """farthing with thousands of observations."""
    big = results.get("large")
    if not big:
        return ""
    title = "## Thousands of observations\n\n"
    if "error" in big:
        return f"{title}Failed: {big['error']}"
    return title + paragraph(
        f"""farthing, n = {big["n"]}, d = {big["d"]}, in a fresh process: the first suggestion,
        which learns the hyperparameters from nothing, {big["first"]:.2f} s; each of the next
        {len(big["seconds"])}, mean {big["mean"]:.3f} s, median {big["median"]:.3f} s; peak
        memory of the process {big["peak_mib"]:.0f} MiB."""
    )


def own(results: Json) -> str:
    """The default policy with a learnt cost, beside EI in a continuous space."""
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
        f"""farthing alone, processor milliseconds of verdict, ask and tell, medians of
        {len(rows[0]["seconds"])} suggestions taken in turns; in brackets the ratio to EI in a
        continuous space of 8 where nothing is paid. All others have a budget and learn the cost
        from the bills; the default policy is Gittins. *Mixed* is a space of 8 with ints, an
        ordinal, a categorical and two parameters that depend on it; the table has {size:,} rows.
        Again by `.venv-peers/bin/python -m benchmarks.speed --only own`."""
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
    """Log EI reached under one common posterior."""
    part = results.get("log_ei")
    if not part:
        return ""
    title = "## Log EI reached under one common posterior\n\n"
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
        f"""farthing's hyperparameters are loaded into a BoTorch model (the posteriors differ by
        at most {worst:.0e}); BoTorch's `optimize_acqf` then maximises log EI with 20 restarts
        from 1024 raw samples. Both points are judged by farthing's log EI. farthing is ahead, or
        at most {NATS} nats behind, in **{good} of {len(rows)}**."""
    )
    return f"{title}{text}\n\n" + table(["problem", "n", "farthing", "BoTorch", "ahead by"], cells)


def lead_over(rows: list[Json], ours: str, rival: str, points: str) -> float | None:
    """Mean over problems of our log density less the rival's."""
    found = [
        row[points][ours] - row[points][rival]
        for row in rows
        if ours in row[points] and rival in row[points]
    ]
    return statistics.fmean(found) if found else None


def density(results: Json) -> str:
    """Predictive log density of held-back points."""
    part = results.get("density")
    if not part:
        return ""
    title = "## Predictive log density of held-back points\n\n"
    if "error" in part:
        return f"{title}Failed: {part['error']}"
    rows = part["rows"]
    sizes = ", ".join(map(str, rows[0]["training"]))
    text = title + paragraph(
        f"""Mean of ln N(y; mean, variance) with observation noise in the variance, y
        standardised by its training set; training on {sizes} points, {rows[0]["splits"]} splits
        each. *Clipped* is the model as the Optimizer uses it, with bad outliers pulled in to Q3
        + 1.5 IQR: it does not try to describe values beyond that fence, so all models are also
        scored on the held-back points inside it."""
    )
    parts = [text]
    for points, caption in (("all", "All held-back points"), ("inside", "Those inside the fence")):
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
    """When, where and with which versions."""
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
        ["## Where and when", "\n".join(lines), f"Versions: {listed}." if listed else ""]
    ).strip()
