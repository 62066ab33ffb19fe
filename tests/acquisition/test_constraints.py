"""Constraints in the belief, scores, lookahead and exchange rate, against slow oracles."""

from dataclasses import replace

import numpy as np
import pytest
from beliefs import two_points
from oracles import differences
from scipy.stats import norm

from farthing import Float, Optimizer
from farthing.acquisition.exchange_rate import Boxes, exchange_rate_of_budget, expected_spending
from farthing.acquisition.lookahead import Draws, draws, gains, joint_posterior
from farthing.acquisition.posterior_samples import draw, minima
from farthing.acquisition.scores import ScoreSurface, gittins_index, log_ei_per_cost, lower_bound
from farthing.core.suggest import believed
from farthing.models.feasibility import Feasibility
from farthing.models.gp import Hyper, build
from farthing.models.normal import gittins

GRID = np.linspace(0, 1, 9)[:, None]


def limited(*, noisy=False, bound=0.2, fantasies=1):
    """The two-point process with a constraint that the right part of the line violates."""
    gp = build([[0.1], [0.5], [0.9]], [-0.6, 0.1, 0.9], Hyper(np.array([0.6]), 0.8, 1e-3, 0.2))
    belief = two_points(lambda x: 1 + 2 * x)
    best = np.repeat(belief.best, fantasies)
    targets = np.repeat(belief.objective.targets, fantasies, axis=1)
    targets = targets + 0.1 * np.arange(fantasies)
    objective = replace(belief.objective, targets=targets)
    model = Feasibility("z", gp, bound, noisy)
    return replace(belief, objective=objective, best=best, feasibility=(model,), noisy=noisy)


def studied(trials=9, **settings):
    optimizer = Optimizer(
        {"x": Float(0, 1), "y": Float(0, 1)}, 60, constraints={"a": "<= 0.6", "b": ">= 0.2"}
    )
    rng = np.random.default_rng(1)
    for x, y in rng.random((trials, 2)):
        params = {"x": x, "y": y}
        if x > 0.9 or y > 0.9:
            optimizer.add(params, failed="too large")
        else:
            measured = {"a": x + 0.1 * np.sin(9 * y), "b": y}
            optimizer.add(params, (x - 1) ** 2 + y, cost=1 + x, constraints=measured)
    return believed(optimizer._settings, optimizer._look(), model=True)


# ── the belief ───────────────────────────────────────────────────────────────────────────────────


def test_the_log_probabilities_add_and_have_exact_gradients():
    belief = studied()
    assert belief.success is not None
    assert [model.name for model in belief.feasibility] == ["a", "b"]
    X = 0.1 + 0.8 * np.random.default_rng(0).random((6, 2))
    without = replace(belief, feasibility=())
    each = [replace(without, success=None, feasibility=(m,)) for m in belief.feasibility]
    total = without.log_success(X) + sum(one.log_success(X) for one in each)
    np.testing.assert_allclose(belief.log_success(X), total, rtol=1e-12)
    value, slope = belief.log_success_slopes(X)
    np.testing.assert_allclose(value, total, rtol=1e-12)
    expected = differences(belief.log_success, X)
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "score",
    [log_ei_per_cost(0.0), log_ei_per_cost(1.0), gittins_index(0.1), lower_bound(1.3, 0.7)],
)
@pytest.mark.parametrize("feasible", [True, False])
def test_the_gradient_of_every_score(score, feasible):
    belief = studied()
    if not feasible:
        belief = replace(belief, best=np.array([np.inf]))
    surface = ScoreSurface(belief, score)
    X = 0.1 + 0.8 * np.random.default_rng(0).random((6, 2))
    rated, slope, _ = surface.slopes(X)
    assert np.isfinite(rated.score).all()
    expected = differences(lambda S: surface.at(S).score, X)
    np.testing.assert_allclose(slope, expected, rtol=1e-3, atol=1e-4)


def test_without_an_incumbent_ei_is_the_probability_of_feasibility():
    belief = replace(studied(), best=np.array([np.inf]))
    X = np.random.default_rng(0).random((6, 2))
    outlook = belief.outlook(X)
    np.testing.assert_array_equal(log_ei_per_cost(0.0)(outlook._replace(cap=np.inf)).score,
                                  belief.log_success(X))  # fmt: skip
    assert not belief.has_incumbent


def test_the_best_points_are_feasible_ones_first():
    belief = studied(12)
    feasible = np.isfinite(belief.feasible_y)
    assert 0 < feasible.sum() < len(feasible)
    assert belief.y.min() < belief.feasible_y.min()
    first = np.array([t.x for t in belief.history.done])[np.argmin(belief.feasible_y)]
    np.testing.assert_array_equal(belief.top[0], first)


# ── lookahead ────────────────────────────────────────────────────────────────────────────────────


def path_gain(belief, X, first, normals, measured, score):
    """The gain of one path, step by step with conditioned beliefs."""
    here, gained = X[first], 0.0
    for step, (z, w) in enumerate([*zip(normals, measured, strict=True), (None, None)]):
        mean, std = belief.objective.at(here[None])
        u = (belief.best[0] - mean[0, 0]) / std[0]
        ei = std[0] * (norm.pdf(u) + u * norm.cdf(u))
        gained += ei * np.exp(belief.log_feasible(here[None])[0])
        if z is None:
            return gained
        [model] = belief.feasibility
        m, s = model.gp.at(here[None])
        seen = m[0, 0] + np.hypot(s[0], model.noise) * w
        noise = belief.objective.scale**2 * belief.objective.noise if belief.noisy else 0.0
        after = belief.fantasise(here, mean[0, 0] + np.sqrt(std[0] ** 2 + noise) * z, {})
        model = replace(model, gp=model.gp.condition(here, seen))
        best = after.best if seen <= model.bound else belief.best
        belief = replace(after, feasibility=(model,), best=best)
        here = X[np.argmax(score[step](belief.outlook(X)).score)]
    raise AssertionError


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("horizon", [2, 3])
@pytest.mark.parametrize("callable_score", [False, True])
def test_paths_learn_the_constraint(noisy, horizon, callable_score):
    belief = limited(noisy=noisy)
    rng = np.random.default_rng(2)
    normals, measured = rng.standard_normal((2, 12, horizon - 1))
    drawn = Draws(normals, np.zeros(12, dtype=int), measured[:, :, None])
    joint = joint_posterior(belief, GRID, np.ones(len(GRID), dtype=bool))
    score = log_ei_per_cost(0.0)
    base = ([score] if callable_score else [0.0]) * (horizon - 1)
    found = gains(joint, np.arange(len(GRID)), drawn, base)
    expected = [
        [path_gain(belief, GRID, first, normals[p], measured[p], [score] * horizon)
         for p in range(12)]
        for first in range(len(GRID))
    ]  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    free = gains(joint_posterior(replace(belief, feasibility=()), GRID, joint.is_open),
                 np.arange(len(GRID)), drawn, base)  # fmt: skip
    assert found.mean() < 0.9 * free.mean()


def test_draws_without_constraints_are_as_before():
    one, other = (draws(8, 3, 2, np.random.default_rng(0), constraints=k) for k in (0, 2))
    assert one.measured.shape == (8, 2, 0)
    assert other.measured.shape == (8, 2, 2)
    assert abs(other.measured.mean()) < 0.3


# ── the exchange rate ────────────────────────────────────────────────────────────────────────────


def simulated_spending(boxes, best, worth, draws, rng):
    """Open the boxes in the order of their indices, and stop when the best is at most the next."""
    g = gittins(boxes.mean, boxes.std, np.log(worth) + np.log(boxes.cost) - boxes.log_feasible)
    order = np.argsort(g)
    total = 0.0
    for _ in range(draws):
        found = best
        for k in order:
            if found <= g[k]:
                break
            total += boxes.cost[k]
            if rng.random() < np.exp(boxes.log_feasible[k]):
                found = min(found, boxes.mean[k] + boxes.std[k] * rng.standard_normal())
    return total / draws


def test_the_expected_spending_counts_infeasible_boxes():
    rng = np.random.default_rng(0)
    n = 8
    log_p = np.log(rng.uniform(0.1, 1.0, n))
    boxes = Boxes(rng.normal(0, 1, n), rng.uniform(0.2, 1.5, n), rng.uniform(0.5, 3, n), log_p)
    for worth in (0.02, 0.1):
        expected = simulated_spending(boxes, 0.5, worth, 20_000, rng)
        assert expected_spending(boxes, 0.5, worth) == pytest.approx(expected, rel=0.03)
    certain = boxes._replace(log_feasible=np.zeros(n))
    plain = boxes._replace(log_feasible=None)
    assert expected_spending(certain, 0.5, 0.1) == pytest.approx(
        expected_spending(plain, 0.5, 0.1), rel=1e-9
    )
    rate = exchange_rate_of_budget(boxes, 0.5, 4.0)
    assert expected_spending(boxes, 0.5, rate) <= 4.0 < expected_spending(boxes, 0.5, 0.9 * rate)


# ── minima of drawn functions ────────────────────────────────────────────────────────────────────


def test_the_minimum_of_a_drawn_function_is_feasible():
    belief = limited(bound=0.0)
    rng = np.random.default_rng(0)
    paths = draw(belief.objective, ["x"], 40, rng)
    [model] = belief.feasibility
    limits = draw(model.gp, ["x"], 40, rng)
    bounds = [(limits, model.bound)]
    near = np.array([[0.1]])
    found = minima(paths, belief.space, near, rng, bounds)
    dense = np.linspace(0, 1, 4001)[:, None]
    value = np.where(limits.at(dense) <= model.bound, paths.at(dense), np.inf)
    exact = np.minimum(value.min(axis=0), paths.at(near)[0])
    free = paths.at(dense).min(axis=0)
    assert (found >= exact - 1e-4).all()
    assert np.median(found - exact) < 1e-3
    assert (found - exact).max() < 0.05
    assert (exact > free + 0.01).sum() > 10  # the constraint matters
