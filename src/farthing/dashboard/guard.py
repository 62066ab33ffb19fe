"""Access control around the whole application.

Every site that a browser visits can send requests to a server on this machine. So the guard checks:

- `Host` is our own (DNS rebinding can make another name point here).
- `Origin`, if there is one, is our own page.
- The browser has opened the printed address. Its token is exchanged for a cookie.
- A request changes nothing, unless changes were allowed.

The headers of every answer forbid framing, and loading anything from another site.
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
READING = ("GET", "HEAD")


@dataclass(frozen=True)
class Guard:
    """Passes permitted requests on to an application.

    Attributes:
        hosts: the permitted values of `Host`, such as "127.0.0.1:8080".
        token: the token at the end of the printed address.
        changes: whether requests may change something.
        session: the value of the cookie; the browser does not keep the token itself.
        folder: the random folder of all pages. A browser sends a cookie to every port of a host, so
            only this path keeps it from other servers on this machine.
    """

    app: App
    hosts: frozenset[str]
    token: str
    changes: bool = False
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    folder: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}")

    @property
    def cookie(self) -> str:
        """The name of the cookie; it contains the port, so that dashboards do not collide."""
        return f"farthing-{min(self.hosts).rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with a reason."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if reason := self._wrong_origin(headers):
            await _answer(send, 403, reason)
        elif any(name == "token" for name, _ in query):
            await self._log_in(scope, query, send)
        elif not (self._has_session(headers) and scope["path"].startswith(f"{self.folder}/")):
            reason = "Open the address that `farthing dashboard` printed; it contains the token."
            await _answer(send, 403, reason)
        elif scope["method"] not in READING and not self.changes:
            reason = "This dashboard is read-only. Start it with --allow-changes to change a study."
            await _answer(send, 403, reason)
        elif scope["method"] not in READING and "origin" not in headers:
            await _answer(send, 403, "A request that changes a study needs an Origin header.")
        else:
            path = scope["path"].removeprefix(self.folder)
            await self.app({**scope, "path": path}, receive, _with_headers(send))

    def _wrong_origin(self, headers: Mapping[str, str]) -> str | None:
        """Why a request does not come from our own page; None: it does."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return "This is not the host of the dashboard. Open the address that was printed."
        if origin is not None and origin != f"http://{host}":
            return "The request comes from another page."
        return None

    def _has_session(self, headers: Mapping[str, str]) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        given = cookies[self.cookie].value if self.cookie in cookies else ""
        return hmac.compare_digest(given.encode(), self.session.encode())

    async def _log_in(self, scope: Scope, query: list[tuple[str, str]], send: Send) -> None:
        """Exchange the token for a cookie, and redirect to the address without the token."""
        given = next(value for name, value in query if name == "token")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            await _answer(send, 403, "The token is wrong. Open the address that was printed.")
            return
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = scope["path"].removeprefix(f"{self.folder}/")  # a page that was opened before
        where = quote(path.encode("utf-8", "replace")) + (f"?{rest}" if rest else "")
        cookie = f"{self.cookie}={self.session}; HttpOnly; SameSite=Lax; Path={self.folder}/"
        location = f"{self.folder}/{where.lstrip('/')}"
        await _answer(send, 303, "", {"location": location, "set-cookie": cookie})


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            ours = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
            kept = [(k, v) for k, v in message.get("headers", []) if k.decode() not in HEADERS]
            message = {**message, "headers": [*kept, *ours]}
        await send(message)

    return sending


async def _answer(
    send: Send, status: int, text: str, more: Mapping[str, str] | None = None
) -> None:
    body = text.encode()
    headers = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
    fields = {**HEADERS, **headers, **(more or {})}
    encoded = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
