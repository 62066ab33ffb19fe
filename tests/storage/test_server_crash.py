"""A PostgreSQL server that crashes right after an ask keeps what was committed, once."""

import os
from dataclasses import dataclass
from typing import ClassVar

import psycopg
import pytest

from benchmarks.reliability.faults.server import own_server
from farthing import Float, Study
from farthing.errors import StorageError, Unreachable
from farthing.policies import Random
from farthing.stopping import MaxTrials

SERVER = os.environ.get("FARTHING_TEST_POSTGRES")
REASON = "FARTHING_TEST_POSTGRES does not name a server: .ci/postgres starts one"
pytestmark = pytest.mark.skipif(SERVER is None, reason=REASON)

FORGETFUL = "?options=-csynchronous_commit%3Doff"  # which loses the last commits


@pytest.fixture(scope="module")
def server():
    """A server that writes asynchronous commits to its disk only every 10 s."""
    with own_server(SERVER) as own:
        address = own.url.replace("+psycopg", "")
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            connection.execute("SELECT pg_reload_conf()")
        yield own


@dataclass(frozen=True)
class CountingPolicy:
    """A policy that writes a line for each suggestion."""

    path: str
    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        with open(self.path, "a") as file:
            print("suggested", file=file)
        return Random().propose(belief, rng)

    @property
    def suggestions(self):
        with open(self.path) as file:
            return len(file.readlines())


@pytest.fixture
def make(server, tmp_path, monkeypatch, request):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)  # where a run writes the logs of its trials

    def made(**settings):
        policy = CountingPolicy(str(tmp_path / "suggestions"))
        settings = {"space": {"x": Float(0, 1)}, "policy": policy, **settings}
        return Study.create(server.url, name=request.node.name, **settings), policy

    return made


@pytest.mark.slow
def test_an_ask_survives_a_crash_of_the_server(make, server):
    study, policy = make()
    trial = study.ask()
    server.crash_and_restart()
    again = Study.open(server.url, study.name, policy=policy)
    (there,) = again.history
    assert (there.number, there.state, there.params) == (0, "running", trial.params)
    with pytest.raises(Unreachable):  # its connection is broken; only runs retry
        study.tell(trial, 1.0)
    study.tell(trial, 1.0)
    assert [(t.state, t.value) for t in again.history] == [("done", 1.0)]
    assert (again.ask().number, policy.suggestions) == (1, 2)


def test_an_ask_that_a_server_lost_is_an_error_with_a_remedy(make, server):
    """Without synchronous commits, this server does lose the ask."""
    made, policy = make()
    study = Study.open(server.url + FORGETFUL, made.name, policy=policy)
    trial = study.ask()
    server.crash_and_restart()
    with pytest.raises(Unreachable):
        study.tell(trial, 1.0)
    with pytest.raises(StorageError, match=r"gone back in time.*run again"):
        study.tell(trial, 1.0)
    assert list(Study.open(server.url, study.name, policy=policy).history) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 2])
def test_a_run_continues_after_a_crash_right_after_an_ask(make, server, number):
    study, policy = make(stop=MaxTrials(4), budget={"worker_s": 1e6})
    crashed = []

    def crash(seen):
        if not crashed and [trial.number for trial in seen.history.running] == [number]:
            crashed.append(number)
            server.crash_and_restart()

    result = study.run(lambda params: params["x"], on_change=crash)
    assert crashed == [number]
    assert [trial.state for trial in result.history] == ["done"] * 4
    assert [trial.value for trial in result.history] == [t.params["x"] for t in result.history]
    assert policy.suggestions == 4 + 1  # one for each trial, and one for the stop
    assert result.ledger.reserved == 0
    assert result.spent == pytest.approx(sum(t.cost["worker_s"] for t in result.history))
