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
CALIBRATED = 16  # workers, or the most below: of that run are the costs
CROWDS = (100, 1_000, 10_000)  # workers
TRIALS = {"1 s": 1.0, "1 min": 60.0, "1 h": 3600.0}
CHANGED = ((96, "1 s"), (960, "1 min"), (9_600, "1 h"))  # where something is changed
LEASE = Settings.lease  # seconds
AHEAD = 256  # trials that a thinker of its own has ready at most
LIMITS = {
    "thinking": "thinking",
    "turn": "the turn",
    "database": "the database",
    "cores": "the cores",
    "itself": "its own work",
    "none": "nothing",
}
IDLE = 0.3  # jobs of others, up to which a machine is idle
BUSY = "**Measured beside other work: read CPU times, not rates, and check nothing by the rates.**"


# ── from what was measured ─────────────────────────────────────────────────────────────────────


def real_runs(rows: Sequence[Json]) -> list[Json]:
    found = [row for row in rows if row["what"] == "run"]
    return sorted(found, key=lambda row: (row["far"], row["seconds"], row["workers"]))


def runs_of(rows: Sequence[Json], far: bool = False) -> dict[int, Json]:
    """The real runs with trials of a second, by their workers."""
    runs = [row for row in real_runs(rows) if row["far"] == far and row["seconds"] == 1.0]
    return {row["workers"]: row for row in runs}


def calibrating(rows: Sequence[Json]) -> Json:
    """The run that the costs are taken from."""
    runs = runs_of(rows)
    return runs[max(workers for workers in runs if workers <= CALIBRATED)]


def costs_of(rows: Sequence[Json]) -> Costs:
    """Seconds of each part, as the run of `CALIBRATED` workers had them."""
    near, far = runs_of(rows), runs_of(rows, far=True)
    (apart,) = (row for row in rows if row["what"] == "parts")
    base = calibrating(rows)
    alike = max(far)  # where most were woken
    took = {name: part["cpu_ms"] / 1e3 for name, part in base["parts"].items()}
    calls = {name: part["calls"] for name, part in base["parts"].items()}
    waits = {"wait": {"calls": 1.0, "cpu_ms": 0.0}, **far[alike]["parts"]}  # nobody may have waited
    level = statistics.mean(base["thoughts_ms"]) / 1e3
    grown = [(float(running), t) for running, t in apart["running"].items()]
    at_level = Costs(tuple(grown)).suggestion(
        round(base["rate"])
    )  # as many as ran, of a second each
    counts = sorted((int(count), t / 1e3) for count, t in apart["renewed"].items())
    (least, few), (most, many) = counts[1], counts[-1]  # the first has nothing to read
    waiting = base["parts"]["ask"]["wall_ms"] - base["parts"]["held"]["wall_ms"]

    def woken(name: str) -> float:
        """What a far worker takes of the database for each time it is woken."""
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
    """A real run, simulated."""
    where = {"cores": row["cores"], "others": row["others"], "far": row["far"]}
    return simulate(costs, Setting(row["workers"], row["seconds"], **where))


def changes(costs: Costs) -> dict[str, tuple[Costs, Json]]:
    """What could be otherwise: other costs, and another setting."""
    one = tuple((k, 1.0) for k, _ in costs.batch)
    still = replace(costs, renewing=0.0)  # what they take then is next to nothing
    all_of = {"herd": False, "ahead": AHEAD, "batch": 16}
    return {
        "as it is": (costs, {}),
        "ask(16)": (costs, {"batch": 16}),
        "a policy that does not think": (costs, {"thinks": False}),
        "a thinker of its own": (costs, {"ahead": AHEAD}),
        "one thought for ask(16)": (replace(costs, batch=one), {"batch": 16}),
        "renewals of one statement, every 5 s": (still, {}),
        "only the next is woken": (costs, {"herd": False}),
        "the last two": (still, {"herd": False}),
        "the last two, a thinker of its own": (still, {"herd": False, "ahead": AHEAD}),
        "and one thought for 16": (replace(still, batch=one), all_of),
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
    head = ("workers x trials of", "trials a second", "ask: median, p90 (ms)", "a thought (ms)")
    more = ("thought", "rest of asking", "processes, renewing, telling", "database")
    return table(
        [*head, "statements a second", *(f"CPU: {m} (ms)" for m in more), "jobs of others"], lines
    )


def cpu_of(row: Json) -> tuple[float, float, float, float]:
    """CPU milliseconds of a trial: thought, asking, around, database."""
    each = {name: part["calls"] * part["cpu_ms"] for name, part in row["parts"].items()}
    asking = each["ask"] - each["thought"]
    return each["thought"], asking, each["run"] + each["tell"], row["server_ms"]


def checked_table(rows: Sequence[Json], costs: Costs) -> tuple[str, float]:
    """The real runs beside the simulated, and the largest error of those it was not told."""
    base, lines, errors = calibrating(rows), [], []
    for row in real_runs(rows):
        found = as_real(costs, row)
        error = found.rate / row["rate"] - 1
        told = row == base
        errors += [] if told else [abs(error)]
        lines.append(
            [
                name_of(row) + (" (costs from here)" if told else ""),
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
    head = ["workers x trials of", "real: trials a second", "simulated", "error"]
    for what in ("median ask", "CPU of a trial"):
        head += [f"real: {what} (ms)", "simulated"]
    return table([*head, "what limits it"], lines), max(errors, default=0.0)


def crowds(costs: Costs) -> dict[tuple[int, str], Found]:
    return {
        (workers, name): simulate(costs, Setting(workers, seconds))
        for name, seconds in TRIALS.items()
        for workers in CROWDS
    }


def crowd_table(found: dict[tuple[int, str], Found]) -> str:
    head = ("workers x trials of", "trials a second", "of the ideal", "asking, of a worker's time")
    return table(
        (*head, "statements a second", "what limits it"),
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
    """The most trials that can run, each renewed within its lease."""
    each = costs.locking + costs.serving + TRIPS * ROUND_TRIP
    return max(r for r in range(1, 100_000) if r * (each + costs.read(r)) < LEASE)


def write(rows: Sequence[Json]) -> None:
    """docs/scale.md and its figure."""
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
        "# How far it scales",
        paragraph(
            f"""Made by `python -m benchmarks.speed.scale` from
            [scale.json](../benchmarks/results/scale.json), which `python -m benchmarks.speed.scale
            --measure` measures ({"; ".join(sorted(made))}; {last["cpu"]}; cores:
            {last["cores"]})."""
        ),
        "![Rates, measured and simulated](figures/scale.png)",
        "## Measured",
        paragraph(
            f"""Real worker processes, trials that sleep, PostgreSQL on the same machine, a budget
            in dollars (every trial has a whole thought). The best with trials of a second are
            {best["rate"]:.1f} of them a second, with {best["workers"]} workers;
            {last["workers"]} make {last["rate"]:.1f}. There a trial takes {sum(parts):.0f} ms of
            CPU: {parts[0]:.0f} for the thought, {parts[1]:.0f} for the rest of asking,
            {parts[2]:.0f} for processes, renewing and telling, {parts[3]:.0f} of the database.
            Workers that are *far* take turns as if each had a machine of its own. *Jobs of others*
            says how idle the machine was."""
        ),
        measured_table(rows),
        *([BUSY] if max(row["others"] for row in real_runs(rows)) > IDLE else []),
        paragraph(
            f"""A thought against the trials that run meanwhile, among {apart["among"]} finished
            ones (CPU ms; {running}): what runs takes part as fantasies. `ask(k)` thinks k times,
            and each thought has more to imagine (CPU ms for one of k; {batch})."""
        ),
        "## Simulated, and checked",
        paragraph(
            f"""A discrete-event simulation ([scale_model.py](../benchmarks/speed/scale_model.py)): a
            turn, the one row of a study that every commit locks, cores, the database. Its costs are
            those of one real run; the rates of the others it misses by {100 * error:.0f} % at
            most."""
        ),
        checked,
        "## 100 to 10,000 workers",
        paragraph(
            f"""Every worker on a machine of its own, a database of {DATABASE_CORES} cores,
            {1e3 * ROUND_TRIP:g} ms away. Not simulated: connections (PostgreSQL has 100 unless
            told, every worker keeps one), and that a thought among very many finished trials takes
            longer ([Side by side](parallel.md))."""
        ),
        crowd_table(found),
        paragraph(
            f"""A running trial is renewed every {TICK[1]:g} s. That locks the study's row, and
            reads what all others renewed: work that grows with the square of the workers. Beyond
            {reach(costs):,} running trials a lease of {LEASE:g} s would be over before its turn."""
        ),
        "## What would move it",
        paragraph(
            """Shares of the ideal rate, and what limits then: *thinking*, one thought at a time;
            *the turn*, to get it, look and write; *the database*, its cores or the study's row;
            *its own work*, what a trial takes beside its evaluation though nothing is full."""
        ),
        changed_table(other),
        advice(other),
    ]
    PAGE.write_text("\n\n".join(sections) + "\n")
    draw(rows, costs, found, other)


def advice(other: dict[str, list[Found]]) -> str:
    """What to do today, and what to build."""
    names = list(other)
    now, ready, unbuilt = other[names[0]], names[1:3], names[3:7]

    def best(names: Sequence[str]) -> str:
        """The one that brings most, at each place."""
        found = []
        for k, (workers, trials) in enumerate(CHANGED):
            name = max(names, key=lambda name: other[name][k].share)
            points = 100 * (other[name][k].share - now[k].share)
            said = f"*{name}* ({points:+.0f} points)" if points >= 1 else "none"
            found.append(f"{said} at {workers:,} x {trials}")
        return ", ".join(found)

    def shares(*names: str) -> str:
        return ", and ".join(
            ", ".join(f"{100 * each.share:.0f}" for each in other[name]) for name in names
        )

    return paragraph(
        f"""Today: let trials be longer. Of what there is (`ask(16)` in a program that evaluates 16
        at a time, `--policy sobol`) most brings {best(ready)}; of single changes that are not
        built, {best(unbuilt)}. Where several things are full at once, one change alone brings
        little: *{unbuilt[2]}* and *{unbuilt[3]}* bring {shares(*unbuilt[2:])} % of the ideal each
        for itself, together {shares(names[7])} %."""
    )


# ── the figure ─────────────────────────────────────────────────────────────────────────────────


def draw(
    rows: Sequence[Json],
    costs: Costs,
    found: dict[tuple[int, str], Found],
    other: dict[str, list[Found]],
) -> None:
    """Marks, lines and shades of grey: it is read without colours, too."""
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
        left.plot(at, at, color="0.7", lw=0.8, label="without any waiting")
        left.set(title="Real and simulated", xlabel="workers of one machine", xscale="log")
        left.set(xticks=at, xticklabels=at, ylim=(0, 1.2 * most), ylabel="trials of 1 s a second")
        left.minorticks_off()
        for name, mark, line in zip(TRIALS, "os^", ("-", "--", ":"), strict=True):
            shares = [100 * found[workers, name].share for workers in CROWDS]
            label = f"trials of {name}"
            middle.plot(CROWDS, shares, marker=mark, ls=line, color="black", label=label)
        middle.set(title="As it is, simulated", xlabel="workers, a machine each", xscale="log")
        middle.set(ylabel="% of the ideal rate", ylim=(0, 105))
        places = [*enumerate(other.values())]
        for k, (workers, trials) in enumerate(CHANGED):
            at = [i + 0.27 * (k - 1) for i, _ in places]
            shares = [100 * of[k].share for _, of in places]
            looks: Json = {"color": ("white", "0.6", "0.1")[k], "ec": "black", "lw": 0.5}
            right.barh(at, shares, 0.27, label=f"{workers:,} x {trials}", **looks)
        right.set(title="What would move it, simulated", xlabel="% of the ideal rate")
        right.set(yticks=range(len(other)), yticklabels=list(other), xlim=(0, 105))
        right.invert_yaxis()
        for axes in (left, middle, right):
            axes.legend(fontsize=7)
        FIGURE.parent.mkdir(exist_ok=True)
        figure.savefig(FIGURE, dpi=110, metadata={"Software": None})
        plt.close(figure)
