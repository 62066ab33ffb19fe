"""`farthing run --steps`: programs that can be resumed, and plain ones."""

import json
import subprocess
import sys

import pytest
from processes import is_alive

POLICY = """
from dataclasses import dataclass
from typing import ClassVar
from farthing.acquisition.protocols import Proposal

@dataclass(frozen=True)
class Two:
    needs: ClassVar = frozenset({"steps"})
    reads: ClassVar = frozenset()
    def propose(self, belief, rng):
        paused = belief.history.having("paused")
        if len(paused) < 2 and "trials" not in belief.ledger.used_up:
            until = belief.steps.decision_steps[0]
            return Proposal(belief.space.sample(1, rng)[0], "new", until=until)
        if not paused:
            return Proposal(None, "nothing is paused")
        trial = min(paused, key=lambda each: (each.step, each.number))
        until = belief.steps.next_rung(trial.step)
        return Proposal(trial.x, "behind", resume=trial.number, until=until)

@dataclass(frozen=True)
class Look:
    needs: ClassVar = frozenset({"steps"})
    reads: ClassVar = frozenset()
    def propose(self, belief, rng):
        return Proposal(belief.space.sample(1, rng)[0], "new", until=belief.steps.first)
"""
PROGRAM = """
import json, os, sys
file = os.path.join(os.environ.get("FARTHING_CHECKPOINT", "nowhere"), "step")
step = int(open(file).read()) if os.path.exists(file) else 0
assert step == int(os.environ["FARTHING_STEP"])
while step < 4:
    step += 1
    print(json.dumps({"step": step, "value": float(sys.argv[1]) / step}), flush=True)
    if sys.argv[2] == "resumable" and step == int(os.environ["FARTHING_UNTIL"]) < 4:
        with open(file, "w") as checkpoint:
            checkpoint.write(str(step))
        sys.exit()
"""

# It cannot save a checkpoint, so it goes on only in its own process.
WITHOUT_CHECKPOINTS = """
import json, os, sys, time
with open("started", "a") as file:
    file.write(f"{os.environ['FARTHING_TRIAL']} {os.getpid()}\\n")
assert "FARTHING_CHECKPOINT" not in os.environ
until = 1
for step in range(1, 5):
    print(json.dumps({"step": step, "value": float(sys.argv[1]) / step}), flush=True)
    while until <= step < 4:
        time.sleep(0.001)
        until = int(open(os.environ["FARTHING_CONTINUE"]).read())
"""


@pytest.fixture
def train(tmp_path):
    (tmp_path / "mine.py").write_text(POLICY)
    (tmp_path / "train.py").write_text(PROGRAM)
    return lambda kind: ["--", sys.executable, "train.py", "{x}", kind]


def trials(farthing):
    return json.loads(farthing("trials", "--format", "json").out)


def test_a_resumable_program_is_run_in_parts(farthing, train):
    options = ["--steps", "4", "--policy", "mine:Two", "--trust", "--param", "x=float:1:2"]
    result = farthing("run", "--budget", "2 trials", *options, *train("resumable"))
    assert result.code == 0, result.err
    found = trials(farthing)
    assert [(trial["state"], trial["step"]) for trial in found] == [("done", 4)] * 2
    for trial in found:
        assert [point["step"] for point in trial["curve"]] == [1, 2, 3, 4]
        assert trial["value"] == pytest.approx(trial["params"]["x"] / 4)
    assert "paused at step 1" in result.out
    assert "paused at step 2" in result.out


def test_a_program_without_checkpoints_is_suspended(farthing, train, tmp_path):
    (tmp_path / "train.py").write_text(WITHOUT_CHECKPOINTS)
    options = ["--steps", "4", "--resume", "suspend", "--policy", "mine:Two", "--trust"]
    space = ["--param", "x=float:1:2", "--budget", "2 trials"]
    result = farthing("run", *options, *space, *train("plain"))
    assert result.code == 0, result.err
    started = [line.split() for line in (tmp_path / "started").read_text().splitlines()]
    assert [number for number, _ in started] == ["0", "1"]  # none has started again
    assert not any(is_alive(int(pid)) for _, pid in started)
    for trial in trials(farthing):
        assert (trial["state"], trial["step"]) == ("done", 4)
        assert [point["step"] for point in trial["curve"]] == [1, 2, 3, 4]
        assert trial["value"] == pytest.approx(trial["params"]["x"] / 4)
    assert "paused at step 2" in result.out


def test_a_plain_program_is_run_as_a_whole_by_other_policies(farthing, train):
    options = ["--steps", "4", "--resume", "never", "--policy", "random", "--param", "x=float:1:2"]
    result = farthing("run", "--budget", "2 trials", *options, *train("plain"))
    assert result.code == 0, result.err
    assert [(trial["state"], trial["step"]) for trial in trials(farthing)] == [("done", 4)] * 2
    csv = farthing("trials", "--format", "csv").out.splitlines()
    assert csv[0].endswith(",step,curve")
    head, *rows = farthing("export", "--curves").out.splitlines()
    assert head.startswith("number,step,value")
    points = [
        (each["number"], point["step"], point["value"])
        for each in trials(farthing)
        for point in each["curve"]
    ]
    read = [(int(n), int(s), float(v)) for n, s, v in (row.split(",")[:3] for row in rows)]
    assert read == points
    file = json.loads(farthing("export", "--curves", "--format", "json").out)
    assert [(each["number"], each["step"], each["value"]) for each in file] == points


def test_a_paused_training_is_listed_with_its_step(farthing, train):
    options = ["--steps", "4", "--policy", "mine:Look", "--trust", "--param", "x=float:1:2"]
    farthing("run", "--budget", "2 trials", *options, *train("resumable"))
    head, *rows = farthing("trials").out.splitlines()
    assert head.split()[:5] == ["trial", "state", "value", "step", "last"]
    for row in rows:
        assert row.split()[1] == "paused"
        assert row.split()[3] == "1"
        assert row.split()[2] == row.split()[4]  # after one step the last value is the best
    assert farthing("best").code == 0
    assert "2 paused" in farthing("status").out
    assert "6 of 8 steps not run, by pausing 2 trainings" in farthing("status").out
    assert json.loads(farthing("status", "--format", "json").out)["saved"]["steps"] == 6
    words = farthing("explain", "0").out
    assert "steps 0 to 1" in words
    assert "paused: instead, " in words
    assert "to step 2" in words
    assert [t["number"] for t in trials(farthing)] == [0, 1]
    paused = json.loads(farthing("trials", "--state", "paused", "--format", "json").out)
    assert len(paused) == 2


def test_the_program_must_report_its_own_steps(farthing, train):
    result = farthing("run", "--resume", "never", "--budget", "1 trials", "--param", "x=float:1:2",
                      *train("plain"))  # fmt: skip
    assert result.code == 2
    assert "--resume never has no effect without steps" in result.err


FITS = """
import json, os, random, sys
lr, kind = float(sys.argv[1]), sys.argv[2]
file = os.path.join(os.environ.get("FARTHING_CHECKPOINT", "nowhere"), "model.json")
step, weight = json.load(open(file)) if os.path.exists(file) else (0, 0.0)
draws = random.Random(0)
data = [(x, 2.0 * x + draws.gauss(0.0, 0.1)) for x in (draws.gauss(0.0, 1.0) for _ in range(50))]
while step < 16:
    step += 1
    for x, y in data:
        weight -= lr * (weight * x - y) * x
    loss = sum((weight * x - y) ** 2 for x, y in data) / len(data)
    print(json.dumps({"step": step, "value": loss}), flush=True)
    if kind == "resumable" and step >= int(os.environ["FARTHING_UNTIL"]) and step < 16:
        json.dump((step, weight), open(file, "w"))
        sys.exit()
"""


def losses(lr):
    """The curve of a training by FITS that is not interrupted."""
    command = [sys.executable, "-c", FITS, str(lr), "plain"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line)["value"] for line in lines]


@pytest.mark.parametrize(("kind", "resume"), [("resumable", "checkpoint"), ("plain", "never")])
def test_a_real_training_is_tuned_by_the_default_policy(farthing, tmp_path, kind, resume):
    (tmp_path / "train.py").write_text(FITS)
    options = ["--steps", "16", "--resume", resume, "--param", "lr=float:1e-5:1e-2:log"]
    program = ["--", sys.executable, "train.py", "{lr}", kind]
    result = farthing("run", "--budget", "12 trials", *options, *program)
    assert result.code == 0, result.err
    found = trials(farthing)
    assert len(found) == 12
    assert any(trial["state"] == "done" for trial in found)
    for trial in found:
        curve = [point["value"] for point in trial["curve"]]
        assert curve == pytest.approx(losses(trial["params"]["lr"])[: len(curve)])
        assert (trial["state"] == "done") == (len(curve) == 16)
    best = min(point["value"] for trial in found for point in trial["curve"])
    assert json.loads(farthing("best", "--format", "json").out)["value"] == pytest.approx(best)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--steps", "0"], "--steps 0: expected a whole number of steps"),
        (["--steps", "9,3"], "--steps 9,3: expected ascending whole numbers"),
        (["--steps", "8", "--first-step", "9"], "--first-step 9: expected at most the last step"),
        (["--steps", "8", "--resume", "nver"], "--resume nver: expected"),
        (["--steps", "8", "--checkpoints", "2XB"], "--checkpoints 2XB: expected a size"),
        (["--steps", "8", "--suspended", "3"], "--suspended 3 has no effect without --resume susp"),
    ],
)
def test_an_error_names_the_option_as_it_was_given(farthing, train, options, said):
    result = farthing("run", "--budget", "1m", "--param", "x=float:1:2", *options, *train("plain"))
    assert result.code == 2
    assert result.err.startswith(f"Error: {said}")


def test_a_cost_is_to_be_printed_with_each_step(farthing, train):
    options = ["--steps", "4", "--budget", "$5", "--param", "x=float:1:2"]
    result = farthing("run", *options, *train("resumable"))
    assert '{"step": 3, "value": 0.31, "cost": {"usd": 0.12}}' in result.err


def test_the_best_trials_include_paused_ones(farthing, train):
    options = ["--steps", "4", "--policy", "mine:Look", "--trust", "--param", "x=float:1:2"]
    farthing("run", "--budget", "2 trials", *options, *train("resumable"))
    best = json.loads(farthing("best", "--format", "json").out)
    listed = json.loads(farthing("trials", "--best", "1", "--format", "json").out)
    assert [each["number"] for each in listed] == [best["number"]]
