"""Tune a model again: the studies of two earlier months are the start of the third.

The new month has other data and one new parameter. An evaluation costs dollars, and the budget of
the third month pays for few of them. An argument is the file for a picture of the trust in them.
"""

import math
import sys
from pathlib import Path

from farthing import Categorical, Float, Int, Outcome, minimize

OLD = {"rate": Float(1e-4, 1e-1, log=True), "depth": Int(1, 12)}
NEW = {**OLD, "booster": Categorical(["tree", "dart"])}
BEST_RATE = {"May": 0.010, "June": 0.013, "July": 0.011}


def training(month: str):
    """Simulate the training of a month: deeper trees cost more."""

    def train(params: dict) -> Outcome:
        away = math.log10(params["rate"] / BEST_RATE[month])
        loss = 0.2 + 0.1 * away**2 + 0.004 * (params["depth"] - 7) ** 2
        loss += 0.01 if params.get("booster") == "dart" else 0.0
        return Outcome(loss, cost=0.2 * params["depth"])

    return train


may = minimize(training("May"), OLD, "$20", seed=1)
june = minimize(training("June"), OLD, "$20", seed=2, learn_from={"May": may})
print(f"May:  {may.best.value:.4f} for ${may.spent:.2f}")
print(f"June: {june.best.value:.4f} for ${june.spent:.2f}")

july = minimize(training("July"), NEW, "$8", seed=3, learn_from={"May": may, "June": june})
for trial in july.history:
    print(f"{trial.number:2d}  {trial.value:.4f}  ${trial.cost['usd']:.2f}  {trial.params}")
print(july)
if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text(july.plot.svg.trust(), encoding="utf-8")
