"""Ask and tell with a budget in dollars, for evaluations that run on other machines.

The price list gives the cost of each evaluation, so Farthing starts none that it cannot pay for.
"""

import math

from farthing import Categorical, Float, Int, Optimizer, Space
from farthing.stopping import NotWorthIt

PRICE_PER_HOUR = {"small": 0.40, "large": 3.06}
SPEED = {"small": 1.0, "large": 6.0}
SPACE = Space(
    {
        "machine": Categorical(["small", "large"]),
        "epochs": Int(1, 50, log=True),
        "rate": Float(1e-4, 1e-1, log=True),
    }
)


def dollars(params: dict) -> float:
    hours = 0.5 * params["epochs"] / SPEED[params["machine"]]
    return hours * PRICE_PER_HOUR[params["machine"]]


def train_in_the_cloud(params: dict) -> float:
    """Simulate training: the loss falls with the number of epochs if the rate is right."""
    return 0.2 + 0.8 / params["epochs"] + 0.05 * (math.log10(params["rate"]) + 2.5) ** 2


optimizer = Optimizer(SPACE, "$100", cost=dollars, stop=NotWorthIt(), worth="0.01 = $5", seed=3)
while not optimizer.verdict.stop:
    trial = optimizer.ask()
    optimizer.tell(trial, train_in_the_cloud(trial.params))
    print(f"{trial.number:2d}  ${optimizer.ledger.spent:5.2f}  {trial.params}")

print(f"stopped: {optimizer.verdict.because}")
print(f"best:    {optimizer.best.value:.4f} at {optimizer.best.params}")
print(f"spent:   ${optimizer.ledger.spent:.2f} of $100, ${optimizer.ledger.left:.2f} left")
