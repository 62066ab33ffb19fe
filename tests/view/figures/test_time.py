"""The timeline of workers, and learning curves."""

from dataclasses import replace

import pytest
from runs import seen

from farthing import Float, Optimizer
from farthing.history import History
from farthing.view.figures import learning, timeline
from farthing.view.figures.learning import learning_of
from farthing.view.figures.timeline import timeline_of


def with_runs(runs, *, states=None, direction="minimize", costs=None):
    """A study whose trials have the given `Run` fields."""
    optimizer = Optimizer({"x": Float(0, 1)}, "$100", direction=direction)
    for k, _ in enumerate(runs):
        optimizer.tell(optimizer.ask(), float(k), cost=1.0)
    settings, state = seen(optimizer)
    trials = tuple(
        replace(
            trial,
            run=replace(trial.run, **run),
            state=(states or {}).get(trial.number, "done"),
            cost=(costs or {}).get(trial.number, {"usd": 1.0}),
        )
        for trial, run in zip(state.history, runs, strict=True)
    )
    return settings, replace(state, history=History(trials))


def test_each_worker_has_a_lane():
    runs = [
        {"worker": "a", "asked_at": 100.0, "told_at": 103.0},
        {"worker": "b", "asked_at": 101.0, "told_at": 102.0},
        {"worker": "a", "asked_at": 104.0, "told_at": 108.0},
    ]
    settings, state = with_runs(runs, states={1: "failed"})
    slots = with_runs([{**run, "slot": str(k)} for k, run in enumerate(runs)])[1]
    assert [b.lane for b in timeline_of(slots)] == ["a, slot 0", "b, slot 1", "a, slot 2"]
    found = timeline_of(state)
    assert [(b.trial.number, b.lane, b.start, b.end) for b in found] == [
        (0, "a", 0.0, 3.0),
        (1, "b", 1.0, 2.0),
        (2, "a", 4.0, 8.0),
    ]
    (panel,) = timeline(settings, state).panels
    assert panel.y.names == ("b", "a")
    done, failed = panel.layers
    assert (done.start, done.end, done.y) == ((0.0, 4.0), (3.0, 8.0), (1.0, 1.0))
    assert (failed.style, failed.y) == ("failed", (0.0,))
    assert done.texts[1].startswith("trial 2, done for $1.00; 4.0 s from suggestion to result ")


def test_running_trials_last_until_the_latest_known_time():
    runs = [
        {"worker": "a", "asked_at": 10.0, "told_at": None},
        {"worker": "b", "asked_at": 11.0, "told_at": None},
    ]
    states = {0: "running", 1: "running"}
    _, state = with_runs(runs, states=states, costs={0: {"s": 4.0}, 1: {"s": 7.0}})
    assert [(b.start, b.end) for b in timeline_of(state)] == [(0.0, 8.0), (1.0, 8.0)]


def test_trials_without_a_worker_take_the_first_free_lane():
    runs = [
        {"asked_at": 0.0, "told_at": 5.0},
        {"asked_at": 1.0, "told_at": 2.0},
        {"asked_at": 3.0, "told_at": 4.0},
        {"asked_at": 6.0, "told_at": 7.0},
    ]
    _, state = with_runs(runs)
    assert [b.lane for b in timeline_of(state)] == [
        "unnamed 1",
        "unnamed 2",
        "unnamed 2",
        "unnamed 1",
    ]


def test_no_timeline_without_trials(empty):
    assert timeline(*empty).empty == "No trial has started yet."


# ── learning curves ────────────────────────────────────────────────────────────────────────────


def lines(*values, **more):
    return [
        {"step": k, "value": value, "cost": {"usd": 0.1 * (k + 1)}, **more}
        for k, value in enumerate(values)
    ]


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_learning_curves_are_drawn_against_cost(direction):
    runs = [{"reports": tuple(lines(3.0, 2.0, 1.0))}, {"reports": tuple(lines(5.0, 4.0))}]
    run = with_runs(runs, direction=direction)
    found = learning_of(*run, "usd")
    assert [(c.number, c.y) for c in found] == [(0, (3.0, 2.0, 1.0)), (1, (5.0, 4.0))]
    assert found[0].x == pytest.approx((0.1, 0.2, 0.3))
    figure = learning(*run)
    (panel,) = figure.panels
    assert panel.x.label == "cost of the trial (usd)"
    best = panel.layers[-1]
    assert best.label == ("trial 0" if direction == "minimize" else "trial 1")
    assert learning(*run, steps=True).panels[0].layers[0].x in ((0.0, 1.0, 2.0), (0.0, 1.0))


def test_without_costs_the_steps_are_shown():
    run = with_runs([{"reports": ({"step": 1, "value": 2.0}, {"step": 2, "value": 1.0})}])
    assert learning(*run).panels[0].x.label == "step"


def test_reports_without_numbers_are_left_out():
    odd = [
        {"step": 0, "value": float("nan")},
        {"step": "one", "value": 1.0},
        {"step": 2, "value": True},
        {"step": 3},
    ]
    run = with_runs([{"reports": tuple(odd)}, {"reports": tuple(odd + lines(1.0, 2.0))}])
    assert [(c.number, c.y) for c in learning_of(*run, None)] == [(1, (1.0, 2.0))]


def test_no_curves_without_reports(minimised):
    assert learning(*minimised).empty == "No trial reported two or more values while it ran."
