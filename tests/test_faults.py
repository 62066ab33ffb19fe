"""Fault injection: the command is killed with SIGKILL, and nothing is lost or left behind.

The same code runs hundreds of these in `python -m benchmarks.faults`.
"""

from dataclasses import replace

import pytest

from benchmarks.faults import TARGETS, TOO_LATE, Injection, compare, inject, overrun, processes_of
from farthing.storage import Database
from farthing.worker import TICK

INJECTIONS = 10  # on each database
ATTEMPTS = 5  # to kill the command before it ends
SEED = 20


@pytest.mark.parametrize("number", range(INJECTIONS))
def test_nothing_is_lost_when_it_is_killed(url, tmp_path, number):
    injection = Injection.draw(SEED, number)
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        found = inject(url, folder, injection)
        assert processes_of(folder) == {}
        if found.killed or attempt == ATTEMPTS - 1:
            break
        assert found.faults == [TOO_LATE]  # so busy is the machine: once more, and sooner
        injection = replace(
            injection, share=injection.share and injection.share / 2, delay=injection.delay / 2
        )
        forget(url)
    assert found.faults == []
    assert found.killed > 0
    assert found.trials > 0
    assert found.commits > 1


def forget(url):
    database = Database(url)
    with database.writing() as connection:
        for table in ("trials", "prices", "studies"):
            connection.exec_driver_sql(f"DELETE FROM farthing_{table}")
    database.close()


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
