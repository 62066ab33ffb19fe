"""The settings of a study as text: every process that opens the study reads the same settings.

A frozen dataclass is stored as its name and its fields. Farthing's own classes have the names in
`names.py`; a class of a user is named "module:Name". A function is stored by its name if it can be
imported. A lambda, or a function inside a function, must be passed again to open the study.

Other people may write to a database. Only names in `names.py` are restored without asking: these
methods touch no file and no process. Other code stays text (`UnimportedCode`) until the caller
passes it again, or trusts the database.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING as MISSING_DEFAULT
from dataclasses import asdict, fields, is_dataclass
from types import FunctionType
from typing import Any

import numpy as np

from farthing.core.settings import Settings
from farthing.core.unimported import UnimportedCode
from farthing.earlier import Source
from farthing.errors import InvalidInput
from farthing.space.space import Space
from farthing.steps import Steps
from farthing.storage.json_text import from_text, to_text
from farthing.storage.names import FUNCTION, KIND, STORED_KEYS, Named, current, name_of, ours

__all__ = [
    "described",
    "differing",
    "external_in",
    "from_described",
    "missing_code",
    "named",
    "restored",
]

PARTS = ("policy", "stop", "cost")
FIELDS = {key: name for name, key in STORED_KEYS.items()}  # {key in a database: field of Settings}
# If a study was stored before a setting existed, the setting has its default.
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
    plain["steps"] = None if settings.steps is None else asdict(settings.steps)
    plain["learn_from"] = [_describe_source(each) for each in settings.learn_from] or None
    # Older versions do not know these keys.
    for name in ("constraints", "max_cost", "steps", "learn_from"):
        if plain[name] is None:
            del plain[name]
    return {STORED_KEYS.get(name, name): value for name, value in plain.items()}


def named(settings: Settings) -> dict[str, Any]:
    """The settings that a caller gives, as plain values; a policy that it does not name is None."""
    plain = described(settings)
    return plain | {"policy": None} if settings.names_no_policy else plain


def from_described(text: str) -> dict[str, Any]:
    """The stored settings as plain values, with current names.

    Version 0.1.0 stored the settings of a command under one key, "execution".
    """
    stored: dict[str, Any] = NEWER | {FIELDS.get(k, k): v for k, v in from_text(text).items()}
    stored |= {name: current(stored[name]) for name in PARTS if name in stored}
    if "space" in stored:  # the rows of a table have no names to update
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
    """The settings of a stored study. Parts with external code are `UnimportedCode`.

    Args:
        there: settings whose parts replace those with the same description, and functions without
            a name. A policy that its caller has not named replaces nothing.
        trust: import all code that the database names.
        given: parts that the caller passes again.
    """
    stored = from_described(text)
    parts = {name: getattr(there, name, None) for name in PARTS}
    if there is not None and there.names_no_policy:
        del parts["policy"]
    for name in PARTS:
        stored[name] = given.get(name) or _part(stored[name], parts.get(name), trust)
    stored["steps"] = None if stored["steps"] is None else Steps(**stored["steps"])
    stored["learn_from"] = tuple(map(_restore_source, stored["learn_from"]))
    return Settings.of(_restore_space(stored.pop("space")), stored.pop("budget"), **stored)


def _part(stored: Any, there: Any, trust: bool) -> Any:
    external = external_in(stored)
    if not external or (trust and None not in external):
        return restore(stored)
    same = there is not None and describe(there) == stored
    return there if same or (there is not None and None in external) else UnimportedCode(stored)


def external_in(described: Any) -> list[str | None]:
    """The names in a description that are not Farthing's own; None for a nameless function."""
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


def missing_code(part: str, unseen: UnimportedCode) -> InvalidInput:
    """The error for a part that is needed, but whose code was not imported."""
    names = external_in(unseen.described)
    if None in names:
        return InvalidInput(
            f"The study uses a function in {part}= that cannot be imported: a lambda, or one "
            "defined in a script or in another function. Open the study in Python, and pass the "
            f"function again: Study.open(url, name, {part}=...)."
        )
    return InvalidInput(
        f"The study uses {names[0]} in {part}=, which is not part of Farthing. Pass it again: "
        f"Study.open(url, name, {part}=...). If you trust everyone who can write to the database, "
        "trust=True imports it. To only look at the study, use look=True."
    )


def _ours(name: Any) -> Named:
    """The entry of a stored name; an empty one for code of users."""
    return ours(name) or Named(None)


def differing(one: str, other: str) -> list[str]:
    """The settings in which two texts differ. The order of resources in a budget counts too."""
    there, here = from_described(one), from_described(other)
    for each in (there, here):
        each["budget"] = each["budget"] and list(each["budget"].items())
    return [name for name in here if there.get(name) != here[name]]


# ── parts of settings ──────────────────────────────────────────────────────────────────────────


class _Missing:
    """Stands for a function that could not be stored."""

    def __repr__(self) -> str:
        return "a function that cannot be imported"


MISSING = _Missing()


def describe(value: Any) -> Any:
    """The plain values that describe dataclasses, functions and plain values."""
    if isinstance(value, UnimportedCode):
        return value.described
    if is_dataclass(value) and not isinstance(value, type):
        name = name_of(value)
        fixed = _ours(name).fixed
        stored = [f.name for f in fields(value) if f.init and not f.name.startswith("_")]
        return {KIND: name or _path_of(type(value))} | {
            each: describe(getattr(value, each)) for each in stored if each not in fixed
        }
    if isinstance(value, Mapping):
        return {name: describe(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(describe(item) for item in value)
    if not callable(value):
        return value
    if isinstance(value, type) or not hasattr(value, "__qualname__"):
        raise InvalidInput(
            f"{value!r} cannot be stored in a database. Make its class a frozen dataclass whose "
            "fields are its settings."
        )
    path = _path_of(value) if _is_importable(value) else None
    return {FUNCTION: name_of(value) or path}


def restore(described: Any) -> Any:
    """The value of a description, with MISSING for functions that could not be stored."""
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
            f"The study uses {described[KIND]}, which is not a dataclass here. "
            "Restore that class, or pass an instance when you open the study."
        )
    return kind(**parts, **own.fixed)


def _describe_space(space: Space) -> dict[str, Any]:
    """The description of the parameters, and the rows of a table or the allowed combinations."""
    rows = None if space.rows is None else list(space.allowed or ())
    parameters = {
        name: {KIND: name_of(parameter) or _path_of(type(parameter))} | _fields_of(parameter)
        for name, parameter in space.parameters.items()
    }
    found: dict[str, Any] = {"parameters": parameters, "rows": rows}
    if rows is None and space.allowed is not None:  # older versions do not know this key
        found["allowed"] = list(space.allowed)
    return found


def _fields_of(parameter: Any) -> dict[str, Any]:
    """The fields of a parameter, without fields of None that older versions do not know."""
    given = {f.name: getattr(parameter, f.name) for f in fields(parameter)}
    given["when"] = describe(given["when"])  # it may have a range; options are plain values
    newer = ("cost", "step")
    return {name: value for name, value in given.items() if name not in newer or value is not None}


def _restore_space(described: Mapping[str, Any]) -> Space:
    """The space of a description."""
    if unknown := external_in(described["parameters"]):
        raise InvalidInput(
            f"The space of the study has a parameter of the kind {unknown[0]!r}, which this "
            "version of Farthing does not know. Upgrade Farthing, or check who wrote this database."
        )
    parameters = restore(described["parameters"])
    if described["rows"] is None:
        return Space(parameters, allowed=described.get("allowed"))
    # Older versions allowed duplicate rows.
    rows = {to_text(row): row for row in described["rows"]}
    return Space.from_rows(list(rows.values()), parameters)


def _describe_source(source: Source) -> dict[str, Any]:
    """The rows of a source."""
    return {
        "name": source.name,
        "about": source.about,
        "fingerprint": source.fingerprint,
        "x": _numbers(source.x),
        "y": _numbers(source.y),
        "cost": {resource: _numbers(amounts) for resource, amounts in source.cost.items()},
        "censored": source.censored.astype(int).tolist(),
    }


def _numbers(array: Any) -> Any:
    """An array as a list, with None for nan: two lists with nan are never equal."""
    found = array.astype(object)
    found[np.isnan(array)] = None
    return found.tolist()


def _restore_source(described: Mapping[str, Any]) -> Source:
    """The source of a description. Its rows must be those of its fingerprint."""
    x, y = (np.array(described[name], dtype=np.float64) for name in ("x", "y"))
    cost = {r: np.array(each, dtype=np.float64) for r, each in described["cost"].items()}
    censored = np.array(described["censored"], dtype=np.bool_)
    name, about = str(described["name"]), str(described["about"])
    source = Source(name, x, y, cost, censored, about=about)
    if source.fingerprint != described["fingerprint"]:
        raise ValueError(f"the rows of source {name!r} are not those of its fingerprint")
    return source


def _path_of(thing: type | Callable[..., Any]) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def _is_importable(function: Any) -> bool:
    if function.__module__ == "__main__":
        return False  # which is another module in another process
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
            f"The study uses {name}, which cannot be imported here. "
            "Make it importable, or pass a replacement when you open the study."
        ) from None
    return found


def _import(module: str) -> Any:
    return importlib.import_module(module)
