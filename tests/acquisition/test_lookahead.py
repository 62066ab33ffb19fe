"""Rollout compared with dense quadrature and with a slow simulation, one belief at a time."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from beliefs import done, known, line, two_points
from oracles import imagined_gain

from farthing import Budget, Float, History, Ledger, Space
from farthing.acquisition.belief import believe
from farthing.acquisition.lookahead import (
    Draws,
    _affordable_probability,
    draws,
    gains,
    joint_posterior,
    visited,
)
from farthing.acquisition.scores import log_ei_per_cost, lower_bound
from farthing.cost import Known, LogGP
from farthing.models.gp import Hyper, Normal, build
from farthing.models.normal import expected_cost, log_ei
from farthing.policies import EI, EIPerCost

GRID = np.array([[0.0], [0.25], [0.5], [0.75], [1.0]])
HERMITE_5 = np.polynomial.hermite_e.hermegauss(5)


def base_of(horizon):
    return (1.0,) * (horizon - 2) + (0.0,)


def everywhere(belief, X):
    return joint_posterior(belief, X, np.ones(len(X), dtype=bool))


def one_fantasy(normals):
    return Draws(np.asarray(normals), np.zeros(len(normals), dtype=int))


def by_quadrature(belief, horizon, nodes, weights, *, X=GRID, base=None, truncate=False):
    """The value of every row of X as a first point, with the same nodes at every transition."""
    normals = np.array(list(product(nodes, repeat=horizon - 1)))
    weight = np.array([np.prod(w) for w in product(weights, repeat=horizon - 1)])
    base = base_of(horizon) if base is None else base
    drawn = one_fantasy(normals)
    gained = gains(everywhere(belief, X), np.arange(len(X)), drawn, base, truncate=truncate)
    return gained @ (weight / weight.sum())


# ---------------------------------------------------------------- numeric oracles
@pytest.mark.slow
@pytest.mark.parametrize(
    ("tau", "truncate", "expected", "within"),
    [
        (10.0, False, [0.3431471568, 0.3234798735, 0.4073705033, 0.3959737382, 0.407562912], 2e-8),
        (3.0, False, [0.2551987684, 0.09923281227, 0.25519726, 0.07088024937, 0.2729314449], 1e-8),
        # The reward jumps where the choice of the base policy stops being affordable. There the
        # error of a quadrature is of the size of its step: with 3,000,000 nodes the first two
        # values are 0.1311724 and 0.0237101.
        (3.0, True, [0.1311604043, 0.02371061613, 0.1671016026, 0.07088024937, 0.2729314449], 2e-5),
        (3.0, True, [0.1311724, 0.0237101, 0.1671016026, 0.07088024937, 0.2729314449], 4e-6),
    ],
)
def test_two_steps_by_dense_quadrature(tau, truncate, expected, within):  # [two-step-rollout]
    belief = two_points(lambda x: 1 + 2 * x, budget=Budget(tau))
    nodes = np.linspace(-8, 8, 200_001 if truncate else 20_001)
    value = by_quadrature(belief, 2, nodes, np.exp(-0.5 * nodes**2), truncate=truncate)
    np.testing.assert_allclose(value, expected, atol=within)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (16, [0.2544192527, 0.09923232882, 0.2577010125]),
        (32, [0.2547742232, 0.09923284851, 0.25540117]),
    ],
)
def test_two_steps_by_gauss_hermite(count, expected):  # [two-step-rollout]
    belief = two_points(lambda x: 1 + 2 * x, budget=Budget(3.0))
    value = by_quadrature(belief, 2, *np.polynomial.hermite_e.hermegauss(count))
    np.testing.assert_allclose(value[:3], expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("tau", "horizon", "truncate", "expected"),
    [
        (10.0, 2, False, [0.3336042891, 0.3294865567, 0.4093132112, 0.3974313693, 0.4219370802]),
        (10.0, 3, False, [0.4643277865, 0.4543749602, 0.4628870032, 0.448208004, 0.4958659928]),
        (5.0, 2, False, [0.3336042891, 0.3294865567, 0.4093132112, 0.2224543459, 0.4219331923]),
        (5.0, 3, False, [0.3337046948, 0.3209031381, 0.2609847886, 0.2156680912, 0.3908016293]),
        (5.0, 3, True, [0.3336096986, 0.3165094509, 0.2609076815, 0.1863510821, 0.3907539162]),
    ],
)
def test_five_nodes_per_transition(tau, horizon, truncate, expected):  # [deterministic-rollout]
    belief = two_points(lambda x: 1 + 2 * x, budget=Budget(tau))
    value = by_quadrature(belief, horizon, *HERMITE_5, truncate=truncate)
    np.testing.assert_allclose(value, expected, rtol=1e-9)


def test_the_trial_of_a_second_worker_is_a_fantasy():  # [batch-fantasies]
    belief = two_points()
    y = np.array([0.5834888082, -0.7840646782])
    pending = replace(
        belief,
        objective=belief.objective.condition(np.array([1.0]), y),
        best=np.minimum(belief.best, y),
    )
    nothing_follows = Draws(np.zeros((4, 0)), np.array([0, 1, 0, 1]))
    ei = gains(everywhere(pending, GRID), np.arange(5), nothing_follows, ()).mean(axis=1)
    expected = [0.05314686941, 9.998750679e-05, 0.1234231188, 0.06393805868, 0.0001991055245]
    np.testing.assert_allclose(ei, expected, rtol=1e-6)


@dataclass(frozen=True)
class Uncertain:
    """ln c ~ N(m, s^2) everywhere."""

    m: float
    s: float
    memory: None = None

    def log_at(self, X):
        return Normal(np.full(len(X), self.m), np.full(len(X), self.s))

    def condition(self, x, cost):
        return self


def test_a_reward_counts_only_if_it_can_be_paid():  # [probability-affordable]
    space = Space({"x": Float(0, 1)})
    gp = build([[0.0]], [0.25], Hyper(np.array([0.01]), 0.04, 1e-12, 0.3))
    belief = known(
        space,
        objective=gp,
        best=np.array([0.25]),
        budget=Budget(4.0),
        cost={"cost": Uncertain(1.2, 0.5)},
    )
    gained = gains(everywhere(belief, np.array([[1.0]])), np.array([0]), one_fantasy([[]]), ())
    assert gained[0, 0] == pytest.approx(0.03695408423, rel=1e-9)


# ---------------------------------------------------------------- slow simulations
@dataclass(frozen=True)
class Unchanged:
    """A cost model that learns nothing along a path."""

    model: object

    def log_at(self, X):
        return self.model.log_at(X)

    def condition(self, x, cost):
        return self


def random_belief(seed, *, known_cost=None):
    """A belief of one to three coordinates, points for paths to visit, and a generator.

    It has, depending on the seed, a limit, noise, failures or a learnt cost.
    """
    rng = np.random.default_rng(seed)
    d = 1 + seed % 3
    space = Space({f"x{j}": Float(2, 3) for j in range(d)})
    X = rng.random((5 + seed % 5, d))
    slope = rng.normal(0, 1.5, d)
    y = 5 + np.sin(5 * X @ slope) + 0.3 * rng.standard_normal(len(X))
    cost = np.exp(X @ slope) * (1 + 0.3 * rng.random(len(X)))
    trials = [done(i, X[i], y[i], cost=cost[i], space=space) for i in range(len(X))]
    if seed % 4 == 1:
        trials[1] = replace(trials[1], state="failed", value=None)
    is_known = seed % 2 == 0 if known_cost is None else known_cost
    learner = LogGP()
    if is_known:
        learner = Known(lambda p: np.exp(np.array([p[n] - 2 for n in space.names]) @ slope))
    limit = [None, 2.0, 4.0][seed % 3]
    belief = believe(
        space,
        History(tuple(trials)),
        Ledger.of(None if limit is None else Budget(limit * float(np.median(cost)))),
        learners={"cost": learner},
        noisy=seed % 5 == 3,
    )
    kept = {"cost": Unchanged(belief.cost["cost"])}
    return replace(belief, cost=kept), rng.random((14, d)), rng


@pytest.mark.slow
@pytest.mark.parametrize("truncate", [False, True])
def test_every_path_of_50_beliefs_equals_the_slow_simulation(truncate):
    """The same normals give the same paths, up to rounding and not only to sampling error."""
    ended = 0
    for seed in range(50):
        belief, X, rng = random_belief(seed)
        horizon = 2 + seed % 3
        normals = rng.standard_normal((3, horizon - 1))
        firsts = rng.permutation(len(X))[:3]
        gained = gains(
            everywhere(belief, X), firsts, one_fantasy(normals), base_of(horizon), truncate=truncate
        )
        scores = [log_ei_per_cost(alpha) for alpha in base_of(horizon)]
        slow = [[imagined_gain(belief, X, i, z, scores, truncate) for z in normals] for i in firsts]
        np.testing.assert_allclose(gained, slow, rtol=1e-6, atol=1e-12 * belief.scale)
        alone = [imagined_gain(belief, X, i, [], []) for i in firsts]
        ended += int(np.isclose(gained, np.array(alone)[:, None], rtol=1e-9).sum())
    assert 10 < ended < 350  # some paths end at once, because no point is affordable


@pytest.mark.slow
def test_the_value_of_50_beliefs_equals_the_slow_one_within_sampling_error():
    errors = []
    for seed in range(50):
        belief, X, rng = random_belief(seed)
        first = int(rng.integers(len(X)))
        drawn = draws(256, 3, 1, rng)
        fast = gains(everywhere(belief, X), np.array([first]), drawn, (1.0, 0.0))[0]
        scores = [log_ei_per_cost(1.0), log_ei_per_cost(0.0)]
        normals = rng.standard_normal((24, 2))
        slow = np.array([imagined_gain(belief, X, first, z, scores) for z in normals])
        error = np.hypot(slow.std() / np.sqrt(len(slow)), fast.std() / np.sqrt(len(fast)))
        errors.append((fast.mean() - slow.mean()) / (error + 1e-9 * slow.mean()))
    assert np.abs(errors).max() < 4.5
    assert np.abs(np.mean(errors)) < 4 / np.sqrt(50)


def test_any_score_may_be_the_base():
    """A score is evaluated at every point of every path; a number is a fast special case."""
    for seed in range(8):
        belief, X, rng = random_belief(seed)
        joint, drawn = everywhere(belief, X), draws(16, 3, 1, rng)
        firsts = np.arange(len(X))
        quick = gains(joint, firsts, drawn, (0.7, 0.0))
        slow = gains(joint, firsts, drawn, (log_ei_per_cost(0.7), log_ei_per_cost(0.0)))
        np.testing.assert_allclose(quick, slow, rtol=1e-9)
        bound = lower_bound(2.0, belief.scale)
        other = gains(joint, firsts, drawn, (bound, bound))
        z, scores = drawn.normals[5], [bound, bound]
        expected = [imagined_gain(belief, X, i, z, scores) for i in range(4)]
        np.testing.assert_allclose(other[:4, 5], expected, rtol=1e-6, atol=1e-12 * belief.scale)


def rolled_out_gains(policy, belief, x, drawn, rng):
    """(p,) gain of each path from x if `policy` proposes all later points; slow.

    Every step builds a new belief by `Belief.fantasise` and calls `policy.propose`.
    """
    gained = np.zeros(len(drawn.normals))
    for path, (normals, f) in enumerate(zip(drawn.normals, drawn.fantasy, strict=True)):
        gp = belief.objective
        one = replace(gp, targets=gp.targets[:, [f]])
        now, here = replace(belief, objective=one, best=belief.best[[f]]), x
        for z in (*normals, None):
            paid = {
                resource: float(np.exp(expected_cost(*normal, now.ledger[resource].left)[0]))
                for resource, normal in now.predicted(here).items()
            }
            gained[path] += reward_of(now, here)
            if z is None or now.objective is None:
                break
            mean, std = now.objective.at(here[None])
            noise = now.objective.scale**2 * now.objective.noise if belief.noisy else 0.0
            now = now.fantasise(here, float(mean[0, 0] + np.sqrt(std[0] ** 2 + noise) * z), paid)
            proposal = policy.propose(now, rng)
            if now.ledger.used_up or proposal.x is None:
                break
            here = proposal.x
    return gained


def reward_of(belief, x):
    """EI P(c <= left) P(success) at x."""
    outlook = belief.outlook(x[None])
    ei = log_ei(outlook.mean[0, 0], outlook.std[0], outlook.best[0])
    return float(
        np.exp(ei + outlook.log_success[0]) * _affordable_probability(outlook.cost, outlook.cap)[0]
    )


@pytest.mark.parametrize("policy", [EI(), EIPerCost()])
def test_paths_are_those_of_the_policy(policy):
    """On a table a policy maximises its score exactly, so both simulations are equal."""
    space = line(9)
    rng = np.random.default_rng(3)
    prices = dict(enumerate(np.exp(rng.normal(0, 1, 9))))
    trials = [done(i, space.rows[k], rng.normal(), space=space) for i, k in enumerate((1, 4, 6))]
    belief = known(
        space,
        objective=build(
            [t.x for t in trials],
            [t.value for t in trials],
            Hyper(np.array([0.2]), 1.0, 1e-6, 0.0),
        ),
        cost={"cost": Known(lambda p: prices[p["row"]]).bind(space)},
        history=History(tuple(trials)),
        budget=Budget(4.0),
        best=np.array([min(t.value for t in trials)]),
    )
    open_rows = np.delete(space.rows, [1, 4, 6], axis=0)
    drawn = draws(8, 3, 1, rng)
    alpha = 0.0 if isinstance(policy, EI) else 1.0
    quick = gains(everywhere(belief, open_rows), np.arange(6), drawn, (alpha, alpha))
    for i in range(6):
        slow = rolled_out_gains(policy, belief, open_rows[i], drawn, rng)
        np.testing.assert_allclose(slow, quick[i], rtol=1e-6)
    assert np.ptp(quick) > 0


# ---------------------------------------------------------------- properties
@pytest.mark.slow
def test_theorem_1_on_50_beliefs():
    """With a deterministic cost the best first point gains at least as much as the base policy."""
    better = 0
    for seed in range(50):
        belief, X, _ = random_belief(seed, known_cost=True)
        horizon = 2 + seed % 2
        affordable = belief.outlook(X).shortfall <= 0
        value = by_quadrature(belief, horizon, *HERMITE_5, X=X)
        scores = [log_ei_per_cost(alpha) for alpha in base_of(horizon)]
        own = log_ei_per_cost(1.0)(belief.outlook(X)).score
        first = int(np.argmax(np.where(affordable, own, -np.inf)))
        nodes, weights = HERMITE_5
        base = sum(
            np.prod(w) * imagined_gain(belief, X, first, z, scores)
            for z, w in zip(
                product(nodes, repeat=horizon - 1),
                product(weights, repeat=horizon - 1),
                strict=True,
            )
        ) / weights.sum() ** (horizon - 1)
        best = value[affordable].max()
        assert best >= base * (1 - 1e-6)
        better += best > 1.001 * base
    assert better > 10


def test_without_a_limit_a_constant_cost_has_no_effect():
    for seed in (0, 2, 6):
        belief, X, rng = random_belief(3 * seed, known_cost=True)
        assert np.isinf(belief.ledger.limit)
        drawn = draws(32, 4, 1, rng)
        constant = replace(belief, cost={"cost": Known(lambda p: 7.3).bind(belief.space)})
        plain = replace(belief, cost={})
        ei = gains(everywhere(plain, X), np.arange(len(X)), drawn, (0.0, 0.0, 0.0))
        for other, base in ((constant, base_of(4)), (plain, base_of(4))):
            gained = gains(everywhere(other, X), np.arange(len(X)), drawn, base)
            np.testing.assert_allclose(gained, ei, rtol=1e-12)
        assert np.ptp(ei) > 0


def test_a_longer_horizon_may_be_worth_less():
    """A step of best EI per cost may spend what the last step needs ([deterministic-rollout])."""
    belief = two_points(lambda x: 1 + 2 * x, budget=Budget(5.0))
    two, three = (by_quadrature(belief, horizon, *HERMITE_5) for horizon in (2, 3))
    assert three[2] < 0.7 * two[2]


def test_a_row_is_visited_once():
    space = line(3)
    gp = build(space.rows[:1], [0.0], Hyper(np.array([0.5]), 1.0, 0.5, 0.0))
    belief = known(space, objective=gp, best=np.array([0.0]))
    joint = everywhere(belief, space.rows)
    drawn = draws(64, 4, 1, np.random.default_rng(0))
    everything = gains(joint, np.array([1]), drawn, (0.0, 0.0, 0.0))
    two_others = gains(joint, np.array([1]), drawn, (0.0, 0.0))
    np.testing.assert_allclose(everything, two_others, rtol=1e-12)  # three rows, then none
    again = gains(
        everywhere(replace(belief, noisy=True), space.rows), np.array([1]), drawn, (0.0,) * 3
    )
    assert again.mean() > 1.05 * everything.mean()


def test_a_forbidden_point_is_not_visited():
    belief, X, rng = random_belief(0)
    drawn = draws(64, 3, 1, rng)
    joint = everywhere(belief, X)
    there = visited(joint, np.arange(3), drawn, (1.0, 0.0))
    closed = np.isin(np.arange(len(X)), there[:1])
    without = visited(joint_posterior(belief, X, ~closed), np.arange(3), drawn, (1.0, 0.0))
    assert there[0] not in without
    assert len(there) > 2


def test_paths_start_from_the_fantasies_of_running_trials():
    """Each fantasy has its own incumbent; the value is the mean over fantasies."""
    belief, X, rng = random_belief(0)
    y = belief.best[0] + belief.scale * np.array([-0.5, 0.2, 1.0])
    pending = replace(
        belief,
        objective=belief.objective.condition(np.full(1, 0.37), y),
        best=np.minimum(belief.best, y),
    )
    normals = rng.standard_normal((5, 1))
    drawn = Draws(np.repeat(normals, 3, axis=0), np.tile([0, 1, 2], 5))
    gained = gains(everywhere(pending, X), np.array([3]), drawn, (0.0,))[0]
    alone = []
    for f in range(3):
        gp = pending.objective
        one = replace(
            pending,
            objective=replace(gp, targets=gp.targets[:, [f]]),
            best=pending.best[[f]],
        )
        alone.append(gains(everywhere(one, X), np.array([3]), one_fantasy(normals), (0.0,))[0])
    assert gained.mean() == pytest.approx(np.mean(alone), rel=1e-9)
    assert np.ptp(np.mean(alone, axis=1)) > 0


def test_no_path_exceeds_any_of_several_budgets():
    """The cost of a point is that of its scarcest resource, as in the slow simulation."""
    for seed in range(6):
        belief, X, rng = random_belief(3 * seed, known_cost=True)
        price = Known(lambda p: 1 + 2 * (p["x0"] - 2)).bind(belief.space)
        several = replace(
            belief,
            cost={"s": belief.cost["cost"], "usd": Unchanged(price)},
            ledger=Ledger.of(Budget({"s": 4.0, "usd": 4.5})),
        )
        normals = rng.standard_normal((3, 3))
        quick = gains(everywhere(several, X), np.arange(3), one_fantasy(normals), base_of(4))
        scores = [log_ei_per_cost(alpha) for alpha in base_of(4)]
        slow = [[imagined_gain(several, X, i, z, scores) for z in normals] for i in range(3)]
        np.testing.assert_allclose(quick, slow, rtol=1e-6, atol=1e-12 * belief.scale)


@pytest.mark.slow
def test_a_switching_cost_follows_the_path():
    """c(x | previous x): after each step the costs depend on its point."""

    def switching(params, before):
        distance = 0.0 if before is None else abs(params["x0"] - before["x0"])
        return 0.2 + 3.0 * distance

    ends = 0
    for seed in range(0, 12, 2):
        belief, X, rng = random_belief(seed)
        last = belief.history.trials[-1].x
        with_switching = replace(
            belief,
            cost={"cost": Known(switching).bind(belief.space).after(last)},
            ledger=Ledger.of(Budget(2.5)),
        )
        normals = rng.standard_normal((3, 3))
        quick = gains(everywhere(with_switching, X), np.arange(6), one_fantasy(normals), base_of(4))
        scores = [log_ei_per_cost(alpha) for alpha in base_of(4)]
        slow = [[imagined_gain(with_switching, X, i, z, scores) for z in normals] for i in range(6)]
        np.testing.assert_allclose(quick, slow, rtol=1e-6, atol=1e-12 * belief.scale)
        constant_cost = replace(
            with_switching, cost={"cost": Known(lambda p: 0.5).bind(belief.space)}
        )
        other = gains(everywhere(constant_cost, X), np.arange(6), one_fantasy(normals), base_of(4))
        ends += int((quick < other - 1e-9).sum())
    assert ends > 10


def test_draws_are_normal_and_reproducible():
    drawn = draws(128, 4, 3, np.random.default_rng(5))
    assert drawn.normals.shape == (128, 3)
    assert np.isfinite(drawn.normals).all()
    np.testing.assert_allclose(drawn.normals.mean(axis=0), 0.0, atol=0.03)
    np.testing.assert_allclose(drawn.normals.std(axis=0), 1.0, atol=0.05)
    assert np.bincount(drawn.fantasy, minlength=3).min() >= 40
    np.testing.assert_array_equal(drawn.normals, draws(128, 4, 3, np.random.default_rng(5)).normals)
