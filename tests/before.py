"""The studies of tests/snapshots/0.1.0: their settings and objectives, with current names.

If a class or a setting is renamed, rename it here. Change nothing else, because the files store the
settings. They also store the names of this module and of `price_of_row`.
"""

import math

from farthing import Categorical, Float, Int, Ordinal, Outcome, Space
from farthing.cost import LogGP, PointEstimate
from farthing.policies import CArBO, EIPerCost, Random, StartWith
from farthing.stopping import MaxTrials, NotWorthIt, Target, any_of


def price_of_row(params):
    return 0.5 + params["width"] / 64


PRICE = price_of_row

ROWS = [
    {"width": width, "solver": solver, **({"momentum": 0.9} if solver == "sgd" else {})}
    for width in (16, 32, 64, 128, 256)
    for solver in ("adam", "sgd", "lbfgs")
]

# The arguments of Study.create. A command created the study "shell".
SETTINGS = {
    "mixed": {
        "space": Space(
            {
                "a": Float(-3, 5),
                "b": Float(1e-4, 1, log=True),
                "k": Int(1, 6),
                "s": Categorical(["u", "v", ("w", 1)]),
                "m": Float(2, 3, when={"s": "u"}),
            }
        ),
        "budget": "$40",
        "seed": 7,
        "retries": 1,
        "timeout": "10m",
    },
    "noisy": {
        "space": Space({"rate": Float(1e-3, 1, log=True), "depth": Ordinal([1, 2, 4, 8])}),
        "budget": {"usd": 30.0, "trials": 40},
        "policy": CArBO(share=0.25),
        "stop": NotWorthIt(patience=2),
        "cost": PointEstimate(LogGP()),
        "worth": "0.001 = $2",
        "direction": "maximize",
        "noisy": True,
        "seed": 11,
    },
    "table": {
        "space": Space.from_rows(ROWS),
        "budget": 30,
        "policy": StartWith([ROWS[4]], then=EIPerCost(alpha=0.5)),
        "stop": any_of(MaxTrials(14), Target(-5.0)),
        "cost": price_of_row,
        "seed": 5,
    },
    "drawn": {
        "space": Space({"x": Float(0, 1), "n": Int(1, 1000, log=True)}),
        "budget": "9 trials",
        "policy": Random(),
        "seed": 2,
    },
}

SHELL = [
    *("run", "--name", "shell", "--budget", "5m", "--stop", "max_trials(8)", "--metric", "loss"),
    *("--param", "x=float:-1:2", "--param", "y=int:1:4", "--seed", "3", "--retries", "1"),
    *("--timeout", "1m", "--grace", "2s", "--lease", "20s", "--failures-in-a-row", "3"),
    *("--", "sh", "-c"),
    'while [ -e wait-$FARTHING_TRIAL ]; do sleep 0.05; done; echo "{\\"loss\\": ${0#-}}"',
    *("{x}", "{y}"),
]
NAMES = ["mixed", "shell", "noisy", "table", "drawn"]


def mixed(params):
    value = (params["a"] - 1) ** 2 + 3 * abs(math.log10(params["b"]) + 2) + params.get("m", 0)
    return Outcome(value + {"u": 0, "v": 1}.get(params["s"], 2), cost=0.5 + params["k"] / 4)


def noisy(params):
    wobble = math.sin(1e4 * params["rate"]) / 10
    value = -((math.log10(params["rate"]) + 1.5) ** 2) - abs(params["depth"] - 4) / 4
    return Outcome(value + wobble, cost=0.05 * params["depth"] + 6 * params["rate"] ** 0.5)


def table(params):
    return abs(math.log2(params["width"]) - 6.2) + len(params["solver"]) / 10


def drawn(params):
    return Outcome(params["x"] + params["n"], cost=2.0)


OBJECTIVES = {"mixed": mixed, "noisy": noisy, "table": table, "drawn": drawn}
