"""The connections of the server: their number and their silence are limited.

Every program of this machine can connect, without a token. A client that connects and sends no
complete request must not use up the files that this process may open.
"""

from __future__ import annotations

import resource
from asyncio import Transport

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]

SILENCE = 20.0  # seconds for a request to arrive
MOST = 256  # open connections
FILES = 4  # connections use at most one in four of the files that this process may open


class Connection(H11Protocol):
    """A connection that is closed if no complete request arrives in time.

    If there are too many connections, a new one replaces one that waits for a request.
    """

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        most = min(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // FILES)
        if len(self.connections) >= most:
            waiting = next((each for each in self.connections if _is_waiting(each)), None)
            (waiting.transport if waiting is not None else transport).abort()
            self.connections.discard(waiting)
        H11Protocol.connection_made(self, transport)
        self.loop.call_later(SILENCE, self._check, None)

    def _check(self, before: object) -> None:
        """Close the connection if no request has arrived since the last check."""
        if self.transport.is_closing():
            return
        if _is_waiting(self) and self.cycle is before:
            self.transport.abort()
            return
        self.loop.call_later(SILENCE, self._check, self.cycle)


def _is_waiting(connection: object) -> bool:
    """Whether a connection waits for a complete request."""
    assert isinstance(connection, H11Protocol)
    return connection.cycle is None or connection.cycle.response_complete
