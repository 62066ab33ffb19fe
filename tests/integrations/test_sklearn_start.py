"""BudgetSearchCV: the start of a search, in which costs are unknown and fits cannot be killed."""

from contextlib import nullcontext

import numpy as np
import pytest
from integrations.fits import Sleeps, Trees, clock_of_fits
from joblib.externals.loky.process_executor import TerminatedWorkerError
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris

from farthing import Categorical, Float, Int, Ordinal, Space
from farthing.cost import Evidence
from farthing.integrations.sklearn import BudgetSearchCV
from farthing.integrations.sklearn_cost import FitCost
from farthing.integrations.sklearn_fits import Fits
from farthing.integrations.sklearn_start import ends, with_cheap_integers
from farthing.stopping import MaxTrials

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def clock(monkeypatch):
    return clock_of_fits(monkeypatch)


def killable(monkeypatch, clock):
    """Fits that end after the seconds that they are allowed."""
    run = Fits.run

    def run_for(self, fits, seconds):
        self.killed = False
        if all(clone(self.estimator).set_params(**f.params).seconds <= seconds for f in fits):
            return run(self, fits, seconds)
        clock.sleep(seconds)
        self.killed = True
        return [None] * len(fits)

    monkeypatch.setattr(Fits, "run", run_for)


def searched(estimator, space, budget, **settings):
    return BudgetSearchCV(estimator, space, budget, cv=5, refit=False, **settings).fit(X, Y)


def assert_well_spent(search, budget):
    """Whether a budget of seconds was kept and used, and bought a complete candidate."""
    ledger, states = search.result_.ledger, search.cv_results_["state"]
    assert 0.5 * budget <= ledger.spent <= 1.3 * budget
    assert (states == "done").sum() >= 2


# ── integers ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(5))
def test_the_first_candidate_has_few_trees(clock, seed):
    """A fold of the middle takes 2 s of 10 s, and one of the most expensive candidate takes 4 s."""
    search = searched(Trees(), {"n": Int(10, 2000)}, "10s", random_state=seed, n_iter=8)
    trees = [params["n"] for params in search.cv_results_["params"]]
    assert trees[0] < 300
    assert trees[1] == 10  # five folds of the first one cost more than a tenth of the budget
    assert max(trees) * 0.002 < 3.0
    assert_well_spent(search, 10.0)


def test_the_cheapest_candidate_is_completed_first(clock, monkeypatch):
    """Then there is a result, whatever the others cost."""
    ran, run = [], Fits.run

    def noted(self, fits, seconds):
        ran.extend((fit.params["n"], fit.fold) for fit in fits)
        return run(self, fits, seconds)

    monkeypatch.setattr(Fits, "run", noted)
    search = searched(Trees(), {"n": Int(10, 2000)}, "10s", random_state=0, n_iter=4)
    complete = [n for n, fold in ran if fold == 4]
    assert len(complete) >= 2
    assert complete[0] == min(params["n"] for params in search.cv_results_["params"])


def test_integers_raise_the_cost_unless_declared():
    given = {
        "a": Int(1, 9),
        "b": Int(1, 9, cost="decreases"),
        "c": Ordinal([1, 10, 100], log=True),
        "d": Ordinal([0.1, 0.2]),
        "e": Float(0, 1),
        "f": Categorical(["x", "y"]),
    }
    space = with_cheap_integers(Space(given))
    slopes = [getattr(parameter, "cost", None) for parameter in space.parameters.values()]
    assert slopes == ["increases", "decreases", "increases", None, None, None]
    table = Space.from_rows([{"a": 1}, {"a": 2}])
    assert with_cheap_integers(table) is table


# ── ends of the space ──────────────────────────────────────────────────────────────────────────


def test_the_ends_of_a_space():
    space = Space(
        {
            "up": Float(1, 2, cost="increases"),
            "down": Float(1, 2, cost="decreases"),
            "number": Int(1, 9),
            "option": Categorical(["a", "b"]),
        }
    )
    x = space.encode({"up": 1.5, "down": 1.5, "number": 5, "option": "b"})
    low, high = (space.decode(end) for end in ends(space, x))
    assert low == {"up": 1.0, "down": 2.0, "number": 1, "option": "b"}
    assert high == {"up": 1.0, "down": 2.0, "number": 9, "option": "b"}


@pytest.mark.parametrize("seed", range(5))
def test_the_other_end_is_tried_if_the_low_one_is_not_cheaper(clock, seed):
    """The cost falls with the number: 4 s a fold at the low end, 0.6 s in the middle, 0.1 s."""
    space = {"leaves": Float(1.0, 40.0, log=True)}
    search = searched(Trees(n=2000), space, "12s", random_state=seed, n_iter=12)
    leaves = [params["leaves"] for params in search.cv_results_["params"]]
    assert leaves[1:3] == [1.0, 40.0]
    assert_well_spent(search, 12.0)


@pytest.mark.parametrize("seed", range(5))
def test_an_expensive_first_candidate_does_not_condemn_the_others(clock, seed):
    """2.6 s of 4 s for the first fold; others are fifty times cheaper."""
    space = {"seconds": Float(0.01, 6.76, log=True)}
    search = searched(Sleeps(), space, "4s", random_state=seed, start={"seconds": 2.6}, n_iter=8)
    assert search.cv_results_["state"][0] == "killed"
    assert search.cv_results_["params"][1] == {"seconds": 0.01}
    assert "done" in search.cv_results_["state"]
    assert search.best_params_["seconds"] < 0.3


def test_ends_are_left_out_if_the_user_stops_or_chooses(clock):
    space = {"seconds": Float(0.01, 6.76, log=True)}
    for one in ({"stop": MaxTrials(1)}, {"n_iter": 1}):
        search = searched(Sleeps(), space, "4s", start={"seconds": 0.5}, random_state=0, **one)
        assert list(search.cv_results_["state"]) == ["done"]
    started = [{"seconds": 0.5}, {"seconds": 0.4}, {"seconds": 0.3}]
    given = searched(Sleeps(), space, "4s", start=started, n_iter=3, random_state=0)
    assert given.cv_results_["params"] == started
    known = searched(
        Sleeps(), space, {"kWh": 4}, cost=lambda params: params["seconds"], n_iter=4, random_state=0
    )
    assert {"seconds": 0.01} not in known.cv_results_["params"]


# ── between folds ──────────────────────────────────────────────────────────────────────────────


def test_the_first_candidate_is_given_up_between_folds(clock):
    """The middle of the space costs 5 x 2.5 s of 2 s: after one fold it is given up."""
    start = clock.now
    with pytest.warns(UserWarning, match="No candidate has all 5 folds"):
        search = searched(Sleeps(), {"seconds": Float(0.01, 5.0)}, "2s", random_state=0)
    assert search.cv_results_["n_folds"][0] == 1
    assert clock.now - start < 2.6 + 0.1  # the fold that was running, not five of them
    assert search.best_params_ == search.cv_results_["params"][0]
    assert search.best_score_ == search.cv_results_["split0_test_score"][0]


@pytest.mark.parametrize(("budget", "first"), [("5.5s", "done"), ("6.5s", "paused")])
def test_a_candidate_that_leaves_nothing_for_another_one_is_completed(clock, budget, first):
    """All candidates cost 1 s a fold, so the first one must be completed, or another one."""
    space = {"seconds": Float(1.0, 1.01)}
    search = searched(Sleeps(), space, budget, random_state=0)
    assert search.cv_results_["state"][0] == first
    assert list(search.cv_results_["state"]).count("done") == 1


def test_a_candidate_that_leaves_enough_for_a_cheap_one_is_not_completed_at_once(clock):
    """The first one, 0.42 s a fold of 2.2 s, would leave 0.1 s; ten trees take 0.02 s a fold."""
    search = searched(Trees(), {"n": Int(10, 2000)}, "2.2s", random_state=0)
    assert [params["n"] for params in search.cv_results_["params"]][:2] == [209, 10]
    assert search.cv_results_["state"][1] == "done"
    assert (search.cv_results_["state"] == "done").sum() >= 2


# ── kills ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(5))
def test_candidates_that_can_be_killed_are_killed_at_their_caps(clock, monkeypatch, seed):
    """A third of the budget for the first one, then a tenth at the ends."""
    killable(monkeypatch, clock)
    space = {"leaves": Float(0.01, 4.0, log=True)}  # 50 s a fold, 2.5 s in the middle, 0.125 s
    search = searched(Trees(n=250), space, "6s", random_state=seed, n_iter=8)
    results = search.cv_results_
    assert list(results["state"][:3]) == ["killed", "killed", "done"]
    assert list(results["n_folds"][:2]) == [0, 0]
    assert results["cost"][:2] == pytest.approx([2.0, 0.6])
    assert search.result_.ledger.spent <= 6.0 + 0.02


def test_the_start_of_processes_after_a_kill_is_not_charged(clock, monkeypatch):
    started = []

    def start(self):
        started.append(clock.now)
        clock.sleep(100.0)

    killable(monkeypatch, clock)
    monkeypatch.setattr(Fits, "start", start)
    space = {"seconds": Float(0.001, 4.2)}  # the middle exceeds a third of the budget
    search = searched(Sleeps(), space, "6s", random_state=0, n_iter=4)
    assert search.cv_results_["state"][0] == "killed"
    assert len(started) >= 2  # at first, and after a kill
    assert search.result_.ledger.spent <= 6.0


@pytest.mark.parametrize("killed", [True, False])
def test_processes_that_were_killed_are_started_again(monkeypatch, killed):
    """joblib notices after a moment that its processes are gone."""
    calls = []

    class Parallel:
        def __init__(self, n_jobs):
            self.n_jobs = n_jobs

        def __call__(self, tasks):
            calls.append(len(tasks))
            if len(calls) == 1:
                raise TerminatedWorkerError

    monkeypatch.setattr("farthing.integrations.sklearn_fits.joblib.Parallel", Parallel)
    fits = Fits(Sleeps(), (X, Y), [], {}, n_jobs=2, pre_dispatch="all", backend=True)
    fits.killed = killed
    with nullcontext() if killed else pytest.raises(TerminatedWorkerError):
        fits.start()
    assert calls == ([2, 2] if killed else [2])


def test_no_process_is_killed_after_the_fits_have_ended(monkeypatch):
    """A timer that fires at the last moment must end before the next fits begin."""
    calls = []

    class Timer:
        def __init__(self, seconds, kill):
            calls.append(seconds)

        def __getattr__(self, name):
            return lambda: calls.append(name)

    monkeypatch.setattr("farthing.integrations.sklearn_fits.threading.Timer", Timer)
    fits = Fits(Sleeps(), (X, Y), [], {}, n_jobs=2, pre_dispatch="all", backend=True)
    with fits._killed_after(7.0):
        calls.append("fits")
    assert calls == [7.0, "start", "fits", "cancel", "join"]


# ── the model of costs ─────────────────────────────────────────────────────────────────────────

SPACE = Space({"n": Int(10, 2000), "k": Int(1, 50), "x": Float(0, 1)})


def fitted(params, costs, at_least=None):
    rows = np.array([SPACE.encode(each) for each in params])
    bounds = np.zeros(len(rows), dtype=bool) if at_least is None else np.array(at_least)
    return FitCost(("n", "k")).fit(Evidence(SPACE, rows, np.array(costs), bounds))


def cost_at(model, **params):
    return float(np.exp(model.log_at(SPACE.encode(params)[None]).mean[0]))


def test_costs_are_proportional_to_integers_at_first():
    tried = [{"n": 10, "k": 5, "x": 0.5}, {"n": 200, "k": 5, "x": 0.5}]
    model = fitted(tried, [0.1, 2.0])
    assert cost_at(model, n=2000, k=5, x=0.5) == pytest.approx(20.0, rel=0.01)
    assert cost_at(model, n=200, k=50, x=0.5) == pytest.approx(20.0, rel=0.01)
    assert fitted(tried[:1], [0.1]) is None  # as without the trend
    bounds = fitted(tried, [0.1, 2.0], at_least=[True, True])
    assert cost_at(bounds, n=2000, k=5, x=0.5) > 2.0


def test_costs_that_fall_with_an_integer_are_learnt():
    counts = [1, 3, 10, 20, 50]
    model = fitted([{"n": 100, "k": k, "x": 0.5} for k in counts], [10.0 / k for k in counts])
    assert cost_at(model, n=100, k=30, x=0.5) == pytest.approx(1 / 3, rel=0.3)


def test_the_gradients_of_the_cost_and_one_more_cost():
    rng = np.random.default_rng(0)
    params = [SPACE.decode(x) for x in SPACE.sample(8, rng)]
    model = fitted(params, [p["n"] * (1 + p["x"]) for p in params])
    x, h = np.array([[0.4, 0.6, 0.3]]), 1e-5
    _, d_mean, d_std = model.slopes(x)
    for j in range(3):
        step = np.eye(3)[j] * h
        after, before = model.log_at(x + step), model.log_at(x - step)
        assert_allclose(d_mean[0, j], (after.mean[0] - before.mean[0]) / (2 * h), rtol=1e-3)
        assert_allclose(d_std[0, j], (after.std[0] - before.std[0]) / (2 * h), rtol=1e-3, atol=1e-6)
    assert_allclose(model.slopes(x)[0].mean, model.log_at(x).mean)
    assert (model.least(x) <= model.log_at(x).mean + 1e-12).all()
    more = model.condition(x[0], 1e4)
    assert abs(more.log_at(x).mean[0] - np.log(1e4)) < abs(model.log_at(x).mean[0] - np.log(1e4))
