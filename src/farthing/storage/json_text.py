"""JSON that preserves values: floats exactly, tuples as tuples, NumPy scalars as numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from farthing.errors import InvalidInput

__all__ = ["from_text", "from_texts", "storable", "to_text"]

TUPLE = "__tuple__"


def to_text(value: Any) -> str:
    """The JSON of a value. Equal values have equal texts."""
    text = json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate, as JSON escapes it


def storable(value: Any) -> Any:
    """A text that every database accepts: NUL and lone surrogates become escapes."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def from_text(text: str) -> Any:
    """The value of a text."""
    return json.loads(text, object_hook=_untagged if TUPLE in text else None)


def from_texts(texts: Sequence[str | None]) -> list[Any]:
    """The values of many texts, None for None. One call is five times as fast as many."""
    found = from_text(f"[{','.join('null' if text is None else text for text in texts)}]")
    if len(found) != len(texts):
        raise ValueError("a text that is not one JSON value")
    return list(found)


def _plain(value: Any) -> Any:
    if value is None or type(value) in (str, float, int, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return {TUPLE: [_plain(item) for item in value]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    raise InvalidInput(
        f"{value!r} cannot be stored in a database. Expected a number, a string, a boolean, None, "
        "or a list or dict of these. Use a name for it, and look the name up in your own code."
    )


def _untagged(found: dict[str, Any]) -> Any:
    return tuple(found[TUPLE]) if TUPLE in found else found
