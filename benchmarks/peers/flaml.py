"""FLAML: local search that starts anywhere (CFO), and several of them with Optuna (BlendSearch)."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from benchmarks.peers._terms import Params, plain
from benchmarks.problems.problem import Evaluation
from farthing import Categorical, Float, Ordinal, Space

REQUIREMENTS = ("flaml[blendsearch]==2.7.0",)

PATIENCE = 100  # suggestions in a row without a new configuration, as in its own `tune.run`


class FLAML:
    """A searcher with cost as `cost_attr` and the budget as `cost_budget`.

    An Ordinal of numbers is a choice, which FLAML takes as ordered. No low-cost starting point: we
    use none. Its searchers keep the configuration they asked for, so the value of a table's row is
    told for that; a failure is told as an error.
    """

    def __init__(self, space: Space, *, budget: float, seed: int, searcher: str) -> None:
        warnings.simplefilter("ignore")
        import flaml
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        logging.getLogger("flaml").setLevel(logging.ERROR)
        self.space = space
        self.searcher = getattr(flaml, searcher)(
            metric="value",
            mode="min",
            space={name: _domain(p) for name, p in space.parameters.items()},
            cost_attr="cost",
            cost_budget=budget,
            seed=seed,
        )
        self.count = 0

    def ask(self) -> Params | None:
        """The next configuration; a searcher returns None if it finds only known ones."""
        for _ in range(PATIENCE):
            self.count += 1
            self.config = self.searcher.suggest(str(self.count))
            if self.config is not None:
                return plain(self.space, self.config)
        return None

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report value and cost of the suggested configuration, or its failure."""
        if evaluation.value is None:
            self.searcher.on_trial_complete(str(self.count), error=True)
            return
        result = {"value": evaluation.value, "cost": evaluation.cost, "config": self.config}
        self.searcher.on_trial_complete(str(self.count), result)


def _domain(parameter: Any) -> Any:
    from flaml import tune

    if isinstance(parameter, Categorical | Ordinal):
        ordered = isinstance(parameter, Ordinal)
        return tune.choice(list(parameter.values if ordered else parameter.options), ordered)
    if isinstance(parameter, Float):
        kind = tune.loguniform if parameter.log else tune.uniform
        return kind(parameter.low, parameter.high)
    kind = tune.lograndint if parameter.log else tune.randint
    return kind(parameter.low, parameter.high + 1)  # its upper bound is exclusive


def cfo(space: Space, *, budget: float, seed: int, evaluations: int) -> FLAML:
    """CFO with its defaults."""
    return FLAML(space, budget=budget, seed=seed, searcher="CFO")


def blendsearch(space: Space, *, budget: float, seed: int, evaluations: int) -> FLAML:
    """BlendSearch with its defaults, Optuna's TPE as the global search."""
    return FLAML(space, budget=budget, seed=seed, searcher="BlendSearch")


PEERS = {"flaml-cfo": cfo, "flaml-blendsearch": blendsearch}
