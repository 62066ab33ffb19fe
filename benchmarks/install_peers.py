"""Install every peer that `speed.py` compares with into an environment of its own.

Run by the system's Python, standard library only. Each requirement is its own pip call into
`.venv-peers`, constrained to what is already there; one that does not fit is given a private
`.venv-peers-<name>` (with farthing in it); one that cannot be installed at all is recorded with
its error. The record, `.venv-peers/peers.json`, maps each name to `{"python": ..., "error": ...}`,
one of them null.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
REQUIREMENTS = Path(__file__).with_name("peers_requirements.txt")
SHARED = REPO / ".venv-peers"
RECORD = SHARED / "peers.json"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # 2.13.0+cpu sorts above PyPI's CUDA 2.13.0
ERROR_LINES = 12


def main() -> int:
    """Install, print one line per requirement, write the record; fail only without farthing."""
    requirements = read_requirements(REQUIREMENTS)
    torch = requirements["torch"]
    shared = create(SHARED)
    record = {}
    for name, requirement in {**requirements, "farthing": f"-e {REPO}"}.items():
        start = time.monotonic()
        python, error = install(name, requirement, torch, shared)
        record[name] = {"python": python and str(python.relative_to(REPO)), "error": error}
        outcome = f"in {python.parent.parent.name}" if python else f"FAILED\n{error}"
        print(f"{name:16} {outcome} ({time.monotonic() - start:.0f} s)", flush=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {RECORD.relative_to(REPO)}")
    return 1 if record["farthing"]["error"] else 0


def read_requirements(path: Path) -> dict[str, str]:
    """Map distribution name to requirement line, in the file's order."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return {re.split(r"[=<>\[ ]", line)[0]: line for line in lines if line and line[0] != "#"}


def create(folder: Path) -> Path:
    """Create the environment unless it is there; return its Python."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    return python


def install(
    name: str, requirement: str, torch: str, shared: Path
) -> tuple[Path | None, str | None]:
    """Install into the shared environment, or a private one; return (its Python, the error)."""
    if name == "torch":
        error = pip(shared, "--extra-index-url", CPU_INDEX, requirement)
        return (None, error) if error else (shared, None)
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(installed(shared))
        if pip(shared, "--constraint", str(constraints), *requirement.split(" ", 1)) is None:
            return shared, None
    private = create(REPO / f".venv-peers-{name}")
    pip(private, "--extra-index-url", CPU_INDEX, torch)  # if it fails, pip finds its own build
    error = pip(private, *requirement.split(" ", 1)) or pip(private, "-e", str(REPO))
    return (None, error) if error else (private, None)


def pip(python: Path, *arguments: str) -> str | None:
    """Run `pip install`; return the end of its complaint, or None when it worked."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    complaint = (done.stderr or done.stdout).replace(str(REPO), ".").strip().splitlines()
    return "\n".join(complaint[-ERROR_LINES:]) or f"pip ended with status {done.returncode}"


def installed(python: Path) -> str:
    """List what is in an environment as pip constraints, farthing itself left out."""
    command = [str(python), "-m", "pip", "list", "--format=freeze", "--exclude", "farthing"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
