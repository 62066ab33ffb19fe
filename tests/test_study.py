"""A Study does what an Optimizer does, from any process and after any interruption."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from contract_problem import AS_IT_IS, PARAMETERS, POLICIES, value_of
from contract_problem import cost_of as price_of
from processes import PATIENCE
from small_studies import SPACE, same

import farthing
from farthing import (
    Categorical,
    Float,
    InvalidInput,
    Optimizer,
    Space,
    Stopped,
    Study,
)
from farthing.core.events import Resumed
from farthing.cost import Known
from farthing.policies import EI, CArBO, Cooling, EIPerCost, Gittins, Random
from farthing.stopping import MaxTrials, Target


def make(url, name="study", **settings):
    settings = {"space": SPACE, "budget": 500.0, "policy": Random(), **settings}
    return Study.create(url, name=name, **settings)


@dataclass(frozen=True)
class OwnPolicy(Random):
    """A policy that is not part of Farthing."""


def play(study, count):
    """Ask and tell with the objective and the costs of the contract tests."""
    for _ in range(count):
        trial = study.ask()
        study.tell(trial, value_of(trial.params), cost=price_of(trial.params))


# ── creating and opening ───────────────────────────────────────────────────────────────────────


def test_study_is_a_public_name():
    assert farthing.Study is Study
    with pytest.raises(AttributeError, match="Stduy"):
        farthing.Stduy  # noqa: B018


def test_creating_it_again_with_the_same_settings_opens_it(url):
    first = make(url, stop=MaxTrials(9), timeout="10m", retries=2, worth=None)
    play(first, 3)
    again = make(url, stop=MaxTrials(9), timeout=600.0, retries=2)
    opened = Study.open(url, "study")
    for study in (again, opened):
        assert [dict(t.params) for t in study.history] == [dict(t.params) for t in first.history]
        assert study.ledger == first.ledger
        assert study.settings == first.settings
        assert study.timeout == 600.0
    assert opened.space == SPACE
    make(url, "another", budget="$3")
    assert Study.names(url) == ["study", "another"]
    assert len(Study.open(url, "another").history) == 0
    assert "study" in repr(opened)


def test_a_study_keeps_the_default_policy_of_an_earlier_version(url):
    """Gittins was the default; a call without a policy does not ask for another one."""
    play(make(url, policy=Gittins()), 2)
    again = make(url, policy=None)
    assert (again.policy, again.changed, again.overridden) == (Gittins(), {}, {})
    assert make(url, policy=None).policy == Gittins()
    changed = make(url, policy=Cooling(first=0.5))
    assert list(changed.changed) == ["policy"]
    assert changed.policy == make(url, policy=None).policy == Cooling(first=0.5)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({"policy": EI()}, {}),
        ({"policy": Random()}, {"budget": 600.0}),
        ({"worth": 0.1}, {}),
        ({"worth": 0.1, "policy": Cooling(), "stop": "not_worth_it"}, {"worth": 0.2}),
    ],
)
def test_a_study_keeps_its_policy_if_the_caller_names_none(url, first, later):
    before = make(url, **{"policy": None, **first})
    play(before, 2)
    for _ in range(2):
        again = make(url, **first | {"policy": None} | later)
        assert (again.policy, "policy" in again.changed) == (before.policy, False)
        assert again.overridden == {}
    dropped = make(url, policy=None)
    assert (dropped.policy, "policy" in dropped.changed) == (before.policy, False)


def test_a_policy_that_was_changed_stays_until_the_caller_names_another_one(url):
    make(url, policy=None).change(policy=EI())
    again = make(url, policy=None)
    assert (again.policy, again.changed, again.overridden) == (EI(), {}, {})
    assert make(url, policy=Cooling(first=0.5)).policy == Cooling(first=0.5)
    make(url, policy=EI())
    assert make(url, policy="default").policy == Cooling(first=0.5)
    assert make(url, policy="default").changed == {}


def test_another_policy_of_the_caller_replaces_the_first(url):
    make(url, policy=EI())
    again = make(url, policy=Random())
    assert (again.policy, again.overridden) == (Random(), {})
    assert again.changed == {"policy": ("EI()", "Random()")}


def test_a_policy_of_a_user_stays_and_is_asked_for(url):
    play(make(url, policy=OwnPolicy()), 2)
    again = make(url, policy=None)
    with pytest.raises(InvalidInput, match="custom code that was not imported"):
        again.ask()
    assert make(url, policy=OwnPolicy()).changed == {}


@pytest.mark.parametrize("new", [{"worth": 0.1}, {"learn_from": "source"}])
def test_the_default_policy_follows_the_settings_that_select_it(url, new):
    """The user never chose Cooling, so worth must not be refused because of it."""
    play(make(url, "source"), 3)
    created = make(url, "created", policy=None)
    assert created.change(**new)["policy"] == ("Cooling(first=0.5)", "Gittins()")
    assert created.policy == Gittins()
    make(url, "again", policy=None)
    again = make(url, "again", policy=None, **new)
    assert again.changed["policy"] == ("Cooling(first=0.5)", "Gittins()")
    assert make(url, "again", policy=None, **new).changed == {}
    assert make(url, "again", policy=None).policy == Gittins()


def test_a_worth_without_effect_names_what_to_do(url):
    with pytest.raises(InvalidInput, match='Add policy="gittins" or stop="not_worth_it"'):
        make(url, policy=EI()).change(worth=0.1)


def test_the_default_policy_can_be_named(url):
    study = make(url, policy=EI())
    assert study.change(policy="default") == {"policy": ("EI()", "Cooling(first=0.5)")}


@pytest.mark.parametrize(
    ("settings", "because"),
    [
        ({"space": {"a": Float(-3, 5)}}, "lacks the parameter 'b'"),
        ({"direction": "maximize"}, "which cannot change any more"),
    ],
)
def test_changes_that_are_impossible_are_refused(tmp_path, settings, because):
    play(make(tmp_path / "study.db"), 1)
    with pytest.raises(InvalidInput, match=f"already a study 'study'.*{because}.*another name"):
        make(tmp_path / "study.db", **settings)
    assert make(tmp_path / "study.db").changes == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": ""}, "a name for the study"),
        ({"retries": -1}, "retries=-1"),
        ({"timeout": "$3"}, "expected seconds"),
        ({"timeout": 0}, "timeout=0: expected seconds above 0"),
        ({"space": {"a": Categorical([print, "b"])}}, "cannot be stored|Use a name"),
        ({"policy": Random}, "expected an instance"),
        ({"seed": -1}, "seed"),
    ],
)
def test_invalid_settings_are_refused(tmp_path, settings, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make(tmp_path / "study.db", **settings)


def test_a_study_that_does_not_exist(url):
    make(url)
    with pytest.raises(InvalidInput, match=r"no study 'x' in .*It has 'study'\. Give the name of"):
        Study.open(url, "x")


def test_looking_creates_no_file(tmp_path):
    missing = tmp_path / "none.db"
    for url in (missing, str(missing), f"sqlite:///{missing}"):
        assert Study.names(url) == Study.overview(url) == []
        with pytest.raises(InvalidInput, match=r"no study 'x' in .*that file does not exist\."):
            Study.open(url, "x")
    assert list(tmp_path.iterdir()) == []


def importable_price(params):
    return 2.0 + params["a"] / 10


def test_a_cost_function_is_stored_by_name_or_passed_again(tmp_path):
    url = tmp_path / "study.db"
    make(url, "named", cost=importable_price)
    with pytest.raises(InvalidInput, match=r"importable_price in cost=.*not part of Farthing"):
        Study.open(url, "named")
    study = Study.open(url, "named", trust=True)
    study.tell(study.ask(), 1.0)
    trial = study.history[0]
    assert study.ledger.spent == importable_price(trial.params)
    make(url, "lambda", cost={"cost": Known(lambda params: 2.0)})
    with pytest.raises(InvalidInput, match=r"a function in cost= that cannot be imported.*cost="):
        Study.open(url, "lambda")
    study = Study.open(url, "lambda", cost=lambda params: 2.0)
    study.tell(study.ask(), 1.0)
    assert study.ledger.spent == 2.0


def test_a_study_can_be_sent_to_another_process(url):
    study = make(url)
    play(study, 2)
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        trial = pool.submit(Study.ask, study).result()  # pickles the study
    assert trial.number == 2
    assert [t.state for t in study.history] == ["done", "done", "running"]
    assert len(pickle.loads(pickle.dumps(study)).history) == 3


# ── suggestions, and resuming ──────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_a_resumed_study_suggests_what_an_uninterrupted_one_does(tmp_path, name):
    """And what an Optimizer does, with a running, a failed and a killed trial."""
    settings = {"budget": 500.0, "policy": AS_IT_IS.made(name, "continuous"), "seed": 3}
    url = tmp_path / "study.db"
    space = Space(PARAMETERS["continuous"])
    study = Study.create(url, name="s", space=space, **settings)
    optimizer = Optimizer(space, **settings)
    for k in range(8):
        asked = [each.ask() for each in (study, optimizer)]
        same(*asked)
        for each, trial in zip((study, optimizer), asked, strict=True):
            cost = price_of(trial.params)
            if k == 2:
                each.tell(trial, failed="out of memory", cost=cost)
            elif k == 4:
                each.tell(trial, killed=True, cost=cost)
            elif k != 6:  # which is still running
                each.tell(trial, value_of(trial.params), cost=cost)
        if k in (3, 6):
            assert study.ledger == optimizer.ledger
            study = Study.open(url, "s")
    reopened = Study.open(url, "s")
    assert reopened.verdict == optimizer.verdict or np.isnan(reopened.verdict.number)
    assert (reopened.best.number, study.best.value) == (optimizer.best.number, study.best.value)
    same(reopened.ask(), optimizer.ask())


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Cooling(), CArBO(), Gittins(0.01)])
def test_overhead_in_a_budget_of_seconds_is_stored(tmp_path, policy):
    """Cooling depends on the budget that is left, and so on the overhead."""
    url = tmp_path / "study.db"
    study = Study.create(url, name="s", space=SPACE, budget="300s", policy=policy)
    play(study, 7)
    spent = sum(t.cost["s"] for t in study.history)
    assert study.ledger.overhead > 0
    assert study.ledger.spent == pytest.approx(spent + study.ledger.overhead, rel=1e-12)
    assert Study.open(url, "s").ledger == study.ledger
    studies = [Study.open(url, "s"), Study.open(url, "s"), study]
    proposed = [each._asker.suggest(each._look()).suggestion.proposal for each in studies]
    for other in proposed[1:]:
        np.testing.assert_array_equal(proposed[0].x, other.x)
        assert proposed[0].because == other.because


def test_a_stopping_rule_continues_after_a_restart(tmp_path):
    url = tmp_path / "study.db"
    study = make(url, policy=EIPerCost(), stop=MaxTrials(4))
    while not study.verdict.stop:
        play(study, 1)
        study = Study.open(url, "study")
    assert study.verdict.because == "4 of at most 4 trials made"
    with pytest.raises(Stopped, match="4 of at most 4"):
        study.ask()
    assert study.ask(anyway=True).number == 4
    target = make(url, "target", stop=Target(0.5), budget=None)
    target.tell(target.ask(), 0.1)
    with pytest.raises(Stopped, match=r"0\.1 has reached"):
        target.ask()


def test_values_are_maximised(url):
    study = make(url, direction="maximize", budget=None)
    for value in (1.0, 3.0, 2.0):
        study.tell(study.ask(), value)
    assert study.best.value == 3.0
    assert Study.open(url, "study").best.number == 1


def test_the_best_of_noisy_values_is_that_of_the_model(tmp_path):
    study = make(tmp_path / "s.db", policy=EI(), noisy=True, budget=None)
    optimizer = Optimizer(SPACE, policy=EI(), noisy=True)
    for _ in range(7):
        for each in (study, optimizer):
            trial = each.ask()
            each.tell(trial, value_of(trial.params))
    assert study.best.number == optimizer.best.number


# ── asking and telling ─────────────────────────────────────────────────────────────────────────


def test_one_process_asks_and_another_tells(url):
    one, other = make(url), Study.open(url, "study")
    trials = [one.ask(), other.ask(), one.ask()]
    assert [trial.number for trial in trials] == [0, 1, 2]
    assert len({trial.x.tobytes() for trial in trials}) == 3
    other.tell(trials[0], 1.0, cost=2.0)
    one.tell(1, failed="out of memory", cost=1.0)
    other.tell(2, killed=True, cost=5.0)
    for study in (one, other):
        assert [t.state for t in study.history] == ["done", "failed", "killed"]
        assert study.history[1].error == "out of memory"
        assert study.ledger.spent == 8.0
        assert study.ledger.reserved == 0.0
    assert [r["censored"] for r in one.records()] == [0, 0, 1]


def test_the_ledger_is_consistent_at_every_step(url):
    study = make(url, budget={"cost": 200.0, "trials": 12})
    play(study, 5)
    pending = study.ask()
    assert study.ledger["trials"].reserved == 1
    assert study.ledger.reserved_for(pending.number)["cost"] > 0
    while not study.verdict.stop:
        trial = study.ask()
        for resource in study.ledger:
            account = study.ledger[resource]
            assert account.spent + account.reserved + account.left == account.limit
            assert account.left >= 0
        study.tell(trial, 1.0, cost=study.ledger.reserved_for(trial.number)["cost"])
    assert len(study.history) > 7
    assert Study.open(url, "study").ledger == study.ledger


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ((7, 1.0), "is unknown"),
        (("0", 1.0), "is unknown"),
        ((0,), "exactly one of"),
        ((0, float("nan")), "expected a finite number"),
        ((0, "1.0"), "expected a finite number"),
    ],
)
def test_invalid_results_are_refused(tmp_path, told, sentence):
    study = make(tmp_path / "s.db")
    study.ask()
    with pytest.raises(InvalidInput, match=sentence):
        study.tell(*told, cost=1.0)
    with pytest.raises(InvalidInput, match="cost in 'cost' is missing"):
        study.tell(0, 1.0)
    with pytest.raises(InvalidInput, match="this study counts cost"):
        study.tell(0, 1.0, cost={"usd": 3.0})
    assert study.history[0].state == "running"
    study.tell(0, 1.0, cost=1.0)
    with pytest.raises(InvalidInput, match=r"already has an outcome \(done\)"):
        Study.open(tmp_path / "s.db", "study").tell(0, 1.0, cost=1.0)


def test_a_trial_of_another_study_is_refused(tmp_path):
    one, other = make(tmp_path / "s.db", "one"), make(tmp_path / "s.db", "other", seed=1)
    trial = one.ask()
    other.ask()
    with pytest.raises(InvalidInput, match="is unknown"):
        other.tell(trial, 1.0, cost=1.0)


def test_changing_the_params_of_a_trial_does_not_change_the_study(tmp_path):
    study = make(tmp_path / "s.db")
    trial = study.ask()
    trial.params.clear()
    assert study.history[0].params


def test_any_process_can_request_a_stop_and_cancel_it(url):
    study = make(url)
    Study.open(url, "study").request_stop()
    assert (study.verdict.stop, study.verdict.because) == (True, "a stop was requested")
    with pytest.raises(Stopped, match="a stop was requested"):
        study.ask()
    with pytest.raises(Stopped):
        study.ask(anyway=False)
    assert study.result().stop_reason.sentence == "a stop was requested"
    Study.open(url, "study").commit(Resumed())
    assert study.ask().number == 0


# ── external evaluations ───────────────────────────────────────────────────────────────────────

POINTS = [SPACE.decode(x) for x in SPACE.sample(8, np.random.default_rng(4))]


def test_an_external_evaluation_gets_a_number_and_costs_nothing(url):
    study, optimizer = make(url, policy=CArBO()), Optimizer(SPACE, 500.0, policy=CArBO())
    for params in POINTS:
        for each in (study, optimizer):
            each.add(params, value_of(params), cost=price_of(params))
    assert study.ledger.spent == 0
    same(Study.open(url, "study").ask(), optimizer.ask())
    assert study.add(POINTS[0], 1.0).cost == {}  # its cost may be unknown
    with pytest.raises(InvalidInput, match="Unknown parameter"):
        study.add({"z": 1}, 1.0, cost=1.0)


def rows(prefix=""):
    return [
        {f"{prefix}{name}": value for name, value in params.items()}
        | {"value": value_of(params), "cost": price_of(params)}
        for params in POINTS
    ]


@pytest.mark.slow
def test_trials_are_imported_from_rows_frames_files_and_studies(tmp_path):
    import pandas as pd

    url = tmp_path / "study.db"
    expected = make(url, "expected", policy=EIPerCost())
    for params in POINTS:
        expected.add(params, value_of(params), cost=price_of(params))
    source = make(url, "source")
    source.import_trials(rows())
    plain = [{**row, "s": str(row["s"])} for row in rows()]
    frame = source.dataframe()
    frame.to_csv(tmp_path / "ours.csv", index=False)
    pd.DataFrame(plain).to_csv(tmp_path / "theirs.csv", index=False)
    sources = {
        "rows": rows(),
        "prefixed": rows("param_"),
        "frame": pd.DataFrame(rows()),
        "our frame": frame,
        "our file": str(tmp_path / "ours.csv"),
        "their file": tmp_path / "theirs.csv",
        "study": source,
    }
    proposal = expected.ask()
    for name, each in sources.items():
        study = make(url, name, policy=EIPerCost())
        assert study.import_trials(each).taken == 8
        assert [t.params for t in study.history] == POINTS
        assert study.ledger.spent == 0
        same(study.ask(), proposal)


def test_values_and_costs_can_be_imported_separately(url):
    values, costs, both = (make(url, n, policy=EIPerCost()) for n in ("v", "c", "b"))
    values.import_trials(rows(), costs=False)
    assert [dict(t.cost) for t in values.history] == [{}] * 8
    assert values.ask().predicted == {}  # no cost is known
    assert costs.import_trials(rows(), values=False).taken == 8
    both.import_trials(rows())
    assert len(costs.history) == 0
    assert costs.best is None
    first = Study.open(url, "c").ask()
    assert first.number == 0
    assert first.predicted_cost == pytest.approx(price_of(first.params), rel=0.6)
    # A point with a known cost but no value may still be suggested.
    table = Space.from_rows([{"x": 1.0}, {"x": 2.0}])
    priced = make(url, "t", space=table, policy=EIPerCost())
    priced.import_trials([{"x": 1.0, "cost": 3.0}, {"x": 2.0, "cost": 4.0}], values=False)
    assert {priced.ask().params["x"], priced.ask().params["x"]} == {1.0, 2.0}
    predicted = {t.params["x"]: t.predicted_cost for t in priced.history}
    assert predicted == pytest.approx({1.0: 3.0, 2.0: 4.0}, rel=0.3)


def test_finished_trials_of_another_study_are_imported(tmp_path):
    study = make(tmp_path / "s.db", "from")
    trials = [study.ask() for _ in range(4)]
    study.tell(trials[0], 1.0, cost=2.0)
    study.tell(trials[1], failed="no", cost=3.0)
    study.tell(trials[2], killed=True, cost=60.0)  # a lower bound
    taken = make(tmp_path / "s.db", "to")
    assert taken.import_trials(study).taken == 3
    assert [t.state for t in taken.history] == ["done", "failed", "killed"]
    assert [t.value for t in taken.history] == [1.0, None, None]
    assert [dict(t.cost) for t in taken.history] == [{"cost": c} for c in (2.0, 3.0, 60.0)]
    assert taken.history[1].error == "no"
    prices = make(tmp_path / "s.db", "prices")
    assert prices.import_trials(study, values=False).taken == 3
    found = prices._store.look().prices
    assert [(dict(p.cost), p.at_least) for p in found] == [
        ({"cost": 2.0}, False),
        ({"cost": 3.0}, False),
        ({"cost": 60.0}, True),
    ]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("nowhere.csv", r"'nowhere\.csv' cannot be read"),
        ([{"colour": "red", "value": 1.0}], r"Row 1: it has no column for a parameter"),
        ([{**POINTS[0], "value": "high"}], r"Row 1: value is 'high'"),
        ([{**POINTS[0], "a": 99.0, "value": 1.0}], "99"),
        (42, "contains no evaluations"),
        ({"a": 1}, "contains no evaluations"),
        (["a"], "contains no evaluations"),
    ],
)
def test_an_invalid_import_changes_nothing(tmp_path, source, sentence):
    study = make(tmp_path / "s.db")
    with pytest.raises(InvalidInput, match=sentence):
        study.import_trials(source)
    with pytest.raises(InvalidInput, match="nothing would be imported"):
        study.import_trials([], values=False, costs=False)
    assert len(study.history) == 0


# ── looking ────────────────────────────────────────────────────────────────────────────────────


def test_the_result_has_the_best_trial_and_the_costs(url):
    study = make(url, stop=MaxTrials(3))
    assert study.result().found is None
    assert study.result().stop_reason.sentence == "the study has not ended"
    play(study, 3)
    result = study.result()
    assert result.best.value == min(t.value for t in study.history)
    assert result.stop_reason.sentence == "3 of at most 3 trials made"
    assert result.spent == study.ledger.spent
    assert len(result.history) == 3


def test_the_data_frame_and_the_records_are_complete(url):
    study = make(url)
    play(study, 2)
    study.ask()
    frame = study.dataframe()
    assert list(frame["number"]) == [0, 1, 2]
    assert {"param_a", "cost_cost", "state", "because", "suggest_s", "run_s"} <= set(frame.columns)
    records = study.records()
    assert [record["state"] for record in records] == ["done", "done", "running"]
    columns = {"number", "state", "params", "value", "cost", "because", "predicted", "censored"}
    columns |= {"worker", "attempt", "seed", "error", "notes", "suggest_s", "queue_s", "run_s"}
    assert columns <= set(records[0])
    assert len({record["seed"] for record in records}) == 3
    assert records[0]["params"] == dict(study.history[0].params)


# ── several processes ──────────────────────────────────────────────────────────────────────────


def ask_and_tell(url):
    """Ask and tell until the budget is spent, and check the ledger after each ask."""
    study, seen = Study.open(url, "study", cost=eight_price), []
    while True:
        try:
            trial = study.ask()
        except Stopped:
            return seen
        ledger = study._store._state.ledger  # after the transaction of this process
        assert ledger.spent + ledger.reserved + ledger.left == ledger.limit
        assert ledger.spent + ledger.reserved <= ledger.limit * (1 + 1e-9)
        study.tell(trial, value_of(trial.params), cost=0.5 + trial.params["k"] / 10)
        seen.append(trial.number)


@pytest.mark.slow
def test_eight_processes_share_a_budget_and_never_the_same_trial(url, monkeypatch):
    """Costs are known, so each reservation equals its cost, and the limit is never exceeded."""
    monkeypatch.setattr("farthing.storage.database.PATIENCE", PATIENCE)
    study = make(url, budget=25.0, cost=eight_price)
    with ProcessPoolExecutor(8, multiprocessing.get_context("fork")) as pool:
        told = list(pool.map(ask_and_tell, [url] * 8))
    numbers = sorted(number for part in told for number in part)
    history = study.history
    assert numbers == list(range(len(history)))
    assert len({trial.x.tobytes() for trial in history}) == len(history)
    assert {trial.state for trial in history} == {"done"}
    assert 25 - 1.1 < study.ledger.spent <= 25 * (1 + 1e-9)
    assert study.ledger.spent == pytest.approx(sum(t.cost["cost"] for t in history))
    assert study.ledger.reserved == 0


def eight_price(params):
    return 0.5 + params["k"] / 10
