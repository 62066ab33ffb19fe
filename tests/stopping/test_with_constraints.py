"""The regret rules with constraints, against dense grids."""

from dataclasses import replace

import numpy as np
import pytest
from beliefs import NOTHING

from farthing import Float, Optimizer
from farthing.core.suggest import believed
from farthing.policies.confidence_bound import beta
from farthing.stopping import ProbableRegret, RegretGap, RegretGapRatio
from farthing.stopping.regret_gap import feasible_points, regret_gap

DENSE = np.linspace(0, 1, 200_001)[:, None]


def belief_of(bound="<= 0.55", xs=(0.05, 0.2, 0.35, 0.5, 0.62, 0.8, 0.95)):
    """The value falls to the right, where the measured quantity exceeds its bound."""
    optimizer = Optimizer({"x": Float(0, 1)}, constraints={"z": bound})
    for x in xs:
        value = 2 - 2 * x + 0.2 * np.sin(20 * x)
        optimizer.add({"x": x}, value, constraints={"z": x + 0.05 * np.sin(15 * x)})
    return believed(optimizer._settings, optimizer._look(), model=True)


def test_the_lower_bound_is_over_the_points_that_may_be_feasible():
    belief = belief_of()
    root = float(np.sqrt(beta(1, len(belief.y), 0.1)))
    gap = regret_gap(belief, feasible_points(belief), root, np.random.default_rng(0))
    mean, std = belief.objective.at(DENSE)
    [model] = belief.feasibility
    z, spread = model.gp.at(DENSE)
    plausible = z[:, 0] - root * spread <= model.bound
    tried, tried_std = belief.objective.at(feasible_points(belief))
    highest = (tried[:, 0] + root * tried_std).min()
    lower = mean[:, 0] - root * std
    assert gap == pytest.approx(highest - lower[plausible].min(), rel=1e-4, abs=2e-5)
    assert highest - lower.min() > gap + 0.3  # the unconstrained gap never closes
    free = replace(belief, feasibility=())
    unconstrained = regret_gap(free, feasible_points(belief), root, np.random.default_rng(0))
    assert unconstrained == pytest.approx(highest - lower.min(), rel=1e-4)


@pytest.mark.parametrize("rule", [RegretGap(within=0.3), ProbableRegret(within=0.3)])
def test_the_regret_of_the_constrained_optimum_stops_a_run(rule):
    """Points close to the bound: little is left to gain among the feasible ones, much beyond."""
    belief = belief_of(xs=(0.05, 0.2, 0.35, 0.45, 0.5, 0.51, 0.52, 0.53, 0.56, 0.6, 0.8, 0.95))
    rng = np.random.default_rng(0)
    assert rule(belief, NOTHING, rng).stop
    ignoring = replace(belief, feasibility=())
    assert not rule(ignoring, NOTHING, rng).stop


def test_the_effect_of_the_newest_value_needs_an_earlier_feasible_one():
    rng = np.random.default_rng(0)
    rule = RegretGapRatio(ratio=None)
    late = belief_of(xs=(0.8, 0.9, 0.95, 0.99, 0.1))
    assert "no trial meets the constraints" in rule(late, NOTHING, rng).because
    early = belief_of(xs=(0.1, 0.8, 0.9, 0.95, 0.99))
    assert np.isfinite(rule(early, NOTHING, rng).number)
