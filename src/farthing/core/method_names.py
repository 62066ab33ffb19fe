"""Methods by name: `cooling`, `contextual(slack=0.5)`, `after(20, in_a_row(2, no_improvement))`.

The names are those of the files: `contextual` is the one name in the `__all__` of
`farthing/policies/contextual.py`. The class names are names, too: `ContextualEI(slack=0.5)`.
Arguments are literals, or methods of the same folder. A text imports nothing and calls only
Farthing's own methods. The command line adds `my_module:MyPolicy` for what its user types.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import sys
import warnings
from typing import Any, Literal

from farthing import cost, policies, stopping
from farthing.errors import InvalidInput

__all__ = ["Folder", "call_method", "methods_in", "named_method", "parse_call", "syntax_error"]

Folder = Literal["policies", "stopping", "cost"]
PACKAGES = {"policies": policies, "stopping": stopping, "cost": cost}
KINDS = {"policies": "policy", "stopping": "stopping rule", "cost": "cost model"}
OWN = "pass an object of your own"


def methods_in(folder: Folder) -> dict[str, type]:
    """The methods of a folder, by the name of their file."""
    public = (getattr(PACKAGES[folder], name) for name in PACKAGES[folder].__all__)
    files = {thing.__module__: thing for thing in public if isinstance(thing, type)}
    alone = {file for file in files if len(sys.modules[file].__all__) == 1}
    return {file.rpartition(".")[2]: files[file] for file in sorted(alone)}


def named_method(text: str, folder: Folder, shown: str, own: str = OWN) -> Any:
    """The policy, stopping rule or cost model of Farthing that a text names.

    Args:
        text: a name, or a call with arguments.
        shown: how the text was given, for error messages: "policy='ei'" or "--policy ei".
        own: what to do to use another method.

    Raises:
        InvalidInput: there is no such method, or its arguments are wrong.
    """
    tree = parse_call(text, shown, own)
    try:
        return _own_method(tree, folder, shown, own)
    except RecursionError:
        raise syntax_error(shown, own) from None


def parse_call(text: str, shown: str, own: str) -> ast.expr:
    """The syntax tree of a text that should be a name or a call."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser warns of a text that looks like bad code
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise syntax_error(shown, own) from None


def syntax_error(shown: str, own: str) -> InvalidInput:
    """The error for a text that is neither a name nor a call."""
    return InvalidInput(
        f"{shown}: expected a name such as cooling, a name with arguments such as "
        f"'contextual(slack=0.5)', or {own}."
    )


def call_method(kind: Any, call: ast.Call | None, folder: Folder, shown: str, own: str) -> Any:
    """Call a class or a function with the arguments of a call; None: without arguments."""
    args = [_value(node, folder, shown, own) for node in (call.args if call else ())]
    keywords = {
        str(keyword.arg): _value(keyword.value, folder, shown, own)
        for keyword in (call.keywords if call else ())
    }
    try:
        return kind(*args, **keywords)
    except TypeError as error:
        message = _signature_error(kind, args, keywords) or str(error)
        raise InvalidInput(f"{shown}: {message}.") from None


def _own_method(tree: ast.expr, folder: Folder, shown: str, own: str) -> Any:
    call = tree if isinstance(tree, ast.Call) else None
    name = tree.func if isinstance(tree, ast.Call) else tree
    if not isinstance(name, ast.Name):
        raise syntax_error(shown, own)
    methods, package = methods_in(folder), PACKAGES[folder]
    by_name: dict[str, Any] = {method.__name__: method for method in methods.values()} | methods
    # The functions that combine methods: `any_of`, `after`.
    public = {each: getattr(package, each) for each in package.__all__}
    by_name |= {each: thing for each, thing in public.items() if not isinstance(thing, type)}
    if name.id not in by_name:
        close = difflib.get_close_matches(name.id, by_name, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InvalidInput(
            f"{shown}: there is no {KINDS[folder]} {name.id!r}.{hint} Choose one of "
            f"{', '.join(methods)}, or {own}."
        )
    return call_method(by_name[name.id], call, folder, shown, own)


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


def _value(node: ast.expr, folder: Folder, shown: str, own: str) -> Any:
    if isinstance(node, ast.Name | ast.Call):
        return _own_method(node, folder, shown, own)
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError, RecursionError):
        raise syntax_error(shown, own) from None
