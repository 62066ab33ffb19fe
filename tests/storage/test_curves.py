"""Trainings in a database: curves are appended, and a paused training outlives its process."""

import pickle

import cloudpickle
import pytest
from parts import Greedy, RoundRobin
from sqlalchemy import event, text

from farthing import Float, Space, Steps, Study
from farthing.core.events import Recovered, Returned, Told
from farthing.history import CurvePoint
from farthing.storage.studies import overview

SPACE = Space({"a": Float(2, 3)})
LEASE = 1800.0


def make(url, name="study", policy=None, **settings):
    given = {"space": SPACE, "budget": "$100", "steps": Steps(8), **settings}
    return Study.create(url, name=name, policy=policy or RoundRobin(), **given)


def another(study):
    """The same study, as another process would open it."""
    return pickle.loads(cloudpickle.dumps(study))


def facts(study):
    """Everything that is known of the trials, and the ledger."""
    records = [{k: v for k, v in each.items() if k != "x"} for each in study.records()]
    return records, study.ledger, [trial.curve for trial in study.history]


def expire(study):
    with study._database.writing() as connection:
        connection.execute(text("UPDATE farthing_studies SET revision = revision + 1"))
        revision = "revision = (SELECT revision FROM farthing_studies)"
        connection.execute(text(f"UPDATE farthing_trials SET lease = 1, {revision}"))


def points(*steps, cost):
    return tuple(CurvePoint(step, 1.0 / step, {"usd": cost}) for step in steps)


def test_two_processes_see_the_same_trainings(url):
    one = make(url)
    other = another(one)
    for value in (3.0, 2.0, 1.0, 0.5, 0.25):
        worker = one if value > 1 else other
        worker.tell(worker.ask(), value, cost=1.0)
        assert facts(one) == facts(other) == facts(another(one))
    states = [(trial.state, trial.step, trial.run.turn) for trial in one.history]
    assert states == [("paused", 4, 4), ("paused", 2, 3)]
    assert one.ledger.spent == 5.0
    assert one.best.value == 0.25
    (listed,) = overview(one._database)
    assert (listed["trials"], listed["best"]) == ({"paused": 2}, 0.25)
    one.delete()
    with one._database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM farthing_curves")).scalar() == 0


def test_a_curve_is_appended_and_never_rewritten(url):
    study = make(url, policy=Greedy())
    statements = []

    @event.listens_for(study._database._writer, "before_cursor_execute")
    def note(connection, cursor, statement, given, context, many):
        statements.append((statement, len(given) if many else 1))

    trial = study.ask(worker="w", lease=LEASE)
    known = ()
    for step in range(1, 6):
        known = (*known, CurvePoint(step, 1.0 / step, {"usd": 0.5 * step}))
        used, ahead = {"usd": 0.5 * step}, {"usd": 0.5 * step + 0.5}
        study.renew(trial, lease=LEASE, cost=used, ahead=ahead, curve=known)
        assert another(study).history[0].curve == known
    written = [(s, n) for s, n in statements if "farthing_curves" in s and "SELECT" not in s]
    assert all(statement.startswith("INSERT") for statement, _ in written)
    assert sum(count for _, count in written) == 5
    statements.clear()
    study.renew(trial, lease=LEASE, cost={"usd": 3.0}, ahead={"usd": 3.5}, curve=known)
    assert not [s for s, _ in statements if "farthing_curves" in s and "SELECT" not in s]


def test_a_process_reads_only_the_new_points(url):
    study = make(url, policy=Greedy())
    other = another(study)
    trial = study.ask(worker="w", lease=LEASE)
    study.renew(trial, lease=LEASE, cost={}, ahead={}, curve=points(1, 2, cost=1.0))
    first = other.history[0].curve
    study.renew(trial, lease=LEASE, cost={}, ahead={}, curve=points(1, 2, 3, cost=1.0))
    second = other.history[0].curve
    assert [point.step for point in second] == [1, 2, 3]
    assert all(a is b for a, b in zip(first, second, strict=False))


def test_a_paused_training_is_resumed_by_another_process(url):
    study = make(url, policy=Greedy())
    trial = study.ask(worker="w", lease=LEASE)
    told = Told(trial, "paused", None, {"usd": 2.0}, by_user=False, curve=points(1, cost=1.5))
    study.commit(told)
    study.close()
    later = Study.open(url, "study", policy=Greedy())
    resumed = later.ask(worker="v", lease=LEASE)
    assert (resumed.number, resumed.step, resumed.run.since, resumed.until) == (0, 1, 1, 2)
    assert resumed.run.earlier == {"usd": 2.0}
    assert resumed.curve == points(1, cost=1.5)
    assert resumed.run.seed == trial.run.seed


@pytest.mark.parametrize("resume", ["checkpoint", "never"])
def test_a_training_whose_worker_died_keeps_what_it_reported(url, resume):
    study = make(url, policy=Greedy(), steps=Steps(8, resume=resume))
    study.tell(study.ask(), 1.0, cost=1.0)
    worker = another(study)
    trial = worker.ask(worker="gone", lease=LEASE)
    worker.renew(
        trial, lease=LEASE, cost={"usd": 2.0}, ahead={"usd": 2.5}, curve=points(2, cost=1.0)
    )
    expire(study)
    study._session.expire_leases(study._store.look())
    (lost,) = another(study).history
    assert lost.state == ("paused" if resume == "checkpoint" else "lost")
    assert (lost.cost, [p.step for p in lost.curve]) == ({"usd": 3.0}, [1, 2])
    assert (study.ledger.spent, study.ledger.reserved) == (3.0, 0.0)
    # The worker was only slow: what it reports late counts, and the rest is charged.
    late = Told(trial, "done", 0.25, {"usd": 2.5}, by_user=False, curve=points(2, 4, cost=1.0))
    worker.commit(late)
    (done,) = another(study).history
    assert (done.state, done.value, done.cost) == ("done", 0.25, {"usd": 3.5})
    assert study.ledger.spent == 3.5


def test_an_unreported_part_waits_on_the_disk(url, tmp_path, monkeypatch):
    study = make(url, policy=Greedy())
    trial = study.ask(worker="w", lease=LEASE)
    told = Told(trial, "paused", None, {"usd": 2.0}, by_user=False, curve=points(1, cost=1.5))
    study._outbox.save(told)
    study._prepare_run()
    (paused,) = another(study).history
    assert (paused.state, paused.curve) == ("paused", points(1, cost=1.5))
    study._outbox.save(told)  # its answer was lost: it is reported twice
    study._prepare_run()
    assert study.ledger.spent == 2.0


def test_a_curve_that_lacks_points_is_noticed(url):
    study = make(url)
    study.tell(study.ask(), 1.0, cost=1.0)
    with study._database.writing() as connection:
        connection.execute(text("DELETE FROM farthing_curves"))
    with pytest.raises(Exception, match="trial 0 with 0 points, but it counts 1"):
        Study.open(url, "study", policy=RoundRobin()).history  # noqa: B018


def test_the_settings_of_steps_are_stored(url):
    steps = Steps(51, value="last", resume=2.5, rungs=(1, 3, 9))
    make(url, steps=steps)
    opened = Study.open(url, "study", policy=RoundRobin())
    assert opened.current_settings.steps == steps
    assert make(url, steps=steps).changed == {}
    assert make(url, steps=51).changed == {
        "steps": ("Steps(last=51, value='last', resume=2.5, rungs=1, 3, 9)", "Steps(last=51)")
    }


def test_points_that_are_recovered_later_take_their_place_in_every_process(url):
    one = make(url)
    trial = one.ask(worker="here:1", lease=LEASE)
    one.renew(trial, lease=LEASE, cost={}, ahead={}, curve=points(2, cost=2.0))
    other = another(one)
    assert [point.step for point in other.history[0].curve] == [2]
    one.commit(Returned(0, "as if its lease had expired"))
    one.commit(Recovered(0, trial.run.asked_at, points(1, 2, cost=2.0)))
    assert [point.step for point in other.history[0].curve] == [1, 2]
    one.close()
    other.close()
