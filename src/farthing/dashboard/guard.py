"""Who may look: a door around the whole application.

A page on this machine is within reach of every site that a browser visits. So the name in `Host`
must be ours (a foreign name may have been made to point here), an `Origin` must be this page, the
reader must have been given the token that was printed, which becomes a cookie, and nothing changes
unless that was allowed. What is sent says that it may not be framed, nor fetch from elsewhere.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

__all__ = ["HEADERS", "Guard"]

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LOOKING = ("GET", "HEAD")


@dataclass(frozen=True)
class Guard:
    """An application that only those reach who may.

    Attributes:
        hosts: what `Host` may be, such as "127.0.0.1:8080".
        token: what the address that is printed ends in.
        changes: whether anything but looking is allowed.
        session: what the cookie holds; the token itself is not kept in the browser.
    """

    app: App
    hosts: frozenset[str]
    token: str
    changes: bool = False
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie(self) -> str:
        """Its name: dashboards on other ports have their own."""
        return f"farthing-{min(self.hosts).rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or say why not."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if why := self._foreign(headers):
            await _say(send, 403, why)
        elif any(name == "token" for name, _ in query):
            await self._enter(scope, query, send)
        elif not self._known(headers):
            await _say(send, 403, "Open the address that `farthing dashboard` printed: its token.")
        elif scope["method"] not in LOOKING and not self.changes:
            why = "This dashboard only looks. Start it with --allow-changes to change a study."
            await _say(send, 403, why)
        elif scope["method"] not in LOOKING and "origin" not in headers:
            await _say(send, 403, "A change has to say which page it comes from (Origin).")
        else:
            await self.app(scope, receive, _with_headers(send))

    def _foreign(self, headers: Mapping[str, str]) -> str | None:
        """Why a request does not come from our own page."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return "This is not the host that the dashboard was started for."
        if origin is not None and origin != f"http://{host}":
            return "The request comes from another page."
        return None

    def _known(self, headers: Mapping[str, str]) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        given = cookies[self.cookie].value if self.cookie in cookies else ""
        return hmac.compare_digest(given.encode(), self.session.encode())

    async def _enter(self, scope: Scope, query: list[tuple[str, str]], send: Send) -> None:
        """The token becomes a cookie, and leaves the address."""
        given = next(value for name, value in query if name == "token")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            await _say(send, 403, "The token is wrong. Open the address that was printed.")
            return
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        where = quote(scope["path"].encode("utf-8", "replace")) + (f"?{rest}" if rest else "")
        cookie = f"{self.cookie}={self.session}; HttpOnly; SameSite=Lax; Path=/"
        location = f"/{where.lstrip('/')}"  # never another host
        await _say(send, 303, "", {"location": location, "set-cookie": cookie})


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            ours = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
            kept = [(k, v) for k, v in message.get("headers", []) if k.decode() not in HEADERS]
            message = {**message, "headers": [*kept, *ours]}
        await send(message)

    return sending


async def _say(send: Send, status: int, text: str, more: Mapping[str, str] | None = None) -> None:
    body = text.encode()
    headers = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
    fields = {**HEADERS, **headers, **(more or {})}
    listed = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": body})
