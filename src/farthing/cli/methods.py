"""Methods by name, as `core/method_names.py` lists them, or `my_module:MyPolicy(3)`."""

from __future__ import annotations

import ast
import importlib
import os
import sys
from typing import Any

from farthing.core.method_names import Folder, call_method, named_method, parse_call
from farthing.errors import InvalidInput

__all__ = ["make_method", "names_own_code"]

OWN = "write my_module:MyName for your own"

# The attributes of every method of a folder. A known cost is any function.
INTERFACES = {
    "policies": ("a policy", ("needs", "reads", "propose"), "cooling"),
    "stopping": ("a stopping rule", ("needs", "reads", "__call__"), "max_trials(50)"),
    "cost": ("a function of the parameters or a cost model", ("__call__",), "log_gp"),
}


def names_own_code(text: str) -> bool:
    """Whether a text names code of the user's, `my_module:MyPolicy(3)`."""
    return ":" in text.split("(")[0]


def make_method(text: str, folder: Folder, option: str) -> Any:
    """The policy, stopping rule or cost model that a text names.

    Args:
        text: the value of the option.
        folder: the folder of Farthing's own methods.
        option: the name of the option, for error messages.
    """
    shown = f"{option} {text}"
    if not names_own_code(text):
        return named_method(text, folder, shown, OWN)
    module, _, call = text.partition(":")
    tree = parse_call(call, shown, OWN)
    function = tree.func if isinstance(tree, ast.Call) else tree
    found = _import(module, ast.unparse(function), shown)
    given = tree if isinstance(tree, ast.Call) else None
    if given is not None or isinstance(found, type):
        _check_class(found, folder, shown)
        found = call_method(found, given, folder, shown, OWN)
    return _checked(found, folder, shown)


def _check_class(found: Any, folder: Folder, shown: str) -> None:
    """Check what a text would call, before the call: a text may come from a file of others.

    Raises:
        InvalidInput: it is not a class whose objects have the methods that the option needs.
    """
    expected, attributes, example = INTERFACES[folder]
    defined = {name for each in getattr(found, "__mro__", ()) for name in vars(each)}
    if not isinstance(found, type) or not {attributes[-1], "fit"} & defined:
        name = getattr(found, "__qualname__", type(found).__name__)
        raise InvalidInput(
            f"{shown}: only a class of {expected}, such as {example}, can have arguments, but "
            f"{name} is not. It was not called."
        )


def _checked(found: Any, folder: Folder, shown: str) -> Any:
    """An object of the user's module, if it has the interface that the option needs."""
    expected, attributes, example = INTERFACES[folder]
    if all(hasattr(found, name) for name in attributes) or hasattr(found, "fit"):
        return found
    raise InvalidInput(
        f"{shown}: expected {expected}, such as {example}, but got {type(found).__name__}."
    )


def _import(module: str, name: str, shown: str) -> Any:
    """An object of the user's module, in the current folder or on the import path."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # the user's module may raise anything
        raise InvalidInput(f"{shown}: {name} cannot be imported from {module}: {error}.") from None
    return found
