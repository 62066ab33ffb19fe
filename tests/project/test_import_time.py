"""`import farthing` takes little longer than the import of the libraries that it uses."""

import os
import subprocess
import sys

import pytest

BASELINE = "numpy, scipy.linalg, scipy.optimize, scipy.special, scipy.stats"
ROUNDS = 5, 40  # at least, and at most
MAX_RATIO = 1.3


def seconds(names: str) -> float:
    """CPU seconds of one import in a fresh interpreter, without the interpreter's own start."""
    code = f"from time import process_time as t; start = t(); import {names}; print(t() - start)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(run.stdout)


@pytest.mark.slow
def test_import_is_not_slow():
    # CPU seconds depend little on other work. The two imports alternate, so that a busy machine
    # slows both, and the minimum is from a quiet moment. If the ratio is too large, repeat.
    least, most = ROUNDS
    pairs = []
    while len(pairs) < most:
        pairs.append((seconds("farthing"), seconds(BASELINE)))
        ours, theirs = (min(column) for column in zip(*pairs, strict=True))
        if len(pairs) >= least and ours <= MAX_RATIO * theirs:
            break
    assert ours <= MAX_RATIO * theirs
