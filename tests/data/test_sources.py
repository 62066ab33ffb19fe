"""Every way to name an earlier study in Python, its direction and its unit, and bad input."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from farthing import Float, InvalidInput, Optimizer, Outcome, Result, Study, maximize, minimize
from farthing.core.settings import Settings
from farthing.data.sources import Place, read_sources
from farthing.data.tabular import row, to_csv, to_json
from farthing.policies import EI, Random

SPACE = {"x": Float(0, 1), "z": Float(0, 1)}
OLD = {"x": Float(0, 1)}
PARAMS = (0.1, 0.9, 0.4, 0.6)
HERE = Settings.of(SPACE, "$9")


def filled(optimizer):
    """Four trials with values 1, 2, 3, 4 and costs 2, 4, 6, 8; a failure, a kill, a pending one."""
    for i, x in enumerate(PARAMS, start=1):
        optimizer.add({"x": x}, float(i), cost=2.0 * i)
    optimizer.add({"x": 0.2}, failed="out of memory", cost=1.0)
    optimizer.add({"x": 0.3}, killed=True, cost=9.0)
    optimizer.ask()
    return optimizer


def earlier(**settings):
    return filled(Optimizer(OLD, "$99", policy=Random(), **settings))


def read(given, settings=HERE):
    return read_sources(given, settings, Place())


def one(given, settings=HERE):
    (source,) = read(given, settings)
    return source


def check(source, sign=1.0):
    """The source has the rows of `filled`."""
    np.testing.assert_allclose(source.x[:, 0], [*PARAMS, 0.2, 0.3])
    assert np.isnan(source.x[:, 1]).all()
    np.testing.assert_equal(source.y, [*(sign * i for i in (1, 2, 3, 4)), np.nan, np.nan])
    np.testing.assert_equal(source.cost["usd"], [2, 4, 6, 8, 1, 9])
    assert source.censored.tolist() == [False] * 5 + [True]
    assert source.about == "6 of 7 trials, 1 that have not ended; z is new here"


# ── every way to name one ──────────────────────────────────────────────────────────────────────


def test_an_optimizer_and_what_it_gives():
    optimizer = earlier()
    result = Result.of(*optimizer.facts[:1], optimizer.best, None, optimizer.facts[1])
    for name, given in {
        "optimizer": optimizer,
        "history": optimizer.history,
        "result": result,
        "table": optimizer.dataframe(),
    }.items():
        source = one(given)
        check(source)
        assert source.name == name
    check(one([row(trial) for trial in optimizer.history]))


def test_a_result_without_its_settings_has_the_direction_of_the_study():
    optimizer = earlier(cost=lambda params: 1.0)  # which cannot be pickled
    settings, state = optimizer.facts
    result = pickle.loads(pickle.dumps(Result.of(settings, optimizer.best, None, state)))
    assert result.facts is None
    check(one(result))


@pytest.mark.parametrize(("name", "write"), [("old.csv", to_csv), ("old.json", to_json)])
def test_a_file(tmp_path, name, write):
    path = tmp_path / name
    path.write_text(write([row(trial) for trial in earlier().history]), encoding="utf-8")
    for given in (path, str(path)):
        source = one(given)
        check(source)
        assert source.name == str(path)


def test_a_plain_table_has_a_column_for_each_parameter():
    rows = [{"x": "0.5", "value": str(i), "cost": "2", "machine": "b"} for i in range(4)]
    source = one(rows)
    assert source.about == "4 trials; z is new here; machine ignored"
    assert source.cost["usd"].tolist() == [2.0] * 4
    named = one([{"x": 0.5, "rmse": i} for i in range(3)], Settings.of(SPACE, metric="rmse"))
    assert named.y.tolist() == [0.0, 1.0, 2.0]


def test_studies_by_object_by_name_and_by_database(url):
    study = filled(Study.create(url, name="old", space=OLD, budget="$99", policy=Random()))
    here = Place(url, "new")
    for given in (study, "old", f"{url}#old"):
        (source,) = read_sources(given, HERE, here)
        check(source)
    assert read_sources(study, HERE, here)[0].name == "old"
    assert read_sources("old", HERE, here)[0].name == "old"
    study.close()


def test_all_studies_of_a_database_but_this_one(url):
    said = []
    for name, space in {"a": OLD, "other": {"lr": Float(0, 1)}, "b": SPACE, "new": SPACE}.items():
        study = Study.create(url, name=name, space=space, budget="$9", policy=Random())
        for i in range(3):
            study.add(dict.fromkeys(space, i / 4), {"a": 1.0, "b": 2.0}.get(name, 0.0) + i)
        study.close()
    Study.create(url, name="empty", space=OLD).close()
    found = read_sources("all", HERE, Place(url, "new", say=said.append))
    assert [each.name for each in found] == ["a", "b"]
    assert [each.name for each in read_sources(f"{url}#all", HERE, Place())] == ["a", "b", "new"]
    assert said[0].startswith("Learns nothing from study 'other': 'other' has no parameter of this")
    assert said[1].startswith(
        "Learns nothing from study 'empty': 'empty' has 0 trials with a value"
    )
    assert len(said) == 2


def test_all_says_if_there_is_nothing(url):
    said = []
    assert read_sources("all", HERE, Place(url, "new", say=said.append)) == ()
    assert said == ["Learns from no earlier study: the database has none that fits this space."]


def test_several_sources_have_names_of_their_own_and_copies_count_once():
    tables = [[{"x": 0.5, "value": k + i} for i in range(3)] for k in range(2)]
    assert [each.name for each in read([tables[0], tables[1], tables[0]])] == ["table", "table 2"]
    named = read({"may": tables[0], "june": tables[1]})
    assert [each.name for each in named] == ["may", "june"]
    backwards = read([tables[1], tables[0]])
    assert {each.fingerprint for each in backwards} == {each.fingerprint for each in named}
    assert read(list(named)) == named
    assert read({"old": named[0]})[0] == replace(named[0], name="old")


@pytest.mark.parametrize("nothing", [None, [], (), {}])
def test_nothing(nothing):
    assert read(nothing) == ()


# ── through every door ─────────────────────────────────────────────────────────────────────────


def test_optimizer_minimize_and_maximize_take_sources(tmp_path):
    old = earlier()
    (source,) = read(old)
    assert Optimizer(SPACE, "$9", learn_from=old).facts[0].learn_from == (source,)

    def objective(params):
        return Outcome(params["x"], cost=1.0)

    result = minimize(objective, SPACE, "$9", n_trials=2, learn_from=[old], policy=EI())
    assert result.facts[0].learn_from[0].y.tolist()[:4] == [1.0, 2.0, 3.0, 4.0]
    highest = maximize(objective, SPACE, "$9", n_trials=2, learn_from=[old, old.dataframe()])
    by_study, by_table = (each.y.tolist()[:4] for each in highest.facts[0].learn_from)
    assert by_study == [1.0, 2.0, 3.0, 4.0]  # the study minimised
    assert by_table == [-1.0, -2.0, -3.0, -4.0]  # a table has the direction of this study
    study = Study.create(tmp_path / "a.db", name="new", space=SPACE, budget="$9", learn_from=old)
    assert study.current_settings.learn_from == (source,)
    study.close()


def test_several_workers_share_the_sources():
    result = minimize(
        lambda params: params["x"], SPACE, n_trials=2, workers=2, learn_from=earlier(), policy=EI()
    )
    assert result.facts[0].learn_from[0].y.tolist()[:4] == [1.0, 2.0, 3.0, 4.0]
    assert result.learnt[0].trials == 4  # the failure and the kill have only a cost, not needed


def test_minimize_prints_what_it_learns_from_if_it_shows_its_progress(capsys):
    for progress in (False, True):
        minimize(
            lambda params: 1.0,
            SPACE,
            n_trials=1,
            progress=progress,
            learn_from=[{"x": 0.5, "value": i} for i in range(3)],
        )
        printed = capsys.readouterr().out
        assert ("Learns from 'table' (3 trials; z is new here).\n" in printed) is progress


def test_a_study_knows_its_own_direction_and_a_killed_trial_its_bound():
    source = one(earlier(direction="maximize"))
    check(source, sign=-1.0)


def test_costs_in_another_unit_stand_for_this_one():
    source = one(earlier(), Settings.of(SPACE, "2h"))
    assert source.cost["s"].tolist() == [2, 4, 6, 8, 1, 9]
    assert source.about.endswith("z is new here; costs in usd stand for s")


# ── changes of a study ─────────────────────────────────────────────────────────────────────────


def test_sources_can_change_and_move_with_a_wider_space():
    optimizer = Optimizer(SPACE, "$9", learn_from=earlier())
    before = optimizer.facts[0].learn_from[0]
    assert set(optimizer.change(space={"x": Float(0, 2), "z": Float(0, 1)})) == {"x", "learn_from"}
    after = optimizer.facts[0].learn_from[0]
    np.testing.assert_allclose(after.x[:, 0], before.x[:, 0] / 2)
    assert after.about == before.about
    assert optimizer.change(learn_from=None)["learn_from"][1] == "none"
    assert optimizer.facts[0].learn_from == ()
    wider = optimizer.change(learn_from=earlier(), space={"x": Float(0, 4), "z": Float(0, 1)})
    assert "'optimizer' (6 of 7 trials" in wider["learn_from"][1]
    np.testing.assert_allclose(optimizer.facts[0].learn_from[0].x[:, 0], before.x[:, 0] / 4)


def test_sources_can_change_together_with_a_new_parameter():
    optimizer = Optimizer(OLD, "$9", learn_from=earlier())
    assert set(optimizer.change(space=SPACE, learn_from=earlier())) == {"z", "learn_from"}
    check(optimizer.facts[0].learn_from[0])


def test_a_space_that_does_not_contain_the_sources_is_refused():
    optimizer = Optimizer(SPACE, "$9", learn_from=earlier())
    with pytest.raises(InvalidInput, match=r"'x' is 0 to 1 and cannot become 0 to 0\.5"):
        optimizer.change(space={"x": Float(0, 0.5), "z": Float(0, 1)})


# ── bad input ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "missing.csv",
            r"learn_from='missing\.csv': 'missing\.csv' cannot be read: .*No such file",
        ),
        ("old", r"learn_from='old': There is no such file\. Without a database, expected 'other"),
        ("all", r"learn_from='all': There is no such file\. Without a database"),
        ("none.db#old", r"learn_from='none\.db#old': There is no study 'old' in none\.db, because"),
        (7, "7 contains no evaluations"),
        ([{"x": 0.5}], "'table' has no column 'value'; its columns are x"),
        ([{}], "'table' has no rows. Expected one for each trial"),
        ([{"lr": 0.5, "value": 1}], "'table' has no parameter of this space. It has lr"),
        ([{"x": 0.5, "value": "high"}] * 3, "0 trials with a value in this space.*that cannot be"),
        ([{"x": 7, "value": 1}] * 3, "0 trials with a value in this space.*3 with x outside its"),
        ([{"x": 0.5, "value": math.inf}] * 3, "0 trials with a value in this space"),
    ],
    ids=str,
)
def test_a_source_that_cannot_be_used_is_refused(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=message):
        read(given)


def test_an_unknown_study_is_refused_with_a_suggestion(url):
    Study.create(url, name="svm-may", space=OLD).close()
    with pytest.raises(InvalidInput, match=r"no such study or file\. Did you mean 'svm-may'\?"):
        read_sources("svm-mai", HERE, Place(url, "new"))
    with pytest.raises(InvalidInput, match="A study cannot learn from itself"):
        read_sources("svm-may", HERE, Place(url, "svm-may"))


def test_a_database_file_needs_the_name_of_a_study(tmp_path):
    file = tmp_path / "old.db"
    Study.create(file, name="svm", space=OLD).close()
    with pytest.raises(InvalidInput, match=r"It is a database\. Name one of its.*It has 'svm'"):
        read(str(file))


def test_sources_without_effect_are_refused():
    with pytest.raises(InvalidInput, match="learn_from='optimizer' has no effect: Random uses no"):
        Optimizer(SPACE, policy=Random(), learn_from=earlier())


@pytest.mark.parametrize("given", ["old.csv", [1], [{"x": 1}], np.zeros(3)])
def test_settings_take_only_sources(given):
    with pytest.raises(InvalidInput, match=r"learn_from=.*: expected a Source"):
        Settings.of(SPACE, learn_from=given)


def test_a_source_of_another_space_is_refused():
    (source,) = read(earlier())
    assert Settings.of(SPACE, "$9", learn_from=source).learn_from == (source,)
    with pytest.raises(InvalidInput, match="its rows do not fit this space, which has 1 param"):
        Settings.of(OLD, "$9", learn_from=(source,))
