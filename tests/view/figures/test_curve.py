"""The cost axis, the best value against cost, and the use of the budget."""

import itertools
import math

import pytest
from runs import overlapping, played, seen

from farthing import Float, Optimizer
from farthing.budget.units import format_amount
from farthing.errors import InvalidInput
from farthing.view.figures import comparison, curve, money
from farthing.view.figures.curve import curve_of
from farthing.view.figures.money import WORDS, money_of
from farthing.view.figures.spending import main_resource, spending, spent_until
from farthing.view.formatting import amounts
from farthing.view.primitives import Line, Segments
from farthing.view.report.parts import trials_table


@pytest.mark.slow
def test_the_cost_axis_ends_at_what_was_spent(run):
    for resource in run.settings.cost_resources:
        intervals = spending(run.state, resource)
        assert intervals[0].start == 0.0
        assert intervals[-1].end == pytest.approx(run.state.ledger[resource].spent)
        for before, after in itertools.pairwise(intervals):
            assert after.start == before.end
        total = sum(interval.trial.cost[resource] for interval in intervals)
        for interval in intervals:
            share = interval.trial.cost[resource] / total
            assert interval.end - interval.start == pytest.approx(share * intervals[-1].end)
            if resource != "s":
                assert interval.end - interval.start == pytest.approx(interval.trial.cost[resource])


def test_intervals_are_in_the_order_in_which_trials_ended():
    optimizer = Optimizer({"x": Float(0, 1)}, "$10")
    first, second = optimizer.ask(2)
    optimizer.tell(second, 2.0, cost=1.0)
    third = optimizer.ask()
    optimizer.tell(first, 1.0, cost=3.0)
    run = seen(optimizer)
    assert [interval.trial.number for interval in spending(run.state, "usd")] == [1, 0]
    assert spent_until(run.state, "usd") == {0: 0.0, 1: 0.0, 2: 1.0}
    assert third.number == 2


def test_external_trials_cost_nothing():
    optimizer = Optimizer({"x": Float(0, 1)}, "$10")
    optimizer.add({"x": 0.5}, 1.0, cost=7.0)
    optimizer.tell(optimizer.ask(), 2.0, cost=3.0)
    found = curve_of(*seen(optimizer))
    assert [(interval.start, interval.end) for interval in found.intervals] == [
        (0.0, 0.0),
        (0.0, 3.0),
    ]
    assert found.best == [1.0, 1.0]


def test_a_trial_of_two_workers_has_one_cost_and_a_share_of_the_spending():
    """The tooltip shows the cost in the table of trials, and names the share."""
    run = seen(overlapping())
    (panel,) = curve(*run).panels
    texts = [text for layer in panel.layers if isinstance(layer, Segments) for text in layer.texts]
    intervals = spending(run.state, "s")
    assert len(texts) == len(intervals) == 8
    for text, interval in zip(texts, intervals, strict=True):
        cost = amounts(interval.trial.cost)
        share = format_amount("s", interval.trial.cost["s"] / 2)
        assert f" for {cost}; share of the spending: {share}  " in text
        assert f">{cost}<" in trials_table(run.settings, [interval.trial])
    assert intervals[-1].end == pytest.approx(run.state.ledger["s"].spent)
    assert "its length is its share of the spending" in curve(*run).caption
    alone = curve(*seen(played(4, broken=())))
    assert "its length is its cost" in alone.caption
    assert not any("share" in text for text in alone.panels[0].layers[0].texts)


@pytest.mark.slow
def test_the_curve_is_the_best_value_so_far(run):
    found = curve_of(run.settings, run.state)
    better = min if run.settings.direction == "minimize" else max
    values = [interval.trial.value for interval in found.intervals]
    for i, best in enumerate(found.best):
        known = [value for value in values[: i + 1] if value is not None]
        assert best == (better(known) if known else None)
    assert found.improved == [
        i for i, best in enumerate(found.best) if best != (found.best[i - 1] if i else None)
    ]


@pytest.mark.slow
def test_every_ended_trial_is_a_bar_as_long_as_its_cost(run):
    figure = curve(run.settings, run.state)
    (panel,) = figure.panels
    bars = [layer for layer in panel.layers if isinstance(layer, Segments)]
    ended = [trial for trial in run.history if trial.state != "running"]
    assert {bar.style for bar in bars} == {"done", "failed", "killed"}
    assert sum(len(bar.y) for bar in bars) == len(ended)
    resource = main_resource(run.settings, run.state)
    length = sum(end - start for bar in bars for start, end in zip(bar.start, bar.end, strict=True))
    assert length == pytest.approx(run.state.ledger[resource].spent)
    (done,) = (bar for bar in bars if bar.style == "done")
    values = {trial.value for trial in run.history.done}
    inside = [y for y in done.y if panel.y.place(0.021) < y < panel.y.place(0.979)]
    assert inside
    for y in inside:
        assert any(math.isclose(y, value) for value in values)
    (line,) = (layer for layer in panel.layers if isinstance(layer, Line))
    assert (line.x, line.y) == curve_of(run.settings, run.state).steps()
    assert "trial 0: " in done.texts[0]


@pytest.mark.slow
def test_a_given_resource_and_an_unknown_one():
    run = seen(played(costs=("usd", "kWh")))
    assert curve(*run, "kWh").panels[0].x.label == "spent (kWh)"
    assert curve(*run, "trials").panels[0].layers[-1].x[-1] == 14
    with pytest.raises(
        InvalidInput, match="Unknown resource 'eur'; the study has usd, kWh, trials"
    ):
        curve(*run, "eur")


def test_without_costs_trials_are_counted(free):
    figure = curve(*free)
    assert figure.panels[0].x.label == "number of trials"
    assert curve_of(*free).spent == len(free.history)


def test_an_empty_figure_gives_the_reason(empty, failures):
    assert curve(*empty).empty == "No trial has ended yet."
    assert curve(*failures).empty == "No trial returned a value: 4 failed."
    assert curve(*failures).panels == ()


def test_an_outlier_does_not_stretch_the_axis():
    optimizer = Optimizer({"x": Float(0, 1)}, "$100")
    for value in (1.0, 1.1, 1.2, 1.3, 1e9, 0.9):
        optimizer.tell(optimizer.ask(), value, cost=1.0)
    figure = curve(*seen(optimizer))
    assert figure.panels[0].y.high < 3
    assert "1 value is outside the axis" in figure.caption
    assert max(figure.panels[0].layers[0].y) < figure.panels[0].y.high


@pytest.mark.slow
def test_many_trials_are_thinned_and_no_improvement_is_lost():
    optimizer = Optimizer({"x": Float(0, 1)}, "$1e6")
    rows = [{"x": k / 5000, "value": 1 + 1 / (k + 1), "cost": 1.0} for k in range(5000)]
    optimizer.import_trials(rows)
    figure = curve(*seen(optimizer))
    found = curve_of(*seen(optimizer))
    assert len(found.improved) == 5000
    assert "trials are drawn" not in figure.caption  # every trial is an improvement
    optimizer.import_trials([{**row, "value": 5.0} for row in rows])
    figure = curve(*seen(optimizer))
    drawn = sum(len(layer.y) for layer in figure.panels[0].layers if isinstance(layer, Segments))
    assert 5000 < drawn < 7000
    assert f"{drawn} trials are drawn, including every improvement" in figure.caption


# ── use of the budget ──────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_parts_of_an_account_add_up_to_it(run):
    for resource in run.state.ledger:
        account, parts = run.state.ledger[resource], money_of(run.state, resource)
        assert list(parts) == list(WORDS)
        assert math.fsum(parts.values()) == pytest.approx(account.limit)
        spent = [parts[kind] for kind in ("done", "failed", "killed", "lost", "overhead", "other")]
        assert math.fsum(spent) == pytest.approx(account.spent)
        assert parts["overhead"] == account.overhead
        assert parts["running"] == account.reserved
        for kind in ("done", "failed", "killed"):
            paid = math.fsum(t.cost[resource] for t in run.history.having(kind))
            assert parts[kind] == pytest.approx(paid)
            assert parts[kind] > 0


@pytest.mark.slow
def test_time_shared_by_workers_is_split_in_proportion():
    run = seen(played(costs=("s",)))
    total = math.fsum(t.cost["s"] for t in run.history)
    half = run.state.ledger["s"].spent - total / 2
    from dataclasses import replace

    account = replace(run.state.ledger["s"], spent=half)
    ledger = replace(run.state.ledger, _accounts=(("s", account),))
    parts = money_of(replace(run.state, ledger=ledger), "s")
    assert parts["done"] == pytest.approx(
        math.fsum(t.cost["s"] for t in run.history.done) * (half - account.overhead) / total
    )
    assert parts["other"] == 0.0


@pytest.mark.slow
def test_the_bars_are_the_parts_of_the_accounts(run):
    (panel,) = money(run.settings, run.state).panels
    for lane, resource in enumerate(panel.y.names):
        parts = money_of(run.state, resource)
        whole = math.fsum(parts.values())
        for layer in panel.layers:
            shares = [
                end - start
                for start, end, y in zip(layer.start, layer.end, layer.y, strict=True)
                if y == lane
            ]
            assert shares == ([pytest.approx(100 * parts[layer.style] / whole)] if shares else [])
        ends = [e for layer in panel.layers for e, y in zip(layer.end, layer.y, strict=True)
                if y == lane]  # fmt: skip
        assert max(ends) == pytest.approx(100)


def test_the_caption_says_that_trials_ran_at_the_same_time():
    run = seen(overlapping())
    own = math.fsum(trial.cost["s"] for trial in run.history)
    caption = money(*run).caption
    assert "each counts with its share of the spending" in caption
    assert f"Their own costs add up to {format_amount('s', own)}." in caption
    assert "at the same time" not in money(*seen(played(4, broken=()))).caption


def test_no_budget_and_no_spending(free):
    assert money(*free).empty == "Nothing has been spent, and the budget has no limit."


# ── comparison ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_studies_are_compared_against_their_cost(minimised, failures):
    other = seen(played(6, broken=()))
    figure = comparison({"a": minimised, "b": other, "c": failures})
    (panel,) = figure.panels
    assert [(line.x, line.y) for line in panel.layers] == [
        curve_of(*minimised).steps(),
        curve_of(*other).steps(),
    ]
    assert panel.layers[0].label.startswith("a: ")
    assert len({line.style for line in panel.layers}) == 2
    assert comparison({"c": failures}).empty
    in_another_resource = seen(played(6, costs=("kWh",)))
    assert len(comparison({"a": minimised, "d": in_another_resource}).panels) == 2


def test_studies_share_the_axis_of_a_resource_that_both_have_spent():
    def study(costs, direction="minimize"):
        limits = dict.fromkeys(costs, 100.0)
        optimizer = Optimizer({"x": Float(0, 1)}, limits, direction=direction, max_cost=costs)
        for k in range(3):
            optimizer.tell(optimizer.ask(), 3.0 - k, cost=costs)
        return seen(optimizer)

    both, one = study({"usd": 2.0, "kWh": 1.0}), study({"kWh": 4.0})
    (panel,) = comparison({"both": both, "one": one}).panels
    assert panel.x.label == "spent (kWh)"
    assert panel.y.label == "value (lower is better)"
    assert [line.x[-1] for line in panel.layers] == [3.0, 12.0]
    empty = seen(Optimizer({"x": Float(0, 1)}))  # which counts neither
    assert comparison({"both": both, "one": one, "empty": empty}).panels == (panel,)
    (alone,) = comparison({"both": both}).panels
    assert alone.x.label == "spent (usd)"
    apart = comparison({"one": one, "best": study({"kWh": 1.0}, direction="maximize")})
    assert [panel.y.label for panel in apart.panels] == [
        "value (lower is better)",
        "value (higher is better)",
    ]
    assert "their own axes" in apart.caption


def test_an_unknown_resource_is_refused_and_the_known_ones_are_named():
    run = seen(Optimizer({"x": Float(0, 1)}, {"usd": 10, "kWh": 5}))
    assert main_resource(*run, "kWh") == "kWh"
    with pytest.raises(InvalidInput, match="Unknown resource 'gold'; the study has usd, kWh, tri"):
        main_resource(*run, "gold")
