"""Batches: each trial takes the earlier ones into account, and all of them start, or none."""

import pickle
from dataclasses import replace

import cloudpickle
import numpy as np
import pytest
from processes import FOREVER

from farthing import Float, Int, Optimizer, Space, Stopped, Study
from farthing.budget.ledger import Ledger
from farthing.core.events import AskedTogether, Moment, Told
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import AskOptions, next_trials, suggest
from farthing.core.transition import apply
from farthing.errors import Outdated
from farthing.policies import EI, Gittins, Random
from farthing.stopping import MaxTrials

SPACE = Space({"a": Float(2, 3), "k": Int(1, 9)})


def make(url, **settings):
    settings = {"space": SPACE, "budget": "$10", "policy": Random(), **settings}
    return Study.create(url, name="study", **settings)


def another(study):
    """A second handle of the same study, which the database sees as another process."""
    return pickle.loads(cloudpickle.dumps(study))


def price(params):
    return 0.5 + params["a"] / 10


def value(params):
    return (params["a"] - 2.3) ** 2 + abs(params["k"] - 4) / 10


def play(optimizer, count):
    for _ in range(count):
        trial = optimizer.ask()
        optimizer.tell(trial, value(trial.params), cost=price(trial.params))


def revision(study):
    with study._database.reading() as connection:
        return connection.exec_driver_sql("SELECT revision FROM farthing_studies").scalar_one()


def writes(study, do):
    """The number of transactions that changed the study, and the result of the call."""
    before = revision(study)
    found = do()
    return revision(study) - before, found


# ── one commit ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Random(), Gittins()], ids=lambda p: type(p).__name__)
def test_a_batch_is_one_change_of_the_database_and_the_same_as_asks(url, policy, monkeypatch):
    monkeypatch.setattr("farthing.core.asking.SLOW", FOREVER)  # without the suggestion lock
    study = make(url, policy=policy, seed=3)
    alone = Optimizer(SPACE, "$10", policy=policy, seed=3)
    for each in (study, alone):
        play(each, 6)
    changes, together = writes(study, lambda: study.ask(4, worker="w", lease=FOREVER))
    assert changes == 1
    singles = [alone.ask() for _ in range(4)]
    assert [t.number for t in together] == [6, 7, 8, 9]
    np.testing.assert_array_equal([t.x for t in together], [t.x for t in singles])
    assert all(t.run.worker == "w" and t.run.lease > 0 for t in together)
    assert all(t.run.suggest_s > 0 for t in together)
    assert study.ledger.reserved == pytest.approx(alone.ledger.reserved)
    assert study.ledger.reserved > 0
    np.testing.assert_array_equal(
        [t.x for t in another(study).history.running], [t.x for t in together]
    )


@pytest.mark.slow
def test_sizes_may_differ_and_results_in_between_are_used():
    optimizer = Optimizer(SPACE, 100, policy=EI(), seed=1)
    play(optimizer, 5)
    for size in (3, 1, 7, 2):
        batch = optimizer.ask(size)
        assert len(batch) == size
        optimizer.tell(batch[0], value(batch[0].params), cost=price(batch[0].params))
    X = optimizer.history.X
    assert len(np.unique(X, axis=0)) == len(X) == 5 + 13
    assert len(optimizer.history.running) == 13 - 4


def test_a_batch_that_another_process_overtook_is_suggested_again_as_a_whole(url):
    study = make(url)
    worker = another(study)
    known = worker._store.look()
    taken = study.ask()
    with pytest.raises(Outdated):
        worker._asker.start(known, 3, AskOptions(suggester=worker._asker.id()))
    assert len(study.history) == 1
    mine = worker.ask(3)
    assert [trial.number for trial in mine] == [1, 2, 3]
    assert len({tuple(t.params.items()) for t in (taken, *mine)}) == 4


def test_a_batch_that_does_not_fit_any_more_is_refused_as_a_whole(url):
    study = make(url, cost=lambda params: 3.0)
    worker = another(study)
    known = worker._store.look()
    trial = study.ask(worker="w", lease=FOREVER)
    study.renew(trial, lease=FOREVER, cost={"usd": 4.0}, ahead={"usd": 5.0})
    known = replace(known, history=worker._store.look().history)  # but not what it reserved
    with pytest.raises(Outdated, match="less of the budget is left"):
        worker._asker.start(
            known, 2, AskOptions(suggester=worker._asker.id())
        )  # 3 + 3 of the 5 that are left
    assert len(study.history) == 1
    assert len(worker.ask(2)) == 1
    assert study.ledger.left == pytest.approx(2.0)


def test_overhead_is_charged_once_and_no_more_is_reserved_than_is_left():
    settings = Settings.of(SPACE, {"s": 10.0}, policy=Random(), cost=lambda params: 3.3)
    state = State(Ledger.of(settings.budget))

    def suggester(state):
        return suggest(settings, state), 0.02

    asked = next_trials(settings, state, 5, suggester, AskOptions(), lambda: Moment(1.0))
    assert [dict(each.reservation) for each in asked] == [{"s": pytest.approx(3.3)}] * 3
    after = apply(settings, state, AskedTogether(asked), Moment(1.0, overhead_s=0.3))
    account = after.ledger["s"]
    assert (account.spent, account.overhead) == (0.3, 0.3)
    assert account.reserved == pytest.approx(9.7)  # the third reserves what is left of its 3.3
    assert [trial.run.suggest_s for trial in after.history] == [0.02] * 3
    assert len(state.history) == 0
    short = replace(state, ledger=state.ledger.pay({"s": 4.0}))
    with pytest.raises(Outdated, match="less of the budget is left"):
        apply(settings, short, AskedTogether(asked), Moment(1.0))


# ── lost trials ──────────────────────────────────────────────────────────────────────────────────


def test_lost_trials_are_part_of_a_batch_and_start_once(url):
    study = make(url, retries=1, policy=EI(), max_cost="$1")
    first = study.ask(2, worker="w", lease=FOREVER)
    with study._database.writing() as connection:
        connection.exec_driver_sql("UPDATE farthing_studies SET revision = revision + 1")
        connection.exec_driver_sql(
            "UPDATE farthing_trials SET lease = 1, "
            "revision = (SELECT revision FROM farthing_studies)"
        )
    worker = another(study)
    batch = worker.ask(4)
    assert [t.params for t in batch[:2]] == [t.params for t in first]
    assert [t.run.attempt for t in batch] == [2, 2, 1, 1]
    assert len({tuple(t.params.items()) for t in batch}) == 4
    assert study._store.look().suggester is None
    reserved = [study.ledger.reserved_for(t.number)["usd"] for t in batch]
    assert reserved == pytest.approx([1.0] * 4)  # at most max_cost
    assert [t.state for t in study.history] == ["lost"] * 2 + ["running"] * 4


@pytest.mark.parametrize("count", [2, 3])
def test_as_many_lost_trials_are_repeated_as_the_budget_pays(count):
    settings = Settings.of(SPACE, {"usd": 10.0, "trials": 3}, policy=Random(), retries=1)
    optimizer = Optimizer.of(settings)
    for trial in optimizer.ask(2):
        optimizer.commit(Told(trial, "lost", None, {"usd": 1.0}, "gone", by_user=False))
    (again,) = optimizer.ask(count)  # two wait, and the budget pays for one
    assert (again.run.attempt, again.params) == (2, optimizer.history[0].params)
    assert optimizer.ledger["trials"].left == 0
    with pytest.raises(Stopped, match="budget"):
        optimizer.ask(count)


# ── as many as may start ─────────────────────────────────────────────────────────────────────────


def test_a_rule_ends_a_batch_and_anyway_does_not_overrule_the_ledger():
    optimizer = Optimizer(SPACE, "5 trials", policy=Random(), stop=MaxTrials(3))
    assert len(optimizer.ask(9)) == 3
    with pytest.raises(Stopped, match="3 trials"):
        optimizer.ask(9)
    assert len(optimizer.ask(9, anyway=True)) == 2
    with pytest.raises(Stopped, match="budget of 5 trials"):
        optimizer.ask(9, anyway=True)


def test_no_suggestion_of_a_batch_starts_that_would_outlast_the_budget():
    """On the clock a batch has as many trials as there is time to suggest."""
    optimizer = Optimizer(SPACE, {"s": FOREVER}, policy=Random())
    state = optimizer._store.look()
    with optimizer.on_the_clock():
        assert len(optimizer.ask(2)) == 2
        kept = optimizer._asker.suggest

        def slowly(state):
            suggestion = kept(state)
            return suggestion._replace(seconds=2 * FOREVER)

        optimizer._asker.suggest = slowly
        assert len(optimizer.ask(5)) == 1  # the next suggestion would take as long
    assert len(state.history) == 0
