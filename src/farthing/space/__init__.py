"""The search space: parameters, and their map to the unit cube."""

from farthing.space.parameters import Categorical, Float, Int, Kind, Ordinal
from farthing.space.space import Space

__all__ = ["Categorical", "Float", "Int", "Kind", "Ordinal", "Space"]
