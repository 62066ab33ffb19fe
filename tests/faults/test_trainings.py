"""Trainings that pause and resume survive SIGKILL.

`python -m benchmarks.reliability.trainings` kills three hundred processes; this file kills a few.
"""

import pytest

from benchmarks.reliability.faults.kept import keep_session
from benchmarks.reliability.faults.processes import processes_of
from benchmarks.reliability.trainings import Session, hold, show


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [("function", 1), ("program", 2)])
def test_killed_trainings_lose_nothing(kind, seed, tmp_path, capsys):
    session = Session(seed, "SQLite", kind, "usd", "asha", kills=5)
    found = hold(f"sqlite:///{tmp_path / 'study.db'}", tmp_path, session)
    # How much is overspent depends on the load of the machine.
    assert [fault for fault in found.faults if "overspent" not in fault] == []
    assert len(found.kills) > 0
    assert found.reports > 0
    assert found.completed > 0
    assert processes_of(tmp_path) == {}
    keep_session(tmp_path / "kept.jsonl", found)
    assert show(tmp_path / "kept.jsonl") == (found.faults == [])
    assert f"| all | {len(found.kills)} |" in capsys.readouterr().out
