"""Trials as rows, both ways: data frames, CSV, JSON, lists of dicts.

Written, a row has the number and state of a trial, a column `param_<name>` for each parameter, the
value, `cost_<resource>`, `censored` (1: the cost is a lower bound), `predicted_<resource>`, and how
it was run. JSON keeps params and costs as objects.

Read, a row has a column for each parameter, under its own name or as `param_<name>`; the value
under `value`; costs under `cost` (the primary resource) or `cost_<resource>`; perhaps a `state`, an
`error`, `censored`. A cell that is empty, None or NaN is not there, unless that is an option of its
parameter. A row without a state is done if it has a value, and only a price if it has not. What a
killed trial cost is a lower bound, and of one that was running or lost only a part, from which
nothing is learnt.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from farthing.core.outcomes import bill, external_trial, outcome_of
from farthing.core.settings import Settings
from farthing.errors import InvalidInput
from farthing.history import History, PricePoint, Trial, TrialState
from farthing.space.space import Categorical, Float, Int, Parameter, Space

__all__ = [
    "columns_of",
    "has_values",
    "is_empty",
    "learnt_from",
    "learnt_from_one",
    "parsed",
    "read_rows",
    "record",
    "row",
    "to_csv",
    "to_frame",
    "to_json",
    "unread_columns",
]

COLUMNS = (
    *("number", "state", "params", "value", "metrics", "cost", "censored", "predicted"),
    *("because", "origin", "error", "attempt", "worker", "slot", "seed"),
    *("suggest_s", "queue_s", "run_s", "cpu_s", "peak_mb", "log", "reports"),
)
Row = Mapping[str, Any]


# ── writing ────────────────────────────────────────────────────────────────────────────────────


def record(trial: Trial) -> dict[str, Any]:
    """Everything that is known of a trial but its point in the cube, as plain values."""
    run = trial.run
    return {
        "number": trial.number,
        "state": trial.state,
        "params": dict(trial.params),
        "value": trial.value,
        "cost": dict(trial.cost),
        "censored": int(trial.state == "killed"),
        "predicted": dict(trial.predicted),
        "because": trial.because,
        "origin": trial.origin,
        "notes": dict(trial.notes),
        "error": trial.error,
        "seed": run.seed,
        "attempt": run.attempt,
        "retry": int(run.retry),
        "worker": run.worker,
        "lease": run.lease,
        "asked_at": run.asked_at,
        "told_at": run.told_at,
        "suggest_s": run.suggest_s,
        "queue_s": run.queue_s,
        "run_s": run.run_s,
        "cpu_s": run.cpu_s,
        "peak_mb": run.peak_mb,
        "reports": [dict(line) for line in run.reports] or None,
        "metrics": dict(run.metrics),
        "slot": run.slot,
        "log": run.log,
        "tail": run.tail,
    }


def row(trial: Trial) -> dict[str, Any]:
    """What a person may want of a trial, the best first."""
    known = record(trial)
    return {name: known[name] for name in COLUMNS}


def to_json(data: Any) -> str:
    """Data as JSON, one level to a line."""
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


def columns_of(
    parameters: Iterable[str], resources: Iterable[str], trials: Iterable[Trial]
) -> list[str]:
    """The columns of a study's trials as CSV, the same whichever of them are there."""
    priced = [resource for resource in resources if resource != "trials"]
    metrics = dict.fromkeys(name for t in trials for name in _flat({"metrics": t.run.metrics}))
    entries = {
        "params": [f"param_{name}" for name in parameters],
        "metrics": list(metrics),
        "cost": [f"cost_{resource}" for resource in priced],
        "predicted": [f"predicted_{resource}" for resource in priced],
    }
    return [each for name in COLUMNS for each in entries.get(name, [name])]


def to_csv(rows: Sequence[Row], columns: Sequence[str] = ()) -> str:
    """Rows as CSV: params and what is by resource become a column for each entry.

    Args:
        columns: that are there whatever the rows have; what else they have comes after.
    """
    cells = [_flat(each) for each in rows]
    columns = list(dict.fromkeys([*columns, *(name for each in cells for name in each)]))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    return text.getvalue()


def to_frame(trials: Iterable[Trial]) -> Any:
    """One row per trial; needs pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise InvalidInput("dataframe() needs pandas: pip install pandas.") from None
    rows = [_flat(row(trial)) | {"predicted_cost": trial.predicted_cost} for trial in trials]
    return pd.DataFrame(rows)


def _flat(nested: Row, *, lists: bool = False) -> dict[str, Any]:
    """Objects as a column for each entry; lists as text, unless they are wanted as they are."""
    cells: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            prefix = {"params": "param", "metrics": "metric"}.get(name, name)
            entries = _flat(value, lists=lists).items()
            cells |= {f"{prefix}_{key}": item for key, item in entries}
        else:
            cells[name] = json.dumps(value) if isinstance(value, list) and not lists else value
    return cells


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def read_rows(source: Any) -> list[Row]:
    """The rows of a CSV or JSON file, a data frame, a list of dicts, or what has a History."""
    if isinstance(source, str | Path):
        try:
            text = Path(source).read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"{str(source)!r} cannot be read: {error}. Give the path of a CSV or JSON file."
            ) from None
        return parsed(text, str(source))
    if isinstance(history := getattr(source, "history", None), History):
        return [row(trial) for trial in history]
    if hasattr(source, "to_dict"):
        return list(source.to_dict("records"))
    rows = list(source) if isinstance(source, Iterable) else None
    if rows is None or isinstance(source, Mapping) or not _are_rows(rows):
        raise InvalidInput(
            f"{source!r} holds no evaluations: expected the path of a CSV file, a data frame, a "
            "list of dicts, a Result, or a Study."
        )
    return rows


def parsed(text: str, name: str) -> list[Row]:
    """The rows of a text that is CSV, or JSON with a list of objects; `name` says whose it is."""
    try:
        is_json = text.lstrip().startswith(("[", "{"))
        rows = json.loads(text) if is_json else list(csv.DictReader(io.StringIO(text, newline="")))
    except (ValueError, csv.Error) as error:
        raise InvalidInput(f"{name} cannot be read: {error}. Give a CSV or a JSON file.") from None
    if not isinstance(rows, list) or not _are_rows(rows):
        raise InvalidInput(f"{name}: expected a list of objects, one for each evaluation.")
    return list(rows)


def _are_rows(rows: list[Any]) -> bool:
    return all(isinstance(each, Mapping) for each in rows)


def learnt_from(
    rows: Sequence[Row], settings: Settings, *, values: bool = True, costs: bool = True
) -> tuple[tuple[Trial, ...], tuple[PricePoint, ...]]:
    """What rows from elsewhere teach: trials, and prices that belong to none.

    Args:
        values: learn the objective from them; without, only costs are learnt.
        costs: learn costs from them.
    """
    trials: list[Trial] = []
    prices: list[PricePoint] = []
    for i, each in enumerate(rows):
        try:
            found = learnt_from_one(each, settings, values, costs)
        except (InvalidInput, ValueError) as error:
            raise InvalidInput(f"Row {i}: {error}") from None
        if isinstance(found, Trial):
            trials.append(found)
        elif isinstance(found, PricePoint):
            prices.append(found)
    return tuple(trials), tuple(prices)


def has_values(rows: Sequence[Row], settings: Settings) -> bool:
    """Whether any row has a value, or says how it ended."""
    return any(name in each for each in rows for name in ("value", "state", settings.metric))


def unread_columns(rows: Sequence[Row], settings: Settings) -> list[str]:
    """The columns that say nothing here: neither ours, nor a parameter, nor a cost that counts."""
    flat = dict.fromkeys(str(name) for each in rows for name in _flat(each))
    names = settings.space.names
    ours = {*COLUMNS, settings.metric, *names, *(f"param_{name}" for name in names)}
    ours |= {f"cost_{resource}" for resource in settings.cost_resources}
    return [n for n in flat if n not in ours and not n.startswith(("predicted_", "param_"))]


def learnt_from_one(
    nested: Row, settings: Settings, values: bool, costs: bool
) -> Trial | PricePoint | str:
    """What one row teaches, or why it teaches nothing; arguments as of `learnt_from`."""
    space, priced = settings.space, settings.cost_resources
    flat = {str(name): cell for name, cell in _flat(nested, lists=True).items()}
    params, used = _params(nested, flat, space)
    cells = {name: cell for name, cell in flat.items() if not is_empty(cell)}
    told = {name: cell for name, cell in cells.items() if name not in used}
    if settings.metric in told:
        told.setdefault("value", told[settings.metric])
    state = _state(told)
    if state in ("running", "lost"):
        return f"it is {state}, and what it cost is only a part."
    cost = _cost(told, priced[0]) if costs else {}
    cost = {resource: amount for resource, amount in cost.items() if resource in priced}
    if state == "killed" and not cost:
        return "it was killed, and has neither a value nor a cost."
    if values and state is not None:
        value = _number(told["value"], "value") if state == "done" else None
        error = str(told.get("error", "it failed elsewhere")) if state == "failed" else None
        ended, value = outcome_of(value, error, state == "killed", "it")
        return external_trial(settings, params, ended, value, cost=cost, error=error)
    if not cost:
        none = f"a cost in {', '.join(priced)}."
        return "it has no value." if not costs else f"it has neither a value nor {none}"
    x = space.encode(params)
    at_least = state == "killed" or _number(told.get("censored", 0), "censored") != 0
    return PricePoint(x, bill(settings, cost, x, required=False), at_least)


def _params(nested: Row, flat: Row, space: Space) -> tuple[dict[str, Any], set[str]]:
    """The parameters of a row, and the columns they stand in."""
    given = nested.get("params")
    cells = given if isinstance(given, Mapping) else flat
    # All have the prefix or none: a parameter that is not there may be called like a column.
    prefixed = cells is flat and any(f"param_{name}" in flat for name in space.names)
    params, used = {}, set()
    for name, parameter in space.parameters.items():
        column = f"param_{name}" if prefixed else name
        if column not in cells:
            continue
        cell = cells[column]
        if is_empty(cell):
            empty = [option for option in _options(parameter) if is_empty(option)]
            if not empty or (cells is flat and parameter.when is not None):
                continue
            cell = cell if cell in empty else empty[0]
        params[name] = _typed(cell, parameter, name)
        used |= {column} if cells is flat else set()
    if not params:
        raise InvalidInput(
            f"no parameter is there; the columns are {', '.join(flat)[:500]}, the parameters "
            f"{', '.join(space.names)}."
        )
    return params, used


def _state(told: Row) -> TrialState | None:
    """The state a row says it is in, or that its value stands for; None: it is only a price."""
    implied: TrialState | None = "done" if "value" in told else None
    known: dict[Any, TrialState] = {state: state for state in get_args(TrialState)}
    if "state" not in told or told["state"] == "done":
        return implied
    if told["state"] not in known:
        raise InvalidInput(f"state is {told['state']!r}: expected one of {', '.join(known)}.")
    return known[told["state"]]


def _cost(told: Row, primary: str) -> dict[str, float]:
    return {
        primary if column == "cost" else column.removeprefix("cost_"): _number(cell, column)
        for column, cell in told.items()
        if column == "cost" or column.startswith("cost_")
    }


def _options(parameter: Parameter) -> Sequence[Any]:
    if isinstance(parameter, Float | Int):
        return ()
    return parameter.options if isinstance(parameter, Categorical) else parameter.values


def _typed(cell: Any, parameter: Parameter, name: str) -> Any:
    """A cell as the value it stands for: CSV has only texts, JSON no tuples, a frame no whole
    numbers where some are missing.
    """
    cell = cell.item() if hasattr(cell, "item") else cell
    if options := _options(parameter):
        same = [option for option in options if cell in (option, _listed(option))]
        alike = [option for option in options if str(option) == cell]
        return (*same, *alike, cell)[0]
    number = _number(cell, name) if isinstance(cell, str) else cell
    is_whole = isinstance(number, float) and number.is_integer()
    return int(number) if is_whole and isinstance(parameter, Int) else number


def _listed(option: Any) -> Any:
    """An option as JSON has it."""
    return [_listed(item) for item in option] if isinstance(option, tuple) else option


def _number(cell: Any, column: str) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise InvalidInput(f"{column} is {cell!r}: expected a number.") from None


def is_empty(cell: Any) -> bool:
    """Whether a cell says nothing, in whatever way a table has for it."""
    return (
        cell is None
        or type(cell).__name__ in ("NAType", "NaTType")  # first: NA is not even unequal to ""
        or (isinstance(cell, float) and math.isnan(cell))
        or (isinstance(cell, str) and not cell)
    )
