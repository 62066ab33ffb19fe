"""A command with placeholders for parameters: `python train.py --lr {lr}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from farthing.errors import InvalidInput

__all__ = ["filled", "placeholders"]

# {{name}} is a literal {name}; {name} and {name?} are placeholders. All other braces are
# literal, as in JSON or `awk '{print $1}'`.
_PLACEHOLDER = re.compile(r"\{\{(?P<literal>[\w.-]+\??)\}\}|\{(?P<name>[\w.-]+)(?P<optional>\?)?\}")


def placeholders(argv: Sequence[str]) -> frozenset[str]:
    """The names of the parameters in a command."""
    found = (match for part in argv for match in _PLACEHOLDER.finditer(part))
    return frozenset(match["name"] for match in found if match["name"] is not None)


def filled(argv: Sequence[str], params: Mapping[str, Any]) -> list[str]:
    """The program and its arguments for one configuration.

    Raises:
        InvalidInput: a placeholder is not a parameter, or a value has a null character.
    """
    return [text for part in argv if (text := _fill(part, params)) is not None]


def _fill(part: str, params: Mapping[str, Any]) -> str | None:
    """One argument with its placeholders replaced; None if it is omitted."""
    omitted = False

    def value(match: re.Match[str]) -> str:
        nonlocal omitted
        name: str | None = match["name"]
        if name is None:
            return "{" + match["literal"] + "}"
        if name in params:
            return _text(params[name])
        if match["optional"] is None:
            raise InvalidInput(
                f"The command asks for {{{name}}}, but this configuration has only "
                f"{', '.join(params) or 'no parameters'}. Correct the name. For a parameter that "
                f"is not always active, write --{name}={{{name}?}}. For the literal text, write "
                f"{{{{{name}}}}}."
            )
        omitted = True
        return ""

    text = _PLACEHOLDER.sub(value, part)
    if "\0" in text:
        raise InvalidInput(
            f"The argument {text!r} has a null character, which no program can receive. Remove it."
        )
    return None if omitted else text


def _text(value: Any) -> str:
    """A value as an argument: text unchanged, a number with all its digits, true or false."""
    value = value if isinstance(value, str) else value.item() if hasattr(value, "item") else value
    return value if isinstance(value, str) else repr(value) if _simple(value) else json.dumps(value)


def _simple(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
