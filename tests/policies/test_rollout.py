import time
from dataclasses import replace

import numpy as np
import pytest
from beliefs import done, known, line, two_points

from farthing import Budget, Float, History, InvalidInput, Ledger, Optimizer, Space, Study
from farthing.acquisition.lookahead import draws, gains, joint_posterior
from farthing.acquisition.scores import log_ei_per_cost, maximise_score
from farthing.acquisition.search import is_among
from farthing.core.suggest import believed
from farthing.cost import Known
from farthing.models.gp import Hyper, build
from farthing.policies import EI, EIPerCost, Rollout, rollout
from farthing.policies.rollout import (
    PATHS,
    PROMISING,
    SCREENING_PATHS,
    Lookahead,
    best_first_point,
    inner_points,
    refine,
)


def wavy(seed, d=2, n=10, limit=60.0, **settings):
    """The belief after n values of a wavy function, costs rising in some direction."""
    space = Space({f"x{j}": Float(0, 1) for j in range(d)})
    optimizer = Optimizer(space, budget=limit, policy=EI(), seed=seed, **settings)
    rng = np.random.default_rng(seed)
    waves, phase, more_expensive = rng.normal(0, 3, (3, d)), rng.random(3) * 6, rng.normal(size=d)
    for x in rng.random((n, d)):
        params = dict(zip(space.names, x, strict=True))
        optimizer.add(
            params, float(np.sin(waves @ x + phase).sum()), cost=float(np.exp(more_expensive @ x))
        )
    return believed(optimizer._settings, optimizer._look())


def priced_table(seed, size=12, limit=4.0):
    """A table with known prices, three rows of it tried."""
    space, rng = line(size), np.random.default_rng(seed)
    prices = dict(enumerate(np.exp(rng.normal(0, 1, size))))
    tried = rng.permutation(size)[:3]
    trials = [done(i, space.rows[k], rng.normal(), space=space) for i, k in enumerate(tried)]
    X, y = [t.x for t in trials], [t.value for t in trials]
    return known(
        space,
        objective=build(X, y, Hyper(np.array([0.15]), 1.0, 1e-6, 0.0)),
        cost={"cost": Known(lambda p: prices[p["row"]]).bind(space)},
        history=History(tuple(trials)),
        budget=Budget(limit),
        best=np.array([min(y)]),
        y=np.array(y),
    )


def proposed(policy, belief, seed=0):
    return policy.propose(belief, np.random.default_rng(seed))


def looking_ahead(belief, horizon, seed=0):
    rng = np.random.default_rng(seed)
    found = [maximise_score(belief, log_ei_per_cost(alpha), rng) for alpha in (0.0, 1.0)]
    base = (1.0,) * (horizon - 2) + (0.0,)
    inner = inner_points(belief, *found, base, rng)
    drawn = draws(PATHS, horizon, len(belief.best), rng)
    certain = np.vstack([each.X[:1] for each in found])
    return Lookahead(belief, inner, base, drawn, truncate=False), certain, found


# ---------------------------------------------------------------- special cases
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", [3.0, 60.0])
def test_one_evaluation_ahead_is_ei_among_the_affordable(seed, limit):
    for belief in (wavy(seed, limit=limit), priced_table(seed)):
        here, there = proposed(Rollout(horizon=1), belief), proposed(EI(), belief)
        np.testing.assert_array_equal(here.x, there.x)
        assert belief.costs(here.x[None])[1] <= 0


def test_the_last_of_the_trials_is_ei():
    belief = wavy(1)
    one_left = replace(belief, ledger=Ledger.of(Budget({"cost": 60.0, "trials": 1})))
    np.testing.assert_array_equal(
        proposed(Rollout(horizon=4), one_left).x, proposed(EI(), belief).x
    )
    two_left = replace(belief, ledger=Ledger.of(Budget({"cost": 60.0, "trials": 2})))
    np.testing.assert_array_equal(
        proposed(Rollout(horizon=4), two_left).x, proposed(Rollout(horizon=2), belief).x
    )


@pytest.mark.slow
def test_a_constant_cost_and_no_budget_is_the_rollout_of_ei():
    differ = 0
    for seed in range(4):
        belief = wavy(seed)
        constant = replace(
            belief,
            cost={"cost": Known(lambda p: 7.3).bind(belief.space)},
            ledger=Ledger.of(None),
        )
        x = proposed(Rollout(horizon=3), constant).x
        of_ei = Rollout(horizon=3, base=(0.0, 0.0))
        np.testing.assert_allclose(proposed(of_ei, constant).x, x, atol=1e-9)
        np.testing.assert_allclose(proposed(of_ei, replace(constant, cost={})).x, x, atol=1e-9)
        differ += not np.array_equal(x, proposed(EI(), constant).x)
    assert differ > 1


def test_it_restricts_or_truncates():
    """If the base policy chooses an unaffordable point, a path ends or takes another point."""
    belief = two_points(lambda x: 1 + 2 * x, budget=Budget(3.5))
    restricted, truncated = (proposed(Rollout(2, how), belief) for how in ("restrict", "truncate"))
    assert (restricted.x, truncated.x) == ([0.0], [1.0])
    assert restricted.score > truncated.score
    assert truncated.score == pytest.approx(0.2729314449, rel=1e-6)  # EI alone: 0.5 is left


def test_the_expensive_point_comes_before_the_budget_is_spent():
    """Figure 3 of the paper: the cheap point improves more per cost, but after it the expensive
    and better point would not be affordable.
    """
    space = line(9)
    prices = {0: 10.0} | dict.fromkeys(range(1, 9), 1.0)
    trials = [done(0, space.rows[5], 0.0, space=space), done(1, space.rows[8], 0.3, space=space)]
    belief = known(
        space,
        objective=build([t.x for t in trials], [0.0, 0.3], Hyper(np.array([0.8]), 1.0, 1e-6, 0.0)),
        cost={"cost": Known(lambda p: prices[p["row"]]).bind(space)},
        budget=Budget(10.5),
        history=History(tuple(trials)),
        best=np.array([0.0]),
    )
    assert prices[space.decode(proposed(EIPerCost(), belief).x)["row"]] == 1.0
    assert prices[space.decode(proposed(Rollout(2), belief).x)["row"]] == 10.0
    plenty = replace(belief, ledger=Ledger.of(Budget(100.0)))
    ahead = proposed(Rollout(2), plenty)
    assert ahead.score > 1.1 * proposed(Rollout(2), belief).score


# ---------------------------------------------------------------- the value
@pytest.mark.slow
def test_the_proposal_gains_no_less_than_the_base_policy_on_50_beliefs():
    """Theorem 1 for the proposal itself, judged by other draws than those that chose it."""
    better = 0
    for seed in range(50):
        belief = priced_table(seed, limit=[2.0, 4.0, 8.0][seed % 3])
        horizon = 2 + seed % 3
        x = proposed(Rollout(horizon), belief).x
        first = proposed(EIPerCost(), belief).x
        rows = maximise_score(belief, log_ei_per_cost(0.0), np.random.default_rng(0)).X
        moves = np.array([int(np.flatnonzero((rows == p).all(axis=1))[0]) for p in (x, first)])
        joint = joint_posterior(belief, rows, np.ones(len(rows), dtype=bool))
        base = (1.0,) * (horizon - 2) + (0.0,)
        drawn = draws(2048, horizon, 1, np.random.default_rng([seed, 7]))
        rolled, own = gains(joint, moves, drawn, base)
        error = (rolled - own).std() / np.sqrt(len(own))
        assert rolled.mean() >= own.mean() - 4 * error - 1e-9
        better += rolled.mean() > 1.01 * own.mean()
    assert better > 15


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [2, 4])
def test_twice_as_many_inner_points_hardly_change_the_value(horizon):
    moved = []
    for seed in range(4):
        belief = wavy(seed, d=4, n=50)
        ahead, certain, found = looking_ahead(belief, horizon, seed)
        best = best_first_point(ahead, certain, np.random.default_rng(seed))
        more = inner_points(belief, *found, ahead.base, np.random.default_rng([seed, 1]))
        twice = replace(ahead, inner=np.vstack([ahead.inner, more]))
        moved.append(twice.at(best.X).score[0] - ahead.at(best.X).score[0])
    assert np.abs(moved).max() < np.log(1.02)


def test_the_inner_points_are_as_good_as_many_more():
    """Points found by pilot paths gain as much as eight times as many random points."""
    for seed in range(3):
        belief = wavy(seed, d=3, n=20)
        ahead, certain, _ = looking_ahead(belief, 3, seed)
        random = belief.space.sample(8 * len(ahead.inner), np.random.default_rng(seed))
        other = replace(ahead, inner=np.vstack([certain, random]))
        here, there = (each.at(certain[:1]).score[0] for each in (ahead, other))
        assert here > there - 0.01


def test_sobol_points_are_whole_nets(monkeypatch):
    """Only n = 2^k points have one point in each of n equal intervals (Sobol' 1967)."""
    sizes = []

    def watched(make):
        return lambda size, *others, **more: sizes.append(size) or make(size, *others, **more)

    for name in ("sobol", "draws"):
        monkeypatch.setattr(rollout, name, watched(getattr(rollout, name)))
    proposed(Rollout(horizon=2), wavy(0))
    assert len(sizes) >= 3  # points of the space, pilot paths, paths
    assert all(size.bit_count() == 1 for size in sizes)


@pytest.mark.slow
def test_refining_improves_the_value():
    """Judged with other draws, it is hardly ever worse, and better on average."""
    gained = []
    for seed in range(8):
        belief = wavy(seed, d=3, n=12)
        ahead, certain, _ = looking_ahead(belief, 2, seed)
        rng = np.random.default_rng(seed)
        x = certain[0]
        start = float(np.exp(ahead.at(x[None]).score[0]))
        end, value = refine(ahead, x, start, rng)
        assert value >= start
        judge = replace(ahead, drawn=draws(1024, 2, 1, np.random.default_rng([seed, 3])))
        before, after = judge.at(np.stack([x, end])).score
        gained.append(after - before)
    assert min(gained) > -0.01
    assert np.mean(gained) > 0.002


@pytest.mark.parametrize("seed", range(3))
def test_the_most_promising_points_are_simulated_with_all_paths(seed):
    """Only some of sixty rows are simulated; the one that is always simulated is the worst."""
    belief = priced_table(seed, size=60, limit=8.0)
    ahead, _, _ = looking_ahead(belief, 2)
    allowed = np.flatnonzero(
        (belief.costs(ahead.inner)[1] <= 0) & ~is_among(ahead.inner, belief.tried)
    )
    assert len(allowed) > 2 * PROMISING
    value, rough = ahead.of_inner(allowed), ahead.of_inner(allowed, SCREENING_PATHS)
    worst = ahead.inner[allowed[[np.argmin(value)]]]
    found = best_first_point(ahead, worst, np.random.default_rng(0))
    assert found.score[0] >= value[np.argmax(rough)] > np.median(value)
    assert found.score[0] in value[np.argsort(-rough)[:PROMISING]]


@pytest.mark.slow
def test_the_score_is_the_value():
    belief = wavy(3)
    proposal = proposed(Rollout(3), belief)
    ahead, _, _ = looking_ahead(belief, 3, seed=9)
    judge = replace(ahead, drawn=draws(2048, 3, 1, np.random.default_rng(4)))
    value = np.exp(judge.at(proposal.x[None]).score[0])
    assert proposal.score == pytest.approx(value, rel=0.05)
    assert "improvement of this and the next 2 evaluations together" in proposal.because


# ---------------------------------------------------------------- special circumstances
def test_the_budget_may_pay_for_less_than_the_horizon():
    belief = wavy(0, limit=60.0)
    some = belief.space.sample(500, np.random.default_rng(0))
    cheapest = np.exp(belief.costs(some)[0].mean.min())
    little = replace(belief, ledger=Ledger.of(Budget(3.0 * cheapest)))
    proposal = proposed(Rollout(horizon=8), little)
    assert belief.costs(proposal.x[None])[0].mean < np.log(3.0 * cheapest)
    nothing = replace(belief, ledger=Ledger.of(Budget(1e-6 * cheapest)))
    assert proposed(Rollout(horizon=8), nothing).x is None


@pytest.mark.slow
def test_running_trials_are_fantasised():
    optimizer = Optimizer(
        Space({"x": Float(0, 1), "z": Float(0, 1)}), budget=200.0, policy=Rollout(3), seed=4
    )
    rng = np.random.default_rng(0)
    for x, z in rng.random((8, 2)):
        optimizer.add({"x": x, "z": z}, float(np.sin(5 * x) + z**2), cost=1.0 + x)
    batch = optimizer.ask(4)
    points = np.array([trial.x for trial in batch])
    gaps = np.abs(points[:, None] - points).max(axis=2)[np.triu_indices(4, 1)]
    assert gaps.min() > 1e-3
    assert believed(optimizer._settings, optimizer._look()).best.shape == (10,)


def test_it_is_stored_in_a_database(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    space = {"x": Float(0, 1)}
    policy = Rollout(3, base=(0.5, 0.0))
    Study.create(url, name="ahead", space=space, budget=20.0, policy=policy)
    assert Study.open(url, name="ahead")._settings.policy == policy


@pytest.mark.parametrize("horizon", [0, -1, 2.0, 1.5, True, "2", None])
def test_an_invalid_horizon_is_refused(horizon):
    with pytest.raises(InvalidInput, match="must be a whole number of at least 1"):
        Rollout(horizon)


def test_other_invalid_settings_are_refused():
    with pytest.raises(InvalidInput, match='expected "restrict" or "truncate"'):
        Rollout(2, "shrug")
    with pytest.raises(InvalidInput, match="got 1 scores for the 2 steps after the first"):
        Rollout(3, base=(0.0,))
    for score in (-1.0, np.nan, "EI", None, True):
        with pytest.raises(InvalidInput, match="expected a number a >= 0"):
            Rollout(2, base=(score,))


# ---------------------------------------------------------------- speed
@pytest.mark.slow
def test_four_ahead_takes_a_few_dozen_times_as_long_as_ei():
    """128 paths per point, n = 50, d = 4. The limit is 40; a busy machine may double it."""
    belief = wavy(0, d=4, n=50)
    assert PATHS >= 128

    def seconds(policy):
        start = time.process_time()
        proposed(policy, belief)
        return time.process_time() - start

    pairs = []
    while len(pairs) < 100:  # at least five, and more on a busy machine
        pairs.append((seconds(Rollout(4)), seconds(EI())))
        rollout, ei = (min(column) for column in zip(*pairs, strict=True))
        if len(pairs) >= 5 and rollout < 80 * ei:
            break
    assert rollout < 80 * ei
