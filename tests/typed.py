"""A user's program that `make lint` checks with mypy --strict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farthing import Categorical, Float, Int, Optimizer, Ordinal, Outcome, Space, Study, minimize
from farthing.cost import Linear
from farthing.policies import EIPerCost, Rollout
from farthing.replay import replay
from farthing.stopping import NoImprovement, NotWorthIt, after, any_of

space = {
    "depth": Int(1, 16, cost="increases"),
    "rate": Float(1e-4, 1e-1, log=True),
    "solver": Categorical(["adam", "sgd"]),
    "batch": Ordinal([16, 32, 64], log=True),
}


def train(params: Mapping[str, Any]) -> Outcome:
    return Outcome(params["rate"], cost={"usd": 0.02 * params["depth"]}, metrics={"accuracy": 0.9})


def main() -> None:
    rule = any_of(after(8, NoImprovement(window=4)), NotWorthIt(worth=0.01))
    result = minimize(train, space, budget="$2", stop=rule, cost=Linear(), seed=1)
    spent: float = result.spent
    params: Mapping[str, Any] = result.best.params
    print(
        spent, params, result.best.value, result.ledger["usd"].left, replay(result, NoImprovement())
    )
    optimizer = Optimizer(Space(space), budget={"usd": 2, "s": 60}, policy=EIPerCost(alpha=0.2))
    for trial in optimizer.ask(3):
        optimizer.tell(trial, 0.3, cost={"usd": 0.1, "s": 3.0})
    study = Study.create("typed.db", name="typed", space=space, budget=9, policy=Rollout(horizon=3))
    print(study.run(lambda params: float(params["depth"])).best)


if __name__ == "__main__":
    main()
