"""`farthing dashboard` where it cannot begin."""

import socket
import sys

import pytest

from farthing import Float, Study


@pytest.fixture
def there(farthing):
    Study.create("farthing.db", name="default", space={"x": Float(0, 1)}).close()
    return farthing


def test_a_database_that_is_not_there_is_not_made(farthing, tmp_path):
    said = farthing("dashboard", "none.db")
    assert (said.code, said.out) == (2, "")
    assert "There is no database 'none.db' here." in said.err
    assert not (tmp_path / "none.db").exists()


def test_a_port_that_is_taken(there):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = there("dashboard", "--port", str(taken.getsockname()[1]))
    assert (said.code, said.out) == (2, "")
    assert "cannot be used" in said.err
    assert "--port" in said.err


@pytest.mark.parametrize("missing", ["starlette.applications", "uvicorn"])
def test_a_missing_extra_is_named(there, monkeypatch, missing):
    for name in [n for n in sys.modules if n.startswith("farthing.dashboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    said = there("dashboard")
    assert (said.code, said.out) == (2, "")
    assert "pip install 'farthing[dashboard]'" in said.err
    assert len(said.err.splitlines()) == 1
