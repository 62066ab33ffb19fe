import numpy as np
import pytest
from beliefs import NOTHING, done, pool, two_points
from oracles import POOL_COST, POOL_MEAN, POOL_STD, dense_gp

from farthing import Float, History, InvalidInput, Ledger, Space, Trial
from farthing.acquisition.belief import believe
from farthing.policies.confidence_bound import beta
from farthing.stopping import RegretGap
from farthing.stopping.regret_gap import regret_gap

EVALUATED = [(0.27, 0.01), (0.25, 0.02), (0.40, 0.01)]


def pool_with_evaluated(sign=1.0, **settings):
    """P and three evaluated points before it."""
    mean, std = np.transpose(EVALUATED)
    return pool(
        sign * np.r_[mean, POOL_MEAN],
        np.r_[std, POOL_STD],
        np.r_[1.0, 1.0, 1.0, POOL_COST],
        0.25,
        **settings,
    )


def test_the_gap_of_the_pool():  # [regret-gap]
    belief = pool_with_evaluated()
    root = np.sqrt(beta(7, 21, 0.1))
    gap = regret_gap(belief, belief.space.rows[:3], root, np.random.default_rng(0))
    assert gap == pytest.approx(0.2908184922 - -0.1163698437, abs=1e-9)
    assert gap == pytest.approx(0.4071883359, abs=1e-9)  # a bound for maximising is 0.3371883359


def test_unaffordable_points_count():
    unaffordable = pool_with_evaluated(limit=1.0)
    root = np.sqrt(beta(7, 21, 0.1))
    gap = regret_gap(unaffordable, unaffordable.space.rows[:3], root, np.random.default_rng(0))
    assert gap == pytest.approx(0.4071883359, abs=1e-9)


def test_the_tolerance_of_cross_validation():  # [score-tolerance]
    rule = RegretGap.of_scores([0.81, 0.83, 0.80, 0.84, 0.82])
    assert rule.within == pytest.approx(0.009486832981, abs=1e-12)
    assert rule.delta == 0.1
    for scores in ([0.8], [0.8, np.nan], []):
        with pytest.raises(InvalidInput, match="at least 2 folds"):
            RegretGap.of_scores(scores)


GRID = np.linspace(0, 1, 161)[:, None]


def slow_gap(X, y, delta=0.1):
    """On a grid, by dense algebra, for the process of [two-point-gp]."""
    root = np.sqrt(0.4 * np.log(1 * len(X) ** 2 * np.pi**2 / (6 * delta)))
    at = dense_gp(np.array(X), np.array(y), np.vstack([X, GRID]), 0.3, 1.0, 1e-6)
    mean, std = at[0], np.sqrt(np.maximum(np.diag(at[1]), 0.0))
    return (mean + root * std)[: len(X)].min() - (mean - root * std).min()


@pytest.mark.slow
@pytest.mark.parametrize(("share", "stop"), [(0.99, False), (1.01, True)])
def test_the_rule_against_a_grid(share, stop):
    gap = slow_gap([[0.2], [0.8]], [0.5, -0.1])
    verdict = RegretGap(within=share * gap)(two_points(), NOTHING, np.random.default_rng(0))
    assert verdict.stop == stop
    assert verdict.number == pytest.approx(gap, rel=1e-3)
    assert verdict.threshold == share * gap
    assert verdict.because == (
        f"the best value is within {verdict.number:.3g} of the optimum with probability 0.9, "
        f"{'at most' if stop else 'more than'} the tolerance {share * gap:.3g}"
    )


def test_a_smaller_risk_widens_the_gap():
    gaps = [
        RegretGap(1.0, delta)(two_points(), NOTHING, np.random.default_rng(0)).number
        for delta in (0.5, 0.1, 0.001)
    ]
    assert gaps[0] < gaps[1] < gaps[2]
    assert gaps[2] == pytest.approx(slow_gap([[0.2], [0.8]], [0.5, -0.1], 0.001), rel=1e-3)


def test_running_trials_are_ignored():
    space = Space({"x": Float(2, 3)})
    history = History()
    for x in np.linspace(0, 1, 7):
        history = history.adding(done(len(history), [x], np.sin(5 * x), space=space))
    more = history
    for x in (0.55, 0.9):
        more = more.adding(Trial(len(more), space.decode(np.array([x])), np.array([x])))
    verdicts = [
        RegretGap(0.1)(
            believe(space, each, Ledger.of(None), learners={}), NOTHING, np.random.default_rng(0)
        )
        for each in (history, more)
    ]
    assert verdicts[1].number == pytest.approx(verdicts[0].number, rel=1e-6)
    assert "(ignoring 2 running trials)" in verdicts[1].because
    assert "ignoring" not in verdicts[0].because


@pytest.mark.parametrize("within", [0.0, -1.0, np.nan, np.inf, "0.1", None])
def test_an_invalid_tolerance_is_refused(within):
    with pytest.raises(InvalidInput, match="must be a positive number"):
        RegretGap(within=within)


@pytest.mark.parametrize("delta", [0.0, 1.0, np.nan, "0.1"])
def test_an_invalid_delta_is_refused(delta):
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        RegretGap(0.1, delta=delta)
