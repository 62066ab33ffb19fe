"""Starts the server, on the loopback interface only, and creates the token."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from contextlib import suppress

from farthing.errors import InvalidInput
from farthing.storage import Database

__all__ = ["serve"]

LOOPBACK = "127.0.0.1"
BACKLOG = 16  # connections that are accepted at once, before `Connection` can refuse one
GRACE = 3  # seconds for open connections when the server stops


def serve(url: str, *, port: int, changes: bool, ready: Callable[[str], None]) -> None:
    """Serve the dashboard of a database until interrupted.

    Args:
        url: the address of the database.
        port: the port; 0: any free port.
        changes: whether users may stop studies and change their budgets.
        ready: called with the address to open.

    Raises:
        InvalidInput: the extra `dashboard` is not installed, or the port is taken.
    """
    try:
        import uvicorn

        from farthing.dashboard.app import make_app
        from farthing.dashboard.connection import Connection
        from farthing.dashboard.guard import Guard
        from farthing.dashboard.watcher import Watcher
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"The dashboard needs {error.name}, which is not installed. Install it with: "
            "pip install 'farthing[dashboard]'"
        ) from None
    database = Database(url, look=True)
    database.close()
    listener = _listen(port)
    with listener:
        at = listener.getsockname()[1]
        hosts = frozenset(f"{name}:{at}" for name in (LOOPBACK, "localhost"))
        token = secrets.token_urlsafe(32)
        watcher = Watcher(url)
        app = make_app(watcher, shown=database.shown, changes=changes)
        config = uvicorn.Config(
            Guard(app, hosts, token, changes),
            log_level="warning",
            access_log=False,  # the log would contain the token
            server_header=False,
            timeout_graceful_shutdown=GRACE,
            http=Connection,
            backlog=BACKLOG,
        )
        server = uvicorn.Server(config)
        ready(f"http://{LOOPBACK}:{at}/?token={token}")
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()  # a page that is opened at once waits for the server
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"Port {port} cannot be used: {error.strerror}. Pass another port with --port, or 0 "
            "for any free port."
        ) from None
    return listener
