"""An instance of every policy and every stopping rule, with its defaults or from an example.

The contract tests find a new file in a folder automatically. EXAMPLES lists only classes that need
arguments, or that are to be tested with several.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from farthing.errors import InvalidInput
from farthing.policies import (
    EI,
    CArBO,
    CostEffectiveDesign,
    EIPerCost,
    Gittins,
    Rollout,
    StagedGittins,
    StartWith,
)
from farthing.stopping import (
    MaxTrials,
    NoImprovement,
    NotWorthIt,
    ProbableRegret,
    RegretGap,
    SmallImprovement,
    Target,
)


@dataclass(frozen=True)
class Circumstances:
    """What an example may depend on."""

    points: tuple = ({"x": 0.5},)  # configurations of the space
    unit: float = 1.0  # the factor of a value per unit of cost
    value: Callable = float  # the transformation of a value

    @property
    def scale(self):
        """The factor of a difference of values."""
        return abs(self.value(1.0) - self.value(0.0))


# {class: {label: factory}}. The label of a rule says whether it stops the contract problem.
EXAMPLES = {
    "StartWith": {"": lambda c: StartWith(c.points[:1], then=EI())},
    "StagedGittins": {
        "": lambda c: StagedGittins(),
        "worth 0.02": lambda c: StagedGittins(worth=0.02 * c.unit),
    },
    "CArBO": {"": lambda c: CArBO(), "cooling": lambda c: CArBO(share=0)},
    "CostEffectiveDesign": {
        "": lambda c: CostEffectiveDesign(),
        "greedy": lambda c: CostEffectiveDesign(greedy=True),
    },
    "EIPerCost": {"": lambda c: EIPerCost(), "alpha 0.3": lambda c: EIPerCost(alpha=0.3)},
    "Gittins": {"": lambda c: Gittins(), "worth 0.02": lambda c: Gittins(worth=0.02 * c.unit)},
    "Rollout": {"": lambda c: Rollout(), "horizon 4": lambda c: Rollout(horizon=4)},
    "MaxTrials": {"stops": lambda c: MaxTrials(12), "continues": lambda c: MaxTrials(13)},
    "Target": {
        "stops": lambda c: Target(c.value(9.0)),
        "continues": lambda c: Target(c.value(1.0)),
    },
    "NoImprovement": {
        "stops": lambda c: NoImprovement(3),
        "continues": lambda c: NoImprovement(12),
    },
    "SmallImprovement": {
        "stops": lambda c: SmallImprovement(share=9.0),
        "continues": lambda c: SmallImprovement(share=1e-9, window=12),
    },
    "RegretGap": {
        "stops": lambda c: RegretGap(within=100 * c.scale),
        "continues": lambda c: RegretGap(within=1e-3 * c.scale),
    },
    "ProbableRegret": {
        "stops": lambda c: ProbableRegret(within=100 * c.scale, delta=0.5),
        "continues": lambda c: ProbableRegret(within=1e-3 * c.scale),
    },
    "NotWorthIt": {
        "stops": lambda c: NotWorthIt(worth=1e3 * c.unit),
        "continues": lambda c: NotWorthIt(worth=1e-6 * c.unit),
    },
}


def classes_in(folder):
    """{name: class} of a folder, in which each file has one class."""
    found = {}
    for file in pkgutil.iter_modules(folder.__path__):
        module = importlib.import_module(f"{folder.__name__}.{file.name}")
        if file.name != "combine":
            (name,) = module.__all__
            found[name] = getattr(module, name)
    return found


def examples_of(kind):
    """{name of the example: factory} of a class."""
    name = kind.__name__
    labelled = EXAMPLES.get(name, {"": lambda c: _with_defaults(kind)})
    return {f"{name}, {label}" if label else name: make for label, make in labelled.items()}


def _with_defaults(kind):
    try:
        return kind()
    except (TypeError, InvalidInput) as error:
        pytest.fail(
            f"{kind.__name__} cannot be instantiated for the contract tests: {error} "
            "Give its arguments defaults, or give it an example in EXAMPLES of tests/methods.py."
        )


def examples_in(*folders):
    """All examples of all classes of some folders."""
    kinds = [kind for folder in folders for kind in classes_in(folder).values()]
    return {name: make for kind in kinds for name, make in examples_of(kind).items()}


def by_steps(examples):
    """The examples of policies that decide while a training runs; they need `steps`."""
    return {n: make for n, make in examples.items() if "steps" in make(Circumstances()).needs}


def as_a_whole(examples):
    """The examples of policies that need no `steps`."""
    return {n: make for n, make in examples.items() if n not in by_steps({n: make})}
