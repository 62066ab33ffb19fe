"""Import external evaluations: what the models learn from each row, and why some are ignored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.data.tabular import has_values, learnt_from_one, read_rows, row, unread_columns
from farthing.errors import InvalidInput
from farthing.history import History, PricePoint, Trial

__all__ = ["Imported", "select_new"]

SHOWN = 3  # ignored rows that are shown one by one


@dataclass(frozen=True)
class Imported:
    """What was imported, and what was not.

    Attributes:
        trials: that have a value, failed, or were killed.
        prices: costs that belong to no trial.
        known: the number of rows that were imported before.
        ignored: the other rows: their number, counted from 1, and why.
        unread: the columns that have no effect.
    """

    trials: tuple[Trial, ...] = ()
    prices: tuple[PricePoint, ...] = ()
    known: int = 0
    ignored: tuple[tuple[int, str], ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        """The number of imported rows."""
        return len(self.trials) + len(self.prices)

    def __str__(self) -> str:
        states = Counter(trial.state for trial in self.trials)
        counts = {
            ("value", "values"): states["done"],
            ("failure", "failures"): states["failed"],
            ("killed trial", "killed trials"): states["killed"],
            ("cost without a value", "costs without a value"): len(self.prices),
        }
        parts = [f"{n} {one if n == 1 else many}" for (one, many), n in counts.items() if n]
        lines = [f"Imported: {', '.join(parts) or 'nothing new'}."]
        if self.known:
            lines.append(f"Already imported: {_rows(self.known)}.")
        if self.ignored:
            lines.append(f"Ignored: {_rows(len(self.ignored))}.")
            lines += [f"  row {number}: {why}" for number, why in self.ignored[:SHOWN]]
            if len(self.ignored) > SHOWN:
                lines.append(f"  and {len(self.ignored) - SHOWN} more")
        if self.unread:
            lines.append(f"Columns without effect: {', '.join(self.unread)}.")
        return "\n".join(lines)


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def select_new(
    source: Any, settings: Settings, state: State, *, values: bool = True, costs: bool = True
) -> Imported:
    """The trials and costs of a source that the state does not have yet.

    Args:
        source: the path of a CSV or JSON file, a data frame, a list of dicts, or a History.
        values: learn the objective and failures from it.
        costs: learn costs from it.

    Raises:
        InvalidInput: it has no column for the value, or no row can be used.
    """
    if not (values or costs):
        raise InvalidInput(
            "values=False and costs=False: nothing would be imported. Set one of them to True."
        )
    is_history = isinstance(source, History)
    rows = [row(trial) for trial in source] if is_history else read_rows(source)
    if values and not is_history and not has_values(rows, settings):
        columns = ", ".join(dict.fromkeys(name for each in rows for name in each)) or "none"
        raise InvalidInput(
            f"There is no column 'value'; the columns are {columns}. Rename the column with the "
            "values, or import only the costs: values=False."
        )
    trials: list[Trial] = []
    prices: list[PricePoint] = []
    ignored: list[tuple[int, str]] = []
    for number, each in enumerate(rows, start=1):
        try:
            found = learnt_from_one(each, settings, values, costs)
        except (InvalidInput, ValueError) as error:
            found = str(error)
        if isinstance(found, str):
            ignored.append((number, found))
        elif isinstance(found, Trial):
            trials.append(found)
        else:
            prices.append(found)
    if not (trials or prices) and not is_history:
        why = f"Row {ignored[0][0]}: {ignored[0][1]}" if ignored else "There are no rows."
        raise InvalidInput(f"No row can be imported. {why}")
    new_trials = _new(trials, state.history, _trial_key)
    new_prices = _new(prices, state.prices, _price_key)
    known = len(trials) + len(prices) - len(new_trials) - len(new_prices)
    unread = () if is_history else tuple(unread_columns(rows, settings))
    return Imported(tuple(new_trials), tuple(new_prices), known, tuple(ignored), unread)


def _new(found: Sequence[Any], here: Any, key: Any) -> list[Any]:
    """The items of `found` that are not in `here`; equal items are counted."""
    there = Counter(map(key, here))
    new = []
    for each in found:
        if there[key(each)] > 0:
            there[key(each)] -= 1
        else:
            new.append(each)
    return new


def _trial_key(trial: Trial) -> Hashable:
    return trial.x.tobytes(), trial.state, trial.value


def _price_key(price: PricePoint) -> Hashable:
    cost: Mapping[str, float] = price.cost
    return price.x.tobytes(), tuple(sorted(cost.items())), price.at_least
