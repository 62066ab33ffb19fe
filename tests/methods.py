"""Every policy and every stopping rule of the folders, made: with its defaults, or as an example.

The folder is the list: a new file there is found here, and by every contract test with it. Only
what cannot be made without arguments, or is to be tested with others too, has examples below.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from farthing.errors import InvalidInput
from farthing.policies import EI, CArBO, CostEffectiveDesign, EIPerCost, Gittins, Rollout, StartWith
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
    unit: float = 1.0  # what a unit of value per unit of cost has become
    value: Callable = float  # what a value has become

    @property
    def scale(self):
        """What a difference of one has become, as a distance."""
        return abs(self.value(1.0) - self.value(0.0))


# {class: {label: how it is made}}. A rule's label says whether it stops the contract's problem.
EXAMPLES = {
    "StartWith": {"": lambda c: StartWith(c.points[:1], then=EI())},
    "CArBO": {"": lambda c: CArBO(), "cooling": lambda c: CArBO(share=0)},
    "CostEffectiveDesign": {
        "": lambda c: CostEffectiveDesign(),
        "greedy": lambda c: CostEffectiveDesign(greedy=True),
    },
    "EIPerCost": {"": lambda c: EIPerCost(), "alpha 0.3": lambda c: EIPerCost(alpha=0.3)},
    "Gittins": {"": lambda c: Gittins(), "worth 0.02": lambda c: Gittins(worth=0.02 * c.unit)},
    "Rollout": {"": lambda c: Rollout(), "horizon 4": lambda c: Rollout(horizon=4)},
    "MaxTrials": {"stops": lambda c: MaxTrials(12), "goes on": lambda c: MaxTrials(13)},
    "Target": {
        "stops": lambda c: Target(c.value(9.0)),
        "goes on": lambda c: Target(c.value(1.0)),
    },
    "NoImprovement": {"stops": lambda c: NoImprovement(3), "goes on": lambda c: NoImprovement(12)},
    "SmallImprovement": {
        "stops": lambda c: SmallImprovement(share=9.0),
        "goes on": lambda c: SmallImprovement(share=1e-9, window=12),
    },
    "RegretGap": {
        "stops": lambda c: RegretGap(within=100 * c.scale),
        "goes on": lambda c: RegretGap(within=1e-3 * c.scale),
    },
    "ProbableRegret": {
        "stops": lambda c: ProbableRegret(within=100 * c.scale, delta=0.5),
        "goes on": lambda c: ProbableRegret(within=1e-3 * c.scale),
    },
    "NotWorthIt": {
        "stops": lambda c: NotWorthIt(worth=1e3 * c.unit),
        "goes on": lambda c: NotWorthIt(worth=1e-6 * c.unit),
    },
}


def classes_in(folder):
    """The one class of every file of a folder, by its name."""
    found = {}
    for file in pkgutil.iter_modules(folder.__path__):
        module = importlib.import_module(f"{folder.__name__}.{file.name}")
        if file.name != "combine":
            (name,) = module.__all__
            found[name] = getattr(module, name)
    return found


def examples_of(kind):
    """{name of the example: how it is made in some circumstances}."""
    name = kind.__name__
    labelled = EXAMPLES.get(name, {"": lambda c: _with_defaults(kind)})
    return {f"{name}, {label}" if label else name: make for label, make in labelled.items()}


def _with_defaults(kind):
    try:
        return kind()
    except (TypeError, InvalidInput) as error:
        pytest.fail(
            f"{kind.__name__} cannot be made for the contract tests: {error} "
            "Give its arguments defaults, or give it an example in EXAMPLES of tests/methods.py."
        )


def examples_in(*folders):
    """Every example of every class of some folders."""
    kinds = [kind for folder in folders for kind in classes_in(folder).values()]
    return {name: make for kind in kinds for name, make in examples_of(kind).items()}
