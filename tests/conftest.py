"""Databases to test on: an SQLite file, and a schema of its own on a PostgreSQL server; Ctrl-C.

Hypothesis draws the same examples every time, and has no limits of time: whether a change passes
depends on the change, not on what is drawn today or how busy the machine is.
"""

import os
import signal
import uuid
from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")

SERVER = os.environ.get("FARTHING_TEST_POSTGRES")
REASON = "FARTHING_TEST_POSTGRES does not name a server: .ci/postgres starts one"


@pytest.fixture(autouse=True, scope="session")
def home(tmp_path_factory):
    """Keep the locks and the outbox of tests out of the user's own folders."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path, monkeypatch):
    """The address of an empty database, of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'study.db'}"
        return
    if SERVER is None:
        pytest.skip(REASON)
    import psycopg

    monkeypatch.chdir(tmp_path)  # what trials print is kept in the current folder
    schema = f"test_{uuid.uuid4().hex}"
    server = SERVER.replace("+psycopg", "")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{SERVER}?options={quote(f'-csearch_path={schema}')}"
        for _ in range(10):  # sessions that are ending drop their temporary views beside us
            with suppress(psycopg.errors.DeadlockDetected):
                connection.execute(f"DROP SCHEMA {schema} CASCADE")
                break


@pytest.fixture
def ctrl_c():
    """Ctrl-C is heard, even where these tests were started with SIGINT ignored, as by nohup."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
