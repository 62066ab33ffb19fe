"""The scripts of pages compute the same as the package: amounts, and the axis of the spending."""

import math
import random

import pytest
from runs import overlapping, played, seen

from farthing.budget.units import format_amount
from farthing.view.figures.curve import curve_of
from farthing.view.primitives import axis
from farthing.view.web import key_figures, script, trial_columns

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def page(tab):
    """An empty page with the scripts."""
    opened = tab()
    opened.page.add_script_tag(content=script())
    yield opened.page
    assert opened.errors == []


@pytest.mark.slow
def test_amounts_are_written_alike(page):
    drawn = random.Random(0)
    resources = ("s", "worker_s", "usd", "eur", "trials", "kWh", "cost")
    amounts = [10 ** drawn.uniform(-6, 8) for _ in range(600)] + [0.0, 1.0, 59.96, 3599.6, 100.0]
    pairs = [(drawn.choice(resources), amount) for amount in amounts]
    found = page.evaluate("pairs => pairs.map(([r, a]) => format.amount(r, a))", pairs)
    assert found == [format_amount(resource, amount) for resource, amount in pairs]
    found = page.evaluate("values => values.map(v => format.number(v))", amounts)
    assert found == [f"{amount:.6g}" for amount in amounts]


@pytest.mark.slow
def test_ticks_of_time_are_those_of_the_package(page):
    drawn = random.Random(0)
    ranges = [(0.0, 10 ** drawn.uniform(0.8, 7)) for _ in range(200)]
    ranges += [(low, 1.7 * low + 9) for _, low in ranges[:50]]
    axes = [axis("", ends, resource="s") for ends in ranges]
    found = page.evaluate(
        "all => all.map(([low, high]) => chart.ticks(low, high, false, 5, true))",
        [[each.low, each.high] for each in axes],
    )
    assert found == [pytest.approx([value for value, _ in each.ticks]) for each in axes]


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: played(14),
        lambda: played(12, sign=-1.0, direction="maximize"),
        lambda: overlapping(),
        lambda: played(6, costs=("usd", "kWh")),
    ],
    ids=["minimize", "maximize", "two workers", "two resources"],
)
def test_the_main_chart_is_the_curve_of_the_package(page, optimizer):
    settings, state = seen(optimizer())
    for resource in (key_figures(settings, state)["resource"], "trials"):
        expected = curve_of(settings, state, resource)
        drawn = page.evaluate(
            """([facts, answer, resource]) => {
                const trials = new Trials();
                trials.merge(answer);
                return curve.panel(trials, facts, resource).layers;
            }""",
            [
                key_figures(settings, state),
                trial_columns(settings, state, range(len(state.history))),
                resource,
            ],
        )
        (line,) = [layer for layer in drawn if layer["kind"] == "line"]
        assert (line["x"], line["y"]) == tuple(map(pytest.approx, map(list, expected.steps())))
        ends = {
            row: x
            for layer in drawn
            if layer["kind"] == "points"
            for row, x in zip(layer["rows"], layer["x"], strict=True)
        }
        assert ends == pytest.approx({each.trial.number: each.end for each in expected.intervals})
        assert math.isclose(max(ends.values()), expected.spent)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3]),
        ("value<2", [0, 1]),
        ("value>=1 value<=2", [1, 2]),
        ("kind=a", [0, 3]),
        ("kind!=a", [1, 2]),
        ('"two words">5', [2, 3]),
        ("b", [1]),
        ("-b", [0, 2, 3]),
        ("2", [2]),
        ("value=", [3]),
        ('kind="c d"', [2]),
        ("KIND=a", [0, 3]),
    ],
)
def test_filters(page, text, rows):
    columns = {
        "value": [0, 1, 2, None],
        "kind": ["a", "b", "c d", "a"],
        "two words": [1, 5, 6, 7],
    }
    found = page.evaluate(
        """([text, columns]) => {
            const terms = filter.parse(text, Object.keys(columns));
            return filter.rows(terms, 4, key => columns[key], [columns.kind]);
        }""",
        [text, columns],
    )
    assert found == rows


@pytest.mark.slow
def test_bounds_of_a_column_replace_those_before(page):
    between = "([text, key, bounds]) => filter.between(text, ['value', 'two words'], key, bounds)"
    once = page.evaluate(between, ["adam", "two words", [1, 2]])
    assert once == 'adam "two words">=1 "two words"<=2'
    assert page.evaluate(between, [once, "two words", [3, 4.25]]) == (
        'adam "two words">=3 "two words"<=4.25'
    )
    assert page.evaluate(between, [once, "two words", None]) == "adam"
