"""Parameters that only some trials of an Optuna study have."""

import statistics

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from farthing import Categorical, Float, Int, at_least
from farthing.integrations.optuna import CostAwareSampler, space_of
from farthing.integrations.optuna_conditions import conditions_of, seen

optuna.logging.set_verbosity(optuna.logging.ERROR)


def branches(trial):
    """A classifier, and then its own parameters: the pattern of Optuna's tutorial."""
    if trial.suggest_categorical("classifier", ["svc", "forest"]) == "svc":
        return (np.log10(trial.suggest_float("C", 1e-3, 1e3, log=True)) - 1) ** 2 + 0.05
    depth, share = trial.suggest_int("depth", 1, 32), trial.suggest_float("share", 0, 1)
    return (depth - 7) ** 2 / 100 + share**2


def layers(trial):
    """As many widths as layers."""
    count = trial.suggest_int("n_layers", 1, 4)
    widths = [trial.suggest_float(f"width_{i}", 0, 1) for i in range(count)]
    return 0.1 * abs(count - 3) + sum((w - 0.2 * (i + 1)) ** 2 for i, w in enumerate(widths))


def optimized(objective, n_trials, **settings):
    study = optuna.create_study(sampler=CostAwareSampler(**settings))
    study.optimize(objective, n_trials=n_trials)
    return study


def test_a_budget_does_not_stop_a_conditional_study():
    study = optimized(branches, 16, budget="1h")
    assert len(study.trials) == 16
    assert "farthing:stopped" not in study.user_attrs
    record = study.trials[-1].system_attrs["farthing"]
    assert "C when {'classifier': ['svc']}" in record["names"]


def test_a_study_does_not_stop_while_parameters_are_drawn_at_random():
    """The range of x changes, so that only `kind` is in the space, and both kinds were tried."""

    def objective(trial):
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return trial.suggest_float("x", 0, 1 + trial.number) + (kind == "b")

    study = optimized(objective, 9, budget="1h")
    assert len(study.trials) == 9
    assert all(t.state == TrialState.COMPLETE for t in study.trials)


@pytest.mark.parametrize("given", [True, False])
def test_a_given_space_may_have_parameters_that_are_not_always_suggested(given):
    space = {
        "classifier": CategoricalDistribution(["svc", "forest"]),
        "C": FloatDistribution(1e-3, 1e3, log=True),
        "depth": IntDistribution(1, 32),
        "share": FloatDistribution(0, 1),
    }
    ours = {
        "classifier": Categorical(["svc", "forest"]),
        "C": Float(1e-3, 1e3, log=True),
        "depth": Int(1, 32, cost="increases"),
        "share": Float(0, 1),
    }
    study = optimized(branches, 14, search_space=space if given else ours, budget="1h")
    points = {tuple(trial.params.items()) for trial in study.trials}
    assert len(points) > 10


def test_a_name_that_no_trial_suggests_is_left_out():
    space = {"x": FloatDistribution(0, 1), "unused": FloatDistribution(0, 1)}
    study = optimized(lambda t: t.suggest_float("x", 0, 1), 9, search_space=space)
    assert len({t.params["x"] for t in study.trials}) == 9
    assert study.trials[-1].system_attrs["farthing"]["names"] == ["x"]


@pytest.mark.slow
def test_thirty_trials_of_conditional_layers_end_within_twice_the_best_of_sixty_of_tpe():
    ours, theirs = [], []
    for seed in range(10):
        ours.append(optimized(layers, 30, seed=seed).best_value)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        study.optimize(layers, n_trials=60)
        theirs.append(study.best_value)
    assert statistics.median(ours) <= 2 * statistics.median(theirs)


# ── rules ──────────────────────────────────────────────────────────────────────────────────────


def trials_of(*rows, state=TrialState.COMPLETE):
    """Trials with these parameters: a text is categorical, an int whole, a float real."""
    kinds = {
        str: CategoricalDistribution(["a", "b", "c", "d"]),
        int: IntDistribution(0, 9),
        float: FloatDistribution(0, 1),
    }
    return [
        optuna.trial.create_trial(
            params=row,
            distributions={name: kinds[type(value)] for name, value in row.items()},
            value=0.0,
            state=state,
        )
        for row in rows
    ]


def conditions(*rows):
    trials = trials_of(*rows)
    return conditions_of(trials, seen(trials))


def test_a_value_of_a_categorical_parameter_is_the_condition():
    found = conditions(
        {"k": "a", "z": 0.1, "x": 0.5}, {"k": "b", "z": 0.2}, {"k": "a", "z": 0.3, "x": 0.4}
    )
    assert found == {"k": {}, "z": {}, "x": {"k": ["a"]}}


def test_a_bound_of_an_ordered_parameter_is_the_condition():
    found = conditions({"n": 1}, {"n": 4, "x": 0.5}, {"n": 2}, {"n": 3, "x": 0.1})
    assert found["x"] == {"n": at_least(3)}
    found = conditions({"n": 1, "x": 0.1}, {"n": 4}, {"n": 7, "x": 0.5})
    assert found["x"] == {"n": [1, 7]}


def test_conditions_may_be_nested_and_joint():
    found = conditions(
        {"model": "a"}, {"model": "b", "solver": "c"}, {"model": "b", "solver": "d", "rate": 0.5}
    )
    assert found == {"model": {}, "solver": {"model": ["b"]}, "rate": {"solver": ["d"]}}
    both = conditions(
        {"k": "a", "m": "a"},
        {"k": "a", "m": "b"},
        {"k": "b", "m": "a"},
        {"k": "b", "m": "b", "x": 0.1},
    )
    assert both["x"] == {"k": ["b"], "m": ["b"]}


def test_what_nothing_explains_has_no_condition():
    found = conditions({"k": "a", "x": 0.1}, {"k": "a"}, {"k": "b", "x": 0.1})
    assert found == {"k": {}, "x": None}


def test_a_pruned_trial_does_not_show_that_a_parameter_was_absent():
    trials = trials_of({"k": "a", "x": 0.1}) + trials_of({"k": "a"}, state=TrialState.PRUNED)
    assert conditions_of(trials, seen(trials)) == {"k": {}, "x": {}}


def test_the_space_of_a_study_has_its_conditions():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(branches, n_trials=20)
    whens = {name: each.when for name, each in space_of(study).parameters.items()}
    assert whens["classifier"] is None
    assert {name: list(when["classifier"]) for name, when in whens.items() if when} == {
        "C": ["svc"],
        "depth": ["forest"],
        "share": ["forest"],
    }
