"""The parts of a training, what pausing saved, and what going on would cost."""

import math
import pickle
import sys
from dataclasses import replace

import pytest
from parts import FirstRung, RoundRobin
from runs import seen

from farthing import Float, Optimizer, Steps
from farthing.core.events import CheckpointsDeleted
from farthing.core.part_reasons import MAX_REASONS, with_reason
from farthing.policies import StagedGittins
from farthing.view.chosen import WITHOUT_COMPARISON, chosen_by
from farthing.view.facts import explanation, state_before
from farthing.view.figures.curve import curve_of
from farthing.view.figures.prospect import Step, prospect_of
from farthing.view.formatting import trial_line
from farthing.view.report import explained, report_facts, report_text
from farthing.view.report.page import page
from farthing.view.result import Result, summary
from farthing.view.saved import saved_by_pausing
from farthing.view.training_parts import going_on, parts_of
from farthing.view.web.columns import trial_columns

SPACE = {"x": Float(0, 1)}


def played(count=2, told=5, budget="$100", cost=0.5, steps=None, policy=None):
    """Trainings in parts: each part costs the same, and the value at step t is (i + 1) / t."""
    optimizer = Optimizer(
        SPACE, budget, policy=policy or RoundRobin(count), steps=steps or Steps(8)
    )
    for _ in range(told):
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.number + 1) / trial.until, cost=cost)
    return optimizer


# ── what pausing saved ─────────────────────────────────────────────────────────────────────────


def test_what_was_saved_is_the_cost_of_the_steps_that_were_not_run():
    """Trial 0 has paid $1.50 for 4 steps, trial 1 $1.00 for 2 steps, of 8 each."""
    settings, state = seen(played())
    assert [(t.state, t.step, t.cost["usd"]) for t in state.history] == [
        ("paused", 4, 1.5),
        ("paused", 2, 1.0),
    ]
    saved = saved_by_pausing(settings, state)
    assert saved.amounts == pytest.approx({"usd": 1.5 / 4 * 4 + 1.0 / 2 * 6})
    assert (saved.trials, saved.steps, saved.all_steps) == (2, 10, 16)
    assert str(saved) == "about $4.50: 10 of 16 steps not run, by pausing 2 trainings"


def test_trainings_that_are_done_or_run_save_nothing():
    optimizer = played(count=1, told=4)
    assert optimizer.history[0].state == "done"
    assert saved_by_pausing(*seen(optimizer)).trials == 0
    other = played(count=1, told=1)
    other.ask()
    assert saved_by_pausing(*seen(other)).trials == 0


def test_without_costs_only_steps_are_counted():
    saved = saved_by_pausing(*seen(played(budget="9 trials", cost=None)))
    assert (saved.amounts, saved.steps) == ({}, 10)
    assert str(saved) == "10 of 16 steps not run, by pausing 2 trainings"


def test_results_summaries_and_reports_show_it():
    optimizer = played()
    settings, state = seen(optimizer)
    result = Result.of(settings, optimizer.best, optimizer.verdict.reason, state)
    sentence = "about $4.50: 10 of 16 steps not run, by pausing 2 trainings"
    assert f"saved:   {sentence}" in str(result)
    assert summary("study", result)["saved"]["amounts"] == pytest.approx({"usd": 4.5})
    assert pickle.loads(pickle.dumps(result)).saved == result.saved
    assert f"saved:   {sentence}" in report_text(report_facts("study", settings, state))
    assert f"Saved: {sentence}." in page({"study": (settings, state)})
    plain = Optimizer(SPACE, "$9")
    plain.tell(plain.ask(), 1.0, cost=1.0)
    without = Result.of(seen(plain)[0], plain.best, plain.verdict.reason, seen(plain)[1])
    assert "saved" not in str(without)
    assert summary("study", without)["saved"] is None


def test_curves_as_a_frame():
    optimizer = played()
    frame = optimizer.curves()
    assert list(frame.columns) == ["number", "step", "value", "cost_usd"]
    assert frame.to_dict("list") == {
        "number": [0, 0, 0, 1, 1],
        "step": [1, 2, 4, 1, 2],
        "value": [1.0, 0.5, 0.25, 2.0, 1.0],
        "cost_usd": [0.5, 1.0, 1.5, 0.5, 1.0],
    }
    settings, state = seen(optimizer)
    result = Result.of(settings, optimizer.best, optimizer.verdict.reason, state)
    assert result.curves().equals(frame)
    assert list(optimizer.dataframe()["step"]) == [4, 2]


# ── parts ──────────────────────────────────────────────────────────────────────────────────────


def test_the_parts_of_a_training_in_order():
    parts = parts_of(played().history[0])
    assert [(p["part"], p["from"], p["to"], p["cost"], p["ended"]) for p in parts] == [
        (1, 0, 1, {"usd": 0.5}, "paused"),
        (2, 1, 2, {"usd": 0.5}, "paused"),
        (3, 2, 4, {"usd": 0.5}, "paused"),
    ]
    assert [p["because"] for p in parts] == ["a new training", *["it is behind the others"] * 2]


def test_the_last_part_has_the_state_of_its_trial():
    optimizer = played(told=3)
    optimizer.ask()
    parts = parts_of(optimizer.history[1])
    assert [(p["from"], p["to"], p["ended"]) for p in parts] == [
        (0, 1, "paused"),
        (1, 1, "running"),
    ]


def test_parts_whose_reasons_were_not_kept_are_left_out():
    trial = played(told=1).history[0]
    for step in range(2, 100):
        kind = "paused" if step % 2 else "resumed"
        notes = with_reason({}, trial, kind, "why", 0.0, step=step, cost={"usd": step})
        trial = replace(trial, notes=notes)
    parts = parts_of(trial)
    assert parts[0]["part"] == 1
    assert parts[-1]["part"] == 50
    assert len(parts) < MAX_REASONS
    assert all(part["from"] <= part["to"] for part in parts)


def test_the_explanation_lists_the_parts_and_what_going_on_costs():
    optimizer = played()
    facts = explanation(*seen(optimizer), 0)
    assert facts["because"] == "a new training"  # the reason of its first part
    words = explained(facts)
    assert words["part 1"] == "steps 0 to 1, $0.50, paused"
    assert words["part 3"] == "steps 2 to 4, $0.50, resumed: it is behind the others; paused"
    assert words["going on"] == "to step 8 for about $1.50"
    assert words["result"].startswith("0.25 (paused at step 4) for $1.50")
    assert words["trade-off"] == WITHOUT_COMPARISON["no model"]
    assert words["curve"] == "3 values, the last 0.25 at step 4"
    words = explained(explanation(*seen(optimizer), 1))
    assert words["going on"] == "to step 4 for about $1.00, to step 8 for about $3.00"


def test_restoring_a_checkpoint_costs_extra_and_without_one_it_starts_again():
    optimizer = played(steps=Steps(8, resume=0.25))
    settings, state = seen(optimizer)
    ahead = going_on(settings, state.history[1])
    assert (ahead["until"], ahead["cost"]) == (4, {"usd": 1.25})
    optimizer.commit(CheckpointsDeleted((1,)))
    again = going_on(settings, optimizer.history[1])
    assert (again["from"], again["cost"]) == (0, {"usd": 2.0})  # four steps at $0.50
    words = explained(explanation(*seen(optimizer), 1))
    assert words["going on"].startswith("it would start again, without its checkpoint: to step 4")
    never = played(steps=Steps(8, resume="never"), policy=FirstRung(), told=1)
    assert going_on(*[seen(never)[0], never.history[0]])["from"] == 0


def test_an_explanation_knows_only_what_was_known_then():
    """When trial 1 began, trial 0 had reached step 1. Its later values were not known."""
    optimizer = played()
    trial = optimizer.history[1]
    first = trial.notes["reasons"][0]["at"]
    before = state_before(
        seen(optimizer)[1], replace(trial, run=replace(trial.run, asked_at=first))
    )
    assert [point.step for point in before.history[0].curve] == [1]


def test_paused_trainings_can_be_the_best_before():
    """Of three looks at new trainings, the first is the best; trial 2 improves nothing."""
    facts = explanation(*seen(played(policy=FirstRung(), told=3)), 2)
    assert (facts["best_before"], facts["improved_by"]) == (1.0, 0.0)
    last = Steps(8, value="last")
    facts = explanation(*seen(played(policy=FirstRung(), told=3, steps=last)), 2)
    assert (facts["best_before"], facts["improved_by"]) == (None, None)


def test_a_policy_by_steps_compares_trainings():
    settings, state = seen(played(policy=StagedGittins(), told=9))
    trial = state.history[len(state.history) - 1]
    assert trial.origin == "suggested"
    assert chosen_by(settings, trial) == "steps"
    words = explained(explanation(settings, state, trial.number))
    assert words["trade-off"].startswith("The policy compared new and paused trainings")


def test_the_report_lists_the_parts():
    whole = page({"study": seen(played())})
    assert "Parts of trainings that were paused or continued: all" in whole
    assert "steps 2 to 4, $0.50, resumed: it is behind the others; paused" in whole
    plain = Optimizer(SPACE, "$9")
    plain.tell(plain.ask(), 1.0, cost=1.0)
    assert "Parts of trainings" not in page({"study": seen(plain)})


# ── the value that counts ──────────────────────────────────────────────────────────────────────


def failed_at_two():
    """Trial 0 has reported 1 at step 1, and then failed. Trial 1 is paused with 2 at step 1."""
    optimizer = played(told=2)
    optimizer.tell(optimizer.ask(), failed="diverged", cost=0.5)
    return optimizer


def test_the_line_of_the_best_value_counts_paused_and_failed_trainings():
    assert curve_of(*seen(played(told=2))).best == [1.0, 1.0]
    found = curve_of(*seen(failed_at_two()))
    assert [interval.trial.number for interval in found.intervals] == [1, 0]
    assert found.best == [2.0, 1.0]
    columns = {
        each["key"]: each["values"]
        for each in trial_columns(*seen(failed_at_two()), [0, 1])["columns"]
        if "values" in each
    }
    assert (columns["value"], columns["feasible"]) == ([1.0, 2.0], [1, 1])


def test_a_failed_training_says_what_it_had_reached():
    optimizer = failed_at_two()
    assert trial_line(optimizer.history[0]).startswith("trial 0: failed (1 at step 1) after $1.00")
    words = explained(explanation(*seen(optimizer), 0))
    assert words["result"] == "failed with 1 at step 1 after $1.00: diverged"


def test_a_program_that_exits_at_its_rung_has_one_reason_to_go_on():
    trial = played(told=1).history[0]
    notes = trial.notes
    for kind, because in (("continued", "promising"), ("paused", ""), ("resumed", "promising")):
        notes = with_reason(notes, trial, kind, because, 0.0, step=1, cost={"usd": 0.5})
        trial = replace(trial, notes=notes)
    *_, first, second = parts_of(trial)
    assert first["continued"] == []
    assert second["because"] == "promising"


def test_gain_rates_are_in_the_order_of_the_spending(monkeypatch):
    """Trials 0 to 3 were resumed after trials 4 to 7 had begun."""

    def step(settings, state, trial, spent):
        return Step(trial.number, spent, 1.0, 1.0, None, math.nan, math.nan)

    monkeypatch.setattr(sys.modules[Step.__module__], "_step", step)
    spent = [step.spent for step in prospect_of(*seen(played(count=8, told=12)))]
    assert spent == sorted(spent)
