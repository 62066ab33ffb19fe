"""One command per artefact.

python -m benchmarks carbo-table-2                a figure or table: run, keep, draw, say
python -m benchmarks carbo-table-2 --seeds 10     with fewer seeds; what is kept is not run again
python -m benchmarks carbo-table-2 --kept         from the runs that are there, however many
python -m benchmarks default --budgets 15,60,240 --seeds 10
python -m benchmarks peers --budgets 15,60,240    the comparisons; a kill loses what was running
python -m benchmarks realtime --budgets 60,300    real models in wall-clock seconds
python -m benchmarks --quick                      every one, the smallest run there is (for CI)
python -m benchmarks evidence                     docs/evidence.md from what is kept
python -m benchmarks pack                         compress the runs made since the last time
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")  # before numpy is loaded

from benchmarks.evidence import page as evidence
from benchmarks.evidence import realtime, replay
from benchmarks.evidence.artefacts import ARTEFACTS
from benchmarks.evidence.artefacts.artefact import (
    PICTURES,
    RESULTS,
    Artefact,
    Settings,
    picture,
    run,
)
from benchmarks.problems.tables import NoData


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = [artefact.name for artefact in ARTEFACTS]
    parser.add_argument("name", nargs="?", help=f"evidence, pack, or one of: {', '.join(names)}")
    parser.add_argument("--seeds", type=int, help="runs of each method on each problem")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--budgets", help="of the comparisons, in median costs (15,60,240)")
    parser.add_argument("--kept", action="store_true", help="run nothing: from what is kept")
    parser.add_argument(
        "--any-source",
        action="store_true",
        help="comparisons take runs that another state of our source made",
    )
    parser.add_argument("--data", help="folder of tables (default: FARTHING_DATA)")
    parser.add_argument("--quick", action="store_true", help="a smoke test, kept nowhere")
    asked = parser.parse_args(arguments)
    settings = Settings(
        asked.seeds,
        asked.jobs,
        asked.quick,
        asked.data,
        tuple(map(float, asked.budgets.split(","))) if asked.budgets else None,
        not asked.kept,
        asked.any_source,
    )
    if asked.name == "evidence":
        print(f"wrote {evidence.build()}")
        return 0
    if asked.name == "pack":
        for path in sorted(replay.FOLDER.glob("*.jsonl")):
            packed = realtime.pack() if path.stem == realtime.SUITE else replay.pack(path.stem)
            print(f"wrote {packed}")
        return 0
    if asked.name not in (*names, None) or (asked.name is None and not asked.quick):
        parser.error(f"give one of: evidence, pack, {', '.join(names)}; or --quick for all of them")
    chosen = [artefact for artefact in ARTEFACTS if asked.name in (artefact.name, None)]
    if not settings.quick:
        return max(_one(artefact, settings, RESULTS, PICTURES) for artefact in chosen)
    with tempfile.TemporaryDirectory() as scratch:
        replay.FOLDER = Path(scratch)  # artefacts share their runs here, too
        codes = [_one(artefact, settings, Path(scratch), Path(scratch)) for artefact in chosen]
    return codes[0] if asked.name is not None else 0  # without tables the others are still shown


def _one(artefact: Artefact, settings: Settings, results: Path, pictures: Path) -> int:
    """Run, keep, draw and print one artefact."""
    begun = time.monotonic()
    try:
        path = run(artefact, settings, results)
    except NoData as missing:
        print(f"{artefact.name}: not run. {missing}")
        return 1
    numbers = json.loads(path.read_text())["numbers"]
    drawn = picture(artefact, numbers, pictures)
    print(f"\n{artefact.name} ({time.monotonic() - begun:.0f} s)\n{artefact.table(numbers)}\n")
    print(artefact.verdict(numbers))
    if not settings.quick:
        print(f"kept in {path}, drawn in {drawn}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
