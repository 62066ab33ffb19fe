"""The search space: parameters, their conditions, and their map to the unit cube."""

from farthing.space.conditions import at_least, at_most, between
from farthing.space.parameters import Bool, Categorical, Float, Int, Kind, Ordinal
from farthing.space.space import Space

__all__ = [
    "Bool",
    "Categorical",
    "Float",
    "Int",
    "Kind",
    "Ordinal",
    "Space",
    "at_least",
    "at_most",
    "between",
]
