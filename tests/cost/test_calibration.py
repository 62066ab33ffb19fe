from dataclasses import dataclass, field

import numpy as np
import pytest

from farthing import Categorical, Float, Int, Optimizer, Space
from farthing.acquisition.paid_costs import evidence_of, paid
from farthing.cost import AutoCost, Evidence, Known, Linear, LogGP, ResidualGP
from farthing.cost.calibration import Calibration, calibrate
from farthing.history import History, Trial
from farthing.models.gp import Normal
from farthing.policies import Random
from farthing.view.facts import costs

SPACE = Space(
    {
        "width": Int(8, 512, log=True),
        "epochs": Int(1, 50),
        "rate": Float(1e-4, 1e-1, log=True),
        "solver": Categorical(["sgd", "adam"]),
    }
)


def price(params):
    return (
        0.01 * params["width"] ** 1.5 * params["epochs"] * (3 if params["solver"] == "adam" else 1)
    )


def evidence(n, noise=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = SPACE.sample(n, rng)
    cost = np.array([price(SPACE.decode(x)) for x in X]) * np.exp(noise * rng.standard_normal(n))
    return Evidence(SPACE, X, cost, np.zeros(n, dtype=bool))


def report(learner, n=40, **arguments):
    return calibrate(learner, evidence(n, **arguments), np.random.default_rng(0))


# ---------------------------------------------------------------- the numbers
def test_error_and_coverage_of_given_predictions():
    off = np.array([0.1, -0.5, 0.9, 2.5, 0.0])
    bounds = np.array([False, False, False, False, True])
    given = Calibration("", "", Normal(np.ones(5), np.ones(5)), 1.0 + off, bounds, ())
    assert given.error == pytest.approx(np.sqrt((0.01 + 0.25 + 0.81 + 6.25) / 4))
    assert given.coverage(0.5) == 0.5  # within 0.674
    assert given.coverage(0.8) == 0.75  # within 1.28
    assert given.coverage(0.95) == 0.75  # within 1.96
    none = Calibration("", "", Normal(np.ones(1), np.ones(1)), np.ones(1), np.ones(1, bool), ())
    assert none.error is None
    assert none.coverage(0.8) is None


def test_every_cost_is_predicted_from_the_others():
    given = evidence(12)
    found = calibrate(Linear(features=["width"]), given, np.random.default_rng(0))
    for i in range(12):
        others = np.arange(12) != i
        alone = Linear(features=["width"]).fit(
            Evidence(SPACE, given.X[others], given.cost[others], given.at_least[others])
        )
        mean, std = alone.log_at(given.X[i : i + 1])
        assert found.predicted.mean[i] == pytest.approx(mean[0], rel=1e-9)
        assert found.predicted.std[i] == pytest.approx(std[0], rel=1e-9)


@dataclass(frozen=True)
class Counted:
    """Wraps a learner and records the number of costs in each fit."""

    learner: object
    fitted: list[int] = field(default_factory=list)

    def fit(self, evidence):
        self.fitted.append(len(evidence.cost))
        return self.learner.fit(evidence)


@pytest.mark.parametrize(("n", "others"), [(3, [2] * 3), (45, [42] * 5 + [43] * 15)])
def test_the_number_of_fits_is_limited(n, others):
    """One fit to all costs, and one without each cost or without each of 20 folds."""
    learner = Counted(Linear(features=["width"]))
    report(learner, n)
    assert learner.fitted == [n, *others]


@pytest.mark.slow
@pytest.mark.parametrize("learner", [Linear(), LogGP(), ResidualGP(), AutoCost()])
def test_coverage_is_right_and_the_error_is_that_of_the_noise(learner):
    found = [report(learner, 60, seed=seed) for seed in range(3)]
    assert 0.15 < np.mean([each.error for each in found]) < 0.5
    for band, low, high in ((0.5, 0.35, 0.7), (0.8, 0.65, 0.93), (0.95, 0.85, 1.0)):
        assert low <= np.mean([each.coverage(band) for each in found]) <= high


def test_a_wrong_model_has_a_large_error_and_low_coverage():
    right, wrong = Known(price), Known(lambda params: 10 * price(params))
    assert report(right).error == pytest.approx(0.2, rel=0.3)
    assert report(wrong).error > 2.0
    assert report(wrong).coverage(0.95) == 0.0  # its standard deviation is 0


# ---------------------------------------------------------------- what drives the cost
def test_drivers_are_the_parameters_that_matter():
    found = report(Known(price)).drivers
    assert [driver.name for driver in found] == ["width", "epochs", "solver", "rate"]
    by_name = {driver.name: driver for driver in found}
    # ln c is a sum, so the total effects are the variances of its parts.
    parts = {
        "width": (1.5 * np.log(512.5 / 7.5)) ** 2 / 12,
        "solver": np.log(3) ** 2 / 4,
        "rate": 0.0,
    }
    epochs = np.log(np.arange(1, 51)).var()
    total = sum(parts.values()) + epochs
    for name, part in (*parts.items(), ("epochs", epochs)):
        assert by_name[name].share == pytest.approx(part / total, abs=0.06)
    assert by_name["solver"].factor == pytest.approx(3.0, rel=1e-6)
    assert by_name["width"].factor == pytest.approx(64**1.5, rel=1e-6)
    assert by_name["rate"].factor == pytest.approx(1.0)


@pytest.mark.parametrize("learner", [Linear(features=["width", "solver"]), LogGP()])
def test_a_factor_compares_the_last_value_with_the_first(learner):
    """Also for integers: from the first to the last value."""
    given = evidence(30)
    model = learner.fit(given)
    found = calibrate(learner, given, np.random.default_rng(0))
    X = SPACE.sample(512, np.random.default_rng(0))
    ends = []
    for width in (8, 512):
        X[:, 0] = SPACE.encode({"width": width, "epochs": 1, "rate": 0.01, "solver": "sgd"})[0]
        ends.append(model.log_at(X).mean.mean())
    (factor,) = (driver.factor for driver in found.drivers if driver.name == "width")
    assert factor == pytest.approx(np.exp(ends[1] - ends[0]), rel=1e-6)


def test_a_learnt_model_finds_the_same_drivers():
    assert [driver.name for driver in report(AutoCost()).drivers[:2]] == ["width", "epochs"]


def test_a_constant_cost_has_no_drivers():
    found = calibrate(
        Linear(), evidence(10)._replace(cost=np.full(10, 5.0)), np.random.default_rng(0)
    )
    assert {driver.share for driver in found.drivers} == {0.0}


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_costs(n):
    found = report(LogGP(), n)
    assert (found is None) == (n < 2)
    if found is not None:
        assert np.all(np.isfinite(found.predicted.mean))


def test_a_table_space():
    space = Space.from_rows([{"n": n, "kind": kind} for n in (8, 16, 64, 128) for kind in "xyz"])
    X = space.rows
    given = Evidence(space, X, 2.0 + 30 * X[:, 0], np.zeros(len(X), dtype=bool))
    first = calibrate(LogGP(), given, np.random.default_rng(0)).drivers[0]
    assert first.name == "n"
    model, ends = LogGP().fit(given), []
    X = space.sample(512, np.random.default_rng(0))
    for end in (0.0, 1.0):  # 8 and 128
        X[:, 0] = end
        ends.append(model.log_at(X).mean.mean())
    assert first.factor == pytest.approx(np.exp(ends[1] - ends[0]), rel=1e-9)


# ---------------------------------------------------------------- in a study
def studied(n=14, **settings):
    optimizer = Optimizer(SPACE, "1000 kWh", policy=Random(), seed=1, **settings)
    for k in range(n):
        trial = optimizer.ask()
        outcome = {"failed": "nan"} if k == 3 else {"killed": True} if k == 5 else {"value": 1.0}
        optimizer.tell(trial, cost={"kWh": price(trial.params) / 1e4}, **outcome)
    return optimizer


@pytest.mark.slow
def test_the_report_of_a_study():
    optimizer = studied(cost=AutoCost())
    (found,) = costs(optimizer._settings, optimizer._look())
    assert found["resource"] == "kWh"
    assert found["costs"] == 14
    assert found["killed"] == 1
    assert found["coverage"].keys() == {"50%", "80%", "95%"}
    assert "the best of 4" in found["because"]
    assert [trial["number"] for trial in found["trials"]] == list(range(14))
    for trial in found["trials"]:
        assert trial["low"] <= trial["predicted"] <= trial["high"]
        assert trial["paid"] == pytest.approx(
            price(optimizer.history[trial["number"]].params) / 1e4
        )


def test_80_percent_of_costs_are_between_low_and_high():
    """`low` and `high` are the central 80 % interval of the predicted normal of ln c."""
    optimizer = studied(cost=Linear(features=["width"]))
    settings, state = optimizer._settings, optimizer._look()
    (found,) = costs(settings, state)
    trials = list(paid(state.history, "kWh"))
    given = evidence_of(SPACE, trials, "kWh")
    mean, std = calibrate(settings.cost, given, np.random.default_rng(settings.seed)).predicted
    assert np.all(std > 0.01)
    for z, name in ((-1.2815515655, "low"), (0.0, "predicted"), (1.2815515655, "high")):
        shown = [trial[name] for trial in found["trials"]]
        assert np.log(shown) == pytest.approx(mean + z * std, rel=1e-9)


def test_failed_and_killed_trials_teach_the_cost():
    optimizer = studied()
    trials = list(paid(optimizer.history, "kWh"))
    assert [trial.state for trial in trials].count("failed") == 1
    evidence = evidence_of(SPACE, trials, "kWh")
    assert evidence.at_least.tolist() == [k == 5 for k in range(14)]
    lost = History((Trial(0, {}, np.zeros(4), "lost", None, {"kWh": 1.0}),))
    assert not list(paid(lost, "kWh"))


def test_no_calibration_without_costs():
    optimizer = Optimizer(SPACE, "100 kWh", policy=Random())
    assert costs(optimizer._settings, optimizer._look()) == []
