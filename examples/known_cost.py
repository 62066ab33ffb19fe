"""A cost that is known in advance, in your own unit, and a comparison of two policies.

The hours of the reactor are known before it runs: a hot run takes longer to heat up and cool down.
"""

import math

from farthing import Budget, Float, Space, minimize
from farthing.policies import EI, EIPerCost

SPACE = Space({"temperature": Float(300, 600), "hours": Float(0.5, 24, log=True)})


def reactor_hours(params: dict) -> float:
    return params["hours"] + (params["temperature"] - 300) / 100


def impurity(params: dict) -> float:
    """Simulate the experiment: 430 K is best, and longer runs are purer."""
    heat = (params["temperature"] - 430) / 60
    return 1 - math.exp(-(heat**2)) * (1 - math.exp(-params["hours"] / 3))


for policy in (EI(), EIPerCost()):
    budget = Budget(100, "reactor_hours")
    result = minimize(impurity, SPACE, budget, cost=reactor_hours, policy=policy)
    print(f"{type(policy).__name__}\n{result}\n")
