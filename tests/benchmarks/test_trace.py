"""The trace of one trial counts its parts, and repeats give the same counts."""

import pytest

from benchmarks.speed import trace


@pytest.fixture(scope="module", autouse=True)
def patient():
    """Allow many repeats: a run with a renewed trial is repeated, often on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "QUICK", 0.95)
        patch.setattr(trace, "TRIES", 60)
        yield


@pytest.fixture(scope="module")
def counts():
    return trace.trace(trace.REPO / "src")


@pytest.mark.slow
def test_every_part_of_a_run_is_counted(counts):
    assert set(counts) == set(trace.PARTS)
    for part in counts.values():
        assert part["functions"] >= part["files"] > 0
        assert sum(part["functions_by_file"].values()) == part["functions"]
        assert part["statements"][trace.ROW_OF_A_TRIAL] > 0
    assert counts["command"]["openings"] >= 1
    assert counts["command"]["connections"] >= counts["command"]["openings"]


@pytest.mark.slow
def test_a_trial_is_a_part_of_the_command_and_an_ask_a_part_of_a_trial(counts):
    command, one, ask = (counts[part] for part in ("command", "trial", "ask"))
    assert command["statements"][trace.ROW_OF_A_TRIAL] == 3
    assert one["statements"][trace.ROW_OF_A_TRIAL] == 1
    for inner, outer in ((ask, one), (one, command)):
        assert inner["functions"] < outer["functions"]
        for kind, count in inner["statements"].items():
            assert count <= outer["statements"][kind]


def without_sweep(counts):
    """Without the search for survivors, which also meets the processes of other tests."""
    found = {}
    for name, part in counts.items():
        by_file = dict(part["functions_by_file"])
        swept = by_file.pop("running/survivors.py", 0)
        found[name] = {
            **part,
            "functions": part["functions"] - swept,
            "functions_by_file": by_file,
        }
    return found


@pytest.mark.slow
def test_the_second_time_counts_the_same(counts):
    assert without_sweep(trace.trace(trace.REPO / "src")) == without_sweep(counts)


@pytest.mark.slow
def test_the_table_has_every_number(counts):
    lines = trace.table(counts).splitlines()
    rows = {line[:36].strip(): line[36:].split() for line in lines}
    assert rows["files"] == [str(counts[part]["files"]) for part in trace.PARTS]
    every = sum(counts["command"]["statements"].values())
    assert rows["statements"][0] == str(every)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("BEGIN IMMEDIATE", "BEGIN"),
        ("INSERT INTO farthing_trials (study) VALUES (?)", "INSERT farthing_trials"),
        ("select 1\nFROM farthing_studies", "SELECT farthing_studies"),
        ('PRAGMA main.table_info("farthing_schema")', "PRAGMA farthing_schema"),
    ],
)
def test_kind_of_a_statement(statement, kind):
    assert trace.kind_of(statement) == kind


def test_a_tree_without_the_package_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="Pass the folder"):
        trace.trace(tmp_path)
