"""Optuna's distributions as parameters, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from farthing.errors import InvalidInput
from farthing.space.parameters import Categorical, Float, Int, Ordinal, Parameter
from farthing.space.space import Params, Space

__all__ = ["Translation", "distributions_of", "space_of"]

MOST_STEPS = 10_000  # values on a grid; a longer one is a Float that is rounded


class Word(NamedTuple):
    """One parameter in both languages: from Optuna's values to ours, and back."""

    parameter: Parameter
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]


@dataclass(frozen=True)
class Translation:
    """A space in both languages.

    Attributes:
        space: ours.
        words: by name.
    """

    space: Space
    words: Mapping[str, Word]

    @classmethod
    def of(
        cls, distributions: Mapping[str, BaseDistribution], space: Space | None = None
    ) -> Translation | None:
        """Of what can be searched together; None if nothing can.

        Args:
            distributions: Optuna's.
            space: ours, where it was given: it may know more, such as what makes things dearer.
        """
        words = {}
        for name, distribution in distributions.items():
            if not distribution.single():
                try:
                    words[name] = _word(distribution)
                except InvalidInput:  # more values, or closer ones, than a cube can tell apart
                    continue
        if space is not None and set(space.names) == set(words):
            return cls(space, words)
        if not words:
            return None
        return cls(Space({name: word.parameter for name, word in words.items()}), words)

    def ours(self, params: Mapping[str, Any]) -> Params:
        """Our params of Optuna's; what is not of this space is left out."""
        return {
            name: word.ours(params[name]) for name, word in self.words.items() if name in params
        }

    def theirs(self, params: Mapping[str, Any]) -> Params:
        """Optuna's params of ours."""
        return {name: self.words[name].theirs(value) for name, value in params.items()}


def space_of(study: optuna.Study) -> Space:
    """The space of what an Optuna study has evaluated.

    A range that has changed becomes the range from its lowest to its highest bound.

    Raises:
        InvalidInput: there is nothing to go by, or a parameter is only there in some trials.
    """
    seen = [t.distributions for t in study.get_trials(deepcopy=False) if t.state.is_finished()]
    seen = [distributions for distributions in seen if distributions]
    if not seen:
        raise InvalidInput(
            f"The Optuna study {study.study_name!r} has no trial with parameters. Give a space."
        )
    names = {name: None for distributions in seen for name in distributions}
    for name in names:
        there = sum(name in distributions for distributions in seen)
        if there < len(seen):
            raise InvalidInput(
                f"Parameter {name!r} is in {there} of {len(seen)} trials of the Optuna study. Give "
                f"a space that says when it is there, such as Float(..., when={{...}})."
            )
    hulls = {name: _hull([distributions[name] for distributions in seen]) for name in names}
    translation = Translation.of({n: d for n, d in hulls.items() if not d.single()})
    if translation is None:
        raise InvalidInput("No parameter of the Optuna study has more than one value.")
    return translation.space


def distributions_of(space: Space) -> dict[str, BaseDistribution]:
    """A space as Optuna's distributions; what has an order but is no range becomes a choice."""
    return {name: _distribution(parameter) for name, parameter in space.parameters.items()}


def _distribution(parameter: Parameter) -> BaseDistribution:
    match parameter:
        case Float():
            return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
        case Int():
            return IntDistribution(parameter.low, parameter.high, log=parameter.log)
        case Ordinal():
            return CategoricalDistribution(list(map(_choice, parameter.values)))
        case Categorical():
            return CategoricalDistribution(list(map(_choice, parameter.options)))


def _choice(option: Any) -> Any:
    """What Optuna can store: a plain value, or else its text."""
    return option if isinstance(option, str | int | float | None) else str(option)


def _word(distribution: BaseDistribution) -> Word:
    if isinstance(distribution, CategoricalDistribution):
        return _categorical(distribution)
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise InvalidInput(f"{distribution!r}: expected a float, an int or a category.")
    low, high, step = distribution.low, distribution.high, distribution.step
    if isinstance(distribution, IntDistribution) and step == 1:
        try:
            whole = Int(int(low), int(high), log=distribution.log)
        except InvalidInput:  # too many of them
            return _grid(distribution, 1)
        return Word(whole, int, int)
    if step is None:
        line = Float(low, high, log=distribution.log)
        return Word(line, float, lambda value: min(max(float(value), low), high))
    return _grid(distribution, step)


def _grid(distribution: FloatDistribution | IntDistribution, step: float) -> Word:
    """Values one step apart; optuna knows them as low + i step, in its own rounding."""
    low, high = distribution.low, distribution.high
    kind = int if isinstance(distribution, IntDistribution) else float
    last = round((high - low) / step)

    def at(i: int) -> Any:
        return kind(min(low + i * step, high))

    def nearest(value: float) -> Any:
        return at(min(max(round((value - low) / step), 0), last))

    if last >= MOST_STEPS:
        return Word(Float(float(low), float(high), log=distribution.log), float, nearest)
    return Word(Ordinal([at(i) for i in range(last + 1)]), nearest, nearest)


def _categorical(distribution: CategoricalDistribution) -> Word:
    choices = distribution.choices
    try:
        return Word(Categorical(choices), _same, _same)
    except InvalidInput:  # 1 beside True, a NaN, a list: by their place
        places = Categorical(range(len(choices)))
        return Word(
            places, lambda value: int(distribution.to_internal_repr(value)), choices.__getitem__
        )


def _same(value: Any) -> Any:
    return value


def _hull(distributions: Iterable[BaseDistribution]) -> BaseDistribution:
    """The last of them, over the ranges of all."""
    *_, last = found = list(distributions)
    if isinstance(last, CategoricalDistribution):
        return last
    ranges = [d for d in found if isinstance(d, FloatDistribution | IntDistribution)]
    low, high = min(d.low for d in ranges), max(d.high for d in ranges)
    if isinstance(last, FloatDistribution):
        return FloatDistribution(low, high, log=last.log)
    assert isinstance(last, IntDistribution)
    return IntDistribution(int(low), int(high), log=last.log)
