"""One command per artefact.

python -m benchmarks carbo-table-2                run what is missing, store, draw and print
python -m benchmarks carbo-table-2 --seeds 10     with this number of seeds
python -m benchmarks carbo-table-2 --kept         run nothing: use the kept runs
python -m benchmarks default --budgets 15,60,240 --seeds 10
python -m benchmarks peers --budgets 15,60,240    the comparisons; a kill loses only the current run
python -m benchmarks realtime --budgets 60,300    real models in wall-clock seconds
python -m benchmarks curves --help                learning curves: trainings that pause and resume
python -m benchmarks curves-realtime --help       the same with real training, in wall-clock seconds
python -m benchmarks transfer --help              earlier studies of other tasks as sources
python -m benchmarks priors --help                priors for a dozen evaluations without sources
python -m benchmarks record-curves --help         record learning curves of real training
python -m benchmarks reliability storm --help     random signals (faults, fuzz, mutants, ...)
python -m benchmarks --quick                      a very small run of every artefact (for CI)
python -m benchmarks evidence                     write docs/evidence.md and docs/evidence/*
python -m benchmarks pack                         compress the runs since the last call
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import tempfile
import time
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")  # before numpy is loaded

from benchmarks.evidence import (
    curves,
    curves_realtime,
    priors,
    realtime,
    record_curves,
    replay,
    transfer,
)
from benchmarks.evidence import page as evidence
from benchmarks.evidence.artefacts import ARTEFACTS
from benchmarks.evidence.artefacts.artefact import (
    PICTURES,
    RESULTS,
    Artefact,
    Settings,
    pictures,
    run,
)
from benchmarks.problems.tables import NoData

RELIABILITY = ("faults", "fuzz", "mutants", "storm", "trainings")


def main(arguments: list[str]) -> int:
    commands = {
        "curves": curves,
        "curves-realtime": curves_realtime,
        "priors": priors,
        "record-curves": record_curves,
        "transfer": transfer,
    }
    if arguments and arguments[0] in commands:
        return commands[arguments[0]].main(arguments[1:])
    if arguments[:1] == ["reliability"]:
        return _reliability(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = [artefact.name for artefact in ARTEFACTS]
    parser.add_argument("name", nargs="?", help=f"evidence, pack, or one of: {', '.join(names)}")
    parser.add_argument("--seeds", type=int, help="number of runs of each method on each problem")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--budgets", help="budgets of the comparisons, in median costs (15,60,240)")
    parser.add_argument("--kept", action="store_true", help="run nothing: use the kept runs")
    parser.add_argument(
        "--any-source",
        action="store_true",
        help="also use runs of Farthing from other versions of its source",
    )
    parser.add_argument(
        "--own", action="store_true", help="papers: also run Farthing's version of the methods"
    )
    parser.add_argument("--data", help="folder of tables (default: FARTHING_DATA)")
    parser.add_argument("--quick", action="store_true", help="a smoke test; nothing is stored")
    options = parser.parse_args(arguments)
    settings = Settings(
        options.seeds,
        options.jobs,
        options.quick,
        options.data,
        tuple(map(float, options.budgets.split(","))) if options.budgets else None,
        not options.kept,
        options.any_source,
        options.own,
    )
    if options.name == "evidence":
        print(f"wrote {evidence.build()}")
        return 0
    if options.name == "pack":
        for path in sorted(replay.FOLDER.glob("*.jsonl")):
            packed = realtime.pack() if path.stem == realtime.SUITE else replay.pack(path.stem)
            print(f"wrote {packed}")
        return 0
    if options.name not in (*names, None) or (options.name is None and not options.quick):
        parser.error(f"expected evidence, pack or one of {', '.join(names)}; or --quick for all")
    chosen = [artefact for artefact in ARTEFACTS if options.name in (artefact.name, None)]
    if not settings.quick:
        return max(_one(artefact, settings, RESULTS, PICTURES) for artefact in chosen)
    with tempfile.TemporaryDirectory() as scratch:
        replay.FOLDER = Path(scratch)  # so that the artefacts share their runs
        codes = [_one(artefact, settings, Path(scratch), Path(scratch)) for artefact in chosen]
    return (
        codes[0] if options.name is not None else 0
    )  # without --data, the other artefacts still run


def _reliability(arguments: list[str]) -> int:
    """Run a module of `benchmarks.reliability` as a program."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks reliability", add_help=False)
    parser.add_argument("name", choices=RELIABILITY)
    options, rest = parser.parse_known_args(arguments)
    sys.argv[1:] = rest
    runpy.run_module(f"benchmarks.reliability.{options.name}", run_name="__main__", alter_sys=True)
    return 0


def _one(artefact: Artefact, settings: Settings, results: Path, folder: Path) -> int:
    """Run, store, draw and print one artefact."""
    start = time.monotonic()
    try:
        path = run(artefact, settings, results)
    except NoData as missing:
        print(f"{artefact.name}: not run. {missing}")
        return 1
    numbers = json.loads(path.read_text())["numbers"]
    drawn = pictures(artefact, numbers, folder)[0]
    print(f"\n{artefact.name} ({time.monotonic() - start:.0f} s)\n{artefact.table(numbers)}\n")
    print(artefact.verdict(numbers))
    if not settings.quick:
        print(f"kept in {path}, drawn in {drawn}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
