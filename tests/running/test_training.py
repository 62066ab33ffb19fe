"""Trainings that report their progress: in this process, in their own one, and as programs."""

import json
import os
import sys

import numpy as np
import pytest
from parts import FirstRung, Greedy, RoundRobin
from processes import FOREVER, wait_until

from farthing import Budget, Float, InvalidInput, Outcome, Steps, Study, minimize
from farthing.errors import Unreachable
from farthing.policies import Random
from farthing.running import (
    Allowance,
    CallableTask,
    CommandTask,
    InProcess,
    Job,
    Part,
)
from farthing.running.training import takes_training
from farthing.stopping import MaxTrials

SPACE = {"lr": Float(0.1, 0.9)}


def create(tmp_path, policy, budget="4 trials", **settings):
    """A study whose grace period no test waits for."""
    given = {"steps": Steps(8), "grace": FOREVER, "lease": FOREVER, "space": SPACE, **settings}
    return Study.create(tmp_path / "study.db", name="study", policy=policy, budget=budget, **given)


def descend(params, trial):
    """A training whose value is lr^step. It notes each part in a file of the current folder."""
    file = trial.checkpoint / "state.json"
    step, value = json.loads(file.read_text()) if file.exists() else (0, 1.0)
    with open("parts", "a") as parts:
        parts.write(f"{trial.number} {trial.step} {step}\n")
    while True:
        step, value = step + 1, value * params["lr"]
        answer = trial.report(step, value)
        if answer != "continue":
            file.write_text(json.dumps((step, value)))
            return


def parts_of(folder):
    """The parts that ran: number of the trial, step that it was told, step of its checkpoint."""
    lines = (folder / "parts").read_text().splitlines()
    return [tuple(map(int, line.split())) for line in lines]


def check_complete(history, space=SPACE):
    """Every training ran to step 8 without a gap, and has the value of its last step."""
    for trial in history:
        assert trial.state == "done"
        assert [point.step for point in trial.curve] == list(range(1, 9))
        exact = [trial.params["lr"] ** point.step for point in trial.curve]
        assert [point.value for point in trial.curve] == pytest.approx(exact)
        assert trial.value == pytest.approx(trial.params["lr"] ** 8)


# ── in this process ──────────────────────────────────────────────────────────────────────────────


def test_minimize_pauses_and_resumes_trainings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = minimize(descend, SPACE, "3 trials", policy=RoundRobin(3), steps=8)
    check_complete(result.history)
    # A training continues by itself only if no other one is behind it.
    parts = parts_of(tmp_path)
    assert all(told == saved for _, told, saved in parts)
    assert [each[:2] for each in parts] == [
        *[(0, 0), (1, 0), (2, 0)],
        *[(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2), (0, 4), (1, 4), (2, 4)],
    ]
    assert result.best.value == min(trial.value for trial in result.history)
    assert result.ledger["trials"].spent == 3


def test_callbacks_see_a_training_when_it_has_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    callbacks = [lambda tuner, trial: seen.append((trial.number, trial.state, trial.step))]
    minimize(descend, SPACE, "2 trials", policy=RoundRobin(2), steps=8, callbacks=callbacks)
    assert seen == [(0, "done", 8), (1, "done", 8)]


def test_a_training_that_continues_is_not_restarted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = minimize(descend, SPACE, "2 trials", policy=Greedy(), steps=8)
    check_complete(result.history)
    assert parts_of(tmp_path) == [(0, 0, 0), (1, 0, 0)]


def test_without_a_checkpoint_a_training_is_stopped():
    answers = []

    def train(params, trial):
        assert trial.checkpoint is None
        for step in range(1, 9):
            answers.append(trial.report(step, params["lr"] ** step))
            if answers[-1] != "continue":
                return None
        return 0.0

    steps = Steps(8, first=2, resume="never")
    result = minimize(train, SPACE, "3 trials", policy=FirstRung(), steps=steps)
    assert answers == ["continue", "stop"] * 3
    assert [(t.state, t.step) for t in result.history] == [("paused", 2)] * 3
    assert result.best.value == min(trial.params["lr"] ** 2 for trial in result.history)


def test_a_training_that_ignores_the_answer_is_charged_and_its_value_counts():
    def train(params, trial):
        answers = {trial.report(step, float(9 - step)) for step in range(1, 9)}
        assert answers == {"pause"}
        return Outcome(0.5, cost=7.0)

    result = minimize(train, SPACE, "$10", policy=FirstRung(), steps=8, stop=None)
    assert {trial.state for trial in result.history} == {"done"}
    assert result.history[0].value == 0.5
    assert result.history[0].cost == {"usd": 7.0}
    assert result.ledger.spent == 7.0 * len(result.history)


def test_an_objective_of_the_parameters_alone_is_a_whole_training():
    result = minimize(lambda params: params["lr"], SPACE, "3 trials", policy=Random(), steps=8)
    assert [(t.state, t.step, t.value) for t in result.history] == [
        ("done", 8, trial.params["lr"]) for trial in result.history
    ]


def test_the_time_of_the_tuner_is_not_the_time_of_the_training(monkeypatch):
    """A suggestion at a rung is overhead."""
    clock = iter(range(10**6))
    monkeypatch.setattr("farthing.running.in_process.time.perf_counter", lambda: next(clock))
    answers = iter(["continue 2", "pause"])

    def on_report(message, usage):
        for _ in range(1000):
            next(clock)
        return next(answers)

    def train(params, trial):
        assert trial.report(1, 1.0) == "continue"
        assert trial.report(2, 1.0) == "pause"

    job = Job({"lr": 0.5}, 0, 0, part=Part(0, 1, 8))
    finished = InProcess(train).run(job, Allowance(1.0, lambda usage: None, on_report))
    assert finished.state == "paused"
    assert finished.usage.wall_s < 100


@pytest.mark.parametrize(
    ("step", "value", "wrong"),
    [
        *[(step, 1.0, f"step is {step}, expected a whole number from 1 to 8") for step in (0, 1.5)],
        *[(step, 1.0, f"step is {step!r}, expected a whole number") for step in (True, None, "1")],
        *[
            (1, value, f"the value at step 1 is {value!r}, expected a finite number")
            for value in (float("nan"), "abc", "1", None, [1], True)
        ],
    ],
)
def test_an_impossible_report_fails_the_trial(step, value, wrong):
    def train(params, trial):
        trial.report(step, value)

    result = minimize(train, SPACE, "1 trials", policy=FirstRung(), steps=8)
    assert result.history[0].state == "failed"
    assert f"InvalidInput: report(step, value): {wrong}" in result.history[0].error


@pytest.mark.parametrize(
    ("cost", "wrong"),
    [
        *[
            (cost, f"the cost is {cost!r}, expected what this part has cost since its start")
            for cost in (-1, float("nan"), "much", {"usd": -1.0}, {"usd": None}, [1])
        ],
        ({"foo": 1}, "the cost is in foo, but this study counts usd"),
    ],
)
def test_an_impossible_cost_fails_the_trial(cost, wrong, tmp_path):
    def train(params, trial):
        trial.report(1, 1.0, cost=cost)

    study = create(tmp_path, FirstRung(), "$10", stop=MaxTrials(1))
    study.run(train)
    assert study.history[0].state == "failed"
    assert f"InvalidInput: report(cost=...): {wrong}" in study.history[0].error


@pytest.mark.parametrize("budget", ["$10", "1 trials", "1h"])
def test_a_cost_may_have_further_resources(budget):
    def train(params, trial):
        for step in range(1, 9):
            trial.report(step, 1.0, cost={"usd": 0.5 * step, "kwh": 2.0})

    rule = {"policy": Greedy(), "stop": MaxTrials(1)}
    result = minimize(train, SPACE, budget, steps=8, **rule)
    assert result.history[0].state == "done"
    assert result.history[0].cost.get("usd") == (4.0 if "$" in budget else None)


def test_a_step_that_is_not_later_adds_nothing():
    def train(params, trial):
        for step in (1, 2, 2, 1, 3, 8, 9):
            trial.report(step, 1.0 / step)

    result = minimize(train, SPACE, "1 trials", policy=Greedy(), steps=8)
    assert [point.step for point in result.history[0].curve] == [1, 2, 3, 8]
    assert result.history[0].state == "done"


def test_a_training_does_not_return_what_it_was_told():
    def train(params, trial):
        return trial.report(1, 1.0)

    result = minimize(train, SPACE, "1 trials", policy=FirstRung(), steps=8)
    told = "the objective returned 'pause': expected a number or an Outcome(value, cost=...)"
    hint = "; after 'pause' or 'stop', return nothing"
    assert result.history[0].error == told + hint


def test_an_objective_that_takes_a_training_needs_steps(tmp_path):
    with pytest.raises(InvalidInput, match=r"descend\(params, trial\) cannot .* set steps="):
        minimize(descend, SPACE, "1 trials")
    study = create(tmp_path, Random(), steps=None)
    with pytest.raises(InvalidInput, match="set steps="):
        study.run(descend)


def test_which_objectives_take_a_training():
    assert takes_training(lambda params, trial: 0)
    assert takes_training(lambda params, trial=None: 0)
    assert takes_training(lambda params, training: 0)
    assert not takes_training(lambda params: 0)
    assert not takes_training(lambda params, verbose=True: 0)
    assert not takes_training(lambda *params: 0)
    assert not takes_training(lambda a, b, c: 0)
    assert not takes_training(min)


# ── a real training ──────────────────────────────────────────────────────────────────────────────


X = np.random.default_rng(0).standard_normal((60, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * np.random.default_rng(1).standard_normal(60)
RATES = {"lr": Float(1e-3, 0.2, log=True)}


def fit(params, trial):
    """Stochastic gradient descent; a step is an epoch."""
    file = trial.checkpoint / "weights.npz"
    weights, first = np.zeros(3), 1
    if file.exists():
        saved = np.load(file)
        weights, first = saved["weights"], int(saved["step"]) + 1
    for step in range(first, 17):
        for i in np.random.default_rng(step).permutation(len(Y)):
            weights = weights - params["lr"] * (X[i] @ weights - Y[i]) * X[i]
        loss = float(np.mean((X @ weights - Y) ** 2))
        if trial.report(step, loss) != "continue":
            np.savez(file, weights=weights, step=step)
            return


def curve_in_one(params):
    """The values of a training that is not paused."""
    whole = minimize(fit, RATES, "1 trials", policy=Random(), steps=16, start=dict(params))
    return [point.value for point in whole.history[0].curve]


def test_stochastic_gradient_descent_gives_the_same_curve_in_parts_as_in_one():
    in_parts = minimize(fit, RATES, "4 trials", policy=RoundRobin(4), steps=16)
    for trial in in_parts.history:
        assert trial.run.since == 8  # its last part began there
        assert [point.step for point in trial.curve] == list(range(1, 17))
        expected = curve_in_one(trial.params)
        assert [point.value for point in trial.curve] == pytest.approx(expected)
    assert len({trial.value for trial in in_parts.history}) == 4


def test_four_workers_share_real_trainings_by_the_default_policy(tmp_path):
    study = create(tmp_path, None, "12 trials", space=RATES, steps=Steps(16), cwd=str(tmp_path))
    study.run(fit, workers=4)
    assert study.ledger["trials"].spent == len(study.history) == 12
    states = [trial.state for trial in study.history]
    assert "done" in states
    assert set(states) <= {"done", "paused"}
    for trial in study.history:
        assert [point.step for point in trial.curve] == list(range(1, trial.step + 1))
        expected = curve_in_one(trial.params)[: trial.step]
        assert [point.value for point in trial.curve] == pytest.approx(expected)
        assert (trial.state == "done") == (trial.step == 16)
    assert len({trial.run.worker for trial in study.history}) > 1


# ── in their own processes ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_worker_pauses_and_resumes_functions(tmp_path, start):
    study = create(tmp_path, RoundRobin(2), "2 trials", cwd=str(tmp_path))
    study.run(CallableTask(descend, start=start))
    check_complete(study.history)
    parts = parts_of(tmp_path)
    assert [each[:2] for each in parts][:4] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert all(told == saved for _, told, saved in parts)
    assert all(trial.run.run_s > 0 for trial in study.history)


def test_several_workers_share_trainings(tmp_path):
    study = create(tmp_path, RoundRobin(3), "4 trials", cwd=str(tmp_path))
    study.run(descend, workers=2)
    check_complete(study.history)
    assert study.ledger["trials"].spent == 4
    assert len(study.history) == 4


PROGRAM = """
import json, os, sys
lr, mode = float(sys.argv[1]), sys.argv[2]
file = os.path.join(os.environ.get("FARTHING_CHECKPOINT", "."), "state.json")
step, value = json.load(open(file)) if os.path.exists(file) else (0, 1.0)
with open("parts", "a") as parts:
    parts.write(f"{os.environ['FARTHING_TRIAL']} {os.environ['FARTHING_STEP']} {step}\\n")
until = int(os.environ["FARTHING_UNTIL"])
def save():
    json.dump((step, value), open(file, "w"))
    sys.exit()
while step < 8:
    step, value = step + 1, value * lr
    print(json.dumps({"step": step, "value": value}), flush=True)
    if step >= until and step < 8 and mode == "exits":
        save()
    while step >= until and step < 8 and mode == "asks":
        answer = open(os.environ["FARTHING_CONTINUE"]).read().strip()
        if answer == "pause":
            save()
        until = int(answer)
    if mode == "plain" and step == 2 and os.path.exists("hold"):
        open("held", "w").close()
        while True:
            pass
"""


def program(tmp_path, mode):
    (tmp_path / "train.py").write_text(PROGRAM)
    return CommandTask([sys.executable, str(tmp_path / "train.py"), "{lr}", mode])


def test_a_program_that_exits_at_its_rung_is_resumed(tmp_path):
    study = create(tmp_path, RoundRobin(2), "2 trials", cwd=str(tmp_path))
    study.run(program(tmp_path, "exits"))
    check_complete(study.history)
    parts = parts_of(tmp_path)
    assert all(told == saved for _, told, saved in parts)
    assert sorted({each[:2] for each in parts}) == [(n, s) for n in (0, 1) for s in (0, 1, 2, 4)]


def test_a_program_that_reads_the_answers_continues_without_a_restart(tmp_path):
    study = create(tmp_path, Greedy(), "2 trials", cwd=str(tmp_path))
    study.run(program(tmp_path, "asks"))
    check_complete(study.history)
    assert parts_of(tmp_path) == [(0, 0, 0), (1, 0, 0)]
    study = Study.create(
        tmp_path / "other.db", name="other", space=SPACE, budget="2 trials", policy=RoundRobin(2),
        steps=8, grace=FOREVER, cwd=str(tmp_path),
    )  # fmt: skip
    (tmp_path / "parts").unlink()
    study.run(program(tmp_path, "asks"))
    check_complete(study.history)
    assert all(told == saved for _, told, saved in parts_of(tmp_path))
    assert len(parts_of(tmp_path)) > 2


def test_a_program_that_is_to_continue_is_left_alone(tmp_path):
    steps = Steps(8, resume="never")
    study = create(tmp_path, Greedy(), "2 trials", cwd=str(tmp_path), steps=steps)
    study.run(program(tmp_path, "plain"))
    check_complete(study.history)
    assert parts_of(tmp_path) == [(0, 0, 0), (1, 0, 0)]


def test_a_program_that_does_not_end_at_its_rung_is_ended(tmp_path):
    """It never ends by itself: only the end of its grace period ends it."""
    (tmp_path / "hold").touch()
    steps = Steps(8, rungs=(2,), resume="never")
    study = create(tmp_path, FirstRung(), "2 trials", cwd=str(tmp_path), steps=steps, grace=0.1)
    study.run(program(tmp_path, "plain"))
    assert [(t.state, t.step, t.error) for t in study.history] == [("paused", 2, None)] * 2
    assert all(trial.run.run_s > 0 for trial in study.history)


@pytest.mark.parametrize("last", [2, 8])
def test_what_a_paused_program_prints_at_its_end_does_not_complete_it(tmp_path, last):
    """Many programs print a result whenever they end. All lines are one write: none comes late."""
    lines = [{"step": step, "value": 1.0 / step} for step in range(1, last + 1)]
    printed = "".join(f"{json.dumps(line)}\n" for line in [*lines, {"value": 0.0625}])
    code = f"import os; os.write(1, {printed.encode()!r})"
    study = create(tmp_path, FirstRung(), "1 trials", steps=Steps(8, rungs=(2,)))
    study.run(CommandTask([sys.executable, "-c", code]))
    (trial,) = study.history
    assert (trial.state, trial.step) == (("paused", 2) if last == 2 else ("done", 8))


def test_the_cost_of_a_part_is_what_it_reports():
    def train(params, trial):
        for step in range(trial.step + 1, 9):
            if trial.report(step, 1.0, cost=0.5 * (step - trial.step)) != "continue":
                return

    stop = MaxTrials(2)
    result = minimize(train, SPACE, "$100", policy=Greedy(), steps=8, stop=stop)
    assert [(t.state, t.cost) for t in result.history] == [("done", {"usd": 4.0})] * 2
    assert [p.cost["usd"] for p in result.history[0].curve] == [0.5 * k for k in range(1, 9)]
    result = minimize(train, SPACE, "$8", policy=FirstRung(), steps=Steps(8, first=2))
    assert {(t.state, t.cost["usd"]) for t in result.history} == {("paused", 1.0)}
    assert result.ledger.spent == len(result.history)


def test_a_training_is_paused_if_the_database_does_not_answer(tmp_path, monkeypatch):
    study = create(tmp_path, Greedy(), "1 trials", cwd=str(tmp_path))

    def unreachable(told, waiting):
        raise Unreachable("the database does not answer")

    study.continue_trial = unreachable
    study.run(descend)
    (trial,) = study.history
    assert (trial.state, trial.step) == ("done", 8)  # each rung in a process of its own
    assert [each[:2] for each in parts_of(tmp_path)] == [(0, 0), (0, 1), (0, 2), (0, 4)]


def test_without_steps_progress_is_only_shown(tmp_path):
    code = 'import json\nfor k in (1, 2): print(json.dumps({"step": k, "value": 1.0 / k}))'
    study = create(tmp_path, Random(), "1 trials", steps=None)
    study.run(CommandTask([sys.executable, "-c", code]))
    (trial,) = study.history
    assert (trial.state, trial.value, trial.curve, trial.until) == ("done", 0.5, (), None)
    assert [(line["step"], line["value"]) for line in trial.run.reports] == [(1, 1.0), (2, 0.5)]


def test_a_failed_training_keeps_its_curve(tmp_path):
    def train(params, trial):
        trial.report(1, 0.5)
        trial.report(2, 0.25)
        raise ValueError("diverged")

    study = create(tmp_path, Random(), "1 trials")
    study.run(train)
    (trial,) = study.history
    assert (trial.state, trial.value) == ("failed", None)
    assert [point.value for point in trial.curve] == [0.5, 0.25]
    assert study.best.value == 0.25


def test_a_training_goes_on_after_the_death_of_its_process(tmp_path):
    """The whole run is killed in the second part. The next run continues from the checkpoint."""
    study = create(tmp_path, Greedy(), "1 trials", cwd=str(tmp_path), lease=1.0)
    study.close()
    release = tmp_path / "go"

    def train(params, trial):
        if trial.step == 1 and not release.exists():
            (tmp_path / "second").touch()
            wait_until(lambda: False)
        return descend(params, trial)

    def first_part(params, trial):
        file = trial.checkpoint / "state.json"
        trial.report(1, params["lr"])
        file.write_text(json.dumps((1, params["lr"])))
        return None

    one = Study.open(tmp_path / "study.db", "study", policy=FirstRung())
    one.run(first_part)
    assert (one.history[0].state, one.history[0].step) == ("paused", 1)
    one.close()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            Study.open(tmp_path / "study.db", "study", policy=Greedy()).run(train)
        finally:
            os._exit(0)
    assert wait_until((tmp_path / "second").exists)
    os.kill(child, 9)
    os.waitpid(child, 0)
    release.touch()
    later = Study.open(tmp_path / "study.db", "study", policy=Greedy())
    assert wait_until(lambda: not later.is_worked_on())
    assert (later.history[0].state, later.history[0].step) == ("paused", 1)
    later.run(train)
    check_complete(later.history)
    assert later.ledger.reserved == 0


def test_reports_that_are_rarer_than_rungs():
    """The first report comes after the rungs 1, 2 and 4, at which the policy could decide."""

    def train(params, trial):
        for step in (5, 10, 15, 20):
            if step > trial.step and trial.report(step, params["lr"] + 1 / step) != "continue":
                return

    result = minimize(train, RATES, "8 trials", steps=20, seed=1)
    assert len(result.history.done) >= 1
    assert {p.step for trial in result.history for p in trial.curve} <= {5, 10, 15, 20}


@pytest.mark.parametrize("value", ["best", "last"])
def test_without_checkpoints_the_whole_budget_is_used(value):
    """A training that has ended for good does not stand in the way of others like it."""

    def train(params, trial):
        loss = 1.0
        for step in range(1, 9):
            loss *= 1 - params["lr"] * (1 - params["lr"])
            if trial.report(step, loss, cost=step) != "continue":
                return

    steps = Steps(8, resume="never", value=value)
    result = minimize(train, {"lr": Float(0.01, 1.0)}, Budget(300, "u"), steps=steps)
    assert result.ledger.spent > 290
    assert result.best.value == pytest.approx(0.75**8, rel=0.01)


def test_a_training_that_does_not_read_its_checkpoint_is_reported_once(capfd):
    def train(params, trial):
        for step in range(1, 9):
            if trial.report(step, params["lr"] / step) != "continue":
                return

    minimize(train, SPACE, "2 trials", policy=RoundRobin(2), steps=8)
    said = capfd.readouterr().err
    assert "was resumed at step 2, but it has reported step 1 again" in said
    assert said.count("does not read its checkpoint") == 1


def test_a_folder_for_checkpoints_that_cannot_be_made_ends_the_run(tmp_path):
    (tmp_path / "file").touch()
    study = create(tmp_path, RoundRobin(2), logs=tmp_path / "file")
    with pytest.raises(InvalidInput, match=r"cannot be made: .* Choose another folder"):
        study.run(descend)
    assert study.history.running == ()


def test_a_training_that_reports_nothing_and_returns_nothing_fails():
    result = minimize(lambda params, trial: None, SPACE, "1 trials", steps=8)
    told = "the objective reported no step and returned None: call trial.report(step, value)"
    assert result.history[0].error.startswith(told)


def test_a_training_without_a_cost_is_told_how_to_report_it():
    def train(params, trial):
        trial.report(1, 1.0)

    result = minimize(train, SPACE, "$1", steps=8)
    assert "call trial.report(step, value, cost=...)" in result.stop_reason.sentence
