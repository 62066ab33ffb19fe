"""The timeline of workers, and learning curves."""

from dataclasses import replace

import pytest
from parts import RoundRobin
from runs import seen

from farthing import Float, Optimizer, Steps
from farthing.history import History
from farthing.view.figures import learning, timeline
from farthing.view.figures.learning import learning_of
from farthing.view.figures.timeline import timeline_of
from farthing.view.plots import Plots
from farthing.view.primitives import Line, Points


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


def test_a_running_trial_is_in_the_lane_that_its_worker_has():
    runs = [
        {"worker": "a", "slot": "0", "asked_at": 10.0, "told_at": 11.0},
        {"worker": "b", "slot": "1", "asked_at": 10.0, "told_at": 11.0},
        {"worker": "a", "asked_at": 12.0, "told_at": None},  # its slot is known when it ends
        {"worker": "b", "slot": "0", "asked_at": 12.0, "told_at": None},  # of an earlier part
        {"worker": "c", "asked_at": 12.0, "told_at": None},
    ]
    _, state = with_runs(runs, states={2: "running", 3: "running", 4: "running"})
    lanes = ["a, slot 0", "b, slot 1", "a, slot 0", "b, slot 1", "c"]
    assert [b.lane for b in timeline_of(state)] == lanes


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
    assert best.label == ("best: trial 0" if direction == "minimize" else "best: trial 1")
    assert learning(*run, steps=True).panels[0].layers[0].x in ((0.0, 1.0, 2.0), (0.0, 1.0))
    assert best.texts[-1].startswith(best.label.removeprefix("best: ") + ", done; step ")
    assert best.texts[-1].endswith(" so far")


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


# ── curves of trainings in parts ───────────────────────────────────────────────────────────────


def trainings(direction="minimize", count=3, told=8, **given):
    """Three trainings in parts. The value at step t of trial i is (i + 1) / t."""
    steps = Steps(given.pop("last", 32))
    optimizer = Optimizer(
        {"x": Float(0, 1)}, "$100", policy=RoundRobin(count), steps=steps, direction=direction
    )
    for _ in range(told):
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.number + 1) / trial.until, cost=0.5)
    return seen(optimizer)


def layers_of(figure, kind, style):
    (panel,) = figure.panels
    return [each for each in panel.layers if isinstance(each, kind) and each.style == style]


def test_trainings_are_drawn_against_their_steps():
    settings, state = trainings()
    figure = learning(settings, state)
    (panel,) = figure.panels
    assert panel.x.label == "step"
    assert [tick for tick, _ in panel.x.ticks] == [1, 2, 4, 8, 16, 32]
    assert panel.x.log
    assert learning(*trainings(last=8)).panels[0].x.log is False
    rungs = layers_of(figure, Line, "rung")
    assert [rung.x for rung in rungs] == [(float(r),) * 2 for r in (1, 2, 4, 8, 16, 32)]
    (best,) = layers_of(figure, Line, "best")
    assert (best.x, best.y) == ((1.0, 2.0, 4.0), (1.0, 0.5, 0.25))
    assert [line.y[0] for line in layers_of(figure, Line, "paused")] == [2.0, 3.0]
    (ends,) = [each for each in layers_of(figure, Points, "paused") if each.size >= 1]
    assert ends.label == "paused (2)"
    assert list(zip(ends.x, ends.y, strict=True)) == [(4.0, 0.5), (2.0, 1.5)]
    assert ends.texts[0] == "trial 1, paused at step 4; step 4: 0.5 for $1.50 so far"
    assert panel.layers[-1].label == "best: trial 0"  # on top
    against_cost = learning(settings, state, steps=False)
    assert against_cost.panels[0].x.label == "cost of the trial (usd)"
    assert not layers_of(against_cost, Line, "rung")


def test_a_training_with_one_value_has_a_mark():
    figure = learning(*trainings(told=1))
    assert not layers_of(figure, Line, "best")
    (mark,) = layers_of(figure, Points, "best")
    assert (mark.x, mark.y) == ((1.0,), (1.0,))
    assert learning(*trainings(told=0)).empty == "No trial reported a value while it ran."


def test_the_best_of_many_trainings_is_always_shown():
    settings, state = trainings(count=100, told=100)
    (panel,) = learning(settings, state).panels
    ends = [each for each in panel.layers if isinstance(each, Points) and each.label]
    assert panel.layers[-1].label == "best: trial 0"
    assert sum(len(each.x) for each in ends) == 40
    figure = learning(settings, state, only=57)
    (mark,) = [each for each in figure.panels[0].layers if isinstance(each, Points)]
    assert mark.texts == ("trial 57, paused at step 1; step 1: 58 for $0.50 so far",)


def test_many_reports_get_few_hover_texts():
    (panel,) = learning(*with_runs([{"reports": tuple(lines(*range(1, 1001)))}])).panels
    (small,) = [each for each in panel.layers if isinstance(each, Points) and not each.label]
    assert (len(small.texts), small.y[0]) == (500, 1.0)


@pytest.mark.parametrize(("last", "log"), [(2.0, False), (4.0, True)])
def test_values_of_several_magnitudes_have_a_logarithmic_axis(last, log):
    (panel,) = learning(*with_runs([{"reports": tuple(lines(last, 1.0))}])).panels
    assert panel.y.log is log


def test_every_renderer_draws_trainings():
    plots = Plots(trainings)
    drawn = plots.svg.learning()
    assert drawn.count("s-rung") == 6 + 2  # with its colours on a light and on a dark page
    assert "trial 1, paused at step 4; step 4: 0.5 for $1.50 so far" in drawn
    text = plots.text.learning()
    assert text.count("◇") == 2  # the ends of both paused trainings
    assert "1" in text.splitlines()[-3]
    traces = plots.interactive.learning().data
    hovers = {text for trace in traces if trace.hovertext for text in trace.hovertext}
    assert "trial 2, paused at step 2; step 1: 3 for $0.50 so far" in hovers
    ticks = plots.learning().axes[0].get_xticks()
    assert list(ticks) == [1, 2, 4, 8, 16, 32]


def test_a_lost_part_is_in_the_lane_of_its_worker():
    """It was resumed there, and lost before it told its slot."""
    runs = [
        {"worker": "a", "slot": "0", "asked_at": 10.0, "told_at": 11.0},
        {"worker": "a", "asked_at": 12.0, "told_at": 13.0},
    ]
    _, state = with_runs(runs, states={1: "lost"})
    assert [b.lane for b in timeline_of(state)] == ["a, slot 0", "a, slot 0"]
