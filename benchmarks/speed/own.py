"""One suggestion of Farthing's own policies, in spaces that not all peers support.

    EI, continuous       8 floats without costs: the case of the comparison with the peers
    default, continuous  the same with a budget, the default policy and a learnt cost
    EI, mixed            4 floats, an ordinal, two ints and a categorical that decides which of two
                         floats are active; the same budget
    default, mixed       the default policy in this space
    default, table       the default policy, a table of ROWS rows

The results are CPU seconds of verdict, ask and tell. All cases take turns, so that other work on
the machine affects them equally. `python -m benchmarks.speed.own 25,100,400 60000` prints one JSON
line per (case, n) for these n and a table of 60,000 rows. With `beside` before these numbers it
prints one line per (space, n, policy), with the ratio to EI in the same space.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.problems.synthetic import bumps
from benchmarks.speed.peers import past, price
from farthing import Categorical, Float, Int, Optimizer, Ordinal, Space, policies
from farthing.acquisition.protocols import Policy

D = 8
REFERENCE = "EI, continuous"
ROUNDS = 12  # suggestions of every case, in which some cases refit
POLICIES = (policies.EI(), policies.Gittins(), policies.Cooling(), policies.ContextualEI())
PLENTY = 1e4  # median costs: a budget that does not limit the run


def continuous() -> Space:
    """Eight floats."""
    return Space({f"x{j}": Float(0.0, 1.0) for j in range(D)})


def mixed() -> Space:
    """Eight parameters of four kinds, two of them conditional."""
    return Space(
        {
            "rate": Float(1e-5, 1e-1, log=True),
            "depth": Int(1, 12),
            "width": Ordinal([16, 32, 64, 128, 256], log=True),
            "kind": Categorical(["sgd", "adam", "rms"]),
            "momentum": Float(0.0, 1.0, when={"kind": "sgd"}),
            "beta": Float(0.5, 0.999, when={"kind": ["adam", "rms"]}),
            "batch": Int(8, 512, log=True),
            "dropout": Float(0.0, 0.8),
        }
    )


def table(rows: int) -> Space:
    """Rows of the mixed space without its conditions, drawn with a fixed seed."""
    parameters = {
        name: Float(0.0, 1.0) if name in ("momentum", "beta") else parameter
        for name, parameter in mixed().parameters.items()
    }
    drawn = Space(parameters)
    points = drawn.sample(rows, np.random.default_rng(0))
    return Space.from_rows([drawn.decode(x) for x in points], parameters)


class Case:
    """An Optimizer in a space with n past observations."""

    def __init__(self, space: Space, policy: Policy | None, *, n: int, paid: bool) -> None:
        problem = bumps(D)
        self.f, self.space, self.paid = problem.f, space, paid
        X = space.snap(past(problem, n, seed=n))
        cost = price(X)
        budget = {"usd": PLENTY * float(np.median(cost))} if paid else None
        chosen = {} if policy is None else {"policy": policy}
        self.optimizer = Optimizer(space, budget, seed=n, **chosen)
        for x, value, c in zip(X, self.f(X), cost, strict=True):
            self.optimizer.add(space.decode(x), float(value), cost=self._cost(float(c)))

    def _cost(self, cost: float) -> dict[str, float] | None:
        return {"usd": cost} if self.paid else None

    def suggest(self) -> float:
        """CPU seconds of one suggestion, without the objective."""
        start = time.process_time()
        assert not self.optimizer.verdict.stop
        trial = self.optimizer.ask()
        asked = time.process_time()
        X = self.space.encode(trial.params)[None]
        value, cost = float(self.f(X)[0]), float(price(X)[0])
        again = time.process_time()
        self.optimizer.tell(trial, value, cost=self._cost(cost))
        return time.process_time() - again + asked - start


def measured(sizes: list[int], rows: int, rounds: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """A record for every case and n: its seconds, and their ratio to the reference."""
    spaces = {"continuous": continuous(), "mixed": mixed(), "table": table(rows)}
    kinds: dict[str, Callable[[int], Case]] = {
        REFERENCE: lambda n: Case(spaces["continuous"], policies.EI(), n=n, paid=False),
        "default, continuous": lambda n: Case(spaces["continuous"], None, n=n, paid=True),
        "EI, mixed": lambda n: Case(spaces["mixed"], policies.EI(), n=n, paid=True),
        "default, mixed": lambda n: Case(spaces["mixed"], None, n=n, paid=True),
        "default, table": lambda n: Case(spaces["table"], None, n=n, paid=True),
    }
    for n in sizes:
        cases = {name: make(n) for name, make in kinds.items()}
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for turn in range(rounds + 1):
            for name, case in cases.items():
                spent = case.suggest()
                if turn:  # the first fits the hyperparameters from scratch
                    seconds[name].append(spent)
        medians = {name: statistics.median(spent) for name, spent in seconds.items()}
        for name, spent in seconds.items():
            ratio = medians[name] / medians[REFERENCE]
            record = {"case": name, "n": n, "seconds": spent, "median": medians[name]}
            yield {**record, "ratio": ratio} | ({"rows": rows} if name.endswith("table") else {})


def beside_ei(sizes: list[int], rows: int, rounds: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """Suggestion times of policies in separate runs, and their ratio to EI."""
    for name, space in (("continuous", continuous()), ("mixed", mixed()), ("table", table(rows))):
        for n in sizes:
            cases = {
                type(policy).__name__: Case(space, policy, n=n, paid=True) for policy in POLICIES
            }
            seconds: dict[str, list[float]] = {policy: [] for policy in cases}
            for turn in range(rounds + 1):
                for policy, case in cases.items():
                    spent = case.suggest()
                    if turn:
                        seconds[policy].append(spent)
            medians = {policy: statistics.median(spent) for policy, spent in seconds.items()}
            for policy, median in medians.items():
                ratio = median / medians["EI"]
                yield {"space": name, "n": n, "policy": policy, "median": median, "ratio": ratio}


if __name__ == "__main__":
    beside = sys.argv[1] == "beside"
    sizes, rows = sys.argv[1 + beside : 3 + beside]
    records = (beside_ei if beside else measured)([int(n) for n in sizes.split(",")], int(rows))
    for record in records:
        print(json.dumps(record), flush=True)
