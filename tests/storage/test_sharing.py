"""What several processes share: leases, the clock and the suggestion lock."""

import math
import pickle
import time
from dataclasses import dataclass
from typing import ClassVar

import cloudpickle
import pytest
from processes import FOREVER

from farthing import Float, Space, Stopped, Study
from farthing.core.events import Resumed, Told
from farthing.core.suggest import AskOptions
from farthing.errors import Outdated
from farthing.policies import Random
from farthing.stopping import MaxTrials

SPACE = Space({"a": Float(2, 3)})
USED = {"run_s": 1.5, "cpu_s": 1.0, "peak_mb": 20.0}


def make(url, **settings):
    settings = {"space": SPACE, "budget": "$10", "policy": Random(), **settings}
    study = Study.create(url, name="study", **settings)
    return study, another(study)


# Money that is measured while a trial runs. Workers wait for a cost that only the trial reports.
MEASURED = {"rate": "$3600/h", "measure": "cpu"}


def another(study):
    """The same study, as another process would open it."""
    return pickle.loads(cloudpickle.dumps(study))


def state(study):
    return study._store.look()


def failures(study):
    return state(study).failures, state(study).first_error


def change(connection, what, where="1 = 1"):
    """Change a row as another program would, with a new revision."""
    connection.exec_driver_sql("UPDATE farthing_studies SET revision = revision + 1")
    revision = "(SELECT revision FROM farthing_studies)"
    connection.exec_driver_sql(f"UPDATE {what}, revision = {revision} WHERE {where}")


def expire(study):
    """Expire the leases of all running trials."""
    with study._database.writing() as connection:
        change(connection, "farthing_trials SET lease = 1", "lease IS NOT NULL")


def conclude(study, trial, how, cost, value=None, error=None):
    """Report the outcome of a trial, as a worker does."""
    study.commit(Told(trial, how, value, cost, error, by_user=False, run=USED))


# ── leases ─────────────────────────────────────────────────────────────────────────────────────


def test_a_trial_reserves_what_it_will_need_and_ends_when_nothing_is_left(url):
    study, worker = make(url, **MEASURED)
    trial = worker.ask(worker="w", lease=FOREVER)
    for used in (3.0, 5.0, 9.0):
        cost, ahead = {"usd": used}, {"usd": used + 1}
        assert worker.renew(trial, lease=FOREVER, cost=cost, ahead=ahead) is None
        assert study.ledger.reserved_for(0)["usd"] == pytest.approx(used + 1)
        assert study.ledger.left == pytest.approx(9 - used)
    why = worker.renew(trial, lease=FOREVER, cost={"usd": 9.5}, ahead={"usd": 10.5})
    assert why == "the budget of $10.00 is spent"
    assert study.ledger.left == pytest.approx(0.0)
    conclude(worker, trial, "killed", {"usd": 9.6}, error=why)
    assert study.ledger.spent == 9.6
    assert study.ledger.reserved == 0
    record = study.records()[0]
    assert (record["state"], record["censored"], record["error"]) == ("killed", 1, why)
    assert (record["run_s"], record["cpu_s"], record["peak_mb"]) == (1.5, 1.0, 20.0)


def test_two_trials_share_what_is_left(url):
    study, worker = make(url, **MEASURED)
    other = another(study)
    mine, theirs = worker.ask(worker="a", lease=FOREVER), other.ask(worker="b", lease=FOREVER)
    assert worker.renew(mine, lease=FOREVER, cost={"usd": 5.0}, ahead={"usd": 6.0}) is None
    assert other.renew(theirs, lease=FOREVER, cost={"usd": 2.0}, ahead={"usd": 3.0}) is None
    why = other.renew(theirs, lease=FOREVER, cost={"usd": 3.5}, ahead={"usd": 4.5})
    assert why is not None
    assert study.ledger.spent + study.ledger.reserved == pytest.approx(10.0)
    conclude(worker, mine, "done", {"usd": 5.5}, 1.0)
    assert study.ledger.left == pytest.approx(0.5)
    assert other.renew(theirs, lease=FOREVER, cost={"usd": 3.0}, ahead={"usd": 3.2}) is None


def test_a_trial_whose_worker_disappeared_is_lost_and_charged(url):
    study, worker = make(url)
    trial = worker.ask(worker="here:7", lease=FOREVER)
    worker.renew(trial, lease=FOREVER, cost={"usd": 2.5}, ahead={"usd": 3.0})
    assert worker.is_worked_on()
    expire(study)
    other = another(study)
    assert other.ask().number == 1
    lost = study.history[0]
    assert (lost.state, dict(lost.cost)) == ("lost", {"usd": 2.5})
    assert lost.error == "its worker (here:7) disappeared"
    assert study.ledger.spent == 2.5
    assert study.ledger.reservations.keys() == {1}
    assert not other.is_worked_on()  # trial 1 has no lease
    why = worker.renew(trial, lease=FOREVER, cost={"usd": 3.0}, ahead={"usd": 3.5})
    assert "lease had expired" in why
    assert study.ledger.spent == 2.5


def test_a_trial_whose_lease_is_renewed_is_not_lost(url):
    study, worker = make(url, **MEASURED)
    trial = worker.ask(worker="w", lease=FOREVER)
    unleased = another(study).ask()
    expire(study)
    worker._session.leases_checked = math.inf  # it does not check leases
    worker.renew(trial, lease=FOREVER, cost={"usd": 0.1}, ahead={"usd": 0.2})
    other = another(study)
    other.ask()
    assert other._session.leases_checked > -math.inf  # it has checked leases
    assert [t.state for t in study.history] == ["running"] * 3
    assert study.history[trial.number].run.lease > other._store.now
    expire(study)
    assert not another(study).is_worked_on()
    assert [t.state for t in study.history] == ["lost", "running", "running"]
    assert study.history[unleased.number].run.lease is None


def test_lost_trials_are_retried_as_often_as_the_settings_say(url):
    study, worker = make(url, retries=1)
    first = worker.ask(worker="w", lease=FOREVER)
    worker.renew(first, lease=FOREVER, cost={"usd": 1.0}, ahead={"usd": 1.5})
    expire(study)
    again = another(study).ask(worker="v", lease=FOREVER)
    assert (again.number, dict(again.params)) == (1, dict(first.params))
    assert again.because == "repeats trial 0, which was lost"
    assert [r["attempt"] for r in study.records()] == [1, 2]
    expire(study)
    fresh = another(study).ask(worker="v", lease=FOREVER)
    assert fresh.number == 2
    assert dict(fresh.params) != dict(first.params)
    assert [t.state for t in study.history] == ["lost", "lost", "running"]


def test_a_stopping_rule_also_stops_retries(url):
    study, worker = make(url, retries=3, stop=MaxTrials(1))
    worker.ask(worker="w", lease=FOREVER)
    expire(study)
    with pytest.raises(Stopped, match="1 of at most 1"):
        another(study).ask()
    assert another(study).ask(anyway=True).number == 1


def test_a_running_worker_expires_the_leases_of_others(url, monkeypatch):
    monkeypatch.setattr("farthing.core.session.FRESH", 0.0)  # it always looks again
    study, worker = make(url, **MEASURED)
    mine = worker.ask(worker="w", lease=FOREVER)
    dead = another(study).ask(worker="v", lease=FOREVER)
    another(study).renew(dead, lease=FOREVER, cost={"usd": 1.0}, ahead={"usd": 9.0})
    with study._database.writing() as connection:
        change(connection, "farthing_trials SET lease = 1", "number = 1")
    assert worker.renew(mine, lease=FOREVER, cost={"usd": 2.0}, ahead={"usd": 8.0}) is None
    assert [t.state for t in study.history] == ["running", "lost"]


def test_a_failure_of_the_machine_is_charged_and_retried_but_not_learnt_from(url):
    study, worker = make(url, retries=1)
    trial = worker.ask(worker="w", lease=FOREVER)
    conclude(worker, trial, "lost", {"usd": 0.5}, error="no GPU")
    assert (study.history[0].state, study.history[0].error) == ("lost", "no GPU")
    assert study.ledger.spent == 0.5
    assert failures(worker) == (1, "no GPU")
    assert dict(worker.ask().params) == dict(trial.params)
    assert worker._asker.suggest(state(worker)).suggestion.belief.success is None


def test_a_value_that_comes_late_is_accepted(url):
    study, worker = make(url, budget={"usd": 10, "trials": 5})
    trial = worker.ask(worker="w", lease=FOREVER)
    worker.renew(trial, lease=FOREVER, cost={"usd": 1.0}, ahead={"usd": 1.5})
    expire(study)
    another(study).ask(worker="v", lease=FOREVER)
    conclude(worker, trial, "killed", {"usd": 9.0}, error="lost")
    assert study.history[0].state == "lost"
    assert study.ledger.spent == 1.0
    conclude(worker, trial, "done", {"usd": 1.75}, 0.25)
    assert (study.history[0].state, study.history[0].value) == ("done", 0.25)
    assert study.ledger["usd"].spent == 1.75
    assert study.ledger["trials"].spent == 1
    conclude(worker, trial, "done", {"usd": 9.0}, 0.5)  # another worker may have found it first
    assert (study.history[0].value, study.ledger["usd"].spent) == (0.25, 1.75)


def test_a_value_without_its_cost_is_kept_and_stops_the_study(url):
    study, worker = make(url)
    trial = worker.ask(worker="w", lease=FOREVER)
    conclude(worker, trial, "done", {}, 1.0)
    assert (study.history[0].state, study.history[0].value) == ("done", 1.0)
    assert study.verdict.stop
    assert "trial 0 did not report its cost in usd" in study.verdict.because
    with pytest.raises(Stopped, match="did not report its cost"):
        study.ask()
    study.commit(Resumed())  # as the next run does
    assert study.ask().number == 1


def test_failures_in_a_row_are_counted_over_all_processes(url):
    study, worker = make(url)
    other = another(study)
    for k, who in enumerate((worker, other, worker)):
        who.tell(who.ask(), failed=f"reason {k}", cost=0.1)
    assert failures(other) == failures(worker) == (3, "reason 0")
    other.tell(other.ask(), killed=True, cost=0.1)  # neither a success nor a failure
    assert failures(worker) == (3, "reason 0")
    other.tell(other.ask(), 1.0, cost=0.1)
    assert failures(worker) == (0, None)
    other.tell(other.ask(), failed="reason 9", cost=0.1)
    assert failures(worker) == (1, "reason 9")


def test_reports_are_stored_with_the_trial(url):
    study, worker = make(url)
    trial = worker.ask(worker="w", lease=FOREVER)
    lines = [{"step": 1, "value": 0.5, "cost": {"usd": 0.1}}]
    worker.renew(trial, lease=FOREVER, cost={"usd": 0.1}, ahead={"usd": 0.2}, reports=lines)
    assert study.records()[0]["reports"] == lines
    conclude(worker, trial, "done", {"usd": 0.3}, 1.0)
    assert study.records()[0]["reports"] == lines


# ── the clock ──────────────────────────────────────────────────────────────────────────────────


def pause(seconds):
    """Sleep, and return how long it really took."""
    begun = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - begun


def test_four_workers_share_the_wall_clock(url):
    """A budget in seconds is charged once for all workers, and not while no worker is present.

    The time between events is always charged, the time to store an event not always.
    """
    study, _ = make(url, budget={"s": FOREVER})
    workers = [another(study) for _ in range(4)]
    begun, idle = time.monotonic(), 0.0
    for worker in workers:
        worker._session.clock._charged = time.monotonic()
    trials = [worker.ask(worker="w", lease=FOREVER) for worker in workers]
    assert study.ledger.reserved == 0
    for _ in range(3):
        idle += pause(0.1)
        for worker, trial in zip(workers, trials, strict=True):
            seconds = time.monotonic() - begun
            ahead = {"s": seconds + 0.1}
            assert worker.renew(trial, lease=FOREVER, cost={"s": seconds}, ahead=ahead) is None
    seconds = time.monotonic() - begun
    for worker, trial in zip(workers, trials, strict=True):
        conclude(worker, trial, "done", {"s": seconds}, 1.0)
    active = time.monotonic() - begun
    ledger = study.ledger
    assert idle - 0.02 <= ledger.spent <= active + 0.02  # SQLite counts milliseconds
    assert ledger.overhead <= ledger.spent
    assert [t.cost["s"] for t in study.history] == [seconds] * 4  # learnt from, each
    time.sleep(0.3)  # no worker is present
    back = time.monotonic()
    with workers[0].on_the_clock():
        trial = workers[0].ask(worker="w", lease=FOREVER)
        conclude(workers[0], trial, "done", {"s": 0.01}, 1.0)
        worked = time.monotonic() - back
    assert study.ledger.spent <= active + worked + 0.04


def test_on_the_clock_a_trial_ends_with_the_time(url):
    study, worker = make(url, budget={"s": FOREVER})
    begun = time.monotonic()
    with worker.on_the_clock():
        trial = worker.ask(worker="w", lease=FOREVER)
        terms = {"lease": FOREVER, "cost": {"s": 1.0}}
        assert worker.renew(trial, ahead={"s": 2.0}, **terms) is None
        why = worker.renew(trial, ahead={"s": FOREVER + 1.0}, **terms)
        assert why == "the budget of 30 m 00 s is spent"
        idle = pause(0.1)
        conclude(worker, trial, "killed", {"s": FOREVER}, error=why)
    took = time.monotonic() - begun
    assert idle - 0.02 <= study.ledger.spent <= took + 0.02  # not the cost that it reports
    assert study.ledger.left == pytest.approx(FOREVER - study.ledger.spent)
    assert study.ledger.reserved == 0


def test_off_the_clock_seconds_are_charged_as_reported(url):
    study, worker = make(url, budget="100s")
    worker.tell(worker.ask(), 1.0, cost=12.5)
    assert study.ledger.spent - study.ledger.overhead == pytest.approx(12.5)
    assert study.ledger.overhead > 0


# ── the suggestion lock ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SlowPolicy:
    """Takes this number of seconds for a suggestion."""

    seconds: float
    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        time.sleep(self.seconds)
        return Random().propose(belief, rng)


def begun(worker, known):
    """The event of a worker whose suggestion was made for this state."""
    (trial,) = worker._asker.start(known, 1, AskOptions(suggester=worker._asker.id()))
    return trial


def test_slow_suggestions_are_made_one_at_a_time_and_tells_do_not_wait(url, monkeypatch):
    monkeypatch.setattr("farthing.core.asking.SUGGESTER_LEASE", (FOREVER, 0.0))
    study, worker = make(url, policy=SlowPolicy(0.1))
    running = worker.ask()
    other = another(study)
    assert other._asker.may_suggest(state(other), False)  # the other starts a long suggestion
    assert state(worker).is_suggesting(worker._asker.id(), worker._store.now)
    assert not worker._asker.may_suggest(state(worker), False)
    worker.tell(running, 1.0, cost=0.1)  # does not wait
    assert begun(other, state(other)).number == 1
    assert worker.ask().number == 2


def test_no_process_suggests_while_another_holds_the_lock_however_quick_suggestions_are(
    url, monkeypatch
):
    monkeypatch.setattr("farthing.core.asking.SUGGESTER_LEASE", (FOREVER, 0.0))
    study, worker = make(url)
    other = another(study)
    assert state(worker).suggest_s == 0
    assert other._asker.may_suggest(state(other), True)  # crowded: it takes the lock
    assert not worker._asker.may_suggest(state(worker), False)
    other.release_suggest_lock(None)
    assert worker._asker.may_suggest(state(worker), False)


def test_a_suggestion_that_leads_to_no_trial_releases_the_lock(url):
    study, worker = make(url, stop=MaxTrials(1))
    worker.ask()
    assert worker._asker.may_suggest(state(worker), True)
    assert state(study).suggester == worker._asker.id()
    with pytest.raises(Stopped, match="1 of at most 1"):
        worker.ask()
    assert state(study).suggester is None


@pytest.mark.parametrize(("seconds", "locks"), [(0.04, False), (0.06, True)])
def test_only_slow_suggestions_take_the_lock(url, seconds, locks):
    study, worker = make(url)
    with study._database.writing() as connection:
        change(connection, f"farthing_studies SET thought_s = {seconds}")
    assert worker._asker.may_suggest(state(worker), False)
    assert state(study).suggester == (worker._asker.id() if locks else None)


def test_an_expired_lock_is_taken_over(url):
    study, worker = make(url, policy=SlowPolicy(0.06))
    worker.ask()
    dead = another(study)
    assert dead._asker.may_suggest(state(dead), False)
    before = state(dead)
    with study._database.writing() as connection:
        change(connection, "farthing_studies SET thinker_until = 1")
    assert worker.ask().number == 1
    with pytest.raises(Outdated):  # it was alive, but another process took its number
        begun(dead, before)
    assert dead.ask().number == 2


def test_a_stop_can_also_end_running_trials(url):
    study, worker = make(url)
    trial = worker.ask(worker="w", lease=FOREVER)
    terms = {"lease": FOREVER, "cost": {"usd": 0.1}, "ahead": {"usd": 0.2}}
    study.request_stop()
    assert worker.renew(trial, **terms) is None
    study.request_stop(now=True)
    assert worker.renew(trial, **terms) == "a stop was requested"
    worker.commit(Resumed())
    assert worker.renew(trial, **terms) is None


def test_a_new_run_does_not_wait_for_a_suggestion_of_the_last_one(url):
    study, worker = make(url, policy=SlowPolicy(0.06))
    worker.ask()
    dead = another(study)
    assert dead._asker.may_suggest(state(dead), False)
    worker.commit(Resumed())
    assert state(worker).suggester is None


def test_a_suggestion_that_would_outlast_the_budget_is_not_started(url):
    study, worker = make(url, budget={"s": FOREVER})
    with study._database.writing() as connection:
        change(connection, f"farthing_studies SET thought_s = {2 * FOREVER}")
    with worker.on_the_clock(), pytest.raises(Stopped, match="which another suggestion would take"):
        worker.ask()
    assert 0 < study.ledger.spent < FOREVER
    assert worker.ask().number == 0  # off the clock, suggestions take no budget


def test_time_is_not_charged_when_there_is_none_left(url):
    study, worker = make(url, budget="0.01s")
    with worker.on_the_clock():
        for _ in range(2):
            time.sleep(0.02)
            with pytest.raises(Stopped, match=r"the budget of 10 ms is spent$"):
                worker.ask()
        charged = state(worker).charged_until
        time.sleep(0.02)
        with pytest.raises(Stopped):
            worker.ask()
    assert state(worker).charged_until == charged
    assert study.ledger.spent >= 0.01


def test_a_suggestion_that_ends_in_stopped_releases_the_lock(url):
    study, worker = make(url, policy=SlowPolicy(0.06), budget=None)
    worker.ask()
    worker.request_stop("enough")
    with pytest.raises(Stopped, match="enough"):
        another(study).ask()
    assert state(worker).suggester is None


def test_a_suggestion_is_repeated_if_another_process_was_faster(url):
    study, worker = make(url)
    other = another(study)
    before = state(worker)
    taken = other.ask()
    with pytest.raises(Outdated):
        begun(worker, before)
    mine = worker.ask()
    assert (taken.number, mine.number) == (0, 1)
    assert taken.params != mine.params


def test_a_suggestion_is_repeated_if_less_of_the_budget_is_left(url):
    """Between suggestion and ask, another trial reserved what this one would have needed."""
    study, worker = make(url, cost=lambda params: 2.0)
    other = another(study)
    running = other.ask(worker="w", lease=FOREVER)
    before = state(worker)
    assert other.renew(running, lease=FOREVER, cost={"usd": 8.0}, ahead={"usd": 9.0}) is None
    with pytest.raises(Outdated):
        begun(worker, before)
    with pytest.raises(Stopped, match="nothing affordable is left"):
        worker.ask()
    assert study.ledger.left == pytest.approx(1.0)
