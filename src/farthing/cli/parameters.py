"""Parameters as text: `float:1e-5:1e-1:log`, `int:1:16`, `choice:hinge,log`, `ordinal:16,32:log`.

`int:4:256:log:increases` declares that larger values cost more. The initial design then avoids
them.

An item of a list may stand in double quotes, and then contain commas; `""` inside quotes is one
quote. In a file, a parameter may also be a table:
{type = "float", low = 0, high = 1, when = {a = "b"}}.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from farthing.errors import InvalidInput
from farthing.space.space import Categorical, Float, Int, Ordinal, Parameter

__all__ = ["configuration_of", "parameter_of", "split_parameter"]

KINDS = {"float": Float, "int": Int, "ordinal": Ordinal, "choice": Categorical}
ADVICE = (
    "Write name=float:1e-5:1e-1:log, name=int:1:16, name=choice:hinge,log or "
    "name=ordinal:16,32,64:log"
)
SLOPES = ("increases", "decreases")  # the cost as a function of the value
NAME = re.compile(r"[\w.-]+")
ITEM = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|\Z)|([^,]*)(?:,|\Z)', re.DOTALL)


def split_parameter(text: str) -> tuple[str, str]:
    """The name and the description of `lr=float:1e-5:1e-1:log`."""
    name, equals, described = text.partition("=")
    if not equals or not described or NAME.fullmatch(name) is None:
        raise InvalidInput(f"--param {text}: expected a name and a range or a list. {ADVICE}.")
    return name, described


def parameter_of(name: str, described: Any) -> Parameter:
    """The parameter that a text or a table describes."""
    if isinstance(described, Mapping):
        return _from_table(name, described)
    if not isinstance(described, str):
        raise InvalidInput(f"Parameter {name} = {described!r}: expected a string or a table.")
    kind, _, rest = described.partition(":")
    what = f"Parameter {name}={described}"
    if kind in ("float", "int"):
        return _range(kind, rest.split(":"), what)
    if kind == "ordinal":
        values, log = (rest[: -len(":log")], True) if rest.endswith(":log") else (rest, False)
        return Ordinal(_as_numbers(_items(values, what)), log=log)
    if kind == "choice":
        return Categorical(_items(rest, what))
    raise InvalidInput(f"{what}: {kind!r} is not a kind of parameter. {ADVICE}.")


def _range(kind: str, parts: list[str], what: str) -> Parameter:
    low, high, *words = parts if len(parts) in (2, 3, 4) else ("", "")
    log, slope = "log" in words, [word for word in words if word in SLOPES]
    if len(words) != log + len(slope) or len(slope) > 1:
        raise InvalidInput(
            f"{what}: after the range, expected nothing, log, {' or '.join(SLOPES)} (the effect on "
            f"the cost), or log and one of these. {ADVICE}."
        )
    cost: Any = slope[0] if slope else None
    try:
        if kind == "float":
            return Float(float(low), float(high), log=log, cost=cost)
        return Int(int(low), int(high), log=log, cost=cost)
    except InvalidInput:
        raise
    except ValueError:
        number = "a number" if kind == "float" else "an integer"
        raise InvalidInput(f"{what}: expected {number} for low and for high. {ADVICE}.") from None


def _items(text: str, what: str) -> list[str]:
    """The items of a list, without their quotes."""
    if not text:
        raise InvalidInput(f"{what}: the list is empty. {ADVICE}.")
    items, at = [], 0
    while at <= len(text):
        match = ITEM.match(text, at)
        assert match is not None  # the second alternative matches any text
        quoted, bare = match.groups()
        items.append(bare if quoted is None else quoted.replace('""', '"'))
        at = match.end() if match.end() > at and match[0].endswith(",") else len(text) + 1
    return items


def _as_numbers(items: list[str]) -> list[Any]:
    """The items as numbers if all of them are numbers."""
    for number in (int, float):
        try:
            return [number(item) for item in items]
        except ValueError:
            continue
    return list(items)


def _from_table(name: str, described: Mapping[str, Any]) -> Parameter:
    settings = dict(described)
    kind = settings.pop("type", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(
            f"Parameter {name}: type is {kind!r}, expected one of {', '.join(KINDS)}."
        )
    if "values" in settings and kind == "choice":
        settings["options"] = settings.pop("values")
    try:
        parameter: Parameter = KINDS[kind](**settings)
    except TypeError as error:
        message = str(error).split(") ", 1)[-1].split("() ", 1)[-1]
        raise InvalidInput(f"Parameter {name} of type {kind}: {message}.") from None
    return parameter


def configuration_of(
    described: Any, parameters: Mapping[str, Parameter], option: str = "--start"
) -> dict[str, Any]:
    """The values of `lr=0.01,depth=6`, or of a table; parameters may be missing."""
    if isinstance(described, Mapping):
        return dict(described)
    params: dict[str, Any] = {}
    for item in _items(str(described), f"{option} {described}"):
        name, equals, text = item.partition("=")
        name = name.strip()
        if not equals or name not in parameters:
            raise InvalidInput(
                f"{option} {described}: expected values of {', '.join(parameters)}, such as "
                f"{next(iter(parameters))}=1."
            )
        params[name] = value_of(text.strip(), parameters[name])
    return params


def value_of(text: str, parameter: Parameter) -> Any:
    """The value of a parameter that a text represents."""
    if isinstance(parameter, Float | Int):
        try:
            return int(text) if isinstance(parameter, Int) else float(text)
        except ValueError:
            raise InvalidInput(
                f"{text!r} is not a number: expected a value of {parameter}."
            ) from None
    options = parameter.options if isinstance(parameter, Categorical) else parameter.values
    return next((option for option in options if str(option) == text), text)
