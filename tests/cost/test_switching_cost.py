from dataclasses import replace

import numpy as np
import pytest
from beliefs import done
from oracles import differences

from farthing import (
    Budget,
    Categorical,
    Float,
    History,
    Int,
    InvalidInput,
    Ledger,
    Optimizer,
    Space,
    Trial,
)
from farthing.acquisition.belief import believe
from farthing.cost import (
    DependsOnPrevious,
    Evidence,
    Known,
    Linear,
    LogGP,
    PointEstimate,
    SwitchingCost,
)
from farthing.policies import EI, EIPerCost, Random, Rollout

SPACE = Space({"x": Float(2, 4), "z": Float(1, 10, log=True), "s": Categorical(["u", "v"])})
PLANE = Space({"x": Float(0, 10), "z": Float(0, 10)})


def distance(params, before):
    """A switch costs its distance, plus a constant to start."""
    if before is None:
        return 1.0
    return 0.5 + float(np.hypot(params["x"] - before["x"], params["z"] - before["z"]))


def steeper_uphill(params, before):
    way = 0.0 if before is None else params["x"] - before["x"]
    return 1.0 + (3.0 * way if way > 0 else -way)


def moves(count, seed=0, space=PLANE, cost=distance):
    """Evidence of a random walk."""
    X = space.sample(count, np.random.default_rng(seed))
    previous = np.vstack([np.full(space.d, np.nan), X[:-1]])
    params = [space.decode(x) for x in X]
    paid = [cost(p, params[i - 1] if i else None) for i, p in enumerate(params)]
    return Evidence(space, X, np.array(paid), np.zeros(count, dtype=bool), None, previous, X[-1])


# ---------------------------------------------------------------- known
def test_a_known_cost_may_depend_on_the_previous_point():
    learner = Known(distance)
    X = PLANE.sample(9, np.random.default_rng(1))
    first = learner.bind(PLANE)
    np.testing.assert_array_equal(first.log_at(X).mean, 0.0)
    model = first.after(X[3])
    here = PLANE.decode(X[3])
    expected = [distance(PLANE.decode(x), here) for x in X]
    np.testing.assert_allclose(np.exp(model.log_at(X).mean), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.condition(X[5], 3.0).log_at(X), model.after(X[5]).log_at(X))
    assert learner.price_at(PLANE, X[0], X[3]) == pytest.approx(expected[0])
    assert learner.price_at(PLANE, X[0]) == learner.price_at(PLANE, X[0], np.full(2, np.nan)) == 1.0
    assert learner.fit(moves(4)).price(X[0]) == learner.price_at(PLANE, X[0], moves(4).X[-1])


def test_the_slopes_of_a_known_switching_cost():
    model = Known(distance).bind(PLANE).after(np.array([0.31, 0.62]))
    X = PLANE.sample(7, np.random.default_rng(2))
    _, d_mean, d_std = model.slopes(X)
    np.testing.assert_allclose(
        d_mean, differences(lambda S: model.log_at(S).mean, X, 1e-5), rtol=1e-4
    )
    np.testing.assert_array_equal(d_std, 0.0)


def test_which_models_depend_on_the_previous_point():
    for f in (lambda p: 1.0, lambda p, scale=2.0: scale, lambda p, *rest: 1.0, max):
        assert not isinstance(Known(f).bind(PLANE), DependsOnPrevious)
    for model in (
        Known(distance).bind(PLANE),
        SwitchingCost().fit(moves(8)),
        PointEstimate(Known(distance)).fit(moves(8)),
        PointEstimate(SwitchingCost(Linear())).fit(moves(8)),
    ):
        assert isinstance(model, DependsOnPrevious)
    assert not isinstance(LogGP().fit(moves(8)), DependsOnPrevious)
    assert not isinstance(PointEstimate(LogGP()).fit(moves(8)), DependsOnPrevious)


def test_the_function_is_called_once_per_pair():
    calls = []

    def counted(params, before):
        calls.append((tuple(params.values()), before and tuple(before.values())))
        return 1.0

    learner = Known(counted)
    X = PLANE.sample(4, np.random.default_rng(3))
    for _ in range(2):
        for x in X:
            learner.bind(PLANE).after(x).log_at(X)
    assert len(calls) == len(set(calls)) == 16


def test_a_negative_switching_cost_is_rejected():
    with pytest.raises(InvalidInput, match="expected a number of at least 0"):
        Known(lambda p, before: -1.0).bind(PLANE).after(np.array([0.5, 0.5])).log_at(
            np.zeros((1, 2))
        )


# ---------------------------------------------------------------- learnt
@pytest.mark.parametrize("cost", [distance, steeper_uphill])
def test_it_learns_a_switching_cost(cost):
    """From 60 switches; the same model without the previous point cannot."""
    learnt, blind = SwitchingCost().fit(moves(60, cost=cost)), LogGP().fit(moves(60, cost=cost))
    error = {"learnt": [], "blind": []}
    pairs = PLANE.sample(80, np.random.default_rng(9)).reshape(40, 2, 2)
    for x, before in pairs:
        truth = np.log(cost(PLANE.decode(x), PLANE.decode(before)))
        for name, model in (("learnt", learnt.after(before)), ("blind", blind)):
            error[name].append(model.log_at(x[None]).mean[0] - truth)
    assert np.sqrt(np.mean(np.square(error["learnt"]))) < 0.2
    assert np.std(error["learnt"]) < 0.5 * np.std(error["blind"])


@pytest.mark.parametrize("inner", [LogGP(), Linear(), PointEstimate(LogGP())], ids=repr)
def test_the_slopes_of_a_learnt_switching_cost(inner):
    model = SwitchingCost(inner).fit(
        moves(15, space=SPACE, cost=lambda p, b: p["x"] + 2 * abs(p["z"]))
    )
    model = model.after(np.array([0.4, 0.2, 0.25]))
    X = SPACE.sample(6, np.random.default_rng(4))
    normal, d_mean, d_std = model.slopes(X)
    np.testing.assert_allclose(normal.mean, model.log_at(X).mean, rtol=1e-9)
    for slope, part in ((d_mean, 0), (d_std, 1)):
        by_difference = differences(lambda S, part=part: model.log_at(S)[part], X, 1e-5)
        np.testing.assert_allclose(slope[:, :2], by_difference[:, :2], rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(slope[:, 2], 0.0)


def test_condition_learns_from_the_switch_and_updates_the_last_point():
    model = SwitchingCost().fit(moves(12))
    x, other = np.array([0.9, 0.1]), np.array([[0.2, 0.8]])
    before = model.log_at(x[None]).mean[0]
    after = model.condition(x, 3 * np.exp(before))
    np.testing.assert_array_equal(after.last, x)
    again = after.after(model.last)
    assert again.log_at(x[None]).mean[0] > before + 0.3
    assert after.log_at(other).mean[0] != again.log_at(other).mean[0]
    assert model.after(x).log_at(other).mean[0] != model.log_at(other).mean[0]


def test_options_and_the_first_evaluation():
    """A changed option costs more; the first evaluation counts as unchanged."""

    def changing(params, before):
        return 1.0 if before is None or before["s"] == params["s"] else 9.0

    model = SwitchingCost().fit(moves(40, space=SPACE, cost=changing))
    u, v = (np.array([0.5, 0.5, option]) for option in (0.25, 0.75))
    for here, there in ((u, v), (v, u)):
        stays, goes = (model.after(here).log_at(x[None]).mean[0] for x in (here, there))
        assert goes - stays > 1.5
    first = replace(model, last=np.full(3, np.nan))
    for x in (u, v):
        assert first.log_at(x[None]).mean == pytest.approx(model.after(x).log_at(x[None]).mean)


def test_without_previous_points_it_is_the_learner_itself():
    evidence = moves(10)._replace(previous=None, last=None)
    X = PLANE.sample(5, np.random.default_rng(5))
    still = SwitchingCost().fit(evidence).log_at(X).mean
    np.testing.assert_allclose(still, LogGP().fit(evidence).log_at(X).mean, atol=0.2)
    assert SwitchingCost().fit(moves(1)) is None


# ---------------------------------------------------------------- in a study
def test_each_trial_follows_the_one_suggested_before():
    states = ("done", "lost", "running", "done", "failed")
    trials = [Trial(i, {}, np.array([i / 10]), state=s) for i, s in enumerate(states)]
    trials[3] = replace(trials[3], origin="imported")
    previous = History(tuple(trials)).previous[:, 0]
    np.testing.assert_array_equal(previous, [np.nan, 0.0, 0.0, 0.2, 0.2, 0.4])
    assert [History(tuple(trials)).before(k) for k in (0, 1, 5)] == [None, [0.0], [0.4]]
    assert History().previous.shape == (1, 0)


def test_a_belief_has_the_last_point():
    X = PLANE.sample(6, np.random.default_rng(6))
    history = History(tuple(done(i, x, x.sum(), cost=1.0, space=PLANE) for i, x in enumerate(X)))
    budget = Budget(9.0)
    belief = believe(PLANE, history, Ledger.of(budget), learners={"cost": Known(distance)})
    here = [distance(PLANE.decode(x), PLANE.decode(X[-1])) for x in X[:4]]
    cost, shortfall = belief.costs(X[:4])
    np.testing.assert_allclose(np.exp(cost.mean), here, rtol=1e-12)
    np.testing.assert_array_equal(shortfall <= 0, np.array(here) <= 9.0)
    assert belief.predicted(X[0])["cost"].mean[0] == pytest.approx(np.log(here[0]))
    after = belief.fantasise(X[1], 0.3, here[1])
    there = [distance(PLANE.decode(x), PLANE.decode(X[1])) for x in X[:4]]
    np.testing.assert_allclose(np.exp(after.costs(X[:4])[0].mean), there, rtol=1e-12)
    assert after.ledger.left == pytest.approx(9.0 - here[1])
    unpaid = belief.fantasise(X[1], 0.3, {})
    np.testing.assert_array_equal(unpaid.costs(X[:4])[0].mean, after.costs(X[:4])[0].mean)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Random(), EI(), EIPerCost(), Rollout(2)], ids=repr)
def test_the_ledger_charges_every_switch_and_stays_in_the_budget(policy):
    """The costs computed by hand, in order of suggestion, with two trials at a time."""
    optimizer = Optimizer(PLANE, budget=40.0, policy=policy, cost=distance, seed=1)
    way = 0.0
    before = None
    while not optimizer.verdict.stop:
        assert len(optimizer.history) < 60
        pair = [optimizer.ask()]
        if not optimizer.verdict.stop:
            pair.append(optimizer.ask())
        for trial in pair:
            way += distance(trial.params, before)
            before = trial.params
        for trial in reversed(pair):  # reported in another order: the order of suggestion counts
            optimizer.tell(trial, float(np.sin(trial.params["x"]) + 0.1 * trial.params["z"]))
        assert optimizer.ledger.spent == pytest.approx(way, rel=1e-9)
    assert 30.0 < optimizer.ledger.spent <= 40.0 * (1 + 1e-8)


@pytest.mark.slow
def test_expensive_switches_keep_ei_per_cost_nearby():
    """With the same objective, switching costs lead to shorter moves."""

    def way(cost, seed):
        optimizer = Optimizer(PLANE, budget=1e4, policy=EIPerCost(), cost=cost, seed=seed)
        for _ in range(15):
            trial = optimizer.ask()
            optimizer.tell(trial, float(np.sin(trial.params["x"]) * np.cos(trial.params["z"])))
        X = np.array([[t.params["x"], t.params["z"]] for t in optimizer.history])[5:]
        return np.linalg.norm(np.diff(X, axis=0), axis=1).sum()

    seeds = range(4)
    moved = sum(way(distance, seed) for seed in seeds)
    assert moved < 0.8 * sum(way(lambda params: 1.0, seed) for seed in seeds)


@pytest.mark.slow
def test_an_ignored_previous_point_changes_nothing():
    """`Known` of one argument, and of two with the second unused, give the same trials."""
    trials = []
    for cost in (lambda p: 1 + p["x"], lambda p, before: 1 + p["x"]):
        optimizer = Optimizer(PLANE, budget=50.0, policy=Rollout(2), cost=cost, seed=3)
        for _ in range(7):
            trial = optimizer.ask()
            optimizer.tell(trial, float(np.sin(trial.params["x"])))
        trials.append(np.array([t.x for t in optimizer.history]))
        assert optimizer.ledger.spent == pytest.approx(
            sum(1 + t.params["x"] for t in optimizer.history)
        )
    np.testing.assert_allclose(*trials, atol=1e-9)


def test_a_learnt_switching_cost_in_the_optimizer():
    optimizer = Optimizer(
        Space({"x": Float(0, 10), "k": Int(1, 5)}),
        budget=80.0,
        policy=EIPerCost(),
        cost=SwitchingCost(),
    )
    before = None
    for _ in range(14):
        trial = optimizer.ask()
        cost = 0.5 if before is None else 0.5 + abs(trial.params["x"] - before)
        before = trial.params["x"]
        optimizer.tell(trial, float((before - 6) ** 2), cost=cost)
    predicted = [t.predicted_cost for t in optimizer.history][8:]
    paid = [t.cost["cost"] for t in optimizer.history][8:]
    assert np.median(np.abs(np.log(predicted) - np.log(paid))) < 0.5
