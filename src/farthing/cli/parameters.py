"""Parameters as text: `float:1e-5:1e-1:log`, `int:16:512:step=16`, `bool`, `choice:hinge,log`.

`int:4:256:log:increases` declares that larger values cost more. The initial design then avoids
them.

A description may end with conditions, all of which must hold: `:when=solver=sgd,adam`,
`:when=layers>=2`, `:when=layers<=4`.

An item of a list may stand in double quotes, and then contain commas; `""` inside quotes is one
quote. In a file, a parameter may also be a table:
{type = "float", low = 0, high = 1, when = {solver = "sgd", layers = {at_least = 2}}}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from farthing.errors import InvalidInput
from farthing.space.conditions import Range
from farthing.space.parameters import option_of
from farthing.space.space import Bool, Categorical, Float, Int, Ordinal, Parameter

__all__ = ["configuration_of", "parameter_of", "parameters_of", "split_parameter"]

KINDS: Mapping[str, Callable[..., Parameter]] = {
    "float": Float,
    "int": Int,
    "ordinal": Ordinal,
    "choice": Categorical,
    "bool": Bool,
}
ADVICE = (
    "Write name=float:1e-5:1e-1:log, name=int:1:16, name=int:16:512:step=16, "
    "name=choice:hinge,log, name=ordinal:16,32,64:log or name=bool"
)
SLOPES = ("increases", "decreases")  # the cost as a function of the value
NAME = re.compile(r"[\w.-]+")
CONDITION = re.compile(r"([\w.-]+)(>=|<=|=)(.+)", re.DOTALL)
WHEN = re.compile(r':when=(?=(?:[^"]*"[^"]*")*[^"]*\Z)')  # not in quotes
ITEM = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|\Z)|([^,]*)(?:,|\Z)', re.DOTALL)


def split_parameter(text: str) -> tuple[str, str]:
    """The name and the description of `lr=float:1e-5:1e-1:log`."""
    name, equals, described = text.partition("=")
    if not equals or not described or NAME.fullmatch(name) is None:
        raise InvalidInput(f"--param {text}: expected a name and a range or a list. {ADVICE}.")
    return name, described


def parameters_of(
    described: Mapping[str, Any], known: Mapping[str, Parameter] | None = None
) -> dict[str, Parameter]:
    """The parameters that texts or tables describe.

    Args:
        known: parameters that are not described here, but that a condition may name.
    """
    found = {name: parameter_of(name, each) for name, each in described.items()}
    parents = {**(known or {}), **found}
    for name, parameter in found.items():
        if parameter.when is not None and isinstance(described[name], str):
            when = {
                each: _typed(given, parents[each]) if each in parents else given
                for each, given in parameter.when.items()
            }
            found[name] = replace(parameter, when=when)
    return found


def parameter_of(name: str, described: Any) -> Parameter:
    """The parameter that a text or a table describes; values in conditions of a text are texts."""
    try:
        return _parameter(name, described)
    except InvalidInput as error:
        named = str(error).startswith(f"Parameter {name}")
        what = (
            f"Parameter {name}={described}" if isinstance(described, str) else f"Parameter {name}"
        )
        raise InvalidInput(str(error) if named else f"{what}: {error}") from None


def _parameter(name: str, described: Any) -> Parameter:
    if isinstance(described, Mapping):
        return _from_table(name, described)
    if not isinstance(described, str):
        raise InvalidInput(f"Parameter {name} = {described!r}: expected a string or a table.")
    text, *conditions = WHEN.split(described)
    kind, _, rest = text.partition(":")
    what = f"Parameter {name}={described}"
    when = _conditions(conditions, what)
    if kind in ("float", "int"):
        return _range(kind, rest.split(":"), when, what)
    if kind == "ordinal":
        values, log = (rest[: -len(":log")], True) if rest.endswith(":log") else (rest, False)
        return Ordinal(_as_numbers(_items(values, what)), log=log, when=when)
    if kind == "choice":
        return Categorical(_items(rest, what), when=when)
    if text == "bool":
        return Bool(when=when)
    raise InvalidInput(f"{what}: {kind!r} is not a kind of parameter. {ADVICE}.")


def _range(kind: str, parts: list[str], when: Mapping[str, Any] | None, what: str) -> Parameter:
    low, high, *words = parts if len(parts) in (2, 3, 4) else ("", "")
    log, slope = "log" in words, [word for word in words if word in SLOPES]
    steps = [word.removeprefix("step=") for word in words if word.startswith("step=")]
    if len(words) != log + len(slope) + len(steps) or len(slope) > 1 or len(steps) > 1:
        raise InvalidInput(
            f"{what}: after the range, expected nothing, log, {' or '.join(SLOPES)} (the effect on "
            f"the cost), step=NUMBER, or two of these. {ADVICE}."
        )
    cost: Any = slope[0] if slope else None
    try:
        if kind == "float":
            step = float(steps[0]) if steps else None
            return Float(float(low), float(high), log=log, step=step, when=when, cost=cost)
        size = int(steps[0]) if steps else None
        return Int(int(low), int(high), log=log, step=size, when=when, cost=cost)
    except InvalidInput:
        raise
    except ValueError:
        number, step_too = "a number" if kind == "float" else "an integer", bool(steps)
        raise InvalidInput(
            f"{what}: expected {number} for low and for high{' and for step' * step_too}. {ADVICE}."
        ) from None


def _conditions(texts: list[str], what: str) -> dict[str, Any] | None:
    """The conditions of `solver=sgd,adam` and `layers>=2`; two bounds make one range."""
    found: dict[str, Any] = {}
    for text in texts:
        match = CONDITION.fullmatch(text)
        if match is None:
            raise InvalidInput(
                f"{what}: the condition when={text} is incomplete. Write when=solver=sgd, "
                "when=layers>=2 or when=layers<=4. Quote the whole text: a shell reads > and < "
                "as redirections."
            )
        parent, sign, right = match.groups()
        given: Any = Range(low=right) if sign == ">=" else Range(high=right)
        if sign == "=":
            items = _items(right, what)
            given = items[0] if len(items) == 1 else items
        if parent in found:
            bounds = (found[parent], given) if sign != "=" else ()
            lows = [each.low for each in bounds if isinstance(each, Range) and each.low]
            highs = [each.high for each in bounds if isinstance(each, Range) and each.high]
            if (len(lows), len(highs)) != (1, 1):
                raise InvalidInput(
                    f"{what}: two conditions on {parent}. Give one, such as when={parent}=a,b, or "
                    f"a lower and an upper bound: when={parent}>=2:when={parent}<=4."
                )
            given = Range(lows[0], highs[0])
        found[parent] = given
    return found or None


def _typed(given: Any, parent: Parameter) -> Any:
    """A condition of texts as one of values of its parent."""
    if isinstance(given, list):
        return [value_of(each, parent) for each in given]
    if isinstance(given, Range):
        low, high = (
            None if bound is None else value_of(bound, parent) for bound in (given.low, given.high)
        )
        return Range(low, high)
    return value_of(given, parent)


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
    if isinstance(settings.get("when"), Mapping):
        settings["when"] = {
            parent: _table_condition(name, given) for parent, given in settings["when"].items()
        }
    try:
        parameter = KINDS[kind](**settings)
    except TypeError as error:
        message = str(error).split(") ", 1)[-1].split("() ", 1)[-1]
        raise InvalidInput(f"Parameter {name} of type {kind}: {message}.") from None
    return parameter


def _table_condition(name: str, given: Any) -> Any:
    """The condition {at_least = 2}, {at_most = 4} or {between = [2, 4]}, or a plain value."""
    if not isinstance(given, Mapping):
        return given
    bounds = given.get("between")
    if set(given) == {"between"} and isinstance(bounds, list) and len(bounds) == 2:
        return Range(*bounds)
    if given and set(given) <= {"at_least", "at_most"}:
        return Range(given.get("at_least"), given.get("at_most"))
    raise InvalidInput(
        f"Parameter {name}: the condition {dict(given)} is not one of {{at_least = 2}}, "
        "{at_most = 4} and {between = [2, 4]}."
    )


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
    return option_of(text, options)
