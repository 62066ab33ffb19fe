"""docs/scale.md and its figure, from the rows of scale.json: see `benchmarks.speed.scale`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.evidence.artefacts.artefact import REPO, STYLE
from benchmarks.speed.page import paragraph, table
from benchmarks.speed.scale_model import (
    DATABASE_CORES,
    ROUND_TRIP,
    TRIPS,
    Costs,
    Found,
    Setting,
    simulate,
)
from farthing.core.settings import Settings
from farthing.running.worker import TICK

Json = dict[str, Any]

PAGE = REPO / "docs" / "scale.md"
FIGURE = REPO / "docs" / "figures" / "scale.png"
CALIBRATED = 16  # workers of the run that gives the costs, or the largest run below
CROWDS = (100, 1_000, 10_000)  # workers
TRIALS = {"1 s": 1.0, "1 min": 60.0, "1 h": 3600.0}
CHANGED = ((96, "1 s"), (960, "1 min"), (9_600, "1 h"))  # where changes are simulated
LEASE = Settings.lease  # seconds
AHEAD = 256  # suggestions that a separate suggesting process prepares at most
LIMITS = {
    "suggestion": "suggesting",
    "lock": "the lock",
    "database": "the database",
    "cores": "the cores",
    "itself": "own work",
    "none": "nothing",
}
IDLE = 0.3  # other jobs; up to this number a machine counts as idle
BUSY = "**Other programs ran during the measurement: use the CPU times, not the rates.**"


# ── from the measurements ─────────────────────────────────────────────────────────────────────


def real_runs(rows: Sequence[Json]) -> list[Json]:
    found = [row for row in rows if row["what"] == "run"]
    return sorted(found, key=lambda row: (row["far"], row["seconds"], row["workers"]))


def runs_of(rows: Sequence[Json], far: bool = False) -> dict[int, Json]:
    """The real runs with trials of one second, by number of workers."""
    runs = [row for row in real_runs(rows) if row["far"] == far and row["seconds"] == 1.0]
    return {row["workers"]: row for row in runs}


def calibrating(rows: Sequence[Json]) -> Json:
    """The run that gives the costs."""
    runs = runs_of(rows)
    return runs[max(workers for workers in runs if workers <= CALIBRATED)]


def costs_of(rows: Sequence[Json]) -> Costs:
    """Seconds of each part, from the run with `CALIBRATED` workers."""
    near, far = runs_of(rows), runs_of(rows, far=True)
    (apart,) = (row for row in rows if row["what"] == "parts")
    base = calibrating(rows)
    alike = max(far)  # the run with most wake-ups
    took = {name: part["cpu_ms"] / 1e3 for name, part in base["parts"].items()}
    calls = {name: part["calls"] for name, part in base["parts"].items()}
    waits = {
        "wait": {"calls": 1.0, "cpu_ms": 0.0},
        **far[alike]["parts"],
    }  # there may have been no wait
    level = statistics.mean(base["thoughts_ms"]) / 1e3
    grown = [(float(running), t) for running, t in apart["running"].items()]
    at_level = Costs(tuple(grown)).suggestion(
        round(base["rate"])
    )  # trials of one second, so rate = running
    counts = sorted((int(count), t / 1e3) for count, t in apart["renewed"].items())
    (least, few), (most, many) = counts[1], counts[-1]  # the first has nothing to read
    waiting = base["parts"]["ask"]["wall_ms"] - base["parts"]["held"]["wall_ms"]

    def woken(name: str) -> float:
        """The database's work for one wake-up of a far worker."""
        return float(max(far[alike][name] - near[alike][name], 0.0) / waits["wait"]["calls"])

    return Costs(
        overhead=tuple((running, level * t / at_level) for running, t in grown),
        spread=tuple(t / 1e3 / level for t in base["thoughts_ms"]),
        looking=max(took["held"] - calls["thought"] * took["thought"] - took["commit"], 0.0),
        row=max(many - few, 0.0) / (most - least),
        at=base["workers"],
        committing=max(took["commit"] - took["locked"], 0.0),
        locking=took["locked"],
        serving=base["server_ms"] / 1e3 / calls["commit"],
        starting=took["run"] - calls["renew"] * took["renew"],
        telling=max(took["tell"] - took["commit"], 0.0),
        renewing=took["renew"],
        waiting=max(took["ask"] - took["held"], 0.0) / max(waiting / 1e3, 1e-9),
        handover=max(base["handover_ms"], 0.0) / 1e3,
        waking=(waits["wait"]["cpu_ms"] + waits["look"]["cpu_ms"]) / 1e3,
        waking_served=woken("server_ms") / 1e3,
        vain=max(waits["thought"]["calls"] - 1, 0.0),
        statements=base["statements"],
        waking_statements=woken("statements"),
        batch=tuple((int(k), t / apart["batch"]["1"]) for k, t in apart["batch"].items()),
    )


def as_real(costs: Costs, row: Json) -> Found:
    """Simulate a real run."""
    where = {"cores": row["cores"], "others": row["others"], "far": row["far"]}
    return simulate(costs, Setting(row["workers"], row["seconds"], **where))


def changes(costs: Costs) -> dict[str, tuple[Costs, Json]]:
    """Possible changes: other costs, and another setting."""
    one = tuple((k, 1.0) for k, _ in costs.batch)
    still = replace(costs, renewing=0.0)  # their cost is then negligible
    all_of = {"herd": False, "ahead": AHEAD, "batch": 16}
    return {
        "unchanged": (costs, {}),
        "ask(16)": (costs, {"batch": 16}),
        "a policy without a model": (costs, {"suggests": False}),
        "a separate suggesting process": (costs, {"ahead": AHEAD}),
        "one suggestion for ask(16)": (replace(costs, batch=one), {"batch": 16}),
        "renewals of one statement, every 5 s": (still, {}),
        "wake only the next worker": (costs, {"herd": False}),
        "the last two": (still, {"herd": False}),
        "the last two, a separate suggesting process": (still, {"herd": False, "ahead": AHEAD}),
        "the same, one suggestion for 16": (replace(still, batch=one), all_of),
    }


# ── the page ───────────────────────────────────────────────────────────────────────────────────


def name_of(row: Json) -> str:
    return f"{row['workers']}{' far' if row['far'] else ''} x {row['seconds']:g} s"


def measured_table(rows: Sequence[Json]) -> str:
    """Real runs."""
    lines = [
        [
            name_of(row),
            f"{row['rate']:.1f} of {row['ideal']:.0f}",
            f"{row['ask_ms']['median']:.0f}, {row['ask_ms']['p90']:.0f}",
            f"{row['thought_ms']['median']:.0f}",
            f"{row['statements_s']:.0f}",
            *(f"{part:.0f}" for part in cpu_of(row)),
            f"{row['others']:.2f}",
        ]
        for row in real_runs(rows)
    ]
    head = ("workers x trials of", "trials/s", "ask: median, p90 (ms)", "suggestion (ms)")
    more = ("suggestion", "rest of ask", "processes, renewals, tell", "database")
    return table([*head, "statements/s", *(f"CPU: {m} (ms)" for m in more), "other jobs"], lines)


def cpu_of(row: Json) -> tuple[float, float, float, float]:
    """CPU milliseconds of a trial: suggestion, rest of ask, processes and tell, database."""
    each = {name: part["calls"] * part["cpu_ms"] for name, part in row["parts"].items()}
    asking = each["ask"] - each["thought"]
    return each["thought"], asking, each["run"] + each["tell"], row["server_ms"]


def checked_table(rows: Sequence[Json], costs: Costs) -> tuple[str, float]:
    """The real runs beside the simulated ones, and the largest error of the other runs."""
    base, lines, errors = calibrating(rows), [], []
    for row in real_runs(rows):
        found = as_real(costs, row)
        error = found.rate / row["rate"] - 1
        is_base = row == base
        errors += [] if is_base else [abs(error)]
        lines.append(
            [
                name_of(row) + (" (gives the costs)" if is_base else ""),
                f"{row['rate']:.1f}",
                f"{found.rate:.1f}",
                f"{100 * error:+.0f} %",
                f"{row['ask_ms']['median']:.0f}",
                f"{1e3 * statistics.median(found.asks):.0f}",
                f"{sum(cpu_of(row)):.0f}",
                f"{1e3 * found.cpu:.0f}",
                LIMITS[found.limit],
            ]
        )
    head = ["workers x trials of", "real: trials/s", "simulated", "error"]
    for what in ("median ask", "CPU per trial"):
        head += [f"real: {what} (ms)", "simulated"]
    return table([*head, "limit"], lines), max(errors, default=0.0)


def crowds(costs: Costs) -> dict[tuple[int, str], Found]:
    return {
        (workers, name): simulate(costs, Setting(workers, seconds))
        for name, seconds in TRIALS.items()
        for workers in CROWDS
    }


def crowd_table(found: dict[tuple[int, str], Found]) -> str:
    head = ("workers x trials of", "trials/s", "share of ideal", "share of time in ask")
    return table(
        (*head, "statements/s", "limit"),
        [
            [
                f"{workers:,} x {name}",
                f"{each.rate:.3g}",
                f"{100 * each.share:.0f} %",
                f"{100 * each.asking:.0f} %",
                f"{each.statements:.0f}",
                LIMITS[each.limit],
            ]
            for (workers, name), each in found.items()
        ],
    )


def changed(costs: Costs) -> dict[str, list[Found]]:
    return {
        name: [
            simulate(other, replace(Setting(workers, TRIALS[trials]), **more))
            for workers, trials in CHANGED
        ]
        for name, (other, more) in changes(costs).items()
    }


def changed_table(found: dict[str, list[Found]]) -> str:
    return table(
        ("", *(f"{workers:,} x {trials}" for workers, trials in CHANGED)),
        [
            [name, *(f"{100 * each.share:.0f} % ({LIMITS[each.limit]})" for each in of)]
            for name, of in found.items()
        ],
    )


def reach(costs: Costs) -> int:
    """The largest number of running trials of which each is renewed within its lease."""
    each = costs.locking + costs.serving + TRIPS * ROUND_TRIP
    return max(r for r in range(1, 100_000) if r * (each + costs.read(r)) < LEASE)


def write(rows: Sequence[Json]) -> None:
    """Write docs/scale.md and its figure."""
    costs = costs_of(rows)
    near = runs_of(rows)
    checked, error = checked_table(rows, costs)
    found, other = crowds(costs), changed(costs)
    (apart,) = (row for row in rows if row["what"] == "parts")
    best, last = max(near.values(), key=lambda row: row["rate"]), near[max(near)]
    batch = ", ".join(f"{k}: {t / int(k):.0f}" for k, t in apart["batch"].items())
    running = ", ".join(f"{r}: {t:.0f}" for r, t in apart["running"].items())
    parts = cpu_of(best)
    made = {", ".join(filter(None, (row["date"][:10], row["commit"], row["note"]))) for row in rows}
    sections = [
        "# How far Farthing scales",
        paragraph(
            f"""`python -m benchmarks.speed.scale` wrote this page from
            [scale.json](../benchmarks/results/scale.json). `python -m benchmarks.speed.scale
            --measure` measured that file ({"; ".join(sorted(made))}; {last["cpu"]}; cores:
            {last["cores"]})."""
        ),
        "![Rates, measured and simulated](figures/scale.png)",
        "## Measured",
        paragraph(
            f"""The workers are real processes, the trials sleep, and PostgreSQL runs on the same
            machine. The budget is in dollars, so overhead does not shorten a suggestion. With
            trials of one second, the highest rate was {best["rate"]:.1f} trials per second, with
            {best["workers"]} workers; {last["workers"]} workers reached {last["rate"]:.1f}. At the
            highest rate, a trial took {sum(parts):.0f} ms of CPU: {parts[0]:.0f} for the
            suggestion, {parts[1]:.0f} for the rest of ask, {parts[2]:.0f} for processes, renewals
            and tell, and {parts[3]:.0f} in the database. *Far* workers use the suggestion lock as
            if each had its own machine. They were measured while a notification woke the waiting
            workers; now these poll ([decisions.md](decisions.md)). *Other jobs* is the number of
            other programs that used the cores."""
        ),
        measured_table(rows),
        *([BUSY] if max(row["others"] for row in real_runs(rows)) > IDLE else []),
        paragraph(
            f"""A suggestion takes longer if more trials are running, because they are fantasised.
            CPU milliseconds of a suggestion by the number of running trials, with {apart["among"]}
            finished ones: {running}. `ask(k)` makes k suggestions, and each has one more trial to
            fantasise. CPU milliseconds per suggestion by k: {batch}."""
        ),
        "## Simulated, and compared with real runs",
        paragraph(
            f"""A discrete-event simulation
            ([scale_model.py](../benchmarks/speed/scale_model.py)) has the suggestion lock, the row
            of a study that every commit locks, the cores and the database. Its costs come from one
            real run. Its rates for the other runs are wrong by at most {100 * error:.0f} %."""
        ),
        checked,
        "## 100 to 10,000 workers",
        paragraph(
            f"""Simulated: every worker has its own machine, and the database has {DATABASE_CORES}
            cores and is {1e3 * ROUND_TRIP:g} ms away. The simulation leaves out two effects. Every
            worker keeps a connection, and PostgreSQL allows 100 by default. A suggestion takes
            longer with very many finished trials ([parallel](parallel.md))."""
        ),
        crowd_table(found),
        paragraph(
            f"""A running trial is renewed every {TICK[1]:g} s. A renewal locks the study's row and
            reads the other renewals, so this work grows with the square of the number of workers.
            With more than {reach(costs):,} running trials, a lease of {LEASE:g} s would expire
            before it is renewed."""
        ),
        "## What would raise the limit",
        paragraph(
            """The table shows the share of the ideal rate and what limits it. *Suggesting*: the
            workers wait for suggestions, which are made one at a time. *The lock*: they wait to
            acquire the suggestion lock, to read and to write. *The database*: its cores or the
            study's row are busy. *Own work*: a trial needs time beside its evaluation, but nothing
            is busy all the time."""
        ),
        changed_table(other),
        advice(other),
    ]
    PAGE.write_text("\n\n".join(sections) + "\n")
    draw(rows, costs, found, other)


def advice(other: dict[str, list[Found]]) -> str:
    """What a user can do today, and which changes would help."""
    names = list(other)
    now, ready, unbuilt = other[names[0]], names[1:3], names[3:7]

    def best(names: Sequence[str]) -> str:
        """The change that helps most, at each size."""
        found = []
        for k, (workers, trials) in enumerate(CHANGED):
            name = max(names, key=lambda name: other[name][k].share)
            points = 100 * (other[name][k].share - now[k].share)
            text = f"*{name}* ({points:+.0f} points)" if points >= 1 else "none"
            found.append(f"{text} at {workers:,} x {trials}")
        return ", ".join(found)

    def shares(*names: str) -> str:
        return ", and ".join(
            ", ".join(f"{100 * each.share:.0f}" for each in other[name]) for name in names
        )

    return paragraph(
        f"""Today, the remedy is longer trials. Two options exist already: `ask(16)` in a program
        that evaluates 16 trials at a time, and `--policy sobol`. The better one is {best(ready)}.
        The other changes are not built. The best single one is {best(unbuilt)}. If several parts
        are busy at once, one change alone helps little: *{unbuilt[2]}* and *{unbuilt[3]}* reach
        {shares(*unbuilt[2:])} % of the ideal alone, and {shares(names[7])} % together."""
    )


# ── the figure ─────────────────────────────────────────────────────────────────────────────────


def draw(
    rows: Sequence[Json],
    costs: Costs,
    found: dict[tuple[int, str], Found],
    other: dict[str, list[Found]],
) -> None:
    """Draw with marks, lines and shades of grey, so that the figure needs no colours."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4))
        most = 0.0
        for far, mark, line in ((False, "o", "-"), (True, "^", ":")):
            runs, name = runs_of(rows, far), "far" if far else "one machine"
            at, rates = list(runs), [row["rate"] for row in runs.values()]
            left.plot(at, rates, mark, color="black", mfc="none", label=f"{name}, real")
            simulated = [as_real(costs, row).rate for row in runs.values()]
            left.plot(at, simulated, line, color="black", label=f"{name}, simulated")
            most = max(most, *rates, *simulated)
        at = list(runs_of(rows))
        left.plot(at, at, color="0.7", lw=0.8, label="without waiting")
        left.set(title="Real and simulated", xlabel="workers on one machine", xscale="log")
        left.set(
            xticks=at,
            xticklabels=at,
            ylim=(0, 1.2 * most),
            ylabel="trials per second (trials of 1 s)",
        )
        left.minorticks_off()
        for name, mark, line in zip(TRIALS, "os^", ("-", "--", ":"), strict=True):
            shares = [100 * found[workers, name].share for workers in CROWDS]
            label = f"trials of {name}"
            middle.plot(CROWDS, shares, marker=mark, ls=line, color="black", label=label)
        middle.set(
            title="Unchanged, simulated", xlabel="workers, each with its own machine", xscale="log"
        )
        middle.set(ylabel="% of the ideal rate", ylim=(0, 105))
        places = [*enumerate(other.values())]
        for k, (workers, trials) in enumerate(CHANGED):
            at = [i + 0.27 * (k - 1) for i, _ in places]
            shares = [100 * of[k].share for _, of in places]
            looks: Json = {"color": ("white", "0.6", "0.1")[k], "ec": "black", "lw": 0.5}
            right.barh(at, shares, 0.27, label=f"{workers:,} x {trials}", **looks)
        right.set(title="Changes, simulated", xlabel="% of the ideal rate")
        right.set(yticks=range(len(other)), yticklabels=list(other), xlim=(0, 105))
        right.invert_yaxis()
        for axes in (left, middle, right):
            axes.legend(fontsize=7)
        FIGURE.parent.mkdir(exist_ok=True)
        figure.savefig(FIGURE, dpi=110, metadata={"Software": None})
        plt.close(figure)
