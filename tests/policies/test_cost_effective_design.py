import numpy as np
import pytest
from beliefs import Given, done, known
from hypothesis import given
from hypothesis import strategies as st

from farthing import Budget, Categorical, Float, History, Ledger, Space
from farthing.acquisition.search import sobol
from farthing.cost import Known
from farthing.policies import CostEffectiveDesign
from farthing.policies.cost_effective_design import best_filler, distances, last_standing


# ---------------------------------------------------------------- slow reference versions
def brute_last_standing(cost, distance):
    """Algorithm 1's inner loop as it is written, with the size tested after each removal."""
    alive = list(range(len(cost)))
    while len(alive) > 1:
        alive.remove(min(alive, key=lambda i: (-cost[i], distance[i], i)))  # the most expensive
        if len(alive) > 1:
            alive.remove(min(alive, key=lambda i: (distance[i], -cost[i], i)))  # the closest
    return alive[0]


def brute_filler(price, candidates, domain, design):
    """The candidate with the largest decrease of fill per cost, or of the mean distance."""

    def reach(points):
        return np.array([min(np.linalg.norm(z - p) for p in points) for z in domain])

    before = reach(design)
    after = [reach([*design, x]) for x in candidates]
    gain = np.array([before.max() - a.max() for a in after])
    if gain.max() <= 1e-12:
        gain = np.array([before.mean() - a.mean() for a in after])
    return gain / price


def run(space, cost, design, *, budget, greedy=False):
    """Rows chosen while the spent cost is below the budget, and what each cost."""
    history = History(tuple(done(i, x, 0.0, space=space) for i, x in enumerate(design)))
    model = Known(cost).bind(space)
    spent, chosen = 0.0, []
    while spent < budget:
        belief = known(space, cost={"cost": model}, history=history)
        proposal = CostEffectiveDesign(greedy=greedy).propose(belief, np.random.default_rng(0))
        assert proposal.notes["phase"] == "start"
        chosen.append(space.decode(proposal.x))
        spent += cost(chosen[-1])
        history = history.adding(done(len(history), proposal.x, 0.0, space=space))
    return chosen, spent


# ---------------------------------------------------------------- oracles
LINE = Space.from_rows([{"x": x} for x in (0.0, 0.25, 0.5, 0.75, 1.0)])


def test_five_points_on_a_line():  # [line-initial-design]
    chosen, spent = run(LINE, lambda p: 1 + 9 * p["x"], [[0.5]], budget=12)
    assert [p["x"] for p in chosen] == [0.0, 0.25, 0.75]
    assert spent == 12.0
    chosen, _ = run(LINE, lambda p: 1.0, [[0.5]], budget=3)
    assert [p["x"] for p in chosen] == [1.0, 0.0, 0.75]


def test_nine_points_on_a_grid():  # [grid-initial-design]
    sides = (0.0, 0.5, 1.0)
    space = Space.from_rows([{"x1": a, "x2": b} for a in sides for b in sides])
    chosen, spent = run(space, lambda p: 1 + 9 * p["x1"] ** 2 + p["x2"], [[0.5, 0.5]], budget=12)
    assert [tuple(p.values()) for p in chosen] == [(0, 0), (0, 1), (0, 0.5), (0.5, 0), (0.5, 1)]
    assert spent == 12.0


def test_the_inner_loop_on_the_oracles():  # [line-initial-design]
    rest = np.array([0.0, 0.25, 0.75, 1.0])
    assert last_standing(1 + 9 * rest, np.abs(rest - 0.5)) == 0
    assert last_standing(np.ones(4), np.abs(rest - 0.5)) == 3


# ---------------------------------------------------------------- against the slow versions
# Few distinct numbers, so that ties are common.
instances = st.lists(
    st.tuples(st.integers(2, 6) | st.floats(2, 6), st.integers(1, 5) | st.floats(1, 5)),
    min_size=1,
    max_size=30,
).map(lambda rows: np.array(rows, dtype=float).T)


@given(instances)
def test_the_inner_loop_is_that_of_the_paper(instance):
    assert last_standing(*instance) == brute_last_standing(*instance)


@given(instances)
def test_with_a_constant_cost_it_is_the_farthest_point(instance):
    distance = instance[1]
    farthest = np.flatnonzero(distance == distance.max())
    assert last_standing(np.full(len(distance), 3.0), distance) == farthest[-1]


@given(instances)
def test_without_a_design_it_is_the_cheapest(instance):
    assert last_standing(instance[0], None) == np.argmin(instance[0])


@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize("table", [False, True])
def test_with_a_constant_cost_the_policy_is_greedy_farthest_point(learnt, table):
    parameters = {"x": Float(3, 4), "z": Float(-1, 0), "kind": Categorical(["a", "b"])}
    space = Space(parameters)
    if table:
        X = space.sample(60, np.random.default_rng(1))
        space = Space.from_rows([space.decode(x) for x in X])
    design = list(space.sample(3, np.random.default_rng(2)))
    for _ in range(4):
        history = History(tuple(done(i, x, 0.0, space=space) for i, x in enumerate(design)))
        cost = Known(lambda p: 7.3).bind(space)
        if learnt:  # uncertain far from known points, like a learnt model
            cost = _Uncertain(np.array(design))
        belief = known(space, cost={"cost": cost}, history=history)
        x = CostEffectiveDesign().propose(belief, np.random.default_rng(0)).x
        domain = space.rows if table else _discretisation(space)
        distance = np.array([min(_mismatch(z, p) for p in design) for z in domain])
        assert min(_mismatch(x, p) for p in design) == pytest.approx(distance.max(), abs=1e-8)
        design.append(x)


class _Uncertain:
    """ln c = 2 everywhere, with less uncertainty near the design."""

    memory = None

    def __init__(self, design):
        self.design = design

    def log_at(self, X):
        near = np.array([min(_mismatch(x, p) for p in self.design) for x in X])
        return Given(X, np.full(len(X), 2.0), 0.05 + near).log_at(X)


def _mismatch(a, b):
    """Distance in which a different category (the last coordinate) counts 1."""
    return np.sqrt(((a[:2] - b[:2]) ** 2).sum() + (a[2] != b[2]))


def _discretisation(space):
    column = np.argsort(np.argsort(space.names))
    return space.spread(sobol(100 * space.d, space.d)[:, column])


@pytest.mark.parametrize("seed", range(6))
def test_the_policy_is_the_inner_loop_on_untried_candidates(seed):
    rng = np.random.default_rng(seed)
    points = rng.random((25, 2)).round(2)
    space = Space.from_rows([{"x": a, "z": b} for a, b in points])
    price = rng.integers(1, 9, 25).astype(float)
    cost = {"cost": Given(space.rows, np.log(price), np.zeros(25))}
    history = History(tuple(done(i, space.rows[i], 0.0, space=space) for i in (3, 7, 11)))
    belief = known(space, cost=cost, history=history, budget=Budget(7.5))
    x = CostEffectiveDesign().propose(belief, rng).x
    left = [i for i in range(25) if i not in (3, 7, 11) and price[i] <= 7.5]
    design = space.rows[[3, 7, 11]]
    distance = [round(min(np.linalg.norm(space.rows[i] - p) for p in design), 9) for i in left]
    expected = left[brute_last_standing(price[left], distance)]
    np.testing.assert_array_equal(x, space.rows[expected])


# ---------------------------------------------------------------- the greedy variant
@pytest.mark.parametrize("seed", range(6))
def test_greedy_is_the_most_fill_per_cost(seed):
    rng = np.random.default_rng(seed)
    space = Space.from_rows([{"x": a, "z": b} for a, b in rng.random((25, 2))])
    price = np.exp(rng.normal(0, 1, 25))
    cost = {"cost": Given(space.rows, np.log(price), np.zeros(25))}
    history = History((done(0, space.rows[3], 0.0, space=space),))
    proposal = CostEffectiveDesign(greedy=True).propose(
        known(space, cost=cost, history=history), rng
    )
    left = np.delete(np.arange(25), 3)
    rate = brute_filler(price[left], space.rows[left], space.rows, [space.rows[3]])
    np.testing.assert_array_equal(proposal.x, space.rows[left[np.argmax(rate)]])
    fill = max(np.linalg.norm(z - space.rows[3]) for z in space.rows)
    assert proposal.notes["fill"] == pytest.approx(fill, abs=1e-8)


def test_if_no_point_lowers_the_fill_it_uses_the_mean_distance():
    # Both ends are at the same distance, so either one leaves the other.
    domain = np.array([[0.0], [0.4], [0.5], [0.6], [0.85], [0.9], [1.0]])
    reach = distances(domain, np.array([[0.5]])).min(axis=1)
    between = distances(domain, domain[[0, 5, 6]])
    gain = [(reach - np.minimum(reach, column)).mean() for column in between.T]
    assert (reach.max() - np.minimum(reach[:, None], between).max(axis=0)).max() == 0
    assert best_filler(np.ones(3), between, reach) == np.argmax(gain) == 1
    assert best_filler(np.array([1.0, 9.0, 1.0]), between, reach) == 2


def test_the_greedy_variant_covers_better_at_the_same_cost():
    """The design of the paper consists of many cheap points, and covers worse."""
    sides = (np.arange(10) + 0.5) / 10
    space = Space.from_rows([{"x1": float(a), "x2": float(b)} for a in sides for b in sides])
    points = np.array([[a, b] for a in sides for b in sides])

    def fill(chosen):
        return distances(points, np.array([list(p.values()) for p in chosen])).min(axis=1).max()

    cost = lambda p: np.exp(3 * p["x1"])  # noqa: E731
    budget = 4 * np.exp(1.5)
    cheap, _ = run(space, cost, [], budget=budget)
    greedy, _ = run(space, cost, [], budget=budget, greedy=True)
    assert len(cheap) > len(greedy)
    assert fill(greedy) < fill(cheap)


# ---------------------------------------------------------------- the rest
def test_before_any_cost_is_known_it_follows_the_initial_design():
    proposal = CostEffectiveDesign().propose(known(LINE), np.random.default_rng(0))
    assert proposal.notes == {"phase": "start"}
    assert "the middle of the space" in proposal.because


def test_the_first_point_is_the_cheapest():
    chosen, _ = run(LINE, lambda p: 2 + (p["x"] - 0.75) ** 2, [], budget=1)
    assert chosen == [{"x": 0.75}]


def test_only_what_is_affordable_and_nothing_twice():
    cost = {"cost": Known(lambda p: 1 + 9 * p["x"]).bind(LINE)}
    history = History((done(0, [0.0], 0.0), done(1, [0.25], 0.0)))
    belief = known(LINE, cost=cost, history=history, budget=Budget(5.5))
    assert CostEffectiveDesign().propose(belief, np.random.default_rng(0)).x == [0.5]
    ledger = Ledger.of(Budget(5.5)).charge(None, {"cost": 0.1})
    belief = known(LINE, cost=cost, history=history, ledger=ledger)
    assert CostEffectiveDesign().propose(belief, np.random.default_rng(0)).x is None


def test_an_affordable_point_between_the_candidates_is_found():
    space = Space({"x": Float(2, 5), "z": Float(0, 1)})
    cost = Known(lambda p: 1 + 1e6 * (p["x"] - 2.7312) ** 2).bind(space)
    belief = known(space, cost={"cost": cost}, budget=Budget(1.0004))
    x = CostEffectiveDesign().propose(belief, np.random.default_rng(0)).x
    assert abs(space.decode(x)["x"] - 2.7312) < 2.1e-5
