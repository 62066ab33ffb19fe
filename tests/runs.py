"""Small finished runs in memory, one of each kind that figures have to show."""

import math
from dataclasses import replace
from typing import NamedTuple

from farthing import Categorical, Float, Int, Optimizer
from farthing.policies import EIPerCost
from farthing.stopping import NotWorthIt

SPACE = {
    "rate": Float(1e-4, 1e-1, log=True),
    "depth": Int(1, 9),
    "solver": Categorical(["sgd", "adam"]),
    "momentum": Float(0, 0.99, when={"solver": "sgd"}),
}


class Run(NamedTuple):
    """The input of the figures."""

    settings: object
    state: object

    @property
    def history(self):
        return self.state.history


def value(params):
    away = (params["depth"] - 4) ** 2 / 20 + abs(params["rate"] - 0.01)
    return away + (0.3 - 0.2 * params["momentum"] if params["solver"] == "sgd" else 0.1)


def seen(optimizer):
    return Run(optimizer._settings, optimizer._store.look())


def played(count=14, *, sign=1.0, costs=("usd",), broken=(3, 6, 7), **settings):
    """An optimizer with trials whose cost grows with the depth. Some failed or were killed."""
    budget = dict.fromkeys(costs, 200.0)
    optimizer = Optimizer(SPACE, budget, **{"policy": EIPerCost(), **settings})
    for k in range(count):
        trial = optimizer.ask(anyway=True)
        paid = {name: 0.5 + trial.params["depth"] * (1 + i) for i, name in enumerate(costs)}
        if k in broken[:2]:
            optimizer.tell(trial, failed="out of memory", cost=paid)
        elif k in broken[2:]:
            optimizer.tell(trial, killed=True, cost=paid)
        else:
            optimizer.tell(trial, sign * value(trial.params), cost=paid)
    return optimizer


def overlapping(count=8):
    """An optimizer of two workers: the wall clock shows half of the seconds of the trials."""
    optimizer = played(count, costs=("s",), broken=())

    def two_workers(state, now):
        half = math.fsum(trial.cost["s"] for trial in state.history) / 2
        account = replace(state.ledger["s"], spent=half, overhead=0.0)
        return replace(state, ledger=replace(state.ledger, _accounts=(("s", account),)))

    optimizer._store.commit(two_workers)
    return optimizer


KINDS = {
    "minimised": lambda: played(worth=0.001, stop=NotWorthIt()),
    "maximised": lambda: played(sign=-1.0, direction="maximize"),
    "two resources": lambda: played(costs=("usd", "kWh")),
    "seconds": lambda: played(costs=("s",)),
}
