"""A PostgreSQL server that crashes right after an ask: what was committed is there, and once."""

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

FORGETFUL = "?options=-csynchronous_commit%3Doff"  # as asks once were


@pytest.fixture(scope="module")
def server():
    """One that writes down by itself only every ten seconds what nobody waits for."""
    with own_server(SERVER) as own:
        address = own.url.replace("+psycopg", "")
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            connection.execute("SELECT pg_reload_conf()")
        yield own


@dataclass(frozen=True)
class Thinks:
    """A policy that notes each of its thoughts."""

    path: str
    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = False

    def propose(self, belief, rng):
        with open(self.path, "a") as file:
            print("thought", file=file)
        return Random().propose(belief, rng)

    @property
    def suggestions(self):
        with open(self.path) as file:
            return len(file.readlines())


@pytest.fixture
def make(server, tmp_path, monkeypatch, request):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)  # where a run keeps what its trials print

    def made(**settings):
        policy = Thinks(str(tmp_path / "suggestions"))
        settings = {"space": {"x": Float(0, 1)}, "policy": policy, **settings}
        return Study.create(server.url, name=request.node.name, **settings), policy

    return made


def test_an_ask_outlives_a_crash_of_the_server(make, server):
    study, policy = make()
    trial = study.ask()
    server.crash_and_restart()
    again = Study.open(server.url, study.name, policy=policy)
    (there,) = again.history
    assert (there.number, there.state, there.params) == (0, "running", trial.params)
    with pytest.raises(Unreachable):  # its connection is gone; outside of a run nobody waits
        study.tell(trial, 1.0)
    study.tell(trial, 1.0)
    assert [(t.state, t.value) for t in again.history] == [("done", 1.0)]
    assert (again.ask().number, policy.suggestions) == (1, 2)


def test_an_ask_that_a_server_forgot_is_an_error_with_a_remedy(make, server):
    """And this server would forget, were it allowed to."""
    made, policy = make()
    study = Study.open(server.url + FORGETFUL, made.name, policy=policy)
    trial = study.ask()
    server.crash_and_restart()
    with pytest.raises(Unreachable):
        study.tell(trial, 1.0)
    with pytest.raises(StorageError, match=r"gone back in time.*run again"):
        study.tell(trial, 1.0)
    assert list(Study.open(server.url, study.name, policy=policy).history) == []


@pytest.mark.parametrize("number", [0, 2])
def test_a_run_goes_on_after_a_crash_right_after_an_ask(make, server, number):
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
    assert policy.suggestions == 4 + 1  # one for each, and one that it is over
    assert result.ledger.reserved == 0
    assert result.spent == pytest.approx(sum(t.cost["worker_s"] for t in result.history))
