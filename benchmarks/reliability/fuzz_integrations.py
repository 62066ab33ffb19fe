"""Odd studies for the Optimizer, Optuna, scikit-learn and Ray Tune (see `fuzz`).

Each case is drawn from a text. Bounds, budgets, values and costs come from the whole range of
floats, with NaN, infinities, zeros and objects of other kinds among them.
"""

from __future__ import annotations

import logging
import math
import random
import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from farthing import Categorical, FarthingError, Float, Int, Optimizer, Ordinal
from farthing.policies import EI, Cooling, EIPerCost, Gittins, Random
from farthing.space.space import Space

TRIALS = 6  # of a study: the initial design, and some after it
ODD_NUMBERS = (0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-320, 5e-324)
ODD_OBJECTS = ("x", "", None, True, 10**400, [1.0], {}, object(), np.float32(1e38), np.nan)


def number(rng: random.Random) -> float:
    """A number of any size, of either sign."""
    if rng.random() < 0.1:
        return rng.choice(ODD_NUMBERS)
    return (
        rng.choice((1, -1)) * rng.uniform(1, 10) * 10.0 ** rng.choice((-300, -9, 0, 0, 2, 9, 306))
    )


def thing(rng: random.Random) -> Any:
    """A number, or what a user may pass instead."""
    return rng.choice(ODD_OBJECTS) if rng.random() < 0.1 else number(rng)


def amount(rng: random.Random) -> float:
    """A budget or a cost: often usual, sometimes tiny, huge or wrong."""
    return rng.choice((1.0, 5.0, 1e-3, 1e-300, 1e300, 5e-324, abs(number(rng))))


def space(rng: random.Random) -> Space:
    """One to three parameters."""

    def parameter() -> Any:
        low, high = sorted((number(rng), number(rng)), key=lambda each: (math.isnan(each), each))
        match rng.randrange(4):
            case 0:
                return Float(low, high, log=rng.random() < 0.4)
            case 1:
                whole = [int(each) if math.isfinite(each) else each for each in (low, high)]
                return Int(*whole, log=rng.random() < 0.4)
            case 2:
                return Ordinal(sorted({number(rng) for _ in range(3)}))
            case _:
                return Categorical([thing(rng) for _ in range(3)])

    return Space({name: parameter() for name in "abc"[: rng.randint(1, 3)]})


def optimizer(text: str) -> None:
    """Points inside, predictions finite, and an end: a budget is spent at some time."""
    rng = random.Random(repr(text))
    policy = rng.choice((Random(), EI(), EIPerCost(), Cooling(), Gittins()))
    made = Optimizer(space(rng), {"usd": amount(rng)}, policy=policy, seed=rng.randrange(99))
    for _ in range(TRIALS):
        with suppress(FarthingError):
            trial = made.ask()
            assert ((trial.x >= 0) & (trial.x <= 1)).all(), trial.x
            assert all(0 <= each < math.inf for each in trial.predicted.values()), trial.predicted
            made.tell(trial, thing(rng), cost=amount(rng))
            _check_finite(made.predict(trial.params).iloc[0])
    account = made.ledger["usd"]
    assert 0 <= account.spent < math.inf, account


def _check_finite(predicted: Any) -> None:
    """Predictions are finite, or NaN while there is no model."""
    assert not np.isinf(predicted.to_numpy(dtype=float)).any(), predicted.to_dict()


def optuna(text: str) -> None:
    """A study of Optuna: every trial has a value, or the study stops."""
    import optuna

    from farthing.integrations.optuna import CostAwareSampler

    rng = random.Random(repr(text))
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    warnings.simplefilter("ignore")
    domains = [_optuna_domain(rng) for _ in range(rng.randint(1, 3))]
    sampler = CostAwareSampler(budget={"usd": amount(rng)}, seed=rng.randrange(99))
    study = optuna.create_study(sampler=sampler)

    def objective(trial: Any) -> float:
        for name, (kind, given, more) in zip("abc", domains, strict=False):
            getattr(trial, f"suggest_{kind}")(name, *given, **more)
        trial.set_user_attr("cost", amount(rng))
        return number(rng)

    study.optimize(objective, n_trials=TRIALS)


def _optuna_domain(rng: random.Random) -> tuple[str, list[Any], dict[str, Any]]:
    """Arguments of `suggest_...` that Optuna accepts."""
    low, high = sorted(rng.uniform(1, 9) * 10.0 ** rng.choice((-300, -6, 0, 3, 150)) for _ in "ab")
    match rng.randrange(3):
        case 0:
            return "float", [low, high], {"log": rng.random() < 0.5}
        case 1:
            most = rng.choice((3, 100, 10**15))
            return "int", [1, most], {"log": rng.random() < 0.5}
        case _:
            return "categorical", [[None, True, "x", 1.5][: rng.randint(1, 4)]], {}


def sklearn(text: str) -> None:
    """A search of scikit-learn with odd scores: it has results, or a message."""
    from sklearn.base import BaseEstimator

    from farthing.integrations.sklearn import BudgetSearchCV

    rng = random.Random(repr(text))
    warnings.simplefilter("ignore")

    class Odd(BaseEstimator):  # type: ignore[misc,unused-ignore]
        def __init__(self, a: Any = 1, b: Any = 1) -> None:
            self.a, self.b = a, b

        def fit(self, X: Any, y: Any) -> Odd:
            return self

        def predict(self, X: Any) -> Any:
            return np.zeros(len(X))

    def score(estimator: Any, X: Any, y: Any) -> float:
        return number(rng)

    values: dict[str, Any] = {"a": [thing(rng) for _ in range(rng.randint(0, 4))]}
    with suppress(FarthingError):
        values["b"] = rng.choice((Float(0, 1), Int(1, 9), [1, 2], *space(rng).parameters.values()))
    budget = rng.choice((f"{rng.randint(1, 4)} trials", "2 trials, 1s", text[:20]))
    X, y = np.zeros((6, 1)), np.array([0, 1] * 3)
    search = BudgetSearchCV(Odd(), values, budget, scoring=score, cv=2, refit=False, random_state=0)
    search.fit(X, y)
    assert len(search.cv_results_["state"]) == len(search.result_.history)


def ray_tune(text: str) -> None:
    """A searcher of Ray Tune with odd results: each suggestion is inside its domain."""
    from ray import tune

    from farthing.integrations.ray_tune import BudgetSearch

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    rng = random.Random(repr(text))
    low, high = sorted(rng.uniform(1, 9) * 10.0 ** rng.choice((-300, -6, 0, 3, 300)) for _ in "ab")
    config = {
        "a": tune.loguniform(low, high) if rng.random() < 0.5 else tune.uniform(low, high),
        "b": rng.choice((tune.choice([None, "x", 1.5]), tune.randint(1, 9), thing(rng))),
    }
    search = BudgetSearch({"usd": amount(rng)}, metric="loss", mode="min", paid="paid", seed=1)
    search.set_search_properties("loss", "min", config)
    for number_ in range(TRIALS):
        suggested = search.suggest(str(number_))
        if not isinstance(suggested, dict):
            break
        assert low <= suggested["a"] <= high, suggested
        result = {"loss": thing(rng), "paid": thing(rng), "training_iteration": rng.randrange(3)}
        with suppress(FarthingError):
            if rng.random() < 0.5:
                search.on_trial_result(str(number_), result)
            final = None if rng.random() < 0.2 else result
            search.on_trial_complete(str(number_), final, error=rng.random() < 0.2)
