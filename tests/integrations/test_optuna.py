"""The Optuna sampler: budgets, costs, clocks, several processes; import and mirror."""

import io
import json
import logging
import math
import pickle
import threading
import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import RandomSampler
from optuna.trial import TrialState
from processes import PATIENCE

from farthing import Bool, Float, Int, InvalidInput, Optimizer, Ordinal, Stopped, Study, at_least
from farthing.acquisition.protocols import Proposal
from farthing.integrations.optuna import (
    CostAwareSampler,
    Mirror,
    StopAtBudget,
    import_study,
    space_of,
)
from farthing.integrations.optuna_space import Translation, distributions_of
from farthing.policies import EIPerCost
from farthing.space.space import Space
from farthing.stopping import MaxTrials

optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = {"x": FloatDistribution(0.0, 10.0), "n": IntDistribution(1, 64, log=True)}


def loss(trial):
    x, n = trial.suggest_float("x", 0.0, 10.0), trial.suggest_int("n", 1, 64, log=True)
    return (x - 7.0) ** 2 + 4.0 / n


def priced(trial):
    """A loss, and its cost in dollars: large values are expensive."""
    value = loss(trial)
    trial.set_user_attr("cost", 0.5 * trial.params["n"])
    return value


def study_with(sampler, **settings):
    return optuna.create_study(sampler=sampler, **settings)


def test_one_line_keeps_a_budget_and_finds_the_minimum():
    sampler = CostAwareSampler(budget="$40")
    study = study_with(sampler)
    study.optimize(priced)
    costs = [t.user_attrs["cost"] for t in study.trials if t.state == TrialState.COMPLETE]
    assert sampler.ledger(study).spent == pytest.approx(sum(costs))
    assert sum(costs) > 20
    assert sum(costs[:-1]) < 40  # a started trial is finished, and is the last one
    assert study.best_value < 0.5
    assert "nothing affordable is left" in study.user_attrs["farthing:stopped"] or (
        "spent" in study.user_attrs["farthing:stopped"]
    )


def test_a_trial_beyond_the_budget_is_not_evaluated():
    evaluated = []

    def objective(trial):
        value = priced(trial)
        evaluated.append(trial.number)
        return value

    study = study_with(CostAwareSampler(SPACE, budget="$40"))
    study.optimize(objective)
    before = len(evaluated)
    study.optimize(objective, n_trials=5)  # the budget is spent
    assert len(evaluated) == before
    assert study.trials[-1].state == TrialState.PRUNED
    assert len([t for t in study.trials if t.state == TrialState.PRUNED]) <= 2
    with pytest.raises(Stopped, match=r"left|spent"):
        study.ask().suggest_float("x", 0.0, 10.0)


@pytest.mark.slow
def test_it_spends_less_on_expensive_points_than_a_sampler_without_costs():
    study = study_with(CostAwareSampler(SPACE, budget="$100"))
    study.optimize(priced)
    aware = [t.user_attrs["cost"] for t in study.trials if "cost" in t.user_attrs]
    blind = study_with(optuna.samplers.RandomSampler(seed=0))
    blind.optimize(priced, n_trials=len(aware))
    assert np.mean(aware) < np.mean([t.user_attrs["cost"] for t in blind.trials])


def test_a_trial_without_a_cost_is_an_error_with_a_remedy():
    study = study_with(CostAwareSampler(budget="$40"))
    with pytest.raises(InvalidInput, match=r'set_user_attr\("cost"'):
        study.optimize(loss, n_trials=3)
    assert len(study.trials) == 1
    assert study.trials[0].state == TrialState.COMPLETE  # its value is kept


@pytest.mark.slow
def test_with_a_rate_or_a_known_cost_a_trial_need_not_report():
    study = study_with(CostAwareSampler(budget="$1000", rate="$3600/h"))
    study.optimize(loss, n_trials=3)
    assert study.sampler.ledger(study).spent == pytest.approx(
        sum(t.user_attrs["farthing:seconds"] for t in study.trials)
    )
    sampler = CostAwareSampler(SPACE, budget="$20", cost=lambda params: 0.5 * params["n"])
    study = study_with(sampler)
    study.optimize(loss)
    assert sampler.ledger(study).spent == sum(
        0.5 * t.params["n"] for t in study.trials if t.state == TrialState.COMPLETE
    )
    assert sampler.ledger(study).spent <= 20


def test_an_invalid_cost_is_refused():
    def objective(trial):
        trial.set_user_attr("cost", "much")
        return loss(trial)

    with pytest.raises(InvalidInput, match="its cost is 'much'"):
        study_with(CostAwareSampler(budget="$40")).optimize(objective, n_trials=1)


# ── the clock ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Slow:
    """EI per cost after a sleep; it notes the number of trials each time."""

    seconds: float = 0.3
    slept: list[int] = field(default_factory=list)
    needs: ClassVar[frozenset[str]] = EIPerCost.needs
    reads: ClassVar[frozenset[str]] = EIPerCost.reads

    def propose(self, belief, rng) -> Proposal:
        time.sleep(self.seconds)
        self.slept.append(len(belief.history))
        return EIPerCost().propose(belief, rng)


def test_the_samplers_own_time_is_not_the_objectives():
    slow = Slow()
    study = study_with(CostAwareSampler(SPACE, policy=slow))
    study.optimize(loss, n_trials=7)
    suggestion = [t for t in study.trials if t.number in slow.slept]
    assert len(suggestion) >= 2
    for trial in suggestion:  # the duration of Optuna includes the sleep
        ours = trial.duration.total_seconds() - trial.user_attrs["farthing:seconds"]
        assert ours >= slow.seconds


def test_seconds_count_while_at_least_one_trial_runs():
    study = study_with(CostAwareSampler(SPACE, budget="1h"))
    together = threading.Barrier(3)

    def objective(trial):
        value = loss(trial)
        together.wait(PATIENCE)  # three at the same time, twice
        time.sleep(0.1)
        return value

    study.optimize(objective, n_trials=6, n_jobs=3)
    ledger = study.sampler.ledger(study)
    of_all = sum(t.duration.total_seconds() for t in study.trials)
    first = min(t.datetime_start for t in study.trials)
    last = max(t.datetime_complete for t in study.trials)
    assert ledger.spent <= (last - first).total_seconds() + 1e-6
    assert 0.2 < ledger.spent < of_all
    assert 0 < ledger.overhead < ledger.spent


# ── other samplers ─────────────────────────────────────────────────────────────────────────────


def test_trials_of_another_sampler_are_learnt_from_and_not_charged():
    study = study_with(optuna.samplers.RandomSampler(seed=1))
    study.optimize(priced, n_trials=8)
    sampler = CostAwareSampler(budget="$100")
    study.sampler = sampler
    assert sampler.ledger(study).spent == 0
    study.optimize(priced, n_trials=1)
    record = study.trials[-1].system_attrs["farthing"]
    assert record["predicted"]["usd"] == pytest.approx(study.trials[-1].user_attrs["cost"], rel=0.5)
    assert "start" not in record["notes"].get("phase", "")


def test_a_study_without_costs_can_report_costs_from_now_on():
    study = study_with(optuna.samplers.RandomSampler(seed=1))
    study.optimize(loss, n_trials=8)
    study.sampler = CostAwareSampler(budget="$100")
    study.optimize(priced, n_trials=6)
    assert all(t.state == TrialState.COMPLETE for t in study.trials)


@pytest.mark.slow
def test_pruned_and_failed_trials_are_learnt_from():
    def objective(trial):
        value = loss(trial)
        trial.set_user_attr("cost", 1.0)
        if 4 < trial.params["x"] < 6:
            raise ValueError("out of memory")
        if trial.params["n"] > 16:
            trial.report(value, 0)
            raise optuna.TrialPruned
        return value

    study = study_with(CostAwareSampler(SPACE, budget="$40", seed=3))
    study.optimize(objective, catch=(ValueError,))
    states = [t.state for t in study.trials]
    assert {TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL} == set(states)
    assert study.sampler.ledger(study).spent == len(states)
    assert len(states) >= 39
    late = [t.state for t in study.trials[20:40]]
    assert late.count(TrialState.PRUNED) + late.count(TrialState.FAIL) <= 10
    assert study.best_value < 1.0  # near x = 7 and n = 16
    assert len({tuple(t.params.values()) for t in study.trials}) == len(states)


@pytest.mark.parametrize("reported", [True, False])
def test_a_pruned_trial_without_a_cost_is_charged(reported):
    """The loop ends within the budget, whether or not pruned trials report their cost."""
    true = []

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        paid = 0.0
        for step in range(10):
            paid += 0.1 * (1 + x)
            trial.report(abs(x - 0.3) + 1 / (step + 1), step)
            if trial.should_prune():
                true.append(paid)
                if reported:
                    trial.set_user_attr("cost", paid)
                raise optuna.TrialPruned
        true.append(paid)
        trial.set_user_attr("cost", paid)
        return abs(x - 0.3)

    study = study_with(
        CostAwareSampler(budget="$15"), pruner=optuna.pruners.MedianPruner(n_startup_trials=3)
    )
    study.optimize(objective, n_trials=200)
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED and t.params]
    assert "farthing:stopped" in study.user_attrs
    assert len(pruned) >= 3
    assert len({t.params["x"] for t in pruned}) > 0.9 * len(pruned)
    spent = study.sampler.ledger(study).spent
    assert sum(true) < 15 + 2  # a training that has started is finished
    assert spent == pytest.approx(sum(true)) if reported else spent > sum(true)


def test_a_failed_trial_whose_cost_nobody_knows_is_charged():
    def fails(trial):
        trial.suggest_float("x", 0, 1)
        raise ValueError

    study = study_with(CostAwareSampler(budget="$15"))
    study.optimize(fails, n_trials=500, catch=(ValueError,))
    assert "farthing:stopped" in study.user_attrs
    assert 5 <= len(study.trials) < 100


def test_an_option_whose_trials_were_pruned_can_be_proposed():
    """An option that hangs is closed after two kills; pruned trials do not hang."""

    def objective(trial):
        kind = trial.suggest_categorical("kind", ["a", "b"])
        x = trial.suggest_float("x", 0, 1)
        trial.set_user_attr("cost", 1.0)
        if kind == "b" and trial.number < 6:
            raise optuna.TrialPruned
        return x + (kind == "a")

    study = study_with(CostAwareSampler(budget="$100"))
    study.optimize(objective, n_trials=16)
    kinds = [(t.params["kind"], t.state) for t in study.trials]
    assert kinds.count(("b", TrialState.PRUNED)) >= 2
    assert ("b", TrialState.COMPLETE) in kinds


def test_brackets_of_a_pruner_share_the_budget():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        trial.set_user_attr("cost", 1 + x)
        for step in range(5):
            trial.report(x * (5 - step), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x

    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=5)
    study = study_with(CostAwareSampler(budget="$20"), pruner=pruner)
    study.optimize(objective, n_trials=99)
    costs = [t.user_attrs["cost"] for t in study.trials if "cost" in t.user_attrs]
    assert sum(costs) == pytest.approx(study.sampler.ledger(study).spent)
    assert 15 < sum(costs) < 22
    assert TrialState.PRUNED in [t.state for t in study.trials]


def test_an_infinite_value_is_a_failure():
    study = study_with(CostAwareSampler(SPACE))
    study.optimize(lambda t: math.inf if loss(t) > 20 else loss(t), n_trials=12)
    assert study.best_value < 20


def test_a_range_that_changes_is_drawn_at_random_from_then_on():
    study = study_with(CostAwareSampler(budget="$100"))

    def objective(trial, high):
        trial.set_user_attr("cost", 1.0)
        return (trial.suggest_float("x", 0, high) - 3) ** 2 + trial.suggest_float("y", 0, 1)

    study.optimize(lambda t: objective(t, 10), n_trials=6)
    study.optimize(lambda t: objective(t, 5), n_trials=6)
    assert study.trials[5].system_attrs["farthing"]["names"] == ["x", "y"]
    assert study.trials[-1].system_attrs["farthing"]["names"] == ["y"]
    assert len({t.params["x"] for t in study.trials[-5:]}) == 5


# ── several processes ──────────────────────────────────────────────────────────────────────────


def test_running_trials_of_another_process_are_seen_before_they_suggest():
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="a", sampler=CostAwareSampler(SPACE))
    study.optimize(priced, n_trials=6)
    first = study.ask()
    first.suggest_float("x", 0.0, 10.0)  # n is chosen, but Optuna has not stored it
    assert "n" not in study.trials[-1].params
    other = optuna.load_study(study_name="a", storage=storage, sampler=CostAwareSampler(SPACE))
    second = other.ask(SPACE)
    chosen = study.trials[first.number].system_attrs["farthing"]["params"]
    assert chosen.keys() == {"x", "n"}
    assert second.params != chosen


@pytest.mark.slow
def test_another_process_suggests_the_same(tmp_path):
    url = f"sqlite:///{tmp_path / 'optuna.db'}"

    def ask(calls):
        for _ in range(calls):
            sampler = CostAwareSampler(SPACE, budget="$100", seed=7)
            study = optuna.create_study(
                storage=url, study_name=f"{calls}", sampler=sampler, load_if_exists=True
            )
            study.optimize(priced, n_trials=9 // calls)
        return [t.params for t in study.trials]

    assert ask(1) == ask(3)


def test_a_sampler_can_be_pickled():
    study = study_with(CostAwareSampler(SPACE, budget="$100"))
    study.optimize(priced, n_trials=4)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.optimize(priced, n_trials=2)
    assert len(study.trials) == 6


# ── rules, directions, spaces ──────────────────────────────────────────────────────────────────


def test_a_stopping_rule_ends_the_loop():
    study = study_with(CostAwareSampler(SPACE, stop=MaxTrials(9)))
    study.optimize(priced, n_trials=50)
    assert len(study.trials) == 9
    assert study.sampler.verdict(study).stop
    assert "9" in study.user_attrs["farthing:stopped"]


def earlier_study(sign=1):
    study = optuna.create_study(direction="minimize" if sign == 1 else "maximize", study_name="may")
    study.sampler = RandomSampler(seed=3)
    study.optimize(lambda trial: sign * priced(trial), n_trials=20)
    return study


@pytest.mark.parametrize("sign", [1, -1], ids=["minimised", "maximised"])
def test_a_study_learns_from_earlier_ones(sign):
    may = earlier_study(sign)
    sampler = CostAwareSampler(SPACE, budget="$60", learn_from=may, seed=1)
    study = study_with(sampler)
    study.optimize(priced, n_trials=5)
    first = study.trials[0].system_attrs["farthing"]
    assert first["notes"]["portfolio"] == {"may": 1.0}
    tried = [trial.params for trial in may.trials]
    assert any(study.trials[0].params == pytest.approx(params) for params in tried)
    assert 0.0 <= study.trials[-1].system_attrs["farthing"]["notes"]["trust"]["may"] <= 1.0
    again = study_with(pickle.loads(pickle.dumps(sampler)))
    again.optimize(priced, n_trials=5)
    assert [t.params for t in again.trials] == [t.params for t in study.trials]


def test_a_table_is_a_source_of_a_sampler_whose_space_is_not_known_yet(caplog, monkeypatch):
    rows = [{**trial.params, "value": trial.value} for trial in earlier_study().trials]
    optuna.logging.get_logger("optuna.farthing")  # its messages go to the log of Optuna
    monkeypatch.setattr(logging.getLogger("optuna"), "propagate", True)
    caplog.set_level(logging.INFO, "optuna.farthing")
    study = study_with(CostAwareSampler(learn_from={"may": rows}, seed=1))
    study.optimize(priced, n_trials=4)
    assert "may" in study.trials[-1].system_attrs["farthing"]["notes"]["trust"]
    assert "Learns from 'may' (20 trials" in caplog.text


def test_sources_that_teach_a_sampler_nothing_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"gone\.csv.*cannot be read"):
        CostAwareSampler(SPACE, learn_from=str(tmp_path / "gone.csv"))
    with pytest.raises(InvalidInput, match="no parameter of this space"):
        CostAwareSampler(SPACE, learn_from=[{"depth": 1, "value": 2.0}])
    two = optuna.create_study(directions=["minimize", "minimize"])
    with pytest.raises(InvalidInput, match="has 2 objectives"):
        CostAwareSampler(SPACE, learn_from=[two])


def test_options_of_a_source_are_those_of_optuna():
    def objective(trial):
        return float(trial.suggest_categorical("odd", [1, True, None]) is True)

    old = optuna.create_study(sampler=RandomSampler(seed=1), study_name="old")
    old.optimize(objective, n_trials=12)
    choices = {"odd": CategoricalDistribution([None, True, 1])}  # another order
    study = study_with(CostAwareSampler(choices, learn_from={"old": old, "again": old}))
    trial = study.ask(choices)
    assert trial.params["odd"] is not True
    assert "12 trials" in str(study.sampler._arguments._read)


@pytest.mark.slow
def test_the_direction_is_that_of_the_study():
    study = study_with(CostAwareSampler(SPACE, budget="$60"), direction="maximize")
    study.optimize(lambda t: -priced(t))
    assert study.best_value > -0.6
    with pytest.raises(InvalidInput, match="create_study"):
        CostAwareSampler(direction="maximize")
    with pytest.raises(InvalidInput, match="cannot end a trial"):
        CostAwareSampler(max_overrun=4)
    with pytest.raises(InvalidInput, match="is not a budget"):
        CostAwareSampler(budget="lots")
    with pytest.raises(InvalidInput, match="not both"):
        CostAwareSampler({"x": FloatDistribution(0, 1), "y": Float(0, 1)})


def test_a_space_of_farthing_starts_at_its_cheap_end():
    space = {"x": Float(0, 10), "n": Int(1, 64, log=True, cost="increases")}
    study = study_with(CostAwareSampler(space, budget="$100"))
    study.optimize(priced, n_trials=1)
    assert study.trials[0].params["n"] <= 4
    blind = study_with(CostAwareSampler(budget="$100"))
    blind.optimize(priced, n_trials=1)
    assert blind.trials[0].params == {"x": 5.0, "n": 6}


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(-10.2, 10.2, step=0.1),
        FloatDistribution(0.0, 100.0, step=1e-3),
        IntDistribution(3, 99, step=4),
        IntDistribution(0, 2**45),
        CategoricalDistribution([1, True, "1", None]),
        CategoricalDistribution([float("nan"), 0.5]),
    ],
)
def test_every_value_survives_the_round_trip(distribution):
    translation = Translation.of({"p": distribution})
    rng = np.random.default_rng(0)
    for x in translation.space.sample(50, rng):
        theirs = translation.theirs(translation.space.decode(x))
        assert distribution._contains(distribution.to_internal_repr(theirs["p"]))
        again = translation.theirs(translation.ours(theirs))["p"]
        assert again is theirs["p"] or again == theirs["p"]


# ── a callback for any sampler ─────────────────────────────────────────────────────────────────


def test_the_callback_stops_any_study_at_its_budget():
    study = study_with(optuna.samplers.RandomSampler(seed=0))
    study.optimize(priced, n_trials=500, callbacks=[StopAtBudget("$100")])
    costs = [t.user_attrs["cost"] for t in study.trials]
    assert sum(costs) >= 100 > sum(costs[:-1])
    assert "$100" in study.user_attrs["farthing:stopped"]


# ── import ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def old():
    study = study_with(optuna.samplers.RandomSampler(seed=2))
    study.optimize(priced, n_trials=8)
    return study


def test_import_of_values_costs_or_both(old):
    space = space_of(old)
    assert space == Space({"x": Float(0, 10), "n": Int(1, 64, log=True)})
    both, values, costs = (Optimizer(space, "$100") for _ in range(3))
    assert import_study(both, old) == 8
    assert import_study(values, old, costs=False) == 8
    assert import_study(costs, old, values=False) == 8
    assert both.best.value == values.best.value == old.best_value
    assert [t.cost["usd"] for t in both.history] == [t.user_attrs["cost"] for t in old.trials]
    assert not any(t.cost for t in values.history)
    assert costs.best is None
    assert len(costs.history) == 0
    assert both.ledger.spent == 0
    known = costs.ask().predicted["usd"]
    assert known is not None


def test_import_of_pruned_and_failed_trials_and_of_trials_without_cost():
    study = study_with(optuna.samplers.RandomSampler(seed=2))

    def objective(trial):
        value = loss(trial)
        if trial.number % 3 == 0:
            raise optuna.TrialPruned
        if trial.number % 3 == 1:
            raise ValueError
        return value

    study.optimize(objective, n_trials=9, catch=(ValueError,))
    dollars, seconds = Optimizer(space_of(study), "$100"), Optimizer(space_of(study), "1h")
    assert import_study(dollars, study) == 6  # a pruned trial without a cost is left out
    assert [t.state for t in dollars.history] == ["failed", "done"] * 3
    assert import_study(seconds, study) == 9  # its duration is known
    assert [t.state for t in seconds.history] == ["killed", "failed", "done"] * 3
    assert all(t.cost["s"] > 0 for t in seconds.history)


def test_import_of_a_changed_range_uses_the_whole_range():
    study = study_with(optuna.samplers.RandomSampler(seed=2))
    for low, high in ((0, 1), (-3, 0.5)):
        study.optimize(lambda t, a=low, b=high: t.suggest_float("x", a, b), n_trials=3)
    assert space_of(study) == Space({"x": Float(-3, 1)})
    assert import_study(Optimizer(space_of(study), "5 trials"), study) == 6
    with pytest.raises(InvalidInput, match=r"No row can be imported\. Row 1"):
        import_study(Optimizer({"x": Float(0.9, 1)}, "5 trials"), study)


def test_import_refuses_studies_that_do_not_fit(old):
    with pytest.raises(InvalidInput, match='direction="minimize"'):
        import_study(Optimizer(space_of(old), "$1", direction="maximize"), old)
    several = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(InvalidInput, match="2 objectives"):
        import_study(Optimizer(space_of(old), "$1"), several)
    with pytest.raises(InvalidInput, match="no trial with parameters"):
        space_of(optuna.create_study())
    sometimes = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    sometimes.optimize(
        lambda t: t.suggest_float("b", 0, 1) if t.suggest_int("a", 0, 1) else 0.0, n_trials=6
    )
    assert space_of(sometimes).parameters["b"] == Float(0, 1, when={"a": at_least(1)})
    sometimes.optimize(lambda t: t.suggest_int("a", 0, 1), n_trials=6)  # b is absent also if a = 1
    with pytest.raises(InvalidInput, match="when="):
        space_of(sometimes)


# ── mirror ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_study_is_mirrored_for_the_dashboard(tmp_path):
    from optuna_dashboard import wsgi

    url = f"sqlite:///{tmp_path / 'dashboard.db'}"
    space = {"x": Float(0, 1), "k": Ordinal([1, 2, 4]), "pair": Ordinal([(1, 2), (3, 4)])}
    study = Study.create(tmp_path / "a.db", name="svm", space=space, budget="12 trials")
    mirror = Mirror(url)
    for number in range(10):
        trial = study.ask()
        if number == 3:
            study.tell(trial, failed="no memory", cost=1.0)
        elif number == 4:
            study.tell(trial, killed=True, cost=2.0)
        else:
            study.tell(trial, trial.params["x"] * trial.params["k"], cost=0.5)
        mirror(study)
    Mirror(url)(study)  # copied trials are not copied again
    study.ask()  # running trials are not copied yet
    mirror(study)

    def get(path):
        status = []
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": "after=0"}
        environ |= {"SERVER_NAME": "a", "SERVER_PORT": "80", "wsgi.url_scheme": "http"}
        environ |= {"wsgi.input": io.BytesIO()}
        body = wsgi(url)(environ, lambda code, *_: status.append(code))
        assert status[0].startswith("200")
        return json.loads(b"".join(body))

    (shown,) = get("/api/studies")["study_summaries"]
    assert shown["study_name"] == "svm"
    trials = get(f"/api/studies/{shown['study_id']}")["trials"]
    assert [t["state"] for t in trials] == [
        *["Complete"] * 3,
        *["Fail", "Pruned"],
        *["Complete"] * 5,
    ]
    attributes = {a["key"]: a["value"] for a in trials[3]["user_attrs"]}
    assert attributes["error"] == "no memory"
    assert float(attributes["cost_cost"]) == 1.0
    study.close()


def test_distributions_of_a_space():
    space = Space({"x": Float(1, 2, log=True), "k": Int(1, 5), "o": Ordinal([(1,), (2,)])})
    assert distributions_of(space) == {
        "x": FloatDistribution(1, 2, log=True),
        "k": IntDistribution(1, 5),
        "o": CategoricalDistribution(["(1,)", "(2,)"]),
    }


def test_steps_and_booleans_are_translated_both_ways():
    space = Space({"w": Int(16, 64, step=16), "r": Float(0.1, 0.9, step=0.1), "f": Bool()})
    distributions = distributions_of(space)
    assert distributions == {
        "w": IntDistribution(16, 64, step=16),
        "r": FloatDistribution(0.1, 0.9, step=0.1),
        "f": CategoricalDistribution([False, True]),
    }
    assert Translation.of(distributions).space == space
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(
        lambda t: t.suggest_float("r", 0.1, 0.9, step=0.1) + t.suggest_int("w", 16, 64, step=16),
        n_trials=6,
    )
    assert space_of(study) == Space({"r": Float(0.1, 0.9, step=0.1), "w": Int(16, 64, step=16)})
