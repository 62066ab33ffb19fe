"""The budget of the Optuna sampler with pruned, failed, enqueued and killed trials."""

import multiprocessing
import os
import signal
import time
from datetime import timedelta

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState
from processes import PATIENCE

from farthing import Float, InvalidInput, Optimizer, Stopped
from farthing.integrations.optuna import CostAwareSampler, Mirror, StopAtBudget, import_study
from farthing.integrations.optuna_process import has_died, this_process
from farthing.integrations.optuna_state import _expected

optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = {"x": FloatDistribution(0, 1)}
DEAD = {**this_process(), "started": "0"}  # its number belongs to another process now


def study_with(sampler, **settings):
    return optuna.create_study(sampler=sampler, **settings)


def costs(study):
    return [t.user_attrs["cost"] for t in study.trials if "cost" in t.user_attrs]


def ten_dollars(trial):
    x = trial.suggest_float("x", 0, 1)
    trial.set_user_attr("cost", 10.0)
    return x


def one_dollar(trial):
    x = trial.suggest_float("x", 0, 1)
    trial.set_user_attr("cost", 1.0)
    return (x - 0.3) ** 2


# ── every trial is charged ─────────────────────────────────────────────────────────────────────


def test_enqueued_trials_are_charged_and_declined_when_the_budget_is_spent():
    study = study_with(CostAwareSampler(budget="$40"))
    for i in range(10):
        study.enqueue_trial({"x": i / 10})
    study.optimize(ten_dollars)
    assert sum(costs(study)) == study.sampler.ledger(study).spent == 40
    study.optimize(ten_dollars, n_trials=3)  # the budget is spent
    assert sum(costs(study)) == 40
    assert study.trials[4].state == TrialState.PRUNED


def test_an_enqueued_trial_may_fix_some_parameters():
    def objective(trial):
        return one_dollar(trial) + trial.suggest_float("y", 0, 1)

    study = study_with(CostAwareSampler(budget="$40"))
    study.optimize(objective, n_trials=4)
    study.enqueue_trial({"y": 0.125})
    study.optimize(objective, n_trials=2)
    record = study.trials[4].system_attrs["farthing"]
    assert study.trials[4].params["y"] == record["params"]["y"] == 0.125
    assert study.trials[4].params["x"] == record["params"]["x"]
    assert study.sampler.ledger(study).spent == 6


def test_a_trial_that_fails_before_it_suggests_anything_is_charged():
    def fails(trial):
        raise ValueError

    study = study_with(CostAwareSampler(budget="$15"))
    study.optimize(fails, n_trials=500, catch=(ValueError,))
    assert "farthing:stopped" in study.user_attrs
    assert len(study.trials) < 100


def test_a_complete_trial_without_a_cost_is_an_error_and_is_charged():
    study = study_with(CostAwareSampler(budget="$15"))
    study.optimize(one_dollar, n_trials=3)
    with pytest.raises(InvalidInput, match="did not report"):
        study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=1)
    assert study.sampler.ledger(study).spent == pytest.approx(4, rel=0.2)


@pytest.mark.parametrize("seed", range(20))
def test_a_budget_in_dollars_is_kept_to_the_cost_of_the_last_trial(seed):
    """Trials are pruned, fail, are enqueued, and die; half of them do not report their cost."""
    rng, true, now = np.random.default_rng(seed), [], []

    class Died(BaseException):
        """As if the process were killed: Optuna keeps the trial as running."""

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        cost = 1 + x
        true.append(cost)
        how = rng.choice(["done", "done", "pruned", "failed", "died"])
        if how == "done" or rng.random() < 0.5:
            trial.set_user_attr("cost", np.float32(cost) if rng.random() < 0.3 else cost)
        if how == "pruned":
            trial.report(x, 1)
            raise optuna.TrialPruned
        if how == "failed":
            raise ValueError
        if how == "died":
            now.append(trial._trial_id)
            raise Died
        return (x - 0.3) ** 2

    study = study_with(CostAwareSampler(budget="$20", seed=seed))
    while "farthing:stopped" not in study.user_attrs:
        assert len(true) < 100
        if rng.random() < 0.3:
            study.enqueue_trial({"x": float(rng.random())})
        try:
            study.optimize(objective, n_trials=1, catch=(ValueError,))
        except Died:
            storage, number = study._storage, now[-1]
            record = storage.get_trial(number).system_attrs["farthing"]
            storage.set_trial_system_attr(number, "farthing", {**record, "process": DEAD})
    assert sum(true) - true[-1] <= 20
    assert sum(true) >= 10


# ── processes ──────────────────────────────────────────────────────────────────────────────────


def _hangs(storage, started):
    study = optuna.load_study(
        study_name="a", storage=storage, sampler=CostAwareSampler(budget="$20")
    )

    def objective(trial):
        trial.suggest_float("x", 0, 1)
        started.set()
        time.sleep(PATIENCE)

    study.optimize(objective, n_trials=1)


@pytest.mark.slow
def test_a_killed_process_is_charged_and_keeps_no_reservation(tmp_path):
    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    sampler = CostAwareSampler(budget="$20")
    study = optuna.create_study(study_name="a", storage=storage, sampler=sampler)
    study.optimize(one_dollar, n_trials=4)
    spawned = multiprocessing.get_context("spawn")
    started = spawned.Event()
    process = spawned.Process(target=_hangs, args=(storage, started))
    process.start()
    assert started.wait(PATIENCE)
    alive = study.get_trials(deepcopy=False)[-1]
    assert alive.state == TrialState.RUNNING
    assert not has_died(alive.system_attrs["farthing"]["process"])
    assert sampler.ledger(study).spent == 4
    os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE)
    assert has_died(alive.system_attrs["farthing"]["process"])
    assert sampler.ledger(study).spent == pytest.approx(5, rel=0.1)
    study.optimize(one_dollar)
    assert len(costs(study)) == 19  # the killed one was the twentieth


def test_a_lost_trial_is_charged_what_was_predicted_and_else_what_was_reserved():
    record = {"names": ["x"], "predicted": {"usd": 1.0}, "hold": {"usd": 3.0, "kWh": 2.0}}
    assert _expected(record, "usd") == 1.0
    assert _expected(record, "kWh") == 2.0
    assert _expected(record, "s") == 0.0
    assert _expected({**record, "names": []}, "usd") == 0.0  # drawn at random: nothing is known


def test_a_process_is_identified_by_more_than_its_number():
    here = this_process()
    assert not has_died(here)
    assert has_died({**here, "started": "0"})
    assert has_died({**here, "boot": "another"})
    assert not has_died({**here, "node": "another", "started": "0"})
    assert not has_died({**here, "pids": "another container", "started": "0"})
    assert not has_died(None)


def test_downtime_after_a_death_is_free():
    """Optuna notices a dead process much later; a budget of time does not pay for the night."""
    study = study_with(CostAwareSampler(budget="1h"))
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=3)
    study.ask(SPACE)
    lost = study.trials[-1]
    before = study.sampler.ledger(study).spent
    storage = study._storage
    record = {**lost.system_attrs["farthing"], "process": DEAD, "hold": {}, "predicted": {"s": 2.0}}
    record["names"] = ["x"]
    storage.set_trial_system_attr(lost._trial_id, "farthing", record)
    study.sampler._clocks.clear()
    stored = storage._get_trial(lost._trial_id)
    stored.datetime_start -= timedelta(days=1)
    assert study.sampler.ledger(study).spent == pytest.approx(before + 2.0, abs=1.0)


# ── overhead ───────────────────────────────────────────────────────────────────────────────────


def test_suggestions_that_are_made_after_a_trial_are_overhead(monkeypatch):
    from farthing.integrations import optuna as module

    slept = []
    suggest = module.suggest

    def slowly(settings, state):
        slept.append(0.05)
        time.sleep(0.05)
        return suggest(settings, state)

    monkeypatch.setattr(module, "suggest", slowly)
    study = study_with(CostAwareSampler(budget="1h"))
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=6)
    recorded = sum(t.system_attrs["farthing"]["think_s"] for t in study.trials)
    assert recorded >= sum(slept)
    assert study.sampler.ledger(study).overhead >= sum(slept)
    assert study.trials[-1].system_attrs["farthing"]["suggest_s"] >= 0.05


# ── constraints ────────────────────────────────────────────────────────────────────────────────


def constrained(trial):
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
    trial.set_user_attr("excess", x + y - 0.5)
    trial.set_user_attr("cost", 1.0)
    return -x - 2 * y


@pytest.mark.parametrize("how", ["set_constraint", "constraints_func", "constraints"])
def test_constraints_are_learnt(how):
    if how == "set_constraint" and not hasattr(optuna.trial.Trial, "set_constraint"):
        pytest.skip("Optuna has set_constraint since 5.0")

    def objective(trial):
        value = constrained(trial)
        if how == "set_constraint":
            trial.set_constraint("sum", trial.user_attrs["excess"])
        return value

    given = {
        "set_constraint": {},
        "constraints_func": {"constraints_func": lambda trial: (trial.user_attrs["excess"],)},
        "constraints": {"constraints": {"excess": "<= 0"}},
    }[how]
    study = study_with(CostAwareSampler(budget="$25", **given))
    study.optimize(objective)
    excess = [t.user_attrs["excess"] for t in study.trials if t.state == TrialState.COMPLETE]
    assert np.median(excess[10:]) < 0.05  # at the bound, where the best is
    feasible = [t.value for t in study.trials if t.user_attrs.get("excess", 1.0) <= 0]
    assert min(feasible) < -0.9  # the best is -1, at y = 0.5


# ── what was silently wrong ────────────────────────────────────────────────────────────────────


def test_rows_that_were_added_have_no_cost():
    study = study_with(CostAwareSampler(budget="1h"))
    for x in (0.1, 0.5, 0.9):
        row = optuna.trial.create_trial(params={"x": x}, distributions=SPACE, value=x)
        study.add_trial(row)
    optimizer = Optimizer({"x": Float(0, 1)}, "1h")
    import_study(optimizer, study)
    assert [trial.cost for trial in optimizer.history] == [{}] * 3
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=1)
    assert study.trials[-1].system_attrs["farthing"]["predicted"] == {}


def test_several_objectives_are_one_clear_error():
    study = optuna.create_study(
        sampler=CostAwareSampler(budget="$5"), directions=["minimize", "maximize"]
    )
    with pytest.raises(InvalidInput, match=r"one objective, but .* has 2\..*StopAtBudget"):
        study.optimize(lambda t: (t.suggest_float("x", 0, 1), 1.0), n_trials=2)
    with pytest.raises(InvalidInput, match="one objective"):
        study.optimize(lambda t: (0.0, 1.0), n_trials=2)
    free = optuna.create_study(directions=["minimize", "maximize"])

    def objective(trial):
        return one_dollar(trial), 1.0

    free.optimize(objective, n_trials=20, callbacks=[StopAtBudget("$5")])
    assert len(free.trials) == 5


@pytest.mark.parametrize("cost", [np.float32(1.0), np.int64(1), {"usd": np.float64(1.0)}])
def test_a_cost_may_be_a_number_of_numpy(cost):
    def objective(trial):
        trial.set_user_attr("cost", cost)
        return trial.suggest_float("x", 0, 1)

    study = study_with(CostAwareSampler(budget="$6"))
    study.optimize(objective)
    assert study.sampler.ledger(study).spent == 6


def test_an_invalid_cost_does_not_end_the_study_for_ever():
    def objective(trial):
        trial.set_user_attr("cost", "much" if trial.number == 2 else 1.0)
        return trial.suggest_float("x", 0, 1)

    study = study_with(CostAwareSampler(budget="$9"))
    with pytest.raises(InvalidInput, match="its cost is 'much'"):
        study.optimize(objective, n_trials=5)
    study.optimize(objective, n_trials=3)
    assert len(study.trials) == 6


def test_the_reason_of_a_failed_trial_is_not_hidden():
    """Optuna shows "Should not reach" if a sampler raises after a trial without a value."""

    def objective(trial):
        trial.suggest_float("x", 0, 1)
        trial.set_user_attr("cost", "much")
        return float("nan")

    study = study_with(CostAwareSampler(budget="$9"))
    study.optimize(objective, n_trials=3)
    assert [t.state for t in study.trials] == [TrialState.FAIL] * 3


def test_a_range_may_be_as_wide_as_floating_point():
    study = study_with(CostAwareSampler())
    study.optimize(lambda t: 1 / (1 + abs(t.suggest_float("x", -1.7e308, 1.7e308))), n_trials=3)
    assert len({t.params["x"] for t in study.trials}) == 3


def test_an_enqueued_value_of_another_type_is_not_learnt_from():
    study = study_with(CostAwareSampler())
    study.optimize(lambda t: t.suggest_int("n", 1, 64, step=3), n_trials=2)
    study.enqueue_trial({"n": "many"})
    with pytest.raises(ValueError, match="many"):
        study.optimize(lambda t: t.suggest_int("n", 1, 64, step=3), n_trials=1)
    study.optimize(lambda t: t.suggest_int("n", 1, 64, step=3), n_trials=2)
    assert [t.state for t in study.trials[-2:]] == [TrialState.COMPLETE] * 2


def test_a_mirror_into_a_used_name_is_refused():
    storage = optuna.storages.InMemoryStorage()
    used = optuna.create_study(storage=storage, study_name="ours", sampler=CostAwareSampler())
    used.optimize(one_dollar, n_trials=2)
    optimizer = Optimizer({"x": Float(0, 1)}, "5 trials")
    optimizer.tell(optimizer.ask(), 1.0)
    with pytest.raises(InvalidInput, match=r"'ours' .* 2 trials, which are not copies.*name="):
        Mirror(storage, "ours")(optimizer)
    Mirror(storage, "free")(optimizer)
    other = Optimizer({"x": Float(0, 9)}, "5 trials")
    other.tell(other.ask(), 1.0)
    with pytest.raises(InvalidInput, match="not copies"):
        Mirror(storage, "free")(other)
    upwards = Optimizer({"x": Float(0, 1)}, "5 trials", direction="maximize")
    optuna.create_study(storage=storage, study_name="down", direction="minimize")
    with pytest.raises(InvalidInput, match="does not maximize"):
        Mirror(storage, "down")(upwards)


def test_ask_with_a_spent_budget_says_why():
    study = study_with(CostAwareSampler(budget="$2"))
    study.optimize(one_dollar)
    study.enqueue_trial({"x": 0.5})
    with pytest.raises(Stopped, match=r"spent|left"):
        study.ask().suggest_float("x", 0, 1)
