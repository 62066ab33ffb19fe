"""Turn what an objective returns or raises into the message that a command would print."""

from __future__ import annotations

import errno
import inspect
import json
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_args

from farthing.errors import Infrastructure, InvalidInput
from farthing.history import Outcome
from farthing.running.engine import plain
from farthing.running.output import PAUSED
from farthing.running.reporting import plain_cost
from farthing.running.training import Decision, Training, takes_training

__all__ = ["METRIC", "Objective", "answer", "check_objective"]

Objective = (
    Callable[[dict[str, Any]], float | Outcome]
    | Callable[[dict[str, Any], Training], float | Outcome | None]
)

METRIC = "value"  # key of the objective value in the message
MAX_TEXT = 20_000  # characters of an error
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def check_objective(objective: Any) -> None:
    """Check that the objective can be called with the parameters, or also with its training.

    Raises:
        InvalidInput: it is not callable, or its signature needs other arguments.
    """
    if not callable(objective):
        raise InvalidInput(
            f"{objective!r} is not an objective: expected a function of the parameters or, in a "
            "study, a CommandTask for a program."
        )
    try:
        signature = inspect.signature(objective)
    except (TypeError, ValueError):  # a function in C has no signature
        return
    if takes_training(objective):
        return
    try:
        signature.bind({})
    except TypeError as error:
        name = getattr(objective, "__qualname__", type(objective).__qualname__)
        raise InvalidInput(
            f"The objective {name}{signature} cannot be called with the parameters alone "
            f"({error}). Give it one argument, the dictionary of parameters: def objective(params)."
        ) from None


def answer(
    objective: Objective,
    params: Mapping[str, Any],
    catching: type[BaseException] = Exception,
    training: Training | None = None,
) -> dict[str, Any]:
    """Evaluate the objective and return its message.

    The message is `{"value": ...}`, `{"failed": reason}` or `{"infrastructure": reason}`, with a
    cost if the objective returned one. An exception means "failed", unless it is `Infrastructure`
    or says that the disk is full.

    Args:
        catching: the exceptions that become messages; others are raised.
        training: the second argument of an objective that reports its progress.
    """
    try:
        arguments = (training,) if training is not None and takes_training(objective) else ()
        returned = objective(dict(params), *arguments)
    except catching as error:
        return _failure(error)
    if returned is None and training is not None and training.reported is not None:
        return {PAUSED: True} if training.is_paused else {METRIC: training.reported}
    if returned is None and arguments:
        expected = "call trial.report(step, value) after each step, or return a number"
        return {"failed": f"the objective reported no step and returned None: {expected}"}
    return _result(returned)


def _result(returned: Any) -> dict[str, Any]:
    outcome = returned if isinstance(returned, Outcome) else Outcome(returned)
    try:
        cost = {} if outcome.cost is None else {"cost": plain_cost(outcome.cost)}
    except Exception:
        return {"failed": f"its cost is {_short(outcome.cost)}: expected a number or a dict"}
    try:
        metrics: dict[str, Any] = json.loads(json.dumps(dict(outcome.metrics), default=plain))
    except Exception:
        return {"failed": f"its metrics are {_short(outcome.metrics)}: expected a dict", **cost}
    try:
        constraints = {str(name): _number(each) for name, each in outcome.constraints.items()}
    except Exception:
        shown = _short(outcome.constraints)
        return {"failed": f"its constraints are {shown}: expected a dict of numbers", **cost}
    metrics = {**metrics, "constraints": constraints} if constraints else metrics
    if outcome.failed is not None:
        return {**metrics, "failed": _ends(str(outcome.failed)), **cost}
    value: Any = outcome.value
    with suppress(Exception):  # __float__ may raise anything
        if value is not None and not isinstance(value, str | bytes | bool):
            return {**metrics, METRIC: float(value), **cost}
    expected = "a number or an Outcome(value, cost=...)"
    wrong = f"the objective returned {_short(value)}: expected {expected}"
    if isinstance(value, str) and value in get_args(Decision):  # it returned what `report` said
        wrong += "; after 'pause' or 'stop', return nothing"
    return {"failed": wrong, **cost}


def _number(measured: Any) -> float:
    if isinstance(measured, str | bytes | bool):
        raise TypeError
    return float(measured)


def _failure(error: BaseException) -> dict[str, Any]:
    try:
        if isinstance(error, Infrastructure):
            reason = str(error) or "the objective raised Infrastructure"
            return {"infrastructure": _ends(reason)}
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return {"infrastructure": str(error)}
        if isinstance(error, SystemExit):
            return {"failed": f"the objective called exit({error.code!r}): expected it to return"}
        trace = error.__traceback__  # its first entry is the call in `answer`
        shown = error.with_traceback(None if trace is None else trace.tb_next)
        memory = "out of memory\n" if isinstance(error, MemoryError) else ""
        return {"failed": memory + _ends("".join(traceback.format_exception(shown)))}
    except Exception:  # __str__ raised, or there is no memory for the message
        return {"failed": type(error).__name__}


def _short(value: Any) -> str:
    try:
        shown = repr(value)
    except Exception:
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def _ends(text: str) -> str:
    """The two ends of a long text. The ends of a traceback show what went wrong."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"
