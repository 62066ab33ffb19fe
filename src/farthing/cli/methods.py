"""Methods by name: `cooling`, `contextual(slack=0.5)`, `my_module:MyPolicy(3)`.

The list of methods is the folder: `contextual` is the one name in the `__all__` of
`farthing/policies/contextual.py`. Arguments are literals, or methods of the same folder:
`after(20, in_a_row(2, no_improvement))`.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import os
import pkgutil
import sys
import warnings
from typing import Any

from farthing.errors import InvalidInput

__all__ = ["make_method", "methods_in"]


def methods_in(folder: str) -> dict[str, type]:
    """The methods of `policies`, `stopping` or `cost`, by the name of their file."""
    package = importlib.import_module(f"farthing.{folder}")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        file = importlib.import_module(f"{package.__name__}.{module.name}")
        if len(file.__all__) == 1:
            found[module.name] = getattr(file, file.__all__[0])
    return found


def _combinators(folder: str) -> dict[str, Any]:
    """The functions that combine methods: `any_of`, `after`."""
    package = importlib.import_module(f"farthing.{folder}")
    public = {name: getattr(package, name) for name in package.__all__}
    return {name: thing for name, thing in public.items() if not isinstance(thing, type)}


def make_method(text: str, folder: str, option: str) -> Any:
    """The policy, stopping rule or cost model that a text names.

    Args:
        text: the value of the option.
        folder: the folder of Farthing's own methods.
        option: the name of the option, for error messages.
    """
    module, colon, call = text.partition(":") if ":" in text.split("(")[0] else ("", "", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser warns of a text that looks like bad code
            tree = ast.parse(call.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _syntax_error(text, option) from None
    if not colon:
        return _own_method(tree, text, folder, option)
    function = tree.func if isinstance(tree, ast.Call) else tree
    found = _import(module, ast.unparse(function), text, option)
    if isinstance(tree, ast.Call):
        found = _call(found, tree, text, folder, option)
    elif isinstance(found, type):
        found = _call(found, None, text, folder, option)
    return _checked(found, text, folder, option)


# The attributes of every method of a folder. A known cost is any function.
INTERFACES = {
    "policies": ("a policy", ("needs", "reads", "propose"), "cooling"),
    "stopping": ("a stopping rule", ("needs", "reads", "__call__"), "max_trials(50)"),
    "cost": ("a function of the parameters or a cost model", ("__call__",), "log_gp"),
}


def _checked(found: Any, text: str, folder: str, option: str) -> Any:
    """An object of the user's module, if it has the interface that the option needs."""
    expected, attributes, example = INTERFACES[folder]
    if all(hasattr(found, name) for name in attributes) or hasattr(found, "fit"):
        return found
    raise InvalidInput(
        f"{option} {text}: expected {expected}, such as {example}, but got {type(found).__name__}."
    )


def _own_method(tree: ast.expr, text: str, folder: str, option: str) -> Any:
    """One of Farthing's own methods."""
    call = tree if isinstance(tree, ast.Call) else None
    name = tree.func if isinstance(tree, ast.Call) else tree
    if not isinstance(name, ast.Name):
        raise _syntax_error(text, option)
    methods = methods_in(folder)
    by_name = {**{method.__name__: method for method in methods.values()}, **methods}
    by_name |= _combinators(folder)
    if name.id not in by_name:
        close = difflib.get_close_matches(name.id, methods, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InvalidInput(
            f"{option} {text}: there is no {name.id!r}.{hint} Choose one of {', '.join(methods)}, "
            "or write my_module:MyName for your own."
        )
    return _call(by_name[name.id], call, text, folder, option)


def _call(kind: Any, call: ast.Call | None, text: str, folder: str, option: str) -> Any:
    args = [] if call is None else [_value(node, text, folder, option) for node in call.args]
    keywords = {
        str(keyword.arg): _value(keyword.value, text, folder, option)
        for keyword in ([] if call is None else call.keywords)
    }
    try:
        return kind(*args, **keywords)
    except TypeError as error:
        message = _signature_error(kind, args, keywords) or str(error)
        raise InvalidInput(f"{option} {text}: {message}.") from None


def _signature_error(kind: Any, args: list[Any], keywords: dict[str, Any]) -> str | None:
    """Why the arguments do not fit the signature, and the signature; None if they fit."""
    try:
        signature = inspect.signature(kind)
    except ValueError:  # some functions that are not written in Python have no signature
        return None
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        plain = (str(each.replace(annotation=each.empty)) for each in signature.parameters.values())
        return f"{error}. Its signature is {kind.__name__}({', '.join(plain)})"
    return None


def _value(node: ast.expr, text: str, folder: str, option: str) -> Any:
    if isinstance(node, ast.Name | ast.Call):
        return _own_method(node, text, folder, option)
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError):
        raise _syntax_error(text, option) from None


def _import(module: str, name: str, text: str, option: str) -> Any:
    """An object of the user's module, in the current folder or on the import path."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # the user's module may raise anything
        raise InvalidInput(
            f"{option} {text}: {name} cannot be imported from {module}: {error}."
        ) from None
    return found


def _syntax_error(text: str, option: str) -> InvalidInput:
    return InvalidInput(
        f"{option} {text}: expected a name such as cooling, a name with arguments such as "
        "'contextual(slack=0.5)', or my_module:MyName."
    )
