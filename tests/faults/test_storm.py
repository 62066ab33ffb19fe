"""Random signals to many workers; `python -m benchmarks.reliability.storm` sends hundreds."""

import pytest

from benchmarks.reliability.faults.kept import keep_session
from benchmarks.reliability.faults.processes import processes_of
from benchmarks.reliability.storm import FEW, Session, hold, show


@pytest.mark.slow
@pytest.mark.parametrize("pauses", [False, True], ids=["trials", "trainings"])
def test_signals_lose_nothing(pauses, tmp_path, capsys):
    session = Session(5, "SQLite", 4, {"usd": 12.0, "s": 60.0}, pauses, signals=6)
    found = hold(f"sqlite:///{tmp_path / 'study.db'}", tmp_path, session)
    # How much is overspent depends on the load of the machine.
    assert [fault for fault in found.faults if "overspent" not in fault] == []
    assert found.signals
    assert found.trials > 0
    assert found.commits > 0
    assert processes_of(tmp_path) == {}
    keep_session(tmp_path / "kept.jsonl", found)
    assert show(tmp_path / "kept.jsonl") == (found.faults == [])
    assert f"{len(found.signals)} signals" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4, 16])
def test_signals_do_not_overspend_unknown_prices(workers, tmp_path):
    session = Session(6, "SQLite", workers, FEW, pauses=False, signals=4, unknown=True)
    found = hold(f"sqlite:///{tmp_path / 'study.db'}", tmp_path, session)
    assert found.faults == []  # also that only one trial runs before the first price is known
    assert found.overspent == {"usd": 0.0}
