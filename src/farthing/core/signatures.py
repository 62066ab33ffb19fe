"""A decorator that shows the settings of a function one by one in its signature."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar, cast

from farthing.core.settings import Settings

__all__ = ["takes_settings"]

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_settings(options: type) -> Callable[[Function], Function]:
    """Show each of the `options` that a function takes as `**settings`, and refuse all others.

    Args:
        options: `SearchOptions` or `RunOptions`.
    """
    defaults = {f.name: f.default for f in fields(Settings)} | {"policy": None}

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name])
            for name in options.__annotations__
        ]
        signature = signature.replace(parameters=[*named, *more])

        @wraps(function)
        def checked(*args: Any, **settings: Any) -> Any:
            _check_names(function, signature, settings)
            signature.bind(*args, **settings)
            return function(*args, **settings)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Function, checked)

    return decorate


def _check_names(
    function: Callable[..., Any], signature: inspect.Signature, given: Mapping[str, Any]
) -> None:
    """Refuse an argument that the function does not have, and name the nearest one that it has."""
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    for name in given:
        if name not in signature.parameters:
            called = function.__qualname__.removesuffix(".__init__")
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"It has {', '.join(names)}."
            raise TypeError(f"{called}() has no argument {name!r}. {hint}")
