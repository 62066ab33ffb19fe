from functools import cache

import numpy as np
import pytest
from beliefs import chosen, done, known, letter, one_column, pool, random_pool, toy, two_points

from farthing import Budget, Categorical, Float, History, Int, InvalidInput, Space
from farthing.acquisition.pareto import front
from farthing.acquisition.scores import log_ei_per_cost, maximise_score
from farthing.cost import Known
from farthing.models.gp import Hyper, build
from farthing.models.normal import log_ei
from farthing.policies import EI, ContextualEI, contextual
from farthing.policies.contextual import cheapest_within


@pytest.mark.parametrize(
    ("slack", "row"),
    [
        (0.0, "A"),
        (0.05, "A"),
        (0.1, "B"),
        (0.25, "C"),
        (0.5, "C"),
        (0.75, "D"),
        (1 - 1e-9, "D"),
    ],
)
def test_choices_on_the_toy_pool(slack, row):  # [pool-contextual-ei]
    assert letter(ContextualEI(slack), toy()) == row


@pytest.mark.parametrize(
    ("slack", "x"),
    [
        (0.05, 0.9833161868),
        (0.2, 0.9417675937),
        (0.3, 0.9187191163),
        (0.36, 0.5184061325),  # jumps to the other mode
        (0.5, 0.4486076358),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_choices_on_the_line(slack, x, seed):  # [line-contextual-ei]
    belief = two_points(lambda x: 1 + 9 * x)
    proposal = ContextualEI(slack).propose(belief, np.random.default_rng(seed))
    assert proposal.x == pytest.approx([x], abs=1e-6)
    assert proposal.score == pytest.approx(-np.log(1 + 9 * x), abs=1e-6)
    assert proposal.notes["log_ei_best"] == pytest.approx(np.log(0.2729314449), abs=1e-9)


@pytest.mark.parametrize(("share", "row"), [(0.7 * 0.999, 0), (0.7 * 1.001, 1)])
def test_a_thousandth_short_of_enough_is_not_enough(share, row):
    """EI(b + a (m - b), a s; b) = a EI(m, s; b): the second row, cheaper, has a share of the EI."""
    best, mean, std = 1.0, 0.8, 0.3
    means, stds = [mean, best + share * (mean - best)], [std, share * std]
    assert chosen(ContextualEI(0.3), pool(means, stds, [2.0, 1.0], best)) == row


@pytest.mark.parametrize("slack", [0.3, 0.5])
def test_in_a_table_too_large_to_be_scored_at_once(slack):
    """The cheapest row with enough EI is far from the rows that are scored first."""
    space = Space.from_rows([{"x": x} for x in np.linspace(0, 1, 4500)])
    line = two_points()
    cost = Known(lambda p: 1 + 9 * p["x"]).bind(space)
    belief = known(
        space,
        objective=line.objective,
        cost={"cost": cost},
        history=line.history,
        best=np.array([-0.1]),
    )
    ei = log_ei(*one_column(line.objective, space.rows), -0.1)
    enough = np.flatnonzero(ei >= ei.max() + np.log(1 - slack))
    assert chosen(ContextualEI(slack), belief) == enough[0]


def test_the_constraint_holds():
    belief = two_points(lambda x: 1 + 9 * x)
    rng = np.random.default_rng(0)
    found = maximise_score(belief, log_ei_per_cost(0.0), rng)
    cheapest = cheapest_within(belief, found, 0.3).X[:1]
    ei = log_ei(*one_column(belief.objective, cheapest), -0.1)
    assert ei >= np.log(0.7 * 0.2729314449) - 2e-9
    assert ei == pytest.approx(np.log(0.7 * 0.2729314449), abs=1e-6)  # and the constraint is active


@pytest.mark.parametrize("seed", range(10))
def test_the_choice_is_the_cheapest_with_enough_and_on_the_front(seed):
    belief = random_pool(np.random.default_rng(seed))
    rows = belief.space.rows
    ei = log_ei(*one_column(belief.objective, rows), 2.6)
    cost = belief.cost["cost"].log_at(rows).mean
    for slack in (0.02, 0.3, 0.7, 0.95):
        row = chosen(ContextualEI(slack), belief)
        enough = np.flatnonzero(ei >= ei.max() + np.log(1 - slack))
        assert row == enough[np.argmin(cost[enough])]
        assert row in front(ei, cost)


@pytest.mark.parametrize("seed", range(5))
def test_no_slack_is_ei(seed):
    belief = random_pool(np.random.default_rng(seed))
    assert chosen(ContextualEI(0.0), belief) == chosen(EI(), belief)
    line = two_points(lambda x: 1 + 9 * x)
    points = [p.propose(line, np.random.default_rng(seed)).x for p in (ContextualEI(0.0), EI())]
    np.testing.assert_array_equal(*points)


@pytest.mark.parametrize("slack", [0.1, 0.3, 0.9])
def test_a_constant_cost_is_ei(slack):
    belief = random_pool(np.random.default_rng(3))
    constant = pool(belief.objective.mean, belief.objective.std, np.full(12, 7.3), 2.6)
    assert chosen(ContextualEI(slack), constant) == chosen(EI(), constant)
    line = two_points(lambda x: 7.3)
    points = [p.propose(line, np.random.default_rng(1)).x for p in (ContextualEI(slack), EI())]
    np.testing.assert_allclose(*points, atol=1e-7)


def test_of_equally_cheap_points_the_one_with_more_ei():
    belief = pool([1.0, 1.05, 1.04, 3.0], [0.5] * 4, [9.0, 4.0, 4.0, 1.0], 1.2)
    assert chosen(ContextualEI(0.3), belief) == 2


def test_unaffordable_points_do_not_define_the_best_ei():
    # Row A has the most EI, but 60 pays only for B; 90 % of B's EI is B's alone, C has 89 %.
    assert letter(ContextualEI(0.1), toy(limit=60)) == "B"
    assert letter(ContextualEI(0.12), toy(limit=60)) == "C"


@pytest.mark.parametrize("slack", [-0.1, 1.0, 1.5, np.nan])
def test_an_invalid_slack_is_refused(slack):
    with pytest.raises(InvalidInput, match="must be at least 0 and less than 1"):
        ContextualEI(slack)


@cache
def mixed(limit=None):
    """Two continuous coordinates, an Int and a Categorical; the cost increases in all of them."""
    space = Space(
        {
            "x": Float(2, 3),
            "k": Int(1, 4),
            "kind": Categorical(["a", "b"]),
            "z": Float(-1, 1, when={"kind": "a"}),
        }
    )
    rng = np.random.default_rng(8)
    X = space.sample(9, rng)
    y = np.sin(7 * X[:, 0]) + 0.5 * X[:, 1] - X[:, 2] + 0.3 * np.cos(4 * X[:, 3])
    hyper = Hyper(np.array([0.3, 0.8, 1.1, 0.5]), 1.0, 1e-6, 0.0)

    def price(p):
        kind = {"a": 1.0, "b": 1.5}[p["kind"]]
        return kind * (1 + 4 * (p["x"] - 2)) * (1 + 0.3 * p["k"]) * np.exp(0.2 * p.get("z", 0.0))

    history = History(
        tuple(done(i, x, v, space=space) for i, (x, v) in enumerate(zip(X, y, strict=True)))
    )
    belief = known(
        space,
        objective=build(X, y, hyper, options=space.options),
        cost={"cost": Known(price).bind(space)},
        budget=None if limit is None else Budget(limit),
        history=history,
        best=np.array([y.min()]),
    )
    fine = np.linspace(0, 1, 41)
    grid = np.stack(
        np.meshgrid(fine, space.levels[1], space.levels[2], np.linspace(0, 1, 21), indexing="ij"),
        axis=-1,
    ).reshape(-1, 4)
    return belief, np.unique(space.snap(grid), axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "slack"), [(None, 0.3), (4.0, 0.3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_in_a_mixed_space_it_is_no_more_expensive_than_a_fine_grid(limit, slack, seed):
    belief, grid = mixed(limit)
    ei = log_ei(*one_column(belief.objective, grid), belief.best)
    cost, shortfall = belief.costs(grid)
    ei = np.where(shortfall <= 0, ei, -np.inf)
    proposal = ContextualEI(slack).propose(belief, np.random.default_rng(seed))
    best = proposal.notes["log_ei_best"]
    assert best >= ei.max() - 1e-3
    enough = ei >= best + np.log(1 - slack)
    assert -proposal.score <= cost.mean[enough].min() + 1e-3
    # And it satisfies the constraints.
    x = proposal.x[None]
    assert belief.costs(x)[1] <= 0
    assert log_ei(*one_column(belief.objective, x), belief.best) >= best + np.log(1 - slack) - 2e-9


def test_the_neighbours_of_a_combination_are_looked_at_once(monkeypatch):
    expanded, cheaper, around = [], contextual._cheaper, contextual.neighbours

    def search(*given):
        expanded.append([])
        return cheaper(*given)

    def noted(space, x):
        expanded[-1].append(x[1:3].tobytes())  # its discrete coordinates
        return around(space, x)

    monkeypatch.setattr(contextual, "_cheaper", search)
    monkeypatch.setattr(contextual, "neighbours", noted)
    ContextualEI(0.3).propose(mixed()[0], np.random.default_rng(0))
    assert sum(map(len, expanded)) > len(expanded)
    assert all(len(each) == len(set(each)) for each in expanded)
