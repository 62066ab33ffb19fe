"""Methods by name: `cooling`, `contextual(slack=0.5)`, `my_module:MyPolicy(3)`.

The folder is the list: `contextual` is the one name in the `__all__` of
`farthing/policies/contextual.py`. Arguments are literals, or methods of the same folder:
`after(20, in_a_row(2, stalled))`.
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


def _joints(folder: str) -> dict[str, Any]:
    """What makes one method of others: `any_of`, `after`."""
    package = importlib.import_module(f"farthing.{folder}")
    public = {name: getattr(package, name) for name in package.__all__}
    return {name: joint for name, joint in public.items() if not isinstance(joint, type)}


def make_method(text: str, folder: str, option: str) -> Any:
    """The policy, rule or cost model that a text names.

    Args:
        text: what was given.
        folder: where our own ones are.
        option: for which it was given; for messages.
    """
    module, colon, call = text.partition(":") if ":" in text.split("(")[0] else ("", "", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a text that may look like bad code
            tree = ast.parse(call.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unclear(text, option) from None
    if not colon:
        return _made(tree, text, folder, option)
    function = tree.func if isinstance(tree, ast.Call) else tree
    found = _import(module, ast.unparse(function), text, option)
    if isinstance(tree, ast.Call):
        found = _called(found, tree, text, folder, option)
    elif isinstance(found, type):
        found = _called(found, None, text, folder, option)
    return _checked(found, text, folder, option)


# What every method of a folder has; a price list is any function.
HAS = {
    "policies": ("a policy", ("needs", "reads", "models", "propose"), "cooling"),
    "stopping": ("a stopping rule", ("needs", "reads", "models", "__call__"), "max_trials(50)"),
    "cost": ("a function of the parameters or a cost model", ("__call__",), "log_gp"),
}


def _checked(found: Any, text: str, folder: str, option: str) -> Any:
    """Something of the user's, if it can be what it was given for."""
    what, attributes, example = HAS[folder]
    if all(hasattr(found, name) for name in attributes) or hasattr(found, "fit"):
        return found
    raise InvalidInput(f"{option} {text}: expected {what}, such as {example}; this is none.")


def _made(tree: ast.expr, text: str, folder: str, option: str) -> Any:
    """A method of ours."""
    call = tree if isinstance(tree, ast.Call) else None
    name = tree.func if isinstance(tree, ast.Call) else tree
    if not isinstance(name, ast.Name):
        raise _unclear(text, option)
    known = methods_in(folder)
    known_as = {**{method.__name__: method for method in known.values()}, **known}
    known_as |= _joints(folder)
    if name.id not in known_as:
        close = difflib.get_close_matches(name.id, known, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InvalidInput(
            f"{option} {text}: there is no {name.id!r}.{hint} There are {', '.join(known)}; your "
            "own is my_module:MyName."
        )
    return _called(known_as[name.id], call, text, folder, option)


def _called(kind: Any, call: ast.Call | None, text: str, folder: str, option: str) -> Any:
    given = [] if call is None else [_value(node, text, folder, option) for node in call.args]
    named = {
        str(keyword.arg): _value(keyword.value, text, folder, option)
        for keyword in ([] if call is None else call.keywords)
    }
    try:
        return kind(*given, **named)
    except TypeError as error:
        said = _misfit(kind, given, named) or str(error)
        raise InvalidInput(f"{option} {text}: {said}.") from None


def _misfit(kind: Any, given: list[Any], named: dict[str, Any]) -> str | None:
    """What is wrong with the arguments of a call, and those it takes; None: nothing is."""
    try:
        takes = inspect.signature(kind)
    except ValueError:  # of something that Python has no source of
        return None
    try:
        takes.bind(*given, **named)
    except TypeError as error:
        plain = (str(each.replace(annotation=each.empty)) for each in takes.parameters.values())
        return f"{error}. It is {kind.__name__}({', '.join(plain)})"
    return None


def _value(node: ast.expr, text: str, folder: str, option: str) -> Any:
    if isinstance(node, ast.Name | ast.Call):
        return _made(node, text, folder, option)
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError):
        raise _unclear(text, option) from None


def _import(module: str, name: str, text: str, option: str) -> Any:
    """Something of the user's, from this folder or from what is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever the user's module raises
        raise InvalidInput(
            f"{option} {text}: {name} cannot be imported from {module}: {error}."
        ) from None
    return found


def _unclear(text: str, option: str) -> InvalidInput:
    return InvalidInput(
        f"{option} {text}: expected a name such as cooling, a name with numbers or texts in "
        "brackets such as 'contextual(slack=0.5)', or my_module:MyName."
    )
