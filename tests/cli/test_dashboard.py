"""`farthing dashboard` if it cannot start."""

import socket
import sys

import pytest

from farthing import Float, Study


@pytest.fixture
def with_study(farthing):
    Study.create("farthing.db", name="default", space={"x": Float(0, 1)}).close()
    return farthing


def test_a_missing_database_is_not_created(farthing, tmp_path):
    result = farthing("dashboard", "none.db")
    assert (result.code, result.out) == (2, "")
    assert "There is no database 'none.db' here." in result.err
    assert not (tmp_path / "none.db").exists()


def test_a_port_that_is_taken(with_study):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = with_study("dashboard", "--port", str(taken.getsockname()[1]))
    assert (result.code, result.out) == (2, "")
    assert "cannot be used" in result.err
    assert "--port" in result.err


@pytest.mark.parametrize("missing", ["starlette.applications", "uvicorn"])
def test_a_missing_extra_is_named(with_study, monkeypatch, missing):
    for name in [n for n in sys.modules if n.startswith("farthing.dashboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    result = with_study("dashboard")
    assert (result.code, result.out) == (2, "")
    assert "pip install 'farthing[dashboard]'" in result.err
    assert len(result.err.splitlines()) == 1
