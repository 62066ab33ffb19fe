"""Trials on a real Ray cluster of this machine, and a searcher for Ray Tune."""

import os
import sys
import threading
import time
import warnings
from dataclasses import replace

import pytest
from clocks import Clock
from integrations.clusters import (
    JOB,
    check_an_error_of_the_allowance,
    check_failures_and_timeouts,
    check_lost_machines_and_progress,
    go_on,
    kill,
    losses,
    parents_of,
    regression,
    sleeping_first,
    square,
)
from parts import Greedy, RoundRobin
from processes import FOREVER, PATIENCE, is_alive, wait_until

os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # only this machine can reach it
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ray
    from ray import tune

from farthing import Float, InvalidInput, Steps
from farthing.integrations.capacity import capacity
from farthing.integrations.ray import Ray, _Watch
from farthing.integrations.ray_tune import BudgetSearch
from farthing.policies import Random
from farthing.running import Allowance, CallableTask, Part
from farthing.stopping import MaxTrials

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning"),
    pytest.mark.xdist_group("ray"),  # one test process, one Ray cluster
]


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # its workers also import from tests
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="critical")
    yield
    ray.shutdown()


def engine(objective, **settings):
    settings = {"timeout": None, "grace": 1.0, "lease": PATIENCE, **settings}
    return Ray().evaluating(CallableTask(objective), **settings)


@pytest.mark.slow
def test_a_study_runs_on_ray(cluster, study, notes):
    def objective(params):
        notes.begin()
        wait_until(lambda: len(notes.pids) >= 2)  # waits until two run at the same time
        return (params["x"] - 0.3) ** 2

    assert Ray().slots == 4
    assert Ray(num_cpus=2).slots == 2
    result = study(budget="6 trials").run(objective, engine=Ray(num_cpus=2))
    assert [trial.state for trial in result.history] == ["done"] * 6
    assert result.best.value == min(square(trial.params) for trial in result.history)
    assert os.getpid() not in notes.pids
    assert all(trial.run.run_s > 0 for trial in result.history)
    assert "6 trials" in result.stop_reason.sentence


def test_missing_resources_are_warned_of(cluster):
    with pytest.warns(UserWarning, match=r"of a trial \(CPU 1, GPU 2\)\. Trials wait"):
        Ray(num_gpus=2).evaluating(CallableTask(square), timeout=None, grace=1.0, lease=PATIENCE)


def test_trials_fit_on_machines_and_not_on_their_sum():
    machines = [{"CPU": 3.0, "GPU": 1.0}, {"CPU": 3.0}, {"CPU": 8.0, "GPU": 2.0}]
    assert capacity({"CPU": 2, "GPU": 0}, machines) == 1 + 1 + 4
    assert capacity({"CPU": 2, "GPU": 1}, machines) == 1 + 0 + 2
    assert capacity({"CPU": 9}, machines) == 0


@pytest.mark.slow
def test_a_trial_that_exceeds_the_budget_is_killed_on_its_node(cluster, study, notes):
    start = time.monotonic()
    ours = study(budget="3 worker_s")
    result = ours.run(sleeping_first(notes, sleepers=99), engine=Ray(), workers=2)
    assert {trial.state for trial in result.history} == {"killed"}
    assert not any(map(is_alive, notes.pids))
    spent = result.ledger.spent
    assert spent == pytest.approx(sum(trial.cost["worker_s"] for trial in result.history))
    assert 2 < spent < 2 * (time.monotonic() - start)
    assert "budget" in result.history[0].error


def test_a_lost_worker_is_a_lost_trial(cluster, study, notes):
    def kill_its_worker():
        pid, *_ = notes.wait()
        _evaluation, _guard, worker, *_ = parents_of(pid)
        kill(worker)

    killer = threading.Thread(target=kill_its_worker, daemon=True)
    killer.start()
    # One at a time: others could use up the budget before the loss is noticed.
    ours = study(budget="5 trials", retries=1)
    result = ours.run(sleeping_first(notes), engine=Ray(), workers=1)
    killer.join()
    states = [trial.state for trial in result.history]
    assert states.count("lost") == 1
    assert set(states) == {"lost", "done"}
    first = result.history[states.index("lost")]
    assert "Ray worker died" in first.error
    again = next(trial for trial in result.history if trial.run.attempt == 2)
    assert (again.params, again.state) == (first.params, "done")
    assert len(notes.pids) == len(states)  # Ray did not start it again
    assert wait_until(lambda: not any(map(is_alive, notes.pids)))


def test_failures_lost_machines_and_progress(cluster):
    check_failures_and_timeouts(engine)
    check_lost_machines_and_progress(engine)


def test_a_trial_whose_node_runs_out_of_memory_is_lost(monkeypatch):
    def get(message):
        raise ray.exceptions.OutOfMemoryError("7 of 8 GB are used\nA long explanation follows.")

    monkeypatch.setattr(ray, "wait", lambda streams, **_: (streams, []))
    monkeypatch.setattr(ray, "get", get)
    watch = _Watch(replace(Ray(), task=CallableTask(square)), JOB, Allowance(0.1, go_on))
    watch.stream = iter(["a message"])
    ended = watch.wait()
    assert ended.state == "lost"
    assert ended.error == "its node ran out of memory: 7 of 8 GB are used"


@pytest.mark.slow
def test_a_trial_that_waits_for_a_node_uses_nothing(cluster):
    used = []

    def may_go_on(usage):
        used.append(usage.wall_s)
        return "that is enough" if len(used) == 3 else None

    nowhere = Ray(resources={"license": 1})
    with pytest.warns(UserWarning, match="license 1"):
        there = nowhere.evaluating(CallableTask(square), timeout=None, grace=1.0, lease=PATIENCE)
    finished = there.run(JOB, Allowance(0.05, may_go_on))
    assert (finished.state, finished.error) == ("killed", "that is enough")
    assert used == [0.0] * 3
    assert finished.usage.wall_s == 0


@pytest.mark.slow
def test_an_error_of_the_allowance_is_raised_and_ends_the_trial(cluster, notes):
    check_an_error_of_the_allowance(engine, notes)


def test_invalid_arguments_are_refused(cluster, monkeypatch):
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match="cannot be sent"):
        engine(lambda params: lock.locked()).run(JOB, Allowance(0.1, go_on))
    with pytest.raises(InvalidInput, match="at least 0"):
        Ray(num_cpus=-1)
    with pytest.raises(InvalidInput, match="needs at least one resource"):
        Ray(num_cpus=0)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InvalidInput, match=r"ray.init\(\)"):
        Ray().slots  # noqa: B018
    with pytest.raises(InvalidInput, match=r"ray.init\(\)"):
        engine(square).run(JOB, Allowance(0.1, go_on))


# ── Ray Tune ───────────────────────────────────────────────────────────────────────────────────

CONFIG = {
    "model": {"x": tune.uniform(0.0, 1.0), "n": tune.lograndint(1, 65)},
    "rounded": tune.quniform(0.0, 1.0, 0.25),
    "words": tune.choice([["a"], ["b"]]),
    "seed": 7,
}


def searching(budget="$40", **settings):
    search = BudgetSearch(budget, paid="dollars", **settings)
    assert search.set_search_properties("loss", "min", CONFIG)
    return search


def result_of(config):
    loss = (config["model"]["x"] - 0.3) ** 2 + 1.0 / config["model"]["n"]
    return {"loss": loss, "dollars": 0.5 * config["model"]["n"], "time_total_s": 1.0}


def test_the_searcher_reads_ray_tunes_space():
    search = searching()
    configs = [search.suggest(f"t{i}") for i in range(6)]
    for config in configs:
        assert config["seed"] == 7
        assert 0 <= config["model"]["x"] <= 1
        assert config["model"]["n"] in range(1, 65)
        assert config["rounded"] in (0.0, 0.25, 0.5, 0.75, 1.0)
        assert config["words"] in (["a"], ["b"])
    assert not search.set_search_properties("loss", "max", CONFIG)  # it has started
    with pytest.raises(InvalidInput, match="cannot be searched"):
        BudgetSearch("$1").set_search_properties("l", "min", {"a": tune.grid_search([1, 2])})
    with pytest.raises(InvalidInput, match="a bounded range"):
        BudgetSearch("$1").set_search_properties("l", "min", {"a": tune.randn(0, 1)})
    with pytest.raises(InvalidInput, match="nothing to search"):
        BudgetSearch("$1").set_search_properties("l", "min", {"a": 1})
    with pytest.raises(InvalidInput, match="no space yet"):
        BudgetSearch("$1").suggest("t0")
    with pytest.raises(InvalidInput, match="mode"):
        BudgetSearch("$1", direction="maximize")


def test_the_searcher_learns_from_earlier_trials_once_it_knows_the_space():
    rows = [{"a": i / 4, "value": float(i), "cost_usd": 1.0} for i in range(4)]
    search = BudgetSearch("$9", paid="dollars", learn_from={"old": rows})
    search.set_search_properties("loss", "max", {"a": tune.uniform(0, 1)})
    (source,) = search.optimizer.facts[0].learn_from
    assert (source.name, source.y.tolist()) == ("old", [0.0, -1.0, -2.0, -3.0])


def test_the_searcher_keeps_its_budget_and_finishes():
    search, spent, number = searching(), 0.0, 0
    while (config := search.suggest(f"t{number}")) != search.FINISHED:
        result = result_of(config)
        search.on_trial_complete(f"t{number}", result)
        spent, number = spent + result["dollars"], number + 1
    assert search.optimizer.ledger.spent == pytest.approx(spent)
    assert 20 < spent < 80
    assert search.optimizer.best.value < 0.6


@pytest.mark.slow
def test_the_searcher_waits_while_the_rest_of_the_budget_is_reserved():
    search = searching("3 trials")
    assert all(isinstance(search.suggest(f"t{i}"), dict) for i in range(3))
    assert search.suggest("t3") is None
    for i in range(3):
        search.on_trial_complete(f"t{i}", {"loss": 1.0, "dollars": 1.0, "time_total_s": 1.0})
    assert search.suggest("t3") == search.FINISHED


def test_a_rule_ends_the_search():
    search = searching(None, stop=MaxTrials(2), policy=Random())
    for i in range(2):
        search.suggest(f"t{i}")
        search.on_trial_complete(f"t{i}", {"loss": 1.0, "dollars": 1.0})
    assert search.suggest("t2") == search.FINISHED


def test_failed_trials_and_trials_that_ended_early():
    search = searching("$100")
    for i in range(3):
        search.suggest(f"t{i}")
        search.on_trial_result(f"t{i}", {"dollars": 2.0, "time_total_s": 1.0})
    search.on_trial_complete("t0", None, error=True)
    search.on_trial_complete("t1", {"loss": float("nan"), "dollars": 3.0})
    search.on_trial_complete("t2", None)
    assert [t.state for t in search.optimizer.history] == ["failed", "failed", "lost"]
    assert [t.cost.get("usd") for t in search.optimizer.history] == [2.0, 3.0, 2.0]
    assert search.optimizer.ledger.spent == 7.0
    search.on_trial_complete("unknown", None)
    search.add_evaluated_point(
        {"model": {"x": 0.1, "n": 3}, "rounded": 0.5, "words": 0, "seed": 7}, 0.5
    )
    assert search.optimizer.best.value == 0.5


def test_the_state_survives_a_restart(tmp_path):
    search = searching("$100")
    search.suggest("a")
    search.on_trial_complete("a", {"loss": 1.0, "dollars": 2.0})
    search.suggest("b")
    search.save(str(tmp_path / "kept"))
    other = BudgetSearch("$100", paid="dollars")
    other.restore(str(tmp_path / "kept"))
    other.on_trial_complete("b", {"loss": 2.0, "dollars": 3.0})
    assert other.optimizer.ledger.spent == 5.0
    assert [t.value for t in other.optimizer.history] == [1.0, 2.0]


def test_seconds_are_what_ray_tune_measures(monkeypatch):
    Clock(monkeypatch, suggestion=0.5)
    search = BudgetSearch("20 worker_s", {"x": Float(0, 1)}, metric="loss", mode="min")
    search.suggest("a")
    search.on_trial_complete("a", {"loss": 1.0, "time_total_s": 4.0})
    assert search.optimizer.ledger.spent == 4.0
    dollars = BudgetSearch("$20", {"x": Float(0, 1)}, "loss", "max", rate="$3600/h per worker")
    dollars.suggest("a")
    dollars.on_trial_complete("a", {"loss": 1.0, "time_total_s": 4.0})
    account = dollars.optimizer.ledger["usd"]
    assert account.spent - account.overhead == pytest.approx(4.0)  # a dollar a second
    assert account.overhead == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_tuner_ends_when_the_budget_does(cluster, tmp_path):
    def train(config):
        tune.report({"loss": (config["x"] - 0.3) ** 2, "dollars": 2.0})

    search = BudgetSearch("$9", paid="dollars", policy=Random())
    tuner = tune.Tuner(
        train,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", search_alg=search, num_samples=-1, max_concurrent_trials=2
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert len(results) == 4  # the budget cannot pay for a fifth
    assert not results.errors
    assert search.optimizer.ledger.spent == 8.0
    assert results.get_best_result().metrics["loss"] == search.optimizer.best.value


def iterations(config, count):
    """The results of the first iterations of a training."""
    loss = (config["model"]["x"] - 0.3) ** 2
    return [
        {"loss": loss + 1 / step, "dollars": 0.1 * step, "training_iteration": step}
        for step in range(1, count + 1)
    ]


def trained(search, trial_id, count):
    """Train a suggestion; a scheduler ends it after some iterations."""
    config = search.suggest(trial_id)
    if isinstance(config, dict):
        *before, last = iterations(config, count)
        for result in before:
            search.on_trial_result(trial_id, result)
        search.on_trial_complete(trial_id, last)
    return config


def test_a_trial_that_a_scheduler_ended_is_a_part_of_a_training():
    search = searching("$100", steps=9)
    counts = [9, 9, 1, 3, 9, 1]
    for i, count in enumerate(counts):
        trained(search, f"t{i}", count)
    history = search.optimizer.history
    assert [t.state for t in history] == ["done" if c == 9 else "paused" for c in counts]
    assert [t.step for t in history] == counts
    assert [len(t.curve) for t in history] == counts
    assert search.optimizer.ledger.spent == pytest.approx(sum(t.cost["usd"] for t in history))
    for trial, count in zip(history, counts, strict=True):
        assert trial.cost["usd"] == pytest.approx(0.1 * count)
        assert trial.value == trial.curve[-1].value
    # The next one is reserved to its last step, and no paused one is resumed.
    search.suggest("next")
    asked = history_of(search)[-1]
    assert (asked.number, asked.state, asked.until) == (6, "running", 9)
    assert asked.predicted["usd"] == pytest.approx(0.9, rel=0.1)


def test_a_trial_that_a_scheduler_ended_is_not_complete():
    """Without steps: it counts as pruned, and what it cost is a lower bound."""
    search = searching("$100")
    for i in range(4):  # Ray Tune repeats the last result of a training that has returned
        results = iterations(search.suggest(f"t{i}"), 9)
        for result in results:
            search.on_trial_result(f"t{i}", result)
        search.on_trial_complete(f"t{i}", results[-1])
    trained(search, "ended", 3)
    trained(search, "as far", 9)
    history = history_of(search)
    assert [t.state for t in history] == [*["done"] * 4, "killed", "done"]
    assert history[4].is_pruned
    assert history[4].value is None
    assert history[4].cost["usd"] == pytest.approx(0.3)
    assert search.optimizer.ledger.spent == pytest.approx(sum(t.cost["usd"] for t in history))
    config = search.suggest("next")
    assert config["model"] != {n.removeprefix("model/"): v for n, v in history[4].params.items()}


@pytest.mark.parametrize("stop", [{"training_iteration": 3}, {"loss": 0.0}, lambda *_: True])
def test_a_trial_that_meets_a_criterion_of_the_user_is_complete(stop):
    search = BudgetSearch("$100", paid="dollars")
    assert search.set_search_properties("loss", "min", CONFIG, stop=stop, num_samples=-1)
    trained(search, "first", 9)
    trained(search, "second", 3)
    assert [t.state for t in history_of(search)] == ["done", "done"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trials_that_asha_ends_are_learnt_as_pruned(cluster, tmp_path):
    def train(config):
        for step in range(1, 9):
            tune.report({"loss": config["x"] + 1 / step, "dollars": 0.1 * step})

    search = BudgetSearch("$8", paid="dollars", policy=Random())
    tuner = tune.Tuner(
        train,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            search_alg=search,
            num_samples=5,
            max_concurrent_trials=1,
            scheduler=tune.schedulers.ASHAScheduler(max_t=8, grace_period=1, reduction_factor=2),
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    steps = [result.metrics["training_iteration"] for result in results]
    states = [trial.state for trial in history_of(search)]
    assert states == ["done" if step == 8 else "killed" for step in steps]
    assert set(states) == {"done", "killed"}


def history_of(search):
    return search.optimizer.history


@pytest.mark.slow
def test_a_search_with_a_scheduler_keeps_its_budget_and_learns():
    search, number = searching("$20", steps=9), 0
    while trained(search, f"t{number}", 9 if number % 3 == 0 else 1) != search.FINISHED:
        number += 1
        assert number < 1000
    assert search.optimizer.ledger.spent <= 20 + 0.9  # a training that has started is finished
    assert len({tuple(t.params.items()) for t in history_of(search)}) == number
    assert search.optimizer.best.value < 0.2


@pytest.mark.slow
def test_trainings_are_paused_and_resumed_on_any_node(cluster, study, notes):
    steps = Steps(8, rungs=(2, 4))
    ours = study(budget="3 trials", steps=steps, policy=RoundRobin(width=3))
    result = ours.run(regression(notes), engine=Ray(), workers=2)
    assert [trial.state for trial in result.history] == ["done"] * 3
    for trial in result.history:
        assert [point.step for point in trial.curve] == list(range(1, 9))
        expected = losses(trial.params["x"] / 20, 8)
        assert [point.value for point in trial.curve] == pytest.approx(expected)
        assert trial.value == pytest.approx(min(expected))
    # The first one at a rung makes room for the third; the others may be alone when they are there.
    assert any(trial.run.since > 0 for trial in result.history)  # it went on from a checkpoint
    assert len(notes.pids) > 3
    assert not any(map(is_alive, notes.pids))


@pytest.mark.slow
def test_a_training_that_goes_on_stays_in_its_process(cluster, study, notes):
    steps = Steps(8, rungs=(2, 4), resume="never")
    ours = study(budget="900 worker_s, 2 trials", steps=steps, policy=Greedy())
    result = ours.run(regression(notes), engine=Ray(), workers=1)
    assert [trial.state for trial in result.history] == ["done"] * 2
    assert len(notes.pids) == 2
    for trial in result.history:
        assert len(trial.curve) == 8
        assert trial.cost["worker_s"] >= trial.curve[-1].cost["worker_s"] > 0
    assert result.ledger["worker_s"].spent == pytest.approx(
        sum(trial.cost["worker_s"] for trial in result.history)
    )


@pytest.mark.slow
def test_a_training_whose_worker_dies_goes_on_from_its_checkpoint(cluster, study, notes):
    def kill_its_worker():
        pid = notes.wait(3)[2]
        _evaluation, _guard, worker, *_ = parents_of(pid)
        kill(worker)

    def sleep_in_the_third(number):  # it is a part that was resumed
        if number == 2:
            time.sleep(FOREVER)

    killer = threading.Thread(target=kill_its_worker, daemon=True)
    killer.start()
    ours = study(budget="2 trials", steps=Steps(8, rungs=(2, 4)), policy=RoundRobin(width=2))
    train = regression(notes, sleep_in_the_third)
    result = ours.run(train, engine=Ray(), workers=1)
    killer.join()
    assert [trial.state for trial in result.history] == ["done"] * 2
    for trial in result.history:
        expected = losses(trial.params["x"] / 20, 8)
        assert [point.value for point in trial.curve] == pytest.approx(expected)
    assert wait_until(lambda: not any(map(is_alive, notes.pids)))


@pytest.mark.slow
def test_a_training_that_waits_for_a_decision_can_be_killed(cluster, notes):
    """The tuner never decides: instead, the training must end."""
    job = replace(JOB, part=Part(0, 2, 8))
    asked = threading.Event()

    def on_report(message, usage):
        if message["step"] == 2:
            asked.set()

    allowance = Allowance(0.05, lambda usage: "it must end" if asked.is_set() else None, on_report)
    finished = engine(regression(notes)).run(job, allowance)
    assert finished.state == "killed"
    assert finished.error.startswith("it must end")
    assert len(finished.reports) == 2
    assert not any(map(is_alive, notes.pids))


@pytest.mark.slow
def test_a_folder_of_checkpoints_that_is_not_shared_is_refused(cluster, notes, tmp_path):
    job = replace(JOB, part=Part(0, 2, 8, checkpoint=tmp_path / "elsewhere"))
    with pytest.raises(InvalidInput, match="a folder that all machines"):
        engine(regression(notes)).run(job, Allowance(0.1, go_on))
    assert not notes.pids
