"""Would a rule have stopped in time? Replay four rules on the log of a run that spent its budget.

The log may come from any tool: a CSV file with a column for each parameter, `value` and `cost`.
From a shell: `farthing replay --file log.csv --stop no_improvement`.
"""

import math

from farthing import Float, Int, minimize
from farthing.replay import replay
from farthing.stopping import NoImprovement, NotWorthIt, RegretGap, Target

SPACE = {"epochs": Int(1, 50, log=True), "rate": Float(1e-4, 1e-1, log=True)}


def train(params: dict) -> float:
    return 0.2 + 0.8 / params["epochs"] + 0.05 * (math.log10(params["rate"]) + 2.5) ** 2


run = minimize(train, SPACE, "$60", cost=lambda params: 0.1 * params["epochs"])
log = [{**t.params, "value": t.value, "cost": t.cost["usd"]} for t in run.history.done]
print(f"the run: {run.best.value:.4f} for ${run.spent:.2f}, {len(log)} trials\n")

for rule in (NotWorthIt(), RegretGap(within=0.005), NoImprovement(window=3), Target(0.22)):
    played = replay(log, rule, space=SPACE, budget="$60", worth="0.01 = $5")
    print(f"{played.rule}\n{played}\n")
