"""The kept results of injections: one line each, written when the injection ends."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.reliability.faults.injecting import TOO_LATE, Found
from benchmarks.reliability.faults.plan import GRACE, KINDS
from benchmarks.speed.suggestions import commit
from farthing.running.worker import TICK

RESULTS = Path(__file__).resolve().parents[2] / "results" / "faults.jsonl"
COLUMNS = (
    *(
        "database",
        "fault",
        "target",
        "injections",
        "too late",
        "commits",
        "trials",
        "survivors",
        "lost",
    ),
    *("reported twice", "overspent", "allowed", "with faults"),
)


def kept(file: Path) -> list[dict[str, Any]]:
    """Every injection that has ended."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def keep_session(file: Path, found: Any) -> None:
    """Append a session of `trainings` or `storm`, with one write (see `keep`)."""
    with file.open("a") as out:
        out.write(json.dumps({**asdict(found), **circumstances()}) + "\n")


def keep(file: Path, seed: int, number: int, found: Found) -> None:
    """Append one, with one write because other processes may append at the same time."""
    result = _short(asdict(found))
    result["thought"] = result.pop("suggestion_s")  # the key of the kept lines
    line = json.dumps({"seed": seed, "number": number, **result, **circumstances()})
    file.parent.mkdir(exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, (line + "\n").encode())
    finally:
        os.close(descriptor)


def circumstances() -> dict[str, Any]:
    """The date, the commit and the load of the machine."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": when, "commit": commit(), "load": round(os.getloadavg()[0], 1)}


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def is_struck(one: dict[str, Any]) -> bool:
    """Whether the fault came in time. One that came too late does not count as an injection."""
    return bool(one["struck"])


def faults_of(one: dict[str, Any]) -> list[str]:
    return [fault for fault in one["faults"] if fault != TOO_LATE]


def table(all_of: list[dict[str, Any]]) -> list[list[str]]:
    """One row for each fault, target and database, and one for all."""
    rows = []
    for kind, target, *_ in KINDS:
        for database in ("SQLite", "PostgreSQL"):
            key = {"kind": kind, "target": target, "database": database}
            some = [one for one in all_of if key.items() <= one["injection"].items()]
            if some:
                rows.append([database, kind, target, *_row(some)])
    return [*rows, ["both", "all", "", *_row(all_of)]] if all_of else []


def _row(some: list[dict[str, Any]]) -> list[str]:
    struck = [one for one in some if is_struck(one)]
    worst = max(struck, key=lambda one: one["overspend"] - one["allowed"], default=None)
    return [
        str(len(struck)),
        str(len(some) - len(struck)),
        *(str(sum(one[name] for one in struck)) for name in ("commits", "trials", "survivors")),
        *(str(sum(one[name] for one in struck)) for name in ("lost", "duplicates")),
        "" if worst is None else f"{worst['overspend']:.2f} s",
        "" if worst is None else f"{worst['allowed']:.2f} s",
        str(sum(bool(faults_of(one)) for one in some)),
    ]


def summary(all_of: list[dict[str, Any]]) -> str:
    """What the table does not show: overspending, the load of the machine, the commits."""
    struck = [one for one in all_of if is_struck(one)]
    over, loads = ([one[name] for one in struck] for name in ("overspend", "load"))
    beyond = [one for one in struck if one["overspend"] > TICK[0] + GRACE]
    reachable = [one["overspend"] for one in beyond if not one["outage"]]
    commits = Counter(one["commit"].rstrip("+") for one in struck)
    return (
        f"{sum(o > 0 for o in over)} of {len(struck)} overspent something; the median is "
        f"{median(over):.2f} s and the maximum {max(over):.2f} s. {len(beyond)} overspent more "
        f"than one tick and the grace period. In {len(reachable)} of these nothing was "
        f"unreachable; their maximum is {max(reachable, default=0.0):.2f} s. Load "
        f"{min(loads):.0f} to {max(loads):.0f}, median {median(loads):.0f}. "
        f"Commits: {', '.join(f'{c} {n}' for c, n in commits.items())}."
    )
