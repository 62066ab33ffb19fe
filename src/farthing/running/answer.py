"""What an objective returned or raised, as the message that a command would print."""

from __future__ import annotations

import errno
import inspect
import json
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from farthing.errors import Infrastructure, InvalidInput
from farthing.history import Outcome
from farthing.running.engine import plain
from farthing.running.reporting import plain_cost

__all__ = ["METRIC", "Objective", "answer", "check_objective"]

Objective = Callable[[dict[str, Any]], float | Outcome]

METRIC = "value"  # the key of the value in the answer
MAX_TEXT = 20_000  # characters
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def check_objective(objective: Any) -> None:
    """Whether it can be called with the parameters alone, as far as can be seen.

    Raises:
        InvalidInput: it cannot.
    """
    if not callable(objective):
        raise InvalidInput(
            f"{objective!r} is not an objective: expected a function of the parameters, or, in a "
            "study, a CommandTask for a program."
        )
    try:
        signature = inspect.signature(objective)
    except (TypeError, ValueError):  # of C
        return
    try:
        signature.bind({})
    except TypeError as error:
        name = getattr(objective, "__qualname__", type(objective).__qualname__)
        raise InvalidInput(
            f"The objective {name}{signature} cannot be called with the parameters alone "
            f"({error}). Let it take one argument, a dictionary: def objective(params)."
        ) from None


def answer(
    objective: Objective, params: Mapping[str, Any], catching: type[BaseException] = Exception
) -> dict[str, Any]:
    """Evaluate: `{"value": ...}`, `{"failed": why}` or `{"infrastructure": why}`, with its cost.

    An exception is a failure of the parameters, unless it is `Infrastructure` or says that the disk
    is full.

    Args:
        catching: what counts as an exception of the objective; all else is raised.
    """
    try:
        returned = objective(dict(params))
    except catching as error:
        return _failure(error)
    return _result(returned)


def _result(returned: Any) -> dict[str, Any]:
    outcome = returned if isinstance(returned, Outcome) else Outcome(returned)
    try:
        cost = {} if outcome.cost is None else {"cost": plain_cost(outcome.cost)}
    except Exception:
        return {"failed": f"its cost is {_short(outcome.cost)}: expected a number, or numbers"}
    try:
        metrics: dict[str, Any] = json.loads(json.dumps(dict(outcome.metrics), default=plain))
    except Exception:
        return {"failed": f"its metrics are {_short(outcome.metrics)}: expected a dict", **cost}
    if outcome.failed is not None:
        return {**metrics, "failed": _ends(str(outcome.failed)), **cost}
    value: Any = outcome.value
    with suppress(Exception):  # whatever a __float__ raises
        if value is not None and not isinstance(value, str | bytes | bool):
            return {**metrics, METRIC: float(value), **cost}
    wrong = f"the objective returned {_short(value)}: expected a number or an Outcome"
    return {"failed": wrong, **cost}


def _failure(error: BaseException) -> dict[str, Any]:
    try:
        if isinstance(error, Infrastructure):
            why = str(error) or "the objective raised Infrastructure"
            return {"infrastructure": _ends(why)}
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return {"infrastructure": str(error)}
        if isinstance(error, SystemExit):
            return {"failed": f"the objective called exit({error.code!r}): expected it to return"}
        ours = error.__traceback__  # its first entry is the call above
        shown = error.with_traceback(None if ours is None else ours.tb_next)
        memory = "out of memory\n" if isinstance(error, MemoryError) else ""
        return {"failed": memory + _ends("".join(traceback.format_exception(shown)))}
    except Exception:  # a __str__ that raises, or no memory left to say that there is none
        return {"failed": type(error).__name__}


def _short(value: Any) -> str:
    try:
        shown = repr(value)
    except Exception:
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def _ends(text: str) -> str:
    """A text without its middle; of a traceback what went wrong is at its ends."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"
