"""Constraints as a user meets them: settings, outcomes, the best trial, batches, resuming."""

import json
import math

import numpy as np
import pytest

from farthing import Float, InvalidInput, Optimizer, Outcome, Space, Study, minimize
from farthing.core.suggest import believed
from farthing.errors import NothingFound
from farthing.history import Run, Trial
from farthing.models.constraints import constraint_of, is_feasible, split_constraint, violations
from farthing.policies import EI, EIPerCost, Gittins, Random
from farthing.replay import replay
from farthing.stopping import MaxTrials, NoImprovement, NotWorthIt, Target
from farthing.view.figures.curve import curve, curve_of

SPACE = {"x": Float(0, 1), "y": Float(0, 1)}
LIMIT = {"latency": "<= 5"}
BEST = 0.162  # of the problem below, where 10 x + 5 y <= 5; without the constraint it is 0


def value(p):
    return (p["x"] - 0.8) ** 2 + (p["y"] - 0.3) ** 2


def latency(p):
    return 10 * p["x"] + 5 * p["y"]


def train(p):
    return Outcome(value(p), cost=1 + p["x"], constraints={"latency": latency(p)})


def played(trials, *, measure=None, told=None, **settings):
    """Ask and tell; `measure` gives the measured quantities."""
    optimizer = Optimizer(SPACE, **{"constraints": LIMIT, "budget": 60, **settings})
    for _ in range(trials):
        trial = optimizer.ask()
        measured = {"latency": latency(trial.params)} if measure is None else measure(trial.params)
        optimizer.tell(trial, value(trial.params), cost=1.0, constraints=measured or None)
    return optimizer


def points(optimizer):
    return np.array([trial.x for trial in optimizer.history])


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def test_conditions():
    one = constraint_of("a", " <= 1e-3")
    assert (one.sign, one.bound, one.condition, str(one)) == (1.0, 1e-3, "<= 0.001", "a <= 0.001")
    other = constraint_of("b", ">=-2")
    assert (other.sign, other.bound, other.condition) == (-1.0, -2.0, ">= -2.0")
    third = constraint_of("c", f"<= {1 / 3!r}")
    assert constraint_of("c", third.condition) == third
    for wrong in ("< 3", "= 3", "3", "<= three", "<= nan", "<= inf", "<= 1e200", "", 3, None):
        with pytest.raises(InvalidInput, match="expected '<= NUMBER' or '>= NUMBER'"):
            constraint_of("a", wrong)


def test_the_text_of_a_shell():
    assert split_constraint("latency ms<=10") == ("latency ms", "<=10")
    assert split_constraint(" a >= 0.9 ") == ("a", ">= 0.9 ")
    for wrong in ("<= 10", "latency", ""):
        with pytest.raises(InvalidInput, match="NAME <= NUMBER"):
            split_constraint(wrong)


def done(number, **measured):
    return Trial(number, {}, np.zeros(1), state="done", value=1.0, run=Run(metrics=measured))


def test_what_meets_the_constraints():
    limits = [constraint_of("a", "<= 2"), constraint_of("b", ">= 10")]
    assert is_feasible(limits, done(0, a=2.0, b=10))
    assert not is_feasible(limits, done(0, a=math.nextafter(2.0, 3.0), b=10))
    assert not is_feasible(limits, done(0, a=1.0))
    assert not is_feasible(limits, done(0, a=True, b=20.0))
    trials = [done(0, a=1, b=20), done(1, a=4, b=20), done(2, a=3, b=5), done(3, a=1)]
    found = violations(limits, trials)
    np.testing.assert_allclose(found[:3], [0.0, 1.0, 0.5 + 0.5])
    assert found[3] == np.inf
    scaled = [done(0, a=1e6, b=20), done(1, a=4e6, b=20), done(2, a=3e6, b=5), done(3, a=1e6)]
    larger = [constraint_of("a", "<= 2e6"), constraint_of("b", ">= 10")]
    np.testing.assert_allclose(violations(larger, scaled), found)


# ── outcomes ─────────────────────────────────────────────────────────────────────────────────────


def test_the_best_is_the_best_feasible_one():
    optimizer = Optimizer(SPACE, constraints={"latency": "<= 5", "size": ">= 2"})
    for v, a, b in ((0.1, 6, 3), (0.2, 4, 1), (0.5, 4, 2), (0.4, 5, 3), (0.3, 9, 9)):
        optimizer.add({"x": v, "y": 0.5}, v, constraints={"latency": a, "size": b})
    assert optimizer.best.value == 0.4
    assert optimizer.best.run.metrics == {"latency": 5.0, "size": 3.0}


def test_of_a_noisy_objective_it_has_the_lowest_mean_of_the_feasible_ones():
    optimizer = played(12, noisy=True, seed=3)
    belief = believed(optimizer._settings, optimizer._look(), model=True)
    X = np.array([t.x for t in optimizer.history.done])
    mean = belief.objective.at(X).mean[:, 0]
    feasible = np.array([latency(t.params) <= 5 for t in optimizer.history.done])
    assert 0 < feasible.sum() < len(feasible)
    assert belief.best[0] == pytest.approx(mean[feasible].min(), rel=1e-9)
    assert mean.min() < belief.best[0]  # the infeasible ones are better
    assert latency(optimizer.best.params) <= 5


def test_without_a_feasible_trial_there_is_no_best_and_messages_say_how_far_it_is():
    result = minimize(train, SPACE, budget="4 trials", constraints={"latency": "<= -3"},
                      policy=Random())  # fmt: skip
    assert result.found is None
    nearest = min(result.history, key=lambda t: latency(t.params))
    assert f"trial {nearest.number} comes nearest: latency = " in str(result)
    assert "above the bound -3" in str(result)
    with pytest.raises(NothingFound, match="no trial meets the constraints"):
        _ = result.best


def test_a_missing_or_unknown_quantity():
    optimizer = Optimizer(SPACE, constraints={"latency_ms": "<= 5"}, policy=EI())
    trial = optimizer.ask()
    for wrong, match in (
        ({}, "'latency_ms' was not measured"),
        ({"latency": 3.0}, "'latency' is unknown.*did you mean 'latency_ms'"),
        ({"latency_ms": 3.0, "size": 1}, "'size' is unknown"),
        ({"latency_ms": math.nan}, "'latency_ms' is nan: expected a finite"),
        ({"latency_ms": math.inf}, "'latency_ms' is inf: expected a finite"),
        ({"latency_ms": "3"}, "'latency_ms' is '3': expected a finite"),
        ([3.0], "expected the measured quantities"),
    ):
        with pytest.raises(InvalidInput, match=match):
            optimizer.tell(trial, 0.5, constraints=wrong)
        with pytest.raises(InvalidInput, match=match):
            optimizer.add({"x": 0.1, "y": 0.1}, 0.5, constraints=wrong)
    with pytest.raises(InvalidInput, match="without a value"):
        optimizer.tell(trial, failed="it broke", constraints={"latency_ms": 3.0})
    assert optimizer.history[0].state == "running"
    optimizer.tell(trial, 0.5, constraints={"latency_ms": np.float32(3)})
    assert optimizer.best.run.metrics == {"latency_ms": 3.0}
    failed = optimizer.ask()
    optimizer.tell(failed, failed="it broke")  # nothing was measured
    assert optimizer.history[1].state == "failed"


def test_a_study_without_constraints_refuses_measured_ones():
    """The user forgot the setting: without this error the constraint would be ignored."""
    optimizer = Optimizer(SPACE)
    with pytest.raises(InvalidInput, match=r"the study has no constraints.*set constraints="):
        optimizer.tell(optimizer.ask(), 0.5, constraints={"latency": 3.0})
    result = minimize(train, SPACE, budget=9, failures_in_a_row=1)
    assert result.history[0].state == "failed"
    assert "the study has no constraints" in result.history[0].error


@pytest.mark.parametrize(
    ("returned", "state", "error"),
    [
        (Outcome(0.5, cost=1, constraints={"latency": 4}), "done", None),
        (Outcome(0.5, cost=1, metrics={"latency": 4}), "done", None),
        (Outcome(0.5, cost=1), "failed", "'latency' was not measured"),
        (Outcome(0.5, cost=1, metrics={"latenzy": 4}), "failed", "did you mean 'latenzy'"),
        (Outcome(0.5, cost=1, constraints={"latency": math.nan}), "failed", "expected a finite"),
        (Outcome(0.5, cost=1, constraints={"latency": "4"}), "failed", "a dict of numbers"),
        (Outcome(0.5, cost=1, constraints=[4]), "failed", "a dict of numbers"),
        (Outcome(failed="too big", cost=1), "failed", "too big"),
    ],
)
def test_what_an_objective_returns(returned, state, error):
    result = minimize(lambda p: returned, SPACE, budget="1 trials", constraints=LIMIT,
                      failures_in_a_row=9)  # fmt: skip
    [trial] = result.history
    assert trial.state == state
    if error is None:
        assert trial.run.metrics == {"latency": 4}
    else:
        assert error in trial.error
        assert trial.cost == {"cost": 1.0}  # it is charged


def test_other_metrics_are_kept():
    outcome = Outcome(0.5, metrics={"accuracy": 0.9}, constraints={"latency": 4})
    result = minimize(lambda p: outcome, SPACE, budget="1 trials", constraints=LIMIT)
    assert result.best.run.metrics == {"accuracy": 0.9, "latency": 4.0}


# ── the search ───────────────────────────────────────────────────────────────────────────────────


def test_negating_a_quantity_changes_nothing():
    one = played(10, seed=5)
    other = played(
        10, seed=5, constraints={"latency": ">= -5"}, measure=lambda p: {"latency": -latency(p)}
    )
    assert points(one).tobytes() == points(other).tobytes()


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_the_unit_of_a_quantity_does_not_matter(factor):
    one = played(10, seed=5)
    other = played(
        10,
        seed=5,
        constraints={"latency": f"<= {5 * factor!r}"},
        measure=lambda p: {"latency": latency(p) * factor},
    )
    np.testing.assert_allclose(points(one), points(other), atol=1e-4)


def test_the_order_of_constraints_does_not_matter():
    def both(p):
        return {"latency": latency(p), "size": p["y"]}

    one = played(10, seed=2, constraints={"latency": "<= 5", "size": ">= 0.1"}, measure=both)
    other = played(10, seed=2, constraints={"size": ">= 0.1", "latency": "<= 5"}, measure=both)
    np.testing.assert_allclose(points(one), points(other), atol=1e-6)


@pytest.mark.parametrize("policy", [Gittins(), EI(), EIPerCost()])
def test_a_constraint_that_always_holds_changes_nothing(policy):
    constrained = played(10, seed=1, policy=policy, constraints={"latency": "<= 1e9"})
    free = played(10, seed=1, policy=policy, constraints=None, measure=lambda p: {})
    assert points(constrained).tobytes() == points(free).tobytes()


def regret_after(trials, seed, constraints):
    """The regret of the best feasible point, if the search knows the constraint or ignores it."""
    optimizer = played(
        trials, seed=seed, constraints=constraints,
        measure=None if constraints else lambda p: {},
    )  # fmt: skip
    feasible = [value(t.params) for t in optimizer.history if latency(t.params) <= 5]
    return min(feasible, default=2.0) - BEST


def test_it_finds_the_constrained_optimum():
    """The unconstrained optimum has a latency of 9.5, far above the bound."""
    known = [regret_after(16, seed, LIMIT) for seed in range(3)]
    ignored = [regret_after(16, seed, None) for seed in range(3)]
    assert np.median(known) < 0.002
    assert np.median(known) < 0.1 * np.median(ignored)


@pytest.mark.slow
def test_a_small_feasible_region_is_found():
    """Two quantities leave 1 % of the space, away from the middle and from the optimum."""
    limits = {"a": "<= 0.1", "b": ">= 0.9"}
    found = []
    for seed in range(3):
        optimizer = played(
            18, seed=seed, constraints=limits, measure=lambda p: {"a": p["x"], "b": p["y"]}
        )
        best = optimizer.best
        found.append(math.inf if best is None else best.value)
    assert np.median(found) < value({"x": 0.1, "y": 0.9}) + 0.03


def test_while_nothing_is_feasible_the_search_says_so():
    optimizer = played(5, constraints={"latency": "<= 0.5"}, seed=4)
    trial = optimizer.ask()
    assert "no trial meets the constraints yet" in trial.because
    assert "feasible with probability" in trial.because
    verdict = optimizer.verdict
    assert not verdict.stop


@pytest.mark.parametrize(("bound", "trials", "feasible"), [("<= 0.5", 4, False), ("<= 5", 8, True)])
def test_a_batch_spreads_out_with_and_without_a_feasible_trial(bound, trials, feasible):
    optimizer = played(trials, constraints={"latency": bound}, seed=2)
    assert (optimizer.best is not None) == feasible
    X = np.array([trial.x for trial in optimizer.ask(4)])
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)[np.triu_indices(4, 1)]
    assert gaps.min() > (1e-3 if feasible else 0.05)
    belief = believed(optimizer._settings, optimizer._look())
    assert all(model.pending == 4 for model in belief.feasibility)
    known = belief.without_running()
    assert all(model.pending == 0 for model in known.feasibility)
    assert known.best[0] == (optimizer.best.value if feasible else np.inf)


def test_the_incumbent_of_a_fantasy_is_feasible():
    """A running point that certainly violates the constraint is no incumbent, however low."""
    optimizer = played(12, seed=1)
    infeasible = optimizer.add({"x": 0.8, "y": 0.3}, running=True)
    belief = believed(optimizer._settings, optimizer._look())
    assert np.exp(belief.without_running().log_feasible(infeasible.x[None])[0]) < 1e-3
    assert (belief.best == optimizer.best.value).all()


def test_the_curve_shows_feasible_values_only():
    optimizer = Optimizer(SPACE, constraints=LIMIT)
    for v, z in ((0.1, 9.0), (0.5, 4.0), (0.2, 8.0), (0.4, 3.0)):
        optimizer.add({"x": v, "y": 0.5}, v, constraints={"latency": z}, cost=1.0)
    found = curve_of(optimizer._settings, optimizer._look())
    assert found.best == [None, 0.5, 0.5, 0.4]
    assert "2 of 4 values violate a constraint" in curve(*facts(optimizer)).caption
    optimizer.change(constraints={"latency": "<= 1"})
    assert curve_of(*facts(optimizer)).best == [None] * 4
    assert curve(*facts(optimizer)).panels  # the trials are drawn without a best value


def facts(optimizer):
    return optimizer._settings, optimizer._look()


# ── stopping ─────────────────────────────────────────────────────────────────────────────────────


def test_rules_judge_feasible_values():
    optimizer = Optimizer(SPACE, stop=Target(0.2), constraints=LIMIT)
    optimizer.add({"x": 0.8, "y": 0.3}, 0.0, constraints={"latency": 9.5})
    assert optimizer.verdict.because == "no trial meets the constraints yet"
    optimizer.add({"x": 0.4, "y": 0.2}, 0.17, constraints={"latency": 5})
    assert optimizer.verdict.stop
    waiting = Optimizer(SPACE, stop=NoImprovement(3), constraints=LIMIT)
    for i in range(5):
        waiting.add({"x": 0.8, "y": 0.1 * i}, 0.1, constraints={"latency": 9})
    assert not waiting.verdict.stop
    waiting.add({"x": 0.3, "y": 0.2}, 0.5, constraints={"latency": 4})
    assert not waiting.verdict.stop  # the only feasible value is new
    for i in range(3):
        waiting.add({"x": 0.9, "y": 0.1 * i}, 0.01, constraints={"latency": 9})
    assert waiting.verdict.stop


def test_a_replay_uses_the_same_best():
    optimizer = played(10, seed=2)
    found = replay(optimizer, MaxTrials(6))
    first = [value(t.params) for t in optimizer.history.trials[:6] if latency(t.params) <= 5]
    assert found.best == min(first, default=None)
    assert found.best_in_all == optimizer.best.value
    rows = [
        {"x": t.params["x"], "y": t.params["y"], "value": t.value, "latency": latency(t.params)}
        for t in optimizer.history
    ]
    log = replay(rows, MaxTrials(6), constraints=LIMIT)
    assert (log.best, log.best_in_all) == (found.best, found.best_in_all)


def test_not_worth_it_waits_for_a_feasible_trial():
    optimizer = played(6, constraints={"latency": "<= -1"}, stop=NotWorthIt(worth=1e9))
    assert optimizer.verdict.because == "no trial meets the constraints yet"


# ── studies ──────────────────────────────────────────────────────────────────────────────────────


def test_a_study_keeps_the_numbers_and_resumes_as_if_uninterrupted(tmp_path):
    url = tmp_path / "a.db"
    settings = {"budget": 60, "constraints": {"latency": f"<= {5 + 1e-15!r}"}, "seed": 7}
    whole = Optimizer(SPACE, **settings)
    for i in range(12):
        trial = whole.ask()
        if i % 4 == 0:  # open it again
            study = Study.create(url, name="a", space=SPACE, **settings)
        other = study.ask()
        assert other.x.tobytes() == trial.x.tobytes()
        measured = latency(trial.params) / 3 * 3 + 1e-13
        for each, asked in ((whole, trial), (study, other)):
            each.tell(asked, value(trial.params), cost=1.0, constraints={"latency": measured})
        if i % 4 == 3:
            study.close()
    with_look = Study.open(url, "a", look=True)
    assert with_look.current_settings.bounds == whole._settings.bounds
    stored = [t.run.metrics["latency"] for t in with_look.history]
    assert stored == [t.run.metrics["latency"] for t in whole.history]
    assert with_look.best.number == whole.best.number
    assert [t.notes.get("memories") for t in with_look.history] == [
        t.notes.get("memories") for t in whole.history
    ]
    assert "constraint:latency" in with_look.history[11].notes["memories"]
    explained = with_look.explain(11)["constraints"]["latency"]
    assert explained["met"] == (stored[11] <= 5 + 1e-15)
    assert 0 <= explained["probability"] <= 1
    assert explained["condition"] == "latency <= 5"
    with_look.close()


def test_constraints_can_change_if_all_trials_have_measured_the_quantity():
    optimizer = played(6, seed=1)
    assert optimizer.change(constraints={"latency": "<= 9"}) == {
        "constraints": ("latency <= 5", "latency <= 9")
    }
    assert latency(optimizer.best.params) <= 9
    with pytest.raises(InvalidInput, match=r"trial 0 of this study has not\s+measured 'size'"):
        optimizer.change(constraints={"latency": "<= 9", "size": "<= 3"})
    assert optimizer.change(constraints=None) == {"constraints": ("latency <= 9", "none")}
    assert optimizer.best.value == min(t.value for t in optimizer.history)


def test_exports_and_imports(tmp_path):
    optimizer = played(5, seed=1)
    study = Study.create(tmp_path / "a.db", name="a", space=SPACE, constraints=LIMIT)
    assert len(study.import_trials(optimizer.history).trials) == 5
    frame = study.dataframe()
    assert list(frame["metric_latency"]) == [latency(t.params) for t in optimizer.history]
    again = Optimizer(Space(SPACE), constraints=LIMIT)
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = again.import_trials(tmp_path / "a.csv")
    assert len(found.trials) == 5
    assert [t.run.metrics for t in again.history] == [t.run.metrics for t in optimizer.history]
    plain = [{"x": 0.1, "y": 0.2, "value": 0.3, "latency": 2}, {"x": 0.1, "y": 0.3, "value": 0.3}]
    found = Optimizer(Space(SPACE), constraints=LIMIT).import_trials(plain)
    assert [t.run.metrics for t in found.trials] == [{"latency": 2.0}]
    assert "'latency' was not measured" in found.ignored[0][1]
    assert found.unread == ()
    page = study.report()
    assert "latency" in page
    assert json.loads(json.dumps(study.settings["constraints"])) == {"latency": "<= 5.0"}
    study.close()
