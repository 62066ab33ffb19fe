"""The reasons of all parts of a training: started, continued, paused, resumed."""

from dataclasses import replace

import numpy as np
from parts import Greedy, RoundRobin

from farthing import Float, Optimizer, Steps, minimize
from farthing.core.part_reasons import MAX_CHARS, MAX_REASONS, reasons_of, with_reason
from farthing.history import Run, Trial

SPACE = {"lr": Float(0.1, 0.9)}


def trial(because="a new training"):
    return Trial(3, {}, np.zeros(1), because=because, run=Run(asked_at=5.0))


def test_a_trial_without_reasons_was_started():
    (only,) = reasons_of(trial())
    assert only == ("started", 1, 0, {}, "a new training", 5.0)


def test_the_parts_are_counted_and_the_first_reason_is_kept():
    known = trial()
    for kind, step in (("continued", 2), ("paused", 4), ("resumed", 4), ("paused", 8)):
        notes = with_reason(
            {"other": 1}, known, kind, f"at {step}", float(step), step=step, cost={"s": step}
        )
        known = replace(known, notes=notes, because="the last one")
    assert known.notes["other"] == 1
    assert [(each.kind, each.part, each.step) for each in reasons_of(known)] == [
        *[("started", 1, 0), ("continued", 1, 2), ("paused", 1, 4)],
        *[("resumed", 2, 4), ("paused", 2, 8)],
    ]
    assert reasons_of(known)[0].because == "a new training"
    assert reasons_of(known)[-1] == ("paused", 2, 8, {"s": 8}, "at 8", 8.0)


def test_only_the_first_and_the_latest_reasons_are_kept():
    known = trial()
    for step in range(1, 200):
        kind = "resumed" if step % 2 else "paused"
        notes = with_reason({}, known, kind, "x" * 5000, 0.0, step=step, cost={})
        known = replace(known, notes=notes)
    found = reasons_of(known)
    assert len(found) == MAX_REASONS
    assert (found[0].kind, found[1].step, found[-1].step) == ("started", 200 - MAX_REASONS + 1, 199)
    assert found[-1].part == 101
    assert max(len(each.because) for each in found) == MAX_CHARS


def test_ask_and_tell_keep_the_reasons():
    optimizer = Optimizer(SPACE, "$9", policy=RoundRobin(2), steps=8)
    for _ in range(3):
        asked = optimizer.ask()
        optimizer.tell(asked, 1.0, cost=0.5)
    found = reasons_of(optimizer.history[0])
    assert [(each.kind, each.part, each.step, each.because) for each in found] == [
        ("started", 1, 0, "a new training"),
        ("paused", 1, 1, ""),  # the user told it
        ("resumed", 2, 1, "it is behind the others"),
        ("paused", 2, 2, ""),
    ]
    assert [each.cost for each in found] == [{}, {"usd": 0.5}, {"usd": 0.5}, {"usd": 1.0}]


def train(params, trial):
    file = trial.checkpoint / "step"
    step = int(file.read_text()) if file.exists() else 0
    while True:
        step += 1
        if trial.report(step, params["lr"] ** step) != "continue":
            file.write_text(str(step))
            return


def test_the_tuner_says_why_it_pauses():
    result = minimize(train, SPACE, "2 trials", policy=RoundRobin(2), steps=Steps(4))
    for each in result.history:
        paused = [reason for reason in reasons_of(each) if reason.kind == "paused"]
        assert len(paused) == 2  # at steps 1 and 2
        assert all(reason.because.startswith("instead, ") for reason in paused)


def test_a_training_that_goes_on_by_itself_keeps_why():
    result = minimize(train, SPACE, "1 trials", policy=Greedy(), steps=Steps(4))
    found = reasons_of(result.history[0])
    assert [(each.kind, each.part, each.step) for each in found] == [
        ("started", 1, 0),
        ("continued", 1, 1),
        ("continued", 1, 2),
    ]
    assert {each.because for each in found[1:]} == {"it goes on"}
