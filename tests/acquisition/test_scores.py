from dataclasses import replace

import numpy as np
import pytest
from beliefs import known, one_column, toy, two_points
from oracles import (
    POOL_BEST,
    POOL_COST,
    POOL_LOG_EI,
    POOL_MEAN,
    POOL_NAMES,
    POOL_STD,
    differences,
    sampled_improvement,
)
from scipy.special import logsumexp

from farthing.acquisition.belief import believe
from farthing.acquisition.outlook import Outlook
from farthing.acquisition.scores import (
    Monotone,
    ScoreSurface,
    cheapness,
    differenced,
    gittins_index,
    log_ei_per_cost,
    lower_bound,
    maximise_score,
    proposal,
)
from farthing.acquisition.search import Found, untried
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.cost import LogGP
from farthing.history import History, Trial
from farthing.models.gp import Normal
from farthing.models.normal import expected_cost, gittins, log_affordable, log_ei
from farthing.space.space import Categorical, Float, Space

GRID = np.array([[0.0], [0.25], [0.5], [0.75], [1.0]])
CAPS = [np.inf, 30.0, 3.0]


def pool(cap=np.inf):
    """The toy pool P as an outlook, its costs known."""
    cost = Normal(np.log(POOL_COST), np.zeros(5))
    return Outlook(
        POOL_MEAN[:, None],
        POOL_STD,
        cost,
        np.zeros(5),
        np.array([POOL_BEST]),
        cap,
        np.full(5, -np.inf),
    )


def outlook(fantasies=1, cap=np.inf, m=40, seed=0):
    """Random numbers for every field, away from zero; costs about 1 to 30."""
    rng = np.random.default_rng(seed)
    best = 7.0 + 0.3 * rng.standard_normal(fantasies)
    return Outlook(
        rng.normal(8.0, 1.0, (m, fantasies)),
        np.exp(rng.normal(-0.5, 0.5, m)),
        Normal(rng.normal(1.5, 0.7, m), np.exp(rng.normal(-0.5, 0.3, m))),
        -np.exp(rng.normal(-1.0, 1.0, m)),
        best,
        cap,
        np.full(m, -np.inf),
    )


SCORES = {
    "EI": log_ei_per_cost(0.0),
    "EI per cost": log_ei_per_cost(1.0),
    "EI_alpha": log_ei_per_cost(0.3),
    "Gittins": gittins_index(0.02),
    "Gittins in units of 5": gittins_index(0.02, 5.0),
    "lower bound": lower_bound(2.0, 3.0),
    "cheapness": cheapness,
}


# ---------------------------------------------------------------- the toy pool
@pytest.mark.parametrize(
    ("alpha", "first", "score"),
    [
        (0.0, "A", 0.06977965574),
        (0.1, "C", 0.04549033573),
        (0.2, "C", 0.03613425808),
        (0.5, "C", 0.01811002885),
        (1.0, "D", 0.01133397354),
    ],
)
def test_ei_per_cost_of_the_toy_pool(alpha, first, score):  # [pool-ei-argmax], [pool-ei-alpha]
    graded = log_ei_per_cost(alpha)(pool())
    assert POOL_NAMES[np.argmax(graded.score)] == first
    assert np.exp(graded.score.max()) == pytest.approx(score, rel=1e-9)
    np.testing.assert_allclose(
        graded.score, POOL_LOG_EI - alpha * np.log(POOL_COST), rtol=1e-9, atol=1e-9
    )


def test_no_alpha_picks_b_of_the_toy_pool():  # [pool-ei-alpha]
    firsts = {
        POOL_NAMES[np.argmax(log_ei_per_cost(alpha)(pool()).score)]
        for alpha in np.linspace(0.0, 1.5, 151)
    }
    assert firsts == {"A", "C", "D"}


def test_surplus_of_the_toy_pool():  # [pool-log-eipc]
    surplus = log_ei_per_cost()(pool()).score - np.log(0.01)
    expected = [-2.662412777, -1.826951035, -0.5574117748, 0.1252196299, -3.571554406]
    np.testing.assert_allclose(surplus, expected, rtol=1e-8)
    assert POOL_NAMES[np.argmax(surplus)] == "D"


@pytest.mark.parametrize(
    ("worth", "indices", "first"),
    [
        (1e-2, [1.2, 0.6199865449, 0.337609852, 0.2389248919, 0.58], "D"),
        (1e-3, [0.2899471561, 0.2033316735, 0.04888365694, 0.07594801917, 0.2976466098], "C"),
        (1e-4, [0.1097653652, 0.046843319, -0.1383912303, -0.04438304416, 0.2216471694], "C"),
    ],
)
def test_gittins_of_the_toy_pool(worth, indices, first):  # [pool-gittins-indices]
    graded = gittins_index(worth)(pool())
    np.testing.assert_allclose(-graded.score, indices, rtol=1e-9)
    assert POOL_NAMES[np.argmax(graded.score)] == first


def test_lower_bound_oracle():  # [ucb-beta]
    two = pool()._replace(
        mean=np.array([[0.2], [0.9]]),
        std=np.array([0.05, 0.2]),
        cost=Normal(np.zeros(2), np.zeros(2)),
        log_success=np.zeros(2),
    )
    np.testing.assert_allclose(lower_bound(2.0, 1.0)(two).score, [-0.1, -0.5], rtol=1e-12)
    np.testing.assert_allclose(lower_bound(2.0, 4.0)(two).score, [-0.025, -0.125], rtol=1e-12)


def test_a_cap_lowers_the_improvement_and_the_cost():  # [probability-affordable], [capped-cost]
    """A killed evaluation returns nothing, but never costs more than the cap."""
    one = outlook(m=1, cap=4.0)._replace(
        mean=np.array([[0.3]]),
        std=np.array([0.2]),
        cost=Normal(np.array([1.2]), np.array([0.5])),
        log_success=np.zeros(1),
        best=np.array([0.25]),
    )
    assert np.exp(log_ei_per_cost(0.0)(one).score[0]) == pytest.approx(0.03695408423, rel=1e-9)
    per_cost = np.exp(log_ei_per_cost(1.0)(one).score[0])
    assert per_cost == pytest.approx(0.03695408423 / 3.109287026, rel=1e-9)
    assert np.exp(cheapness(one).score[0]) == pytest.approx(1 / 3.109287026, rel=1e-9)


# ---------------------------------------------------------------- the formulas
@pytest.mark.parametrize("cap", CAPS)
def test_scores_are_their_formulas(cap):
    given = outlook(cap=cap)
    m, s = given.cost
    ei = log_ei(given.mean[:, 0], given.std, given.best[0])
    cost, fits = expected_cost(m, s, cap), log_affordable(m, s, cap)
    chance = fits + given.log_success
    for alpha in (0.0, 0.3, 1.0):
        expected = ei + chance - alpha * cost
        np.testing.assert_allclose(log_ei_per_cost(alpha)(given).score, expected, rtol=1e-12)
    np.testing.assert_allclose(cheapness(given).score, -cost, rtol=1e-12)
    # Minus the g at which EI(g) P(c <= cap) P(success) = worth E[min(c, cap)].
    g = -gittins_index(0.02)(given).score
    balance = log_ei(given.mean[:, 0], given.std, g) + chance - cost - np.log(0.02)
    np.testing.assert_allclose(balance, 0.0, atol=1e-9)
    np.testing.assert_allclose(gittins_index(0.02, 5.0)(given).score, -g / 5.0, rtol=1e-9)


def test_scores_over_fantasies():
    given = outlook(fantasies=6)
    m, s = given.cost
    each = np.array(
        [
            [np.exp(log_ei(given.mean[i, f], given.std[i], given.best[f])) for f in range(6)]
            for i in range(len(m))
        ]
    )
    expected = np.log(each.mean(axis=1)) + given.log_success - 0.7 * expected_cost(m, s)
    np.testing.assert_allclose(log_ei_per_cost(0.7)(given).score, expected, rtol=1e-10)
    price = np.log(0.02) + expected_cost(m, s) - given.log_success
    indices = gittins(given.mean, given.std[:, None], price[:, None])
    np.testing.assert_allclose(gittins_index(0.02)(given).score, -indices.mean(1), rtol=1e-10)
    bound = (2.0 * given.std - given.mean.mean(1)) / 3.0 + given.log_success
    np.testing.assert_allclose(lower_bound(2.0, 3.0)(given).score, bound, rtol=1e-12)


def test_ei_over_fantasies_does_not_underflow():
    given = outlook(fantasies=6)
    far = given._replace(mean=given.mean + 500.0)
    score = log_ei_per_cost(0.0)(far).score
    each = log_ei(far.mean, far.std[:, None], far.best)
    assert each.max() < -745  # e^-745 is zero
    expected = logsumexp(each, axis=1) - np.log(6) + far.log_success
    np.testing.assert_allclose(score, expected, rtol=1e-12)


def test_equal_fantasies_count_as_no_fantasies():
    plain = outlook()
    repeated = plain._replace(mean=np.repeat(plain.mean, 4, axis=1), best=np.repeat(plain.best, 4))
    for name, score in SCORES.items():
        one, other = score(plain), score(repeated)
        np.testing.assert_allclose(other.score, one.score, rtol=1e-10, err_msg=name)
        np.testing.assert_allclose(other.to_mean.sum(axis=1), one.to_mean[:, 0], rtol=1e-9)
        np.testing.assert_allclose(other.to_std, one.to_std, rtol=1e-9)


def test_ei_is_the_mean_of_sampled_improvement_over_fantasies():
    given = outlook(fantasies=3, m=2)
    for i in range(2):
        sampled = [
            sampled_improvement(given.mean[i, f], given.std[i], given.best[f]) for f in range(3)
        ]
        mean, error = np.mean([s[0] for s in sampled]), np.sqrt(sum(s[1] ** 2 for s in sampled)) / 3
        score = log_ei_per_cost(0.0)(given).score[i] - given.log_success[i]
        assert abs(np.exp(score) - mean) < 4 * error


def test_units_of_cost():
    """c -> k c changes EI per cost by a constant, and nothing about PBGI with worth / k."""
    for cap in CAPS:
        given = outlook(cap=cap)
        scaled = given._replace(
            cost=given.cost._replace(mean=given.cost.mean + np.log(60.0)), cap=60.0 * cap
        )
        one, other = log_ei_per_cost(0.4)(given).score, log_ei_per_cost(0.4)(scaled).score
        np.testing.assert_allclose(other, one - 0.4 * np.log(60.0), rtol=1e-9, atol=1e-9)
        one, other = gittins_index(0.6)(given).score, gittins_index(0.01)(scaled).score
        np.testing.assert_allclose(other, one, rtol=1e-9)


# ---------------------------------------------------------------- partial derivatives
@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("fantasies", [1, 4])
@pytest.mark.parametrize("name", SCORES)
def test_partials_are_the_differences(name, fantasies, cap):
    score, given = SCORES[name], outlook(fantasies, cap)
    graded = score(given)
    slow = differenced(lambda outlook: score(outlook).score)(given)
    for field in graded._fields:
        exact, difference = getattr(graded, field), getattr(slow, field)
        assert exact.shape == difference.shape
        rounding = 2e-9 * np.abs(graded.score).max()  # of a score, over a step of 1e-6 std
        atol = rounding + 1e-7 * max(1.0, np.abs(exact).max())
        np.testing.assert_allclose(exact, difference, rtol=2e-5, atol=atol, err_msg=field)


def test_partials_where_the_cost_is_known():
    """The spread of a cost is differenced one-sidedly: it cannot be negative."""
    straight = differenced(lambda outlook: 3.0 * outlook.cost.std)(pool())
    np.testing.assert_allclose(straight.to_cost_std, 3.0, rtol=1e-6)
    for score in (log_ei_per_cost(), gittins_index(1e-3)):
        graded = score(pool(cap=200.0))
        slow = differenced(lambda outlook, score=score: score(outlook).score)(pool(cap=200.0))
        np.testing.assert_allclose(graded.to_cost_mean, slow.to_cost_mean, rtol=1e-6, atol=1e-6)
        assert np.all(np.isfinite(slow.to_cost_std))
        assert np.all(np.isfinite(graded.to_cost_std))


@pytest.mark.parametrize("name", SCORES)
def test_points_without_a_chance_have_a_low_finite_score(name):
    """If success or affording it is impossible, the score is low and all slopes are finite."""
    likely = outlook(cap=30.0)
    without_chance = {
        "failing": likely._replace(log_success=likely.log_success - 800.0),
        "expensive": likely._replace(cost=Normal(likely.cost.mean + 300.0, likely.cost.std)),
        "known to be expensive": likely._replace(
            cost=Normal(likely.cost.mean + 300.0, 0.0 * likely.cost.std)
        ),
    }
    score = SCORES[name]
    for why, given in without_chance.items():
        graded = score(given)
        for answer in graded:
            assert np.all(np.isfinite(answer)), why
        slow = differenced(lambda outlook: score(outlook).score)(given)
        np.testing.assert_allclose(graded.to_success, slow.to_success, rtol=1e-5, atol=1e-5)
        # A known cost that is not affordable is a shortfall; EI itself does not depend on it.
        unaffected = {("cheapness", "failing"), ("EI", "known to be expensive")}
        if name != "lower bound" and (name, why) not in unaffected:
            assert np.all(graded.score < score(likely).score), why


def test_differenced_is_right_for_a_polynomial():
    given = outlook(fantasies=2)

    def function(o):
        first, second = o.mean.T
        return (
            first**2 * o.std + 3 * second + o.cost.mean**3 - 2 * o.cost.std**2 + 5 * o.log_success
        )

    graded = differenced(function)(given)
    first = given.mean[:, 0]
    tolerance = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_array_equal(graded.score, function(given))
    np.testing.assert_allclose(graded.to_mean[:, 0], 2 * first * given.std, **tolerance)
    np.testing.assert_allclose(graded.to_mean[:, 1], 3.0, **tolerance)
    np.testing.assert_allclose(graded.to_std, first**2, **tolerance)
    np.testing.assert_allclose(graded.to_cost_mean, 3 * given.cost.mean**2, **tolerance)
    np.testing.assert_allclose(graded.to_cost_std, -4 * given.cost.std, **tolerance)
    np.testing.assert_allclose(graded.to_success, 5.0, **tolerance)


# ---------------------------------------------------------------- over the cube
MIXED = Space({"a": Float(3, 7), "kind": Categorical(["x", "y", "z"]), "b": Float(-2, 5)})


def everything(*, pending=True, budget="20s, $50"):
    """A belief with costs of two resources, failed trials and running trials."""
    rng = np.random.default_rng(3)
    X = MIXED.sample(16, rng)
    history = History(
        tuple(
            Trial(
                k,
                MIXED.decode(x),
                x,
                "failed" if x[0] > 0.8 else "done",
                None if x[0] > 0.8 else 9.0 + np.sin(4 * x.sum()),
                {"s": np.exp(1 + x[0]), "usd": np.exp(2 - x[2])},
            )
            for k, x in enumerate(X)
        )
    )
    assert history.having("failed")
    for k, x in enumerate(MIXED.sample(2, rng) if pending else ()):
        history = history.adding(Trial(16 + k, MIXED.decode(x), x))
    learners = {"s": LogGP(), "usd": LogGP()}
    return believe(MIXED, history, Ledger.of(Budget(budget)), learners=learners)


@pytest.mark.slow
@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize("name", SCORES)
def test_the_surface_of_a_score_has_its_gradient(name, pending):
    belief = everything(pending=pending)
    surface = ScoreSurface(belief, SCORES[name])
    X = MIXED.snap(0.03 + 0.94 * np.random.default_rng(4).random((25, 3)))
    X = X[belief.log_success(X) > -15]  # below, the score has a kink
    assert len(X) > 10
    rated, gradient, d_shortfall = surface.slopes(X)
    plain = surface.at(X)
    np.testing.assert_allclose(rated.score, plain.score, rtol=1e-5)
    np.testing.assert_allclose(rated.shortfall, plain.shortfall, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(plain.score, SCORES[name](belief.outlook(X)).score, rtol=1e-12)
    slow = differences(lambda S: surface.at(S).score, X, 1e-5)
    assert np.abs(gradient).max() > 0.1
    for j in (0, 2):
        np.testing.assert_allclose(gradient[:, j], slow[:, j], rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(gradient[:, 1], 0.0)
    slow = differences(lambda S: surface.at(S).shortfall, X, 1e-5)
    np.testing.assert_allclose(d_shortfall[:, [0, 2]], slow[:, [0, 2]], rtol=1e-3, atol=1e-3)


def test_the_surface_without_costs_and_failures():
    surface = ScoreSurface(two_points(), SCORES["EI per cost"])
    X = np.random.default_rng(5).random((20, 1))
    rated, gradient, d_shortfall = surface.slopes(X)
    np.testing.assert_array_equal(rated.shortfall, -np.inf)
    np.testing.assert_array_equal(d_shortfall, 0.0)
    slow = differences(lambda S: surface.at(S).score, X)
    np.testing.assert_allclose(gradient, slow, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------- pending trials
def test_mean_ei_over_two_fantasies_oracle():  # [batch-fantasies]
    belief = two_points()
    mean, std = one_column(belief.objective, np.array([[1.0]]))
    assert mean[0] == pytest.approx(-0.100287935, rel=1e-9)
    y = mean[0] + np.array([1.0, -1.0]) * std[0]
    np.testing.assert_allclose(y, [0.5834888082, -0.7840646782], rtol=1e-9)
    pending = known(
        belief.space,
        objective=belief.objective.condition(np.array([1.0]), y),
        best=np.minimum(belief.best, y),
    )
    ei = np.exp(ScoreSurface(pending, log_ei_per_cost(0.0)).at(GRID).score)
    expected = [0.05314686941, 9.998750679e-05, 0.1234231188, 0.06393805868, 0.0001991055245]
    np.testing.assert_allclose(ei, expected, rtol=1e-6)
    assert GRID[np.argmax(ei), 0] == 0.5


def test_ei_after_believing_the_mean_oracle():  # [batch-fantasies]
    belief = two_points().fantasise(np.array([1.0]), -0.1002879349827, 1.0)
    ei = np.exp(ScoreSurface(belief, log_ei_per_cost(0.0)).at(GRID).score)
    expected = [0.09883566856, 0.0001406579416, 0.1573020521, 0.05415510005, 0.0003989418537]
    np.testing.assert_allclose(ei, expected, rtol=1e-6)


# ---------------------------------------------------------------- maximising
def test_the_maximum_of_ei():  # [line-contextual-ei]
    found = maximise_score(two_points(), log_ei_per_cost(0.0), np.random.default_rng(6))
    assert found.X[0, 0] == pytest.approx(1.0, abs=1e-6)
    assert np.exp(found.score[0]) == pytest.approx(0.2729314449, rel=1e-6)
    interior = np.abs(found.X[:, 0] - 0.57425) < 1e-3
    assert np.exp(found.score[interior].max()) == pytest.approx(0.1849212008, rel=1e-6)


def test_cost_moves_the_maximum():  # [line-contextual-ei]
    belief = two_points(cost=lambda x: 1 + 9 * x)
    for alpha, x in [(0.2, 1.0), (0.5, 0.0), (1.0, 0.0)]:
        found = maximise_score(belief, log_ei_per_cost(alpha), np.random.default_rng(7))
        assert found.X[0, 0] == pytest.approx(x, abs=1e-6)


def test_the_points_found_are_affordable_and_untried():
    belief = two_points(cost=lambda x: 1 + 9 * x, budget=Budget(6.4))
    found = maximise_score(belief, log_ei_per_cost(0.0), np.random.default_rng(8))
    assert np.all(found.X <= 0.6 + 1e-6)
    assert found.X[0, 0] == pytest.approx(0.57425, abs=1e-3)
    too_expensive = two_points(cost=lambda x: 1 + 9 * x, budget=Budget(0.9))
    assert not len(maximise_score(too_expensive, log_ei_per_cost(0.0), np.random.default_rng(9)).X)


def test_the_maximum_over_a_table():
    for alpha, first in [(0.0, "A"), (0.2, "C"), (1.0, "D")]:
        belief = toy()
        found = maximise_score(belief, log_ei_per_cost(alpha), np.random.default_rng(10))
        row = int(np.flatnonzero((belief.space.rows == found.X[0]).all(axis=1))[0])
        assert POOL_NAMES[row] == first


# ---------------------------------------------------------------- bounds
@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("name", [name for name in SCORES if name != "cheapness"])
def test_scores_do_not_fall_if_an_outlook_improves(name, cap):
    score, given = SCORES[name], outlook(4, cap)
    assert isinstance(score, Monotone)
    rng = np.random.default_rng(1)
    more = rng.exponential(0.5, (5, 40))
    better = given._replace(
        mean=given.mean - more[0][:, None],
        std=given.std + more[1],
        log_success=np.minimum(given.log_success + more[2], 0.0),
        cost=Normal(np.minimum(given.cost.mean - more[3], np.log(cap / 2)), np.zeros(40)),
    )
    least = given._replace(cost=Normal(np.minimum(given.cost.mean, np.log(cap / 2)), np.zeros(40)))
    assert np.all(score(least).score >= score(given).score - 1e-12)
    assert np.all(score(better).score >= score(least).score - 1e-12)
    assert not isinstance(log_ei_per_cost(-1.0), Monotone)


def test_the_expected_cost_is_at_least_that_of_a_known_one():
    """E[min(c, cap)] >= min(exp(m), cap/2)."""
    rng = np.random.default_rng(0)
    m, s = rng.normal(0.0, 3.0, 4000), np.exp(rng.normal(0.0, 1.5, 4000))
    for cap in (0.1, 1.0, 7.0, np.inf):
        assert np.all(expected_cost(m, s, cap) >= np.minimum(m, np.log(cap / 2)) - 1e-12)


@pytest.mark.parametrize("one_unit", [False, True])
@pytest.mark.parametrize("pending", [True, False])
def test_an_outlook_at_best_is_no_worse(pending, one_unit):
    belief = everything(pending=pending)
    belief = belief.in_one_unit() if one_unit else belief
    X = MIXED.sample(500, np.random.default_rng(6))
    real, best = belief.outlook(X), belief.at_best(X)
    assert np.all(best.mean <= real.mean)
    assert np.all(best.std >= real.std)
    assert np.all(best.shortfall <= real.shortfall)
    for name, score in SCORES.items():
        if name != "cheapness":
            assert np.all(score(best).score >= score(real).score), name
    assert np.median(log_ei_per_cost(0.0)(best).score - log_ei_per_cost(0.0)(real).score) < 5.0


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["20s, $50", "4s, $50"])
def test_the_best_row_of_a_large_table_is_that_of_scoring_all_rows(budget):
    rng = np.random.default_rng(2)
    rows = [MIXED.decode(x) for x in MIXED.sample(9000, rng)]
    table = Space.from_rows(rows, dict(MIXED.parameters))
    given = everything(budget=budget)
    belief = replace(given, space=table)
    scored = 0

    def counted(score):
        def count(outlook):
            nonlocal scored
            scored += len(outlook.std)
            return score(outlook)

        return count

    left = untried(table.rows, belief.tried)
    real = belief.outlook(left)
    for name, score in SCORES.items():
        value = np.where(real.shortfall <= 0, score(real).score, -np.inf)
        found = maximise_score(belief, score, np.random.default_rng(0))
        assert found.score[0] == pytest.approx(value.max(), abs=1e-9), name
        np.testing.assert_array_equal(found.X[0], left[np.argmax(value)])
        scored = 0
        mine = counted(score)
        again = maximise_score(
            belief,
            Monotone(mine) if isinstance(score, Monotone) else mine,
            np.random.default_rng(0),
        )
        np.testing.assert_array_equal(again.X[0], found.X[0])
        in_full = scored - len(left) if isinstance(score, Monotone) else scored
        assert in_full < 0.5 * len(left) if isinstance(score, Monotone) else in_full == len(left)


def test_a_proposal_states_its_expected_improvement_and_cost():
    belief = toy(limit=1000.0)
    score = log_ei_per_cost(1.0)
    found = maximise_score(belief, score, np.random.default_rng(11))
    made = proposal(belief, found, "best value for money", notes={"alpha": 1.0})
    assert made.because == (
        "best value for money: expected to improve 0.25 (the best posterior mean) by 0.0227, "
        "for about 2"
    )
    assert made.score == found.score[0]
    assert made.notes == {"alpha": 1.0}
    np.testing.assert_array_equal(made.x, found.X[0])


def test_a_proposal_reports_values_in_the_users_direction():
    belief = toy(sign=-1.0)
    found = maximise_score(belief, log_ei_per_cost(1.0), np.random.default_rng(12))
    assert "improve -0.25" in proposal(belief, found, "best value").because


def test_a_proposal_without_a_point_gives_the_reason():
    made = proposal(toy(), Found(np.empty((0, 1)), np.empty(0)), "best value")
    assert made.x is None
    assert made.because == "nothing affordable and untried is left"


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_proposal_names_the_trial_whose_value_it_would_improve(direction):
    from farthing import Float, Optimizer
    from farthing.policies import EI

    optimizer = Optimizer({"x": Float(0, 1)}, policy=EI(), direction=direction)
    for i in range(8):
        trial = optimizer.ask()
        value = (trial.params["x"] - 0.3) ** 2 + 0.01 * i
        optimizer.tell(trial, value if direction == "minimize" else -value)
    best = optimizer.best
    because = optimizer.ask().because
    assert f"improve {best.value:.4g} (trial {best.number}) by" in because
    # A pending trial counts with its expected value.
    assert "(the best value expected once the running trials end)" in optimizer.ask().because
