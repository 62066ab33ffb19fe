"""`make demo` installs little: what it installs, and how much that is."""

import re
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPO = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = {"ray", "dask", "distributed", "playwright", "pandas", "pyarrow", "matplotlib", "plotly"}
HEAVY |= {"optuna", "xgboost", "xgboost-cpu", "torch", "starlette", "pytest", "mypy"}
MAX_MB = 300  # of packages; pip and setuptools come on top


def commands(target: str) -> list[str]:
    """What `make` would run for a target in a fresh clone."""
    told = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.splitlines()


def closure(requirements: list[str]) -> set[str]:
    """The distributions that pip would install, by the metadata of those installed here."""
    found, waiting = set[str](), [(Requirement(each), "") for each in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        known = name in found and not requirement.extras
        found.add(name)
        if not known:
            needs = [Requirement(each) for each in distribution(name).requires or []]
            waiting += [(need, e) for need in needs for e in ("", *requirement.extras)]
    return found


def test_make_demo_installs_the_demo_and_make_test_the_tests():
    demo, test = "\n".join(commands("demo")), "\n".join(commands("test"))
    assert re.findall(r"pip install .*?(?:-e|--editable) '?(.*?)'?$", demo, re.MULTILINE) == [
        ".[demo]"
    ]
    assert set(re.findall(r"\.venv[\w-]*", demo)) == {".venv-demo"}
    assert set(re.findall(r"\.venv[\w-]*", test)) == {".venv"}
    assert "test" in re.findall(r"\.\[(.*)\]", test)[0].split(",")


def test_the_demo_needs_nothing_heavy():
    needed = closure([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["demo"]])
    assert {"numpy", "scipy", "sqlalchemy", "scikit-learn", "joblib"} <= needed
    assert not needed & HEAVY
    assert {"ray", "matplotlib"} <= closure(["farthing[test]"])  # what the check must see

    files = [file for name in needed for file in distribution(name).files or []]
    assert 50 < sum(file.size or 0 for file in files) / 1e6 < MAX_MB
