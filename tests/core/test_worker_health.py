"""A worker that cannot evaluate trials is recognised and excluded, and others repeat its trials."""

import os
from dataclasses import replace

import numpy as np
import pytest
from processes import FOREVER, PATIENCE, wait_until

from farthing import Float, Ledger, Space, Study
from farthing.acquisition.paid_costs import paid
from farthing.core.endings import failed_in_a_row
from farthing.core.events import Moment, Told, WorkerExcluded
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply
from farthing.core.worker_health import exclusion_message, others_may_succeed, worker_health
from farthing.errors import Unfit
from farthing.history import History, Run, Trial
from farthing.policies import Random
from farthing.running import CommandTask
from farthing.stopping import MaxTrials

SPACE = Space({"a": Float(0, 1)})
WRONG = "it ended with exit code 2\nsh: cannot open train.py"


def state(*told):
    """The state after trials (worker, state, error), one second apart."""
    trials = []
    for number, (worker, ended, error) in enumerate(told):
        told_at = None if ended == "running" else number + 0.5
        lease = 999.0 if ended == "running" else None
        run = Run(worker=worker, asked_at=float(number), told_at=told_at, lease=lease)
        trial = Trial(number, {"a": number / 99}, np.array([number / 99]), error=error, run=run)
        value = 1.0 if ended == "done" else None
        trials.append(replace(trial, state=ended, value=value, cost={"usd": 1.0}))
    return State(Ledger.of(None), History(tuple(trials)))


BAD = ("bad", "failed", WRONG)


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ("good", []),
        ("good", [BAD, BAD, ("good", "done", None)]),  # two may be chance
        ("unfit", [BAD, BAD, BAD, ("good", "done", None)]),
        ("unfit", [BAD, ("good", "done", None), BAD, BAD]),
        ("unfit", [BAD, BAD, ("bad", "lost", WRONG), ("good", "done", None)]),
        # No other worker since it came: the study may fail everywhere.
        ("good", [BAD, BAD, BAD]),
        ("good", [("good", "done", None), BAD, BAD, BAD]),
        ("good", [BAD, BAD, BAD, (None, "done", None)]),
        # Others are still running their trials.
        ("suspect", [BAD, BAD, BAD, ("good", "running", None)]),
        ("good", [BAD, BAD, BAD, ("other", "failed", "x"), ("other", "running", None)]),
        ("unfit", [BAD, BAD, BAD, ("good", "done", None), ("good", "running", None)]),
        # It has succeeded once.
        ("good", [BAD, BAD, BAD, ("bad", "done", None), ("good", "done", None)]),
        ("good", [BAD, BAD, BAD, ("bad", "killed", "timeout"), ("good", "done", None)]),
        # A working one met the same error, except for digits: the parameters cause it.
        (
            "good",
            [
                *(BAD, BAD, ("bad", "failed", "no 3 GB")),
                *(("good", "done", None), ("good", "failed", "no 4 GB")),
            ],
        ),
        (
            "unfit",
            [BAD, BAD, BAD, ("good", "done", None), ("good", "failed", "no 4 GB")],
        ),
        # Two broken workers do not excuse each other.
        ("unfit", [BAD, BAD, BAD, ("too", "failed", WRONG), ("good", "done", None)]),
    ],
)
def test_worker_health(expected, told):
    assert worker_health(state(*told), "bad") == expected


def test_others_may_succeed_only_if_they_run_a_trial_and_have_not_failed():
    assert others_may_succeed(state(("a", "running", None)), "bad")
    assert not others_may_succeed(state(("a", "running", None)), "a")
    assert not others_may_succeed(state(("a", "running", None)), None)
    assert not others_may_succeed(state(("a", "failed", "x"), ("a", "running", None)), "bad")
    assert not others_may_succeed(state(("a", "done", None)), "bad")


def test_failed_trials_of_an_excluded_worker_are_lost_and_repeated():
    settings = Settings.of(SPACE, "$9")
    before = state(BAD, ("good", "failed", "x"), BAD, ("good", "done", None), BAD)
    after = apply(settings, replace(before, failures=3), WorkerExcluded("bad"), Moment(9.0))
    assert [t.state for t in after.history] == ["lost", "failed", "lost", "done", "lost"]
    assert [t.number for t in after.history if t.run.retry] == [0, 2, 4]
    assert [t.number for t in paid(before.history, "usd")] == [0, 1, 2, 3, 4]
    assert [t.number for t in paid(after.history, "usd")] == [1, 3]
    assert (after.failures, after.next_retry.number) == (0, 0)
    assert after.ledger == before.ledger  # costs stay charged


def test_a_trial_that_was_repeated_is_not_offered_a_third_time():
    before = state(("bad", "lost", WRONG), BAD, BAD, ("good", "done", None))
    first, *others = before.history
    again = replace(others[-1], x=first.x, params=first.params)
    before = replace(before, history=History((first, *others[:-1], again)))
    after = apply(Settings.of(SPACE, "$9"), before, WorkerExcluded("bad"), Moment(9.0))
    assert [t.number for t in after.history if t.run.retry] == [1, 2]


def test_failures_do_not_stop_a_study_while_a_worker_without_failures_runs():
    settings = Settings.of(SPACE, "9 trials", failures_in_a_row=2)
    wrong = ("bad", "running", None)
    hopeful = state(BAD, wrong, ("good", "running", None))
    hopeful = replace(hopeful, failures=1, first_error=WRONG)
    told = Told(1, "failed", error=WRONG, by_user=False)
    after = apply(settings, hopeful, told, Moment(9.0))
    assert after.stop_requested is None
    assert not failed_in_a_row(settings, after)
    # It fails, too: then the study is at fault.
    ended = apply(settings, after, Told(2, "failed", error="no", by_user=False), Moment(9.0))
    assert ended.stop_requested.sentence.startswith(
        "3 trials in a row failed; the first error was:\nit ended with"
    )
    assert failed_in_a_row(settings, ended)
    # Without another worker the study stops at once.
    alone = replace(state(BAD, wrong), failures=1)
    assert apply(settings, alone, told, Moment(9.0)).stop_requested is not None


def test_the_exclusion_message():
    words = exclusion_message(state(BAD, BAD, BAD), "bad")
    assert "its first 3 trials all failed, while other workers succeeded" in words
    assert words.endswith(WRONG)


# ── with processes ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_worker_with_a_broken_slot_does_no_harm(url, capfd, tmp_path):
    """One of two GPUs is broken: the other repeats its trials, and the failures are ignored."""

    def begun(slot):
        return len(list(tmp_path.glob(f"{slot}-*")))

    def objective(params):
        slot = os.environ["FARTHING_SLOT"]
        (tmp_path / f"{slot}-{os.environ['FARTHING_TRIAL']}").touch()
        if slot == "broken":
            assert wait_until(lambda: begun("fine") >= 2)  # so the first of them is done
            raise RuntimeError("no GPU")
        if begun("fine") >= 2:
            assert wait_until(lambda: begun("broken") >= 3)
        return params["a"]

    terms = {"policy": Random(), "stop": MaxTrials(12), "lease": FOREVER, "grace": 0.2}
    study = Study.create(url, name="study", space=SPACE, **terms)
    result = study.run(objective, slots=["broken", "fine"])
    assert not result.failed
    lost = result.history.having("lost")
    assert [trial.run.slot for trial in lost] == ["broken"] * 3
    assert {trial.run.slot for trial in result.history.done} == {"fine"}
    assert {trial.state for trial in result.history} == {"lost", "done"}
    assert "is excluded: its first" in capfd.readouterr().err
    again = [t for t in result.history if t.origin == "retry"]
    assert [trial.params for trial in again] == [trial.params for trial in lost]
    assert {trial.state for trial in again} == {"done"}


def test_a_worker_in_the_wrong_folder_fails_before_it_starts_a_trial(url, tmp_path):
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    for folder in (right, wrong):
        folder.mkdir()
    (right / "train.sh").write_text('echo "{\\"value\\": 1}"')
    command = ["sh", "train.sh", "{a}"]
    terms = {"policy": Random(), "stop": MaxTrials(2), "lease": PATIENCE}
    study = Study.create(url, name="s", space=SPACE, command=command, cwd=str(right), **terms)
    with pytest.raises(Exception, match=r"There is no file 'train.sh' in '.*wrong'"):
        study.work(CommandTask(command, cwd=wrong))
    with pytest.raises(Exception, match=r"folder '.*none', which is not on this machine"):
        study.work(CommandTask(command, cwd=tmp_path / "none"))
    assert len(study.history) == 0
    assert str(study.work(CommandTask(command))) == "2 of at most 2 trials made"


def test_a_single_excluded_worker_ends_with_the_message(url):
    """Another worker succeeds while this one fails, in one process to fix their order."""
    terms = {"policy": Random(), "lease": FOREVER, "budget": "30 trials"}
    study = Study.create(url, name="s", space=SPACE, **terms)
    other = study.ask(worker="other:1", lease=FOREVER)

    def fails(params):
        raise RuntimeError("no GPU")

    def succeed(study):
        history = study.history
        if len(history.having("failed")) >= 3 and history[0].state == "running":
            study.tell(other, 1.0)

    with pytest.raises(Unfit, match="its first 3 trials all failed, while other workers succeeded"):
        study.work(fails, on_change=succeed)
    assert [t.state for t in study.history] == ["done", "lost", "lost", "lost"]
    assert all(trial.run.retry for trial in study.history.having("lost"))
