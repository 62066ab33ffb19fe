"""Many evaluations made elsewhere: what each row of them teaches, and what none does."""

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

__all__ = ["Imported", "take_in"]

SHOWN = 3  # ignored rows that are shown one by one


@dataclass(frozen=True)
class Imported:
    """What was taken in, and what was not.

    Attributes:
        trials: with a value, failed, or killed.
        prices: costs that belong to no trial.
        known: how many were here already.
        ignored: the other rows, and why they teach nothing.
        unread: columns that nothing reads.
    """

    trials: tuple[Trial, ...] = ()
    prices: tuple[PricePoint, ...] = ()
    known: int = 0
    ignored: tuple[tuple[int, str], ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        """How many rows were taken in."""
        return len(self.trials) + len(self.prices)

    def __str__(self) -> str:
        states = Counter(trial.state for trial in self.trials)
        counts = {
            "value": states["done"],
            "failure": states["failed"],
            "killed trial": states["killed"],
            "price": len(self.prices),
        }
        said = [f"{n} {what}{'' if n == 1 else 's'}" for what, n in counts.items() if n]
        lines = [f"Taken in: {', '.join(said) or 'nothing new'}."]
        if self.known:
            lines.append(f"Here already: {_rows(self.known)}.")
        if self.ignored:
            lines.append(f"Ignored: {_rows(len(self.ignored))}.")
            lines += [f"  row {number}: {why}" for number, why in self.ignored[:SHOWN]]
            if len(self.ignored) > SHOWN:
                lines.append(f"  and {len(self.ignored) - SHOWN} more")
        if self.unread:
            lines.append(f"Columns that nothing reads: {', '.join(self.unread)}.")
        return "\n".join(lines)


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def take_in(
    source: Any, settings: Settings, state: State, *, values: bool = True, costs: bool = True
) -> Imported:
    """What there is to learn from a source, but for what is known.

    Args:
        source: the path of a CSV or JSON file, a data frame, a list of dicts, or a History.
        values: learn the objective from it, and what fails.
        costs: learn costs from it.

    Raises:
        InvalidInput: it has no column for the value, or no row that teaches anything.
    """
    if not (values or costs):
        raise InvalidInput("values=False and costs=False: nothing would be imported.")
    is_ours = isinstance(source, History)
    rows = [row(trial) for trial in source] if is_ours else read_rows(source)
    if values and not is_ours and not has_values(rows, settings):
        columns = ", ".join(dict.fromkeys(name for each in rows for name in each)) or "none"
        raise InvalidInput(
            f"There is no column 'value'; the columns are {columns}. Give the value that name, or "
            "learn only the costs: values=False."
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
    if not (trials or prices) and not is_ours:
        why = f" The first: row {ignored[0][0]}: {ignored[0][1]}" if ignored else ""
        raise InvalidInput(f"No row of {len(rows)} teaches anything.{why}")
    new_trials = _new(trials, state.history, _of_trial)
    new_prices = _new(prices, state.prices, _of_price)
    known = len(trials) + len(prices) - len(new_trials) - len(new_prices)
    unread = () if is_ours else tuple(unread_columns(rows, settings))
    return Imported(tuple(new_trials), tuple(new_prices), known, tuple(ignored), unread)


def _new(found: Sequence[Any], here: Any, key: Any) -> list[Any]:
    """Those that are not here: of equal ones, as many as there are more of."""
    there = Counter(map(key, here))
    new = []
    for each in found:
        if there[key(each)] > 0:
            there[key(each)] -= 1
        else:
            new.append(each)
    return new


def _of_trial(trial: Trial) -> Hashable:
    return trial.x.tobytes(), trial.state, trial.value


def _of_price(price: PricePoint) -> Hashable:
    cost: Mapping[str, float] = price.cost
    return price.x.tobytes(), tuple(sorted(cost.items())), price.at_least
