"""Studies that learn from earlier ones, as a whole: start, proposals, notes, stopping rules."""

import time
from dataclasses import replace

import numpy as np
import pytest

from farthing import Categorical, Float, Optimizer, Space, Steps, policies, stopping
from farthing.acquisition.earlier_costs import EarlierCost
from farthing.core.settings import Settings
from farthing.core.suggest import cost_learners
from farthing.earlier import Source
from farthing.models.prior_mean import model_of

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "c": Categorical(["u", "v", "w"])})


def value(x):
    return (x[0] - 0.3) ** 2 + (x[1] - 0.6) ** 2 + 0.1 * (x[2] > 0.4)


def price(x):
    return float(np.exp(x[0]))


def source(name="one", n=30, seed=0, space=SPACE, worth=1.0):
    X = space.snap(np.random.default_rng(seed).random((n, space.d)))
    y = worth * np.array([value(x) for x in X])
    return Source(name, X, y, {"cost": np.array([price(x) for x in X])})


def asked(*sources, space=SPACE, **settings):
    made = Settings.of(space, {"cost": 40.0}, **settings)
    return Optimizer.of(replace(made, learn_from=sources))


def played(optimizer, trials, sign=1.0):
    """The trials after evaluating them one after another."""
    for _ in range(trials):
        trial = optimizer.ask()
        x = optimizer.space.encode(trial.params)
        optimizer.tell(trial, sign * value(x), cost=price(x))
    return optimizer.history.trials


# ── the start ──────────────────────────────────────────────────────────────────────────────────


def test_a_source_that_is_the_task_gives_its_optimum_within_two_evaluations():
    rng = np.random.default_rng(3)
    rows = [{"a": float(a), "b": float(b), "c": c} for a, b in rng.random((20, 2)) for c in "uvw"]
    space = Space.from_rows(rows, SPACE.parameters)
    y = np.array([value(x) for x in space.rows])
    same = Source("same", space.rows, y, {"cost": np.ones(len(y))})
    for seed in range(3):
        optimizer = asked(same, space=space, seed=seed)
        for _ in range(2):
            trial = optimizer.ask()
            optimizer.tell(trial, value(space.encode(trial.params)), cost=1.0)
        assert optimizer.best.value == y.min()


def test_the_start_alternates_between_the_sources_and_a_contrast():
    trials = played(asked(source()), 2)
    assert trials[0].notes["portfolio"] == {"one": 1.0}
    assert "one" in trials[0].because
    assert "portfolio" not in trials[1].notes
    assert "middle" in trials[1].because
    assert trials[0].params == SPACE.decode(best_for_its_cost(source()))


def best_for_its_cost(given):
    mu = model_of(given, SPACE.options).at(given.x)
    gain = np.maximum(-mu, 0)
    return given.x[np.argmax(gain / np.sqrt(given.cost["cost"]))]


def test_an_expensive_configuration_does_not_come_first():
    given = source()
    k = int(np.argmin(given.y))
    second = int(np.argsort(given.y)[1])
    cost = given.cost["cost"].copy()
    cost[k] = 69.0 * np.median(cost)
    trial = asked(replace(given, cost={"cost": cost})).ask()
    assert trial.params != SPACE.decode(given.x[k])
    free = asked(replace(given, cost={})).ask()
    assert free.params == SPACE.decode(given.x[k]) or free.params == SPACE.decode(given.x[second])


def test_what_the_user_gives_comes_first_and_is_the_contrast():
    optimizer = asked(source(), start={"a": 0.9, "b": 0.1, "c": "w"})
    trials = played(optimizer, 2)
    assert trials[0].params == {"a": 0.9, "b": 0.1, "c": "w"}
    assert "portfolio" in trials[1].notes


def test_running_trials_get_different_configurations():
    batch = asked(source(), source("two", seed=5)).ask(4)
    assert len({tuple(trial.params.items()) for trial in batch}) == 4


def test_a_source_that_misleads_is_dropped_and_the_design_goes_on_as_usual():
    wrong = source(worth=-1.0)
    trials = played(asked(wrong), 8)
    assert trials[0].notes["trust"]["one"] == pytest.approx(0.5)
    assert trials[-1].notes["trust"]["one"] == 0.0
    assert "from_sources" not in trials[-1].notes
    assert [t.notes.get("phase") for t in trials[:4]] == ["start"] * 4
    right = played(asked(source()), 8)
    assert right[-1].notes["trust"]["one"] > 0.5


# ── symmetries ─────────────────────────────────────────────────────────────────────────────────


def params(trials):
    return [trial.params for trial in trials]


def test_permuted_sources_give_the_same_proposals():
    sources = [source("one"), source("two", seed=1), source("three", seed=2, worth=-1.0)]
    first = params(played(asked(*sources), 6))
    assert params(played(asked(*sources[::-1]), 6)) == first


def test_scales_and_directions_do_not_matter():
    first = params(played(asked(source()), 6))
    scaled = [source(worth=1024.0)]
    assert params(played(asked(*scaled), 6)) == first
    assert params(played(asked(source(), direction="maximize"), 6, sign=-1.0)) == first


def test_no_sources_give_the_proposals_of_today():
    plain = Optimizer.of(Settings.of(SPACE, {"cost": 40.0}))
    trials = played(plain, 6)
    assert params(played(asked(), 6)) == params(trials)
    assert not any({"trust", "portfolio", "from_sources"} & set(t.notes) for t in trials)


def test_a_state_that_is_loaded_again_proposes_the_same():
    optimizer = asked(source())
    played(optimizer, 5)
    twin = asked(replace(source(), x=source().x.copy()))
    played(twin, 5)
    assert twin.ask().params == optimizer.ask().params


# ── policies, rules and settings ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "settings",
    [
        {"noisy": True},
        {"policy": policies.EI()},
        {"policy": policies.Thompson()},
        {"policy": policies.ContextualEI()},
        {"policy": policies.Rollout(horizon=2)},
        {"stop": stopping.ProbableRegret(1e-9)},
        {"stop": stopping.RegretGapRatio()},
        {"stop": stopping.NotWorthIt(), "worth": 1e-9},
        {"worth": "budget"},
        {"cost": "linear"},
        {"constraints": {"size": "<= 2"}},
    ],
    ids=str,
)
def test_every_policy_and_rule_uses_the_belief_with_sources(settings):
    optimizer = asked(source(), source("two", seed=1), **settings)
    for number in range(6):
        trial = optimizer.ask()
        x = SPACE.encode(trial.params)
        if number == 2:
            optimizer.tell(trial, failed="out of memory", cost=price(x))
        else:
            measured = {"size": 1.0 + x[0]} if "constraints" in settings else None
            optimizer.tell(trial, value(x), cost=price(x), constraints=measured)
    last = optimizer.history.trials[-1]
    assert last.notes["from_sources"].keys() <= {"one", "two"}
    assert last.notes["from_sources"]
    assert optimizer.best.value < 0.15


def test_trainings_by_steps_start_with_the_sources():
    optimizer = asked(source(), steps=Steps(9, rungs=(1, 3)))
    trial = optimizer.ask()
    assert trial.notes["portfolio"] == {"one": 1.0}


def test_the_users_cost_model_stays():
    def learner(**settings):
        optimizer = asked(source(), **settings)
        return cost_learners(optimizer._settings, optimizer._look())["cost"]

    assert isinstance(learner().of, EarlierCost)
    assert type(learner(cost="linear")).__name__ == "Linear"


def test_the_first_cost_gives_a_cost_model():
    optimizer = asked(source())
    played(optimizer, 1)
    trial = optimizer.ask()
    assert trial.predicted["cost"] == pytest.approx(price(SPACE.encode(trial.params)), rel=0.5)
    plain = asked()
    played(plain, 1)
    assert not plain.ask().predicted


@pytest.mark.slow
def test_twenty_sources_of_a_hundred_trials_are_not_three_times_as_slow():
    sources = [source(f"s{i}", 100, i) for i in range(20)]

    def seconds(optimizer):
        """CPU seconds of each suggestion after the first ones, which fit the sources."""
        found = []
        for _ in range(16):
            began = time.process_time()
            trial = optimizer.ask()
            found.append(time.process_time() - began)
            x = SPACE.encode(trial.params)
            optimizer.tell(trial, value(x) + 0.01 * np.sin(40 * x[0]), cost=price(x))
        return found[5:]

    seconds(asked(*sources))  # fits the sources
    ratios = [
        np.median(seconds(asked(*sources, seed=k))) / np.median(seconds(asked(seed=k)))
        for k in range(3)
    ]
    assert np.median(ratios) < 3.0
