"""Edits of trials: drop one, repeat one, enqueue parameters."""

from dataclasses import replace

import numpy as np
import pytest
from contract_problem import cost_of, value_of
from small_studies import SPACE, same

from farthing import Categorical, Float, InvalidInput, Optimizer, Ordinal, Space, Stopped, Study
from farthing.core.events import Asked, Dropped, Told
from farthing.errors import Outdated
from farthing.policies import EI, EIPerCost, Random
from farthing.stopping import MaxTrials

COMPLETE = {"a": 1.0, "b": 0.01, "k": 3, "s": "u", "m": 2.25}


def make(url, name="study", **settings):
    settings = {"space": SPACE, "budget": 500.0, "policy": Random(), **settings}
    return Study.create(url, name=name, **settings)


def tell(study, trial):
    study.tell(trial, value_of(trial.params), cost=cost_of(trial.params))


def play(study, count):
    for _ in range(count):
        tell(study, study.ask())


# ── drop ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_dropped_trial_teaches_nothing_and_stays_charged(url):
    study = make(url)
    play(study, 4)
    best, spent = study.best.number, study.ledger.spent
    cost = dict(study.history[best].cost)
    Study.open(url, "study").drop(best)
    assert study.best.number != best
    dropped = study.history[best]
    assert (dropped.state, dropped.value, dropped.error) == ("lost", None, "it was dropped")
    assert dict(dropped.cost) == cost
    assert study.ledger.spent == spent
    assert study.records()[best]["notes"]["dropped"]["value"] == value_of(dropped.params)
    (change,) = study.changes
    assert change["said"] == {
        f"trial {best}": (f"done with {value_of(dropped.params):.6g}", "dropped")
    }


@pytest.mark.slow
@pytest.mark.parametrize("policy", [EI(), EIPerCost()])
def test_it_is_as_if_a_dropped_trial_had_been_lost(url, policy):
    """Also the stored hyperparameters: an extreme value may have changed the lengthscales."""
    study, optimizer = make(url, policy=policy), Optimizer(SPACE, 500.0, policy=policy)
    for k in range(9):
        asked = [each.ask() for each in (study, optimizer)]
        same(*asked)
        for each, trial in zip((study, optimizer), asked, strict=True):
            value = 1e6 if k == 5 else value_of(trial.params)
            each.tell(trial, value, cost=cost_of(trial.params))
    assert "memories" in study.history[8].notes
    study.drop(5)
    optimizer.commit(Dropped(5))
    assert not any("memories" in trial.notes for trial in study.history.trials[6:])
    study = Study.open(url, "study")
    same(study.ask(), optimizer.ask())
    # The models ignore it: another value in its place changes nothing.
    other = Optimizer(SPACE, 500.0, policy=policy)
    for trial in optimizer.history.trials[:9]:
        other.add(trial.params, 0.0 if trial.number == 5 else trial.value, cost=trial.cost)
    other.commit(Dropped(5))
    known = [each._look().history.having("done") for each in (other, optimizer)]
    assert len(known[0]) == len(known[1]) == 8


def test_a_value_that_the_user_reports_after_the_drop_counts(url):
    study = make(url)
    play(study, 2)
    spent = study.ledger.spent
    study.drop(1)
    study.tell(1, -7.0, cost=study.history[1].cost)
    assert (study.best.number, study.best.value) == (1, -7.0)
    assert study.ledger.spent == spent  # the same evaluation, corrected
    study.drop(1)
    assert study.best.number == 0


def test_a_running_trial_that_is_dropped_ends_and_releases_its_reservation(url):
    study = make(url)
    play(study, 2)
    trial = study.ask(worker="here", lease=60.0)
    reserved = study.ledger.reserved
    assert reserved > 0
    study.renew(trial, lease=60.0, cost={"cost": 0.5}, ahead={"cost": 0.6})
    spent = study.ledger.spent
    Study.open(url, "study").drop(trial.number)
    assert study.ledger.reserved == 0
    assert study.ledger.spent == pytest.approx(spent + 0.5)
    because = study.renew(trial, lease=60.0, cost={"cost": 0.7}, ahead={"cost": 0.8})
    assert because == "it was dropped"
    study.commit(Told(trial, "done", 3.0, {"cost": 0.75}, by_user=False))  # too late
    assert study.history[trial.number].state == "lost"
    assert study.ledger.spent == pytest.approx(spent + 0.75)


def test_impossible_drops_and_repeats_are_refused(tmp_path):
    study = make(tmp_path / "s.db")
    with pytest.raises(InvalidInput, match="There is no trial 0: the study has no trials yet"):
        study.drop(0)
    play(study, 2)
    study.ask()
    for number in (3, -1, "1"):
        for verb in (study.drop, study.rerun):
            with pytest.raises(
                InvalidInput, match=f"There is no trial {number}: the study has trials 0"
            ):
                verb(number)
    with pytest.raises(InvalidInput, match="Trial 2 is running"):
        study.rerun(2)
    study.drop(1)
    with pytest.raises(InvalidInput, match="Trial 1 is already dropped"):
        study.drop(1)


# ── rerun ────────────────────────────────────────────────────────────────────────────────────────


def test_a_repeated_trial_comes_next_under_a_new_number(url):
    study = make(url, stop=MaxTrials(3))
    play(study, 2)
    study.tell(study.ask(), failed="no network", cost=1.0)
    with pytest.raises(Stopped):
        study.ask()
    study.rerun(2)
    study.rerun(0)
    other = Study.open(url, "study")
    assert other.waiting == [dict(study.history[2].params), dict(study.history[0].params)]
    assert study.history[2].state == "lost"  # the failure does not count
    assert study.history[0].state == "done"
    again = [other.ask(), study.ask()]
    assert [trial.number for trial in again] == [3, 4]
    for trial, was in zip(again, (2, 0), strict=True):
        assert dict(trial.params) == dict(study.history[was].params)
        assert trial.because == f"repeats trial {was}, as requested"
    tell(study, again[0])
    assert study.waiting == []
    with pytest.raises(Stopped):  # the stopping rule applies again
        study.ask()
    assert [change["said"] for change in study.changes] == [
        {"trial 2": ("failed", "to be run again")},
        {"trial 0": (f"done with {study.history[0].value:.6g}", "to be run again")},
    ]


def test_a_trial_that_waits_for_a_retry_is_not_run_twice(tmp_path):
    study = make(tmp_path / "s.db", retries=2)
    trial = study.ask(worker="gone", lease=60.0)
    study.commit(Told(trial, "lost", error="no GPU", by_user=False))
    assert study._look().next_retry is not None
    study.rerun(0)
    assert study._look().next_retry is None
    assert dict(study.ask().params) == dict(trial.params)
    assert dict(study.ask().params) != dict(trial.params)


def test_a_dropped_trial_can_be_run_again(url):
    study = make(url)
    play(study, 1)
    study.drop(0)
    study.rerun(0)
    assert dict(study.ask().params) == dict(study.history[0].params)


# ── enqueue ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["study", "optimizer"])
def test_enqueued_parameters_come_next_in_their_order(tmp_path, kind):
    made = make(tmp_path / "s.db") if kind == "study" else Optimizer(SPACE, 500.0, policy=Random())
    made.enqueue(COMPLETE)
    made.enqueue({"k": 6})
    made.enqueue({"s": "v"})
    trials = [made.ask() for _ in range(4)]
    assert dict(trials[0].params) == COMPLETE
    assert trials[0].because == "enqueued by the user: a=1.0, b=0.01, k=3, s=u, m=2.25"
    assert trials[1].params["k"] == 6
    assert trials[2].params["s"] == "v"
    assert "enqueued by the user: k=6; the other parameters: " in trials[1].because
    assert "asked for" not in trials[3].because
    for trial in trials:
        np.testing.assert_array_equal(trial.x, SPACE.encode(trial.params))


def test_the_policy_completes_missing_parameters():
    """The other parameters are those that it would have suggested."""
    one, other = (Optimizer(SPACE, 500.0, policy=EI()) for _ in range(2))
    for optimizer in (one, other):
        play(optimizer, 6)
    one.enqueue({"k": 1})
    wanted, chosen = one.ask(), other.ask()
    assert wanted.params["k"] == 1
    rest = {name: value for name, value in chosen.params.items() if name != "k"}
    assert {name: wanted.params[name] for name in rest} == rest
    assert wanted.predicted_cost is not None
    assert chosen.because in wanted.because


@pytest.mark.slow
def test_a_queue_survives_and_resumes_exactly(url):
    study, optimizer = make(url, policy=EI()), Optimizer(SPACE, 500.0, policy=EI())
    for each in (study, optimizer):
        play(each, 5)
        each.enqueue({"k": 2, "s": ("w", 1)})
        each.enqueue(COMPLETE)
    for _ in range(4):
        study = Study.open(url, "study")
        asked = [each.ask() for each in (study, optimizer)]
        same(*asked)
        for each, trial in zip((study, optimizer), asked, strict=True):
            tell(each, trial)
    assert study.history[5].params["s"] == ("w", 1)
    assert dict(study.history[6].params) == COMPLETE


def test_once_holds_for_all_processes(url):
    study = make(url)
    for _ in range(2):
        study.enqueue({"k": 2}, once=True)
    assert study.waiting == [{"k": 2}]
    tell(study, study.ask())
    Study.open(url, "study").enqueue({"k": 2}, once=True)
    assert study.waiting == []
    study.enqueue({"k": 2})
    assert study.waiting == [{"k": 2}]


def test_two_processes_do_not_start_the_same_entry(url):
    one, other = make(url), Study.open(url, "study")
    one.enqueue(COMPLETE)
    taken = [one.ask(), other.ask()]
    assert [dict(trial.params) == COMPLETE for trial in taken] == [True, False]
    one.enqueue(COMPLETE)
    suggestion = other._asker.suggest(other._look()).suggestion
    one.ask()
    trial, hold = suggestion.trial()
    with pytest.raises(Outdated, match="started the enqueued trial"):
        other._session.commit(Asked(replace(trial, number=len(other.history)), hold))


def test_only_the_budget_can_refuse_an_enqueued_trial(tmp_path):
    study = make(tmp_path / "s.db", cost=lambda params: 10.0 * params["k"], budget=100.0)
    for k in (6, 1):
        study.enqueue({**COMPLETE, "k": k})
    for k in (6, 1):
        trial = study.ask()
        assert trial.params["k"] == k
        study.tell(trial, 1.0)
    study.enqueue({**COMPLETE, "k": 4})  # costs 40, but 30 are left
    study.enqueue({**COMPLETE, "k": 3})
    assert study.ask().params["k"] == 3
    assert study.waiting == [{**COMPLETE, "k": 4}]
    study.change(budget="+40")
    assert study.ask().params["k"] == 4


@pytest.mark.parametrize(
    ("params", "because"),
    [
        ({}, "expected a mapping of parameter names to values"),
        ({"z": 1}, "Unknown parameter 'z'"),
        ({"k": 7}, "k"),
        ({"s": "v", "m": 2.5}, "'m' is only active when {'s': 'u'}"),
        ({"m": 2.5}, "'m' is only active when {'s': 'u'}. Pass that condition, too"),
    ],
)
def test_invalid_parameters_are_refused_at_once(params, because):
    optimizer = Optimizer(SPACE, 500.0, policy=Random())
    with pytest.raises(InvalidInput, match=because.replace("{", r"\{").replace(".", r"\.")):
        optimizer.enqueue(params)
    assert "asked for" not in optimizer.ask().because


def test_in_a_table_the_row_nearest_to_the_suggestion_is_taken():
    rows = [{"w": w, "s": s} for w in (1, 2, 4, 8) for s in ("a", "b") if (w, s) != (8, "b")]
    optimizer = Optimizer(Space.from_rows(rows), "20 trials", policy=Random())
    optimizer.enqueue({"s": "b"})
    optimizer.enqueue({"w": 8})
    asked = [optimizer.ask().params for _ in range(2)]
    assert asked[0]["s"] == "b"
    assert asked[1] == {"w": 8, "s": "a"}
    with pytest.raises(InvalidInput, match="No row of the table has"):
        optimizer.enqueue({"w": 8, "s": "b"})
    with pytest.raises(InvalidInput, match="Unknown parameter 'v'"):
        optimizer.enqueue({"v": 8})


def test_the_queue_survives_a_larger_space():
    space = {"w": Ordinal([1, 2]), "s": Categorical(["a"]), "x": Float(0, 1)}
    optimizer = Optimizer(space, "9 trials", policy=Random())
    optimizer.ask()
    optimizer.enqueue({"w": 2})
    optimizer.change(space={**space, "w": Ordinal([1, 2, 3])})
    assert optimizer.ask().params["w"] == 2
