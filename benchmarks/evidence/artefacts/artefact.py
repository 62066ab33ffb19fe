"""An artefact: a table, a figure and a verdict from kept numbers.

`compute` runs the replays that are not kept yet and returns plain JSON. `draw`, `table` and
`verdict` read only this JSON, so that `make evidence` needs no replays and no data.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks.evidence.replay import Missing
from benchmarks.speed.suggestions import commit, cpu_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Json = dict[str, Any]

DPI = 110
WIDTH = 8.2  # inches: a wider figure is not readable at the width of a page
REPO = Path(__file__).resolve().parents[3]
RESULTS = REPO / "benchmarks" / "results"
PICTURES = REPO / "docs" / "evidence"

# Old names that kept results contain, and what they are called now. The key of a problem stays,
# because seeds are derived from it (`replay.seed_of`).
RENAMED = {"dear-optimum": "expensive-optimum", "Choose": "AutoCost"}


@dataclass(frozen=True)
class Settings:
    """Options of a computation."""

    seeds: int | None = None  # None: the artefact's own number
    jobs: int = 2
    quick: bool = False  # a smoke test: the smallest run that exercises every step
    data: str | None = None
    budgets: tuple[float, ...] | None = None  # None: the artefact's own
    more: bool = True  # False: use the kept runs only
    any_source: bool = False  # whether comparisons use farthing's runs of other source versions
    own: bool = False  # whether artefacts of papers also make the runs of Farthing's version
    printed: bool = False  # whether methods are those of the papers as printed, see printed.py
    origins: list[Any] = field(default_factory=list, compare=False)  # of the runs that were read
    missing: list[Missing] = field(default_factory=list, compare=False)  # of the planned runs

    def count(self, usual: int, quick: int = 2) -> int:
        """Seeds to run."""
        return quick if self.quick else usual if self.seeds is None else self.seeds


@dataclass(frozen=True)
class Artefact:
    """One figure or table.

    Attributes:
        name: what comes after `python -m benchmarks`.
        claim: what the paper shows with it, or the question it answers.
        compute: settings -> the numbers.
        table: the numbers -> Markdown.
        verdict: the numbers -> one sentence with the outcome; it starts with "Not yet run" if there
            is nothing to show, and then the artefact has no page.
        draw: the numbers -> a figure.
        seeds: the planned number; None if nothing is random or a single run is examined.
        appendix: the numbers -> a figure with every panel, where `draw` is a summary.
    """

    name: str
    claim: str
    compute: Callable[[Settings], Json]
    table: Callable[[Json], str]
    verdict: Callable[[Json], str]
    draw: Callable[[Json], Figure]
    seeds: int | None = None
    appendix: Callable[[Json], Figure] | None = None


def run(artefact: Artefact, settings: Settings, folder: Path = RESULTS) -> Path:
    """Compute and keep the numbers; returns their file."""
    settings = replace(settings, missing=[])
    numbers = artefact.compute(settings)
    kept = {"about": about(settings), "numbers": numbers}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{artefact.name}.json"
    path.write_text(json.dumps(kept, indent=1) + "\n")
    return path


def read(path: Path) -> Json:
    """The kept file of an artefact, with the present names."""
    text = path.read_text()
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return cast(Json, json.loads(text))


def about(settings: Settings) -> Json:
    """Date, versions, machine and options of a computation."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "farthing": version("farthing"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "quick": settings.quick,
        "seeds": settings.seeds,  # None: the planned number
        "kept_only": not settings.more,
        "any_source": settings.any_source,
        "missing_runs": sum(part.runs for part in settings.missing),
        "missing_hours": round(sum(part.hours for part in settings.missing), 2),
    }


def pictures(artefact: Artefact, numbers: Json, folder: Path = PICTURES) -> list[Path]:
    """Draw to `<name>.png`, and the appendix to `<name>-panels.png`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for draw, tail in ((artefact.draw, ""), (artefact.appendix, "-panels")):
        if draw is not None:
            path = folder / f"{artefact.name}{tail}.png"
            with plt.rc_context(STYLE):
                figure = draw(numbers)
                figure.savefig(path, dpi=DPI, metadata={"Software": None})
                plt.close(figure)
            drawn.append(path)
    return drawn


def grid(
    count: int, columns: int = 3, *, width: float = 2.6, height: float = 2.4, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels in rows of at most `columns`, in their order."""
    import matplotlib.pyplot as plt

    columns = max(1, min(count, columns))
    rows = max(1, -(-count // columns))
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **options)
    for axis in axes.flat[count:]:
        axis.remove()
    return figure, list(axes.flat[:count])


# Colours of methods everywhere: the paper's own where it has them (random grey, EI red, EIpu green,
# CArBO blue), from a palette that colour-blind readers can tell apart.
COLOURS = {
    "random": "#7f7f7f",
    "EI": "#d55e00",
    "EIpu": "#009e73",
    "CArBO": "#0072b2",
    "cooling": "#cc79a7",
    "PBGI": "#e69f00",
    "EI_0.2": "#8c564b",
    "CEI_0.3": "#56b4e9",
    "CEI_0.7": "#9467bd",
}
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 9,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


def colour(method: str) -> str:
    """A method's colour; other methods take one from a fixed cycle, by name."""
    cycle = ("#56b4e9", "#f0e442", "#8c564b", "#17becf", "#bcbd22", "#9467bd", "#e377c2", "#2ca02c")
    return COLOURS.get(method) or cycle[sum(method.encode()) % len(cycle)]


def markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table, numbers to three digits."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)
