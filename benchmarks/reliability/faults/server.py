"""A separate PostgreSQL server that may crash, from the programs of the given server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534  # PostgreSQL refuses to run as root


@dataclass(frozen=True)
class Server:
    """A server that this process started.

    Attributes:
        home: its folder.
        programs: the folder of `pg_ctl`.
        port: on 127.0.0.1.
    """

    home: Path
    programs: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://farthing@127.0.0.1:{self.port}/postgres"

    def control(self, *words: str) -> None:
        """Call `pg_ctl` and wait until it has finished."""
        options = f"-p {self.port} -k {self.home} -c listen_addresses=127.0.0.1"
        log = ["-l", str(self.home / "log"), "-o", options]
        self._run("pg_ctl", "-D", str(self.home / "data"), "-w", *log, *words)

    def make(self) -> None:
        """Create its files."""
        account = ["-A", "trust", "-U", "farthing", "-E", "UTF8", "--locale=C"]
        self._run("initdb", "-D", str(self.home / "data"), "--no-sync", *account)

    def crash_and_restart(self) -> None:
        """Stop without a shutdown and start again. Writes that the kernel has are not lost."""
        self.control("-m", "immediate", "restart")

    def _run(self, program: str, *words: str) -> None:
        account = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        command = [str(self.programs / program), *words]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        subprocess.run(command, cwd=self.home, check=True, **quiet, **account)  # type: ignore[call-overload]


@contextmanager
def own_server(given: str) -> Iterator[Server]:
    """A server for this process alone, from the programs of the given one on this machine.

    Its home is in /tmp, because another user must be able to enter it.
    """
    home = Path(tempfile.mkdtemp(prefix="farthing-server-", dir="/tmp"))
    home.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(home, programs_of(given), port)
    try:
        server.make()
        server.control("start")
        yield server
    finally:
        if (home / "data" / "postmaster.pid").exists():
            server.control("-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)


def programs_of(given: str) -> Path:
    """The folder of the programs of a server on this machine."""
    import psycopg

    with psycopg.connect(given.replace("+psycopg", "")) as connection:
        found = connection.execute("SHOW data_directory").fetchone()
    assert found is not None
    return Path((Path(found[0]) / "postmaster.opts").read_text().split()[0]).parent
