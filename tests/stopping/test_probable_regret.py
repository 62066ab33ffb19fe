import numpy as np
import pytest
from beliefs import NOTHING, done, known, two_points
from scipy.stats import beta as beta_distribution
from scipy.stats import binomtest

from farthing import Float, History, InvalidInput, Space, Trial
from farthing.stopping import ProbableRegret, probable_regret
from farthing.stopping.probable_regret import _misses, clopper_pearson, scheduled

GRID = np.array([[0.0], [0.25], [0.5], [0.75], [1.0]])


def on_the_grid(**settings):
    """The GP of [two-point-gp] on a table of seven points, two of them evaluated."""
    X = np.sort(np.r_[GRID[:, 0], 0.2, 0.8])
    space = Space.from_rows([{"x": x} for x in X.tolist()])
    history = History((done(0, [0.2], 0.5), done(1, [0.8], -0.1)))
    belief = two_points()
    return known(
        space, objective=belief.objective, history=history, best=np.array([-0.1]), **settings
    )


# ---------------------------------------------------------------- the interval
def test_the_interval_of_clopper_and_pearson():  # [clopper-pearson]
    low, high = clopper_pearson(np.array([0, 3]), 64, 0.05)
    np.testing.assert_allclose(low, [0, 0.009773074954], atol=1e-11)
    np.testing.assert_allclose(high, [0.05600908939, 0.1309357372], atol=1e-10)
    low, high = clopper_pearson(np.array([10]), 1000, 0.05)
    assert (low[0], high[0]) == pytest.approx((0.004805510691, 0.01831324306), abs=1e-11)


@pytest.mark.parametrize(("hits", "draws"), [(0, 16), (1, 24), (7, 36), (54, 54), (3, 1000)])
@pytest.mark.parametrize("risk", [0.3, 1e-3, 1e-9])
def test_the_interval_is_that_of_scipy(hits, draws, risk):
    low, high = clopper_pearson(np.array([hits]), draws, risk)
    slow = binomtest(hits, draws).proportion_ci(1 - risk, method="exact")
    assert low[0] == pytest.approx(slow.low, rel=1e-5, abs=1e-12)
    assert high[0] == pytest.approx(slow.high, rel=1e-5)
    if 0 < hits < draws:
        assert beta_distribution.cdf(low[0], hits, draws - hits + 1) == pytest.approx(risk / 2)


def test_no_misses_certify_at_the_ninth_test():  # [clopper-pearson]
    level = 0.025
    for test in range(1, 30):
        draws = int(16 * 1.5 ** (test - 1))
        high = clopper_pearson(np.array([0]), draws, scheduled(level, test))[1][0]
        if high <= level:
            break
    assert (test, draws) == (9, 410)
    assert scheduled(level, 9) == pytest.approx(0.0002027125156, abs=1e-13)
    assert high == pytest.approx(0.02218167471, abs=1e-11)


def test_the_risks_of_all_occasions_are_at_most_the_total_risk():
    numbers = np.arange(1, 200_000)
    rest = 0.1 / 1.1 * 10 * 200_000**-0.1  # a bound on the other terms
    assert 0.9 < sum(scheduled(1.0, 1) * numbers**-1.1) + rest <= 1.0


# ---------------------------------------------------------------- the probability
def exact_share(within, x):
    """P(f(x) - min f <= within) on the table, by joint draws of the process."""
    belief = on_the_grid()
    rows = belief.space.rows
    f = belief.objective.sample(rows, 60_000, np.random.default_rng(1))
    at = int(np.flatnonzero(rows[:, 0] == x)[0])
    return (f[:, at] - f.min(axis=1) <= within).mean()


@pytest.mark.parametrize("within", [0.1, 0.6])
def test_misses_are_as_frequent_as_in_joint_draws(within):
    belief = on_the_grid()
    X = np.array([[0.8], [0.2]])
    missed = _misses(belief, X, within, 4000, np.random.default_rng(0))
    assert missed.shape == (4000, 2)
    for share, x in zip(missed.mean(axis=0), X[:, 0], strict=True):
        expected = 1 - exact_share(within, x)
        assert share == pytest.approx(
            expected, abs=5 * np.sqrt(expected * (1 - expected) / 4000) + 5e-3
        )


@pytest.mark.parametrize(("within", "stop"), [(0.05, False), (3.0, True)])
@pytest.mark.parametrize("plain", [False, True])
def test_it_stops_if_the_probability_is_high(within, stop, plain):
    rule = ProbableRegret(within, delta=0.2, plain=plain)
    verdict = rule(on_the_grid(), NOTHING, np.random.default_rng(0))
    assert verdict.stop == stop == (verdict.number >= verdict.threshold)
    assert verdict.threshold == pytest.approx(0.8 if plain else 0.9)
    assert verdict.notes == {"probable_regret": 1}
    assert f"within {within:.3g} of the optimum in " in verdict.because
    assert ("a probability of at least" in verdict.because) != plain
    share = exact_share(within, 0.8)
    assert verdict.number <= share + 0.1  # a lower bound, or a share of 64 draws


@pytest.mark.parametrize(("misses", "stop"), [(3, True), (4, False)])
def test_a_risk_of_5_percent_by_default(misses, stop, monkeypatch):
    """3 of 64 are less than 5 %, 4 are more."""
    missed = np.arange(64)[:, None] < misses
    monkeypatch.setattr(probable_regret, "_misses", lambda *_: missed)
    rule = ProbableRegret(0.1, plain=True)
    assert rule(on_the_grid(), NOTHING, np.random.default_rng(0)).stop is stop


def test_if_the_draws_do_not_decide_the_run_continues(monkeypatch):
    """If the probability equals the level, no number of draws decides."""
    monkeypatch.setattr(
        probable_regret, "_misses", lambda b, X, w, count, rng: rng.random((count, len(X))) < 0.1
    )
    verdict = ProbableRegret(1.0, delta=0.2)(on_the_grid(), NOTHING, np.random.default_rng(0))
    assert not verdict.stop
    assert f"of {int(16 * 1.5**11)} functions" in verdict.because


@pytest.mark.slow
def test_the_certified_rule_is_wrong_less_often_than_allowed(monkeypatch):
    """The true probability is just above the level, so a stop would be wrong, in 400 runs."""
    monkeypatch.setattr(
        probable_regret, "_misses", lambda b, X, w, count, rng: rng.random((count, len(X))) < 0.13
    )
    rule = ProbableRegret(1.0, delta=0.2)
    wrong = [rule(on_the_grid(), NOTHING, np.random.default_rng(seed)).stop for seed in range(400)]
    assert sum(wrong) <= 400 * 0.1 * 0.1  # a tenth of delta/2: the first occasion's share is 1/11


def test_the_plain_rule_draws_more_each_time(monkeypatch):
    counts = []
    monkeypatch.setattr(
        probable_regret,
        "_misses",
        lambda b, X, w, count, rng: counts.append(count) or np.ones((count, len(X)), dtype=bool),
    )
    for calls in (0, 1, 2, 3, 6, 7, 50, 10_000):
        history = History((done(0, [0.2], 0.5, notes={"probable_regret": calls}),))
        belief = known(on_the_grid().space, objective=two_points().objective, history=history)
        ProbableRegret(1.0, plain=True)(belief, NOTHING, np.random.default_rng(0))
    assert counts == [64, 96, 144, 216, 729, 1000, 1000, 1000]


def test_later_occasions_take_a_smaller_risk():
    verdicts = []
    for calls in (0, 1000):
        notes = {"probable_regret": calls}
        history = History((done(0, [0.2], 0.5), done(1, [0.8], -0.1, notes=notes)))
        belief = known(on_the_grid().space, objective=two_points().objective, history=history)
        rule = ProbableRegret(5.0, delta=0.2)
        verdicts.append(rule(belief, NOTHING, np.random.default_rng(0)))
    assert verdicts[1].notes == {"probable_regret": 1001}
    assert all(v.stop for v in verdicts)
    drawn = [int(v.because.split(" functions")[0].split()[-1]) for v in verdicts]
    assert drawn[0] < drawn[1]


def test_running_trials_are_ignored():
    from farthing import Ledger
    from farthing.acquisition.belief import believe

    space = Space({"x": Float(2, 3)})
    history = History(tuple(done(i, [i / 6], np.sin(i), space=space) for i in range(7)))
    history = history.adding(Trial(7, space.decode(np.array([0.55])), np.array([0.55])))
    belief = believe(space, history, Ledger.of(None), learners={})
    verdict = ProbableRegret(1e-3)(belief, NOTHING, np.random.default_rng(0))
    assert "(ignoring the running trial)" in verdict.because
    assert not verdict.stop


@pytest.mark.parametrize("arguments", [{"within": 0}, {"within": np.nan}, {"within": "x"}])
def test_an_invalid_tolerance_is_refused(arguments):
    with pytest.raises(InvalidInput, match="must be a positive number"):
        ProbableRegret(**arguments)
    with pytest.raises(InvalidInput, match=r"The usual value is 0\.05"):
        ProbableRegret(1.0, delta=1.5)
