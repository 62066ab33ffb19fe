"""`--learn-from`: every way to name earlier studies from a shell, and what is printed."""

import json
import sqlite3

import pytest

from farthing import Float, Study

TRAIN = ("--", "sh", "-c", 'echo "{\\"value\\": {x}}"')
RUN = ("run", "--name", "new", "--budget", "2 trials", "--policy", "ei", "--param", "x=float:0:1")


@pytest.fixture
def shell(farthing):
    """The command line, with a study "old" in farthing.db, and in other.db."""
    for file, level in (("farthing.db", 0.0), ("other.db", 5.0)):
        study = Study.create(file, name="old", space={"x": Float(0, 2), "m": Float(0, 1)})
        for i in range(5):
            study.add({"x": i / 3, "m": 0.5}, level + i)
        study.close()
    return farthing


ABOUT = "(4 of 5 trials, 1 with x outside its range; m ignored)"


def sources_of(name="new", file="farthing.db"):
    study = Study.open(file, name, look=True)
    try:
        return study.current_settings.learn_from
    finally:
        study.close()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["old"], ["old"]),
        (["other.db#old"], ["other.db#old"]),
        (["sqlite:///other.db#old"], ["sqlite:///other.db#old"]),
        (["all"], ["old"]),
        (["old.csv"], ["old.csv"]),
        (["old.json"], ["old.json"]),
        (["old", "other.db#all", "old.csv"], ["old", "old 2"]),  # old.csv is old again
    ],
)
def test_every_way_to_name_a_source(shell, given, names):
    for kind in ("csv", "json"):
        assert shell("export", "old", "--format", kind, "-o", f"old.{kind}").code == 0
    options = [word for each in given for word in ("--learn-from", each)]
    result = shell(*RUN, *options, *TRAIN)
    assert result.code == 0, result.err
    assert f"Learns from {'; '.join(f'{name!r} {ABOUT}' for name in names)}.\n" in result.out
    assert [each.name for each in sources_of()] == names
    assert sources_of()[0].y.tolist()[:4] in ([0, 1, 2, 3], [5, 6, 7, 8])


def test_the_file_with_the_settings_can_name_sources(shell, tmp_path):
    (tmp_path / "farthing.toml").write_text(
        '[run]\nbudget = "1 trials"\nname = "new"\npolicy = "ei"\nlearn_from = ["old"]\n'
        f"command = {json.dumps(TRAIN[1:])}\n[params]\nx = 'float:0:1'\n"
    )
    result = shell("run")
    assert f"Learns from 'old' {ABOUT}." in result.out, result.err
    assert shell("run", "--learn-from", "none").out.startswith("Resuming")
    assert sources_of() == ()


def test_a_resumed_run_continues_with_its_copy(shell):
    command = (*RUN, "--learn-from", "old", *TRAIN)
    shell(*command)
    before = sources_of()
    assert shell("delete", "old", "--yes").code == 0
    result = shell(*command)
    assert result.code == 0, result.err
    assert "Learns from" not in result.out  # it was printed when the study was created
    assert "Changed" not in result.out
    assert sources_of() == before
    assert f"learnt:  from 'old' {ABOUT[:-1]}" in shell("status", "new").out
    assert "learnt:  from 'old' (4 of 5" in shell("run", "--name", "new").out


def test_all_says_what_it_leaves_out(shell):
    Study.create("farthing.db", name="other", space={"lr": Float(0, 1)}).close()
    result = shell(*RUN, "--learn-from", "all", *TRAIN)
    assert "Learns nothing from study 'other': 'other' has no parameter of this space" in result.out
    quiet = shell(*RUN[:2], "quiet", *RUN[3:], "--learn-from", "all", "--quiet", *TRAIN)
    assert "Learns nothing" not in quiet.out + quiet.err


def test_sources_can_be_changed(shell):
    shell(*RUN, *TRAIN)
    result = shell("change", "new", "--learn-from", "other.db#old")
    assert result.out == f"Changed: learn-from: none -> 'other.db#old' {ABOUT}\n"
    result = shell("change", "new", "--learn-from", "none")
    assert result.out == f"Changed: learn-from: 'other.db#old' {ABOUT} -> none\n"


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("odl", "--learn-from 'odl': There is no such study or file. Did you mean 'old'?"),
        ("no.csv", "--learn-from 'no.csv': 'no.csv' cannot be read: "),
        ("other.db", "--learn-from 'other.db': It is a database. Name one of its studies"),
        ("other.db#odl", "--learn-from 'other.db#odl': There is no study 'odl' in"),
        ("none.db#old", "--learn-from 'none.db#old': There is no study 'old' in none.db, because"),
        (
            "bad.csv",
            "--learn-from 'bad.csv': 'bad.csv' has no column 'value'; its columns are x, y",
        ),
    ],
)
def test_bad_input_is_a_clear_error(shell, tmp_path, given, part):
    (tmp_path / "bad.csv").write_text("x,y\n0.1,2\n")
    result = shell(*RUN, "--learn-from", given, *TRAIN)
    assert (result.code, result.out) == (2, "")
    assert part in result.err
    assert "new" not in Study.names("farthing.db")


def test_a_source_that_does_not_fit_is_refused(shell):
    run = ("run", "--budget", "2 trials", "--param", "lr=float:0:1", "--learn-from", "old")
    result = shell(*run, "--", "echo", "{lr}")
    assert result.code == 2
    assert "'old' has no parameter of this space. It has x, m; this space has lr." in result.err


def test_sources_without_effect_are_refused(shell):
    result = shell(*RUN, "--learn-from", "old", "--policy", "random", *TRAIN)
    assert result.code == 2
    assert "--learn-from 'old' has no effect: Random uses no model." in result.err


def test_a_run_shows_what_came_from_which_source(shell):
    shell(*RUN, "--learn-from", "old", *TRAIN)
    notes = json.dumps({"trust": {"old": 0.625}, "from_sources": {"old": -0.5}})
    with sqlite3.connect("farthing.db") as database:
        database.execute(
            "UPDATE farthing_trials SET notes = ?, origin = 'suggested' WHERE number = 1 AND "
            "study = (SELECT id FROM farthing_studies WHERE name = 'new')",
            [notes],
        )
    database.close()
    assert (
        "'old' (trust 0.62) moved the predicted value by -0.5" in shell("explain", "1", "new").out
    )
    assert "trust 0.62)" in shell("status", "new").out
    assert json.loads(shell("status", "new", "--format", "json").out)["learnt"][0]["trust"] == 0.625
    assert shell("plot", "trust", "new").out.startswith("Trust in earlier studies\n")
    assert "trust_old" in shell("export", "new").out.splitlines()[0].split(",")
