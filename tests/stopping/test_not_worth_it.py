import re

import numpy as np
import pytest
from beliefs import NOTHING, done, line, one_column, pool, random_pool, toy, two_points
from oracles import POOL_BEST, POOL_COST, POOL_MEAN, POOL_STD

from farthing import Float, History, InvalidInput, Ledger, Optimizer, Space, Trial
from farthing.acquisition.belief import believe
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.search import Found
from farthing.cost import Known
from farthing.models.normal import expected_cost, gittins, log_ei
from farthing.policies import EI, EIPerCost, Gittins, Random
from farthing.stopping import MaxTrials, NotWorthIt, all_of, any_of, not_worth_it

MOST = 0.01133397354  # max EI / c over P


def judge(rule, belief, proposal=NOTHING, seed=0):
    return rule(belief, proposal, np.random.default_rng(seed))


# ---------------------------------------------------------------- the rule
@pytest.mark.parametrize(
    ("worth", "stop"),
    [(1e-4, False), (0.01, False), (MOST - 1e-11, False), (MOST + 1e-11, True), (0.5, True)],
)
def test_the_toy_pool_stops_from_its_best_rate_on(worth, stop):  # [pool-log-eipc]
    verdict = judge(NotWorthIt(worth=worth), toy())
    assert verdict.stop == stop
    assert verdict.number == pytest.approx(np.log(MOST), abs=1e-9)
    assert verdict.threshold == pytest.approx(np.log(worth))
    assert verdict.notes == {"not_worth_it": int(stop)}
    relation = "at most" if stop else "more than"
    ending = "" if stop else "; there is no bound on the cost of continuing, because "
    assert verdict.because == (
        "one more unit of cost is expected to improve the objective by 0.0113, "
        f"{relation} the {worth:.3g} it is worth{ending}"
        + ("" if stop else "the policy does not use this exchange rate")
    )


def test_the_statistic_of_the_toy_pool_row_by_row():  # [pool-log-eipc]
    expected = (-2.662412777, -1.826951035, -0.5574117748, 0.1252196299, -3.571554406)
    for row, value in enumerate(expected):
        one = pool(POOL_MEAN[[row]], POOL_STD[[row]], POOL_COST[[row]], POOL_BEST)
        verdict = judge(NotWorthIt(worth=0.01), one)
        assert verdict.number - verdict.threshold == pytest.approx(value, abs=1e-9)


TWELVE = line(12)


@pytest.mark.slow
@pytest.mark.parametrize("learnt", [False, True])
def test_the_gittins_stop_and_that_of_ei_per_cost_agree_on_a_thousand_beliefs(learnt):
    """min g >= best, by the index of each row, and the rule: the cost known or learnt."""
    rng = np.random.default_rng(int(learnt))
    stops = 0
    for _ in range(1000):
        std = rng.uniform(0.1, 1.0, 12) if learnt else None
        belief = random_pool(rng, cost_std=std, space=TWELVE)
        rows = belief.space.rows
        outlook = belief.outlook(rows)
        price = expected_cost(*outlook.cost)
        most = (log_ei(outlook.mean[:, 0], outlook.std, 2.6) - price).max()
        worth = float(np.exp(most + rng.normal(0.0, 0.5)))
        index = gittins(outlook.mean[:, 0], outlook.std, np.log(worth) + price)
        verdict = judge(NotWorthIt(worth=worth), belief)
        assert verdict.stop == (index.min() >= 2.6)
        stops += verdict.stop
    assert 300 < stops < 700


@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_the_gittins_stop(seed):
    """EI <= worth c everywhere, max LogEIPC <= ln worth, min g >= best are equivalent."""
    rng = np.random.default_rng(seed)
    belief = random_pool(rng)
    rows = belief.space.rows
    log_cost = belief.cost["cost"].log_at(rows).mean
    statistic = (log_ei(*one_column(belief.objective, rows), 2.6) - log_cost).max()
    for log_worth in statistic + np.array([-5.0, -0.1, -1e-6, 1e-6, 0.1, 5.0]):
        index = gittins(*one_column(belief.objective, rows), log_worth + log_cost)
        verdict = judge(NotWorthIt(worth=np.exp(log_worth)), belief)
        assert verdict.stop == (index.min() >= 2.6) == (statistic <= log_worth)


def test_the_setting_is_used_if_the_rule_has_no_worth():
    assert judge(NotWorthIt(), toy(worth=0.02)).stop
    assert not judge(NotWorthIt(), toy(worth=0.005)).stop
    assert not judge(NotWorthIt(worth=0.005), toy(worth=0.02)).stop  # its own has priority
    assert NotWorthIt().needs == {"model", "cost", "worth"}
    assert NotWorthIt().reads == {"worth", "steps"}
    assert NotWorthIt(worth=1).needs == {"model", "cost"}
    assert NotWorthIt(worth=1).reads == {"steps"}


def test_an_uncertain_cost_counts_with_its_mean():
    belief = pool([0.3], [0.2], [10.0], 0.25, cost_std=[0.8])
    expected = np.log(0.05726893964) - np.log(10.0) - 0.32
    assert judge(NotWorthIt(worth=1.0), belief).number == pytest.approx(expected, abs=1e-9)


def test_tried_and_unaffordable_rows_do_not_count():
    # Without D (tried), C is best; with 9 left, C and all more expensive rows do not count.
    tried = History((done(0, [0.75], 0.35),))
    expected = np.log(0.005726893964)
    verdict = judge(NotWorthIt(worth=1.0), toy(history=tried))
    assert verdict.number == pytest.approx(expected, abs=1e-9)
    assert judge(NotWorthIt(worth=1.0), toy(limit=9.0)).number == pytest.approx(np.log(MOST))
    verdict = judge(NotWorthIt(worth=1.0), toy(limit=9.0, history=tried))
    assert verdict.stop
    assert verdict.number == -np.inf


# ---------------------------------------------------------------- while trials are running
LINE = Space({"x": Float(2, 3)})


def explored(running):
    """Eleven values on a line, known costs, and trials running between some of them."""
    history = History()
    for x in np.linspace(0, 1, 11):
        value = np.sin(5 * x) + x
        history = history.adding(done(len(history), [x], value, space=LINE))
    for x in np.linspace(0.25, 0.75, running):
        trial = Trial(len(history), LINE.decode(np.array([x])), np.array([x]))
        history = history.adding(trial)
    cost = {"cost": Known(lambda p: p["x"])}
    return believe(LINE, history, Ledger.of(None), learners=cost, seed=3)


@pytest.mark.parametrize("running", [0, 1, 3])
def test_it_decides_with_any_number_of_running_trials(running):
    """The statistic is max ln mean EI - ln c. Each fantasy has its own best value."""
    belief = explored(running)
    assert len(belief.history.running) == running
    grid = np.linspace(0, 1, 4001)[:, None]
    mean, std = belief.objective.at(grid)  # (m, f)
    ei = np.exp([log_ei(m, std, best) for m, best in zip(mean.T, belief.best, strict=True)])
    rate = np.mean(ei, axis=0) / (2 + grid[:, 0])
    most = np.log(rate[np.abs(grid - belief.tried[:, 0]).min(axis=1) > 1e-6].max())
    for log_worth, stop in ((most - 0.05, False), (most + 0.05, True), (9.0, True)):
        verdict = judge(NotWorthIt(worth=np.exp(log_worth)), belief)
        assert verdict.stop == stop
        assert verdict.number == pytest.approx(most, abs=1e-4)
        assert verdict.notes == {"not_worth_it": int(stop)}
    assumed = {
        0: "",
        1: " (averaged over the possible values of the running trial)",
        3: " (averaged over the possible values of the 3 running trials)",
    }
    assert f"by {np.exp(verdict.number):.3g}{assumed[running]}, at most" in verdict.because


def run_with(workers, stop, at_most=60):
    """The number of trials until the rule stops, with `workers` trials asked at a time."""
    optimizer = Optimizer(LINE, cost=lambda p: p["x"], policy=EIPerCost(), stop=stop, seed=1)
    running = []
    while len(optimizer.history) < at_most:
        while len(running) < workers and not optimizer.verdict.stop:
            running.append(optimizer.ask())
        if not running:
            break
        trial = running.pop(0)
        optimizer.tell(trial, float(np.sin(9 * trial.params["x"]) + trial.params["x"]))
    return len(optimizer.history)


@pytest.mark.slow
@pytest.mark.parametrize("join", [lambda rule: rule, any_of, lambda r: all_of(r, MaxTrials(1))])
def test_several_workers_stop_about_when_one_does(join):
    alone, two, four = (run_with(n, join(NotWorthIt(worth=1e-3))) for n in (1, 2, 4))
    assert 6 < alone < 20
    assert abs(two - alone) <= 3
    assert abs(four - alone) <= 6


def test_patience_counts_on_while_trials_are_running():
    stop = any_of(MaxTrials(50), NotWorthIt(worth=100.0, patience=3))
    optimizer = Optimizer(LINE, cost=lambda p: p["x"], stop=stop)
    for x in np.linspace(2, 3, 6):
        optimizer.add({"x": x}, (x - 2.2) ** 2)
    assert len(optimizer.ask(5)) == 2
    assert [t.notes["not_worth_it"] for t in optimizer.history.running] == [1, 2]
    assert optimizer.verdict.notes == {"not_worth_it": 3}
    assert (
        "(averaged over the possible values of the 2 running trials)" in optimizer.verdict.because
    )


# ---------------------------------------------------------------- an unlucky search
class _Searches:
    """A stand-in for the optimiser: it returns given results and counts its calls."""

    def __init__(self, monkeypatch, *scores):
        self.scores = list(scores)
        self.made = 0
        monkeypatch.setattr(not_worth_it, "maximise_score", self)

    def __call__(self, belief, score, rng):
        found = self.scores[self.made]
        self.made += 1
        if found is None:
            return Found(np.empty((0, 1)), np.empty(0))
        return Found(np.zeros((1, 1)), np.array([found]))


def test_a_stop_needs_two_searches(monkeypatch):
    searches = _Searches(monkeypatch, -9.0, -8.0)
    verdict = judge(NotWorthIt(worth=0.01), toy())
    assert verdict.stop
    assert verdict.number == -8.0
    assert searches.made == 2


def test_the_second_search_may_refuse_to_stop(monkeypatch):
    searches = _Searches(monkeypatch, -9.0, -2.0)
    verdict = judge(NotWorthIt(worth=0.01), toy())
    assert not verdict.stop
    assert verdict.number == -2.0
    assert searches.made == 2


def test_one_search_is_enough_to_continue(monkeypatch):
    searches = _Searches(monkeypatch, -2.0)
    assert not judge(NotWorthIt(worth=0.01), toy()).stop
    assert searches.made == 1


def test_a_proposal_that_is_worth_it_needs_no_search(monkeypatch):
    searches = _Searches(monkeypatch)
    proposal = Proposal(toy().space.rows[3], "row D")
    verdict = judge(NotWorthIt(worth=0.01), toy(), proposal)
    assert not verdict.stop
    assert verdict.number == pytest.approx(np.log(MOST))
    assert searches.made == 0


def test_if_the_proposal_is_not_worth_it_the_search_decides():
    proposal = Proposal(toy().space.rows[0], "row A")
    verdict = judge(NotWorthIt(worth=0.01), toy(), proposal)
    assert not verdict.stop
    assert verdict.number == pytest.approx(np.log(MOST))


def test_a_search_that_finds_nothing(monkeypatch):
    _Searches(monkeypatch, None, None)
    verdict = judge(NotWorthIt(worth=0.01), toy())
    assert verdict.stop
    assert verdict.number == -np.inf


@pytest.mark.parametrize("seed", range(4))
def test_on_the_line_the_maximum_is_found(seed):  # [line-contextual-ei]
    # EI / c on the GP of [two-point-gp] with c = 1 + 9 x has its maximum at x = 0.
    belief = two_points(lambda x: 1 + 9 * x)
    grid = np.linspace(0, 1, 5001)[:, None]
    most = (log_ei(*one_column(belief.objective, grid), -0.1) - np.log(1 + 9 * grid[:, 0])).max()
    number = judge(NotWorthIt(worth=10.0), belief, seed=seed).number
    assert number == pytest.approx(most, abs=1e-6)


# ---------------------------------------------------------------- the cost of continuing
def continuing(policy, stop, **settings):
    """The verdict after seven values of a run that continues."""
    optimizer = Optimizer(LINE, 100.0, cost=lambda p: p["x"], policy=policy, stop=stop, **settings)
    for x in np.linspace(2, 3, 7):
        optimizer.add({"x": x}, float(np.sin(9 * x) + x))
    assert not optimizer.verdict.stop
    return optimizer.verdict.because


@pytest.mark.parametrize(
    ("policy", "stop", "settings"),
    [
        (EIPerCost(), NotWorthIt(worth=1e-4), {}),
        (EIPerCost(), NotWorthIt(), {"worth": 1e-4}),
        (Gittins(worth=1e-4), NotWorthIt(worth=1e-4), {}),
        (Gittins(), NotWorthIt(), {"worth": 1e-4}),
    ],
)
def test_a_policy_of_the_same_rate_bounds_the_cost_of_continuing(policy, stop, settings):
    because = continuing(policy, stop, **settings)
    found = re.search(
        r"more than the 0\.0001 it is worth; continuing is expected to cost at most about (\S+), "
        r"which is what the expected remaining improvement of (\S+) is worth$",
        because,
    )
    cost, gain = (float(number.replace(",", "")) for number in found.groups())
    assert cost == pytest.approx(gain / 1e-4, rel=0.01)
    assert 0 < gain < 4


@pytest.mark.parametrize(
    ("policy", "stop"),
    [
        (EI(), NotWorthIt(worth=1e-4)),
        (EIPerCost(alpha=0.5), NotWorthIt(worth=1e-4)),
        (Gittins(worth=2e-4), NotWorthIt(worth=1e-4)),
        (Gittins(), NotWorthIt(worth=1e-4)),  # its rate decays
        (Random(), NotWorthIt(worth=1e-4)),
    ],
)
def test_with_another_policy_there_is_no_bound(policy, stop):
    assert continuing(policy, stop).endswith(
        "there is no bound on the cost of continuing, because the policy does not use this "
        "exchange rate"
    )


def test_with_two_costs_there_is_no_bound():
    stop = NotWorthIt(worth=1e-6)
    optimizer = Optimizer(LINE, {"usd": 100.0, "kWh": 50.0}, policy=EIPerCost(), stop=stop)
    for x in np.linspace(2, 3, 7):
        optimizer.add({"x": x}, float(np.sin(9 * x)), cost={"usd": 1.0, "kWh": x})
    assert "there is no bound" in optimizer.verdict.because
    optimizer = Optimizer(LINE, {"usd": 100.0, "kWh": 50.0}, policy=Gittins(worth=1e-6), stop=stop)
    for x in np.linspace(2, 3, 7):
        optimizer.add({"x": x}, float(np.sin(9 * x)), cost={"usd": 1.0, "kWh": x})
    assert "continuing is expected to cost at most about $" in optimizer.verdict.because


# ---------------------------------------------------------------- patience
def after(streak):
    """P, after `streak` proposals in a row were not worth it (a sixth row was tried)."""
    notes = {} if streak is None else {"not_worth_it": streak}
    return pool(
        [*POOL_MEAN, 0.9],
        [*POOL_STD, 0.01],
        [*POOL_COST, 5.0],
        POOL_BEST,
        history=History((done(0, [1.0], 0.25, notes=notes),)),
    )


@pytest.mark.parametrize(
    ("before", "stop", "streak"), [(None, False, 1), (0, False, 1), (1, False, 2), (2, True, 3)]
)
def test_patience_counts_in_a_row(before, stop, streak):
    verdict = judge(NotWorthIt(worth=0.5, patience=3), after(before))
    assert verdict.stop == stop
    assert verdict.notes == {"not_worth_it": streak}
    assert (f"({streak} of 3 times in a row)" in verdict.because) == (not stop)


def test_one_point_worth_its_cost_resets_the_count():
    verdict = judge(NotWorthIt(worth=1e-4, patience=3), after(2))
    assert not verdict.stop
    assert verdict.notes == {"not_worth_it": 0}


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_in_a_run(patience):
    space = Space({"x": Float(2, 3)})
    stop = NotWorthIt(worth=100.0, patience=patience)
    optimizer = Optimizer(space, cost=lambda p: p["x"], stop=stop)
    for x in np.linspace(2, 3, 6):
        optimizer.add({"x": x}, (x - 2.2) ** 2)
    trials = 0
    while not optimizer.verdict.stop:
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.params["x"] - 2.2) ** 2)
        trials += 1
    assert trials == patience - 1


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize("worth", [0.0, -1.0, np.nan, np.inf])
def test_an_invalid_worth_is_refused(worth):
    with pytest.raises(InvalidInput, match="expected a positive, finite number"):
        NotWorthIt(worth=worth)


@pytest.mark.parametrize("patience", [0, 1.5])
def test_an_invalid_patience_is_refused(patience):
    with pytest.raises(InvalidInput, match="whole number of at least 1"):
        NotWorthIt(worth=1.0, patience=patience)


def test_worth_is_per_unit_of_the_first_resource():
    """A second budget that never limits must not change the worth of a unit of the first."""

    def verdict(budget, cost):
        space = Space({"x": Float(0, 1)})
        optimizer = Optimizer(space, budget, policy=EIPerCost(), stop=NotWorthIt(worth=1e3))
        for i, x in enumerate(np.linspace(0.05, 0.95, 7)):
            optimizer.add({"x": float(x)}, (x - 0.4) ** 2, cost=cost(1.0 + i))
        return optimizer.verdict

    alone = verdict({"usd": 100.0}, lambda c: {"usd": c})
    both = verdict({"usd": 100.0, "kWh": 1e6}, lambda c: {"usd": c, "kWh": 0.1 * c})
    assert alone.stop
    assert both.stop
    assert both.number == pytest.approx(alone.number, abs=0.01)
