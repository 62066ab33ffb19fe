"""Spaces for scikit-learn: lists of values, distributions, and parameters of Farthing.

A list of spaces is one space with a further parameter, which selects a space. A name that has
different values in two of the spaces becomes two parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from farthing.errors import InvalidInput
from farthing.space.parameters import Categorical, Float, Int, Ordinal, Parameter, plain
from farthing.space.space import Params, Space
from farthing.space.table import infer

__all__ = ["Candidates"]

TAIL = 1e-3  # probability on either side that is left out of an unbounded distribution
DRAWS = 1000  # from an object that can only draw values
MOST_OPTIONS = 64  # values of a discrete distribution that are listed; more are a range
SELECTOR = "space"  # the name of the parameter that selects one of several spaces
EXPECTED = (
    "expected a list of values, a distribution such as loguniform(1e-3, 1e3), or a parameter of "
    "Farthing such as Float(1e-3, 1e3, log=True)"
)


class Coding(NamedTuple):
    """How the value of a parameter becomes an argument of an estimator, and back."""

    name: str
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Candidates:
    """A space, and how its values become arguments of an estimator.

    Attributes:
        space: the space to search.
        codings: by the name of a parameter. A parameter without one is an argument as it is.
        names: the arguments of each space of a list, and the parameters that they are.
    """

    space: Space
    codings: Mapping[str, Coding] = field(default_factory=dict)
    names: Sequence[Mapping[str, str]] = ()

    @classmethod
    def of(cls, given: Any) -> Candidates:
        """The candidates of the argument `space`."""
        if isinstance(given, Space):
            return cls(given)
        if isinstance(given, Mapping):
            given = [given]
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise InvalidInput(f"space={given!r}: expected {{name: values}}; for each, {EXPECTED}.")
        found = [_parameters(each) for each in given]
        if len(found) == 1:
            parameters = {name: parameter for name, (parameter, _) in found[0].items()}
            return cls(Space(parameters), {name: coding for name, (_, coding) in found[0].items()})
        return cls._joined(found)

    @classmethod
    def _joined(cls, found: list[dict[str, tuple[Parameter, Coding]]]) -> Candidates:
        selector = SELECTOR
        while any(selector in each for each in found):
            selector += "_"
        parameters: dict[str, Parameter] = {selector: Categorical(range(len(found)))}
        codings, names = dict[str, Coding](), []
        for i, each in enumerate(found):
            own = {name: name if _is_shared(name, found) else f"{name} [{i}]" for name in each}
            for name, (parameter, coding) in each.items():
                when = {own.get(k, k): value for k, value in (parameter.when or {}).items()}
                if own[name] != name:
                    when[selector] = i
                parameters[own[name]] = replace(parameter, when=when or None)
                codings[own[name]] = coding
            names.append(own)
        return cls(Space(parameters), codings, tuple(names))

    def params(self, chosen: Mapping[str, Any]) -> Params:
        """The arguments of an estimator."""
        if not self.codings:
            return dict(chosen)
        return {
            self.codings[name].name: self.codings[name].decode(value)
            for name, value in chosen.items()
            if name in self.codings
        }

    def chosen(self, start: Any) -> Any:
        """The configurations that the user wants to be evaluated first, as points of the space."""
        if start is None or not self.codings:
            return start
        return [self._encoded(each) for each in ([start] if isinstance(start, Mapping) else start)]

    def _encoded(self, params: Any) -> Any:
        if not isinstance(params, Mapping):
            return params
        if not self.names:
            return self._translated(params, {})
        for i, own in enumerate(self.names):
            if set(params) <= set(own):
                try:
                    chosen = {self.space.names[0]: i, **self._translated(params, own)}
                    self.space.completed(chosen, np.full(self.space.d, 0.5))
                except InvalidInput:
                    continue
                return chosen
        raise InvalidInput(f"start={dict(params)!r}: no space of the list has these values.")

    def _translated(self, params: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
        """Arguments as values of parameters, whose names are `own`."""
        chosen = {}
        for name, value in params.items():
            parameter = own.get(name, name)
            coding = self.codings.get(parameter)
            chosen[parameter] = value if coding is None else coding.encode(value)
        return chosen


def _is_shared(name: str, found: list[dict[str, tuple[Parameter, Coding]]]) -> bool:
    """Whether a name has the same plain values in all spaces of a list."""
    if not all(name in each for each in found):
        return False
    first = found[0][name][0]
    return first.when is None and all(
        each[name][0] == first and each[name][1].decode is _same for each in found
    )


def _parameters(given: Any) -> dict[str, tuple[Parameter, Coding]]:
    if not isinstance(given, Mapping) or not given:
        raise InvalidInput(f"space={given!r}: expected {{name: values}}; for each, {EXPECTED}.")
    found = {}
    for name, values in given.items():
        if not isinstance(name, str):
            raise InvalidInput(f"space={given!r}: expected names of parameters, not {name!r}.")
        parameter, decode, encode = _parameter(name, values)
        found[name] = parameter, Coding(name, decode, encode)
    return found


_Coded = tuple[Parameter, Callable[[Any], Any], Callable[[Any], Any]]


def _parameter(name: str, values: Any) -> _Coded:
    if isinstance(values, Parameter):
        return values, _same, _same
    if hasattr(values, "rvs"):
        return _of_distribution(name, values)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"space[{name!r}]={values!r}: {EXPECTED}.")
    return _of_list(name, [plain(value) for value in values])


def _of_list(name: str, options: list[Any]) -> _Coded:
    if not options:
        raise InvalidInput(f"space[{name!r}] is empty: {EXPECTED}.")
    try:
        found = infer(name, options)
    except (TypeError, InvalidInput):  # lists, arrays and NaN are searched by index
        found = None
    if isinstance(found, Ordinal | Categorical) and _is_plain(options):
        return found, _same, _same

    def position(value: Any) -> int:
        for i, option in enumerate(options):
            if option is value or (type(option) is type(value) and repr(option) == repr(value)):
                return i
        raise InvalidInput(f"start: {name}={value!r} is none of the listed values.")

    return Categorical(range(len(options))), options.__getitem__, position


def _is_plain(options: Iterable[Any]) -> bool:
    """Whether all values are plain; other objects are searched by index."""
    return all(isinstance(each, str | int | float | tuple | None) for each in options)


def _of_distribution(name: str, values: Any) -> _Coded:
    """A uniform or log-uniform distribution as a range; any other by its quantiles."""
    if not hasattr(values, "ppf") or not hasattr(values, "support"):
        return _of_draws(name, values)
    kind = getattr(getattr(values, "dist", values), "name", "")
    low, high = (float(end) for end in values.support())
    if kind == "randint" and low < high:
        return Int(int(low), int(high)), _same, _same
    if hasattr(values, "pmf"):
        return _of_discrete(name, values)
    if kind in ("uniform", "loguniform", "reciprocal") and low < high:
        return Float(low, high, log=kind != "uniform"), _same, _same

    def at(quantile: float) -> Any:
        return plain(values.ppf(quantile))

    def quantile(value: Any) -> float:
        return float(np.clip(values.cdf(value), TAIL, 1 - TAIL))

    return Float(TAIL, 1 - TAIL), at, quantile


def _of_discrete(name: str, values: Any) -> _Coded:
    """The values of a discrete distribution as a list, or as a range if there are many."""
    found = np.unique(values.ppf(np.linspace(TAIL, 1 - TAIL, DRAWS + 1)))
    if (found != np.round(found)).any():
        return _of_list(name, found.tolist())
    if len(found) > MOST_OPTIONS:
        return Int(int(found[0]), int(found[-1])), _same, _same
    return _of_list(name, [int(each) for each in found])


def _of_draws(name: str, values: Any) -> _Coded:
    """Draws from an object that has only `rvs`: numbers by their order, other values as a list."""
    rng = check_random_state(0)
    try:
        drawn = [plain(values.rvs(random_state=rng)) for _ in range(DRAWS)]
    except TypeError as error:
        raise InvalidInput(
            f"space[{name!r}]={values!r}: its method rvs(random_state=...) failed: {error}"
        ) from error
    numbers = all(isinstance(each, int | float) and np.isfinite(each) for each in drawn)
    distinct = (
        sorted(set(drawn)) if numbers else list({repr(each): each for each in drawn}.values())
    )
    if not numbers or len(distinct) <= MOST_OPTIONS:
        return _of_list(name, distinct)
    drawn.sort()

    def at(quantile: float) -> Any:
        return drawn[min(int(quantile * DRAWS), DRAWS - 1)]

    def quantile(value: Any) -> float:
        return float(np.clip(np.searchsorted(drawn, value) / DRAWS, TAIL, 1 - TAIL))

    return Float(TAIL, 1 - TAIL), at, quantile
