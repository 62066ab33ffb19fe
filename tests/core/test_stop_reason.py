"""Kinds decide, sentences inform: exit codes, stored studies and origins of trials."""

import json
import pickle
from dataclasses import replace
from itertools import count
from typing import get_args

import pytest
from sqlalchemy import text

from farthing import Categorical, Float, Optimizer, Outcome, Space, StorageError, Study, minimize
from farthing.acquisition.protocols import Verdict
from farthing.cli import main
from farthing.cli.run import finish
from farthing.core.events import LeasesExpired
from farthing.core.state import State
from farthing.core.suggest import suggest
from farthing.errors import Stopped
from farthing.history import Origin, StopKind, StopReason, origin_of
from farthing.policies import EI, Cooling, Random
from farthing.replay import replay
from farthing.running.pool import WORKER_ERROR
from farthing.running.signals import (
    INTERRUPTED,
    ORPHANED,
    TERMINATED,
    ExitRequest,
    combine_stop_reasons,
    print_exit_requests,
)
from farthing.running.worker import SUSPECT
from farthing.stopping import MaxTrials, OutOfBudget, any_of, in_a_row
from farthing.storage import Database
from farthing.storage.old_sentences import kind_of_old
from farthing.view.result import Result

LINE = Space({"x": Float(0, 1)})
KINDS = get_args(StopKind)
# Sentences of 0.1.0 and 0.2.0, which stored no kinds.
OLD = {
    "the budget is spent": "budget_spent",
    "the budget of 10 s is spent": "budget_spent",
    "the budget of $40.00 is spent, $15.00 of it held for running trials": "budget_spent",
    "the budget of 2 h is spent, but for the 3 s that another thought would take": "budget_spent",
    "nothing affordable is left: no untried point fits into $5.00 with 80 % certainty": (
        "unaffordable"
    ),
    "nothing affordable is left: the one trial so far cost $9.00, $1.00 is left": "unaffordable",
    "every configuration of the space was tried": "all_tried",
    "every row of the table was tried (6, 2 of them still running)": "all_tried",
    "a stop was requested": "requested",
    "a stop was requested in the dashboard": "requested",
    "interrupted from the keyboard": "interrupted",
    "ended by SIGTERM": "terminated",
    "the process that started it is gone": "orphaned",
    "a trial failed:\nit ended with exit code 1": "too_many_failures",
    "5 trials in a row failed; the first of them:\nTraceback": "too_many_failures",
    'trial 3 did not say what it cost in usd, which the budget needs. Let it report {"cost": 1}': (
        "cost_missing"
    ),
    "100 trials in a row cost nothing, so the budget would never end. Run again": "all_free",
    "its first trials all failed; others may do better": "worker_suspect",
    "12 of at most 12 trials made": "rule",
    "the best value 3 has reached the target 3": "rule",
    "somebody said: interrupted from the keyboard": "rule",
}


def ended(kind, sentence="anything at all", found=True):
    """The result of a study that returned a value, or had one failure, and then stopped."""
    optimizer = Optimizer(LINE, "9 trials", policy=Random())
    if found:
        optimizer.tell(optimizer.ask(), 1.0)
    else:
        optimizer.tell(optimizer.ask(), failed="out of memory")
    return Result(optimizer.best, StopReason(kind, sentence), optimizer.ledger, optimizer.history)


# ── deciding ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sentence", ["", "Schluss", *OLD])
def test_the_exit_code_depends_on_the_kind_whatever_the_sentence(kind, sentence, capsys):
    expected = {"interrupted": 130, "terminated": 143, "cost_missing": 2}.get(kind, 0)
    assert finish(ended(kind, sentence), "table", again="it") == expected
    assert finish(ended(kind, sentence, found=False), "table", again="it") == (expected or 1)
    said = capsys.readouterr()
    assert f"stopped: {sentence}" in said.out
    assert ("Resume with: it" in said.err) == (kind in ("interrupted", "terminated"))


def test_json_has_the_kind_and_the_sentence(capsys):
    finish(ended("requested", "that will do"), "json", again="it")
    said = json.loads(capsys.readouterr().out)
    assert (said["stop_kind"], said["stop_reason"]) == ("requested", "that will do")


def test_an_error_that_the_reason_includes_is_not_shown_again(capsys):
    finish(
        ended("too_many_failures", "a trial failed:\nout of memory", found=False), "table", again=""
    )
    assert capsys.readouterr().err == "No trial succeeded.\n"
    finish(ended("too_many_failures", "Schluss", found=False), "table", again="")
    assert capsys.readouterr().err == "No trial succeeded. The first error:\nout of memory\n"


@pytest.mark.parametrize("reason", [INTERRUPTED, TERMINATED, ORPHANED, SUSPECT, WORKER_ERROR])
def test_the_reasons_of_workers_have_a_kind_of_the_list(reason):
    assert reason.kind in KINDS


def test_a_missing_cost_ends_a_run_with_2_whatever_the_sentence(tmp_path, monkeypatch, capsys):
    said = StopReason("cost_missing", "Preis fehlt")
    monkeypatch.setattr("farthing.core.endings.missing_cost_reason", lambda *_: said)
    monkeypatch.chdir(tmp_path)
    command = ["run", "--budget", "$5", "--policy", "random", "--param", "x=float:0:1"]
    command += ["--format", "json", "--", "sh", "-c", 'echo "{\\"value\\": $0}"', "{x}"]
    with pytest.raises(SystemExit) as exit:
        main(command)
    assert exit.value.code == 2
    assert json.loads(capsys.readouterr().out)["stop_reason"] == "Preis fehlt"


def test_signals_are_told_apart_by_kind(capsys):
    in_other_words = replace(INTERRUPTED, sentence="Schluss")
    assert ExitRequest(in_other_words, kill=True).message([]).startswith("Ctrl-C: ")
    silent = print_exit_requests(
        lambda: ExitRequest(replace(ORPHANED, sentence="Waise"), kill=True), list
    )
    assert silent() is not None
    assert capsys.readouterr().err == ""
    spent = StopReason("budget_spent", "leer")
    assert combine_stop_reasons([in_other_words, spent]) is in_other_words
    assert combine_stop_reasons([StopReason("rule", INTERRUPTED.sentence), spent]) is spent


def test_a_reason_prints_as_its_sentence_and_can_be_pickled():
    reason = StopReason("rule", "enough")
    assert f"{reason}" == str(reason) == "enough"
    assert pickle.loads(pickle.dumps(reason)) == reason
    stopped = pickle.loads(pickle.dumps(Stopped(reason)))
    assert (str(stopped), stopped.reason) == ("enough", reason)


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────


def fails(params):
    raise RuntimeError("no")


def missing_later(params, calls=count()):
    return Outcome(1.0, cost=0.5) if next(calls) == 0 else 1.0


@pytest.mark.parametrize(
    ("kind", "objective", "space", "settings"),
    [
        ("budget_spent", lambda p: 1.0, LINE, {"budget": "2 trials"}),
        ("unaffordable", lambda p: Outcome(1.0, cost=3.0), LINE, {"budget": "$5"}),
        ("all_tried", lambda p: 1.0, Space({"c": Categorical(["a", "b"])}), {"budget": "9 trials"}),
        ("rule", lambda p: 1.0, LINE, {"stop": MaxTrials(2)}),
        ("too_many_failures", fails, LINE, {"budget": "9 trials"}),
        ("cost_missing", missing_later, LINE, {"budget": "$5"}),
        ("all_free", lambda p: Outcome(1.0, cost=0.0), LINE, {"budget": "$5"}),
    ],
)
def test_every_stop_has_its_kind(kind, objective, space, settings):
    result = minimize(objective, space, policy=Random(), **settings)
    assert result.stop_reason.kind == kind
    assert result.failed == (kind == "too_many_failures")


def test_a_verdict_and_an_error_have_the_kind():
    optimizer = Optimizer(LINE, "1 trial", policy=Random())
    assert Verdict(True, "enough").reason == StopReason("rule", "enough")
    optimizer.ask()
    assert optimizer.verdict.kind == "budget_spent"
    with pytest.raises(Stopped) as stopped:
        optimizer.ask()
    assert stopped.value.reason == optimizer.verdict.reason
    optimizer.request_stop("lunch")
    assert optimizer.verdict.reason == StopReason("requested", "lunch")
    with pytest.raises(Stopped, match="lunch") as stopped:
        optimizer.ask()
    assert stopped.value.reason.kind == "requested"


@pytest.mark.parametrize("joined", [any_of, lambda *rules: in_a_row(1, any_of(*rules))])
def test_joined_rules_have_the_kind_of_the_first_that_decided(joined):
    made = joined(MaxTrials(5), OutOfBudget())
    optimizer = Optimizer(LINE, "2 trials", policy=Random(), stop=made)
    optimizer.ask(2)
    assert optimizer.verdict.kind == "budget_spent"


# ── stored ───────────────────────────────────────────────────────────────────────────────────────


def stored(url, statement, **values):
    where = Database(url)
    with where.writing() as connection:
        connection.execute(text(statement), values)
    where.close()


def state_in(url, name="s"):
    study = Study.open(url, name)
    try:
        return study.seen
    finally:
        study.close()


def make(url, **settings):
    settings = {"space": LINE, "budget": "20 trials", "policy": Random(), **settings}
    return Study.create(url, name="s", **settings)


@pytest.mark.parametrize(("sentence", "kind"), OLD.items())
def test_an_old_sentence_has_its_kind(sentence, kind):
    assert kind_of_old(sentence) == kind


@pytest.mark.slow
def test_a_reason_is_stored_and_an_old_one_is_read(url):
    study = make(url)
    study.request_stop("interrupted from the keyboard")
    study.run(lambda params: params["x"])
    study.close()
    state = state_in(url)
    said = "interrupted from the keyboard"
    # A run that revokes a stop has its own reason.
    assert (state.stop_requested, state.stop_reason.kind) == (None, "budget_spent")
    study = make(url)
    study.request_stop(said)
    study.close()
    assert state_in(url).stop_requested == StopReason("requested", said)
    assert [each["stop_kind"] for each in Study.overview(url)] == ["budget_spent"]
    # As an older version left it.
    stored(url, "UPDATE farthing_studies SET halted_kind = NULL, stop_kind = NULL")
    state = state_in(url)
    assert (state.stop_requested.kind, state.stop_reason.kind) == ("interrupted", "budget_spent")
    assert Study.overview(url)[0]["ended"] == state.stop_reason.sentence
    stored(url, "UPDATE farthing_studies SET stop_reason = NULL")
    assert Study.overview(url)[0]["stop_kind"] == "interrupted"
    stored(url, "UPDATE farthing_studies SET halted = 'no known sentence'")
    assert state_in(url).stop_requested == StopReason("rule", "no known sentence")


@pytest.mark.slow
def test_a_revoked_reason_loses_its_kind(url):
    study = make(url)
    study.request_stop("lunch")
    study.run(lambda params: params["x"])
    study.close()
    where = Database(url)
    with where.reading() as connection:
        row = connection.execute(text("SELECT halted, halted_kind FROM farthing_studies")).one()
    where.close()
    assert tuple(row) == (None, None)


def test_unknown_kinds_and_origins_are_errors(url):
    study = make(url)
    study.ask()
    study.request_stop()
    study.close()
    stored(url, "UPDATE farthing_studies SET halted_kind = 'bored'")
    with pytest.raises(StorageError, match="bored"):
        state_in(url)
    stored(url, "UPDATE farthing_studies SET stop_reason = 'x', stop_kind = 'odd'")
    with pytest.raises(StorageError, match="odd"):
        Study.overview(url)
    stored(url, "UPDATE farthing_studies SET halted_kind = 'requested', stop_kind = 'rule'")
    stored(url, "UPDATE farthing_trials SET origin = 'the moon'")
    with pytest.raises(StorageError, match="the moon"):
        state_in(url)


# ── origins ──────────────────────────────────────────────────────────────────────────────────────


def with_every_origin(url):
    """A study with a trial of each origin."""
    study = make(url, policy=EI(), retries=1, budget=None, lease=0.001)
    study.add({"x": 0.9}, 2.0)
    study.tell(study.ask(), 1.0)
    study.enqueue({"x": 0.25})
    study.tell(study.ask(), 0.5)
    while study.history[len(study.history) - 1].origin != "suggested":
        study.tell(study.ask(), 0.75)
    study.rerun(0)
    study.tell(study.ask(), 2.0)
    lost = study.ask(worker="w", lease=0.0)
    while not any(trial.run.retry for trial in study.history):
        study._session.commit(LeasesExpired())
    again = study.ask()
    assert dict(again.params) == dict(lost.params)
    return study


def older_version(url):
    """Store the sentences of 0.1.0, from which the origin of a trial was recognised."""
    sentences = {"imported": "evaluated elsewhere", "retry": "trial 0 again, which was lost"}
    for origin, because in sentences.items():
        stored(url, f"UPDATE farthing_trials SET because = '{because}' WHERE origin = '{origin}'")


def test_every_trial_has_its_origin_and_keeps_it(url):
    study = with_every_origin(url)
    found = [trial.origin for trial in study.history]
    assert found[:3] == ["imported", "design", "enqueued"]
    assert found[-4:] == ["suggested", "enqueued", "suggested", "retry"]
    assert set(found) == set(get_args(Origin))
    assert [t.is_external for t in study.history] == [o == "imported" for o in found]
    assert not any("origin" in trial.notes for trial in study.history)
    assert [record["origin"] for record in study.records()] == found
    study.close()
    assert [trial.origin for trial in state_in(url).history] == found
    # As an older version left them: the sentences of that version, and no column.
    older_version(url)
    for column in ("origin", "until", "since", "earlier", "turn", "points"):
        stored(url, f"ALTER TABLE farthing_trials DROP COLUMN {column}")
    stored(url, "DROP TABLE farthing_curves")
    for column in ("halted_kind", "stop_kind"):
        stored(url, f"ALTER TABLE farthing_studies DROP COLUMN {column}")
    stored(url, "UPDATE farthing_schema SET version = 3")
    assert [trial.origin for trial in state_in(url).history] == found


def test_imported_trials_are_not_recognised_by_their_sentence(url):
    study = make(url, budget="$9")
    study.add({"x": 0.5}, 1.0, cost=2.0)
    study.close()
    stored(url, "UPDATE farthing_trials SET because = 'anderswo'")
    study = Study.open(url, "s")
    (trial,) = study.history
    assert (trial.because, trial.is_external, trial.leads_on) == ("anderswo", True, False)
    study.close()


def test_an_origin_that_was_not_stored_leads_to_the_same_proposal(url):
    """Cooling ignores the costs of imported trials."""
    study = make(url, budget="$40", policy=Cooling())
    for x in (0.1, 0.9):
        study.add({"x": x}, x, cost=10.0)
    for value in (3.0, 2.0, 1.0, 2.5):
        study.tell(study.ask(), value, cost=1.5)
    study.close()

    def proposed():
        again = Study.open(url, "s")
        proposal = suggest(*again.facts).proposal
        again.close()
        return proposal.x.tobytes(), proposal.because, proposal.notes["alpha"]

    before = proposed()
    older_version(url)
    stored(url, "UPDATE farthing_trials SET origin = NULL")
    assert proposed() == before
    stored(url, "UPDATE farthing_trials SET origin = 'design'")  # the origin matters
    assert proposed() != before


def test_notes_of_a_policy_may_be_called_origin(url):
    assert origin_of({"origin": "mine"}) == "suggested"
    study = make(url)
    trial = study.ask()
    study._store.commit(lambda state, now: noted(state, trial.number, origin="mine"))
    study.close()
    (back,) = state_in(url).history
    assert (back.notes["origin"], back.origin) == ("mine", "suggested")


def noted(state: State, number, **notes):
    trial = state.history[number]
    changed = replace(trial, notes={**trial.notes, **notes})
    return replace(state, history=state.history.replacing(changed))


def test_replayed_trials_count_as_paid():
    rows = [{"x": x / 10, "value": 1.0, "cost": 2.0} for x in range(5)]
    assert replay(rows, MaxTrials(3), space=LINE).spent == 6.0
