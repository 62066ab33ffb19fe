"""Replay the peers, each with the Python of its own environment, one environment after another.

    python -m benchmarks.evidence.run_peers --problems lcbench/higgs --seeds 10
    python -m benchmarks.evidence.run_peers --peers optuna-tpe,flaml-cfo --problems ... --seeds 5

Needs `python3 benchmarks/evidence/install_peers.py` first. Other options are passed to
`benchmarks.evidence.replay`. Every library has its own suite, `peers-<file>`; --suite replaces the
first word. If a library could not be installed, its peers are printed with pip's error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import peers
from benchmarks.evidence.install_peers import PEERS, RECORD, REPO, distribution, read_libraries


def environments(
    names: list[str], record: Path = RECORD
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """({Python: its peers}, {peer: error of its installation}), from install_peers.py's record."""
    libraries = read_libraries(PEERS)
    entries = json.loads(record.read_text()) if record.exists() else {}
    pythons: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    for name in names:
        library = distribution(libraries[peers.NAMES[name]])
        entry = entries.get(library, {"error": "run python3 benchmarks/evidence/install_peers.py"})
        if entry["error"]:
            missing[name] = entry["error"]
        else:
            pythons.setdefault(entry["python"], []).append(name)
    return pythons, missing


def import_path() -> str:
    """The paths where another environment finds this farthing and these benchmarks."""
    return os.pathsep.join((str(REPO / "src"), str(REPO)))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evidence.run_peers", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--suite", default="peers", help="what its suites begin with")
    parser.add_argument("--peers", default=",".join(peers.NAMES), help=", ".join(peers.NAMES))
    asked, rest = parser.parse_known_args(arguments)
    names = asked.peers.split(",")
    if unknown := set(names) - set(peers.NAMES):
        parser.error(f"unknown peers {sorted(unknown)}: expected some of {', '.join(peers.NAMES)}")
    pythons, missing = environments(names)
    for name, error in missing.items():
        print(f"{name}: not installed: {error}")
    status = 0
    for python, methods in pythons.items():
        for library in dict.fromkeys(peers.NAMES[method] for method in methods):
            some = [method for method in methods if peers.NAMES[method] == library]
            command = [
                str(REPO / python),
                "-m",
                "benchmarks.evidence.replay",
                f"{asked.suite}-{library}",
            ]
            done = subprocess.run(
                [*command, "--methods", ",".join(some), *rest],
                cwd=REPO,
                env={**os.environ, "PYTHONPATH": import_path()},
            )
            status = max(status, done.returncode)  # go on with the other libraries
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
