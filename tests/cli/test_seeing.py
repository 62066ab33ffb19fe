"""`farthing plot`, `farthing report`, `farthing status --watch`."""

import threading
import time

import pytest

from farthing import Float, Study


@pytest.fixture
def priced(farthing):
    study = Study.create("farthing.db", name="default", space={"x": Float(0, 1)}, budget="$60")
    for _ in range(7):
        trial = study.ask()
        study.tell(trial, (trial.params["x"] - 0.6) ** 2, cost=1 + 5 * trial.params["x"])
    study.close()
    return farthing


def test_a_figure_in_the_terminal(priced):
    result = priced("plot", "curve")
    assert result.code == 0, result.err
    assert result.out.startswith("Best value against cost\n")
    assert "spent (usd)" in result.out
    assert "◆" in priced("plot", "pareto", "6").out
    assert "useful" in priced("plot", "money").out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "begins"), [("a.svg", b"<svg"), ("a.png", b"\x89PNG"), ("a.html", b"<!doctype html>")]
)
def test_a_figure_in_a_file(priced, tmp_path, file, begins):
    result = priced("plot", "slice", "x", "-o", file)
    assert (result.code, result.out) == (0, ""), result.err
    assert (tmp_path / file).read_bytes().startswith(begins)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["cake"], "is not one of"),
        (["pareto", "x"], "expected the number of a trial"),
        (["pareto", "99"], "There is no trial 99"),
        (["slice"], "got 0 arguments, expected PARAMETER [PARAMETER]"),
        (["slice", "y"], "Unknown parameter 'y'"),
        (["curve", "1"], "There is no study '1'"),
        (["curve", "1", "default"], "got 1 arguments, expected [NAME] after"),
        (["slice", "x", "x", "x", "default"], "got 3 arguments, expected PARAMETER [PARAMETER]"),
        (["curve", "-o", "a.cake"], "a.cake cannot be written"),
        (["curve", "-o", "no/a.svg"], "no/a.svg cannot be written"),
    ],
)
def test_a_figure_that_cannot_be_drawn(priced, arguments, part):
    result = priced("plot", *arguments)
    assert (result.code, result.out) == (2, "")
    assert part in result.err


@pytest.mark.slow
def test_a_report(priced, tmp_path):
    result = priced("report")
    assert result.code == 0, result.err
    assert result.out == (
        f"Wrote report.html ({len((tmp_path / 'report.html').read_text()) / 1e3:.0f} kB).\n"
    )
    Study.create("farthing.db", name="b", space={"x": Float(0, 1)}).close()
    assert priced("report", "default", "b", "-o", "both.html").code == 0
    assert "Comparison of studies" in (tmp_path / "both.html").read_text()
    for arguments, part in (
        (["none"], "There is no study 'none'"),
        (["b", "-o", "no/a.html"], "no/a.html cannot be written"),
    ):
        result = priced("report", *arguments)
        assert (result.code, result.out) == (2, "")
        assert part in result.err


@pytest.mark.parametrize("command", [("status", "--watch"), ("top",)], ids=" ".join)
def test_watching_ends_with_the_study(priced, command):
    """Another thread makes two more trials and requests a stop."""

    def make_trials():
        study = Study.open("farthing.db", "default")
        for value in (0.5, 0.25):
            trial = study.ask()
            time.sleep(0.2)
            study.tell(trial, value, cost=1.0)
        study.request_stop("that will do")
        study.close()

    other = threading.Thread(target=make_trials)
    other.start()
    result = priced(*command)
    other.join()
    assert result.code == 0, result.err
    assert result.out.endswith("stopped: that will do\n")
    assert "9 trials (9 done)" in result.out
    assert "Best value against cost" in result.out
    assert "trial 8: 0.25 for $1.00" in result.out
