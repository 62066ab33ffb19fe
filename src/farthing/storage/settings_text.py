"""The settings of a study as text, kept with it: whoever opens it thinks alike.

A frozen dataclass is its class, by "module:name", and its fields. Policies, rules and cost models
need no registry for this, and a user's own are kept like ours. A function is kept by its name where
it can be imported; a lambda or one defined in a function cannot, and has to be given again when the
study is opened.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING as MISSING_DEFAULT
from dataclasses import fields, is_dataclass
from typing import Any

from farthing.errors import InvalidInput
from farthing.settings import Settings
from farthing.space import Space
from farthing.storage.json_text import from_text, to_text

__all__ = ["changed", "described", "difference", "from_described", "restored"]

KIND, FUNCTION = "__is__", "__function__"
PARTS = ("policy", "stop", "cost")
# What every study had before a setting existed.
NEWER: dict[str, Any] = {
    f.name: f.default for f in fields(Settings) if f.default is not MISSING_DEFAULT
}
# How trials are run, which whoever runs them next may want otherwise.
MAY_CHANGE = (
    *("leash", "thinking", "failures_in_a_row", "grace", "lease", "rate", "measure"),
    *("command", "metric"),
)


# ── settings ───────────────────────────────────────────────────────────────────────────────────


def described(settings: Settings) -> dict[str, Any]:
    """The settings as plain values."""
    plain = {f.name: getattr(settings, f.name) for f in fields(settings)}
    return {
        **plain,
        "space": _describe_space(settings.space),
        "budget": None if settings.budget is None else dict(settings.budget.limits),
        **{name: describe(plain[name]) for name in PARTS},
    }


def from_described(text: str) -> dict[str, Any]:
    """What was stored; older versions kept how a command is run in a place of its own."""
    stored: dict[str, Any] = NEWER | from_text(text)
    execution = stored.pop("execution", None)
    if execution is not None:
        cpu, endless = execution.pop("cpu"), not execution["failures_in_a_row"]
        stored |= execution | {"measure": "cpu" if cpu else "wall"}
        stored |= {"failures_in_a_row": math.inf} if endless else {}
    return stored


def restored(text: str, **given: Any) -> Settings:
    """The settings of a stored study; parts that cannot be imported here are given again."""
    stored = from_described(text)
    for name in PARTS:
        stored[name] = given.get(name) or restore(stored[name])
        part = stored[name]
        if any(each is MISSING for each in (part.values() if isinstance(part, dict) else [part])):
            raise InvalidInput(
                f"The study was made with a function in {name}= that cannot be imported: a "
                "lambda, or one defined in a script or in another function. "
                f"Give it again: Study.open(url, name, {name}=...)."
            )
    return Settings.of(_restore_space(stored.pop("space")), stored.pop("budget"), **stored)


def difference(text: str, wanted: Settings) -> str | None:
    """The first setting in which two studies differ, in words; None if they are the same.

    How trials are run may differ from one run to the next.
    """
    there, here = from_described(text), from_text(to_text(described(wanted)))
    for name in here:
        if name not in MAY_CHANGE and there.get(name) != here[name]:
            return f"{name} is {_shown(there.get(name))} there and {_shown(here[name])} here"
    return None


def changed(before: str, after: str) -> dict[str, Any]:
    """What was otherwise before, as it was."""
    there, here = from_described(before), from_described(after)
    return {name: was for name, was in there.items() if was != here.get(name)}


def _shown(value: Any) -> str:
    text = to_text(value)
    return text if len(text) <= 200 else text[:200] + "..."


# ── their parts ────────────────────────────────────────────────────────────────────────────────


class _Missing:
    """A part that was given but could not be kept."""

    def __repr__(self) -> str:
        return "a part that cannot be imported"


MISSING = _Missing()


def describe(value: Any) -> Any:
    """A value made of dataclasses, functions and plain values, as plain values."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = [f for f in fields(value) if f.init and not f.name.startswith("_")]
        return {KIND: _name_of(type(value))} | {
            f.name: describe(getattr(value, f.name)) for f in kept
        }
    if isinstance(value, Mapping):
        return {name: describe(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(describe(item) for item in value)
    if not callable(value):
        return value
    if isinstance(value, type) or not hasattr(value, "__qualname__"):
        raise InvalidInput(
            f"{value!r} cannot be kept in a database. Make its class a frozen dataclass whose "
            "fields are its settings."
        )
    return {FUNCTION: _name_of(value) if _is_importable(value) else None}


def restore(described: Any) -> Any:
    """What was described; MISSING in place of a function that could not be kept."""
    if isinstance(described, list | tuple):
        return type(described)(restore(item) for item in described)
    if not isinstance(described, Mapping):
        return described
    if FUNCTION in described:
        return MISSING if described[FUNCTION] is None else _find(described[FUNCTION])
    parts = {name: restore(item) for name, item in described.items() if name != KIND}
    if KIND not in described:
        return parts
    if any(part is MISSING for part in parts.values()):
        return MISSING
    kind = _find(described[KIND])
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise InvalidInput(
            f"The study was made with {described[KIND]}, which is not a dataclass here. "
            "Restore that class, or give the part again when you open the study."
        )
    return kind(**parts)


def _describe_space(space: Space) -> dict[str, Any]:
    """The parameters, and the rows of a table."""
    rows = None if space.rows is None else [space.decode(x) for x in space.rows]
    parameters = {
        name: {KIND: _name_of(type(parameter))} | _fields_of(parameter)
        for name, parameter in space.parameters.items()
    }
    return {"parameters": parameters, "rows": rows}


def _fields_of(parameter: Any) -> dict[str, Any]:
    """What it was made with; what older versions do not know is left out where it says nothing."""
    told = {f.name: getattr(parameter, f.name) for f in fields(parameter)}
    return {name: value for name, value in told.items() if name != "cost" or value is not None}


def _restore_space(described: Mapping[str, Any]) -> Space:
    """The same space."""
    parameters = restore(described["parameters"])
    if described["rows"] is None:
        return Space(parameters)
    return Space.from_rows(described["rows"], parameters)


def _name_of(thing: type | Callable[..., Any]) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def _is_importable(function: Any) -> bool:
    if function.__module__ == "__main__":
        return False  # another process has another __main__
    try:
        return _find(_name_of(function)) is function
    except InvalidInput:
        return False


def _find(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found: Any = sys.modules[module] if module in sys.modules else _import(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        raise InvalidInput(
            f"The study was made with {name}, which cannot be imported here. "
            "Make it importable, or give it again: Study.open(url, name, policy=..., stop=..., "
            "cost=...)."
        ) from None
    return found


def _import(module: str) -> Any:
    return importlib.import_module(module)
