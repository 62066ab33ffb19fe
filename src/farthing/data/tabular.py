"""Write trials as rows, and read rows as trials: data frames, CSV, JSON, lists of dicts.

Writing: A row has the number and state of a trial, a column `param_<name>` for each parameter, the
value, `cost_<resource>`, `censored` (1: the cost is a lower bound), `predicted_<resource>`, and how
the trial ran. In JSON, params and costs are objects.

Reading: A row has a column for each parameter, named `<name>` or `param_<name>`. The value is in
`value`, costs are in `cost` (the primary resource) or `cost_<resource>`, and quantities with a
constraint in `<name>` or `metric_<name>`. `state`, `error` and `censored` are optional. An empty
cell, None or NaN counts as missing, unless it is an option of its parameter. Without a state, a row
with a value is a done trial, and a row without one is only a cost. The cost of a killed trial is a
lower bound. The cost of a running or lost trial is incomplete, so such rows are ignored.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from farthing.core.outcomes import checked_cost, external_trial, outcome_of
from farthing.core.settings import Settings
from farthing.earlier import Evaluation
from farthing.errors import InvalidInput
from farthing.history import History, PricePoint, Trial, TrialState
from farthing.space.parameters import option_of
from farthing.space.space import Categorical, Float, Int, Parameter, Space

__all__ = [
    "LEARNT",
    "columns_of",
    "evaluation_of",
    "frame_of",
    "has_values",
    "is_empty",
    "learnt_from",
    "learnt_from_one",
    "parsed",
    "points_of",
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
CURVE = ("step", "curve")  # columns of trainings that have reported their progress
LEARNT = ("trust", "from_sources", "portfolio")  # notes about earlier studies
UNKNOWN_FAILURE = "it failed, and the imported row does not say why"
Row = Mapping[str, Any]

# The beginning of a cell that spreadsheets compute, after any apostrophes of `_quoted`.
FORMULA = re.compile(r"'*[=+\-@\t\r]")

# ── writing ────────────────────────────────────────────────────────────────────────────────────


def record(trial: Trial) -> dict[str, Any]:
    """All facts of a trial except its point in the unit cube, as plain values."""
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
        "step": trial.step or None,
        "until": trial.until,
        "since": run.since,
        "earlier": dict(run.earlier),
        "turn": run.turn,
        "curve": [point._asdict() for point in trial.curve] or None,
    }


def row(trial: Trial) -> dict[str, Any]:
    """The facts of a trial that tables show, the most important first."""
    known = record(trial)
    learnt = {name: trial.notes[name] for name in LEARNT if name in trial.notes}
    return {name: known[name] for name in (*COLUMNS, *(CURVE if trial.curve else ()))} | learnt


def to_json(data: Any) -> str:
    """Indented JSON; values that JSON does not have become texts."""
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


def curve_rows(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """One row for each step that a training reported: its value, and the cost up to then."""
    return [
        {
            "number": trial.number,
            "step": point.step,
            "value": point.value,
            **{f"cost_{resource}": amount for resource, amount in point.cost.items()},
        }
        for trial in trials
        for point in trial.curve
    ]


def columns_of(
    parameters: Iterable[str], resources: Iterable[str], trials: Iterable[Trial]
) -> list[str]:
    """The CSV columns of a study, the same for each selection of its trials."""
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
    """The CSV of rows. Each entry of an object, such as a parameter, is a column.

    Args:
        columns: the first columns, even if no row has them; other columns follow.
    """
    cells = [_flat(each) for each in rows]
    columns = list(dict.fromkeys([*columns, *(name for each in cells for name in each)]))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _quoted(cell) for name, cell in each.items()} for each in cells)
    return text.getvalue()


def _quoted(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: an apostrophe marks it as text."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def _unquoted(cell: Any) -> Any:
    """The cell before `_quoted`."""
    is_quoted = isinstance(cell, str) and cell.startswith("'") and FORMULA.match(cell)
    return cell[1:] if is_quoted else cell


def to_frame(trials: Iterable[Trial]) -> Any:
    """One row per trial; needs pandas."""
    rows = [_flat(row(trial)) | {"predicted_cost": trial.predicted_cost} for trial in trials]
    return frame_of(rows, "dataframe()")


def frame_of(rows: Sequence[Row], call: str, index: Any = None) -> Any:
    """A data frame of rows; `call` needs it."""
    try:
        import pandas as pd
    except ImportError:
        raise InvalidInput(
            f"{call} needs pandas, which is not installed. Run: pip install pandas."
        ) from None
    return pd.DataFrame(rows, index=index)


def _flat(nested: Row, *, lists: bool = False) -> dict[str, Any]:
    """The entries of objects as columns. Lists become JSON texts, unless `lists` is true."""
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
    """The rows of a CSV or JSON file, a data frame, a list of dicts, a Study or a Result."""
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
            f"{source!r} contains no evaluations. Expected the path of a CSV or JSON file, a data "
            "frame, a list of dicts, a Result, or a Study."
        )
    return rows


def points_of(params: Any, space: Space) -> Any:
    """The points (m, d) of one configuration, of several, or of the rows of a data frame.

    Raises:
        InvalidInput: a configuration is not in the space.
    """
    if hasattr(params, "to_dict"):
        rows = [_params(each, each, space)[0] for each in params.to_dict("records")]
    else:
        several = isinstance(params, Iterable) and not isinstance(params, Mapping | str)
        rows = list(params) if several else [params]
    points = []
    for i, each in enumerate(rows):
        try:
            points.append(space.encode(each))
        except InvalidInput as error:
            raise error if len(rows) == 1 else InvalidInput(f"Row {i}: {error}") from None
    return np.array(points).reshape(-1, space.d)


def parsed(text: str, name: str) -> list[Row]:
    """The rows of a text that is CSV, or a JSON list of objects; `name` is for error messages."""
    try:
        is_json = text.lstrip().startswith(("[", "{"))
        rows = json.loads(text) if is_json else _csv_rows(text)
    except (ValueError, RecursionError, csv.Error) as error:
        raise InvalidInput(f"{name} cannot be read: {error}. Give a CSV or a JSON file.") from None
    if not isinstance(rows, list) or not _are_rows(rows):
        raise InvalidInput(f"{name}: expected a JSON list of objects, one for each evaluation.")
    return list(rows)


def _csv_rows(text: str) -> list[Row]:
    rows = csv.DictReader(io.StringIO(text, newline=""), restkey="(no name)")
    return [{name: _unquoted(cell) for name, cell in each.items()} for each in rows]


def _are_rows(rows: list[Any]) -> bool:
    return all(isinstance(each, Mapping) for each in rows)


def learnt_from(
    rows: Sequence[Row], settings: Settings, *, values: bool = True, costs: bool = True
) -> tuple[tuple[Trial, ...], tuple[PricePoint, ...]]:
    """The trials in external rows, and the costs that belong to no trial.

    Args:
        values: learn the objective from them; if False, learn only costs.
        costs: learn costs from them.

    Raises:
        InvalidInput: a row is invalid.
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
    """Whether any row has a column for the value or for the state."""
    return any(name in each for each in rows for name in ("value", "state", settings.metric))


def unread_columns(rows: Sequence[Row], settings: Settings) -> list[str]:
    """The columns without effect: not Farthing's, not a parameter, not a cost in the budget."""
    flat = dict.fromkeys(str(name) for each in rows for name in _flat(each))
    names = settings.space.names
    ours = {*COLUMNS, *CURVE, settings.metric, *names, *(f"param_{name}" for name in names)}
    ours |= {f"cost_{resource}" for resource in settings.cost_resources}
    ours |= {name for each in settings.bounds for name in (each.name, f"metric_{each.name}")}
    computed = "param_", "predicted_", *(f"{name}_" for name in LEARNT)
    return [n for n in flat if n not in ours and not n.startswith(computed)]


def learnt_from_one(
    nested: Row, settings: Settings, values: bool, costs: bool
) -> Trial | PricePoint | str:
    """The trial or the cost in one row, or why the row is ignored; see `learnt_from`."""
    space, priced = settings.space, settings.cost_resources
    params, state, cells = _parts(nested, settings)
    if state in ("running", "paused", "lost"):
        return f"the trial is {state}, so its cost is incomplete."
    cost = _cost(cells, priced[0]) if costs else {}
    cost = {resource: amount for resource, amount in cost.items() if resource in priced}
    if state == "killed" and not cost:
        return "the trial was killed, and it has neither a value nor a cost."
    if values and state is not None:
        value = _number(cells["value"], "value") if state == "done" else None
        error = str(cells.get("error", UNKNOWN_FAILURE)) if state == "failed" else None
        ended, value = outcome_of(value, error, state == "killed", "it")
        measured = _measured(cells, settings)
        return external_trial(
            settings, params, ended, value, cost=cost, error=error, metrics=measured
        )
    if not cost:
        resources = ", ".join(priced)
        return f"it has neither a value nor a cost in {resources}." if costs else "it has no value."
    x = space.encode(params)
    at_least = state == "killed" or _number(cells.get("censored", 0), "censored") != 0
    return PricePoint(x, checked_cost(settings, cost, x, required=False), at_least)


def evaluation_of(nested: Row, settings: Settings, sign: float) -> Evaluation | str:
    """The trial of an earlier study in one row, or why it is left out; see `earlier.matched`.

    Args:
        sign: +1 if the earlier study minimised, -1 if it maximised.
    """
    try:
        params, state, cells = _parts(nested, settings)
        amounts = _cost(cells, settings.cost_resources[0])
        value = sign * _number(cells["value"], "value") if state == "done" else math.nan
        censored = state == "killed" or _number(cells.get("censored", 0), "censored") != 0
    except InvalidInput:
        return "that cannot be read"
    if state in ("running", "paused", "lost"):
        return "that were lost" if state == "lost" else "that have not ended"
    cost = {resource: amount for resource, amount in amounts.items() if 0 <= amount < math.inf}
    return Evaluation(params, value if math.isfinite(value) else math.nan, cost, censored)


def _parts(nested: Row, settings: Settings) -> tuple[dict[str, Any], TrialState | None, Row]:
    """The parameters of a row, its state, and its other cells that are not empty."""
    flat = {str(name): cell for name, cell in _flat(nested, lists=True).items()}
    params, used = _params(nested, flat, settings.space)
    cells = {n: cell for n, cell in flat.items() if n not in used and not is_empty(cell)}
    if settings.metric in cells:
        cells.setdefault("value", cells[settings.metric])
    return params, _state(cells), cells


def _params(nested: Row, flat: Row, space: Space) -> tuple[dict[str, Any], set[str]]:
    """The parameters of a row, and the columns that contain them."""
    given = nested.get("params")
    cells = given if isinstance(given, Mapping) else flat
    # All have the prefix or none does: an absent parameter may have the name of another column.
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
            f"it has no column for a parameter; the columns are {', '.join(flat)[:500]}, the "
            f"parameters are {', '.join(space.names)}."
        )
    return params, used


def _state(cells: Row) -> TrialState | None:
    """The state of a row, from its column or its value; None if the row is only a cost."""
    implied: TrialState | None = "done" if "value" in cells else None
    known: dict[Any, TrialState] = {state: state for state in get_args(TrialState)}
    if "state" not in cells or cells["state"] == "done":
        return implied
    if cells["state"] not in known:
        raise InvalidInput(f"state is {cells['state']!r}: expected one of {', '.join(known)}.")
    return known[cells["state"]]


def _cost(cells: Row, primary: str) -> dict[str, float]:
    return {
        primary if column == "cost" else column.removeprefix("cost_"): _number(cell, column)
        for column, cell in cells.items()
        if column == "cost" or column.startswith("cost_")
    }


def _measured(cells: Row, settings: Settings) -> dict[str, float]:
    """The quantities that are constrained, from a column `metric_<name>` or `<name>`."""
    return {
        each.name: _number(cells[column], column)
        for each in settings.bounds
        for column in (each.name, f"metric_{each.name}")
        if column in cells
    }


def _options(parameter: Parameter) -> Sequence[Any]:
    if isinstance(parameter, Float | Int):
        return ()
    return parameter.options if isinstance(parameter, Categorical) else parameter.values


def _typed(cell: Any, parameter: Parameter, name: str) -> Any:
    """The value of a cell.

    CSV has only texts, JSON has no tuples, and a data frame has no integers if some are missing.
    """
    cell = cell.item() if hasattr(cell, "item") else cell
    if options := _options(parameter):
        same = [option for option in options if cell in (option, _listed(option))]
        return (*same, option_of(cell, options) if isinstance(cell, str) else cell)[0]
    number = _number(cell, name) if isinstance(cell, str) else cell
    is_whole = isinstance(number, float) and number.is_integer()
    return int(number) if is_whole and isinstance(parameter, Int) else number


def _listed(option: Any) -> Any:
    """An option in its JSON form: tuples become lists."""
    return [_listed(item) for item in option] if isinstance(option, tuple) else option


def _number(cell: Any, column: str) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise InvalidInput(f"{column} is {cell!r}: expected a number.") from None


def is_empty(cell: Any) -> bool:
    """Whether a cell is missing: empty, None, NaN, NA or NaT."""
    return (
        cell is None
        or type(cell).__name__ in ("NAType", "NaTType")  # first, because comparing NA gives NA
        or (isinstance(cell, float) and math.isnan(cell))
        or (isinstance(cell, str) and not cell)
    )
