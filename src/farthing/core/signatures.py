"""A decorator that shows the settings of a function one by one in its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
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
            signature.bind(*args, **settings)
            return function(*args, **settings)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Function, checked)

    return decorate
