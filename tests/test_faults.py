"""Fault injection: the command is killed with SIGKILL, and nothing is lost or left behind.

The same code runs hundreds of these in `python -m benchmarks.faults`.
"""

import pytest

from benchmarks.faults import TARGETS, Injection, compare, inject, overrun, processes_of
from farthing.worker import TICK

INJECTIONS = 10  # on each database
SEED = 20


@pytest.mark.parametrize("number", range(INJECTIONS))
def test_nothing_is_lost_when_it_is_killed(url, tmp_path, number):
    injection = Injection.draw(SEED, number)
    found = inject(url, tmp_path, injection)
    assert found.faults == []
    assert found.killed > 0
    assert found.trials > 0
    assert found.commits > 1
    assert processes_of(tmp_path) == {}


def test_every_kind_of_process_is_killed():
    drawn = {Injection.draw(SEED, number).target for number in range(INJECTIONS)}
    assert drawn == set(TARGETS)


def test_a_budget_of_time_ends_trials_of_any_length(url, tmp_path):
    """With eight workers on two cores, how late everything is depends on the machine, too."""
    grace, workers = 0.5, 8
    found = overrun(url, tmp_path, seconds=3.0, grace=grace, workers=workers)
    assert found["faults"] == []
    assert found["left"] == 0
    assert "killed" in found["states"] or not found["states"]  # the first takes longer than that
    turns = workers * (TICK[0] + found["stall"])  # they tell one after another
    assert found["overspend"] <= grace + found["thought"] + turns


ROW = {"state": "done", "value": 1.0, "params": {"seconds": 1.0}, "attempt": 1, "worker": "w"}
RUN = "start 0 7\nend 0 7\n"


@pytest.mark.parametrize(
    ("rows", "log", "kinds"),
    [
        ([{}], RUN, []),
        ([{}], "", ["duplicate"]),
        ([], RUN, ["lost"]),
        ([{}], RUN * 2, ["duplicate", "duplicate"]),
        ([{"state": "running"}], "start 0 7\n", ["lost"]),
        ([{"value": 2.0}], RUN, ["lost"]),
        ([{"state": "lost"}], RUN, []),
        (
            [{"state": "lost"}, {"state": "lost", "params": {"seconds": 2.0}}],
            RUN + RUN.replace("0", "1"),
            ["lost"],
        ),
        ([{}, {}], RUN + RUN.replace("0", "1"), ["duplicate"]),
        ([{"state": "lost"}, {"attempt": 2}], RUN + RUN.replace("0", "1"), []),
    ],
)
def test_what_would_be_found(rows, log, kinds):
    stored = [{**ROW, "number": number, **row} for number, row in enumerate(rows)]
    assert [kind for kind, _ in compare(stored, log)] == kinds
