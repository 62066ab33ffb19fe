"""The settings of a study as text: every process that opens the study reads the same settings.

The text of a frozen dataclass is its name and its fields. Farthing's own classes have the names in
`names.py`; a class of a user is named "module:Name". A function is stored by its name if it can be
imported. A lambda, or a function defined in another one, must be given again when the study is
opened.

Other people may write to a database. Only the names in `names.py` are used as they are: these
methods touch no file and no process. The rest stays text (`UnimportedCode`) until the caller gives the part
again, or says that the database can be trusted.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING as MISSING_DEFAULT
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

from farthing.core.settings import Settings, UnimportedCode
from farthing.errors import InvalidInput
from farthing.space.space import Space
from farthing.storage.json_text import from_text, to_text
from farthing.storage.names import FUNCTION, KIND, STORED_KEYS, Named, current, name_of, ours

__all__ = ["described", "differing", "external_in", "from_described", "not_given", "restored"]

PARTS = ("policy", "stop", "cost")
FIELDS = {key: name for name, key in STORED_KEYS.items()}  # {key in a database: field of Settings}
# A study that was stored before a setting existed has its default.
NEWER: dict[str, Any] = {
    f.name: f.default for f in fields(Settings) if f.default is not MISSING_DEFAULT
}


# ── settings ───────────────────────────────────────────────────────────────────────────────────


def described(settings: Settings) -> dict[str, Any]:
    """The settings as plain values."""
    plain = {f.name: getattr(settings, f.name) for f in fields(settings)}
    plain |= {name: describe(plain[name]) for name in PARTS}
    plain["space"] = _describe_space(settings.space)
    plain["budget"] = None if settings.budget is None else dict(settings.budget.limits)
    return {STORED_KEYS.get(name, name): value for name, value in plain.items()}


def from_described(text: str) -> dict[str, Any]:
    """What was stored, by the names of today.

    The first release stored how a command is run under one key, "execution".
    """
    stored: dict[str, Any] = NEWER | {FIELDS.get(k, k): v for k, v in from_text(text).items()}
    stored |= {name: current(stored[name]) for name in PARTS if name in stored}
    if "space" in stored:  # the rows of a table hold values only
        parameters = current(stored["space"]["parameters"])
        stored["space"] = {**stored["space"], "parameters": parameters}
    execution = stored.pop("execution", None)
    if execution is not None:
        cpu, endless = execution.pop("cpu"), not execution["failures_in_a_row"]
        stored |= execution | {"measure": "cpu" if cpu else "wall"}
        stored |= {"failures_in_a_row": math.inf} if endless else {}
    return stored


def restored(
    text: str, there: Settings | None = None, *, trust: bool = False, **given: Any
) -> Settings:
    """The settings of a stored study; parts of other people's code are `UnimportedCode`.

    Args:
        there: settings whose parts stand in for those that are described alike, or are functions
            without a name.
        trust: import what the database names, whatever it is.
        given: parts that are given again.
    """
    stored = from_described(text)
    for name in PARTS:
        stored[name] = given.get(name) or _part(stored[name], getattr(there, name, None), trust)
    return Settings.of(_restore_space(stored.pop("space")), stored.pop("budget"), **stored)


def _part(stored: Any, there: Any, trust: bool) -> Any:
    strange = external_in(stored)
    if not strange or (trust and None not in strange):
        return restore(stored)
    alike = there is not None and describe(there) == stored
    return there if alike or (there is not None and None in strange) else UnimportedCode(stored)


def external_in(described: Any) -> list[str | None]:
    """The names in a description that are not of Farthing's own methods; None: without a name."""
    if isinstance(described, list | tuple):
        return [name for item in described for name in external_in(item)]
    if not isinstance(described, Mapping):
        return []
    if FUNCTION in described:
        name = described[FUNCTION]
        return [] if isinstance(_ours(name).kind, FunctionType) else [name]
    found = [name for key, item in described.items() if key != KIND for name in external_in(item)]
    if KIND in described and not is_dataclass(_ours(described[KIND]).kind):
        found.insert(0, described[KIND])
    return found


def not_given(part: str, unseen: UnimportedCode) -> InvalidInput:
    """What to say where a part is there as text only, and is needed."""
    names = external_in(unseen.described)
    if None in names:
        return InvalidInput(
            f"The study was made with a function in {part}= that cannot be imported: a lambda, or "
            "one defined in a script or in another function. Such a study is opened in Python, "
            f"where it is given again: Study.open(url, name, {part}=...)."
        )
    return InvalidInput(
        f"The study was made with {names[0]} in {part}=, which is not Farthing's own. Give it "
        f"again: Study.open(url, name, {part}=...); or, if you trust whoever can write the "
        "database, trust=True imports it, and look=True looks without it."
    )


def _ours(name: Any) -> Named:
    """What a name of Farthing's stands for; nothing, if it is not one of them."""
    return ours(name) or Named(None)


def differing(one: str, other: str) -> list[str]:
    """The settings in which two texts differ; of a budget, also which resource is the first."""
    there, here = from_described(one), from_described(other)
    for each in (there, here):
        each["budget"] = each["budget"] and list(each["budget"].items())
    return [name for name in here if there.get(name) != here[name]]


# ── their parts ────────────────────────────────────────────────────────────────────────────────


class _Missing:
    """A part that was given but could not be kept."""

    def __repr__(self) -> str:
        return "a part that cannot be imported"


MISSING = _Missing()


def describe(value: Any) -> Any:
    """A value made of dataclasses, functions and plain values, as plain values."""
    if isinstance(value, UnimportedCode):
        return value.described
    if is_dataclass(value) and not isinstance(value, type):
        name = name_of(value)
        fixed = _ours(name).fixed
        kept = [f.name for f in fields(value) if f.init and not f.name.startswith("_")]
        return {KIND: name or _path_of(type(value))} | {
            each: describe(getattr(value, each)) for each in kept if each not in fixed
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
    path = _path_of(value) if _is_importable(value) else None
    return {FUNCTION: name_of(value) or path}


def restore(described: Any) -> Any:
    """What was described; MISSING in place of a function that could not be kept."""
    if isinstance(described, list | tuple):
        return type(described)(restore(item) for item in described)
    if not isinstance(described, Mapping):
        return described
    if FUNCTION in described:
        name = described[FUNCTION]
        return MISSING if name is None else _ours(name).kind or _find(name)
    parts = {name: restore(item) for name, item in described.items() if name != KIND}
    if KIND not in described:
        return parts
    if any(part is MISSING for part in parts.values()):
        return MISSING
    own = _ours(described[KIND])
    kind = own.kind or _find(described[KIND])
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise InvalidInput(
            f"The study was made with {described[KIND]}, which is not a dataclass here. "
            "Restore that class, or give the part again when you open the study."
        )
    return kind(**parts, **own.fixed)


def _describe_space(space: Space) -> dict[str, Any]:
    """The parameters, and the rows of a table."""
    rows = None if space.rows is None else [space.decode(x) for x in space.rows]
    parameters = {
        name: {KIND: name_of(parameter) or _path_of(type(parameter))} | _fields_of(parameter)
        for name, parameter in space.parameters.items()
    }
    return {"parameters": parameters, "rows": rows}


def _fields_of(parameter: Any) -> dict[str, Any]:
    """What it was made with; what older versions do not know is left out where it says nothing."""
    told = {f.name: getattr(parameter, f.name) for f in fields(parameter)}
    return {name: value for name, value in told.items() if name != "cost" or value is not None}


def _restore_space(described: Mapping[str, Any]) -> Space:
    """The same space."""
    if strange := external_in(described["parameters"]):
        raise InvalidInput(
            f"The space of the study has a parameter of the kind {strange[0]!r}, which is not one "
            "of Farthing's. Upgrade Farthing, or look at who made this database."
        )
    parameters = restore(described["parameters"])
    if described["rows"] is None:
        return Space(parameters)
    # Older versions took the same row several times.
    rows = {to_text(row): row for row in described["rows"]}
    return Space.from_rows(list(rows.values()), parameters)


def _path_of(thing: type | Callable[..., Any]) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def _is_importable(function: Any) -> bool:
    if function.__module__ == "__main__":
        return False  # another process has another __main__
    try:
        return _find(_path_of(function)) is function
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
            "Make it importable, or give the study another one."
        ) from None
    return found


def _import(module: str) -> Any:
    return importlib.import_module(module)
