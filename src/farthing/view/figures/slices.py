"""Model predictions along one parameter or over two; the others are as in the best trial."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.core.predict import predict_at, settled_belief
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial, one_thread
from farthing.errors import InvalidInput
from farthing.history import Trial
from farthing.space.space import Space
from farthing.view.figures.spending import cost_label
from farthing.view.primitives import (
    Axis,
    Band,
    Figure,
    Heat,
    Layer,
    Line,
    Panel,
    Points,
    named,
    thinned,
    visible,
)
from farthing.view.primitives import axis as axis_for

__all__ = ["ParameterGrid", "Slice", "grid", "slice_figure", "slice_of"]

Array = NDArray[np.float64]
LINE_POINTS, MAP_POINTS = 65, 33  # points of a line, and of each side of a map
Z_95 = 1.959963984540054
MAX_TRIALS = 400  # drawn as dots


class ParameterGrid(NamedTuple):
    """A grid of one parameter: coordinates in the unit cube, and positions on an axis."""

    name: str
    at: Array  # (k,) in the unit cube
    x: tuple[float, ...]
    axis: Axis


class Slice(NamedTuple):
    """Model predictions at grid points, in the user's units and direction.

    Attributes:
        value: mean, and lower and upper end of the 95 % interval; None: there is no model.
        cost: median, and lower and upper end of the 80 % interval, by resource.
    """

    value: tuple[Array, Array, Array] | None
    cost: dict[str, tuple[Array, Array, Array]]


def grid(space: Space, name: str, points: int = LINE_POINTS) -> ParameterGrid:
    """Make a grid of about `points` values of a parameter."""
    if name not in space.parameters:
        raise InvalidInput(f"Unknown parameter {name!r}; the parameters are {list(space.names)}.")
    j, parameter = space.names.index(name), space.parameters[name]
    levels, log = space.levels[j], bool(getattr(parameter, "log", False))
    at = np.linspace(0.0, 1.0, points) if levels is None else levels
    at = at[thinned(len(at), most=points)]
    numbers = space.along(name, at)
    if np.isfinite(numbers).all():
        x = numbers.tolist()
        return ParameterGrid(name, at, tuple(x), axis_for(visible(name, 40), x, log=log))
    options = [_value_at(space, name, j, place) for place in at]
    return ParameterGrid(
        name, at, tuple(map(float, range(len(at)))), named(visible(name, 40), options)
    )


def _value_at(space: Space, name: str, j: int, place: float) -> str:
    parameter = space.parameters[name]
    values: Sequence[Any] = getattr(parameter, "options", getattr(parameter, "values", ()))
    levels = space.levels[j]
    assert levels is not None
    return visible(values[int(np.searchsorted(levels, place - 1e-12))], 30)


def slice_of(belief: Belief, X: Array) -> Slice:
    """Evaluate the models at points X (m, d)."""
    mean, std, quantiles, _ = predict_at(belief, X)
    value = None
    if mean is not None and std is not None:
        value = mean, mean - Z_95 * std, mean + Z_95 * std
    cost = {resource: (median, low, high) for resource, (low, median, high) in quantiles.items()}
    return Slice(value, cost)


def slice_figure(settings: Settings, state: State, *names: str) -> Figure:
    """Draw value and cost along one parameter or over two."""
    if not 1 <= len(names) <= 2:
        raise InvalidInput(f"slice{names}: got {len(names)} parameters, expected one or two.")
    title = f"Predictions along {visible(names[0], 40)}"
    title += f" and {visible(names[1], 40)}" if len(names) > 1 else ""
    sides = [
        grid(settings.space, name, LINE_POINTS if len(names) == 1 else MAP_POINTS) for name in names
    ]
    base = _base(settings, state, names)
    if base is None:
        why = "No trial with a value has " + " and ".join(visible(n, 40) for n in names)
        return Figure("slice", title, (), "", f"{why}.")
    with one_thread():
        belief = settled_belief(settings, state)
        X = _points(settings.space, base.x, sides)
        found = slice_of(belief, X)
    trials = [t for t in state.history.done if all(name in t.params for name in names)]
    trials = [trials[i] for i in thinned(len(trials), most=MAX_TRIALS)]
    draw = _lines if len(sides) == 1 else _maps
    panels = tuple(draw(settings, found, sides, trials))
    if not panels:
        return Figure("slice", title, (), "", "There is no model of the value or of a cost yet.")
    shown = "Bands are the 95 % interval of the value and the 80 % interval of the cost."
    if len(sides) == 2:
        shown = "Colours are the mean of the value and the median of the cost."
    caption = (
        f"The other parameters are as in trial {base.number}. {shown} Dots are trials; their other "
        "parameters may differ."
    )
    return Figure("slice", title, panels, caption)


def _base(settings: Settings, state: State, names: tuple[str, ...]) -> Trial | None:
    """The best trial that has these parameters."""
    best = best_trial(settings, state.history)
    if best is not None and all(name in best.params for name in names):
        return best
    trials = [t for t in state.history.done if all(name in t.params for name in names)]
    values = [settings.sign * t.value for t in trials if t.value is not None]
    return trials[int(np.argmin(values))] if values else None


def _points(space: Space, x: Array, sides: list[ParameterGrid]) -> Array:
    """The grid points (m, d); the first side varies fastest."""
    places = np.meshgrid(*(side.at for side in sides), indexing="xy")
    X = np.tile(x, (places[0].size, 1))
    for side, place in zip(sides, places, strict=True):
        X[:, space.names.index(side.name)] = place.ravel()
    # For a table, show predictions between its rows: the nearest row has other parameters too.
    return np.where(space.combined, X, space.snap(X))


def _kinds(found: Slice) -> Iterator[tuple[str | None, tuple[Array, Array, Array]]]:
    if found.value is not None:
        yield None, found.value
    yield from found.cost.items()


def _title(settings: Settings, resource: str | None) -> str:
    return visible(settings.metric, 40) if resource is None else cost_label(resource, "cost")


def _observed(trial: Trial, resource: str | None) -> float:
    observed = trial.value if resource is None else trial.cost.get(resource)
    return math.nan if observed is None else float(observed)


def _place(side: ParameterGrid, trial: Trial) -> float:
    value = trial.params[side.name]
    if not side.axis.names:
        return float(value)
    shown = visible(visible(value, 30), 40)
    return float(side.axis.names.index(shown)) if shown in side.axis.names else math.nan


def _lines(
    settings: Settings, found: Slice, sides: list[ParameterGrid], trials: list[Trial]
) -> Iterator[Panel]:
    (side,) = sides
    for resource, (middle, low, high) in _kinds(found):
        style = "best" if resource is None else "second"
        observed = [(_place(side, t), _observed(t, resource)) for t in trials]
        dots = [dot for dot in observed if all(map(math.isfinite, dot))]
        ends = _within([*middle, *(y for _, y in dots)], low, high)
        y = axis_for(_title(settings, resource), ends, log=None if resource else False,
                     resource=resource)  # fmt: skip
        layers: list[Layer] = []
        if dots:
            layers.append(_dots(dots, "other"))
        if side.axis.names:
            numbers = (tuple(part.tolist()) for part in (middle, low, high))
            mean, bottom, top = numbers
            layers.append(Points(side.x, mean, style, "prediction", bottom, top))
        else:
            layers.insert(0, Band(side.x, tuple(low.tolist()), tuple(high.tolist()), style))
            layers.append(Line(side.x, tuple(middle.tolist()), style, "prediction"))
        yield Panel(side.axis, y, tuple(layers))


def _dots(places: list[tuple[float, float]], style: str) -> Points:
    x, y = zip(*places, strict=True)
    return Points(x, y, style, "trials", size=0.8)


def _within(values: list[float], low: Array, high: Array) -> list[float]:
    """The values and the ends of the band, cut if the band is much wider than the values."""
    span = max(values) - min(values)
    margin = span if span > 0 else float(np.max(high - low))
    least, most = min(values) - margin, max(values) + margin
    return [*values, max(float(low.min()), least), min(float(high.max()), most)]


def _maps(
    settings: Settings, found: Slice, sides: list[ParameterGrid], trials: list[Trial]
) -> Iterator[Panel]:
    across, up = sides
    places = [(_place(across, t), _place(up, t)) for t in trials]
    dots = [place for place in places if all(map(math.isfinite, place))]
    for resource, (middle, _, _) in _kinds(found):
        rows = middle.reshape(len(up.x), len(across.x))
        log = resource is not None and bool(rows.max() > 10 * rows.min())
        z = tuple(tuple(row.tolist()) for row in rows)
        title = _title(settings, resource)
        layers: list[Layer] = [Heat(across.x, up.x, z, title, log)]
        if dots:
            layers.append(_dots(dots, "chosen"))
        yield Panel(across.axis, up.axis, tuple(layers), title=title)
