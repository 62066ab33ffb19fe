"""A study with earlier studies stands alone: its rows are copied, and pinned by a fingerprint."""

import hashlib
import json
import shutil
import sqlite3
import sys
from pathlib import Path

import before as first
import numpy as np
import pytest

from farthing import Float, InvalidInput, Study
from farthing.core.settings import Settings
from farthing.data.sources import Place, read_sources
from farthing.errors import StorageError
from farthing.policies import EI, Random
from farthing.storage import described, from_described, restored, to_text

FILES = Path(__file__).parents[1] / "snapshots"
SPACE = {"x": Float(0, 1), "z": Float(0, 1)}
NEW = {"name": "new", "space": SPACE, "budget": "$9", "policy": EI()}


def an_old_study(url, name="old", level=0.0, count=4, **settings):
    study = Study.create(url, name=name, space={"x": Float(0, 1)}, **settings)
    for i in range(count):
        study.add({"x": (i + 1) / 8}, level + i, cost=1.0 + i)
    return study


def proposals(study, count=4):
    """The next trials, each with a value that depends on nothing but its parameters."""
    found = []
    for _ in range(count):
        trial = study.ask()
        found.append(dict(trial.params))
        study.tell(trial, trial.params["x"] ** 2 + trial.params["z"], cost=1.0)
    return found


def test_the_settings_of_a_study_have_the_rows(url):
    an_old_study(url).close()
    study = Study.create(url, **NEW, learn_from="old")
    (source,) = study.current_settings.learn_from
    again = Study.open(url, "new").current_settings.learn_from[0]
    assert again == source
    np.testing.assert_array_equal(again.x, source.x)
    np.testing.assert_array_equal(again.y, source.y)
    np.testing.assert_array_equal(again.cost["usd"], source.cost["usd"])
    np.testing.assert_array_equal(again.censored, source.censored)
    assert again.about == source.about == "4 trials; z is new here; costs in cost stand for usd"
    text = to_text(described(study.current_settings))
    assert to_text(described(restored(text))) == text
    assert study.settings["learn_from"] == [
        {"name": "old", "about": source.about, "fingerprint": source.fingerprint}
    ]


def test_without_its_source_a_study_continues_and_proposes_the_same(url):
    old = an_old_study(url)
    whole = Study.create(url, **{**NEW, "name": "whole"}, learn_from=["old"])
    expected = proposals(whole)
    first = Study.create(url, **NEW, learn_from=["old"])
    found = proposals(first, 2)
    first.close()
    old.delete()
    resumed = Study.create(url, **NEW, learn_from=["old"])  # it has a copy
    assert (resumed.changed, resumed.overridden) == ({}, {})
    found += proposals(resumed, 1)
    found += proposals(Study.open(url, "new"), 1)  # as on another machine
    assert found == expected
    with pytest.raises(InvalidInput, match="learn_from='old': There is no such study or file"):
        Study.create(url, **{**NEW, "name": "newer"}, learn_from=["old"])


def test_a_source_that_has_grown_is_not_read_again(url):
    old = an_old_study(url)
    study = Study.create(url, **NEW, learn_from=["old"])
    before = study.current_settings.learn_from
    old.add({"x": 0.9}, -5.0)
    for given in ("old", ["old"], old, "all"):
        again = Study.create(url, **NEW, learn_from=given)
        assert again.changed == {}
        assert again.current_settings.learn_from == before
    changed = study.change(learn_from="old")["learn_from"]  # which asks for it
    assert [text[:10] for text in changed] == ["'old' (4 t", "'old' (5 t"]
    kept = Study.create(url, **NEW, learn_from="old")  # as last given, so the change stays
    assert len(kept.current_settings.learn_from[0].y) == 5
    assert kept.changed == {}


@pytest.mark.parametrize("given", [["all"], ["older", "all"], ["other#all", "all"]])
def test_all_means_the_copies_that_a_study_has(given, tmp_path):
    an_old_study(tmp_path / "a.db").close()
    an_old_study(tmp_path / "a.db", "older", level=3.0).close()
    an_old_study(tmp_path / "other", level=7.0).close()
    given = [each.replace("other#", f"{tmp_path / 'other'}#") for each in given]
    before = Study.create(tmp_path / "a.db", **NEW, learn_from=given).current_settings.learn_from
    an_old_study(tmp_path / "a.db", "newest", level=9.0).close()
    an_old_study(tmp_path / "other", "newest", level=11.0).close()
    again = Study.create(tmp_path / "a.db", **NEW, learn_from=given)
    assert (again.changed, again.current_settings.learn_from) == ({}, before)
    table = [{"x": 0.5, "z": 0.5, "value": i} for i in range(3)]
    more = Study.create(tmp_path / "a.db", **NEW, learn_from=[*given, table])
    assert more.current_settings.learn_from[:-1] == before
    assert more.current_settings.learn_from[-1].name == "table"


def test_other_sources_are_a_change_like_any_other(url):
    an_old_study(url).close()
    an_old_study(url, "older", level=3.0).close()
    Study.create(url, **NEW, learn_from="old").close()
    more = Study.create(url, **NEW, learn_from=["old", "older"])
    assert [each.name for each in more.current_settings.learn_from] == ["old", "older"]
    assert set(more.changed) == {"learn_from"}
    none = Study.create(url, **NEW)
    assert none.changed["learn_from"][1] == "none"
    assert none.current_settings.learn_from == ()


def test_a_study_that_was_created_without_sources_can_get_all(url):
    Study.create(url, **NEW).close()
    an_old_study(url).close()
    study = Study.create(url, **NEW, learn_from="all")
    assert [each.name for each in study.current_settings.learn_from] == ["old"]


def test_a_wider_space_keeps_the_sources_at_their_values(url):
    an_old_study(url).close()
    study = Study.create(url, **NEW, learn_from="old")
    x = study.current_settings.learn_from[0].x[:, 0]
    wider = {**NEW, "space": {"x": Float(0, 2), "z": Float(0, 1)}}
    for _ in range(2):
        study = Study.create(url, **wider, learn_from="old")
        np.testing.assert_allclose(study.current_settings.learn_from[0].x[:, 0], x / 2)
    assert study.changed == {}


def test_settings_without_sources_are_stored_as_by_older_versions():
    text = to_text(described(Settings.of(SPACE, "$9")))
    assert "learn_from" not in text
    assert from_described(text)["learn_from"] == ()
    assert restored(text).learn_from == ()


def test_the_password_of_an_address_is_not_stored(tmp_path, monkeypatch):
    study = an_old_study(tmp_path / "a.db")
    opened = []

    def look_at(url, name):
        opened.append((url, name))
        return study.facts

    monkeypatch.setattr("farthing.storage.look_at", look_at)
    address = "postgresql://me:geheim@server/db"
    (source,) = read_sources(f"{address}#old", Settings.of(SPACE), Place())
    assert opened == [(address, "old")]
    assert source.name == "postgresql://me:***@server/db#old"
    with pytest.raises(InvalidInput, match=r"learn_from='postgresql://me:\*\*\*@server/db#old': "):
        read_sources(f"{address}#old", Settings.of({"lr": Float(0, 1)}), Place())


# ── databases of others ────────────────────────────────────────────────────────────────────────


def test_learning_from_a_database_neither_runs_its_code_nor_changes_it(tmp_path, monkeypatch):
    (tmp_path / "own_policy.py").write_text('open("imported", "a").close()\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    an_old_study("theirs.db", budget="$9", policy=Random()).close()
    rewrite("theirs.db", policy={"__is__": "own_policy:Mine"}, stop={"__is__": "own_policy:Mine"},
            cost={"__function__": "os:system"})  # fmt: skip
    before = hashlib.sha256((tmp_path / "theirs.db").read_bytes()).digest()
    (source,) = read_sources("theirs.db#old", Settings.of(SPACE, "$9"), Place())
    assert source.y.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert hashlib.sha256((tmp_path / "theirs.db").read_bytes()).digest() == before
    assert not (tmp_path / "imported").exists()
    assert "own_policy" not in sys.modules


def test_a_database_of_an_older_version_is_a_source_without_a_migration(tmp_path):
    path = tmp_path / "old.db"
    shutil.copy(FILES / "0.1.0" / "studies.db", path)
    before = path.read_bytes()
    space = first.SETTINGS["mixed"]["space"]
    (source,) = read_sources(f"{path}#mixed", Settings.of(space, "$9"), Place())
    assert path.read_bytes() == before
    done = Study.open(path, "mixed", look=True).history.done
    assert source.y[~np.isnan(source.y)].tolist() == [trial.value for trial in done]
    study = Study.create(path, name="new", space=space, budget="$9", learn_from="mixed")
    assert study.current_settings.learn_from[0].fingerprint == source.fingerprint
    study.close()


def rewrite(path, **parts):
    """Change the settings of a study as another program would."""
    database = sqlite3.connect(path)
    (text,) = database.execute("SELECT settings FROM farthing_studies").fetchone()
    text = json.dumps(json.loads(text) | parts)
    database.execute("UPDATE farthing_studies SET settings = ?, given = ?", [text, text])
    database.commit()
    database.close()


ROWS = {"name": "old", "about": "", "y": [1, 2, 3], "x": [[0, 0]] * 3, "cost": {}}


@pytest.mark.parametrize(
    "sources",
    [
        7,
        ["old"],
        [{}],
        [{**ROWS, "censored": [0, 0, 0], "fingerprint": "0" * 16}],
        [{**ROWS, "censored": "no", "fingerprint": "0" * 16}],
        [{**ROWS, "x": [[0], [0, 0], []], "censored": [0, 0, 0], "fingerprint": "0" * 16}],
        [{**ROWS, "cost": 5, "censored": [0, 0, 0], "fingerprint": "0" * 16}],
    ],
    ids=range(7),
)
def test_rows_that_farthing_did_not_write_are_a_clear_error(sources, tmp_path):
    path = tmp_path / "a.db"
    Study.create(path, **NEW).close()
    rewrite(path, learn_from=sources)
    for call in (
        lambda: Study.open(path, "new"),
        lambda: Study.open(path, "new", look=True),
        lambda: Study.create(path, **NEW, learn_from=[{"x": 0, "z": 0, "value": 1}] * 3),
    ):
        with pytest.raises(StorageError, match="contains data that Farthing did not write"):
            call()
    assert Study.names(path) == ["new"]


def test_a_changed_row_does_not_pass_for_the_pinned_one(tmp_path):
    path = tmp_path / "a.db"
    Study.create(path, **NEW, learn_from=[{"x": 0.5, "z": i / 4, "value": i} for i in range(3)])
    stored = described(Study.open(path, "new").current_settings)["learn_from"]
    stored[0]["y"][0] = -100.0
    rewrite(path, learn_from=stored)
    with pytest.raises(StorageError, match="not those of its fingerprint"):
        Study.open(path, "new")


@pytest.mark.parametrize(
    "rows", [{"x": [[0, 2]] * 3}, {"x": [[0]] * 3}, {"y": [1, 2, float("inf")]}], ids=str
)
def test_rows_outside_the_space_are_refused(rows, tmp_path):
    from farthing.earlier import Source

    path = tmp_path / "a.db"
    Study.create(path, **NEW).close()
    whole = {**ROWS, "censored": [0, 0, 0], **rows}
    x, y = np.array(whole["x"], dtype=float), np.array(whole["y"], dtype=float)
    rewrite(path, learn_from=[{**whole, "fingerprint": Source("old", x, y).fingerprint}])
    with pytest.raises(InvalidInput, match="its rows do not fit this space"):
        Study.open(path, "new")
