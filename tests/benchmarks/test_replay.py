"""The replay of benchmarks/evidence/replay.py: virtual time, budgets and kept runs."""

import gzip
import json
from itertools import count

import numpy as np
import pytest

from benchmarks import methods
from benchmarks.evidence import replay
from benchmarks.evidence.artefacts.curves import clock_and_values, curve, wall
from benchmarks.evidence.replay import Job, Rows, Run, line_of, run_of
from benchmarks.problems.problem import Evaluation, Problem
from farthing import Categorical, Float, Space


class Counting:
    """A method that suggests 0.1, 0.2, ... and records the results."""

    def __init__(self):
        self.asked, self.reported = 0, []

    def ask(self):
        self.asked += 1
        return {"x": self.asked / 10}

    def tell(self, params, evaluation):
        self.reported.append((params["x"], evaluation))


def problem(cost=lambda x: 1.0, value=lambda x: x):
    return Problem(
        "made/up",
        Space({"x": Float(0, 1)}),
        lambda p: Evaluation(value(p["x"]), cost(p["x"])),
        typical_cost=1.0,
        mean_cost=2.0,
    )


ROWS = [{"x": 0.0, "k": "a"}, {"x": 0.5, "k": "a"}, {"x": 0.5, "k": "b"}, {"x": 1.0, "k": "b"}]


def table():
    parameters = {"x": Float(0, 1), "k": Categorical(["a", "b"])}
    return Problem(
        "made/table",
        Space(parameters),
        lambda p: Evaluation(p["x"], 1.0 + p["x"]),
        typical_cost=1.0,
        mean_cost=1.5,
        table=Space.from_rows(ROWS, parameters),
    )


@pytest.fixture
def counting(monkeypatch):
    method = Counting()
    monkeypatch.setattr(replay, "make", lambda *args, **kwargs: method)
    return method


def test_the_clock_is_the_sum_of_costs(counting):
    run = replay.replay(problem(cost=lambda x: 2.0), Job("made/up", "counting", 0, budget=6))
    assert run.costs == (2.0, 2.0, 2.0)
    assert run.values == (0.1, 0.2, 0.3)
    assert (run.ended, run.limit) == ("budget", 6.0)


def test_an_evaluation_that_does_not_fit_is_cut_off_and_never_reported(counting):
    run = replay.replay(problem(cost=lambda x: 2.0), Job("made/up", "counting", 0, budget=5))
    assert run.costs == (2.0, 2.0, 1.0)
    assert run.values == (0.1, 0.2, None)
    assert sum(run.costs) == run.limit
    assert len(counting.reported) == 2


def test_a_failure_costs_and_is_reported(counting):
    run = replay.replay(problem(value=lambda x: None), Job("made/up", "counting", 0, budget=2))
    assert run.values == (None, None)
    assert counting.reported[0][1] == Evaluation(None, 1.0)


def test_the_number_of_evaluations_is_limited(counting):
    run = replay.replay(problem(), Job("made/up", "counting", 0, budget=100, most=4))
    assert (len(run.costs), run.ended) == (4, "evaluations")


def test_overhead_is_charged_on_request(counting, monkeypatch):
    clock = iter(np.arange(0, 1000, 0.5))  # every look at the clock is half a second later
    monkeypatch.setattr(replay.time, "process_time", lambda: next(clock))
    job = Job("made/up", "counting", 0, budget=6, clock=True)
    assert len(replay.replay(problem(), job).costs) == 3  # half a second to ask, and to tell
    free = Job("made/up", "counting", 0, budget=6)
    assert len(replay.replay(problem(), free).costs) == 6


def test_farthing_measures_the_overhead_that_is_charged(monkeypatch):
    """Its suggestions would be shorter beside busy processes if it measured wall-clock time."""
    clocks = {"process_time": count(0.0, 0.001), "perf_counter": count(0.0, 1.0)}  # each look adds
    for name, clock in clocks.items():
        monkeypatch.setattr(replay.time, name, lambda clock=clock: next(clock))
    made, usual = [], replay.make
    monkeypatch.setattr(replay, "make", lambda *a, **k: made.append(usual(*a, **k)) or made[-1])
    run = replay.replay(problem(), Job("made/up", "EI", 0, budget=20, clock=True))
    optimizer = made[-1].optimizer
    assert 0 < optimizer.ledger["s"].overhead <= sum(run.overhead)
    assert not any(trial.notes.get("effort") == "none" for trial in optimizer.history)
    assert replay.time.perf_counter() == 0.0  # nobody has looked at it


def test_imports_of_a_method_are_not_charged(monkeypatch):
    """Before the first charged run of a method in a process it has been used once."""
    made = []

    class Method(Counting):
        def ask(self):
            super().ask()
            return {"x": 0.5}

    def make(name, space, **terms):
        made.append(name)
        return Method()

    monkeypatch.setattr(replay, "make", make)
    replay.warm_up.cache_clear()
    for seed in (0, 1):
        replay.replay(problem(), Job("made/up", "slow to import", seed, budget=2, clock=True))
    assert made == ["slow to import"] * 3  # once to warm up, and twice to run
    replay.replay(problem(), Job("made/up", "never charged", 0, budget=2))
    assert made.count("never charged") == 1
    replay.warm_up.cache_clear()


def test_a_suggestion_becomes_the_nearest_unused_row():
    near = Rows(table().table)
    assert near.nearest({"x": 0.45, "k": "b"}) == {"x": 0.5, "k": "b"}
    assert near.nearest({"x": 0.45, "k": "b"}) == {"x": 1.0, "k": "b"}  # the option weighs more
    assert near.nearest({"x": 0.1, "k": "a"}) == {"x": 0.0, "k": "a"}
    assert near.nearest({"x": 0.1, "k": "a"}) == {"x": 0.5, "k": "a"}
    assert near.nearest({"x": 0.1, "k": "a"}) == {"x": 0.0, "k": "a"}  # every row has been used


@pytest.mark.parametrize("rows", [False, True])
def test_every_method_gets_the_plain_space_unless_rows_are_known(rows, monkeypatch):
    """With known rows a method suggests only rows; else its suggestions are replaced by rows."""
    given = []

    def make(name, space, **terms):
        given.append((space.rows is not None, terms["evaluations"]))
        return methods.make(name, space, **terms)

    monkeypatch.setattr(replay, "make", make)
    for method in ("random", "EI"):
        job = Job("made/table", method, 0, budget=3, rows=rows)
        run = replay.replay(table(), job)
        assert run.error is None
        assert set(run.values) <= {0.0, 0.5, 1.0, None}
    assert given == [(rows, 2)] * 2  # three typical costs buy two uniform configurations


def test_farthing_receives_the_row_that_was_evaluated_and_pays_for_it():
    ours = methods.make("EI", table().space, budget=50.0, seed=0)
    for x in (0.0, 0.5, 1.0):
        ours.ask()
        ours.tell({"x": x, "k": "a"}, Evaluation(x, 1.0 + x))
    history = ours.optimizer.history
    assert [t.params for t in history.done] == [{"x": x, "k": "a"} for x in (0.0, 0.5, 1.0)]
    np.testing.assert_array_equal(history.X[:, 0], [0.0, 0.5, 1.0])
    assert [t.value for t in history.done] == [0.0, 0.5, 1.0]
    assert [t.cost["cost"] for t in history.done] == [1.0, 1.5, 2.0]
    assert ours.optimizer.ledger.spent == pytest.approx(4.5)


def test_recordings_are_charged_for_overhead_and_budgets_outlast_designs():
    assert replay.job_of("carbo-rows/knn-a1a", "EI", 0, 15.0).clock
    assert not replay.job_of("lcbench/higgs", "EI", 0, 15.0).clock
    assert [replay.most_of(budget) for budget in (15, 60, 240)] == [200, 200, 480]


def test_every_problem_has_its_own_seeds():
    jobs = [replay.job_of(name, "random", s, 15.0) for name in ("a/x", "a/y") for s in range(50)]
    seeds = list(map(replay.seed_of, jobs))
    assert seeds == list(map(replay.seed_of, jobs))
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**31 for seed in seeds)  # what every peer takes
    # Runs that were made before keep theirs.
    assert replay.seed_of(replay.Job("a/x", "random", 3)) == 3


@pytest.mark.parametrize("own", [False, True])
def test_a_method_is_seeded_with_it(monkeypatch, own):
    given = []
    monkeypatch.setattr(replay, "make", lambda *_, seed, **__: given.append(seed) or Counting())
    job = Job("made/up", "counting", 3, budget=3.0, own_seed=own)
    replay.replay(problem(), job)
    assert given == [replay.seed_of(job)]


def test_the_mark_of_the_source_is_the_same_without_its_docstrings(tmp_path, monkeypatch):
    package = tmp_path / "farthing"
    (package / "models").mkdir(parents=True)
    monkeypatch.setattr(replay.farthing, "__file__", str(package / "__init__.py"))

    def mark(text):
        (package / "models" / "gp.py").write_text(text)
        replay.source.cache_clear()
        return replay.source()

    first = mark('def f():\n    """One."""\n    return 1\n')
    assert mark('def f():\n    """Another."""\n    return 1  # why\n') == first
    assert mark("def f():\n    return 2\n") != first
    monkeypatch.undo()
    replay.source.cache_clear()


@pytest.mark.slow
def test_runs_of_another_source_do_not_count_where_that_matters(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    old = [
        Run(
            Job("a/b", m, 0),
            1.0,
            (1.0,),
            (1.0,),
            (0.0,),
            "budget",
            None,
            {"farthing": "0", "source": "x"},
        )
        for m in ("EI", "optuna-tpe")
    ]
    (tmp_path / "suite.jsonl").write_text("".join(line_of(run) + "\n" for run in old))
    jobs = [run.job for run in old]
    assert set(replay.carry_out(jobs, "suite", make_more=False)) == set(jobs)
    # A peer's run does not depend on our source.
    assert set(replay.carry_out(jobs, "suite", make_more=False, same_source=True)) == {jobs[1]}


def test_sources_that_make_the_same_decisions_share_their_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "source", lambda: "new")

    def listing(*entries):
        monkeypatch.setattr(replay, "EQUIVALENT", tmp_path / f"{len(entries)}.json")
        replay.EQUIVALENT.write_text(json.dumps(entries))

    listing()
    assert replay.same_decisions("EI") == {"new"}
    listing({"marks": ["old", "new"]}, {"marks": ["other", "another"]})
    assert replay.same_decisions("EI") == {"old", "new"}
    listing(
        {"marks": ["old", "new"]},
        {"marks": ["new", "older"], "only": ["paper:", "random"]},
        {"marks": []},
    )
    assert replay.same_decisions("EI") == {"old", "new"}
    assert replay.same_decisions("paper:EI") == {"old", "new", "older"}


def test_a_line_is_a_run_again():
    job = Job("a/b", "EI", 3, budget=60, most=200)
    run = Run(job, 12.0, (1.5, 2.25), (0.125, None), (0.01, 0.02), "budget", None)
    again = run_of(line_of(run))
    assert again.job == job
    assert (again.costs, again.values, again.overhead) == (run.costs, run.values, run.overhead)


def test_runs_are_kept_at_once_and_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    made = []

    def attempt(job, folder):
        made.append(job)
        return Run(job, 1.0, (1.0,), (float(job.seed),), (0.0,), "budget")

    class Here:  # a pool without processes
        def __init__(self, *args, **kwargs): ...
        def __enter__(self):
            return self

        def __exit__(self, *args): ...
        def submit(self, function, *args):
            from concurrent.futures import Future

            future = Future()
            future.set_result(function(*args))
            return future

    monkeypatch.setattr(replay, "attempt", attempt)
    monkeypatch.setattr(replay, "ProcessPoolExecutor", Here)
    first = [Job("a/b", "EI", seed) for seed in range(3)]
    assert len(replay.carry_out(first, "suite", quiet=True)) == 3
    more = [Job("a/b", "EI", seed) for seed in range(5)]
    found = replay.carry_out(more, "suite", quiet=True)
    assert [job.seed for job in made] == [0, 1, 2, 3, 4]
    assert [run.values[0] for run in found.values()] == [0, 1, 2, 3, 4]
    # An interrupted line is not a run, and does not spoil the next one.
    with (tmp_path / "suite.jsonl").open("a") as file:
        file.write('{"problem": "a/b", "meth')
    assert set(replay.kept("suite")) == set(more)
    more.append(Job("a/b", "EI", 5))
    replay.carry_out(more, "suite", quiet=True)
    assert [job.seed for job in made] == [0, 1, 2, 3, 4, 5]
    assert set(replay.kept("suite")) == set(more)
    replay.pack("suite")  # a packed suite holds the same runs
    lines = gzip.decompress((tmp_path / "suite.jsonl.gz").read_bytes()).decode().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [0, 1, 2, 3, 4, 5]
    assert set(replay.kept("suite")) == set(more)


def test_a_run_that_raises_is_a_result(monkeypatch):
    monkeypatch.setattr(replay.problems, "load", lambda name, folder, seed: problem())

    def broken(*args, **kwargs):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(replay, "make", broken)
    run = replay.attempt(Job("made/up", "x", 0), None)
    assert (run.ended, run.error) == ("error", "RuntimeError: no such thing")


def test_what_was_evaluated_before_an_error_is_kept(counting, monkeypatch):
    def tell(params, evaluation):
        if params["x"] > 0.25:
            raise ValueError("enough")

    monkeypatch.setattr(counting, "tell", tell)
    run = replay.replay(problem(), Job("made/up", "counting", 0, budget=10))
    assert (run.values, run.error) == ((0.1, 0.2, 0.3), "ValueError: enough")


def test_a_method_of_farthing_is_the_optimizer():
    """The method by name and the policy by class make the same suggestions."""
    from benchmarks.methods import make
    from farthing import Optimizer
    from farthing.policies import EIPerCost

    space = Space({"x": Float(0, 1)})
    method = make("EI_0.5", space, budget=50.0, seed=4)
    optimizer = Optimizer(space, budget=50.0, policy=EIPerCost(alpha=0.5), seed=4)
    for _ in range(8):
        trial = optimizer.ask()
        params = method.ask()
        assert params == trial.params
        value, cost = (params["x"] - 0.3) ** 2, 1 + params["x"]
        optimizer.tell(trial, value, cost=cost)
        method.tell(params, Evaluation(value, cost))


# ── batches ────────────────────────────────────────────────────────────────────────────────────


def together(job, **about):
    """The lists that a run in batches fills, and why it ended."""
    played, box = replay._Played(), problem(**about)
    ended = replay._play_together(box, job, job.budget * box.typical_cost, played)
    return played.costs, played.values, played.overhead, ended


def test_a_batch_takes_the_time_of_its_longest_trial_and_all_are_paid():
    job = Job("made/up", "random", 0, budget=10, batch=4)
    run = replay.replay(problem(cost=lambda x: 0.5 + x, value=lambda x: x), job)
    costs = np.array(run.costs)
    taken = wall(costs, 4)
    assert 8.0 < taken.sum() <= run.limit
    assert costs.sum() > 2.5 * run.limit
    for first in range(0, len(costs), 4):
        assert taken[first] == costs[first : first + 4].max()
        assert not taken[first + 1 : first + 4].any()
    # All of a batch are known when its time has passed, and not before.
    clock, values = clock_and_values(run)
    assert curve(run)[-1] == values.min()
    assert values[:4].min() == curve(run, np.array([clock[0] / run.limit]))[0]
    assert np.isnan(curve(run, np.array([0.99 * clock[0] / run.limit]))[0])


def test_what_ends_after_the_budget_is_cut_off_and_the_rest_of_its_batch_counts():
    job = Job("made/up", "random", 0, budget=1, batch=8)
    run = replay.replay(problem(cost=lambda x: 0.5 + x, value=lambda x: x), job)
    assert (len(run.costs), run.ended) == (8, "budget")
    assert 0 < sum(value is None for value in run.values) < 8
    for cost, value in zip(run.costs, run.values, strict=True):
        assert cost == (1.0 if value is None else 0.5 + value)


@pytest.mark.slow
def test_a_batch_of_one_is_the_sequential_run():
    """The clock that passes and the account that is charged lead to the same evaluations."""
    about = {"cost": lambda x: 1.0 + 0.5 * (x > 0.4), "value": lambda x: abs(x - 0.3)}
    job = Job("made/up", "CArBO", 3, budget=20)
    run = replay.replay(problem(**about), job)
    costs, values, overhead, ended = together(job, **about)
    assert (tuple(costs), ended) == (run.costs, run.ended)
    assert values[:-1] == pytest.approx(run.values[:-1])
    assert len(overhead) == len(costs) > 10


def test_a_batch_has_the_requested_size_and_no_evaluation_is_made_twice():
    seen = []
    job = Job("made/up", "PBGI", 1, budget=40, batch=3, most=20)
    costs, values, _, ended = together(job, value=lambda x: seen.append(x) or x)
    assert (len(costs), ended) == (20, "evaluations")
    assert len(set(seen)) == len(seen) == len(values)


@pytest.mark.slow
def test_failures_and_kills_are_reported_in_batches():
    job = Job("made/up", "EI", 0, budget=30, batch=4, most=24)
    about = {"value": lambda x: None if x < 0.3 else x, "cost": lambda x: 8.0 if x > 0.9 else 0.5}
    costs, values, _, _ = together(job, **about)
    assert max(costs[:4]) <= 3.0  # no trial of the start costs more than a tenth of the budget
    assert None in values
    assert min(v for v in values if v is not None) < 0.35


def test_a_row_is_evaluated_once_in_batches_too():
    job = Job("made/table", "random", 0, budget=30, batch=3, most=4)
    run = replay.replay(table(), job)
    assert sorted(run.values) == [0.0, 0.5, 0.5, 1.0]


def test_unsupported_options_of_batches_are_errors():
    for terms in ({"clock": True}, {"rows": True}):
        run = replay.replay(problem(), Job("made/up", "EI", 0, budget=5, batch=2, **terms))
        assert run.error.startswith("ValueError: Batches cannot be combined with")


def test_lines_from_before_there_were_batches_are_runs_of_one():
    job = Job("made/up", "EI", 0, budget=2)
    record = json.loads(line_of(Run(job, 2.0, (1.0,), (0.5,), (0.1,), "budget")))
    assert record.pop("batch") == 1
    assert run_of(json.dumps(record)).job == job
    many = Job("made/up", "EI", 0, budget=2, batch=7)
    assert run_of(line_of(Run(many, 2.0, (1.0,), (0.5,), (0.1,), "budget"))).job == many != job


def test_missing_runs_take_as_long_as_those_kept(tmp_path, monkeypatch):
    """The median of the policy, printed or not, with this budget; else of all with this budget."""
    monkeypatch.setattr(replay, "FOLDER", tmp_path)

    def kept_run(method, seed, seconds, budget=60.0):
        job = Job("lcbench/higgs", method, seed, budget)
        return Run(job, 1.0, (1.0, 1.0), (0.5, 0.4), (seconds / 2, seconds / 2), "budget")

    runs = [kept_run("EI", 0, 3600.0), kept_run("EI", 1, 7200.0), kept_run("EI", 2, 10800.0)]
    runs += [kept_run("EIpu", 0, 36000.0), kept_run("EI", 0, 360.0, 15.0)]
    with replay.appending("tables") as file:
        file.writelines(line_of(run) + "\n" for run in runs)
    made = {run.job: run for run in runs}
    jobs = [*made, *(Job("lcbench/higgs", "paper:EI", seed, 60.0) for seed in range(3))]
    found = replay.missing_of(jobs, made, "tables")
    assert (found.runs, found.hours) == (3, pytest.approx(6.0))
    other = [Job("lcbench/higgs", "cooling", 0, 60.0), Job("lcbench/higgs", "cooling", 0, 15.0)]
    assert replay.missing_of(other, made, "tables").hours == pytest.approx(2.5 + 0.1)
    assert replay.missing_of(made, made, "tables") == (0, 0.0)
