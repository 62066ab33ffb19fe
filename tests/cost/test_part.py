"""The cost of a part of a training: start-up + steps x rate."""

from dataclasses import replace

import numpy as np
import pytest
from trainings import curve_of, training

from farthing import Float, History, Space, Steps
from farthing.acquisition.paid_costs import evidence_of_steps
from farthing.cost import Evidence, Known, LogGP
from farthing.cost.part import PartCost, rate_of, startup_of

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1)})


def fitted():
    X = np.random.default_rng(0).random((12, 2))
    cost = np.exp(X[:, 0] + 0.3 * X[:, 1])
    return LogGP().fit(Evidence(SPACE, X, cost, np.zeros(12, dtype=bool)))


def test_a_share_without_start_up_is_a_shift():
    model, X = fitted(), np.random.default_rng(1).random((5, 2))
    whole, part = PartCost(model).log_at(X), PartCost(model, share=0.25).log_at(X)
    assert whole.mean == pytest.approx(model.log_at(X).mean)
    assert part.mean == pytest.approx(whole.mean + np.log(0.25))
    assert part.std == pytest.approx(whole.std)
    assert (PartCost(model, 0.0, 0.25).least(X) <= part.mean + 1e-6).all()


def test_start_up_and_steps():
    model, X = fitted(), np.random.default_rng(1).random((5, 2))
    steps = np.exp(model.log_at(X).mean)
    part = PartCost(model, startup=2.0, share=0.5).log_at(X)
    assert np.exp(part.mean) == pytest.approx(2.0 + 0.5 * steps)
    # The standard deviation is that of the steps, as a share of all.
    assert part.std == pytest.approx(model.log_at(X).std * 0.5 * steps / (2.0 + 0.5 * steps))


def test_gradients():
    part, X = PartCost(fitted(), 1.5, 0.3), np.random.default_rng(2).random((4, 2))
    _, d_mean, d_std = part.slopes(X)
    for j, unit in enumerate(1e-6 * np.eye(2)):
        high, low = part.log_at(X + unit), part.log_at(X - unit)
        assert d_mean[:, j] == pytest.approx((high.mean - low.mean) / 2e-6, abs=1e-6)
        assert d_std[:, j] == pytest.approx((high.std - low.std) / 2e-6, abs=1e-6)


def test_one_more_cost():
    part, x = PartCost(fitted(), 1.5, 0.3), np.array([0.9, 0.1])
    after = part.condition(x, 1.5 + 0.3 * 40.0)
    before, now = (float(np.exp(m.log_at(x[None]).mean[0])) for m in (part, after))
    assert before < now < 1.5 + 0.3 * 40.0 + 1.0


def test_the_start_up_of_trainings():
    curves = [curve_of([1.0] * 5, rate=rate, startup=3.0) for rate in (0.5, 1.0, 2.0)]
    assert startup_of(curves, "cost") == pytest.approx(3.0)
    assert startup_of([curve[:1] for curve in curves], "cost") == 0.0
    assert startup_of([curve_of([1.0] * 4, rate=2.0)], "cost") == pytest.approx(0.0)
    assert rate_of(5, curves[2][-1].cost, "cost", 3.0) == pytest.approx(2.0)
    assert rate_of(2, {"cost": 4.0}, "cost", 9.0) > 0  # a start-up that is too large
    assert rate_of(2, {"s": 4.0}, "cost", 0.0) == 0.0  # it has not paid anything


def test_a_killed_training_pays_for_the_steps_that_it_has_reported():
    """Without a report, only a lower bound is known: the part that it ran would have cost more."""
    trials = (
        training(0, [0.1, 0.2], [1.0] * 4, rate=0.5, state="killed"),
        replace(training(1, [0.3, 0.4], [], state="killed", until=2), cost={"cost": 3.0}),
    )
    _, found = evidence_of_steps(SPACE, History(trials), "cost", Steps(16), 0.0)
    assert found.cost == pytest.approx([0.5 * 16, 3.0 / 2 * 16])
    assert found.at_least.tolist() == [False, True]


def test_a_known_cost_stays_known():
    learner = Known(lambda params: 7.0)
    model = learner.fit(Evidence(SPACE, np.zeros((0, 2)), np.zeros(0), np.zeros(0, dtype=bool)))
    part = PartCost(model, share=0.5).log_at(np.array([[0.5, 0.5]]))
    assert float(np.exp(part.mean[0])) == pytest.approx(3.5)
    assert part.std[0] == 0.0
