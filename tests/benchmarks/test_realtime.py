"""The wall-clock comparison: what counts, what is kept, and the verdict."""

import json

import numpy as np
import pytest
from processes import PATIENCE

from benchmarks.evidence import realtime, replay
from benchmarks.evidence.artefacts import realtime as artefact
from benchmarks.evidence.artefacts.artefact import Settings, pictures
from benchmarks.evidence.realtime import Clock, Job, drive
from benchmarks.methods import POLICIES
from farthing import Float, Space, minimize

SPACE = Space({"x": Float(0, 1)})


def record(job, values, *, step=10.0, error=None):
    ends = [step * (i + 1) for i in range(len(values))]
    return {
        **job.__dict__,
        "ends": ends,
        "values": values,
        "seconds": [step * 0.9] * len(values),
        "thinking": 0.1 * step * len(values),
        "error": error,
        "load": 0.5,
        "machine": "a machine",
        "source": replay.source(),
    }


@pytest.mark.parametrize("method", ["farthing", "random"])
def test_a_method_evaluates_until_its_time_is_up(method):
    budget, clock = 0.15, Clock(lambda params: 0.5)
    while len(clock.values) < 2 and budget < PATIENCE:  # a busy machine needs longer for two
        budget, clock = 2 * budget, Clock(lambda params: params["x"])
        drive(method, SPACE, clock, budget=budget, seed=0)
    assert len(clock.values) >= 2
    assert sum(clock.seconds[:-1]) < budget
    assert clock.ends == sorted(clock.ends)
    assert clock.now >= clock.ends[-1] >= sum(clock.seconds)


def test_a_warm_up_ends_after_its_evaluations():
    for method in ("farthing", "random"):
        clock = Clock(lambda params: 0.5)
        drive(method, SPACE, clock, budget=PATIENCE, seed=0, most=3)
        assert len(clock.values) == 3


def test_an_evaluation_that_fails_has_no_value_and_took_its_time():
    def broken(params):
        raise ValueError("no")

    clock = Clock(broken)
    value, seconds = clock.evaluate({"x": 0.5})
    assert value is None
    assert seconds > 0
    assert clock.values == [None]


@pytest.mark.parametrize("model", ["svm-digits", "mlp-digits"])
def test_a_model_gives_an_error(model):
    pytest.importorskip("sklearn")
    kind = realtime.MODELS[model]
    params = kind.space.decode(np.full(kind.space.d, 0.3))
    assert 0.0 <= kind.load()(params) < 1.0


def test_what_arrives_after_the_budget_does_not_count():
    job = Job("svm-digits", "random", 0, 60.0)
    late = record(job, [0.5, 0.4, 0.3, 0.3, 0.3, 0.2, 0.0])  # the last one ends at 70
    assert artefact._best(late, np.array([0.1, 0.5, 1.0])).tolist()[1:] == [0.3, 0.2]


def test_runs_are_kept_one_line_each_and_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    made = []

    def in_a_process(job, python, cores):
        made.append(job)
        return record(job, [0.5, 0.25])

    monkeypatch.setattr(realtime, "_in_a_process", in_a_process)
    monkeypatch.setattr(realtime, "_pythons", lambda methods: dict.fromkeys(methods, "python"))
    jobs = [Job("svm-digits", m, s, 60.0) for s in (0, 1) for m in ("farthing", "random")]
    assert set(realtime.carry_out(jobs[:2])) == set(jobs[:2])
    assert set(realtime.carry_out(jobs)) == set(jobs)
    assert sorted(map(str, made)) == sorted(map(str, jobs))
    lines = (tmp_path / "realtime.jsonl").read_text().splitlines()
    assert [json.loads(line)["values"] for line in lines] == [[0.5, 0.25]] * 4
    with (tmp_path / "realtime.jsonl").open("a") as file:
        file.write('{"model": "svm')  # killed while writing
    realtime.pack()
    assert not (tmp_path / "realtime.jsonl").exists()
    assert set(realtime.carry_out(jobs, more=False)) == set(jobs)
    monkeypatch.setattr(replay, "source", lambda: "changed")
    again = realtime.carry_out(jobs, more=False, same_source=True)
    assert {job.method for job in again} == {"random"}


@pytest.mark.slow
def test_a_process_without_output_is_a_run_that_crashed(tmp_path, monkeypatch):
    from queue import SimpleQueue

    cores = SimpleQueue()
    cores.put(0)
    monkeypatch.setattr(realtime.os, "sched_setaffinity", lambda *_: None, raising=False)
    job = Job("no such model", "random", 0, 1.0)
    found = realtime._in_a_process(job, realtime.sys.executable, cores)
    assert "no such model" in found["error"]
    assert found["values"] == []


@pytest.mark.slow
def test_table_verdict_and_picture_follow_the_runs(tmp_path):
    runs = {}
    for model in set(realtime.MODELS) - set(realtime.HELD_BACK):
        for seed in range(4):
            for method in ("farthing", "random", "optuna-tpe"):
                job = Job(model, method, seed, 60.0)
                last = 0.1 if method == "farthing" else 0.3
                crash = "RuntimeError: no" if (method, seed) == ("optuna-tpe", 0) else None
                runs[job] = record(job, [0.5, last], error=crash)
    kept = json.loads(json.dumps({**artefact.summary(runs), "planned": 500}))
    assert kept["duels"]["random"]["60"]["duels"] == 20
    assert kept["duels"]["optuna-tpe"]["60"]["duels"] == 15
    verdict = artefact._verdict(kept)
    assert "ahead of optuna-tpe, random" in verdict
    assert "its overhead is 3.3 % of the time" in verdict  # 2 s of 60
    table = artefact._table(kept)
    assert "60 of 500 planned runs are complete, 5 crashed" in table
    assert "**0.1000 (2; 4)**" in table
    [drawn] = pictures(artefact.ARTEFACTS[0], kept, tmp_path)
    assert drawn.stat().st_size > 5_000


@pytest.mark.slow
def test_the_verdict_says_that_nothing_was_run():
    kept = {**artefact.summary({}), "planned": 600}
    assert artefact._verdict(kept) == "Not yet run (0 of 600 runs)."
    assert "0 of 600 planned runs" in artefact._table(kept)


def test_the_plan_is_five_models_six_methods_two_budgets_ten_seeds():
    jobs = artefact.jobs_of(Settings())
    assert len(jobs) == len(set(jobs)) == 5 * 6 * 2 * 10
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert {job.budget for job in artefact.jobs_of(Settings(budgets=(3.0,)))} == {3.0}


def test_a_candidate_is_the_policy_of_minimize(monkeypatch):
    given = []

    def recorded(objective, space, **options):
        given.append(options["policy"])
        return minimize(objective, space, **options)

    monkeypatch.setattr(realtime, "minimize", recorded)
    for method in ("farthing", *realtime.CANDIDATES):
        drive(method, SPACE, Clock(lambda params: params["x"]), budget=PATIENCE, seed=0, most=2)
    assert given == [None, *(POLICIES[method]() for method in realtime.CANDIDATES)]


def test_the_choice_shows_held_back_models_apart():
    """PBGI wins everywhere but on the held-back model; cooling wins there."""
    known, held = "svm-digits", realtime.HELD_BACK[0]
    runs = {}
    for seed in range(6):
        for model in (known, held):
            for method in (*realtime.CANDIDATES, artefact.RIVAL):
                good = {known: "PBGI", held: "cooling"}[model]
                job = Job(model, method, seed, artefact.CHOICE_BUDGET)
                runs[job] = record(job, [0.1 if method == good else 0.2])
    kept = {**artefact.choice(runs), "planned": 100}
    assert kept["duels"]["PBGI"][artefact.RIVAL]["won"][-1] == 0.75  # one model won, one tied
    assert kept["held_back"]["PBGI"][artefact.RIVAL]["won"][-1] == 0.5
    assert kept["held_back"]["cooling"][artefact.RIVAL]["won"][-1] == 1.0
    assert kept["held_back"]["cooling"]["PBGI"]["duels"] == 6
    table = artefact._choice_table(kept)
    assert f"{held} (held back)" in table
    assert f"{known} (held back)" not in table
    assert "cooling 75 %" in artefact._choice_verdict(kept)
    assert artefact._choice_verdict({**artefact.choice({}), "planned": 9}).startswith("Not yet run")


def test_the_choice_is_planned_on_all_models_with_ten_seeds():
    jobs = artefact.choice_jobs(Settings())
    methods = len(realtime.CANDIDATES) + 1
    assert len(jobs) == len(set(jobs)) == len(realtime.MODELS) * methods * 10
    assert set(realtime.HELD_BACK) < set(realtime.MODELS)
