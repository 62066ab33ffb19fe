"""Earlier studies as sources of a sampler: those of `farthing.Optimizer`, and studies of Optuna."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import optuna

from farthing.core.settings import Settings
from farthing.data.sources import Place, read_sources
from farthing.earlier import Source
from farthing.errors import InvalidInput
from farthing.integrations.optuna_space import Translation
from farthing.integrations.optuna_state import cost_of, outcome_of

__all__ = ["sources_of"]


def sources_of(
    given: Any, settings: Settings, translation: Translation | None
) -> tuple[Source, ...]:
    """The sources that a user gives."""
    if isinstance(given, Mapping):
        named = given
    else:
        items = given if isinstance(given, list | tuple) else [given]
        studies = [each for each in items if isinstance(each, optuna.Study)]
        if not studies:
            return read_sources(given, settings, Place())
        # A list with a study has a name for each of its items.
        named = {getattr(each, "study_name", f"source {i}"): each for i, each in enumerate(items)}
    rows = {name: _rows(each, settings, translation) for name, each in named.items()}
    return read_sources(rows, settings, Place())


def _rows(item: Any, settings: Settings, translation: Translation | None) -> Any:
    """The finished trials of a study of Optuna as rows of a table; anything else as it is."""
    if not isinstance(item, optuna.Study):
        return item
    if len(item.directions) > 1:
        raise InvalidInput(
            f"learn_from: the Optuna study {item.study_name!r} has {len(item.directions)} "
            "objectives. Expected one objective."
        )
    sign = -1.0 if item.direction.name.lower() not in (settings.direction, "not_set") else 1.0
    rows = []
    for trial in item.get_trials(deepcopy=False):
        state, value = outcome_of(trial)
        params = trial.params if translation is None else _ours(trial.params, translation)
        row = {"params": params, "state": state, "cost": cost_of(trial, settings)}
        rows.append(row if value is None else {**row, "value": sign * value})
    return rows


def _ours(params: Mapping[str, Any], translation: Translation) -> dict[str, Any]:
    """Parameters of Optuna as ours, and as they are if they are none of ours."""
    found = dict(params)
    for name, value in params.items():
        with suppress(InvalidInput):
            found |= translation.ours({name: value})
    return found
