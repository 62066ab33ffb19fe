"""Convert distributions of Optuna to parameters, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial

from farthing.errors import InvalidInput
from farthing.integrations.optuna_conditions import When, conditions_of
from farthing.space.conditions import Range
from farthing.space.parameters import Categorical, Float, Int, Ordinal, Parameter
from farthing.space.space import Params, Space

__all__ = ["Translation", "distributions_of", "space_of"]


Array = NDArray[np.float64]


class Conversion(NamedTuple):
    """A parameter, and functions from values of Optuna to ours and back."""

    parameter: Parameter
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]


@dataclass(frozen=True)
class Translation:
    """A space, and the conversion of each parameter to Optuna and back.

    Attributes:
        space: our space.
        conversions: the conversions by name.
    """

    space: Space
    conversions: Mapping[str, Conversion]

    @classmethod
    def of(
        cls,
        distributions: Mapping[str, BaseDistribution],
        space: Space | None = None,
        trials: Sequence[FrozenTrial] = (),
    ) -> Translation | None:
        """The translation of what can be searched together; None if nothing can.

        Args:
            distributions: the distributions of Optuna.
            space: the space that the user gave, which may declare more, such as the effect of a
                parameter on the cost.
            trials: those that show when a parameter exists. What they do not explain is left out.
        """
        own = {} if space is None else space.parameters
        whens = conditions_of(trials, distributions)
        conversions = {}
        for name, distribution in distributions.items():
            if _is_conditional(own.get(name), space):
                whens[name] = {}  # by the user's own condition
            if whens[name] is not None and not distribution.single():
                with suppress(InvalidInput, OverflowError):  # too many values, or too close
                    conversions[name] = _conversion(distribution)
        while orphans := {
            n for n in conversions if not (whens[n] or {}).keys() <= conversions.keys()
        }:
            conversions = {n: each for n, each in conversions.items() if n not in orphans}
        if not conversions:
            return None
        parameters = {}
        for name, conversion in conversions.items():
            parameter, when = own.get(name, conversion.parameter), whens[name]
            if when:
                parameter = replace(parameter, when=_in_our_values(when, conversions))
            parameters[name] = parameter
        if space is not None and dict(space.parameters) == parameters:
            return cls(space, conversions)
        return cls(Space(parameters), conversions)

    def ours(self, params: Mapping[str, Any]) -> Params:
        """Parameters of Optuna as ours; those of other names are left out.

        Raises:
            InvalidInput: a value cannot be one of ours.
        """
        try:
            return {
                name: conversion.ours(params[name])
                for name, conversion in self.conversions.items()
                if name in params
            }
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise InvalidInput(f"{dict(params)!r} is outside of the space: {error}") from error

    def point(self, params: Mapping[str, Any]) -> Array:
        """The point of parameters of Optuna, without inactive ones.

        Raises:
            InvalidInput: a value is missing, or outside of the space.
        """
        ours = self.ours(params)
        if all(parameter.when is None for parameter in self.space.parameters.values()):
            return self.space.encode(ours)
        x = self.space.completed(ours, np.full(self.space.d, 0.5))
        if missing := self.space.decode(x).keys() - ours.keys():
            raise InvalidInput(f"{dict(params)!r} has no {', '.join(sorted(missing))}.")
        return x

    @property
    def signature(self) -> list[str]:
        """The names, with their conditions."""
        return [
            name if each.when is None else f"{name} when {dict(each.when)}"
            for name, each in self.space.parameters.items()
        ]

    def theirs(self, params: Mapping[str, Any]) -> Params:
        """Our parameters as those of Optuna."""
        return {name: self.conversions[name].theirs(value) for name, value in params.items()}


def space_of(study: optuna.Study) -> Space:
    """The space of the trials of an Optuna study.

    If the range of a parameter has changed, its lowest and highest bounds are used. A parameter
    that only some trials have gets the condition that explains it.

    Raises:
        InvalidInput: no trial has parameters, or nothing explains why only some trials have one.
    """
    tried = [t.distributions for t in study.get_trials(deepcopy=False) if t.state.is_finished()]
    tried = [distributions for distributions in tried if distributions]
    if not tried:
        raise InvalidInput(
            f"The Optuna study {study.study_name!r} has no trial with parameters. Give a space "
            "yourself."
        )
    names = {name: None for distributions in tried for name in distributions}
    hulls = {name: _hull([found[name] for found in tried if name in found]) for name in names}
    trials = study.get_trials(deepcopy=False)
    for name, when in conditions_of(trials, hulls).items():
        if when is None:
            count = sum(name in distributions for distributions in tried)
            raise InvalidInput(
                f"Parameter {name!r} is in {count} of {len(tried)} trials of the Optuna study, and "
                "no value of another parameter explains it. Give a space with the condition, such "
                "as Float(..., when={...})."
            )
    translation = Translation.of(hulls, trials=trials)
    if translation is None:
        raise InvalidInput("No parameter of the Optuna study has more than one value.")
    return translation.space


def distributions_of(space: Space) -> dict[str, BaseDistribution]:
    """A space as distributions of Optuna; an Ordinal becomes a categorical distribution."""
    return {name: _distribution(parameter) for name, parameter in space.parameters.items()}


def _is_conditional(parameter: Parameter | None, space: Space | None) -> bool:
    """Whether the user said when this parameter exists."""
    if parameter is None or space is None:
        return False
    return parameter.when is not None or space.allowed is not None


def _ancestors(name: str, whens: Mapping[str, When | None]) -> Iterable[str]:
    for parent in whens[name] or ():
        yield from (parent, *_ancestors(parent, whens))


def _in_our_values(when: When, conversions: Mapping[str, Conversion]) -> dict[str, Any]:
    ours: dict[str, Any] = {}
    for parent, given in when.items():
        convert = conversions[parent].ours
        if isinstance(given, Range):
            bounds = (None if b is None else convert(b) for b in (given.low, given.high))
            ours[parent] = Range(*bounds)
        else:
            ours[parent] = [convert(value) for value in given]
    return ours


def _distribution(parameter: Parameter) -> BaseDistribution:
    match parameter:
        case Float():
            low, high = parameter.low, parameter.high
            return FloatDistribution(low, high, log=parameter.log, step=parameter.step)
        case Int():
            low, high = parameter.low, parameter.high
            return IntDistribution(low, high, log=parameter.log, step=parameter.step or 1)
        case Ordinal():
            return CategoricalDistribution(list(map(_choice, parameter.values)))
        case Categorical():
            return CategoricalDistribution(list(map(_choice, parameter.options)))


def _choice(option: Any) -> Any:
    """A value that Optuna can store: a plain value, or else its text."""
    return option if isinstance(option, str | int | float | None) else str(option)


def _conversion(distribution: BaseDistribution) -> Conversion:
    if isinstance(distribution, CategoricalDistribution):
        return _categorical(distribution)
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise InvalidInput(
            f"{distribution!r}: expected a float, an int or a categorical distribution."
        )
    low, high, step = distribution.low, distribution.high, distribution.step
    if step is None:
        line = Float(low, high, log=distribution.log)
        return Conversion(line, float, lambda value: min(max(float(value), low), high))
    stepped: Float | Int
    try:
        if isinstance(distribution, IntDistribution):
            larger = None if step == 1 else int(step)
            stepped = Int(int(low), int(high), log=distribution.log, step=larger)
        else:
            stepped = Float(low, high, step=step)
    except InvalidInput:  # too many values
        return _rounded(distribution, step)
    if stepped.step is None:
        return Conversion(stepped, int, int)
    grid = Space({"value": stepped})

    def nearest(value: float) -> Any:
        return grid.decode([(value - low) / (high - low)])["value"]

    return Conversion(stepped, nearest, nearest)


def _rounded(distribution: FloatDistribution | IntDistribution, step: float) -> Conversion:
    """A Float that is rounded to low + i step."""
    low, high = distribution.low, distribution.high
    kind = int if isinstance(distribution, IntDistribution) else float

    def nearest(value: float) -> Any:
        return kind(min(max(low + round((value - low) / step) * step, low), high))

    return Conversion(Float(float(low), float(high), log=distribution.log), float, nearest)


def _categorical(distribution: CategoricalDistribution) -> Conversion:
    choices = distribution.choices
    try:
        return Conversion(Categorical(choices), _same, _same)
    except InvalidInput:  # 1 beside True, a NaN or a list: search by index
        indices = Categorical(range(len(choices)))
        return Conversion(
            indices, lambda value: int(distribution.to_internal_repr(value)), choices.__getitem__
        )


def _same(value: Any) -> Any:
    return value


def _hull(distributions: Iterable[BaseDistribution]) -> BaseDistribution:
    """The last distribution, with the range of all of them, and with its step if they share it."""
    *_, last = found = list(distributions)
    if not isinstance(last, FloatDistribution | IntDistribution):
        return last
    ranges = [d for d in found if isinstance(d, FloatDistribution | IntDistribution)]
    low, high = min(d.low for d in ranges), max(d.high for d in ranges)
    step = last.step if all(_on_grid(d, low, last.step) for d in ranges) else None
    if isinstance(last, FloatDistribution):
        return FloatDistribution(low, high, log=last.log, step=step)
    return IntDistribution(int(low), int(high), log=last.log, step=int(step or 1))


def _on_grid(
    distribution: FloatDistribution | IntDistribution, low: float, step: float | None
) -> bool:
    """Whether its values are low + i step."""
    if step is None or distribution.step != step:
        return False
    steps = (distribution.low - low) / step
    return abs(steps - round(steps)) < 1e-8
