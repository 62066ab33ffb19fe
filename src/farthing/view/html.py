"""Build HTML and SVG. Every text is escaped, made printable and shortened, unless it is `Html`."""

from __future__ import annotations

from html import escape

from farthing.view.primitives import visible

__all__ = ["Html", "element", "joined", "multiline", "text", "texts"]

MAX_CHARS = 2_000  # of one text
VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))


class Html(str):
    """Trusted markup, which is not escaped again."""

    __slots__ = ()


Child = str | float | None


def text(given: object, most: int | None = MAX_CHARS) -> Html:
    """Escape one line of text; `most` is the greatest number of characters."""
    return given if isinstance(given, Html) else Html(escape(visible(given, most)))


def multiline(given: str, most: int = MAX_CHARS) -> str:
    """Make text printable and shorten it, but keep its line breaks; it is not escaped."""
    cut = f"… ({len(given):,} characters)" if len(given) > most else ""
    return "\n".join(visible(line, most) for line in given[:most].splitlines()) + cut


def texts(given: str, most: int = MAX_CHARS) -> Html:
    """Escape text and keep its line breaks."""
    return Html(escape(multiline(given, most)))


def joined(*parts: Child, by: str = "") -> Html:
    """Join parts; None is left out."""
    return Html(by.join(text(part) for part in parts if part is not None))


def element(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """Build `<name attribute="...">children</name>`.

    `class_` stands for `class`, and `_` in other names for `-`. An attribute that is None or False
    is left out. Attributes are not shortened.
    """
    written = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{text(value, None)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{joined(*children)}</{name}>")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
