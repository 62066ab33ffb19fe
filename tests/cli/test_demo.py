"""`farthing demo`: the network that it tunes, what it prints, and the commands that it proposes."""

import json
import re
import shlex
import sys

import numpy as np
import pytest

import farthing.cli.demo
from farthing import Study
from farthing.cli.demo import _short, _shown
from farthing.cli.digits import SPACE, Digits, _gradients, _trained, drawn, load, reader

TWO = ["demo", "--budget", "9m, 2 trials"]


def few(n):
    """Images and labels in double precision."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 5)), rng.integers(10, size=n)


def cross_entropy(weights, images, labels):
    """The mean over the images, one image and one layer at a time."""
    total = 0.0
    for image, label in zip(images, labels, strict=True):
        output = image
        for number, W in enumerate(weights):
            output = np.array([output @ W[:-1, j] + W[-1, j] for j in range(W.shape[1])])
            if number < len(weights) - 1:
                output = np.where(output > 0, output, 0.0)
        total += np.log(np.exp(output).sum()) - output[label]
    return total / len(labels)


def test_gradients_are_those_of_the_cross_entropy():
    images, labels = few(7)
    rng = np.random.default_rng(2)
    weights = [rng.normal(size=shape) for shape in [(6, 4), (5, 3), (4, 10)]]
    for W, gradient in zip(weights, _gradients(weights, images, labels), strict=True):
        for place in np.ndindex(W.shape):
            before, slope = W[place], []
            for change in (1e-6, -1e-6):
                W[place] = before + change
                slope.append(cross_entropy(weights, images, labels))
            W[place] = before
            assert gradient[place] == pytest.approx((slope[0] - slope[1]) / 2e-6, abs=1e-7)


def test_training_is_adam():
    images, labels = few(40)  # one batch, so an epoch is a step
    params = {"width": 6, "layers": 2, "epochs": 0, "rate": 0.01}
    weights = [W.astype(float) for W in _trained(images, labels, params)]
    assert [W.shape for W in weights] == [(6, 6), (7, 6), (7, 10)]
    means, squares = ([0.0] * 3 for _ in range(2))
    for t in range(1, 6):  # Kingma and Ba 2015, algorithm 1, as it is written
        for i, g in enumerate(_gradients(weights, images, labels)):
            means[i] = 0.9 * means[i] + 0.1 * g
            squares[i] = 0.999 * squares[i] + 0.001 * g**2
            mean, square = means[i] / (1 - 0.9**t), squares[i] / (1 - 0.999**t)
            weights[i] = weights[i] - 0.01 * mean / (np.sqrt(square) + 1e-8)
    for W, expected in zip(_trained(images, labels, {**params, "epochs": 5}), weights, strict=True):
        np.testing.assert_allclose(W, expected, atol=2e-4)


def test_a_network_learns_the_digits_and_a_longer_training_helps():
    measured = reader(drawn())
    short, long = (
        measured({"width": 64, "layers": 1, "epochs": epochs, "rate": 0.01}) for epochs in (1, 15)
    )
    assert 0 < long < 30 < short <= 100  # guessing misreads 90 %


def test_the_percentage_is_of_digits_that_the_network_has_not_seen():
    rng = np.random.default_rng(0)
    noise = Digits(rng.normal(size=(500, 64)).astype(np.float32), rng.integers(10, size=500), "")
    value = reader(noise)({"width": 256, "layers": 1, "epochs": 40, "rate": 0.01})
    assert value > 75  # it knows the training digits by heart, but noise has nothing to learn


def test_drawn_digits_differ_from_each_other():
    digits = drawn()
    assert digits.images.shape == (len(digits.labels), 64)
    bright = [digits.images[digits.labels == k].sum(axis=1).mean() for k in range(10)]
    assert min(bright) == bright[1]
    assert max(bright) == bright[8]
    first = [digits.images[digits.labels == k].mean(axis=0) for k in range(10)]
    assert all(np.abs(first[i] - first[j]).max() > 0.1 for i in range(10) for j in range(i))


def test_without_scikit_learn_the_digits_are_drawn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert load().source == "drawn digits"


@pytest.mark.slow
def test_with_scikit_learn_they_are_handwritten():
    pytest.importorskip("sklearn")
    digits = load()
    assert digits.source == "handwritten digits"
    assert digits.images.shape == (1797, 64)
    assert (digits.images.min(), digits.images.max()) == (0, 1)


@pytest.fixture
def without_sklearn(farthing, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    return farthing


@pytest.mark.slow
def test_the_demo_says_what_it_does_and_the_commands_that_it_proposes_work(farthing, tmp_path):
    code, out, err = farthing(*TWO)
    assert (code, err) == (0, "")
    assert "The budget for all trials is 9 m 00 s, 2 trials." in out
    first = re.search(r"^trial 0 +[\d.]+ % misread, +[\d.]+ m?s of training  width=", out, re.M)
    assert first is not None
    best = re.search(r"^best: +[\d.]+ % of the test digits are misread, in trial (\d)$", out, re.M)
    assert best is not None
    assert re.search(r"^cost: +[\d.]+ m?s of training in 2 trials, from .* to .* each", out, re.M)
    assert re.search(r"^stopped: +after .*: the budget of 2 trials is spent$", out, re.M)
    assert re.search(r"^more time: .*expected to be worth (its|their) time$", out, re.M)
    for jargon in ("Gittins", "objective", "incumbent", "posterior", "overhead", "log"):
        assert jargon not in out.partition("Try next")[0]
    assert {path.name for path in tmp_path.iterdir()} <= {
        "farthing-demo.db",
        "farthing-demo.db-logs",
    }

    commands = out.partition("Try next:")[2].replace("\\\n", " ").splitlines()
    report, explain, run = (shlex.split(line)[1:] for line in commands if line.startswith("  "))
    assert farthing(*report).code == 0
    assert (tmp_path / "farthing-demo.html").stat().st_size > 10_000
    explained = farthing(*explain)
    assert explained.code == 0
    assert f"trial: {best[1]}" in re.sub(" +", " ", explained.out)
    run[run.index("--budget") + 1] = "9m, 1 trials"
    tuned = farthing(*run)
    assert (tuned.code, tuned.err) == (0, "")
    assert re.search(r"^trial 0: [\d.]+ for ", tuned.out, re.M)


@pytest.mark.slow
def test_every_demo_is_a_new_study_and_a_name_resumes_one(without_sklearn):
    for name in ("demo", "demo-2"):
        assert f" report {name} " in without_sklearn(*TWO).out
    assert Study.names("farthing-demo.db") == ["demo", "demo-2"]
    again = without_sklearn("demo", "--budget", "9m, 3 trials", "--name", "demo-2", "--quiet")
    assert again.code == 0
    assert again.out.startswith("best: ")
    assert " in 3 trials" in again.out
    assert "Try next" not in again.out


@pytest.mark.slow
def test_the_demo_stops_when_no_trial_is_worth_its_time(without_sklearn, monkeypatch):
    monkeypatch.setattr(farthing.cli.demo, "WORTH", "1 = 1ms")
    out = without_sklearn("demo", "--budget", "9m").out
    assert re.search(r"^stopped: .*: no further trial is expected to be worth its time$", out, re.M)
    saved = re.search(r"^saved: +(\d) m \d\d s of the budget$", out, re.M)
    assert saved is not None
    assert int(saved[1]) < 9
    assert "more time:" not in out


@pytest.mark.slow
def test_a_demo_without_a_result_says_why(without_sklearn):
    code, out, err = without_sklearn("demo", "--budget", "1ms")
    assert code == 1
    assert re.search(r"^stopped: ", out, re.M)
    assert "best:" not in out
    assert "Try next" not in out
    assert err.startswith("No trial succeeded.")


@pytest.mark.parametrize("budget", ["3 trials", "$5", "1m, $5"])
def test_the_demo_spends_time(farthing, budget):
    code, out, err = farthing("demo", "--budget", budget)
    assert (code, out) == (2, "")
    advice = "the demo spends time. Write for example 30s or 2m."
    assert err == f"Error: --budget {budget!r}: {advice}\n"


def test_the_commands_never_show_a_password():
    assert _shown("postgresql://me:secret@host/db") == '"$FARTHING_STORAGE"'
    assert _shown("my study.db") == "'my study.db'"


def test_programs_are_called_as_the_shell_finds_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside, other = tmp_path / "bin" / "farthing", tmp_path / "elsewhere" / "farthing"
    for each in (inside, other):
        each.parent.mkdir()
        each.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert _short("bin/farthing", "farthing") == "bin/farthing"
    assert _short(str(other), "farthing") == "farthing"
    assert _short("-c", "farthing") == "farthing"
    monkeypatch.chdir(inside.parent)
    monkeypatch.setenv("PATH", "")
    assert _short(str(other), "farthing") == str(other)


def test_the_space_has_the_parameters_of_the_program():
    from farthing.cli.digits import main

    assert {option.name for option in main.params} == set(SPACE.names)
    assert SPACE.names


def test_the_program_prints_its_result_in_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    from farthing.cli.digits import main

    main(["--width", "16", "--epochs", "1"], standalone_mode=False)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line).keys() == {"value"}
