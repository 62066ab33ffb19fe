"""The fresh draw of mutants: the commit decides, and every module gets a share by its size."""

import json
from collections import Counter

import pytest

from benchmarks.reliability import mutants


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / mutants.PACKAGE
    folder.mkdir(parents=True)
    for name, lines in (("small", 20), ("large", 60)):
        text = "".join(f"a{i} = {i} + b\n" for i in range(lines))
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(mutants, "REPO", tmp_path)
    monkeypatch.setattr(mutants, "FRESH", tmp_path / "fresh.jsonl")
    return folder


def test_the_hash_of_the_commit_decides(package):
    drawn = mutants.draw("3f2a", 40)
    assert drawn == mutants.draw("3f2a", 40)
    assert set(drawn) != set(mutants.draw("3f2b", 40))


@pytest.mark.parametrize("commit", ["3f2a", "3f2b", "3f2c"])
def test_modules_get_shares_by_their_size_and_no_line_twice(package, commit):
    drawn = mutants.draw(commit, 40)
    assert Counter(mutant.file for mutant in drawn) == {"small.py": 10, "large.py": 30}
    assert len({(mutant.file, mutant.line) for mutant in drawn}) == 40
    half = Counter(mutant.file for mutant in drawn[:20])
    assert half["small.py"] > 0  # the order is random
    assert half["large.py"] > 0


def test_the_table_keeps_what_was_found_first(package):
    lines = [
        {"first": "killed", "killed": "a test"},
        {"first": "survived", "killed": "a new test"},
        {"first": "survived", "survived": "9 tests"},
        {"first": "survived", "survived": "9 tests", "equivalent": "it changes nothing"},
    ]
    common = {"commit": "3f2a9b1c", "of": 200}
    mutants.FRESH.write_text("".join(json.dumps({**common, **line}) + "\n" for line in lines))
    row = "| 3f2a9b1 | 200 | 4 | 1 | 1 (33 %; 1 to 91 %) | 2 (67 %; 9 to 99 %) |"
    assert mutants.fresh_table().splitlines()[2] == row


@pytest.mark.parametrize("what", ["exit 2", "hang"])
@pytest.mark.parametrize("is_sound", [False, True])
def test_tests_that_cannot_run_count_only_if_the_change_is_the_reason(what, is_sound, monkeypatch):
    monkeypatch.setattr(mutants, "source_of", lambda mutant: "changed")
    found = Found({"changed": what, "": None if is_sound else what})
    if is_sound:
        assert mutants.outcome(found, found, MUTANT) == {"killed": what}
    else:
        with pytest.raises(SystemExit, match=rf"{what} on the unchanged code: tests/test_a\.py"):
            mutants.outcome(found, found, MUTANT)
    assert found.source == ""  # the change is undone


MUTANT = mutants.Mutant("small.py", 1, "", "0  ->  1", 0)


class Found:
    """A tree in which one round of tests has an outcome for each source."""

    def __init__(self, outcomes):
        self.outcomes, self.source = outcomes, ""

    def write(self, file, source):
        self.source = source

    def restore(self, file):
        self.source = ""

    def rounds(self, mutant):
        return [(["tests/test_a.py"], 1.0)]

    def failure(self, tests, seconds):
        return self.outcomes[self.source]
