import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from beliefs import Given, done, known, line, one_column
from oracles import differences
from scipy.special import logsumexp
from scipy.stats import norm

from farthing import Optimizer
from farthing.acquisition.belief import START, believe
from farthing.acquisition.fantasies import FANTASIES
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.core.suggest import believed
from farthing.cost import Known, Linear, LogGP
from farthing.history import History, Trial
from farthing.models import gp
from farthing.models.normal import log_ei
from farthing.policies import EI
from farthing.space.space import Categorical, Float, Space

SPACE = Space({"a": Float(3, 7), "b": Float(1e-3, 10.0, log=True)})
MIXED = Space({"a": Float(3, 7), "kind": Categorical(["x", "y", "z"]), "b": Float(-2, 5)})


def value(X):
    return 5.0 + 3.0 * np.sum((X - 0.4) ** 2, axis=-1)


def price(X):
    return np.exp(1.0 + 2.0 * X[..., 0])


def trials(n, seed=0, space=SPACE):
    """A history of n trials that returned a value."""
    X = space.sample(n, np.random.default_rng(seed))
    return History(tuple(done(k, x, value(x), cost=price(x), space=space) for k, x in enumerate(X)))


def without_value(number, x, state, cost=None):
    """A trial that ended without a value."""
    paid = {} if cost is None else {"cost": cost}
    return Trial(number, {}, np.asarray(x, dtype=float), state, cost=paid)


def running(history, *points):
    for x in points:
        history = history.adding(Trial(len(history), {}, np.asarray(x, dtype=float)))
    return history


def belief_of(history, *, space=SPACE, budget=1e6, learners=None, **settings):
    learners = {"cost": LogGP()} if learners is None else learners
    return believe(space, history, Ledger.of(Budget(budget)), learners=learners, **settings)


# ---------------------------------------------------------------- what is fitted
def test_there_is_no_model_before_the_initial_design_ends():
    assert belief_of(trials(START - 1)).objective is None
    assert belief_of(trials(START)).objective is not None
    assert belief_of(trials(START), model=False).objective is None
    failed = History(tuple(replace(t, state="failed", value=None) for t in trials(START)))
    assert belief_of(failed).objective is None  # failed trials have no values


def test_the_objective_is_a_fit_to_the_values():
    history = trials(12)
    belief = belief_of(history)
    X = np.array([t.x for t in history])
    model = gp.fit(X, value(X))
    np.testing.assert_allclose(belief.outlook(X + 0.01).mean, model.at(X + 0.01).mean)
    np.testing.assert_array_equal(belief.y, value(X))
    np.testing.assert_array_equal(belief.best, [value(X).min()])
    assert belief.number == 12
    assert belief.scale == model.scale


def test_maximising_mirrors_the_values():
    history = trials(12)
    mirrored = History(tuple(replace(t, value=-t.value) for t in history))
    one, other = belief_of(history), belief_of(mirrored, sign=-1.0)
    X = SPACE.sample(10, np.random.default_rng(1))
    np.testing.assert_array_equal(other.outlook(X).mean, one.outlook(X).mean)
    np.testing.assert_array_equal(other.top, one.top)
    assert other.best == one.best


@dataclass(frozen=True)
class Recorder:
    """A cost learner that keeps the evidence."""

    seen: list = field(default_factory=list)

    def fit(self, evidence):
        self.seen.append(evidence)


def test_cost_learners_see_the_costs_of_all_finished_trials():
    history = trials(3)
    history = history.adding(without_value(3, [0.1, 0.1], "failed", 4.0))
    history = history.adding(without_value(4, [0.2, 0.2], "killed", 9.0))
    history = history.adding(done(5, [0.3, 0.3], 1.0))  # reported without a cost
    history = running(history, [0.4, 0.4])
    learner = Recorder()
    assert belief_of(history, learners={"cost": learner}).cost == {}
    (evidence,) = learner.seen
    np.testing.assert_array_equal(evidence.X, [t.x for t in history.trials[:5]])
    np.testing.assert_array_equal(evidence.cost, [*price(evidence.X[:3]), 4.0, 9.0])
    np.testing.assert_array_equal(evidence.at_least, [False] * 4 + [True])
    assert evidence.space is SPACE


def test_every_resource_has_its_own_model():
    X = SPACE.sample(8, np.random.default_rng(2))
    history = History(
        tuple(
            Trial(k, {}, x, "done", value(x), {"s": price(x), "usd": 0.01 * (1 + x[1])})
            for k, x in enumerate(X)
        )
    )
    ledger = Ledger.of(Budget("1h, $5"))
    learners = {"s": Linear(), "usd": LogGP()}
    belief = believe(SPACE, history, ledger, learners=learners)
    for resource, cost in [("s", price(X)), ("usd", 0.01 * (1 + X[:, 1]))]:
        alone = believe(SPACE, history, ledger, learners={resource: learners[resource]})
        mean = belief.cost[resource].log_at(X).mean
        np.testing.assert_array_equal(mean, alone.cost[resource].log_at(X).mean)
        np.testing.assert_allclose(mean, np.log(cost), atol=0.3)
        assert belief.predicted(X[0])[resource].mean[0] == pytest.approx(mean[0], rel=1e-9)


def test_hyperparameters_are_remembered_in_notes():
    history = trials(40)
    history = history.adding(without_value(40, [0.7, 0.7], "failed", 4.0))
    belief = belief_of(history)
    notes = json.loads(json.dumps(belief.notes()))
    assert set(notes["memories"]) == {"objective", "success", "cost:cost"}
    assert notes["memories"]["objective"]["n"] == 40
    history = history.adding(done(41, [0.2, 0.9], 5.5, cost=7.0, notes=notes))
    after = belief_of(history)  # same hyperparameters, but the posterior has the new value
    assert after.objective.hyper.to_list()[:3] == belief.objective.hyper.to_list()[:3]
    assert after.memories == notes["memories"]
    assert len(after.objective.X) == 41 + 1  # and the failed trial, at the median value
    assert belief_of(trials(3), learners={}).notes() == {}


# ---------------------------------------------------------------- what was tried
def test_tried_points_are_not_proposed_again_unless_the_objective_is_noisy():
    history = running(trials(6), [0.5, 0.6])
    np.testing.assert_array_equal(belief_of(history).tried, [t.x for t in history])
    np.testing.assert_array_equal(belief_of(history, noisy=True).tried, [[0.5, 0.6]])
    assert belief_of(History()).tried.shape == (0, 2)


def test_the_point_of_a_lost_trial_counts_as_untried():
    """Its worker disappeared, so its value is unknown."""
    history = trials(6)
    lost = history.replacing(replace(history[2], state="lost", value=None))
    kept = [trial.x for trial in history if trial.number != 2]
    np.testing.assert_array_equal(belief_of(lost).tried, kept)


def test_the_top_is_the_best_five():
    history = trials(9)
    history = history.adding(without_value(9, [0.4, 0.4], "failed"))
    X = np.array([t.x for t in history.done])
    np.testing.assert_array_equal(belief_of(history).top, X[np.argsort(value(X))[:5]])
    assert belief_of(trials(3)).top.shape == (3, 2)
    assert belief_of(History()).top.shape == (0, 2)


# ---------------------------------------------------------------- the incumbent
@pytest.mark.parametrize("noisy", [False, True])
def test_the_incumbent_does_not_depend_on_costs(noisy):
    """Another library takes the minimum over values and log times as the best value."""
    history = trials(8)
    quick = History(tuple(replace(t, cost={"cost": 1e-9 * t.cost["cost"]}) for t in history))
    one, other = belief_of(history, noisy=noisy), belief_of(quick, noisy=noisy)
    assert one.best == other.best
    assert one.best > 4.0


def test_the_incumbent_of_a_noisy_objective_is_the_lowest_posterior_mean():
    rng = np.random.default_rng(3)
    X = np.repeat(SPACE.sample(10, rng), 2, axis=0)
    y = value(X) + 0.8 * rng.standard_normal(20)
    y[4] -= 6.0  # an outlier; the second evaluation of the point is not one
    history = History(tuple(done(k, x, v) for k, (x, v) in enumerate(zip(X, y, strict=True))))
    belief = belief_of(history, noisy=True, learners={})
    model = gp.fit(X, y, noisy=True)
    assert belief.best == pytest.approx(model.at(X).mean.min(), rel=1e-9)
    assert belief.best > y.min() + 1.0
    assert belief_of(history, learners={}).best == y.min()


# ---------------------------------------------------------------- running trials
def test_running_trials_are_fantasised():
    pending = np.array([[0.45, 0.4], [0.1, 0.95], [0.35, 0.3]])
    history = trials(8)
    before, belief = belief_of(history), belief_of(running(history, *pending))
    mean, std = belief.objective.at(pending)
    assert mean.shape == (3, FANTASIES)
    assert FANTASIES == 10
    # Each fantasy interpolates its own draws and has its own incumbent.
    np.testing.assert_allclose(belief.best, np.minimum(before.best, mean.min(axis=0)), atol=1e-3)
    assert len(np.unique(belief.best)) > 2
    assert np.all(std < 0.05 * before.objective.at(pending).std)
    assert len(np.unique(mean[0])) == FANTASIES
    expected = one_column(before.objective, pending)
    drawn = (mean.T - expected.mean) / expected.std
    assert 0.4 < drawn.std() < 1.6  # thirty draws from the posterior
    assert np.abs(drawn.mean()) < 0.8


def test_fantasies_are_the_same_for_the_same_belief_only():
    history = running(trials(8), [0.9, 0.1])
    X = np.array([[0.85, 0.2]])
    one, again = (belief_of(history, seed=4).objective.at(X).mean for _ in range(2))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, belief_of(history, seed=5).objective.at(X).mean)


def test_a_fantasy_at_a_known_point_changes_nothing(monkeypatch):
    monkeypatch.setattr(
        "farthing.models.hyperparameters.NUGGET_PRIOR", (-14.0, 0.5)
    )  # almost no noise
    history = trials(15)
    X = SPACE.sample(200, np.random.default_rng(6))
    before = belief_of(history).outlook(X)
    after = belief_of(running(history, history[3].x)).outlook(X)
    one = log_ei(before.mean[:, 0], before.std, before.best)
    each = log_ei(after.mean, after.std[:, None], after.best)
    other = logsumexp(each, axis=1) - np.log(FANTASIES)
    likely = one > np.log(1e-6)
    assert likely.sum() > 20
    np.testing.assert_allclose(other[likely], one[likely], atol=0.02)


def test_more_trials_may_be_running_than_done_and_two_at_the_same_point():
    history, rng = trials(5), np.random.default_rng(8)
    pending = SPACE.sample(30, rng)
    belief = belief_of(running(history, *pending, pending[0], history[2].x))
    assert belief.best.shape == (FANTASIES,)
    assert (belief.best <= belief_of(history).best).all()
    outlook = belief.outlook(SPACE.sample(100, rng))
    each = log_ei(outlook.mean, outlook.std[:, None], outlook.best)
    assert np.isfinite(each).all()
    # The posterior mean at a point is the draw there, up to the nugget.
    mean, std = belief.objective.at(pending)
    assert np.all(std < 0.3 * belief_of(history).objective.at(pending).std.max())
    np.testing.assert_allclose(belief.best, mean.min(axis=0).clip(max=belief.y.min()), atol=0.1)


def test_without_a_model_running_trials_only_count_as_tried():
    belief = belief_of(running(trials(3), [0.5, 0.5]))
    assert belief.objective is None
    assert belief.best.shape == (1,)
    assert len(belief.tried) == 4


# ---------------------------------------------------------------- affordable points
def with_costs(means, stds, limits, spent=0.0):
    """A belief about the rows of a table, with given ln c for each resource of a budget."""
    count = len(next(iter(means.values())))
    space = line(count)
    ledger = Ledger.of(Budget(limits))
    if spent:
        ledger = ledger.charge(None, dict.fromkeys(means, spent))
    cost = {r: Given(space.rows, np.array(means[r]), np.array(stds[r])) for r in means}
    return known(space, cost=cost, ledger=ledger), space.rows


def test_affordable_means_a_probability_of_four_in_five():
    rng = np.random.default_rng(7)
    m, s = rng.normal(2.0, 1.5, 300), np.exp(rng.normal(-1.0, 1.0, 300))
    belief, rows = with_costs({"cost": m}, {"cost": s}, 12.0, spent=4.0)
    _, shortfall = belief.costs(rows)
    chance = norm.cdf((np.log(8.0) - m) / s)
    np.testing.assert_array_equal(shortfall <= 0, chance >= 0.8)
    assert 50 < (shortfall <= 0).sum() < 250
    np.testing.assert_allclose(shortfall, m + norm.ppf(0.8) * s - np.log(8.0), atol=1e-8)


def test_the_boundary_of_the_affordable_region():
    s = np.array([0.01, 0.5, 3.0])
    edge = np.log(40.0) - norm.ppf(0.8) * s
    for step, affordable in [(-1e-7, True), (1e-7, False)]:
        belief, rows = with_costs({"cost": edge + step}, {"cost": s}, 40.0)
        assert np.all((belief.costs(rows)[1] <= 0) == affordable)


def test_a_probability_below_four_in_five_is_not_affordable():  # [probability-affordable]
    belief, rows = with_costs({"cost": [1.2]}, {"cost": [0.5]}, 4.0)
    shortfall = belief.costs(rows)[1][0]
    assert norm.cdf(norm.ppf(0.8) - shortfall / 0.5) == pytest.approx(0.6452727161, rel=1e-8)
    assert shortfall > 0


def test_a_known_cost_equal_to_what_is_left_is_affordable():
    cost = np.array([0.1 + 0.2, 0.3, 0.30001])
    belief, rows = with_costs({"cost": np.log(cost)}, {"cost": np.zeros(3)}, 0.3)
    np.testing.assert_array_equal(belief.costs(rows)[1] <= 0, [True, True, False])


def test_a_reserved_amount_cannot_be_spent():
    space = line(1)
    cost = {"cost": Given(space.rows, np.log([5.0]), np.zeros(1))}
    ledger = Ledger.of(Budget(12.0))
    for reserved, affordable in [(6.9, True), (7.1, False)]:
        belief = known(space, cost=cost, ledger=ledger.reserve(0, {"cost": reserved}))
        assert (belief.costs(space.rows)[1][0] <= 0) == affordable
        assert belief.cap == pytest.approx(12.0 - reserved)


def test_without_a_limit_everything_is_affordable():
    space = line(2)
    cost = {"cost": Given(space.rows, np.array([1.0, 90.0]), np.ones(2))}
    belief = known(space, cost=cost)
    normal, shortfall = belief.costs(space.rows)
    np.testing.assert_array_equal(normal.mean, [1.0, 90.0])
    np.testing.assert_array_equal(shortfall, -np.inf)
    assert belief.cap == belief.in_one_unit().cap == np.inf
    empty = known(space)
    np.testing.assert_array_equal(empty.costs(space.rows)[0].mean, 0.0)
    np.testing.assert_array_equal(empty.costs(space.rows)[1], -np.inf)


def test_after_an_overrun_nothing_is_affordable():
    belief, rows = with_costs({"cost": [-20.0, 3.0]}, {"cost": [0.0, 1.0]}, 10.0, spent=11.0)
    normal, shortfall = belief.costs(rows)
    assert np.all(shortfall > 0)
    assert np.all(np.isfinite(shortfall))
    assert np.all(np.isfinite(normal.mean))


def test_the_scarcest_of_several_resources_counts():
    """30 s and $2 are left. A cost of 12 s and $1 is half of what is left."""
    means = {"s": np.log([12.0, 12.0, 29.0, 31.0, 1.0]), "usd": np.log([1.0, 0.1, 1.9, 0.1, 2.1])}
    flat = {"s": np.zeros(5), "usd": np.zeros(5)}
    belief, rows = with_costs(means, flat, {"s": 30, "usd": 2})
    normal, shortfall = belief.costs(rows)
    np.testing.assert_allclose(np.exp(normal.mean), [0.5, 0.4, 29 / 30, 31 / 30, 1.05], rtol=1e-9)
    np.testing.assert_array_equal(shortfall <= 0, [True, True, True, False, False])
    assert belief.cap == 1.0
    # An uncertain cost may not be affordable although another cost takes the larger share.
    vague = {"s": np.zeros(5), "usd": np.array([3.0, 3.0, 0.0, 0.0, 0.0])}
    belief, rows = with_costs(means, vague, {"s": 30, "usd": 2})
    normal, shortfall = belief.costs(rows)
    np.testing.assert_array_equal(normal.std, [3.0, 0.0, 0.0, 0.0, 0.0])
    chance = norm.cdf((np.log(2.0) - means["usd"][:2]) / 3.0)
    np.testing.assert_array_equal(shortfall[:2] <= 0, chance >= 0.8)


def test_in_one_unit_the_cap_is_what_is_left_of_it():
    means = {"s": np.log([12.0, 29.0]), "usd": np.log([1.0, 0.1])}
    belief, rows = with_costs(means, {"s": np.zeros(2), "usd": np.zeros(2)}, {"s": 30, "usd": 2})
    one = belief.in_one_unit()
    assert one.cap == 30.0
    np.testing.assert_allclose(np.exp(one.costs(rows)[0].mean), [12.0, 29.0], rtol=1e-12)


# ---------------------------------------------------------------- gradients
def test_cost_slopes_are_the_differences():
    X = SPACE.sample(15, np.random.default_rng(8))
    history = History(
        tuple(
            Trial(
                k, {}, x, "done", value(x), {"s": price(x), "usd": 0.5 * np.exp(-2 * x[0] + x[1])}
            )
            for k, x in enumerate(X)
        )
    )
    learners = {"s": LogGP(), "usd": Linear()}
    belief = believe(SPACE, history, Ledger.of(Budget("20s, $2")), learners=learners)
    Xs = 0.02 + 0.96 * np.random.default_rng(9).random((40, 2))
    normal, shortfall, d_mean, d_std, d_shortfall = belief.cost_slopes(Xs)
    np.testing.assert_allclose(normal.mean, belief.costs(Xs)[0].mean, rtol=1e-9)
    np.testing.assert_allclose(shortfall, belief.costs(Xs)[1], rtol=1e-6, atol=1e-9)
    seconds = np.isclose(normal.mean, belief.cost["s"].log_at(Xs).mean - np.log(20.0))
    assert 5 < seconds.sum() < 35  # each resource is the scarcest somewhere
    for answer, function in [
        (d_mean, lambda S: belief.costs(S)[0].mean),
        (d_std, lambda S: belief.costs(S)[0].std),
        (d_shortfall, lambda S: belief.costs(S)[1]),
    ]:
        np.testing.assert_allclose(answer, differences(function, Xs), rtol=1e-3, atol=1e-3)


def test_slopes_of_an_outlook_are_the_differences():
    history = trials(14, space=MIXED)
    for k, x in enumerate([[0.9, 1 / 6, 0.9], [0.8, 0.5, 0.7]]):
        history = history.adding(without_value(14 + k, x, "failed", 3.0))
    history = running(history, [0.1, 0.5, 0.2])
    belief = belief_of(history, space=MIXED, budget=100.0)
    rng = np.random.default_rng(10)
    X = MIXED.snap(0.02 + 0.96 * rng.random((15, 3)))
    outlook, slopes = belief.slopes(X)
    plain = belief.outlook(X)
    for name in ("mean", "std", "log_success", "shortfall"):
        np.testing.assert_allclose(
            getattr(outlook, name), getattr(plain, name), rtol=1e-6, atol=1e-9
        )
    np.testing.assert_array_equal(outlook.best, belief.best)
    assert outlook.cap == plain.cap == 100.0
    for name, function in [
        ("d_mean", lambda S: belief.outlook(S).mean),
        ("d_std", lambda S: belief.outlook(S).std),
        ("d_cost_mean", lambda S: belief.outlook(S).cost.mean),
        ("d_cost_std", lambda S: belief.outlook(S).cost.std),
        ("d_log_success", lambda S: belief.outlook(S).log_success),
        ("d_shortfall", lambda S: belief.outlook(S).shortfall),
    ]:
        answer = getattr(slopes, name)
        slow = differences(function, X, 1e-5)
        largest = np.abs(answer).max()
        assert largest > 0
        np.testing.assert_allclose(
            answer[:, [0, 2]], slow[:, [0, 2]], rtol=1e-3, atol=1e-4 * max(1.0, largest)
        )
        assert not answer[:, 1].any()


# ---------------------------------------------------------------- failures
def with_failures(good, bad):
    history = History(tuple(done(k, x, value(np.array(x))) for k, x in enumerate(good)))
    for k, x in enumerate(bad):
        history = history.adding(without_value(len(good) + k, x, "failed", 1.0))
    return belief_of(history, learners={})


def test_success_is_certain_until_a_trial_fails():
    belief = belief_of(trials(8))
    assert belief.success is None
    np.testing.assert_array_equal(belief.log_success(np.zeros((3, 2))), 0.0)
    np.testing.assert_array_equal(belief.log_success_slopes(np.zeros((3, 2)))[1], np.zeros((3, 2)))
    killed = trials(8).adding(without_value(8, [0.5, 0.5], "killed", 9.0))
    assert belief_of(killed).success is None  # a killed trial does not count as a failure


def test_failure_is_expected_near_failed_trials():
    rng = np.random.default_rng(11)
    good = rng.random((14, 2)) * [0.6, 1.0]
    bad = [0.8, 0.0] + rng.random((6, 2)) * [0.2, 1.0]
    belief = with_failures(good, bad)
    safe, doubtful, dangerous = np.exp(
        belief.log_success(np.array([[0.2, 0.5], [0.7, 0.5], [0.9, 0.5]]))
    )
    assert safe > 0.9
    assert dangerous < 0.1
    assert dangerous < doubtful < safe


def test_labels_are_never_clipped():
    """Two successes among eight failures look like outliers, but must not be clipped."""
    rng = np.random.default_rng(12)
    good, bad = rng.random((2, 2)) * 0.2, 0.4 + 0.6 * rng.random((8, 2))
    belief = with_failures(good, bad)
    success = belief.success
    np.testing.assert_allclose(
        success.shift + success.scale * success.targets[:, 0], [1] * 2 + [-1] * 8, atol=1e-12
    )
    log_chance = belief.log_success(np.vstack([good, bad]))
    assert log_chance[:2].min() > np.log(0.5) > log_chance[2:].max()
    assert np.all(np.isfinite(log_chance) & (log_chance <= 0))


def test_success_is_the_probability_of_a_positive_label():
    belief = with_failures(np.random.default_rng(13).random((9, 2)) * 0.5, [[0.9, 0.9], [0.8, 0.7]])
    X = np.random.default_rng(14).random((20, 2))
    mean, std = one_column(belief.success, X)
    np.testing.assert_allclose(
        belief.log_success(X), norm.logcdf(mean / np.sqrt(std**2 + 0.1)), rtol=1e-9
    )
    value, gradient = belief.log_success_slopes(X)
    np.testing.assert_allclose(value, belief.log_success(X), rtol=1e-6)
    np.testing.assert_allclose(
        gradient, differences(belief.log_success, X, 1e-5), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("x", [[0.95, 0.05], [0.5, 0.5], [0.3, 0.3]], ids=["bad", "good", "best"])
def test_a_failure_lowers_the_expected_improvement(x):
    """EI is large at unexplored points. It must not stay large at a failed one."""
    history = trials(8)
    x = np.array([x])
    before = one_column(belief_of(history).objective, x)
    after = belief_of(history.adding(without_value(8, x[0], "failed"))).objective
    after = one_column(after, x)
    middling = np.median([t.value for t in history])
    assert after.std[0] < 0.5 * before.std[0]
    assert after.mean[0] == pytest.approx(max(before.mean[0], middling), abs=0.05 * before.std[0])


# ---------------------------------------------------------------- fantasies
def test_a_fantasy_conditions_all_models():
    belief = belief_of(trials(8), budget=100.0)
    x = np.array([0.9, 0.2])
    after = belief.fantasise(x, 1.0, 7.0)
    X = SPACE.sample(10, np.random.default_rng(15))
    np.testing.assert_allclose(
        after.objective.at(X).mean, belief.objective.condition(x, 1.0).at(X).mean
    )
    np.testing.assert_allclose(
        after.cost["cost"].log_at(X).mean, belief.cost["cost"].condition(x, 7.0).log_at(X).mean
    )
    assert after.best == 1.0
    assert belief.fantasise(x, 50.0, 7.0).best == belief.best
    assert after.ledger.left == belief.ledger.left - 7.0
    assert after.number == belief.number + 1
    assert belief.ledger.left == 100.0


def test_a_fantasy_keeps_the_fantasies_of_running_trials():
    belief = belief_of(running(trials(8), [0.5, 0.5]), budget=100.0)
    after = belief.fantasise(np.array([0.9, 0.2]), 1.0, 7.0)
    assert after.objective.at(np.zeros((2, 2))).mean.shape == (2, FANTASIES)
    np.testing.assert_array_equal(after.best, np.minimum(belief.best, 1.0))


def test_a_fantasy_pays_in_the_first_resource_that_has_a_cost():
    history = trials(8)
    history = History(tuple(replace(t, cost={"usd": t.cost["cost"]}) for t in history))
    learners = {"usd": Known(lambda params: params["a"])}
    ledger = Ledger.of(Budget("30 trials, $50"))
    belief = believe(SPACE, history, ledger, learners=learners)
    after = belief.fantasise(np.array([0.9, 0.2]), 1.0, 7.0)
    assert after.ledger["usd"].left == 43.0
    assert after.ledger["trials"].left == 29.0


def test_a_limited_number_of_running_trials_is_drawn(monkeypatch):
    """A hostile database may have 24,000, whose joint covariance fills the memory."""
    monkeypatch.setattr("farthing.acquisition.belief.MAX_PENDING", 3)
    optimizer = Optimizer({"x": Float(0, 1)}, "100 trials", policy=EI(), seed=0)
    for _ in range(5):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.params["x"])
    running = [optimizer.ask().x for _ in range(5)]
    belief = believed(optimizer._settings, optimizer._look(), model=True)
    assert np.array_equal(belief.objective.X[5:], running[2:])
    assert len(belief.without_running().objective.X) == 5
