"""Workers as real processes on a real database, and what remains if one of them is killed."""

import ctypes
import importlib.util
import multiprocessing
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import ClassVar

import pytest
from clocks import made, shared
from parts import RoundRobin
from processes import (
    FOREVER,
    PATIENCE,
    Pids,
    children_of,
    exit_code,
    fork_off,
    holds_a_lock_on,
    is_alive,
    wait_until,
)

from farthing import (
    Budget,
    FarthingError,
    Float,
    InvalidInput,
    Optimizer,
    Outcome,
    Space,
    Steps,
    StorageError,
    Study,
)
from farthing.core.settings import Settings
from farthing.cost import Known
from farthing.history import StopReason
from farthing.policies import EIPerCost, Random
from farthing.running import CommandTask, Finished, InProcess, Usage, report_progress
from farthing.running.signals import INTERRUPTED, TERMINATED, ExitRequest
from farthing.running.worker import Place, _tick, run_trials
from farthing.stopping import MaxTrials

SPACE = Space({"a": Float(2, 3)})
QUICK = {"grace": 0.2, "lease": PATIENCE}
PLENTY = {"worker_s": FOREVER}


def make(url, **settings):
    settings = {"space": SPACE, "policy": Random(), "stop": MaxTrials(4), **QUICK, **settings}
    return Study.create(url, name="study", **settings)


def square(params):
    return params["a"] ** 2


def expire(study, *pids):
    """Let the leases of these workers expire."""
    workers = {trial.number: trial.run.worker.rpartition(":")[2] for trial in study.history}
    theirs = [str(number) for number, pid in workers.items() if int(pid) in pids]
    assert len(theirs) == len(pids)
    revision = "(SELECT revision FROM farthing_studies)"
    with study._database.writing() as connection:
        connection.exec_driver_sql("UPDATE farthing_studies SET revision = revision + 1")
        connection.exec_driver_sql(
            f"UPDATE farthing_trials SET lease = 1, revision = {revision} "
            f"WHERE number IN ({', '.join(theirs)})"
        )


@pytest.fixture
def often(monkeypatch):
    """Renew leases often, whatever the budget."""
    monkeypatch.setattr("farthing.running.worker.TICK", (0.05, 0.05))


@pytest.fixture
def printed(monkeypatch):
    """The exit requests that this process has printed."""
    requests = []

    def message(request, running):
        requests.append((request, list(running)))
        return ""

    monkeypatch.setattr("farthing.running.signals.ExitRequest.message", message)
    return requests


@pytest.fixture
def sleeper(tmp_path):
    sleeper = Sleeper(tmp_path / "pids")
    sleeper.folder.mkdir()
    return sleeper


class Sleeper:
    """An objective that never ends, and leaves its process id in a folder."""

    def __init__(self, folder, cost=None):
        self.folder, self.cost = folder, cost

    def __call__(self, params):
        (self.folder / str(os.getpid())).touch()
        if self.cost is not None:
            report_progress(1, cost=self.cost)
        time.sleep(FOREVER)

    @property
    def pids(self):
        return [int(path.name) for path in self.folder.iterdir() if path.name.isdigit()]

    def survivors(self):
        return [pid for pid in self.pids if is_alive(pid)]


# ── one worker, and several ──────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_a_study_runs_until_it_is_time_to_stop(url, workers):
    study, seen = make(url, budget="$5", stop=MaxTrials(6), rate="$3.6/h"), []
    result = study.run(square, workers=workers, on_change=lambda s: seen.append(s.name))
    assert [trial.state for trial in result.history] == ["done"] * 6
    assert all(trial.value == trial.params["a"] ** 2 for trial in result.history)
    assert result.stop_reason.sentence == "6 of at most 6 trials made"
    assert result.best.value == min(trial.value for trial in result.history)
    assert set(seen) == {"study"}
    records = study.records()
    assert len({record["worker"] for record in records}) <= workers
    assert all(record["peak_mb"] > 0 and record["run_s"] > 0 for record in records)
    for record in records:
        assert record["cost"]["usd"] == pytest.approx(record["run_s"] * 3.6 / 3600)
    # The time of the machine is charged once for all workers, including time without a trial.
    assert result.spent == pytest.approx(result.elapsed_s * 3.6 / 3600)
    assert result.elapsed_s >= max(record["run_s"] for record in records) > 0
    assert workers > 1 or result.elapsed_s > sum(record["run_s"] for record in records)
    again = study.run(square, workers=workers)
    assert len(again.history) == 6


@pytest.mark.slow
def test_a_budget_of_seconds_is_wall_clock_for_all_workers(url, tmp_path, monkeypatch):
    """Three workers are charged the elapsed time, not three times that."""
    # No renewal happens before the result.
    monkeypatch.setattr("farthing.running.worker.TICK", (FOREVER, FOREVER))
    study = make(url, budget={"s": FOREVER}, stop=MaxTrials(3), lease=3 * FOREVER)
    started_at = time.monotonic()

    def together(params):
        """Run twice as long with the others as it took until they had started."""
        (tmp_path / f"here-{os.getpid()}").touch()
        assert wait_until(lambda: len(list(tmp_path.glob("here-*"))) == 3)
        met_at = time.monotonic()
        assert wait_until(lambda: time.monotonic() - met_at > 2 * (met_at - started_at))
        return time.monotonic() - met_at

    result = study.run(together, workers=3)
    took = time.monotonic() - started_at
    assert [trial.state for trial in result.history] == ["done"] * 3
    together_s = result.best.value  # or longer
    assert together_s - 0.02 <= result.spent <= took  # SQLite counts milliseconds


@pytest.mark.slow
def test_every_worker_of_a_pool_locks_the_file_itself(tmp_path):
    """If not, SQLite could delete the log of the file when the runner is killed."""
    file, open_before = tmp_path / "s.db", make(tmp_path / "s.db", budget="4 trials", stop=None)

    def is_locked(params):
        supervisor = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[1])
        worker = int(Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1])
        return float(holds_a_lock_on(file, worker))

    result = Study.open(file, "study").run(is_locked, workers=2)
    assert [trial.value for trial in result.history] == [1.0] * 4
    assert len(open_before.history) == 4


@pytest.mark.slow
def test_a_trial_of_unknown_length_ends_with_the_budget(url, sleeper, often):
    sleeper.cost, study = 9.0, make(url, budget="$5", stop=None)
    result = study.run(sleeper, workers=2)
    assert {trial.state for trial in result.history} == {"killed"}
    assert {trial.error for trial in result.history} == {"the budget of $5.00 is spent"}
    assert {trial.cost["usd"] for trial in result.history} == {9.0}
    assert result.ledger.reserved == 0
    assert result.found is None
    assert result.stop_reason.sentence == "the budget of $5.00 is spent"
    assert len(sleeper.pids) == len(result.history)
    assert sleeper.survivors() == []


@pytest.mark.slow
def test_a_trial_of_unknown_length_ends_with_the_time(url, sleeper):
    """Its worker ends it, or its supervisor if the worker was too late. If the machine is so busy
    that no trial starts within two seconds, there is none to end.
    """
    study = make(url, budget="2s", stop=None)
    result = study.run(sleeper, workers=2)
    assert {trial.state for trial in result.history} <= {"killed"}
    assert {trial.error for trial in result.history} <= {
        "the budget of 2.0 s is spent",
        "the wall-clock budget is spent",
    }
    assert result.ledger.reserved == 0
    assert result.found is None
    assert "spent" in result.stop_reason.sentence or "affordable" in result.stop_reason.sentence
    assert sleeper.survivors() == []


def test_a_trial_is_killed_at_its_timeout_and_its_cost_is_a_lower_bound(tmp_path):
    study = make(tmp_path / "s.db", budget="$999", stop=MaxTrials(1), timeout=0.3, rate="$0.1/s")
    study.run(lambda params: time.sleep(FOREVER))
    record = study.records()[0]
    assert (record["state"], record["censored"]) == ("killed", 1)
    assert "timeout of 0.3 s" in record["error"]
    assert record["cost"]["usd"] == pytest.approx(0.1 * record["run_s"])
    assert record["cost"]["usd"] >= 0.03
    assert study.ledger.spent >= record["cost"]["usd"]  # and the overhead before it


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_failures_in_a_row_end_the_run_with_the_first_of_them(url, workers):
    def fails(params):
        raise ValueError("never any good")

    study = make(url, budget=PLENTY, stop=None, failures_in_a_row=3)
    result = study.run(fails, workers=workers)
    assert 3 <= len(result.history) <= 2 + workers
    assert " trials in a row failed; the first error was:\n" in result.stop_reason.sentence
    assert 'raise ValueError("never any good")' in result.stop_reason.sentence
    assert result.ledger.spent > 0
    assert study.verdict.because == result.stop_reason.sentence


@pytest.mark.parametrize(
    ("lease", "budget", "tick"), [(0.3, 50, 0.1), (60, 50, 1), (60, "9s", 0.09)]
)
def test_a_lease_is_renewed_three_times_before_it_expires(lease, budget, tick):
    """At least every second, and at least every hundredth of the time budget."""
    settings, ticks = (
        Settings.of(SPACE, budget, policy=Random(), stop=MaxTrials(1), lease=lease),
        [],
    )

    class Noting:
        kills = True

        def run(self, job, allowance):
            ticks.append(allowance.tick)
            return InProcess(lambda params: Outcome(1.0, 1.0)).run(job, allowance)

    run_trials(Optimizer.of(settings), settings, Noting(), lambda: None)
    assert ticks == [pytest.approx(tick)]


@pytest.mark.slow
def test_a_run_clears_the_stop_of_an_earlier_run(tmp_path):
    study = make(tmp_path / "s.db", failures_in_a_row=2)

    def fails(params):
        raise ValueError

    study.run(fails)
    assert len(study.history) == 2
    study.request_stop()
    result = study.run(square)
    assert [t.state for t in result.history] == ["failed", "failed", "done", "done"]
    assert result.stop_reason.sentence == "4 of at most 4 trials made"


def test_one_worker_among_others_respects_a_requested_stop(tmp_path):
    study = make(tmp_path / "s.db")
    study.request_stop()
    assert str(study.work(square)) == "a stop was requested"
    assert study._store.look().stop_reason.sentence == "a stop was requested"
    assert len(study.history) == 0


def test_a_task_that_cannot_start_uses_no_trial(url):
    study = make(url, budget=PLENTY)
    for workers in (1, 2):
        with pytest.raises(InvalidInput, match="no program 'no-such-program'"):
            study.run(CommandTask(["no-such-program", "{a}"]), workers=workers)
        with pytest.raises(InvalidInput, match="no program 'no-such-program'"):
            study.work(CommandTask(["no-such-program", "{a}"]), workers=workers)
    assert len(study.history) == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_task_that_turns_out_to_be_impossible_returns_its_trial(url, tmp_path, workers):
    script = tmp_path / "no-first-line"
    script.write_text("echo")
    script.chmod(0o755)
    study = make(url, budget=PLENTY)
    with pytest.raises(InvalidInput, match="A script needs a first line"):
        study.run(CommandTask([str(script), "{a}"]), workers=workers)
    assert {trial.state for trial in study.history} == {"lost"}
    assert study.ledger.reserved == study.ledger.spent == 0
    result = study.run(square)
    again = [trial for trial in result.history if trial.origin == "retry"]
    assert [trial.params for trial in again] == [t.params for t in result.history.having("lost")]
    assert {trial.state for trial in again} == {"done"}


def test_commands_run_too_and_progress_is_stored_with_its_cost(url):
    script = 'echo \'{"step": 1, "value": 9.0}\'; echo "{\\"value\\": $1, \\"cost\\": 0.25}"'
    study = make(url, budget="$5", stop=MaxTrials(2))
    result = study.run(CommandTask(["sh", "-c", script, "sh", "{a}"]))
    assert [t.value for t in result.history] == [t.params["a"] for t in result.history]
    assert result.spent == 0.5
    assert study.records()[0]["reports"] == [{"step": 1, "value": 9.0, "cost": {}}]


@pytest.mark.slow
def test_a_known_cost_needs_no_measurement(tmp_path):
    study = make(tmp_path / "s.db", budget="$5", cost=Known(lambda params: 0.5))
    assert study.run(square).spent == 2.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"workers": 0}, "workers=0"), ({"workers": True}, "workers=True")],
)
def test_invalid_numbers_of_workers(tmp_path, settings, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make(tmp_path / "s.db").run(square, **settings)
    with pytest.raises(InvalidInput, match="failures_in_a_row=-1"):
        Settings.of(SPACE, failures_in_a_row=-1)
    with pytest.raises(InvalidInput, match="lease=0: expected seconds above 0"):
        Settings.of(SPACE, lease=0)
    with pytest.raises(InvalidInput, match="not an objective"):
        make(tmp_path / "s.db").run("train.py")


def test_a_short_outage_of_the_database_ends_no_trial(tmp_path, monkeypatch, often):
    study = make(tmp_path / "s.db", budget=PLENTY, stop=MaxTrials(1))
    renew, calls, back = Study.renew, [], tmp_path / "back"

    def flaky(self, *args, **kwargs):
        calls.append(kwargs["cost"])
        if len(calls) <= 2:
            raise StorageError("unavailable")
        back.touch()
        return renew(self, *args, **kwargs)

    monkeypatch.setattr(Study, "renew", flaky)
    result = study.run(lambda params: 1.0 if wait_until(back.exists) else None)
    assert len(calls) >= 3
    assert result.history[0].state == "done"


def test_an_outage_of_the_database_longer_than_the_lease_ends_the_run(tmp_path, monkeypatch):
    def unavailable(self, *args, **kwargs):
        raise StorageError("unavailable")

    monkeypatch.setattr(Study, "renew", unavailable)
    study = make(tmp_path / "s.db", budget=PLENTY, lease=0.5)
    with pytest.raises(StorageError, match="unavailable"):
        study.run(lambda params: time.sleep(FOREVER))


# ── interruptions ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_charges_its_trials_and_can_be_resumed(
    url, sleeper, often, ctrl_c, printed, workers, number
):
    study, before = make(url, budget=PLENTY), signal.getsignal(number)
    seen, because = [], INTERRUPTED if number == signal.SIGINT else TERMINATED
    twice = 2 if number == signal.SIGINT else 1

    def interrupt():
        # With its own study object, and only after the last fork.
        if wait_until(lambda: len(sleeper.pids) >= workers):
            other = Study.open(url, "study")
            wait_until(lambda: all("worker_s" in trial.cost for trial in other.history))
            seen.extend(trial.cost["worker_s"] for trial in other.history)
            other.close()
        for times in range(1, twice + 1):
            os.kill(os.getpid(), number)
            wait_until(lambda times=times: len(printed) == times)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = study.run(sleeper, workers=workers)
    thread.join()
    assert result.stop_reason == because
    assert signal.getsignal(number) == before
    assert [trial.state for trial in result.history] == ["killed"] * workers
    assert all(trial.error == because.sentence for trial in result.history)
    assert result.spent == pytest.approx(sum(t.cost["worker_s"] for t in result.history))
    assert len(seen) == workers
    assert result.spent >= sum(seen) > 0
    assert sleeper.survivors() == []
    result = study.run(square, workers=1)
    assert [t.state for t in result.history] == ["killed"] * workers + ["done"] * (4 - workers)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_ignored_ctrl_c_stays_ignored(tmp_path, ctrl_c, workers):
    """As under `nohup`, or in a background job of a script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    study, us = make(tmp_path / "s.db", stop=MaxTrials(2)), os.getpid()
    result = study.run(lambda params: os.kill(us, signal.SIGINT) or 1.0, workers=workers)
    assert result.stop_reason.sentence == "2 of at most 2 trials made"
    assert [trial.state for trial in result.history] == ["done", "done"]
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


@pytest.mark.slow
def test_a_pool_ends_even_if_sigterm_is_ignored(tmp_path, sleeper, often, ctrl_c, printed):
    study, before = make(tmp_path / "s.db"), signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def interrupt():
        wait_until(lambda: len(sleeper.pids) >= 2)
        for times in (1, 2):
            os.kill(os.getpid(), signal.SIGINT)
            wait_until(lambda times=times: len(printed) == times)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        result = study.run(sleeper, workers=2)
    finally:
        after = signal.signal(signal.SIGTERM, before)
        thread.join()
    assert result.stop_reason == INTERRUPTED
    assert [trial.state for trial in result.history] == ["killed", "killed"]
    assert after == signal.SIG_IGN


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_handler_in_c_is_kept(tmp_path, number):
    """A program may embed Python. Python knows its handler as None and cannot restore it."""
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    theirs = ctypes.cast(libc.abs, ctypes.c_void_p)  # a function of an int that does nothing

    def run():
        libc.signal(number, theirs)
        spec = importlib.util.find_spec("_signal")
        spec.loader.exec_module(
            importlib.util.module_from_spec(spec)
        )  # detects the handler, as at startup
        assert signal.getsignal(number) is None
        result = make(tmp_path / "s.db").run(square, workers=2)
        assert len(result.history.done) == 4
        assert libc.signal(number, theirs) == theirs.value

    assert exit_code(fork_off(run)) == 0


def run_in_a_process(url, sleeper):
    os.setsid()
    Study.open(url, "study").run(sleeper, workers=2)


@pytest.fixture
def runner(url, sleeper):
    """A process that runs a study with two busy workers, and its parts."""
    study = make(url, budget=PLENTY, retries=1, stop=MaxTrials(6))
    process = multiprocessing.get_context("fork").Process(
        target=run_in_a_process, args=(url, sleeper)
    )
    process.start()
    workers = []
    try:
        assert wait_until(lambda: len(sleeper.pids) >= 2)
        workers += [pid for pid in children_of(process.pid) if is_alive(pid)]
        yield study, process, workers, sleeper
    finally:
        for pid in [process.pid, *workers, *sleeper.pids]:
            with suppress(ProcessLookupError):
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)
        process.join()


@pytest.mark.slow
def test_when_the_parent_is_killed_everything_ends(runner):
    study, process, workers, sleeper = runner
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert wait_until(lambda: not any(map(is_alive, [*workers, *sleeper.pids])))
    assert [trial.state for trial in study.history] == ["killed", "killed"]
    assert study.ledger.reserved == 0
    assert len(study.run(square).history) == 6


@pytest.mark.parametrize("reached", [0, 2])
def test_when_the_parent_is_killed_trainings_are_lost_like_those_of_a_killed_worker(
    tmp_path, often, reached
):
    """They are resumed from their checkpoints; without one, they are repeated."""
    pids, goes_on = Pids(tmp_path / "pids"), tmp_path / "goes on"

    def train(params, trial):
        for step in range(trial.step + 1, 9):
            answer = trial.report(step, 1.0 / step, cost={"usd": float(step - trial.step)})
            if not goes_on.exists():
                pids.note()
                time.sleep(FOREVER)
            if answer != "continue":
                return

    settings = {"policy": RoundRobin(2), "budget": "$100, 4 trials", "max_cost": "$20"}
    steps = Steps(8, rungs=(2, 8))
    study = make(tmp_path / "s.db", steps=steps, stop=None, retries=1, **settings)
    for _ in range(2 if reached else 0):
        study.tell(study.ask(), 0.5, cost=2.0)
    open_again = partial(Study.open, tmp_path / "s.db", "study", policy=RoundRobin(2))
    runner = fork_off(lambda: open_again().run(train, workers=2))
    try:
        assert wait_until(lambda: len(pids.all) == 2 or not is_alive(runner))
        workers = [pid for pid in children_of(runner) if is_alive(pid)]
        os.kill(runner, signal.SIGKILL)
        assert exit_code(runner) == -signal.SIGKILL
        assert wait_until(lambda: not any(map(is_alive, workers)) and not pids.alive)
    finally:
        pids.kill()
    expire(study, *{int(trial.run.worker.rpartition(":")[2]) for trial in study.history.running})
    assert not study.is_worked_on()
    for trial in study.history:
        assert trial.state == ("paused" if reached else "lost")
        assert "disappeared" in trial.error
        assert (trial.step, trial.cost) == (reached + 1, {"usd": reached + 1.0})
    assert study.ledger["usd"].spent == 2 * (reached + 1)
    assert study.ledger["usd"].reserved == 0
    goes_on.touch()
    result = study.run(train)
    assert result.ledger["usd"].spent == sum(trial.cost["usd"] for trial in result.history)
    if reached:  # two steps before, one that was lost, and the six after the checkpoint
        assert [(trial.state, trial.cost["usd"]) for trial in result.history[:2]] == [
            ("done", 9)
        ] * 2
    else:
        parameters = [trial.params["a"] for trial in result.history]
        assert sorted(parameters[:2]) == sorted(parameters[2:])


@pytest.mark.slow
def test_when_a_worker_is_killed_its_trial_is_lost_and_tried_again(runner):
    study, process, workers, sleeper = runner
    os.kill(workers[0], signal.SIGKILL)
    assert wait_until(lambda: not is_alive(workers[0]))
    expire(study, workers[0])
    assert wait_until(lambda: "lost" in [trial.state for trial in study.history])
    assert wait_until(lambda: len(sleeper.survivors()) <= 1)
    os.kill(process.pid, signal.SIGTERM)
    process.join(PATIENCE)
    assert process.exitcode == 0
    lost = next(trial for trial in study.history if trial.state == "lost")
    assert sleeper.survivors() == []
    result = study.run(square)
    because = f"repeats trial {lost.number}, which was lost"
    again = next(trial for trial in result.history if trial.because == because)
    assert (again.state, again.params) == ("done", lost.params)
    assert result.ledger.reserved == 0
    paid = sum(trial.cost.get("worker_s", 0.0) for trial in result.history)
    assert result.ledger.spent == pytest.approx(paid)


def test_when_every_worker_is_killed_the_run_ends_with_an_error(tmp_path):
    study = make(tmp_path / "s.db", budget=PLENTY)

    def kills_its_worker(params):
        supervisor = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[1])
        worker = int(Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(worker, signal.SIGKILL)
        time.sleep(FOREVER)

    with pytest.raises(FarthingError, match=r"Every worker was killed \(exit code -9\)"):
        study.run(kills_its_worker, workers=2)


def test_a_worker_that_is_stopped_does_not_spend_more_than_its_budget_of_time(tmp_path):
    for seconds in (3, 15, 75):  # on a slow machine, the budget ends before a trial starts
        sleeper = Sleeper(tmp_path / str(seconds))
        sleeper.folder.mkdir()
        url = sleeper.folder / "s.db"
        study = make(url, budget={"s": seconds})
        run = fork_off(lambda url=url, objective=sleeper: Study.open(url, "study").run(objective))
        try:
            wait_until(lambda run=run, sleeper=sleeper: sleeper.pids or not is_alive(run))
            os.kill(run, signal.SIGSTOP)
            assert wait_until(lambda sleeper=sleeper: sleeper.survivors() == [])
        finally:
            os.kill(run, signal.SIGCONT)
        assert exit_code(run) == 0
        if sleeper.pids:
            break
    (trial,) = study.history
    assert trial.state == "killed"
    assert "is spent" in trial.error


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_next_run_charges_what_a_third_ctrl_c_left_uncharged(
    url, sleeper, often, monkeypatch, workers
):
    """It may interrupt the report of a result, which is then not stored."""

    def third(*_):
        raise KeyboardInterrupt

    def run():
        monkeypatch.setattr("farthing.running.worker._told", third)
        Study.open(url, "study").run(sleeper, workers=workers)

    study = make(url, budget=PLENTY, retries=0)
    running = fork_off(run)
    assert wait_until(lambda: len(sleeper.pids) >= workers)
    assert wait_until(lambda: all(trial.cost.get("worker_s", 0) > 0 for trial in study.history))
    os.kill(running, signal.SIGTERM)
    exit_code(running)
    assert wait_until(lambda: sleeper.survivors() == [])
    left = list(study.history)
    assert [trial.state for trial in left] == ["running"] * workers
    expire(study, *(int(trial.run.worker.rpartition(":")[2]) for trial in left))
    result = study.run(square)
    lost = result.history[:workers]
    assert [trial.state for trial in lost] == ["lost"] * workers
    assert [trial.cost["worker_s"] for trial in lost] == [t.cost["worker_s"] for t in left]
    assert result.ledger.reserved == 0
    paid = sum(trial.cost.get("worker_s", 0.0) for trial in result.history)
    assert result.ledger.spent == pytest.approx(paid)


@dataclass(frozen=True)
class SlowPolicy:
    """A policy that takes 0.1 s, and writes the times and its process id into a file.

    Suggestion number `endless` never ends. Two suggestions must not overlap.
    """

    path: str
    endless: int | None = None
    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        started_at = time.monotonic()
        with open(self.path, "a") as file:
            print("starts", os.getpid(), file=file, flush=True)
            time.sleep(FOREVER if len(self.lines("starts")) == self.endless else 0.1)
            print("ends", started_at, time.monotonic(), file=file)
        return Random().propose(belief, rng)

    def lines(self, word):
        with suppress(FileNotFoundError), open(self.path) as file:
            return [line.split()[1:] for line in file if line.startswith(word)]
        return []


@pytest.fixture
def one_at_a_time(url, tmp_path, monkeypatch):
    """Makes a study with suggestions so slow that only one worker at a time computes one."""
    monkeypatch.setattr("farthing.core.asking.SUGGESTER_LEASE", (FOREVER, 0.0))

    def made(trials, **how):
        policy = SlowPolicy(str(tmp_path / "suggestions"), **how)
        study = make(url, policy=policy, budget=PLENTY, stop=MaxTrials(trials))
        study.tell(study.ask(), 4.0, cost=0.1)  # now the study knows how long a suggestion takes
        return study, policy

    return made


@pytest.mark.slow
def test_workers_of_one_machine_do_not_compute_suggestions_at_the_same_time(
    one_at_a_time, tmp_path
):
    study, policy = one_at_a_time(8)

    def both(params):
        (tmp_path / f"here-{os.getpid()}").touch()
        assert wait_until(lambda: len(list(tmp_path.glob("here-*"))) >= 2)
        return square(params)

    result = study.run(both, workers=2)
    assert len({trial.run.worker for trial in result.history[1:]}) == 2
    assert {trial.state for trial in result.history} == {"done"}
    times = sorted((float(start), float(end)) for start, end in policy.lines("ends"))
    assert len(times) >= 8
    assert all(a[1] <= b[0] for a, b in pairwise(times))


@pytest.mark.slow
def test_no_worker_waits_for_one_that_was_killed_during_a_suggestion(one_at_a_time):
    study, policy = one_at_a_time(5, endless=4)

    def kill():
        wait_until(lambda: len(policy.lines("starts")) >= 4)
        os.kill(int(policy.lines("starts")[3][0]), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    result = study.run(square, workers=2)
    thread.join()
    assert [trial.state for trial in result.history] == ["done"] * 5
    assert len(policy.lines("starts")) > len(policy.lines("ends")) >= 5


@pytest.mark.slow
def test_when_the_whole_process_tree_is_killed_the_study_can_resume(runner):
    study, process, workers, sleeper = runner
    for number in (
        signal.SIGSTOP,
        signal.SIGKILL,
    ):  # at the same time, so that none notices the end of another
        for pid in [process.pid, *workers]:
            os.kill(pid, number)
    process.join()
    assert wait_until(lambda: not any(map(is_alive, [*workers, *sleeper.pids])))
    expire(study, *workers)
    result = study.run(square)
    states = [trial.state for trial in result.history]
    assert states == ["lost", "lost", *["done"] * 4]
    assert result.ledger.reserved == 0
    account = result.ledger["worker_s"]
    assert account.spent + account.reserved + account.left == account.limit


def test_an_outcome_reports_its_own_cost(tmp_path):
    study = make(tmp_path / "s.db", budget="$5", stop=MaxTrials(1))
    study.run(lambda params: Outcome(1.0, cost={"usd": 0.5}))
    assert study.ledger.spent == 0.5


@pytest.mark.slow
def test_a_trial_that_costs_far_more_than_expected_is_killed_at_its_max_overrun(url, tmp_path):
    """Eight trials cost $1 each, then one never ends: it uses only part of the budget."""
    folder = tmp_path / "done"
    folder.mkdir()

    def runs_away(params):
        if len(list(folder.iterdir())) >= 8:
            for k in range(300):
                report_progress(step=k, cost=0.5 * k)
                time.sleep(0.01)
            time.sleep(PATIENCE)  # its cost exceeds the limit by now, so it is killed
        (folder / str(time.monotonic_ns())).touch()
        return Outcome(params["a"], cost=1.0)

    study = make(url, budget="$1000", stop=MaxTrials(9), policy=EIPerCost(), max_overrun=4.0)
    result = study.run(runs_away)
    last = result.history[8]
    assert (last.state, last.run.attempt) == ("killed", 1)
    assert "its limit" in last.error
    assert last.limit["usd"] < last.cost["usd"] < 150
    assert 100 > last.limit["usd"] > 4 * last.predicted["usd"]


# ── an engine without a process ──────────────────────────────────────────────────────────────────


class FakeEngine:
    """An engine that can kill: calls `then` with the job and its allowance, and returns 1.0."""

    kills = True

    def __init__(self, then):
        self.then = then

    def run(self, job, allowance):
        reason = self.then(job, allowance)
        state, value = ("done", 1.0) if reason is None else ("killed", None)
        return Finished(state, value, {}, reason, USED)


USED = Usage(wall_s=2.0, cpu_s=1.0, peak_mb=1.0)


def run_fake(then, budget=PLENTY, trials=1, measure="wall", **arguments):
    """Run a worker with such an engine: (the optimizer, the number of changes, the stop reason)."""
    settings = Settings.of(SPACE, budget, policy=Random(), stop=MaxTrials(trials), measure=measure)
    optimizer, changes = Optimizer.of(settings), []
    reason = run_trials(
        optimizer, settings, FakeEngine(then), lambda: changes.append(None), **arguments
    )
    return optimizer, len(changes), reason


def test_on_change_is_called_at_every_renewal():
    _, without, _ = run_fake(lambda job, allowance: None)

    def asks(job, allowance):
        for _ in range(3):
            assert allowance.may_go_on(USED) is None

    _, with_renewals, _ = run_fake(asks)
    assert with_renewals == without + 3


def test_a_trial_has_a_lease_before_its_first_renewal():
    """If its worker is killed before that, the trial is lost, and does not run for ever."""
    settings, leases = Settings.of(SPACE, PLENTY, policy=Random(), stop=MaxTrials(1), lease=7), []
    optimizer = Optimizer.of(settings)

    def looks(job, allowance):
        run = optimizer.history[job.number].run
        leases.append(run.lease - run.asked_at)

    run_trials(optimizer, settings, FakeEngine(looks), lambda: None)
    assert leases == [pytest.approx(7.0)]


@pytest.mark.parametrize(
    ("most", "sentence"),
    [(1, "a trial failed:"), (2, "2 trials in a row failed; the first error was:")],
)
def test_the_reason_counts_the_failures(most, sentence):
    def fails(params):
        raise ValueError("too large")

    settings = Settings.of(SPACE, PLENTY, policy=Random(), failures_in_a_row=most)
    optimizer = Optimizer.of(settings)
    reason = run_trials(optimizer, settings, InProcess(fails), lambda: None)
    first, _, error = reason.sentence.partition("\n")
    assert first == sentence
    assert "ValueError: too large" in error
    assert len(optimizer.history) == most


def test_an_exit_request_kills_the_trial_or_lets_it_finish():
    for kill, state in ((True, "killed"), (False, "done")):
        requests = [None]

        def interrupted(job, allowance, kill=kill, requests=requests):
            requests[0] = ExitRequest(StopReason("requested", "enough"), kill=kill)
            return allowance.may_go_on(USED)

        optimizer, _, reason = run_fake(
            interrupted, trials=3, exit_check=lambda requests=requests: requests[0]
        )
        assert str(reason) == "enough"
        assert [trial.state for trial in optimizer.history] == [state]


def test_a_trial_suggested_during_an_exit_request_is_returned():
    request = ExitRequest(StopReason("requested", "enough"), kill=False)
    answers = chain([None, request], repeat(None))
    optimizer, _, reason = run_fake(pytest.fail, exit_check=lambda: next(answers))
    assert str(reason) == "enough"
    assert [trial.state for trial in optimizer.history] == ["lost"]
    assert optimizer.ledger.reserved == 0


def test_a_long_trial_keeps_some_reports_from_first_to_last():
    def reports(job, allowance):
        for step in range(5000):
            allowance.on_report({"step": step}, USED)

    optimizer, _, _ = run_fake(reports)
    steps = [report["step"] for report in optimizer.history[0].run.reports]
    assert 300 <= len(steps) <= 1000
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 4999)
    assert max(late - early for early, late in pairwise(steps)) < 500  # no part is missing


@pytest.mark.parametrize(("measure", "paid"), [("wall", 2.0), ("cpu", 1.0)])
def test_the_measured_time_is_charged(measure, paid):
    optimizer, _, _ = run_fake(lambda job, allowance: None, measure=measure)
    assert optimizer.history[0].cost == {"worker_s": paid}


def test_a_trial_has_its_own_log_in_its_place(tmp_path):
    logs = []
    optimizer, _, _ = run_fake(
        lambda job, allowance: logs.append((job.number, job.slot, job.log)),
        trials=2,
        place=Place("gpu 3", tmp_path),
    )
    assert logs == [(0, "gpu 3", tmp_path / "0.log"), (1, "gpu 3", tmp_path / "1.log")]
    assert [(t.run.slot, t.run.log) for t in optimizer.history] == [
        ("gpu 3", str(tmp_path / f"{number}.log")) for number in (0, 1)
    ]


# ── how often a lease is renewed ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("budget", "rate", "seconds"),
    [
        ("20s", None, 0.2),
        ("20 worker_s, 1h", None, 0.2),
        ("$0.02", "$3.60/h", 0.2),  # with a rate, money runs like time
        ("$0.02, 10s", "$3.60/h per worker", 0.1),
        ("$0.02", None, 1.0),
        ("1ms", None, 0.05),
        ("2h, $9", "$1/h", 1.0),
        (None, None, 1.0),
    ],
)
def test_the_tick_is_a_hundredth_of_the_time_that_the_budget_pays_for(budget, rate, seconds):
    settings = Settings.of(Space({"x": Float(0, 1)}), budget, policy=Random(), rate=rate)
    assert _tick(settings) == pytest.approx(seconds)


def test_a_worker_stays_if_a_trial_ends_right_after_nothing_could_start(monkeypatch):
    """The trial of another worker had reserved the whole budget, because prices are unknown."""
    store = shared(Budget("$2"))
    other, _ = made(SPACE, "$2", store, policy=Random())
    optimizer, settings = made(SPACE, "$2", store, policy=Random())
    running = [other.ask(worker="other:1", lease=settings.lease)]
    is_worked_on = optimizer.is_worked_on

    def after_the_other_has_told():
        if running:
            other.tell(running.pop(), 1.0, cost=1.0)
        return is_worked_on()

    monkeypatch.setattr(optimizer, "is_worked_on", after_the_other_has_told)
    run_trials(optimizer, settings, Priced(), lambda: None)
    assert [trial.state for trial in optimizer.trials] == ["done", "done"]
    assert optimizer.ledger["usd"].spent == 2.0


class Priced:
    """An engine whose trials cost $1."""

    kills = True

    def run(self, job, allowance):
        return Finished("done", 1.0, {"usd": 1.0}, None, USED)


def test_a_renewal_reserves_what_the_next_tick_will_cost(monkeypatch):
    ahead = []
    renew = Optimizer.renew

    def noted(self, trial, **given):
        ahead.append(given["ahead"]["worker_s"])
        return renew(self, trial, **given)

    monkeypatch.setattr(Optimizer, "renew", noted)
    run_fake(lambda job, allowance: allowance.may_go_on(USED), budget={"worker_s": 100.0})
    assert ahead == [2.0 + 1.0]  # it has used 2 s, and a tick is a second
