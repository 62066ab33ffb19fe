"""Clients that connect to the server and send no request."""

import re
import socket
import subprocess
import sys
import urllib.request
from unittest.mock import Mock

import pytest
from processes import PATIENCE
from runs import SPACE

from farthing import Study

FARTHING = (sys.executable, "-c", "from farthing.cli import main; main()")
FILES = 100  # that the server may open


def test_half_open_connections_do_not_stop_the_dashboard(tmp_path):
    Study.create(tmp_path / "s.db", name="a", space=SPACE, budget="$1").close()
    command = ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", *FARTHING, "dashboard", "s.db"]
    server = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    clients = []
    try:
        address = re.fullmatch(r"Open (http://\S+)\n", server.stdout.readline())[1]
        port = int(address.split(":")[2].split("/")[0])
        for k in range(2 * FILES):
            client = socket.create_connection(("127.0.0.1", port), PATIENCE)
            clients.append(client)
            if k % 2:
                client.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
        for _ in range(3):
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(address, timeout=PATIENCE) as answer:
                assert answer.status == 200
                assert "server" not in answer.headers  # other programs do not learn its version
    finally:
        for client in clients:
            client.close()
        server.terminate()
        _, errors = server.communicate(timeout=PATIENCE)
    assert errors == "Press Ctrl-C to end the dashboard.\n"


def test_a_connection_is_closed_if_no_request_arrives_between_two_checks():
    pytest.importorskip("uvicorn")
    from farthing.dashboard.connection import Connection

    waiting = []
    transport = Mock(is_closing=lambda: False)
    connection = Connection.__new__(Connection)
    connection.transport, connection.cycle = transport, None
    connection.loop = Mock(call_later=lambda _, check, before: waiting.append((check, before)))

    def check():
        called, before = waiting.pop()
        called(before)
        return transport.abort.called

    waiting.append((connection._check, None))
    connection.cycle = Mock(response_complete=False)  # an answer may take long
    assert not check()
    assert not check()
    connection.cycle = Mock(response_complete=True)  # another request was answered
    assert not check()
    assert check()
    assert not waiting


def test_a_connection_without_a_first_request_is_closed():
    pytest.importorskip("uvicorn")
    from farthing.dashboard.connection import Connection

    connection = Connection.__new__(Connection)
    connection.transport, connection.cycle = Mock(is_closing=lambda: False), None
    connection._check(None)
    assert connection.transport.abort.called
