"""minimize(): measured and charged cost, failures, stopping and output."""

import inspect
import math
import multiprocessing
import os
import pickle
import sys
import time
from dataclasses import dataclass
from typing import ClassVar

import pytest

from farthing import Float, Optimizer, Outcome, Space, Study, maximize, minimize
from farthing.errors import InvalidInput
from farthing.policies import EI, EIPerCost, Random
from farthing.stopping import MaxTrials, NotWorthIt, Target

SPACE = Space({"a": Float(0, 1), "b": Float(1e-3, 1, log=True)})


def bowl(params) -> float:
    return (params["a"] - 0.3) ** 2 + 0.1 * (math.log10(params["b"]) + 1) ** 2


# ── cost ─────────────────────────────────────────────────────────────────────────────────────────


def test_seconds_are_measured_and_overhead_is_charged():
    measured = []

    def objective(params):
        started_at = time.perf_counter()
        time.sleep(0.01 + 0.02 * params["a"])
        measured.append(time.perf_counter() - started_at)
        return bowl(params)

    result = minimize(objective, SPACE, "9m", stop=MaxTrials(5))
    charged = [trial.cost["s"] for trial in result.history]
    assert len(charged) == len(measured) == 5
    assert all(cost >= seconds for cost, seconds in zip(charged, measured, strict=True))
    assert result.ledger.overhead > 0
    assert result.spent == pytest.approx(sum(charged) + result.ledger.overhead)
    assert result.spent == result.ledger.spent
    assert "of it overhead" in str(result)


def test_a_budget_in_seconds_ends_the_run():
    result = minimize(lambda params: time.sleep(0.05) or bowl(params), SPACE, "0.3s")
    charged = [trial.cost["s"] for trial in result.history]
    assert sum(charged[:-1]) < 0.3  # the last trial finishes
    assert (
        "is spent" in result.stop_reason.sentence
        or "nothing affordable" in result.stop_reason.sentence
    )


def test_the_objective_is_called_once_per_trial_with_its_parameters():
    seen = []

    def objective(params):
        seen.append(dict(params))
        params.clear()  # its own copy
        return Outcome(1.0, cost=2.0)

    result = minimize(objective, SPACE, 20, policy=Random())
    assert seen == [dict(trial.params) for trial in result.history]
    assert 9 <= len(seen) <= 10  # the cost is estimated, so the last trial may not be affordable
    assert result.spent == 2 * len(seen)


def test_an_objective_may_return_its_cost():
    result = minimize(
        lambda params: Outcome(bowl(params), cost=1 + params["a"]), SPACE, "$12", policy=EI()
    )
    assert result.spent == pytest.approx(sum(1 + t.params["a"] for t in result.history))
    assert result.ledger.overhead == 0
    assert result.best.value == min(trial.value for trial in result.history)
    several = minimize(
        lambda params: Outcome(bowl(params), cost={"usd": 2.0, "kWh": 0.1}),
        SPACE,
        {"kWh": 10, "usd": 9},
    )
    assert several.ledger["usd"].spent == 8
    assert several.ledger["kWh"].spent == pytest.approx(0.4)


def test_a_known_cost_is_charged_and_never_overspent():
    result = minimize(bowl, SPACE, 9.7, cost=lambda params: 1 + params["a"])
    assert result.spent == pytest.approx(sum(1 + t.params["a"] for t in result.history))
    assert 8.6 < result.spent <= 9.7 * (1 + 1e-9)


def test_seconds_and_dollars_together():
    result = minimize(lambda params: Outcome(1.0, cost={"usd": 1.0}), SPACE, {"s": 540, "usd": 5})
    assert 4 <= result.ledger["usd"].spent == len(result.history) <= 5
    assert result.ledger["s"].spent == pytest.approx(
        sum(t.cost["s"] for t in result.history) + result.ledger["s"].overhead
    )


def test_a_missing_cost_is_an_error():
    with pytest.raises(InvalidInput, match=r"return Outcome\(value, cost=\.\.\.\)"):
        minimize(bowl, SPACE, "$5")


# ── stopping ─────────────────────────────────────────────────────────────────────────────────────


def test_the_stop_reason():
    assert "5 of at most 5" in minimize(bowl, SPACE, stop=MaxTrials(5)).stop_reason.sentence
    assert "5 trials" in minimize(bowl, SPACE, "5 trials").stop_reason.sentence
    good = minimize(bowl, SPACE, "60 trials", stop=Target(0.1), seed=1)
    assert "has reached the target" in good.stop_reason.sentence
    assert good.best.value <= 0.1
    assert len(good.history) < 60
    rich = minimize(bowl, SPACE, 1e6, cost=lambda params: 1.0, stop=NotWorthIt(), worth=0.02)
    assert "worth" in rich.stop_reason.sentence
    assert len(rich.history) < 40


def test_a_run_that_would_never_end_is_refused():
    with pytest.raises(InvalidInput, match="never end"):
        minimize(bowl, SPACE)
    for number in (-1, True, math.nan):
        with pytest.raises(InvalidInput, match="failures_in_a_row"):
            minimize(bowl, SPACE, "5 trials", failures_in_a_row=number)


def test_the_seed_determines_the_run():
    def values(seed):
        return [trial.value for trial in minimize(bowl, SPACE, "8 trials", seed=seed).history]

    assert values(1) == values(1)
    assert values(1) != values(2)


def test_maximize_and_noisy_reach_the_optimizer():
    result = minimize(lambda p: -bowl(p), SPACE, "12 trials", direction="maximize")
    assert result.best.value == max(trial.value for trial in result.history)
    noisy = minimize(lambda p: 1.0, SPACE, "6 trials", noisy=True)
    assert noisy.best.value == 1.0


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "cost"), [("9m", None), ("14 trials", None), (28, lambda params: 2.0)]
)
def test_an_exception_is_a_failed_trial_even_the_first(budget, cost):
    calls = []

    def objective(params):
        calls.append(params)
        if len(calls) % 3 == 1:
            raise MemoryError("too large")
        return bowl(params)

    result = minimize(objective, SPACE, budget, cost=cost, stop=MaxTrials(14))
    assert len(result.history) == len(calls) == 14
    failed = result.history.having("failed")
    assert [trial.number for trial in failed] == [0, 3, 6, 9, 12]
    assert all("MemoryError: too large" in trial.error for trial in failed)
    assert all(trial.error.startswith("out of memory") for trial in failed)
    if cost is not None:
        assert result.spent == 28  # failures are charged


@pytest.mark.parametrize(
    ("objective", "part"),
    [
        (3, "3 is not an objective"),
        ("train.py", "'train.py' is not an objective"),
        (lambda a, b, c: 1.0, r"<lambda>\(a, b, c\) cannot be called with the parameters alone"),
        (lambda: 1.0, r"<lambda>\(\) cannot be called with the parameters alone"),
        (lambda *, params: 1.0, "cannot be called with the parameters alone"),
        (dict.fromkeys, None),
        (lambda params, more=0: 1.0, None),
        (lambda *params: 1.0, None),
    ],
)
def test_an_invalid_objective_is_refused_before_the_first_trial(objective, part, tmp_path):
    from farthing.running import CallableTask, InProcess

    for engine in (InProcess, CallableTask):
        if part is None:
            engine(objective)
            continue
        with pytest.raises(InvalidInput, match=part):
            engine(objective)
    if part is not None:
        with pytest.raises(InvalidInput, match=part):
            minimize(objective, SPACE, "3 trials")


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (math.nan, "its value is NaN: expected a finite number"),
        (-math.inf, "its value is -Infinity: expected a finite number"),
        (None, "the objective returned None: expected a number"),
        (Outcome(math.nan), "its value is NaN"),
        (Outcome(failed="out of memory"), "out of memory"),
        ("fast", "the objective returned 'fast': expected a number"),
        ([1, 2], r"the objective returned [1, 2]: expected a number"),
    ],
)
def test_no_value_is_a_failure_not_a_result(returned, error):
    result = minimize(lambda params: returned, SPACE, "3 trials")
    assert result.found is None
    assert {trial.state for trial in result.history} == {"failed"}
    assert all(error in trial.error for trial in result.history)
    assert "no trial returned a value" in str(result)


def test_five_failures_in_a_row_end_the_run_with_the_first_traceback():
    calls = []

    def objective(params):
        calls.append(params)
        if len(calls) > 2:
            raise RuntimeError(f"call {len(calls)}")
        return 1.0

    result = minimize(objective, SPACE, "9m")
    assert len(calls) == 7
    assert result.stop_reason.sentence.startswith("5 trials in a row failed")
    assert "Traceback" in result.stop_reason.sentence
    assert "RuntimeError: call 3" in result.stop_reason.sentence
    assert 'raise RuntimeError(f"call' in result.stop_reason.sentence
    calls.clear()
    assert len(minimize(objective, SPACE, "9m", failures_in_a_row=2).history) == 4
    calls.clear()
    returned = minimize(
        lambda params: Outcome(failed="no licence", cost=1.0), SPACE, 50, failures_in_a_row=3
    )
    assert (
        returned.stop_reason.sentence
        == "3 trials in a row failed; the first error was:\nno licence"
    )
    assert returned.spent == 3


def test_a_failure_of_unknown_cost_costs_nothing():
    def objective(params):
        raise RuntimeError("boom")

    result = minimize(objective, SPACE, "$5")
    assert [(trial.state, dict(trial.cost)) for trial in result.history] == [("failed", {})] * 5
    assert result.stop_reason.sentence.startswith("5 trials in a row failed")
    assert "RuntimeError: boom" in result.stop_reason.sentence


def test_a_failure_without_a_cost_is_charged_its_predicted_cost():
    def objective(params):
        calls.append(params)
        if len(calls) > 6:
            raise RuntimeError("boom")
        return Outcome(bowl(params), cost=1.0)

    calls = []
    result = minimize(objective, SPACE, "$20", stop=MaxTrials(8))
    failed = result.history.having("failed")
    assert len(failed) == 2
    for trial in failed:
        assert trial.cost["usd"] == trial.predicted["usd"] == pytest.approx(1.0, rel=0.3)


def test_an_interrupt_keeps_finished_trials_and_charges_the_running_one():
    calls = []

    def objective(params):
        calls.append(params)
        if len(calls) == 4:
            time.sleep(0.02)
            raise KeyboardInterrupt
        return bowl(params)

    result = minimize(objective, SPACE, "9m")
    assert "interrupted" in result.stop_reason.sentence
    assert [trial.state for trial in result.history] == ["done"] * 3 + ["killed"]
    assert result.history[3].cost["s"] >= 0.02  # a lower bound
    assert result.found is not None
    assert result.ledger.reserved == 0
    calls.clear()
    counted = minimize(objective, SPACE, "9 trials")
    assert [trial.state for trial in counted.history] == ["done"] * 3 + ["killed"]
    calls.clear()
    known = minimize(objective, SPACE, 50, cost=lambda params: 2.0)
    assert known.spent == 8
    calls.clear()
    unknown = minimize(lambda p: Outcome(objective(p), cost=2.0), SPACE, 50, policy=EIPerCost())
    assert [trial.state for trial in unknown.history[:3]] == ["done"] * 3
    assert unknown.spent + unknown.ledger.reserved >= 6


def test_an_interrupt_during_a_suggestion_keeps_the_result():
    @dataclass(frozen=True)
    class Interrupted:
        needs: ClassVar[frozenset[str]] = frozenset()
        reads: ClassVar[frozenset[str]] = frozenset()

        def propose(self, belief, rng):
            if belief.number == 3:
                raise KeyboardInterrupt
            return Random().propose(belief, rng)

    result = minimize(bowl, SPACE, "9 trials", policy=Interrupted())
    assert "interrupted" in result.stop_reason.sentence
    assert len(result.history) == 3
    assert result.found is not None


# ── the result ───────────────────────────────────────────────────────────────────────────────────


def test_a_result_as_text():
    result = minimize(bowl, SPACE, "$6", cost=lambda params: 2.0)
    lines = str(result).splitlines()
    assert lines[0] == "stopped: " + result.stop_reason.sentence
    assert f"{result.best.value:.6g} (trial {result.best.number}) at a=" in lines[1]
    assert lines[2].startswith("spent:   $6.00 of $6.00; 3 trials (3 done); ")
    assert lines[2].endswith(" of it overhead")


def test_a_result_as_a_table():
    pandas = pytest.importorskip("pandas")
    result = minimize(bowl, SPACE, 8, cost=lambda params: 2.0)  # known: all of it can be spent
    table = result.dataframe()
    assert isinstance(table, pandas.DataFrame)
    assert len(table) == 4
    assert list(table["number"]) == [0, 1, 2, 3]
    assert list(table["cost_cost"]) == [2.0] * 4
    assert list(table["param_a"]) == [trial.params["a"] for trial in result.history]
    assert set(table["state"]) == {"done"}


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = minimize(bowl, SPACE, "1 trial")
    with pytest.raises(InvalidInput, match="pip install pandas"):
        result.dataframe()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget": "9m"}, ["of 9 m 00 s]"]),
        ({"budget": "$12", "cost": lambda params: 2.0}, ["$2.00 expected", "[$12.00 of $12.00]"]),
        ({"budget": {"trials": 6, "usd": 99}, "cost": {"usd": lambda p: 2.0}}, ["6 of 6 trials"]),
        ({}, ["trial 5: "]),
    ],
)
def test_without_a_terminal_progress_is_one_line_per_trial(settings, words, capsys):
    result = minimize(bowl, SPACE, **settings, stop=MaxTrials(6), progress=True)
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 6
    assert f"trial {result.best.number}: {result.best.value:.6g}" in shown
    assert all(word in shown for word in words)
    minimize(bowl, SPACE, **settings, stop=MaxTrials(6))
    assert capsys.readouterr().out == ""


def test_progress_on_a_terminal_is_a_bar_for_the_budget(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    result = minimize(bowl, SPACE, "$12", cost=lambda params: 2.0, stop=MaxTrials(6), progress=True)
    shown = capsys.readouterr().out
    assert "━━━" in shown
    assert "$12.00 of $12.00 spent" in shown
    assert "about $2.00 expected" in shown
    assert f"best {result.best.value:.6g}" in shown


def test_failures_in_a_row_of_zero_never_ends_the_run():
    """As `--failures-in-a-row 0` does."""
    result = minimize(
        lambda params: Outcome(failed="no licence", cost=1.0),
        SPACE,
        8,
        failures_in_a_row=0,
        policy=Random(),
    )
    assert len(result.history) > 6


# ── the number of trials ─────────────────────────────────────────────────────────────────────────


def test_n_trials_is_a_limit_besides_the_budget():
    for name in ("n_trials", "max_trials"):
        alone = minimize(bowl, SPACE, **{name: 6})
        assert len(alone.trials) == 6
        assert alone.stop_reason.sentence == minimize(bowl, SPACE, "6 trials").stop_reason.sentence
        priced = {"cost": lambda params: 1.0, "policy": Random()}
        assert len(minimize(bowl, SPACE, "$4", **{name: 6}, **priced).trials) == 4
        assert len(minimize(bowl, SPACE, "$9", **{name: 6}, **priced).trials) == 6
        assert minimize(bowl, SPACE, "$9", **{name: 6}, **priced).spent == 6  # still in dollars


def test_n_trials_decides_like_a_budget_of_trials():
    assert [trial.params for trial in minimize(bowl, SPACE, n_trials=7).trials] == [
        trial.params for trial in minimize(bowl, SPACE, "7 trials").trials
    ]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"n_trials": 5, "max_trials": 5}, "are the same limit. Give one."),
        ({"n_trials": 5, "budget": "5 trials"}, "already limits the trials to 5"),
        ({"n_trials": 0}, "n_trials=0: expected a whole number of at least 1"),
        ({"max_trials": 2.5}, "max_trials=2.5: expected a whole number"),
        ({"n_trials": True}, "n_trials=True: expected a whole number"),
        ({"n_trials": 5, "workers": 0}, "workers=0: expected a whole number of at least 1"),
        ({"n_trials": 5, "workers": True}, "workers=True: expected a whole number"),
    ],
)
def test_wrong_limits_and_workers_are_refused(given, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        minimize(bowl, SPACE, **given)


# ── maximising ───────────────────────────────────────────────────────────────────────────────────


def test_maximize_is_minimize_with_the_other_sign():
    lowest = minimize(bowl, SPACE, n_trials=9, seed=2)
    highest = maximize(lambda params: -bowl(params), SPACE, n_trials=9, seed=2)
    assert [trial.params for trial in highest.trials] == [trial.params for trial in lowest.trials]
    assert highest.best_value == -lowest.best_value == max(t.value for t in highest.trials)
    assert highest.best_params == lowest.best_params == dict(lowest.best.params)


def test_maximize_refuses_the_other_direction():
    with pytest.raises(InvalidInput, match=r"maximize\(\) cannot have direction='minimize'"):
        maximize(bowl, SPACE, n_trials=3, direction="minimize")
    assert maximize(bowl, SPACE, n_trials=3, direction="maximize").best_value > 0
    with pytest.raises(InvalidInput, match=r"maximize\(\) without a budget"):
        maximize(bowl, SPACE)


def test_maximize_and_minimize_have_the_same_arguments():
    assert inspect.signature(maximize) == inspect.signature(minimize)


# ── workers ──────────────────────────────────────────────────────────────────────────────────────


def test_workers_evaluate_at_the_same_time():
    """Each of the first two trials waits until the other one has started."""
    context = multiprocessing.get_context("fork")
    both, count = context.Barrier(2), context.Value("i", 0)
    here = os.getpid()

    def objective(params):
        assert os.getpid() != here
        with count:
            count.value += 1
            first = count.value <= 2
        if first:
            both.wait()  # for ever, if the trials ran one after the other
        return bowl(params)

    result = minimize(objective, SPACE, n_trials=5, workers=2)
    assert [trial.state for trial in result.trials] == ["done"] * 5
    assert len({trial.run.worker for trial in result.trials}) == 2
    assert result.best_value == min(bowl(trial.params) for trial in result.trials)


def test_the_budget_holds_with_workers():
    """A known cost, a closure, is never overspent by a policy of a local class."""

    @dataclass(frozen=True)
    class Own:
        needs: ClassVar[frozenset[str]] = frozenset()
        reads: ClassVar[frozenset[str]] = frozenset()

        def propose(self, belief, rng):
            return Random().propose(belief, rng)

    scale = 1.5
    result = minimize(
        bowl, SPACE, 12, workers=3, policy=Own(), cost=lambda params: scale + params["a"]
    )
    spent = sum(scale + trial.params["a"] for trial in result.trials)
    assert result.spent == pytest.approx(spent)
    assert 12 - (scale + 1) < spent <= 12 * (1 + 1e-9)
    assert not result.history.running


def test_a_trial_is_killed_when_the_budget_of_seconds_is_spent_and_there_are_workers():
    def objective(params):
        while True:
            time.sleep(0.01)

    result = minimize(objective, SPACE, "1s", workers=2, failures_in_a_row=0)
    assert result.found is None
    assert {trial.state for trial in result.trials} == {"killed"}
    assert result.ledger["s"].left <= 1.0


def test_workers_explain_what_their_database_cannot_store():
    class Own:
        needs = reads = frozenset()

        def propose(self, belief, rng):
            return Random().propose(belief, rng)

    assert len(minimize(bowl, SPACE, n_trials=2, policy=Own()).trials) == 2
    with pytest.raises(InvalidInput, match=r"workers=2: .*Own object.*if it is a dataclass"):
        minimize(bowl, SPACE, n_trials=2, policy=Own(), workers=2)


def test_a_missing_cost_is_an_error_with_workers_too():
    with pytest.raises(InvalidInput, match=r"return Outcome\(value, cost=\.\.\.\)"):
        minimize(bowl, SPACE, "$5", workers=2)


def test_workers_leave_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = minimize(bowl, SPACE, n_trials=3, workers=2)
    assert list(tmp_path.iterdir()) == []
    assert len(result.dataframe()) == 3
    assert result.plot.values.curve().panels


# ── the same names everywhere ────────────────────────────────────────────────────────────────────


def test_a_result_an_optimizer_and_a_study_have_the_same_names(tmp_path):
    result = minimize(bowl, SPACE, n_trials=7)
    optimizer = Optimizer(SPACE, "9 trials")
    study = Study.create(tmp_path / "a.db", name="a", space=SPACE, budget="9 trials")
    for each in (optimizer, study):
        assert each.best is each.best_params is each.best_value is None
        assert each.trials == []
        each.import_trials(result)
    for each in (result, optimizer, study):
        assert each.best_params == dict(each.best.params) == result.best_params
        assert each.best_value == each.best.value == result.best_value
        assert [trial.value for trial in each.trials] == [t.value for t in result.history]
        assert each.dataframe()["value"].tolist() == [t.value for t in result.history]
        for name in ("curve", "money", "drivers", "timeline", "prospect", "predictions", "pareto"):
            assert getattr(each.plot.values, name)().name, name
        assert each.plot.values.slice("a").panels


def test_a_result_can_be_pickled_even_if_its_settings_cannot():
    plain = pickle.loads(pickle.dumps(minimize(bowl, SPACE, n_trials=3)))
    assert plain.plot.values.curve().panels
    priced = minimize(bowl, SPACE, "$3", cost=lambda params: 1.0)
    copied = pickle.loads(pickle.dumps(priced))
    assert copied.best_params == priced.best_params
    with pytest.raises(InvalidInput, match="Draw the figures before you pickle it"):
        _ = copied.plot
