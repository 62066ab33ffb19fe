"""Leases, the clock, turns at thinking: what keeps many processes from stepping on each other."""

import time
from dataclasses import dataclass
from typing import ClassVar

import pytest

from farthing import Float, Space, Stopped, Study
from farthing.clerk import Clerk
from farthing.errors import InvalidInput
from farthing.policies import Random
from farthing.running import Finished, Usage
from farthing.stopping import MaxTrials
from farthing.storage import Database

SPACE = Space({"a": Float(2, 3)})
USED = Usage(1.5, 1.0, 20.0, {})


def make(url, **settings):
    settings = {"space": SPACE, "budget": "$10", "policy": Random(), **settings}
    study = Study.create(url, name="study", **settings)
    return study, study._clerk


def another(url, study):
    """The same study in another process, as far as the database can tell."""
    return Clerk(Database(url), "study", study._settings)


def expire(study):
    """As if the workers of all running trials had not been heard of for long."""
    with study._database.writing() as connection:
        connection.exec_driver_sql("UPDATE farthing_trials SET lease = 1 WHERE lease IS NOT NULL")


def done(value=1.0, **fields):
    return Finished("done", value, {}, None, USED, **fields)


# ── leases ─────────────────────────────────────────────────────────────────────────────────────


def test_a_trial_holds_what_it_will_need_and_ends_when_nothing_is_left(url):
    study, clerk = make(url)
    trial = clerk.ask(worker="w", lease=60.0)
    for used in (2.0, 5.0, 9.0):
        cost, ahead = {"usd": used}, {"usd": used + 1}
        assert clerk.renew(trial, lease=60.0, cost=cost, ahead=ahead) is None
        assert study.ledger.held(0)["usd"] == pytest.approx(used + 1)
        assert study.ledger.left == pytest.approx(9 - used)
    why = clerk.renew(trial, lease=60.0, cost={"usd": 9.5}, ahead={"usd": 10.5})
    assert why == "the budget of $10.00 is spent"
    assert study.ledger.left == pytest.approx(0.0)
    clerk.conclude(trial, Finished("killed", None, {}, why, USED), {"usd": 9.6})
    assert study.ledger.spent == 9.6
    assert study.ledger.reserved == 0
    record = study.records()[0]
    assert (record["state"], record["censored"], record["error"]) == ("killed", 1, why)
    assert (record["run_s"], record["cpu_s"], record["peak_mb"]) == (1.5, 1.0, 20.0)


def test_two_trials_share_what_is_left(url):
    study, clerk = make(url)
    other = another(url, study)
    mine, theirs = clerk.ask(worker="a", lease=60.0), other.ask(worker="b", lease=60.0)
    assert clerk.renew(mine, lease=60.0, cost={"usd": 6.0}, ahead={"usd": 7.0}) is None
    assert other.renew(theirs, lease=60.0, cost={"usd": 2.0}, ahead={"usd": 3.0}) is None
    why = other.renew(theirs, lease=60.0, cost={"usd": 3.0}, ahead={"usd": 4.0})
    assert why is not None
    assert study.ledger.spent + study.ledger.reserved == pytest.approx(10.0)
    clerk.conclude(mine, done(), {"usd": 6.5})
    assert study.ledger.left == pytest.approx(0.5)
    assert other.renew(theirs, lease=60.0, cost={"usd": 3.0}, ahead={"usd": 3.2}) is None


def test_a_trial_whose_worker_disappeared_is_lost_and_charged(url):
    study, clerk = make(url)
    trial = clerk.ask(worker="here:7", lease=60.0)
    clerk.renew(trial, lease=60.0, cost={"usd": 2.5}, ahead={"usd": 3.0})
    assert clerk.is_worked_on()
    expire(study)
    other = another(url, study)
    assert other.ask().number == 1
    lost = study.history[0]
    assert (lost.state, dict(lost.cost)) == ("lost", {"usd": 2.5})
    assert lost.error == "its worker (here:7) disappeared"
    assert study.ledger.spent == 2.5
    assert study.ledger.holds.keys() == {1}
    assert not other.is_worked_on()  # nobody promised to renew trial 1
    why = clerk.renew(trial, lease=60.0, cost={"usd": 3.0}, ahead={"usd": 3.5})
    assert "given up" in why
    assert study.ledger.spent == 2.5


def test_a_lease_that_is_kept_is_not_lost(url):
    study, clerk = make(url)
    trial = clerk.ask(worker="w", lease=0.2)
    clerk.renew(trial, lease=60.0, cost={"usd": 0.1}, ahead={"usd": 0.2})
    time.sleep(0.3)
    other = another(url, study)
    other.ask()
    assert [t.state for t in study.history] == ["running", "running"]
    unleased = clerk.ask()
    time.sleep(0.05)
    other.give_up_lost()
    assert study.history[unleased.number].state == "running"


def test_lost_trials_are_tried_again_as_often_as_the_study_says(url):
    study, clerk = make(url, retries=1)
    first = clerk.ask(worker="w", lease=60.0)
    clerk.renew(first, lease=60.0, cost={"usd": 1.0}, ahead={"usd": 1.5})
    expire(study)
    again = another(url, study).ask(worker="v", lease=60.0)
    assert (again.number, dict(again.params)) == (1, dict(first.params))
    assert again.because == "trial 0 again, which was lost"
    assert [r["attempt"] for r in study.records()] == [1, 2]
    expire(study)
    fresh = another(url, study).ask(worker="v", lease=60.0)
    assert fresh.number == 2
    assert dict(fresh.params) != dict(first.params)
    assert [t.state for t in study.history] == ["lost", "lost", "running"]


def test_a_rule_that_says_stop_also_stops_what_would_be_tried_again(url):
    study, clerk = make(url, retries=3, stop=MaxTrials(1))
    clerk.ask(worker="w", lease=60.0)
    expire(study)
    with pytest.raises(Stopped, match="1 of at most 1"):
        another(url, study).ask()
    assert another(url, study).ask(anyway=True).number == 1


def test_a_running_worker_gives_up_what_others_left(url):
    study, clerk = make(url)
    mine = clerk.ask(worker="w", lease=60.0)
    dead = another(url, study).ask(worker="v", lease=60.0)
    another(url, study).renew(dead, lease=60.0, cost={"usd": 1.0}, ahead={"usd": 9.0})
    with study._database.writing() as connection:
        connection.exec_driver_sql("UPDATE farthing_trials SET lease = 1 WHERE number = 1")
    assert clerk.renew(mine, lease=60.0, cost={"usd": 2.0}, ahead={"usd": 8.0}) is None
    assert [t.state for t in study.history] == ["running", "lost"]


def test_the_machines_fault_is_charged_tried_again_and_not_learnt_from(url):
    study, clerk = make(url, retries=1)
    trial = clerk.ask(worker="w", lease=60.0)
    clerk.conclude(trial, Finished("lost", None, {}, "no GPU", USED), {"usd": 0.5})
    assert (study.history[0].state, study.history[0].error) == ("lost", "no GPU")
    assert study.ledger.spent == 0.5
    assert clerk.failures == (1, "no GPU")
    assert dict(clerk.ask().params) == dict(trial.params)
    assert clerk._think()[0].belief.success is None


def test_a_value_that_comes_late_is_welcome(url):
    study, clerk = make(url, budget={"usd": 10, "trials": 5})
    trial = clerk.ask(worker="w", lease=60.0)
    clerk.renew(trial, lease=60.0, cost={"usd": 1.0}, ahead={"usd": 1.5})
    expire(study)
    another(url, study).ask(worker="v", lease=60.0)
    clerk.conclude(trial, Finished("killed", None, {}, "lost", USED), {"usd": 9.0})
    assert study.history[0].state == "lost"
    assert study.ledger.spent == 1.0
    clerk.conclude(trial, done(0.25), {"usd": 1.75})
    assert (study.history[0].state, study.history[0].value) == ("done", 0.25)
    assert study.ledger["usd"].spent == 1.75
    assert study.ledger["trials"].spent == 1
    with pytest.raises(InvalidInput, match="told already"):
        clerk.conclude(trial, done(0.25), {"usd": 1.75})


def test_a_done_trial_that_did_not_say_its_cost_is_a_failure(url):
    study, clerk = make(url)
    trial = clerk.ask(worker="w", lease=60.0)
    clerk.conclude(trial, done(), {})
    assert study.history[0].state == "failed"
    assert "did not say what it cost in usd" in study.history[0].error


def test_failures_in_a_row_are_counted_over_all_processes(url):
    study, clerk = make(url)
    other = another(url, study)
    for k, who in enumerate((clerk, other, clerk)):
        who.tell(who.ask(), failed=f"reason {k}", cost=0.1)
    assert other.failures == clerk.failures == (3, "reason 0")
    other.tell(other.ask(), killed=True, cost=0.1)  # neither good nor bad
    assert clerk.failures == (3, "reason 0")
    other.tell(other.ask(), 1.0, cost=0.1)
    assert clerk.failures == (0, None)
    other.tell(other.ask(), failed="reason 9", cost=0.1)
    assert clerk.failures == (1, "reason 9")


def test_progress_is_kept_with_the_trial(url):
    study, clerk = make(url)
    trial = clerk.ask(worker="w", lease=60.0)
    lines = [{"step": 1, "value": 0.5, "cost": {"usd": 0.1}}]
    clerk.renew(trial, lease=60.0, cost={"usd": 0.1}, ahead={"usd": 0.2}, progress=lines)
    assert study.records()[0]["progress"] == lines
    clerk.conclude(trial, done(), {"usd": 0.3})
    assert study.records()[0]["progress"] == lines


# ── the clock ──────────────────────────────────────────────────────────────────────────────────


def test_four_workers_share_the_wall_clock(url):
    """A budget of seconds is wall clock time: charged once for all, and not while nobody works."""
    study, _ = make(url, budget="30s")
    clerks = [another(url, study) for _ in range(4)]
    begun = time.monotonic()
    for clerk in clerks:
        clerk._present = time.monotonic()
    trials = [clerk.ask(worker="w", lease=60.0) for clerk in clerks]
    assert study.ledger.reserved == 0
    for _ in range(3):
        time.sleep(0.1)
        for clerk, trial in zip(clerks, trials, strict=True):
            seconds = time.monotonic() - begun
            ahead = {"s": seconds + 0.1}
            assert clerk.renew(trial, lease=60.0, cost={"s": seconds}, ahead=ahead) is None
    seconds = time.monotonic() - begun
    for clerk, trial in zip(clerks, trials, strict=True):
        clerk.conclude(trial, done(), {"s": seconds})
    active = time.monotonic() - begun
    ledger = study.ledger
    assert seconds - 0.02 <= ledger.spent <= active + 0.02  # SQLite counts milliseconds
    assert ledger.thinking <= ledger.spent
    assert [t.cost["s"] for t in study.history] == [seconds] * 4  # learnt from, each
    time.sleep(0.3)  # nobody works
    with clerks[0].on_the_clock():
        back = time.monotonic()
        trial = clerks[0].ask(worker="w", lease=60.0)
        clerks[0].conclude(trial, done(), {"s": 0.01})
        worked = time.monotonic() - back
    assert study.ledger.spent <= active + worked + 0.04


def test_on_the_clock_a_trial_ends_with_the_time(url):
    study, clerk = make(url, budget="0.5s")
    with clerk.on_the_clock():
        trial = clerk.ask(worker="w", lease=60.0)
        time.sleep(0.3)
        why = clerk.renew(trial, lease=60.0, cost={"s": 0.3}, ahead={"s": 0.6})
        assert why == "the budget of 500 ms is spent"
        clerk.conclude(trial, Finished("killed", None, {}, why, USED), {"s": 0.3})
    assert study.ledger.spent >= 0.3
    assert study.ledger.left < 0.3
    assert study.ledger.reserved == 0


def test_off_the_clock_seconds_are_charged_as_they_are_told(url):
    study, clerk = make(url, budget="100s")
    clerk.tell(clerk.ask(), 1.0, cost=12.5)
    assert study.ledger.spent - study.ledger.thinking == pytest.approx(12.5)
    assert study.ledger.thinking > 0


# ── thinking in turn ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Ponders:
    """Takes its time, and notes when."""

    seconds: float
    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = False

    def propose(self, belief, rng):
        time.sleep(self.seconds)
        return Random().propose(belief, rng)


def test_where_thoughts_are_slow_one_thinks_at_a_time_and_tells_do_not_wait(url):
    study, clerk = make(url, policy=Ponders(0.1))
    running = clerk.ask()
    other = another(url, study)
    other.mirror.look()
    assert other._begin_to_think(other.mirror.book, False)  # the other begins a long thought
    clerk.mirror.look()
    assert clerk.mirror.book.is_thinking(clerk._me)
    assert not clerk._begin_to_think(clerk.mirror.book, False)
    clerk.tell(running, 1.0, cost=0.1)  # at once
    assert other._ask(False, None, None).number == 1
    assert clerk.ask().number == 2


def test_a_thinker_that_died_is_not_waited_for(url):
    study, clerk = make(url, policy=Ponders(0.06))
    clerk.ask()
    dead = another(url, study)
    dead.mirror.look()
    assert dead._begin_to_think(dead.mirror.book, False)
    with study._database.writing() as connection:
        connection.exec_driver_sql("UPDATE farthing_studies SET thinker_until = 1")
    assert clerk.ask().number == 1
    assert dead._ask(False, None, None) is None  # it was not dead, but its number is taken
    assert dead.ask().number == 2


def test_a_stop_that_ends_what_is_running(url):
    study, clerk = make(url)
    trial = clerk.ask(worker="w", lease=60.0)
    terms = {"lease": 60.0, "cost": {"usd": 0.1}, "ahead": {"usd": 0.2}}
    study.request_stop()
    assert clerk.renew(trial, **terms) is None
    study.request_stop(now=True)
    assert clerk.renew(trial, **terms) == "a stop was requested"
    clerk.resume()
    assert clerk.renew(trial, **terms) is None


def test_a_new_run_does_not_wait_for_a_thinker_of_the_last_one(url):
    study, clerk = make(url, policy=Ponders(0.06))
    clerk.ask()
    dead = another(url, study)
    dead.mirror.look()
    assert dead._begin_to_think(dead.mirror.book, False)
    clerk.resume()
    assert clerk.mirror.book.thinker is None


def test_a_thought_that_would_outlast_the_budget_is_not_begun(url):
    study, clerk = make(url, budget="60s")
    with study._database.writing() as connection:
        connection.exec_driver_sql("UPDATE farthing_studies SET thought_s = 1000")
    with clerk.on_the_clock(), pytest.raises(Stopped, match="that another thought would take"):
        clerk.ask()
    assert 0 < study.ledger.spent < 60
    assert clerk.ask().number == 0  # off the clock nobody waits


def test_time_is_not_charged_when_there_is_none_left(url):
    study, clerk = make(url, budget="0.01s")
    with clerk.on_the_clock():
        for _ in range(2):
            time.sleep(0.02)
            with pytest.raises(Stopped, match=r"the budget of 10 ms is spent$"):
                clerk.ask()
        charged = clerk.mirror.book.clock_at
        time.sleep(0.02)
        with pytest.raises(Stopped):
            clerk.ask()
    assert clerk.mirror.book.clock_at == charged
    assert study.ledger.spent >= 0.01


def test_a_thought_that_ends_in_stopped_lets_others_think(url):
    study, clerk = make(url, policy=Ponders(0.06), budget=None)
    clerk.ask()
    clerk.request_stop("enough")
    with pytest.raises(Stopped, match="enough"):
        another(url, study).ask()
    clerk.mirror.look()
    assert clerk.mirror.book.thinker is None


def test_a_thought_that_others_overtook_is_thought_again(url):
    study, clerk = make(url)
    other = another(url, study)
    clerk.mirror.look()
    clerk._think()
    taken = other.ask()
    assert clerk._ask(False, None, None) is None
    mine = clerk.ask()
    assert (taken.number, mine.number) == (0, 1)
    assert taken.params != mine.params


def test_less_left_than_was_thought_is_thought_again(url):
    """Between the thought and the ask another trial drew what this one would have needed."""
    study, clerk = make(url, cost=lambda params: 2.0)
    other = another(url, study)
    running = other.ask(worker="w", lease=60.0)
    clerk.mirror.look()
    clerk._think()
    assert other.renew(running, lease=60.0, cost={"usd": 8.0}, ahead={"usd": 9.0}) is None
    assert clerk._ask(False, None, None) is None
    with pytest.raises(Stopped, match="nothing affordable is left"):
        clerk.ask()
    assert study.ledger.left == pytest.approx(1.0)
