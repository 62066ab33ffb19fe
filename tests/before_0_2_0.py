"""The studies of tests/snapshots/0.2.0: their settings and objectives, with current names.

Commit a356ee0 wrote the files, the last one before names and modules changed. If a class or a
setting is renamed, rename it here. Change nothing else, because the files store the settings. They
also store the names of this module and of `price_of`.
"""

import math

from farthing import Categorical, Float, Int, Ordinal, Outcome, Space
from farthing.acquisition.scores import cheapness
from farthing.cost import (
    AutoCost,
    CNNFlops,
    Flops,
    Known,
    Linear,
    LogGP,
    MLPFlops,
    PointEstimate,
    ResidualGP,
    SelectedGP,
    SwitchingCost,
    Transfer,
)
from farthing.policies import (
    EI,
    CArBO,
    ConfidenceBound,
    ContextualEI,
    Cooling,
    CostEffectiveDesign,
    EIPerCost,
    Gittins,
    LatinHypercube,
    Random,
    Rollout,
    Sobol,
    StartWith,
    Thompson,
)
from farthing.stopping import (
    EIRatio,
    MaxTrials,
    NoImprovement,
    NotWorthIt,
    OutOfBudget,
    ProbableRegret,
    RegretGap,
    RegretGapRatio,
    SmallImprovement,
    Target,
    after,
    all_of,
    any_of,
    in_a_row,
)


def price_of(params):
    return 0.5 + params["n"] / 16


PRICE = price_of


def value_of(params):
    return (params["x"] - 0.3) ** 2 + abs(math.log2(params["n"]) - 3.3) / 4


PLAIN = Space({"x": Float(0, 1), "n": Int(1, 64, log=True, cost="increases")})
TABLE = Space.from_rows(
    [
        {"n": n, "x": x, "solver": solver, **({"momentum": 0.9} if solver == "sgd" else {})}
        for n, x in ((4, 0.1), (8, 0.8), (16, 0.4), (24, 0.6), (32, 0.2), (48, 0.9), (64, 0.3))
        for solver in ("adam", "sgd")
    ]
)
MIXED = {
    "x": Float(0, 1),
    "b": Float(1e-4, 1, log=True),
    "n": Int(1, 32),
    "o": Ordinal([1, 2, 4]),
    "s": Categorical(["u", "v", ("w", 1)]),
    "m": Float(2, 3, when={"s": "u"}),
}
EARLIER = [
    {"n": n, "x": x, "rows": rows, "cost": rows * (1 + n / 8), "task": f"of {rows}"}
    for rows in (1, 3)
    for n, x in ((2, 0.5), (5, 0.1), (16, 0.9), (60, 0.3))
]

# The arguments of Study.create. A command created the study "shell". "changed" was changed later.
# The rule of "ended" stops, because it has fired three times in a row.
SETTINGS = {
    "mixed": {
        "space": Space(MIXED),
        "budget": {"usd": 60.0, "trials": 50},
        "seed": 7,
        "retries": 1,
        "timeout": "10m",
        "lease": 20,
        "start": {"n": 2},
        "max_overrun": 4.0,
        "overhead": 0.1,
        "worth": "budget",
        "env": {"DEVICE": "{slot}"},
    },
    "changed": {
        "space": PLAIN,
        "budget": "$40",
        "policy": Random(),
        "stop": MaxTrials(30),
        "cost": LogGP(),
        "seed": 8,
    },
    "bound": {
        "space": PLAIN,
        "budget": "30 trials",
        "policy": ConfidenceBound(delta=0.2),
        "stop": ProbableRegret(within=1e-3, delta=0.1),
        "seed": 9,
    },
    "carbo": {
        "space": PLAIN,
        "budget": {"usd": 40.0, "trials": 40},
        "policy": CArBO(share=0.25),
        "stop": NotWorthIt(patience=2),
        "cost": {"usd": PointEstimate(LogGP())},
        "worth": "0.001 = $2",
        "direction": "maximize",
        "noisy": True,
        "seed": 11,
    },
    "contextual": {
        "space": PLAIN,
        "budget": "$40",
        "policy": ContextualEI(slack=0.2),
        "stop": EIRatio(ratio=1e-4, first=3),
        "cost": AutoCost([Linear(at_most=0), Linear(), ResidualGP(), LogGP()]),
        "seed": 12,
    },
    "cooling": {
        "space": PLAIN,
        "budget": "$40",
        "policy": Cooling(),
        "stop": RegretGapRatio(ratio=1e-4, first=3),
        "cost": ResidualGP(Linear(at_most=2)),
        "seed": 13,
    },
    "cover": {
        "space": PLAIN,
        "budget": 40,
        "policy": CostEffectiveDesign(greedy=True),
        "stop": all_of(SmallImprovement(share=1e-9, window=4), RegretGap(within=1e-6)),
        "cost": Linear(["n"]),
        "seed": 14,
    },
    "ei": {
        "space": PLAIN,
        "budget": "30 trials",
        "policy": EI(),
        "stop": in_a_row(4, NoImprovement(window=2)),
        "seed": 15,
    },
    "ended": {
        "space": PLAIN,
        "budget": "30 trials",
        "policy": Random(),
        "stop": in_a_row(3, NoImprovement(window=2)),
        "seed": 10,
    },
    "gittins": {
        "space": PLAIN,
        "budget": "$40",
        "policy": Gittins(worth=0.01),
        "stop": after(20, any_of(Target(-5.0), in_a_row(2, NotWorthIt(worth=1.0)))),
        "cost": SwitchingCost(LogGP()),
        "seed": 16,
    },
    "latin": {
        "space": PLAIN,
        "budget": "$40",
        "policy": LatinHypercube(size=12),
        "stop": OutOfBudget(),
        "cost": SelectedGP(features=["n"]),
        "seed": 17,
    },
    "per cost": {
        "space": PLAIN,
        "budget": "$40",
        "policy": EIPerCost(alpha=0.5),
        "cost": Flops(MLPFlops(["n", 8], inputs=4, outputs=2)),
        "seed": 18,
    },
    "rollout": {
        "space": PLAIN,
        "budget": "$40",
        "policy": Rollout(horizon=2, base=(cheapness,)),
        "cost": Known(price_of),
        "seed": 19,
    },
    "sobol": {
        "space": PLAIN,
        "budget": "$40",
        "policy": Sobol(),
        "cost": Flops([CNNFlops(8, 1, 3, ["n"], [0.5], widths=[10])]),
        "seed": 20,
    },
    "table": {
        "space": TABLE,
        "budget": 40,
        "policy": StartWith([TABLE.decode(TABLE.rows[3])], then=EIPerCost(alpha=0.5)),
        "stop": any_of(MaxTrials(14), Target(-5.0)),
        "cost": price_of,
        "seed": 21,
    },
    "thompson": {
        "space": PLAIN,
        "budget": "$40",
        "policy": Thompson(),
        "cost": Transfer(EARLIER, here={"rows": 2}, task="task"),
        "seed": 22,
    },
}
# The new settings of "changed".
CHANGED = {
    "budget": "+$20",
    "policy": Gittins(),
    "lease": 12,
    "space": Space({"x": Float(0, 1.5), "n": Int(1, 128, log=True, cost="increases")}),
}

SHELL = [
    *("run", "--name", "shell", "--budget", "5m", "--stop", "max_trials(8)", "--metric", "loss"),
    *("--param", "x=float:-1:2", "--param", "y=int:1:4", "--seed", "3", "--retries", "1"),
    *("--timeout", "1m", "--grace", "2s", "--lease", "20s", "--failures-in-a-row", "3"),
    *("--", "sh", "-c"),
    "while [ -e wait-$FARTHING_TRIAL ]; do sleep 0.05; done; "
    'echo "{\\"loss\\": ${0#-}, \\"steps\\": 3}"',
    *("{x}", "{y}"),
]
NAMES = ["mixed", "shell", *(name for name in SETTINGS if name != "mixed")]


def constant(params):
    return Outcome(1.0, cost=price_of(params))


def evaluated(params):
    return Outcome(value_of(params), cost=price_of(params))


def mixed(params):
    more = params["o"] / 4 + {"u": 0, "v": 1}.get(params["s"], 2) + params.get("m", 0)
    return Outcome(
        value_of(params) + abs(math.log10(params["b"]) + 2) + more, cost=price_of(params)
    )


def carbo(params):
    wobble = math.sin(1e4 * params["x"]) / 10
    return Outcome(wobble - value_of(params), cost=price_of(params))


# The cost of some studies is known.
OBJECTIVES = dict.fromkeys(SETTINGS, evaluated)
OBJECTIVES |= {"mixed": mixed, "carbo": carbo, "table": value_of, "rollout": value_of}
OBJECTIVES["ended"] = constant
