"""What scikit-learn's searches take as a space: lists, scipy's distributions; and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from farthing.errors import InvalidInput
from farthing.space.parameters import Categorical, Float, Int, Ordinal, Parameter, plain
from farthing.space.space import Params, Space
from farthing.space.table import infer

__all__ = ["Candidates"]

TAIL = 1e-3  # of a distribution without bounds, that is left out on either side
EXPECTED = (
    "expected a list of values, a scipy distribution such as loguniform(1e-3, 1e3), or a parameter "
    "of farthing's such as Float(1e-3, 1e3, log=True)"
)

Meaning = Callable[[Any], Any]


@dataclass(frozen=True)
class Candidates:
    """A space, and what its values stand for where they are not themselves.

    Attributes:
        space: of values that can be told apart.
        meanings: by name, of those that stand for something else: objects, quantiles.
    """

    space: Space
    meanings: Mapping[str, Meaning]

    @classmethod
    def of(cls, given: Space | Mapping[str, Any]) -> Candidates:
        """Of what a user gives."""
        if isinstance(given, Space):
            return cls(given, {})
        if not isinstance(given, Mapping) or not given:
            raise InvalidInput(f"space={given!r}: expected {{name: values}}; for each, {EXPECTED}.")
        parameters, meanings = dict[str, Parameter](), dict[str, Meaning]()
        for name, values in given.items():
            parameters[name], meaning = _parameter(name, values)
            if meaning is not None:
                meanings[name] = meaning
        return cls(Space(parameters), meanings)

    def params(self, chosen: Mapping[str, Any]) -> Params:
        """What an estimator is given."""
        return {
            name: self.meanings[name](value) if name in self.meanings else value
            for name, value in chosen.items()
        }


def _parameter(name: str, values: Any) -> tuple[Parameter, Meaning | None]:
    if isinstance(values, Parameter):
        return values, None
    if hasattr(values, "ppf") and hasattr(values, "dist"):
        return _of_distribution(values)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"space[{name!r}]={values!r}: {EXPECTED}.")
    options = [plain(value) for value in values]
    if not options:
        raise InvalidInput(f"space[{name!r}] is empty: {EXPECTED}.")
    try:
        found = infer(name, options)
    except (TypeError, InvalidInput):  # lists, arrays, a NaN: by their place
        found = None
    if isinstance(found, Ordinal | Categorical) and _is_plain(options):
        return found, None
    return Categorical(range(len(options))), options.__getitem__


def _is_plain(options: Iterable[Any]) -> bool:
    """Whether values are the same whenever they look so; objects are told apart by their place."""
    return all(isinstance(each, str | int | float | tuple | None) for each in options)


def _of_distribution(values: Any) -> tuple[Parameter, Meaning | None]:
    """Uniform and log-uniform ones as ranges; any other by its quantiles."""
    name = getattr(values.dist, "name", "")
    low, high = (float(end) for end in values.support())
    if name == "uniform":
        return Float(low, high), None
    if name in ("loguniform", "reciprocal"):
        return Float(low, high, log=True), None
    if name == "randint":
        return Int(int(low), int(high)), None

    def at(quantile: float) -> Any:
        return plain(values.ppf(quantile))

    return Float(TAIL, 1 - TAIL), at
