"""The evidence on priors for a dozen evaluations."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from benchmarks.evidence import priors, priors_fit, replay
from benchmarks.evidence.priors import ARMS, Variant, clip_tail, main, patched, table_of
from benchmarks.evidence.priors_kernel import (
    AdditiveGP,
    Priors,
    negative_posterior,
    posterior,
    present,
    using,
)
from benchmarks.problems import tables
from benchmarks.problems.problem import Evaluation, Problem
from farthing import Categorical, Float, Space
from farthing.models import gp
from farthing.models.kernel import columns, embed
from farthing.policies import gittins

needs_tables = pytest.mark.skipif(
    not (tables.data_folder() / "yahpo_rbv2_rpart").is_dir(),
    reason="needs the tables of ../shared/data",
)
OPTIONS = np.array([0, 0, 3, 0, 2])
NUMBERS = OPTIONS == 0
BOTH = [present(noisy=noisy, additive=True) for noisy in (False, True)]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((14, 5))
    return X, np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + (X[:, 2] > 0.3)


@pytest.fixture
def model(rows):
    with using(*BOTH):
        return gp.fit(*rows, options=OPTIONS, clip=False)


# ── the kernel ─────────────────────────────────────────────────────────────────────────────────


def test_the_gradient_of_the_posterior_of_hyperparameters(rows):
    X, y = rows
    how = embed(X, OPTIONS), columns(OPTIONS), gp.standardise(y)[0], BOTH[0]
    theta = np.random.default_rng(1).normal(0.0, 0.5, 8)
    differences = approx_fprime(theta, lambda t: negative_posterior(t, *how)[0], 1e-6)
    assert negative_posterior(theta, *how)[1] == pytest.approx(differences, abs=1e-4)


def test_the_gradients_of_the_prediction(model):
    X = np.random.default_rng(2).random((4, 5))
    normal, d_mean, d_std = model.slopes(X)
    assert normal.mean == pytest.approx(model.at(X).mean, abs=1e-12)
    for j in np.flatnonzero(NUMBERS):
        step = 1e-6 * np.eye(5)[j]
        up, down = model.at(X + step), model.at(X - step)
        assert d_mean[:, j] == pytest.approx((up.mean - down.mean) / 2e-6, abs=1e-6)
        assert d_std[:, j] == pytest.approx((up.std - down.std) / 2e-6, abs=1e-6)
    assert not d_mean[:, ~NUMBERS].any()


def test_a_new_row_gives_the_posterior_of_all_rows(rows, model):
    X, y = rows
    new = np.random.default_rng(3).random((3, 5))
    targets = (np.append(y, [1.0, 1.0, 2.0])[:, None] - model.shift) / model.scale
    how = {"options": OPTIONS, "shift": model.shift, "scale": model.scale}
    whole = posterior(np.vstack([X, new]), targets, model.hyper, **how)
    grown = model.condition_all(new, np.array([[1.0], [1.0], [2.0]]))
    at = np.random.default_rng(4).random((5, 5))
    assert grown.at(at).mean == pytest.approx(whole.at(at).mean, abs=1e-9)
    assert grown.covariance(at) == pytest.approx(whole.covariance(at), abs=1e-9)
    assert isinstance(grown, AdditiveGP)


def test_without_the_additive_part_it_is_the_process_of_the_library(rows):
    X, y = rows
    alone = [present(noisy=noisy, additive=False) for noisy in (False, True)]
    for noisy in (False, True):
        with using(*alone):
            without = gp.fit(X, y, options=OPTIONS, noisy=noisy)
        usual = gp.fit(X, y, options=OPTIONS, noisy=noisy)
        assert type(usual) is gp.GP
        assert without.at(X[:3] + 0.01).mean == pytest.approx(usual.at(X[:3] + 0.01).mean, rel=1e-6)


def test_an_additive_function_has_a_larger_share():
    X = np.random.default_rng(5).random((40, 4))
    shares = []
    for y in (np.sin(7.0 * X).sum(axis=1), np.sin(7.0 * X.sum(axis=1))):
        with using(*BOTH):
            shares.append(gp.fit(X, y).share)
    assert shares[0] > 0.5 > shares[1]


# ── the fit of the priors ──────────────────────────────────────────────────────────────────────


def test_mean_and_spread_of_hyperparameters_count_families_alike():
    many, few = (np.full(30, 1.0), np.full(30, 0.5)), (np.full(2, 3.0), np.full(2, 0.5))
    mean, sd = priors_fit._normal([many, few], in_log=False)
    assert (mean, sd) == (2.0, pytest.approx(np.sqrt(1.5), abs=1e-3))
    assert priors_fit._normal([many, few])[0] == pytest.approx(2.0 + 1.5)


def test_a_family_is_left_out_of_its_priors(monkeypatch):
    used = set()

    def sample(task, count, seed):
        used.add(task.partition("/")[0])
        problem = SimpleNamespace(space=SimpleNamespace(options=np.zeros(3, dtype=np.int64)))
        return problem, np.zeros((9, 3)), np.arange(9.0), np.arange(9.0)

    monkeypatch.setattr(priors_fit, "sample", sample)
    found = [np.array([*[-1.0] * 3, 0.5, 0.2, -6.0]), np.full(6, 0.25)]
    monkeypatch.setattr(priors_fit, "_laplace", lambda *how: found)
    objective, cost = priors_fit.fitted_without("lcbench")
    assert used == {name.partition("/")[0] for name in tables.names()} - {"lcbench"}
    sd = 0.5
    assert objective == cost == Priors((-0.75, sd), (0.45, sd), (-5.75, sd), (0.5, sd))


# ── methods and runs ───────────────────────────────────────────────────────────────────────────


def test_the_tail_is_clipped_above_the_median():
    y = np.array([0.0, 1.0, 2.0, 3.0, 100.0])
    assert clip_tail(y).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def problem_of(at):
    space = Space({"x": Float(0.0, 1.0), "kind": Categorical(["a", "b"])})
    return Problem("family/made", space, at, 2.0, 2.0)


def test_each_factor_changes_what_it_names(monkeypatch):
    problem = problem_of(lambda params: Evaluation(np.exp(params["x"]), 2.0))
    monkeypatch.setattr(priors, "values_of", lambda name: np.array([1.0]))
    usual = gp.clip_outliers, gittins._first_worth
    with patched(ARMS["prototype"], problem):
        assert gp.clip_outliers is clip_tail
        belief = SimpleNamespace(scale=3.0)
        assert gittins._first_worth(belief) == pytest.approx(0.1 * 3.0 / 2.0)
    assert (gp.clip_outliers, gittins._first_worth) == usual
    first = {}
    for method in ("default", "+ start", "+ transform"):
        made = Variant(problem, ARMS[method], 30.0, 0)
        first[method] = made.ask()
        made.tell(first[method], problem.at(first[method]))
        value = made.optimizer.history[0].value
        told = np.exp(first[method]["x"])
        assert value == pytest.approx(np.log(told) if method == "+ transform" else told)
    assert first["default"]["x"] == first["+ transform"]["x"] == 0.5 != first["+ start"]["x"]


def test_the_tables_say_who_wins():
    runs = {
        (task, method, 15.0, seed): {"better": share}
        for task in ("lcbench/a", "lcbench/b", "deepar/c")
        for seed in range(20)
        for method, share in (("default", 50.0), ("+ start", 25.0), ("prototype", 100.0))
    }
    text = "\n".join(table_of(runs))
    assert "| + start | 25 | 25 | default | 100 % [94, 100] | 60 |" in text
    assert "| prototype | 1e+02 | 1e+02 | default | 0 % [0, 6] | 60 |" in text


def test_an_unknown_method_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main(["--methods", "+ luck"])
    assert "unknown method '+ luck'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--family", "lcbanch"])
    assert "no family 'lcbanch': expected lcbench, " in capsys.readouterr().err


@needs_tables
@pytest.mark.slow
def test_a_run_of_the_default_is_a_replay(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(priors, "RESULTS", tmp_path / "runs.jsonl")
    task = "nats_tss/cifar100"
    monkeypatch.setattr(tables, "names", lambda **how: [task])
    assert main(["--seeds", "1", "--budgets", "5", "--methods", "default;+ additive"]) == 0
    assert "2/2 runs" in capsys.readouterr().out
    kept = [json.loads(line) for line in priors.RESULTS.read_text().splitlines()]
    assert [each["method"] for each in kept] == ["default", "+ additive"]
    replayed = replay.attempt(replay.job_of(task, "PBGI", 0, 5.0), None)
    assert kept[0]["trials"] == len(replayed.values)
    assert kept[0]["best"][-1][1] == pytest.approx(
        min(value for value in replayed.values if value is not None), rel=1e-6
    )
    assert main(["--kept"]) == 0
    assert "| default |" in capsys.readouterr().out
