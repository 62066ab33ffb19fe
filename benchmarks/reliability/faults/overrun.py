"""A budget of time with trials of any length: by how much is it exceeded?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.reliability.faults.books import PATIENCE, STUDY, auditing
from benchmarks.reliability.faults.processes import Run, processes_of, running

# The trials have unknown lengths, and some ignore SIGTERM.
LONG_TRIAL = """
case $FARTHING_TRIAL in *1|*5) trap '' TERM ;; esac
sleep "$0"
echo "{\\"value\\": $0}"
"""


def overrun(
    url: str, folder: Path, *, seconds: float, grace: float, workers: int
) -> dict[str, Any]:
    """Run trials of 0.1 to 60 s on a budget of time. Return the duration and the overspending."""
    command = ["run", "--storage", url, "--name", STUDY, "--budget", f"{seconds}s"]
    command += ["--grace", f"{grace}s", "--workers", str(workers), "--policy", "random"]
    command += ["--param", "seconds=float:0.1:60:log", "--", "sh", "-c", LONG_TRIAL, "{seconds}"]
    with running(folder) as runs, auditing(url) as auditor:
        run = Run(folder, command, workers=workers)
        runs.append(run)
        ended = auditor.wait(lambda _: run.has_ended(), patience=seconds + grace + PATIENCE)
        assert ended, (folder / "output").read_text()
        rows, left = auditor.records(), len(processes_of(folder))
    return {
        "budget": seconds,
        "grace": grace,
        "workers": workers,
        "took": run.took,
        "overspend": auditor.overspend,
        "stall": auditor.stall,
        "thought": auditor.suggestion_s,
        "states": dict(Counter(row["state"] for row in rows)),
        "left": left,
        "faults": auditor.faults,
    }
