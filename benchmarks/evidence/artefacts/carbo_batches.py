"""CArBO's batches: figure 6, and the batches of 3, 7 and 11 of tables 1 and 2.

Batches are synchronous, and the budget is of the time that passes: of each batch its longest
evaluation. In the tables it is the same for every size, 60 mean costs, so that a larger batch has
more evaluations. In figure 6 it is divided by the size, so that every size has the same total
time of all machines, idle ones included: the paper's 2400, 1200, ..., 150 seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence import measures
from benchmarks.evidence.artefacts.artefact import Artefact, Json, Settings, grid, markdown
from benchmarks.evidence.artefacts.carbo import (
    DIFFERS,
    MEAN_COSTS,
    METHODS,
    SEEDS,
    compare,
    compared,
    draw_errors,
    draw_savings,
    error_table,
    error_verdict,
    lowest_of,
    net_savings,
    problems,
    replays,
    saving_table,
    saving_verdict,
    seeds_of,
    short_name,
    win_counts,
    with_bounds,
)
from benchmarks.evidence.artefacts.curves import (
    SHARES,
    clock_and_values,
    curves,
    draw_median,
    middle,
    numbers,
    plain,
    quartiles,
    recorded_errors,
)
from benchmarks.evidence.artefacts.printed import in_both_modes
from benchmarks.evidence.replay import MOST, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

BATCHES = (3, 7, 11)  # of the tables
BATCH_SEEDS = 5
AT_MOST = 1000  # evaluations of a run: the paper's largest count is 1040
PAPER_WINS = {3: 18, 7: 17, 11: 16}
PAPER_NETS = {3: 45.1, 7: 41.6, 11: 40.6}
SIZES = (1, 2, 4, 8, 16)  # of figure 6
COMPUTE = 480.0  # mean costs of all machines together: 30 of time for the largest batch
HUES = ("#000000", "#0072b2", "#56b4e9", "#009e73", "#e69f00")


# ── figure 6: batch sizes at equal total compute ───────────────────────────────────────────────


def _scaling(settings: Settings) -> Json:
    names = [name for name in problems() if name.endswith("mlp-a1a")] or problems()[:1]
    by: dict[int, list[Run]] = {}
    for size in SIZES:
        runs = replays(
            names,
            ("CArBO",),
            settings,
            batch=size,
            mean_costs=(MEAN_COSTS if settings.quick else COMPUTE) / size,
            most=AT_MOST,
        )
        by[size] = [runs[job] for job in sorted(runs, key=lambda job: job.seed)]
    there = set.intersection(*({run.job.seed for run in part} for part in by.values()))
    by = {size: [r for r in part if r.job.seed in there] for size, part in by.items()}
    return {
        "problem": names[0],
        "r2": recorded_errors(names[:1]),
        "compute": MEAN_COSTS if settings.quick else COMPUTE,
        "seeds": len(there),
        "sizes": {str(size): _of_size(part) for size, part in by.items()} if there else {},
    }


def _of_size(runs: list[Run]) -> Json:
    """Of one batch size: its time, the median curve over it, and the result of each seed."""
    taken = [float(clock_and_values(run)[0].sum()) for run in runs]
    busy = [sum(run.costs) / (run.job.batch * t) for run, t in zip(runs, taken, strict=True)]
    lines = curves(runs)
    return {
        "limit": runs[0].limit,
        "curve": plain(middle(lines)),
        "quartiles": quartiles(lines),
        "finals": plain(lines[:, -1]),
        "evaluations": float(np.median([len(run.costs) for run in runs])),
        "busy": float(np.median(busy)),
    }


def losses(kept: Json) -> dict[str, list[float]]:
    """By batch size: the mean over seeds of its final error less that of batch 1, with bounds."""
    one = numbers(kept["sizes"]["1"]["finals"])
    found = {}
    for size, part in kept["sizes"].items():
        more = numbers(part["finals"]) - one
        more = more[np.isfinite(more)]  # a run may have ended without a value
        bounds = measures.bootstrap([more]) if len(more) else (np.nan, np.nan)
        found[size] = [float(more.mean()) if len(more) else np.nan, *bounds]
    return found


def _loss(loss: list[float]) -> str:
    return f"{loss[0]:+.4f} [{loss[1]:+.4f}, {loss[2]:+.4f}]"


def _scaling_table(kept: Json) -> str:
    if not kept["sizes"]:
        return markdown(("batch", "median final error"), [[size, "not yet run"] for size in SIZES])
    rows = []
    for size, loss in losses(kept).items():
        part = kept["sizes"][size]
        shared = [part["limit"], part["evaluations"], f"{100 * part['busy']:.0f} %"]
        final = float(np.nanmedian(numbers(part["finals"])))
        rows.append([size, *shared, f"{final:.4f}", "-" if size == "1" else _loss(loss)])
    header = ("batch", "time (s)", "evaluations", "machines busy", "median final error")
    return markdown((*header, "mean loss against batch 1"), rows) + (
        f"\n\n{short_name(kept['problem'])}, {kept['seeds']} seeds, {kept['compute']:g} mean costs "
        "of all machines together. A batch waits for its longest evaluation, and the other "
        "machines are idle."
    )


def _scaling_verdict(kept: Json) -> str:
    if not kept["sizes"]:
        return "Not yet run: CArBO in batches of 1 to 16."
    found = {size: loss for size, loss in losses(kept).items() if size != "1"}
    worse = [size for size, loss in found.items() if loss[1] > 0]
    said = ", ".join(f"{size}: {_loss(loss)}" for size, loss in found.items())
    side = f"worse in batches of {', '.join(worse)}" if worse else "no batch size is surely worse"
    return (
        f"At equal total compute the final error less that of sequential CArBO is {said} "
        f"({kept['seeds']} seeds): {side}. The paper sees little to no loss up to 16."
    )


def _draw_scaling(kept: Json) -> Figure:
    figure, (left, right) = grid(2, width=4.0, height=2.9)
    for hue, (size, part) in zip(HUES, kept["sizes"].items(), strict=False):
        style = {"color": hue, "label": f"batch {size}"}
        for axis, scale in ((left, 1), (right, int(size))):
            at = SHARES * part["limit"] * scale
            draw_median(axis, at, part["curve"], part["quartiles"], **style)
    left.set(xlabel="wall-clock seconds", ylabel="median best error", xscale="log")
    right.set(xlabel="seconds of all machines together")
    for axis in (left, right):
        axis.set(title=short_name(kept["problem"]))
    left.legend(fontsize=8)
    return figure


# ── tables 1 and 2: batches of 3, 7 and 11 ─────────────────────────────────────────────────────


def _with_batches(settings: Settings) -> Json:
    """The numbers of the sequential tables, and the same for each batch size."""
    names, found = problems(), compare(settings)
    found["batches"] = {}
    for size in BATCHES:
        runs = replays(
            names,
            METHODS,
            settings,
            seeds=settings.count(BATCH_SEEDS),
            batch=size,
            most=min(size * MOST, AT_MOST),
            needed=False,
        )
        found["batches"][str(size)] = compared(runs, names)
    return found


def _batches(kept: Json) -> Mapping[str, Json]:
    """The numbers by batch size; older kept numbers have none."""
    return {size: parts for size, parts in kept.get("batches", {}).items() if parts}


def _missing(kept: Json) -> str:
    """A sentence on the sizes that were not run."""
    missing = [str(size) for size in BATCHES if str(size) not in _batches(kept)]
    return f"Batches of {' and '.join(missing)}: not yet run." if missing else ""


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


def _batch_errors(kept: Json) -> str:
    found = _batches(kept)
    if not found:
        return ""
    rows = []
    for problem in dict.fromkeys(name for parts in found.values() for name in parts):
        cells: list[object] = [short_name(problem)]
        for parts in found.values():
            if problem not in parts:
                cells += ["-"] * len(METHODS)
                continue
            part, lowest = parts[problem], lowest_of(parts[problem])
            for method in METHODS:
                text = f"{part['error'][method]:.4f} ({part['evaluations'][method]:.0f})"
                cells.append(f"**{text}**" if method in lowest else text)
        rows.append(cells)
    header = ("problem", *(f"{method}{size}" for size in found for method in METHODS))
    counts = ", ".join(f"batch {size}: {seeds_of(parts)}" for size, parts in found.items())
    return _joined(
        markdown(header, rows),
        "Batches: median final error (and evaluations) after the same time as above, of which a "
        f"batch takes that of its longest evaluation. Seeds: {counts}. Bold: the lowest of its "
        "batch size, or within one test row of it.",
    )


def _errors(kept: Json) -> str:
    return _joined(error_table(kept), _batch_errors(kept), _missing(kept))


def _error_sentence(kept: Json) -> str:
    said = []
    for size, parts in _batches(kept).items():
        tied, alone = win_counts(parts)
        said.append(
            f"batch {size}: on {tied['CArBO']} of {len(parts)}, alone on {alone['CArBO']} "
            f"({seeds_of(parts)} seeds; the paper: {PAPER_WINS[int(size)]} of 20)"
        )
    batches = f"In batches, {'; '.join(said)}." if said else ""
    return " ".join(filter(None, [error_verdict(kept), batches, _missing(kept)]))


def _batch_savings(kept: Json) -> str:
    found = _batches(kept)
    if not found:
        return ""
    rows: list[list[object]] = []
    for size, parts in found.items():
        nets = net_savings(parts)
        what = ("savings", "savings_control", "time_saved", "time_control")
        cells = [with_bounds(nets[name]) for name in what]
        rows.append([size, len(parts), seeds_of(parts), *cells, f"{PAPER_NETS[int(size)]} %"])
    header = (
        *("batch", "problems", "seeds", "net saving from the budget", "its control"),
        *("net time saved", "its control", "the paper's net saving"),
    )
    return markdown(header, rows)


def _savings(kept: Json) -> str:
    return _joined(saving_table(kept), _batch_savings(kept), _missing(kept))


def _saving_sentence(kept: Json) -> str:
    said = []
    for size, parts in _batches(kept).items():
        net = net_savings(parts)["time_saved"]
        side = "faster" if net[1] > 0 else "slower" if net[2] < 0 else "undecided"
        said.append(f"batch {size}: {with_bounds(net)}, {side} ({seeds_of(parts)} seeds)")
    batches = f"Time saved in batches, {'; '.join(said)}." if said else ""
    return " ".join(filter(None, [saving_verdict(kept), batches, _missing(kept)]))


ARTEFACTS = (
    Artefact(
        "carbo-figure-6",
        "batches of up to 16 lose little or nothing against sequential CArBO at equal compute",
        in_both_modes(_scaling, DIFFERS),
        _scaling_table,
        _scaling_verdict,
        _draw_scaling,
        SEEDS,
    ),
    Artefact(
        "carbo-table-1",
        "CArBO has the lowest median error on most of the 20 problems, one by one and in batches",
        in_both_modes(_with_batches, DIFFERS),
        _errors,
        _error_sentence,
        draw_errors,
        SEEDS,
    ),
    Artefact(
        "carbo-table-2",
        "CArBO saves 32.5 % of the budget over the next best optimiser, 41 to 45 % in batches",
        in_both_modes(_with_batches, DIFFERS),
        _savings,
        _saving_sentence,
        draw_savings,
        SEEDS,
    ),
)
