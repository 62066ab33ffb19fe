"""What an evaluation has reported and returned survives the death of its worker."""

import json
import os
import signal
import sys
import time

import pytest
from clocks import Clock, Timed, made
from parts import Greedy, RoundRobin
from processes import FOREVER, Pids, fork_off, wait_until

from farthing import Float, Steps, Study
from farthing.core.events import Recovered, Returned, Told
from farthing.errors import InvalidInput, Stopped
from farthing.history import CurvePoint, StopReason
from farthing.policies import Random
from farthing.running import CommandTask, Finished, Usage
from farthing.running.journal import (
    BEFORE,
    amend_ending,
    append,
    delete_journal,
    journal_of,
    journals_in,
    read_journal,
    save_ending,
    with_usage,
)
from farthing.running.pipes import peek, pipe
from farthing.running.signals import ExitRequest
from farthing.running.worker import Place, _recover, run_trials

SPACE = {"lr": Float(0.1, 0.9)}
PROGRAM = """
import json, time
for step in range(1, 4):
    print(json.dumps({"step": step, "value": 1.0 / step}), flush=True)
open("reported", "w").close()
time.sleep(1800)
"""


def train(params, trial):
    for step in range(1, 4):
        trial.report(step, 1.0 / step, cost={"usd": float(step)})
    open("reported", "w").close()
    time.sleep(FOREVER)


def create(folder, **settings):
    given = {"policy": Greedy(), "budget": "$100", "steps": Steps(8, first=8), **settings}
    return Study.create(folder / "study.db", name="study", space=SPACE, grace=0.1, **given)


def points(*steps):
    return tuple(CurvePoint(step, 1.0 / step, {"usd": float(step)}) for step in steps)


@pytest.mark.parametrize("task", [train, CommandTask([sys.executable, "-S", "-c", PROGRAM])])
def test_values_survive_a_worker_that_never_stored_them(task, tmp_path, monkeypatch):
    """The worker is killed before its first tick."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("farthing.running.worker.TICK", (FOREVER, FOREVER))
    worker = os.fork()
    if worker == 0:
        try:
            create(tmp_path, lease=FOREVER).run(task)
        finally:
            os._exit(1)
    assert wait_until((tmp_path / "reported").exists)
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    study = Study.open(tmp_path / "study.db", "study", policy=Greedy())
    assert study.trials[0].curve == ()
    study.commit(Returned(0, "as if its lease had expired"))
    settings, _ = study.facts

    def is_recovered():
        _recover(study, settings, Place(logs=study.logs))
        return len(study.trials[0].curve) == 3

    # The supervisor may still be saving.
    assert wait_until(lambda: is_recovered() and journals_in(study.logs) == [])
    assert study.trials[0].state == "lost"
    assert [point[:2] for point in study.trials[0].curve] == [(1, 1.0), (2, 0.5), (3, 1 / 3)]


def paused(tmp_path):
    """A study with a training that is paused at step 2 and has cost two dollars."""
    study = create(tmp_path, policy=RoundRobin(1), steps=Steps(8))
    for until in (1, 2):
        trial = study.ask()
        assert trial.until == until
        study.tell(trial, 1.0 / until, cost=1.0)
    return study


def test_recovered_points_are_added_once_and_charged_once(tmp_path):
    study = paused(tmp_path)
    trial = study.trials[0]
    event = Recovered(0, trial.run.asked_at, points(3, 4))
    for _ in range(2):
        study.commit(event)
        found = study.trials[0]
        assert [point.step for point in found.curve] == [1, 2, 3, 4]
        assert found.cost == {"usd": 5.0}  # one dollar before this part, and four in it
        assert study.ledger["usd"].spent == 5.0
        assert found.value == 0.25
    again = Study.open(tmp_path / "study.db", "study", look=True)
    assert again.trials[0].curve == study.trials[0].curve


def test_points_are_inserted_before_those_of_a_later_part(tmp_path):
    """A checkpoint may be newer than what the worker had stored."""
    study = paused(tmp_path)
    lost = study.trials[0].run.asked_at
    trial = study.ask()
    study.tell(trial, 0.1, cost=1.0, step=4)
    reader = Study.open(tmp_path / "study.db", "study", look=True)
    assert [point.step for point in reader.trials[0].curve] == [1, 2, 4]
    spent = study.ledger["usd"].spent
    study.commit(Recovered(0, lost, points(2, 3)))
    for each in (study, reader, Study.open(tmp_path / "study.db", "study", look=True)):
        curve = each.trials[0].curve
        assert [point.step for point in curve] == [1, 2, 3, 4]
        assert curve[1].value == 0.5
        assert curve[2].cost == curve[1].cost
    assert study.ledger["usd"].spent == spent  # that part was charged when it was lost


def test_a_lost_training_that_had_reported_its_last_step_is_done(tmp_path):
    study = paused(tmp_path)
    study.commit(Recovered(0, study.trials[0].run.asked_at, points(3, 4, 5, 6, 7, 8)))
    assert (study.trials[0].state, study.trials[0].value) == ("done", 0.125)


def test_a_training_that_failed_at_its_last_step_stays_failed(tmp_path):
    study = create(tmp_path, policy=RoundRobin(1), steps=Steps(8))
    trial = study.ask()
    study.tell(trial, failed="it diverged", cost=1.0)
    study.commit(Recovered(0, study.trials[0].run.asked_at, points(1, 2, 3, 4, 5, 6, 7, 8)))
    assert (study.trials[0].state, study.trials[0].error) == ("failed", "it diverged")
    assert study.trials[0].step == 8


def test_a_journal_is_read_with_its_usage(tmp_path):
    journal = tmp_path / "reports" / "3-12.5.jsonl"
    append(journal, [{"step": 1}])  # without the folder there is no journal
    assert journals_in(tmp_path) == []
    journal.parent.mkdir()
    append(journal, [with_usage({"step": 1, "value": 2.0, "cost": 3.0}, 0.5, 0.25)])
    with journal.open("a") as file:  # by the supervisor
        file.write('{"step": 2, "value": 1.0}\nnot a message\n{"step": 3, "val')
    assert journals_in(tmp_path) == [(3, 12.5, journal)]
    (first, used), (second, later) = read_journal(journal).messages
    assert (first["value"], second["value"]) == (2.0, 1.0)
    assert used == later
    assert (used.wall_s, used.cpu_s, used.reported) == (0.5, 0.25, {"": 3.0})
    journal.unlink()
    assert read_journal(journal).messages == []


# ── outcomes ─────────────────────────────────────────────────────────────────────────────────────


def returns(params):
    return 3.0


def leaves_a_process(params):
    fork_off(lambda: time.sleep(FOREVER))
    return 3.0


PRINTS = CommandTask(["sh", "-c", 'echo \'{"value": 3.0, "extra": 1}\''])
WRITES = CommandTask(["sh", "-c", 'echo \'{"value": 3.0}\' > "$FARTHING_RESULT"'])
ENDING = {"reason": None, "status": 0, "wall_s": 2.0, "cpu_s": 1.0, "peak_mb": 0.0}
ENDING |= {"metric": "value", "result_file": None}
BURNT = 0.2  # CPU seconds
ONLY_PROGRESS = CommandTask(["sh", "-c", 'echo \'{"step": 1, "value": 3.0, "cost": 2.0}\''])


def plain_study(folder, **settings):
    given = {"budget": "100 worker_s", "policy": Random(), **settings}
    return Study.create(folder / "study.db", name="study", space=SPACE, grace=0.1, **given)


def killed_worker(folder, task, is_time, **settings):
    """A study whose only worker is killed as soon as `is_time`; the trial counts as lost."""
    worker = os.fork()
    if worker == 0:
        try:
            plain_study(folder, lease=FOREVER, **settings).run(task)
        finally:
            os._exit(1)
    assert wait_until(is_time)
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    study = Study.open(folder / "study.db", "study")
    study.commit(Returned(0, "as if its lease had expired"))
    return study


def tell_again(study):
    settings, _ = study.facts
    _recover(study, settings, Place(logs=study.logs))
    return study.trials[0]


@pytest.mark.parametrize("task", [returns, PRINTS, WRITES, ONLY_PROGRESS])
def test_an_outcome_survives_a_worker_that_was_killed_before_it_told_it(
    task, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    def never_told(*_, **__):
        (tmp_path / "telling").touch()
        time.sleep(FOREVER)

    monkeypatch.setattr("farthing.running.worker._told", never_told)
    resource = {"budget": "$100"} if task is ONLY_PROGRESS else {}
    study = killed_worker(tmp_path, task, (tmp_path / "telling").exists, **resource)
    monkeypatch.undo()
    assert study.trials[0].state == "lost"
    trial = tell_again(study)
    assert (trial.state, trial.value, trial.error) == ("done", 3.0, None)
    ledger = study.ledger[next(iter(study.ledger))]
    assert ledger.spent == pytest.approx(next(iter(trial.cost.values())))
    assert ledger.spent > 0
    if task is ONLY_PROGRESS:
        assert ledger.spent == 2.0
    if task is PRINTS:
        assert trial.run.metrics == {"extra": 1}
    assert journals_in(study.logs) == []
    assert tell_again(study) == trial  # nothing is told or charged twice
    assert study.ledger[next(iter(study.ledger))] == ledger
    assert study.ask().number == 1  # it is not repeated
    assert study.trials[1].run.attempt == 1


def burns(params):
    while time.process_time() < BURNT:
        pass
    return 3.0


@pytest.mark.parametrize("task", [burns, PRINTS, WRITES])
def test_an_evaluation_that_no_longer_exists_has_its_outcome_on_the_disk(
    task, tmp_path, monkeypatch
):
    """Worker and supervisor are killed at the moment at which the evaluation is reaped."""
    monkeypatch.chdir(tmp_path)
    runner, waitpid, supervisor = os.getpid(), os.waitpid, Pids(tmp_path / "supervisor")

    def kill_all_after(pid, options):
        found = waitpid(pid, options)
        if found[0] and runner not in (os.getpid(), os.getppid()):
            supervisor.note()
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    monkeypatch.setattr(os, "waitpid", kill_all_after)
    study = killed_worker(tmp_path, task, lambda: supervisor.all)
    monkeypatch.undo()
    assert wait_until(lambda: not supervisor.alive)
    trial = tell_again(study)
    assert (trial.state, trial.value, trial.error) == ("done", 3.0, None)
    if task is burns and sys.platform == "linux":
        assert trial.run.cpu_s >= BURNT - 0.02  # the kernel counts in hundredths of a second


def test_an_ending_is_not_deleted_while_it_is_written(tmp_path, monkeypatch):
    """A worker that looks for journals may delete what it found at any time."""
    journal = tmp_path / "reports" / "3-12.5.jsonl"
    journal.parent.mkdir()
    append(journal, [{"step": 1}])
    monkeypatch.setattr(os, "fsync", lambda _: delete_journal(journal))
    save_ending(str(journal), ENDING, b'{"value": 3.0}\n')
    assert read_journal(journal).finished.value == 3.0
    delete_journal(journal)
    assert journals_in(tmp_path) == []


def test_an_ending_has_the_usage_that_is_known_only_later(tmp_path):
    journal = tmp_path / "reports" / "3-12.5.jsonl"
    amend_ending(str(journal), {"cpu_s": 1.5})
    journal.parent.mkdir()
    amend_ending(str(journal), {"cpu_s": 1.5})  # another worker has told and deleted it
    assert journals_in(tmp_path) == []
    save_ending(str(journal), ENDING, b'{"value": 3.0}\n')
    assert read_journal(journal).finished.usage == Usage(2.0, 1.0, 0.0)
    amend_ending(str(journal), {"cpu_s": 1.5, "peak_mb": 64.0})
    assert read_journal(journal).finished.usage == Usage(2.0, 1.5, 64.0)
    with journal.with_suffix(".ended").open("ab") as file:  # a power cut may leave this
        file.write(bytes(64))
    assert read_journal(journal).finished.usage == Usage(2.0, 1.5, 64.0)


def test_an_outcome_survives_while_the_supervisor_waits_for_leftover_processes(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("farthing.running.supervisor.LINGER", FOREVER)
    reports = tmp_path / "study.db-logs" / "study" / "reports"

    def has_ended():
        return any(reports.glob("*.ended"))

    study = killed_worker(tmp_path, leaves_a_process, has_ended)
    trial = tell_again(study)
    assert (trial.state, trial.value) == ("done", 3.0)


def test_a_trial_that_was_killed_with_its_worker_has_no_outcome(tmp_path, monkeypatch):
    """It prints a value at SIGTERM, which is not its result."""
    program = 'trap \'echo "{\\"value\\": 9}"; exit 0\' TERM; touch begun; sleep 1800 & wait'
    monkeypatch.chdir(tmp_path)
    task = CommandTask(["bash", "-c", program])
    study = killed_worker(tmp_path, task, (tmp_path / "begun").exists)
    files = study.logs / "reports"

    def has_ended():  # the supervisor saves what it knows when its worker dies, and at the end
        first = (f.read_text().splitlines()[0] for f in files.glob("*.ended"))
        return any(json.loads(line)["status"] == 0 for line in first)

    assert wait_until(has_ended)
    trial = tell_again(study)
    assert (trial.state, trial.value) == ("lost", None)
    assert wait_until(lambda: tell_again(study) == trial and journals_in(study.logs) == [])


def test_a_worker_may_tell_an_outcome_that_another_one_has_found(tmp_path):
    study = plain_study(tmp_path)
    trial = study.ask(worker="here:1", lease=FOREVER)
    told = Told(trial, "done", 3.0, {"worker_s": 2.0}, by_user=False, run={"run_s": 2.0})
    study.commit(told)
    ledger = study.ledger["worker_s"]
    study.commit(told._replace(value=4.0))
    assert (study.trials[0].value, study.ledger["worker_s"]) == (3.0, ledger)
    with pytest.raises(InvalidInput, match="already has an outcome"):
        study.tell(trial, 3.0, cost=2.0)


@pytest.mark.parametrize(("budget", "spent"), [("2s", 3.0), ("100s", 53.0)])
def test_past_the_limit_waiting_for_the_lease_of_a_dead_worker_is_free(
    budget, spent, tmp_path, monkeypatch
):
    clock = Clock(monkeypatch)
    optimizer, settings = made(SPACE, budget, policy=Random(), lease=50.0)
    lost = optimizer.ask(worker="dead:1", lease=settings.lease)
    journal = journal_of(tmp_path, lost)
    journal.parent.mkdir()
    save_ending(str(journal), ENDING, b'{"value": 3.0}\n')
    with optimizer.on_the_clock():
        clock.now += 3.0
        optimizer.renew(lost, lease=settings.lease, cost={}, ahead={})
        clock.now += 25.0
        assert optimizer.is_worked_on()
        if budget == "2s":
            with pytest.raises(Stopped):
                optimizer.ask(worker="here:2", lease=settings.lease)
        clock.now += 25.1
        _recover(optimizer, settings, Place(logs=tmp_path))
    assert (optimizer.trials[0].state, optimizer.trials[0].value) == ("done", 3.0)
    assert optimizer.ledger["s"].spent == pytest.approx(spent, abs=0.2)


def test_an_outcome_on_the_disk_is_told_before_its_trial_is_lost(tmp_path, monkeypatch):
    """Another worker would repeat it, and pay for it again."""
    clock = Clock(monkeypatch)
    optimizer, settings = made(SPACE, "$2", policy=Random(), lease=50.0, retries=1)

    def at_the_first_check():
        dead = optimizer.ask(worker="dead:1", lease=settings.lease)
        journal = journal_of(tmp_path, dead)
        journal.parent.mkdir()
        save_ending(str(journal), ENDING, b'{"value": 3.0, "cost": {"usd": 1.5}}\n')
        clock.now += 51.0
        with pytest.raises(Stopped, match=r"\$0.50 is left"):
            optimizer.ask(worker="here:2", lease=settings.lease)
        return ExitRequest(StopReason("terminated", "a signal came"), kill=False)

    engine, place = Timed(clock, lambda _: 1.0), Place(logs=tmp_path)
    run_trials(optimizer, settings, engine, lambda: None, at_the_first_check, place)
    assert [(trial.state, trial.value) for trial in optimizer.trials] == [("done", 3.0)]
    assert optimizer.ledger["usd"].spent == 1.5


def test_a_message_of_two_pieces_is_completed_or_repeated_by_the_ending(tmp_path):
    journal = tmp_path / "reports" / "3-12.5.jsonl"
    journal.parent.mkdir()
    append(journal, [], b'{"val')
    for unread in (b'ue": 3.0}\n', b'{"value": 3.0}\n'):
        save_ending(str(journal), ENDING, unread)
        finished = read_journal(journal).finished
        assert (finished.state, finished.value, finished.usage.wall_s) == ("done", 3.0, 2.0)
    save_ending(str(journal), ENDING | {"reason": "orphaned"}, unread)
    assert read_journal(journal).finished is None
    delete_journal(journal)
    assert list(journal.parent.iterdir()) == []


def test_a_suspended_training_is_charged_for_each_step_once(tmp_path):
    """Its process goes on counting, so the journal says what it had counted before."""
    journal = tmp_path / "reports" / "3-12.5.jsonl"
    journal.parent.mkdir()
    append(journal, [{BEFORE: {"usd": 4.0}}, {"step": 5, "value": 1.0, "cost": {"usd": 5.0}}])
    ((_, usage),) = read_journal(journal).messages
    assert usage.reported == {"usd": 1.0}


def test_a_pipe_is_not_emptied_by_a_look():
    reading, writing = pipe()
    with reading, writing:
        assert peek(reading.fileno()) == (None, True)
        writing.write(b"one\n")
        assert peek(reading.fileno()) == peek(reading.fileno()) == (b"one\n", True)
        assert reading.read() == b"one\n"
        writing.close()
        assert peek(reading.fileno()) == (b"", True)


class EndsWhileItReports:
    """An engine whose last report arrives when nobody listens any more."""

    kills = True

    def run(self, job, allowance):
        append(job.journal, [with_usage({"step": 1, "value": 0.5, "cost": 1.0}, 1.0, 1.0)])
        return Finished("killed", None, {}, "the run ended", Usage(1.0, 1.0, 0.0))


def test_a_report_that_arrives_while_the_worker_ends_is_kept(tmp_path):
    study = create(tmp_path, budget="1 trials, $100")
    settings, _ = study.facts
    place = Place(logs=study.logs)
    run_trials(study, settings, EndsWhileItReports(), lambda: None, place=place)
    assert [point[:2] for point in study.trials[0].curve] == [(1, 0.5)]
    assert journals_in(study.logs) == []
