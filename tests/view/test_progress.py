"""Progress: one line per finished trial without a terminal, and the live view of a terminal."""

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from farthing import Float, Optimizer, minimize
from farthing.policies import Random
from farthing.view import progress
from farthing.view.progress import picture, watching


def test_trials_that_other_workers_finish_are_shown_at_the_end(capsys):
    optimizer = Optimizer({"x": Float(0, 1)}, "3 trials", policy=Random())
    with watching(optimizer) as show:
        optimizer.tell(optimizer.ask(), 1.5)
        show()
        optimizer.tell(optimizer.ask(), 2.5)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["trial 0: 1.5", "trial 1: 2.5"]


def test_workers_that_wait_for_the_first_cost_are_told_why(capsys):
    optimizer = Optimizer({"x": Float(0, 1)}, "$2")
    with watching(optimizer, parallel=True) as show:
        trial = optimizer.ask(lease=1e9)
        show()
        show()
        assert capsys.readouterr().out == (
            "Waiting for the cost of trial 0: until it is known, no other trial starts. If you "
            "know the most that a trial can cost, give it: --max-cost, max_cost=.\n"
        )
        optimizer.tell(trial, 0.5, cost=0.1)
        show()
    assert "Waiting" not in capsys.readouterr().out
    with watching(optimizer) as show:  # one worker waits for nobody
        optimizer.ask(lease=1e9)
        show()
    assert "Waiting" not in capsys.readouterr().out


def test_the_live_view_has_the_best_the_running_and_the_latest_trials():
    optimizer = Optimizer({"x": Float(0, 1)}, "30 trials", policy=Random())
    first = optimizer.ask(lease=1e9)
    for k in range(7):
        optimizer.tell(optimizer.ask(), abs(k - 1.0))
    optimizer.tell(first, 9.0)  # the last to end
    running = optimizer.ask(lease=1e9)
    console = Console(width=100, file=io.StringIO())
    console.print(picture(optimizer, 100))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    (best,) = [line for line in lines if line.startswith("best")]
    assert best.startswith("best 0  trial 2 at x=")
    shown = [int(line.split()[1].rstrip(":")) for line in lines if line.startswith("trial")]
    assert shown == [running.number, 0, 7, 6, 5, 4]
    narrow = Console(width=30, file=io.StringIO())
    narrow.print(picture(optimizer, 30))  # a line that is too long is cut
    assert len(narrow.file.getvalue().splitlines()) == len(lines)


# ── notebook ───────────────────────────────────────────────────────────────────────────────────


class Displayed(list):
    """Stands for IPython's `display`: one output, and the contents that it had."""

    def __call__(self, data, *, raw, display_id):
        assert raw
        assert display_id is True
        self.append(data)
        return SimpleNamespace(update=lambda data, raw: self.append(data))


@pytest.fixture
def notebook(monkeypatch):
    """A notebook, as far as the package can see."""
    displayed = Displayed()
    module, display = ModuleType("IPython"), ModuleType("IPython.display")
    module.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.display = displayed
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return displayed


def test_a_notebook_has_one_output_that_is_updated(notebook, capsys, monkeypatch):
    monkeypatch.setattr(progress, "NOTEBOOK_REFRESH", 0.0)
    monkeypatch.setattr(progress, "NOTEBOOK_SHARE", float("inf"))
    space = {"x": Float(0, 1), "<b>": Float(0, 1)}
    result = minimize(lambda p: p["x"], space, n_trials=4, progress=True)
    assert capsys.readouterr().out == ""
    assert len(notebook) > 4
    assert "no trial yet" in notebook[0]["text/plain"]
    assert "data:image/svg" not in notebook[0]["text/html"]
    last = notebook[-1]
    assert "4 of 4 trials spent" in last["text/html"]
    assert f"best {result.best.value:.6g}" in last["text/html"]
    assert all(f"trial {number}: " in last["text/html"] for number in range(4))
    assert "data:image/svg" in last["text/html"]
    assert "<b>" not in last["text/html"]
    assert "&lt;b&gt;" in last["text/html"]
    assert "4 done" in last["text/plain"]


def test_a_notebook_is_not_updated_more_often_than_it_can_be_read(notebook, monkeypatch):
    monkeypatch.setattr(progress, "NOTEBOOK_REFRESH", 1e9)
    minimize(lambda p: p["x"], {"x": Float(0, 1)}, n_trials=9, progress=True)
    assert len(notebook) == 3  # at the start, after the first change, and at the end


def test_a_notebook_shows_running_trials_and_their_share_of_the_budget(notebook):
    optimizer = Optimizer({"x": Float(0, 1)}, "$2")
    with watching(optimizer, parallel=True):
        optimizer.ask(lease=1e9)
    shown = notebook[-1]["text/html"]
    assert "trial 0: starting" in shown
    assert "Waiting for the cost of trial 0" in shown
    assert "width:100.00%;background:#9cc3ea" in shown  # all of it is reserved


def test_a_shell_of_ipython_is_no_notebook(notebook, capsys):
    sys.modules["IPython"].get_ipython = lambda: SimpleNamespace()
    minimize(lambda p: p["x"], {"x": Float(0, 1)}, n_trials=2, progress=True)
    assert notebook == []
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.slow
def test_a_real_kernel_shows_progress_and_a_result():
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    code = (
        "from farthing import Float, minimize\n"
        "minimize(lambda p: p['x'], {'x': Float(0, 1)}, n_trials=3, progress=True)"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    client.NotebookClient(book, kernel_name="python3", timeout=None, startup_timeout=600).execute()
    (cell,) = book.cells
    shown = [each["data"] for each in cell.outputs if "data" in each]
    assert [sorted(data) for data in shown] == [["text/html", "text/plain"]] * 2
    assert "3 of 3 trials spent" in shown[0]["text/html"]
    assert "<iframe" in shown[1]["text/html"]
