"""Progress without a terminal: one line per finished trial."""

from farthing import Float, Optimizer
from farthing.policies import Random
from farthing.view.progress import watching


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
