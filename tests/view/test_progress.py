"""Progress: one line per finished trial without a terminal, and the live view of a terminal."""

import io

from rich.console import Console

from farthing import Float, Optimizer
from farthing.policies import Random
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
