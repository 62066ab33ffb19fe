"""Earlier searches of scikit-learn as sources of `learn_from`.

Any fitted search counts, such as a GridSearchCV, or its `cv_results_`. Its parameters are matched
as arguments of the estimator, so a list of values may have another order or other members now.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from farthing.core.settings import Settings
from farthing.data.sources import Place, read_sources
from farthing.earlier import Source
from farthing.errors import InvalidInput
from farthing.integrations.sklearn_space import Candidates

__all__ = ["sources_of"]


def sources_of(
    given: Any, candidates: Candidates, settings: Settings, metric: str
) -> tuple[Source, ...]:
    """The sources that a user gives: those of `read_sources`, and searches.

    Args:
        metric: the score that is maximised: of several, its name; "score" if there is one.
    """
    if isinstance(given, list | tuple):
        given = [_rows(each, candidates, metric) for each in given]
    elif isinstance(given, Mapping) and not _is_table(given):
        given = {name: _rows(each, candidates, metric) for name, each in given.items()}
    else:
        given = _rows(given, candidates, metric)
    return read_sources(given, settings, Place())


def _is_table(item: Any) -> bool:
    return isinstance(item, Mapping) and {"params", "mean_fit_time"} <= item.keys()


def _rows(item: Any, candidates: Candidates, metric: str) -> Any:
    """The candidates of a search as rows of a table; anything else as it is."""
    table = getattr(item, "cv_results_", item)
    if not _is_table(table):
        if hasattr(item, "get_params"):
            raise InvalidInput(f"learn_from={item!r}: it is not fitted. Give a fitted search.")
        return item
    scores = [name for name in (f"mean_test_{metric}", "mean_test_score") if name in table]
    if not scores:
        known = ", ".join(name for name in table if name.startswith("mean_test_"))
        raise InvalidInput(
            f"learn_from: an earlier search has no score {metric!r}; it has {known}. Give "
            f"refit={metric!r} a score that both have, or leave the search out."
        )
    folds = sum(name.startswith("split") and name.endswith(scores[0][5:]) for name in table)
    seconds = (np.asarray(table["mean_fit_time"]) + table["mean_score_time"]) * folds
    costs, states = table.get("cost", seconds), table.get("state")
    return [
        {
            "params": _arguments(params, candidates),
            "value": float(table[scores[0]][i]),
            "cost": float(costs[i]),
            **({} if states is None else {"state": str(states[i])}),
        }
        for i, params in enumerate(table["params"])
    ]


def _arguments(params: Mapping[str, Any], candidates: Candidates) -> dict[str, Any]:
    """Arguments of the estimator as values of our parameters, without those that are none."""
    if candidates.names:  # several spaces: all arguments together decide which one it is
        with suppress(InvalidInput):
            return dict(candidates.chosen(params)[0])
        return {}
    found: dict[str, Any] = {}
    for name, value in params.items():
        with suppress(InvalidInput):
            found |= candidates.chosen({name: value})[0] if candidates.codings else {name: value}
    return found
