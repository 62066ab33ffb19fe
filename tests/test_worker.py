"""Workers: real child processes on a real database, and what is left when somebody is killed."""

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from processes import children_of, is_alive

from farthing import Float, InvalidInput, Outcome, Space, StorageError, Study
from farthing.cost import Known
from farthing.policies import EIPerCost, Random
from farthing.running import CommandTask, report
from farthing.settings import Settings
from farthing.stopping import MaxTrials
from farthing.worker import INTERRUPTED

SPACE = Space({"a": Float(2, 3)})
DEADLINE = 60.0  # seconds a busy machine may take for what takes a second or two
QUICK = {"grace": 0.2, "lease": 2.0}


def make(url, **settings):
    settings = {"space": SPACE, "policy": Random(), "stop": MaxTrials(4), **QUICK, **settings}
    return Study.create(url, name="study", **settings)


def square(params):
    return params["a"] ** 2


def within(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Sleeper:
    """An objective that sleeps, and leaves its process id in a folder."""

    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds

    def __call__(self, params):
        (self.folder / str(os.getpid())).touch()
        time.sleep(self.seconds)
        return params["a"]

    @property
    def pids(self):
        return [int(path.name) for path in self.folder.iterdir() if path.name.isdigit()]

    def survivors(self):
        return [pid for pid in self.pids if is_alive(pid)]


# ── one worker, and several ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("workers", [1, 3])
def test_a_study_runs_until_it_is_time_to_stop(url, workers):
    study, seen = make(url, budget="$5", stop=MaxTrials(6), rate="$3.6/h"), []
    result = study.run(square, workers=workers, progress=lambda s: seen.append(s.name))
    assert [trial.state for trial in result.history] == ["done"] * 6
    assert all(trial.value == trial.params["a"] ** 2 for trial in result.history)
    assert result.stop_reason == "6 of at most 6 trials made"
    assert result.best.value == min(trial.value for trial in result.history)
    assert set(seen) == {"study"}
    records = study.records()
    assert len({record["worker"] for record in records}) <= workers
    assert all(record["peak_mb"] > 0 and record["run_s"] > 0 for record in records)
    spent = sum(record["run_s"] for record in records) * 3.6 / 3600
    assert result.spent == pytest.approx(spent)
    again = study.run(square, workers=workers)
    assert len(again.history) == 6


def test_a_budget_of_seconds_is_wall_clock_for_all_workers(url):
    """Three workers, three seconds: as long as it really took, and not three times that."""
    study = make(url, budget="3s", stop=None)
    begun = time.monotonic()
    result = study.run(lambda params: time.sleep(0.05) or 1.0, workers=3)
    took = time.monotonic() - begun
    assert took >= 2.5
    assert 2.5 <= result.spent <= took
    assert result.best is not None


def test_a_trial_of_unknown_length_ends_with_the_budget(url, tmp_path):
    folder = tmp_path / "pids"
    folder.mkdir()
    sleeper, study = Sleeper(folder, 1000.0), make(url, budget="2s", stop=None)
    result = study.run(sleeper, workers=2)
    assert {trial.state for trial in result.history} == {"killed"}
    assert result.history[0].error == "the budget of 2.0 s is spent"
    assert result.ledger.reserved == 0
    assert result.best is None
    assert "spent" in result.stop_reason or "affordable" in result.stop_reason
    assert sleeper.pids
    assert sleeper.survivors() == []


def test_a_trial_is_killed_at_its_timeout_and_its_cost_is_a_lower_bound(tmp_path):
    study = make(tmp_path / "s.db", budget="$1", stop=MaxTrials(1), timeout=0.3, rate="$0.1/s")
    study.run(lambda params: time.sleep(1000.0))
    record = study.records()[0]
    assert (record["state"], record["censored"]) == ("killed", 1)
    assert "timeout of 0.3 s" in record["error"]
    assert record["cost"]["usd"] >= 0.03
    assert study.ledger.spent == record["cost"]["usd"]


@pytest.mark.parametrize("workers", [1, 2])
def test_failures_in_a_row_end_the_run_with_the_first_of_them(url, workers):
    def fails(params):
        raise ValueError("never any good")

    study = make(url, budget={"worker_s": 100}, stop=None, failures_in_a_row=3)
    result = study.run(fails, workers=workers)
    assert 3 <= len(result.history) <= 2 + workers
    assert " trials in a row failed; the first of them:\n" in result.stop_reason
    assert 'raise ValueError("never any good")' in result.stop_reason
    assert result.ledger.spent > 0
    assert study.verdict.because == result.stop_reason


def test_a_run_takes_back_the_stop_of_an_earlier_one(tmp_path):
    study = make(tmp_path / "s.db", failures_in_a_row=2)

    def fails(params):
        raise ValueError

    study.run(fails)
    assert len(study.history) == 2
    study.request_stop()
    result = study.run(square)
    assert [t.state for t in result.history] == ["failed", "failed", "done", "done"]
    assert result.stop_reason == "4 of at most 4 trials made"


def test_one_worker_among_others_respects_a_requested_stop(tmp_path):
    study = make(tmp_path / "s.db")
    study.request_stop()
    assert study.work(square) == "a stop was requested"
    assert study._memory.look().stop_reason == "a stop was requested"
    assert len(study.history) == 0


def test_a_task_that_can_never_run_is_an_error_and_leaves_nothing_running(url):
    study = make(url, budget="5s")
    for workers in (1, 2):
        with pytest.raises(InvalidInput, match="no program 'no-such-program'"):
            study.run(CommandTask(["no-such-program", "{a}"]), workers=workers)
        assert {trial.state for trial in study.history} == {"lost"}
        assert study.ledger.reserved == 0


def test_commands_run_too_and_progress_is_stored_with_its_cost(url):
    script = 'echo \'{"step": 1, "value": 9.0}\'; echo "{\\"value\\": $1, \\"cost\\": 0.25}"'
    study = make(url, budget="$5", stop=MaxTrials(2))
    result = study.run(CommandTask(["sh", "-c", script, "sh", "{a}"]))
    assert [t.value for t in result.history] == [t.params["a"] for t in result.history]
    assert result.spent == 0.5
    assert study.records()[0]["progress"] == [{"step": 1, "value": 9.0, "cost": {}}]


def test_a_known_cost_needs_no_meter(tmp_path):
    study = make(tmp_path / "s.db", budget="$5", cost=Known(lambda params: 0.5))
    assert study.run(square).spent == 2.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"workers": 0}, "workers=0"), ({"workers": True}, "workers=True")],
)
def test_workers_that_make_no_sense(tmp_path, settings, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make(tmp_path / "s.db").run(square, **settings)
    with pytest.raises(InvalidInput, match="failures_in_a_row=0"):
        Settings.of(SPACE, failures_in_a_row=0)
    with pytest.raises(InvalidInput, match="lease=0: expected seconds above 0"):
        Settings.of(SPACE, lease=0)
    with pytest.raises(InvalidInput, match="not an objective"):
        make(tmp_path / "s.db").run("train.py")


def test_a_database_that_is_away_for_a_moment_ends_nothing(tmp_path, monkeypatch):
    study = make(tmp_path / "s.db", budget="20s", stop=MaxTrials(1))
    renew, away = type(study).renew, []

    def flaky(self, *given, **named):
        if len(away) < 2:
            away.append("away")
            raise StorageError("away")
        return renew(self, *given, **named)

    monkeypatch.setattr(type(study), "renew", flaky)
    result = study.run(lambda params: time.sleep(0.8) or 1.0)
    assert len(away) == 2
    assert result.history[0].state == "done"
    away[:] = []
    monkeypatch.setattr(type(study), "renew", lambda *_, **__: flaky_for_ever())
    settings = {"space": SPACE, "policy": Random(), "budget": "20s", "grace": 0.2, "lease": 0.5}
    study = Study.create(tmp_path / "s.db", name="b", **settings)

    def flaky_for_ever():
        raise StorageError("gone")

    with pytest.raises(StorageError, match="gone"):
        study.run(lambda params: time.sleep(1000) or 1.0)


# ── interruptions ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_charges_its_trials_and_can_be_resumed(url, tmp_path, workers, number):
    folder = tmp_path / "pids"
    folder.mkdir()
    sleeper = Sleeper(folder, 1000.0)
    study, before = make(url, budget={"worker_s": 100}), signal.getsignal(number)

    def interrupt():
        within(DEADLINE, lambda: len(sleeper.pids) >= workers)
        time.sleep(0.2)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = study.run(sleeper, workers=workers)
    thread.join()
    assert result.stop_reason == INTERRUPTED
    assert signal.getsignal(number) == before
    assert [trial.state for trial in result.history] == ["killed"] * workers
    assert all(trial.error == INTERRUPTED for trial in result.history)
    assert result.spent == pytest.approx(sum(t.cost["worker_s"] for t in result.history))
    assert result.spent > 0.1 * workers
    assert sleeper.survivors() == []
    result = study.run(square, workers=1)
    assert [t.state for t in result.history] == ["killed"] * workers + ["done"] * (4 - workers)


def run_in_a_process(url, folder):
    os.setsid()
    Study.open(url, "study").run(Sleeper(folder, 1000.0), workers=2)


@pytest.fixture
def runner(url, tmp_path):
    """A process that runs a study with two workers, each of them busy; and its pieces."""
    folder = tmp_path / "pids"
    folder.mkdir()
    study = make(url, budget={"worker_s": 100}, retries=1, stop=MaxTrials(6))
    process = multiprocessing.get_context("fork").Process(
        target=run_in_a_process, args=(url, folder)
    )
    process.start()
    sleeper = Sleeper(folder, 0.0)
    within(DEADLINE, lambda: len(sleeper.pids) == 2)
    workers = [pid for pid in children_of(process.pid) if is_alive(pid)]
    yield study, process, workers, sleeper
    for pid in [process.pid, *workers, *sleeper.pids]:
        with suppress(ProcessLookupError):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
    process.join()


def test_when_the_parent_is_killed_everything_ends(runner):
    study, process, workers, sleeper = runner
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    within(DEADLINE, lambda: not any(map(is_alive, [*workers, *sleeper.pids])))
    assert [trial.state for trial in study.history] == ["killed", "killed"]
    assert study.ledger.reserved == 0
    assert len(study.run(square).history) == 6


def test_when_a_worker_is_killed_its_trial_is_lost_and_tried_again(runner):
    study, process, workers, sleeper = runner
    os.kill(workers[0], signal.SIGKILL)
    within(DEADLINE, lambda: "lost" in [trial.state for trial in study.history])
    within(DEADLINE, lambda: len(sleeper.survivors()) <= 1)
    os.kill(process.pid, signal.SIGTERM)
    process.join(DEADLINE)
    assert process.exitcode == 0
    lost = next(trial for trial in study.history if trial.state == "lost")
    assert sleeper.survivors() == []
    result = study.run(square)
    because = f"trial {lost.number} again, which was lost"
    again = next(trial for trial in result.history if trial.because == because)
    assert (again.state, again.params) == ("done", lost.params)
    assert result.ledger.reserved == 0
    paid = sum(trial.cost.get("worker_s", 0.0) for trial in result.history)
    assert result.ledger.spent == pytest.approx(paid)


@dataclass(frozen=True)
class Ponders:
    """A policy that takes its time; when, it writes into a file, and who it was."""

    path: str
    seconds: float
    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = False

    def propose(self, belief, rng):
        begun = time.monotonic()
        with open(self.path, "a") as file:
            print("begins", os.getpid(), file=file, flush=True)
            time.sleep(self.seconds)
            print("ends", begun, time.monotonic(), file=file)
        return Random().propose(belief, rng)

    def lines(self, word):
        with suppress(FileNotFoundError), open(self.path) as file:
            return [line.split()[1:] for line in file if line.startswith(word)]
        return []


def test_workers_of_one_machine_do_not_think_the_same_thought(url, tmp_path):
    policy = Ponders(str(tmp_path / "thoughts"), 0.1)
    study = make(url, policy=policy, budget={"worker_s": 100}, stop=MaxTrials(8))
    study.run(square, workers=2)
    times = sorted((float(begun), float(ended)) for begun, ended in policy.lines("ends"))
    # Before the first is over nobody knows how long they take.
    begun = next(k for k, (begins, _) in enumerate(times) if begins > times[0][1])
    assert len(times) - begun >= 3
    assert all(a[1] <= b[0] for a, b in pairwise(times[begun:]))


def test_nobody_waits_for_a_worker_that_was_killed_in_thought(url, tmp_path, monkeypatch):
    monkeypatch.setattr("farthing.optimizer.THINKER_LEASE", (10 * DEADLINE, 0.0))
    policy = Ponders(str(tmp_path / "thoughts"), 0.5)
    study = make(url, policy=policy, budget={"worker_s": 100}, stop=MaxTrials(5))

    def kill():
        within(DEADLINE, lambda: len(policy.lines("begins")) >= 4)
        os.kill(int(policy.lines("begins")[-1][0]), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    begun = time.monotonic()
    result = study.run(square, workers=2)
    thread.join()
    assert len(result.history) == 5
    assert time.monotonic() - begun < DEADLINE


def test_when_the_whole_tree_is_killed_the_study_goes_on(runner):
    study, process, workers, sleeper = runner
    for pid in [process.pid, *workers]:
        os.kill(pid, signal.SIGKILL)
    process.join()
    within(DEADLINE, lambda: sleeper.survivors() == [])
    result = study.run(square)
    states = [trial.state for trial in result.history]
    assert states == ["lost", "lost", *["done"] * 4]
    assert result.ledger.reserved == 0
    account = result.ledger["worker_s"]
    assert account.spent + account.reserved + account.left == account.limit


def test_an_outcome_says_its_own_cost(tmp_path):
    study = make(tmp_path / "s.db", budget="$5", stop=MaxTrials(1))
    study.run(lambda params: Outcome(1.0, cost={"usd": 0.5}))
    assert study.ledger.spent == 0.5


def test_a_trial_that_costs_far_more_than_expected_is_killed_by_its_leash(url):
    """Eight trials that cost a dollar, then one that never ends: part of the budget is lost."""

    def runs_away(params):
        if len(list(folder.iterdir())) >= 8:
            for k in range(10_000):
                report(step=k, cost=0.5 * k)
                time.sleep(0.01)
        (folder / str(time.monotonic_ns())).touch()
        return Outcome(params["a"], cost=1.0)

    folder = Path(tempfile.mkdtemp())
    study = make(url, budget="$1000", stop=MaxTrials(9), policy=EIPerCost(), leash=4.0)
    result = study.run(runs_away)
    last = result.history[8]
    assert (last.state, last.run.attempt) == ("killed", 1)
    assert "the most that was allowed for it" in last.error
    assert last.limit["usd"] < last.cost["usd"] < 200
    assert last.limit["usd"] > 4 * last.predicted["usd"]
