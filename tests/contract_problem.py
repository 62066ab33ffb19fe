"""The problems on which every policy and every rule is tested, and the methods themselves."""

from dataclasses import dataclass, field

import numpy as np
from methods import Circumstances, as_a_whole, classes_in, examples_in, examples_of

from farthing import Categorical, Float, Int, Optimizer, Ordinal, Space, policies, stopping

POLICIES = as_a_whole(examples_in(policies))  # the others: test_policies_by_steps.py


RULES = examples_in(stopping)


FIRST = [
    name
    for kind in classes_in(policies).values()
    if (name := next(iter(examples_of(kind)))) in POLICIES
]


PARAMETERS = {
    "continuous": {"a": Float(-3, 5), "b": Float(1e-4, 1, log=True), "c": Float(10, 12)},
    "mixed": {
        "a": Float(-3, 5),
        "b": Float(1e-4, 1, log=True),
        "k": Int(1, 6),
        "o": Ordinal([16, 64, 256], log=True),
        "s": Categorical(["u", "v", "w"]),
        "m": Float(2, 3, when={"s": "u"}),
    },
}


_rows = Space(PARAMETERS["mixed"])


ROWS = [_rows.decode(x) for x in _rows.sample(40, np.random.default_rng(5))]


def space_of(kind, *, permuted=False):
    """A space of that kind, its parameters in the usual or in another order."""
    parameters = PARAMETERS["mixed" if kind == "table" else kind]
    names = list(parameters)
    if permuted:
        names = names[::-1]
    if kind == "table":
        return Space.from_rows([{name: row.get(name) for name in names} for row in ROWS])
    return Space({name: parameters[name] for name in names})


def points_of(kind):
    if kind == "table":
        return ROWS[:12]
    space = space_of(kind)
    return [space.decode(x) for x in space.sample(12, np.random.default_rng(23))]


KINDS = ("continuous", "mixed", "table")


POINTS = {kind: points_of(kind) for kind in KINDS}


def value_of(p):
    """Away from zero, with its minimum inside."""
    value = 4 + (p["a"] - 1.5) ** 2 / 10 + (np.log10(p["b"]) + 1.3) ** 2
    value += np.sin(3 * p.get("c", 0.0)) + 0.1 * abs(p.get("k", 3) - 3)
    return float(
        value + {"u": 0, "v": 0.3, "w": 1}.get(p.get("s"), 0) + (p.get("m", 2.3) - 2.3) ** 2
    )


def cost_of(p):
    return float(5 * np.exp(0.4 * p["a"]) * (1 + 0.2 * p.get("k", 0)))


@dataclass(frozen=True)
class World:
    """The same problem in other words."""

    value: callable = value_of
    cost: callable = cost_of
    direction: str = "minimize"
    permuted: bool = False
    money: float = 1.0  # what a unit of cost has become
    unit: float = 1.0  # what a unit of value per unit of cost has become
    settings: dict = field(default_factory=dict)

    def line(self, value):
        """What a value has become: the line through two of them."""
        one, two = POINTS["mixed"][:2]
        slope = (self.value(one) - self.value(two)) / (value_of(one) - value_of(two))
        return self.value(one) + slope * (value - value_of(one))

    def made(self, name, kind):
        """A policy or a rule in the terms of this world."""
        given = Circumstances(tuple(POINTS[kind]), self.unit, self.line)
        return {**POLICIES, **RULES}[name](given)

    def optimizer(self, kind, policy, *, points=None, **settings):
        """With some evaluations made; `policy` is one, or the name of an example."""
        made = Optimizer(
            space_of(kind, permuted=self.permuted),
            budget=settings.pop("budget", 500.0 * self.money),
            policy=self.made(policy, kind) if isinstance(policy, str) else policy,
            direction=self.direction,
            **(self.settings | settings),
        )
        for p in POINTS[kind] if points is None else points:
            made.add(p, self.value(p), cost=self.cost(p))
        return made


AS_IT_IS = World()
