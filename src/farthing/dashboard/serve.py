"""The server: a socket on this machine only, a token, and the address to open."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from farthing.errors import InvalidInput
from farthing.storage import Database

__all__ = ["serve"]

LOOPBACK = "127.0.0.1"
PATIENCE = 3  # seconds that open pages are given when it ends


def serve(url: str, *, port: int, changes: bool, ready: Callable[[str], None]) -> None:
    """Show the studies of a database until interrupted.

    Args:
        port: 0: one that is free.
        ready: called with the address to open.

    Raises:
        InvalidInput: the extra is not installed, or the port is taken.
    """
    try:
        import uvicorn

        from farthing.dashboard.app import make_app
        from farthing.dashboard.guard import Guard
        from farthing.dashboard.watcher import Watcher
    except ImportError as error:
        raise InvalidInput(
            f"The dashboard needs {error.name}, which is not installed: "
            "pip install 'farthing[dashboard]'."
        ) from None
    database = Database(url)
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
            access_log=False,  # the token is in an address
            server_header=False,
            timeout_graceful_shutdown=PATIENCE,
        )
        server = uvicorn.Server(config)
        end = server.handle_exit

        def end_pages(sig: int, frame: FrameType | None) -> None:
            watcher.closing = True  # pages that listen would be waited for
            end(sig, frame)

        server.handle_exit = end_pages  # type: ignore[method-assign]
        ready(f"http://{LOOPBACK}:{at}/?token={token}")
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()  # whoever opens the address at once is let wait
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"Port {port} cannot be used: {error.strerror}. Name another with --port, or 0 for one "
            "that is free."
        ) from None
    return listener
