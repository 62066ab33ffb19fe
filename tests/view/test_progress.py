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
