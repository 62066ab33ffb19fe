"""Spaces for scikit-learn: lists of values, scipy distributions, and parameters of Farthing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from farthing.errors import InvalidInput
from farthing.space.parameters import Categorical, Float, Int, Ordinal, Parameter, plain
from farthing.space.space import Params, Space
from farthing.space.table import infer

__all__ = ["Candidates"]

TAIL = 1e-3  # probability on either side that is left out of an unbounded distribution
EXPECTED = (
    "expected a list of values, a scipy distribution such as loguniform(1e-3, 1e3), or a parameter "
    "of Farthing such as Float(1e-3, 1e3, log=True)"
)

Decoder = Callable[[Any], Any]


@dataclass(frozen=True)
class Candidates:
    """A space, and how its values become arguments of an estimator.

    Attributes:
        space: the space to search.
        decoders: functions by name, for values that are indices of objects, or quantiles.
    """

    space: Space
    decoders: Mapping[str, Decoder]

    @classmethod
    def of(cls, given: Space | Mapping[str, Any]) -> Candidates:
        """The candidates of the argument `space`."""
        if isinstance(given, Space):
            return cls(given, {})
        if not isinstance(given, Mapping) or not given:
            raise InvalidInput(f"space={given!r}: expected {{name: values}}; for each, {EXPECTED}.")
        parameters, decoders = dict[str, Parameter](), dict[str, Decoder]()
        for name, values in given.items():
            parameters[name], decoder = _parameter(name, values)
            if decoder is not None:
                decoders[name] = decoder
        return cls(Space(parameters), decoders)

    def params(self, chosen: Mapping[str, Any]) -> Params:
        """The arguments of an estimator."""
        return {
            name: self.decoders[name](value) if name in self.decoders else value
            for name, value in chosen.items()
        }


def _parameter(name: str, values: Any) -> tuple[Parameter, Decoder | None]:
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
    except (TypeError, InvalidInput):  # lists, arrays and NaN are searched by index
        found = None
    if isinstance(found, Ordinal | Categorical) and _is_plain(options):
        return found, None
    return Categorical(range(len(options))), options.__getitem__


def _is_plain(options: Iterable[Any]) -> bool:
    """Whether all values are plain; other objects are searched by index."""
    return all(isinstance(each, str | int | float | tuple | None) for each in options)


def _of_distribution(values: Any) -> tuple[Parameter, Decoder | None]:
    """A uniform or log-uniform distribution as a range; any other by its quantiles."""
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
