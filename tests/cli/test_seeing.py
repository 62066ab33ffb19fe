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


def test_a_figure_in_letters(priced):
    said = priced("plot", "curve")
    assert said.code == 0, said.err
    assert said.out.startswith("Best value against what was spent\n")
    assert "cumulative cost (usd)" in said.out
    assert "◆" in priced("plot", "pareto", "6").out
    assert "useful" in priced("plot", "money").out


@pytest.mark.parametrize(
    ("file", "begins"), [("a.svg", b"<svg"), ("a.png", b"\x89PNG"), ("a.html", b"<!doctype html>")]
)
def test_a_figure_in_a_file(priced, tmp_path, file, begins):
    said = priced("plot", "slice", "x", "-o", file)
    assert (said.code, said.out) == (0, ""), said.err
    assert (tmp_path / file).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["cake"], "is not one of"),
        (["pareto", "x"], "expected the number of a trial"),
        (["pareto", "99"], "There is no trial 99"),
        (["slice"], "PARAMETER [PARAMETER]: got 0"),
        (["slice", "y"], "Unknown parameter 'y'"),
        (["curve", "1"], "got 1 after the name"),
        (["curve", "-o", "a.cake"], "a.cake cannot be written"),
        (["curve", "-o", "no/a.svg"], "no/a.svg cannot be written"),
    ],
)
def test_what_cannot_be_drawn(priced, arguments, part):
    said = priced("plot", *arguments)
    assert (said.code, said.out) == (2, "")
    assert part in said.err


def test_a_report(priced, tmp_path):
    said = priced("report")
    assert said.code == 0, said.err
    assert said.out == f"report.html: {len((tmp_path / 'report.html').read_text()) / 1e6:.1f} MB\n"
    Study.create("farthing.db", name="b", space={"x": Float(0, 1)}).close()
    assert priced("report", "default", "b", "-o", "both.html").code == 0
    assert "Studies against each other" in (tmp_path / "both.html").read_text()
    for arguments, part in (
        (["none"], "There is no study 'none'"),
        (["-o", "no/a.html"], "no/a.html cannot be written"),
    ):
        said = priced("report", *arguments)
        assert (said.code, said.out) == (2, "")
        assert part in said.err


def test_watching_ends_with_the_study(priced):
    """Two more trials and a stop, while somebody watches."""

    def go_on():
        study = Study.open("farthing.db", "default")
        for value in (0.5, 0.25):
            trial = study.ask()
            time.sleep(0.2)
            study.tell(trial, value, cost=1.0)
        study.request_stop("that will do")
        study.close()

    other = threading.Thread(target=go_on)
    other.start()
    said = priced("status", "--watch")
    other.join()
    assert said.code == 0, said.err
    assert said.out.endswith("stopped: that will do\n")
    assert "9 trials (9 done)" in said.out
    assert "Best value against what was spent" in said.out
