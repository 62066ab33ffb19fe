"""Show the address of a database without the passwords in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

from farthing.errors import InvalidInput

__all__ = ["check_no_secret", "printable", "secrets_in"]

HIDDEN = "***"
SECRET = 4  # characters; a shorter password may occur anywhere by chance
# Up to the last @, because a password that was not escaped may contain any character.
USER = re.compile(r"([^:@/?]*:)(.*)(?=@)", re.DOTALL)
SCHEME = re.compile(r"[\w+]+:/{1,2}(?=[^/])|")
# The value of a URL option ends at the next option. libpq also takes "host=h password=p".
OPTION = re.compile(r"([?&][^=&?]*=)(.*?)(?=&[^=&]*=|$)", re.DOTALL)
WORD = re.compile(r"((?:^|(?<=\s))(?:ssl)?pass(?:word|file)\s*=\s*)('[^']*'|\S+)")
TELLING = ("pass", "pwd", "secret", "token", "key")  # in the name of an option


def printable(address: object) -> str:
    """An address, whether it can be parsed or not, without its passwords."""
    return _hide(str(address), lambda secret: None)


def secrets_in(address: object) -> list[str]:
    """What `printable` hides, as written and with its escapes decoded."""
    found: list[str] = []
    _hide(str(address), found.append)
    return list(dict.fromkeys(form for each in found for form in (each, unquote(each)) if form))


def check_no_secret(address: object, settings: str) -> None:
    """Check that no password of the address is in the settings, which many people can read.

    Raises:
        InvalidInput: a password is in the settings.
    """
    if any(secret in settings for secret in secrets_in(address) if len(secret) >= SECRET):
        raise InvalidInput(
            "The settings contain the password of the database. They are stored in the database, "
            "where other users can read them. Pass the password in an environment variable or a "
            "file."
        )


def _hide(text: str, report: Callable[[str], None]) -> str:
    """The text with *** for each password; `report` is called with each of them."""

    def user(match: re.Match[str]) -> str:
        report(match[2])
        return match[1] + HIDDEN

    def option(match: re.Match[str]) -> str:
        name = unquote(match[1]).lower()
        if not any(word in name for word in TELLING):
            return match[0]
        report(match[2])
        return match[1] + HIDDEN

    begin = SCHEME.match(text)
    if begin is not None and not text.startswith("sqlite:"):
        rest = text[begin.end() :]
        if found := USER.match(rest):
            text = begin[0] + user(found) + rest[found.end() :]
    return (OPTION if "://" in text else WORD).sub(option, text)
