"""Callbacks of a run: when they are called, how they end it, and that their errors lose nothing."""

import pytest

from farthing import Float, Outcome, Study, minimize
from farthing.errors import InvalidInput
from farthing.policies import Random

SPACE = {"x": Float(0, 1)}
RANDOM = {"policy": Random()}


def objective(params):
    if params["x"] > 0.893:  # trial 3, and no other of the first 18: no worker is excluded for it
        raise ValueError("too large")
    return Outcome(params["x"], cost=1.0)


def run_study(folder, callbacks, workers=1, trials=9, **more):
    study = Study.create(
        folder / "a.db", name="a", space=SPACE, budget=f"{trials} trials", **RANDOM
    )
    return study, study.run(objective, workers=workers, callbacks=callbacks, **more)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_ended_trial_is_passed_once(workers):
    calls, again = [], []

    def remember(optimizer, trial):
        calls.append((optimizer.history[trial.number], trial))

    result = minimize(
        objective,
        SPACE,
        n_trials=9,
        workers=workers,
        callbacks=[remember, lambda optimizer, trial: again.append(trial)],
        **RANDOM,
    )
    numbers = [trial.number for _, trial in calls]
    assert sorted(numbers) == list(range(9))
    assert numbers == sorted(numbers) or workers > 1
    assert [trial for _, trial in calls] == again
    for known, trial in calls:
        assert known.state == trial.state in ("done", "failed")
        assert (trial.state, trial.value) == (result.trials[trial.number].state, known.value)
    assert {trial.state for trial in again} == {"done", "failed"}


def test_a_callback_is_called_before_the_next_trial_starts():
    counts = []
    minimize(objective, SPACE, n_trials=5, callbacks=[lambda o, t: counts.append(len(o.trials))])
    assert counts == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("how", ["raise", "request"])
def test_a_callback_ends_the_run(how, tmp_path):
    def stop(optimizer, trial):
        if trial.number == 2:
            if how == "request":
                optimizer.request_stop("that is enough")
            else:
                raise StopIteration("that is enough")

    result = minimize(objective, SPACE, n_trials=9, callbacks=[stop], **RANDOM)
    assert len(result.trials) == 3
    assert result.stop_reason.kind == "requested"
    assert result.stop_reason.sentence == "that is enough"
    study, result = run_study(tmp_path, [stop])
    assert len(study.trials) == 3
    assert result.stop_reason.kind == "requested"
    again = study.run(objective)  # it cancels the request
    assert len(again.trials) == 9


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_callback_is_raised_and_no_trial_is_lost(workers, tmp_path, capfd):
    def fail(optimizer, trial):
        if trial.number >= 3:
            raise KeyError("the user's bug")

    with pytest.raises(KeyError, match="the user's bug") as caught:
        minimize(objective, SPACE, n_trials=30, workers=workers, callbacks=[fail], **RANDOM)
    result = caught.value.result
    ended = [trial for trial in result.trials if trial.state in ("done", "failed")]
    assert 4 <= len(ended) == result.ledger["trials"].spent < 30
    assert not result.history.running
    assert any(f"{len(result.trials)} trials" in note for note in caught.value.__notes__)
    with pytest.raises(KeyError):
        run_study(tmp_path, [fail], workers, 30)
    study = Study.open(tmp_path / "a.db", "a")
    ended = [trial for trial in study.trials if trial.state in ("done", "failed")]
    assert 4 <= len(ended) == study.ledger["trials"].spent < 30
    assert not study.history.running
    assert study.result().stop_reason.sentence == "a callback raised KeyError"


def test_an_error_at_the_last_trial_is_raised_too(tmp_path):
    def fail(optimizer, trial):
        if len(optimizer.trials) == 4:
            raise KeyError

    with pytest.raises(KeyError):
        run_study(tmp_path, [fail], trials=4)
    assert len(Study.open(tmp_path / "a.db", "a").trials) == 4


def test_imported_and_earlier_trials_are_not_passed(tmp_path):
    study, _ = run_study(tmp_path, [], trials=3)
    study.add({"x": 0.5}, 1.0)
    study.change(budget="+2 trials")
    numbers = []
    study.run(objective, callbacks=[lambda o, t: numbers.append(t.number)])
    assert numbers == [4, 5]


def test_on_change_and_callbacks_work_together(tmp_path):
    order = []
    run_study(
        tmp_path,
        [lambda study, trial: order.append(trial.number)],
        trials=2,
        on_change=lambda study: order.append("changed"),
    )
    assert [each for each in order if each != "changed"] == [0, 1]
    assert order[0] == "changed"


@pytest.mark.parametrize("callbacks", [print, [3], ["print"]])
def test_callbacks_that_are_no_list_of_functions_are_refused(callbacks):
    with pytest.raises(InvalidInput, match="expected a list of functions"):
        minimize(objective, SPACE, n_trials=3, callbacks=callbacks)
