"""Install every library farthing is compared with, in environments that fit it.

    python3 benchmarks/evidence/install_peers.py                  all of them
    python3 benchmarks/evidence/install_peers.py flaml neps       only these, the rest is unchanged
    python3 benchmarks/evidence/install_peers.py --synetune       Syne Tune only, for `curves`

Run by the system's Python, standard library only. The libraries are the files of `peers/`: each
names what it needs in REQUIREMENTS, read without importing anything. A library goes into
`.venv-peers`, constrained to what is already there; one that does not fit is given a private
`.venv-peers-<file>`; one that cannot be installed at all is recorded with its error. Farthing is in
every environment. Syne Tune is a rival on learning curves only, needs an older numpy, and has
`.venv-synetune`. The record, `.venv-peers/peers.json`, maps the name of each distribution to
`{"python": ..., "error": ...}`, one of them null.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PEERS = Path(__file__).resolve().parents[1] / "peers"
SHARED = REPO / ".venv-peers"
RECORD = SHARED / "peers.json"
SYNE_TUNE = REPO / ".venv-synetune"
# Farthing, what reads the tables, and what `python -m benchmarks realtime` trains.
ALWAYS = ("pandas", "pyarrow", "scikit-learn", "xgboost", f"-e {REPO}")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # 2.13.0+cpu sorts above PyPI's CUDA 2.13.0
ERROR_LINES = 12


def main(wanted: list[str]) -> int:
    """Install, print one line per library, write the record; fail only without farthing."""
    if wanted == ["--synetune"]:
        python = create(SYNE_TUNE)
        lines = _declared(Path(__file__).with_name("curves_syne_tune.py"))
        error = pip(python, [*lines, f"-e {REPO}"])
        print(f"FAILED\n{error}" if error else f"Syne Tune is in {SYNE_TUNE.name}")
        return 1 if error else 0
    libraries = read_libraries(PEERS)
    if unknown := set(wanted) - set(libraries):
        print(f"unknown {sorted(unknown)}: expected some of {', '.join(libraries)}")
        return 2
    shared = create(SHARED)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for library in wanted or libraries:
        start = time.monotonic()
        python, error = install(library, libraries[library], shared)
        where = python and str(python.relative_to(REPO))
        record[distribution(libraries[library])] = {"python": where, "error": error}
        outcome = f"in {python.parent.parent.name}" if python else f"FAILED\n{error}"
        print(f"{library:16} {outcome} ({time.monotonic() - start:.0f} s)", flush=True)
    error = pip(shared, ALWAYS)  # last: a library may want an older pandas
    where = None if error else str(shared.relative_to(REPO))
    record["farthing"] = {"python": where, "error": error}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {RECORD.relative_to(REPO)}")
    return 1 if error else 0


def read_libraries(folder: Path) -> dict[str, tuple[str, ...]]:
    """Map each library of the folder to its REQUIREMENTS; a leading underscore marks a helper."""
    files = sorted(path for path in folder.glob("*.py") if not path.stem.startswith("_"))
    return {path.stem: _declared(path) for path in files}


def _declared(path: Path) -> tuple[str, ...]:
    for line in ast.parse(path.read_text()).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "REQUIREMENTS":
            requirements: tuple[str, ...] = ast.literal_eval(line.value)
            return requirements
    raise SyntaxError(f"{path.name} has no REQUIREMENTS")


def distribution(requirements: tuple[str, ...]) -> str:
    """The name of the library itself, which is the last requirement."""
    return re.split(r"[=<>\[]", requirements[-1].split(" ")[-1])[0]


def create(folder: Path) -> Path:
    """Create the environment if it does not exist; return its Python."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    return python


def install(
    library: str, requirements: tuple[str, ...], shared: Path
) -> tuple[Path | None, str | None]:
    """Install into the shared environment, or a private one; return (its Python, the error)."""
    private = REPO / f".venv-peers-{library}"
    if not private.exists():
        with tempfile.TemporaryDirectory() as folder:
            constraints = Path(folder) / "constraints.txt"
            constraints.write_text(installed(shared))
            error = install_each(shared, requirements, "--constraint", str(constraints))
        if error is None:
            return shared, None
    python = create(private)
    error = install_each(python, requirements, also=ALWAYS)
    return (None, error) if error else (python, None)


def install_each(
    python: Path, requirements: tuple[str, ...], *options: str, also: Sequence[str] = ()
) -> str | None:
    """Install torch by itself first (its CPU build), a line without its dependencies last."""
    torch = [line for line in requirements if line.startswith("torch==")]
    alone = [line for line in requirements if line.startswith("--no-deps ")]
    rest = [line for line in requirements if line not in alone]
    for lines in (torch, [*rest, *also], *([line] for line in alone)):
        index = ["--extra-index-url", CPU_INDEX] if lines == torch else []
        if lines and (error := pip(python, lines, *index, *options)):
            return error
    return None


def pip(python: Path, lines: Sequence[str], *options: str) -> str | None:
    """Run `pip install`; return the end of its error output, or None if it succeeded."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    words = [word for line in lines for word in line.split(" ", 1)]
    done = subprocess.run([*command, *options, *words], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    errors = (done.stderr or done.stdout).replace(str(REPO), ".").strip().splitlines()
    return "\n".join(errors[-ERROR_LINES:]) or f"pip ended with status {done.returncode}"


def installed(python: Path) -> str:
    """List what is in an environment as pip constraints, farthing itself left out."""
    command = [str(python), "-m", "pip", "list", "--format=freeze", "--exclude", "farthing"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
