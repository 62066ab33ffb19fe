"""HTML and SVG in which every text is escaped, made visible and cut short, unless it is `Html`."""

from __future__ import annotations

from html import escape

from farthing.view.primitives import visible

__all__ = ["Html", "element", "joined", "text", "texts"]

MOST = 2_000  # characters of one text
VOID = frozenset(("br", "hr", "input", "link", "meta"))


class Html(str):
    """Markup that was made here: it is used as it is."""

    __slots__ = ()


Child = str | float | None


def text(given: object, most: int | None = MOST) -> Html:
    """One line of anything at all."""
    return given if isinstance(given, Html) else Html(escape(visible(given, most)))


def texts(given: str, most: int = MOST) -> Html:
    """Several lines: their ends stay."""
    kept = given[:most]
    cut = f"… ({len(given):,} characters)" if len(given) > most else ""
    lines = [escape(visible(line, most)) for line in kept.splitlines()]
    return Html("\n".join(lines) + cut)


def joined(*parts: Child, by: str = "") -> Html:
    """Parts one after the other; None is left out."""
    return Html(by.join(text(part) for part in parts if part is not None))


def element(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """`<name attribute="...">children</name>`.

    `class_` is `class`, `_` in another name is `-`; an attribute that is None or False is left out.
    Attributes are not cut short.
    """
    said = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{text(value, None)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{joined(*children)}</{name}>")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
