"""The Optuna pruner, and the sampler that learns from curves."""

import json

import optuna
import pytest
from optuna.trial import TrialState

from farthing import InvalidInput, Steps
from farthing.integrations import optuna as optuna_sampler
from farthing.integrations.optuna import CostAwarePruner, CostAwareSampler
from farthing.integrations.optuna_curves import curve_of, reached, without_resume
from farthing.integrations.optuna_pruner import _translation

optuna.logging.set_verbosity(optuna.logging.ERROR)
LAST = 16


class Training:
    """A training of 16 steps that notes what each trial really cost, and its final value."""

    def __init__(self, sign=1.0, first=0, says_cost=True):
        self.sign, self.first, self.says_cost = sign, first, says_cost
        self.paid, self.final = {}, {}

    def __call__(self, trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        level = (x - 0.3) ** 2 + (y - 0.6) ** 2
        self.paid[trial.number], self.final[trial.number] = 0.0, level
        for step in range(LAST):
            self.paid[trial.number] += 0.1 * (1 + x)
            if self.says_cost:
                trial.set_user_attr("cost", self.paid[trial.number])
            value = self.sign * (level + 0.5 / (step + 1))
            trial.report(value, step + self.first)
            if trial.should_prune():
                raise optuna.TrialPruned
        trial.set_user_attr("cost", self.paid[trial.number])
        return value

    @property
    def spent(self):
        return sum(self.paid.values())


def optimized(training, sampler, pruner, n_trials=24, direction="minimize"):
    study = optuna.create_study(sampler=sampler, pruner=pruner, direction=direction)
    study.optimize(training, n_trials=n_trials)
    return study


def states(study, state):
    return [t.number for t in study.trials if t.state == state and t.params]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bad_trainings_end_early_and_good_ones_finish(sign):
    """The same points with and without the pruner: the same best, at a fraction of the cost."""
    direction = "minimize" if sign > 0 else "maximize"
    all_of_it, some = Training(sign), Training(sign)
    whole = optimized(
        *(all_of_it, optuna.samplers.RandomSampler(seed=0), optuna.pruners.NopPruner()),
        direction=direction,
    )
    pruned = optimized(
        *(some, optuna.samplers.RandomSampler(seed=0), CostAwarePruner(LAST)), direction=direction
    )
    assert [t.params for t in pruned.trials] == [t.params for t in whole.trials]
    assert pruned.best_value == whole.best_value
    assert some.spent < 0.5 * all_of_it.spent
    ended = states(pruned, TrialState.PRUNED)
    assert len(ended) >= 8
    assert min(some.final[n] for n in ended) > min(some.final.values())
    worst = sorted(some.final, key=some.final.get)[-4:]
    assert all(len(pruned.trials[n].intermediate_values) <= 2 for n in worst if n in ended)


def test_what_the_rest_is_worth_decides():
    cautious, hasty = Training(), Training()
    sampler = optuna.samplers.RandomSampler
    optimized(cautious, sampler(seed=0), CostAwarePruner(LAST, worth=1e-9), n_trials=12)
    optimized(hasty, sampler(seed=0), CostAwarePruner(LAST, worth=1.0), n_trials=12)
    assert hasty.spent < 0.9 * cautious.spent


def test_the_sampler_learns_from_pruned_trials_and_keeps_its_budget():
    training = Training()
    sampler = CostAwareSampler(budget="$20", steps=LAST)
    study = optimized(training, sampler, CostAwarePruner(LAST), n_trials=40)
    assert training.spent == pytest.approx(sampler.ledger(study).spent)
    assert training.spent <= 20.0 + 0.2  # one step more
    ended = states(study, TrialState.PRUNED)
    assert len(ended) >= 8
    assert len({tuple(study.trials[n].params.items()) for n in ended}) > 0.9 * len(ended)
    alone = Training()
    without = optimized(
        alone, CostAwareSampler(budget="$20"), optuna.pruners.NopPruner(), n_trials=40
    )
    assert len(study.trials) > len(without.trials)
    assert study.best_value < without.best_value + 0.01


def test_a_whole_training_is_reserved_because_nobody_pauses_it():
    sampler = CostAwareSampler(budget="$20", steps=LAST, cost=lambda params: 2.0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    held = [trial.system_attrs["farthing"]["hold"] for trial in study.trials[1:]]
    assert held == [{"usd": pytest.approx(2.0)}] * 2


def test_a_pruned_trial_is_learnt_as_a_part_of_a_training(monkeypatch):
    """Without `steps` it would count as killed, and its values would be lost."""
    seen, fit = [], optuna_sampler.suggest

    def noted(settings, state):
        seen.append(state.history)
        return fit(settings, state)

    monkeypatch.setattr(optuna_sampler, "suggest", noted)
    pruner = optuna.pruners.ThresholdPruner(upper=0.3, n_warmup_steps=4)
    study = optimized(Training(), CostAwareSampler(budget="$20", steps=LAST), pruner, n_trials=8)
    ended = states(study, TrialState.PRUNED)
    assert ended
    for number in ended[:-1]:
        trial = seen[-1][number]
        reported = list(study.trials[number].intermediate_values.values())
        assert trial.state == "paused"
        assert [point.value for point in trial.curve] == reported
        assert trial.value == reported[-1]


def test_the_budget_ends_a_running_training():
    training = Training()
    sampler = CostAwareSampler(budget="$2.50")
    study = optimized(training, sampler, CostAwarePruner(LAST), n_trials=2)
    assert max(training.paid.values()) < 2.7
    assert training.spent <= 2.5 + 0.2
    assert "farthing:stopped" in study.user_attrs


def test_seconds_are_the_cost_of_steps_without_an_attribute():
    training = Training(says_cost=False, first=1)
    pruner = CostAwarePruner(Steps(LAST, rungs=(2, 8)))
    study = optimized(training, optuna.samplers.RandomSampler(seed=0), pruner, n_trials=8)
    noted = [t.system_attrs["farthing:pruner"]["costs"] for t in study.trials]
    for trial, costs in zip(study.trials, noted, strict=True):
        assert list(costs) == ["2", "8"][: len(costs)]
        assert sorted(costs.values()) == list(costs.values())
        assert all(0 < each <= trial.duration.total_seconds() for each in costs.values())
    assert json.dumps(noted)


# ── curves ─────────────────────────────────────────────────────────────────────────────────────


def frozen(values, state=TrialState.PRUNED, value=None):
    return optuna.trial.create_trial(
        params={},
        distributions={},
        intermediate_values=values,
        state=state,
        value=value,
    )


def test_steps_begin_at_zero_or_one():
    steps = without_resume(8)
    assert (steps.resume, steps.value) == ("never", "last")
    from_zero, from_one = frozen({0: 3.0, 3: 2.0}), frozen({1: 3.0, 4: 2.0})
    assert reached(from_zero) == reached(from_one) == 4
    assert reached(frozen({})) == 0
    assert curve_of(from_zero, steps, {}) == curve_of(from_one, steps, {})
    complete = frozen({0: 3.0, 3: 2.0}, TrialState.COMPLETE, 1.5)
    assert [(p.step, p.value) for p in curve_of(complete, steps, {})] == [(1, 3), (4, 2), (8, 1.5)]
    with pytest.raises(InvalidInput, match="has 8 steps"):
        curve_of(frozen({9: 1.0}), steps, {})


def test_costs_between_known_steps_are_shares():
    steps, pruned = without_resume(8), frozen({1: 4.0, 2: 3.0, 4: 2.0, 6: 1.0})
    costs = [p.cost["usd"] for p in curve_of(pruned, steps, {"usd": 12.0})]
    assert costs == pytest.approx([2.0, 4.0, 8.0, 12.0])
    costs = [p.cost["usd"] for p in curve_of(pruned, steps, {"usd": 12.0}, {2: 10.0})]
    assert costs == pytest.approx([5.0, 10.0, 11.0, 12.0])
    complete = frozen({4: 2.0}, TrialState.COMPLETE, 1.0)
    assert [p.cost["usd"] for p in curve_of(complete, steps, {"usd": 12.0})] == [6.0, 12.0]


def test_invalid_arguments_are_refused():
    with pytest.raises(InvalidInput, match="whole number"):
        CostAwarePruner(0)
    with pytest.raises(InvalidInput, match="worth"):
        CostAwarePruner(8, worth=-1.0)
    assert repr(CostAwarePruner(8)).startswith("CostAwarePruner(steps=Steps(last=8")


def test_the_space_of_the_pruner_is_what_pruned_trials_have_in_common():
    study = optuna.create_study()
    for names in ("x", "xy"):
        trial = study.ask()
        for name in names:
            trial.suggest_float(name, 0, 1)
        study.tell(trial, state=TrialState.PRUNED)
    running = study.ask()
    for name in "xyz":
        running.suggest_float(name, 0, 1)
    trials = study.get_trials()
    assert list(_translation(trials, trials[-1]).space.names) == ["x"]
