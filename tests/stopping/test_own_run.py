"""Each rule stops a run, if it minimises and if it maximises."""

import numpy as np
import pytest

from farthing import Float, Optimizer, Space
from farthing.policies import EIPerCost
from farthing.stopping import (
    EIRatio,
    MaxTrials,
    NoImprovement,
    NotWorthIt,
    ProbableRegret,
    RegretGap,
    RegretGapRatio,
    SmallImprovement,
    Target,
    after,
    all_of,
    any_of,
    in_a_row,
)

AT_MOST = 40
TARGET = 1.745  # the minimum is 1.7396; the first point, the middle of the space, has 1.774


def value_at(params):
    x = params["x"]
    return float(np.sin(7 * x) + 0.3 * x + 2)


def run(rule, direction):
    sign = 1.0 if direction == "minimize" else -1.0
    optimizer = Optimizer(
        Space({"x": Float(2, 3)}),
        cost=lambda p: p["x"],
        policy=EIPerCost(),
        stop=rule,
        direction=direction,
        seed=4,
    )
    while not optimizer.verdict.stop and len(optimizer.history) < AT_MOST:
        trial = optimizer.ask()
        optimizer.tell(trial, sign * value_at(trial.params))
    return optimizer


RULES = {
    "NotWorthIt": lambda sign: NotWorthIt(worth=1e-4),
    "RegretGap": lambda sign: RegretGap(within=0.01),
    "EIRatio": lambda sign: EIRatio(ratio=0.05, first=3),
    "RegretGapRatio": lambda sign: RegretGapRatio(ratio=0.05, first=3),
    "RegretGapRatio, by noise": lambda sign: RegretGapRatio(ratio=None),
    "ProbableRegret": lambda sign: ProbableRegret(within=0.05, delta=0.3),
    "ProbableRegret, plain": lambda sign: ProbableRegret(within=0.02, plain=True),
    "NoImprovement": lambda sign: NoImprovement(),
    "SmallImprovement": lambda sign: after(8, SmallImprovement(share=0.01)),
    "Target": lambda sign: Target(sign * TARGET),
    "MaxTrials": lambda sign: MaxTrials(9),
    "in_a_row": lambda sign: in_a_row(3, NotWorthIt(worth=1e-3)),
    "all_of": lambda sign: all_of(NoImprovement(3), NotWorthIt(worth=1e-3)),
    "any_of": lambda sign: any_of(MaxTrials(30), RegretGap(within=0.01)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_it_stops_a_run_in_both_directions(name):
    down, up = run(RULES[name](1.0), "minimize"), run(RULES[name](-1.0), "maximize")
    assert down.verdict.stop
    assert 5 <= len(down.history) < AT_MOST
    assert len(up.history) == len(down.history)
    assert up.verdict.because.replace("-", "") == down.verdict.because.replace("-", "")
    for one, other in zip(down.history, up.history, strict=True):
        np.testing.assert_array_equal(one.x, other.x)
    assert down.best.value == pytest.approx(1.8, abs=0.4)  # and it has found a good value


def test_the_stricter_rule_stops_later():
    lengths = [len(run(RegretGap(within=w), "minimize").history) for w in (0.5, 0.05, 0.005)]
    assert lengths[0] < lengths[1] < lengths[2]
