"""The address of a database as it may be shown: without the passwords in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

from farthing.errors import InvalidInput

__all__ = ["check_no_secret", "printable", "secrets_in"]

HIDDEN = "***"
SECRET = 4  # characters: a shorter password may stand anywhere by chance
# Up to the last @, because a password that should have been escaped may hold any sign.
USER = re.compile(r"([^:@/?]*:)(.*)(?=@)", re.DOTALL)
SCHEME = re.compile(r"[\w+]+:/{1,2}(?=[^/])|")
# An option of a URL goes on until the next one begins; libpq also takes "host=h password=p".
OPTION = re.compile(r"([?&][^=&?]*=)(.*?)(?=&[^=&]*=|$)", re.DOTALL)
WORD = re.compile(r"((?:^|(?<=\s))(?:ssl)?pass(?:word|file)\s*=\s*)('[^']*'|\S+)")
TELLING = ("pass", "pwd", "secret", "token", "key")  # in the name of an option


def printable(address: object) -> str:
    """An address, whether it can be parsed or not, without its passwords."""
    return _hiding(str(address), lambda secret: None)


def secrets_in(address: object) -> list[str]:
    """What `printable` hides, as it is written and as it is meant."""
    found: list[str] = []
    _hiding(str(address), found.append)
    return list(dict.fromkeys(form for each in found for form in (each, unquote(each)) if form))


def check_no_secret(address: object, settings: str) -> None:
    """Settings are kept where all can read them: no password of the address may stand in them.

    Raises:
        InvalidInput: one does.
    """
    if any(secret in settings for secret in secrets_in(address) if len(secret) >= SECRET):
        raise InvalidInput(
            "The password of the database stands in the settings, which are kept in it for "
            "all to read. Let the command take it from a variable or a file."
        )


def _hiding(text: str, heard: Callable[[str], None]) -> str:
    def user(match: re.Match[str]) -> str:
        heard(match[2])
        return match[1] + HIDDEN

    def option(match: re.Match[str]) -> str:
        name = unquote(match[1]).lower()
        if not any(word in name for word in TELLING):
            return match[0]
        heard(match[2])
        return match[1] + HIDDEN

    begin = SCHEME.match(text)
    if begin is not None and not text.startswith("sqlite:"):
        rest = text[begin.end() :]
        if found := USER.match(rest):
            text = begin[0] + user(found) + rest[found.end() :]
    return (OPTION if "://" in text else WORD).sub(option, text)
