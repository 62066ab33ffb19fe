"""Axes, safe text, and thinning of many marks."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farthing.view.html import Html, element, text, texts
from farthing.view.primitives import STYLES, Axis, axis, named, thinned, visible, visible_params

finite = st.floats(-1e12, 1e12).filter(lambda v: v == 0 or abs(v) > 1e-9)


@given(st.lists(finite, min_size=1, max_size=20), st.booleans())
def test_an_axis_holds_its_values_and_has_ticks_inside(values, log):
    values = [abs(v) + 1e-9 for v in values] if log else values
    found = axis("x", values, log=log)
    assert found.low <= min(values) <= max(values) <= found.high
    assert found.low < found.high
    assert found.ticks
    places = [place for place, _ in found.ticks]
    assert places == sorted(places)
    slack = 1e-6 * (found.high - found.low)
    assert all(found.low - slack <= place <= found.high + slack for place in places)


@given(st.floats(0.001, 0.999), st.booleans())
def test_place_is_the_inverse_of_share(share, log):
    one = Axis("", 2.0, 50.0, (), log)
    assert one.share(one.place(share)) == pytest.approx(share)
    assert one.share(2.0) == 0.0
    assert one.share(50.0) == pytest.approx(1.0)


def test_ticks_are_formatted_amounts():
    assert [w for _, w in axis("t", (0, 7200), resource="s", zero=True).ticks] == [
        *("0 s", "30 m 00 s", "1 h 00 m", "1 h 30 m", "2 h 00 m")
    ]
    assert [w for _, w in axis("t", (1.61, 1.65), resource="s").ticks] == [
        *("1.61", "1.62", "1.63", "1.64", "1.65")
    ]
    assert "$75.00" in [word for _, word in axis("c", (0, 100), resource="usd").ticks]
    assert axis("n", (0, 3), resource="trials").ticks[-1] == (3.0, "3 trials")
    assert [place for place, _ in axis("x", (1e-5, 0.1), log=True).ticks] == pytest.approx(
        [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    )


@pytest.mark.parametrize("values", [(), (math.nan,), (3.0,), (0.0,), (math.inf, 1.0), (-5.0, -5.0)])
def test_an_axis_of_few_or_no_finite_values(values):
    for log in (False, True, None):
        found = axis("x", values, log=log)
        assert math.isfinite(found.low)
        assert found.low < found.high


def test_an_axis_that_is_too_short_to_be_divided_has_one_tick():
    found = axis("x", (0.0, 5e-324))
    assert [place for place, _ in found.ticks] == [found.low]


def test_orders_of_magnitude_are_shown_on_a_log_scale():
    assert axis("x", (1, 1000), log=None).log
    assert not axis("x", (1, 10), log=None).log
    assert axis("x", (1, 101), log=None).log  # two orders of magnitude
    assert not axis("x", (1, 99), log=None).log
    assert not axis("x", (-1, 1000), log=None).log
    assert axis("x", (0.001, 0.9), log=None).log
    assert not axis("x", (0, 1000), log=None).log


HOSTILE = "<script>alert(1)</script>\u202egnp.exe\x00\ud800&\"'"


def test_invisible_characters_become_escapes_and_long_text_is_cut():
    shown = visible(HOSTILE)
    assert "\\u202e" in shown
    assert "\\x00" in shown
    assert "\\ud800" in shown
    assert shown.isprintable()
    assert visible("é日本") == "é日本"
    assert visible("x" * 10_000_000, 10) == "xxxxxxxxxx… (10,000,000 characters)"
    assert len(visible_params({"a" * 10**6: "b" * 10**6, "c": math.nan})) < 250
    assert visible_params({"a": 0.123456, "b": "x", "c": None}) == "a=0.1235, b=x, c=None"


@given(st.text())
def test_every_text_in_markup_is_escaped(given):
    for made in (text(given), element("p", given), element("p", title=given), texts(given)):
        inside = made.removeprefix("<p>").removesuffix("</p>").removeprefix("<p title=")
        assert "<" not in inside.removesuffix("></p>")
        made.encode()  # no lone surrogate


def test_markup_is_not_escaped_again_and_attributes_are_named():
    inner = element("b", "a & b")
    assert inner == "<b>a &amp; b</b>"
    assert element("p", inner, None, 3, class_="x", data_y=2, hidden=True, id=None, open=False) == (
        '<p class="x" data-y="2" hidden><b>a &amp; b</b>3</p>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert isinstance(inner, Html)
    assert texts("a\n<b>\r\nc" + "d" * 5000, 8) == "a\n&lt;b&gt;\nc… (5,008 characters)"


def test_names_are_at_whole_numbers():
    found = named("worker", ["a", "b" * 100])
    assert found.ticks[0] == (0.0, "a")
    assert found.low < 0
    assert found.high > 1
    assert len(found.names[1]) < 70


def test_thinning_is_even_and_keeps_given_indices():
    assert thinned(5) == [0, 1, 2, 3, 4]
    some = thinned(100_000, keep=[7, 99_998], most=100)
    assert {0, 7, 99_998, 99_999} <= set(some)
    assert len(some) <= 102


def brightness(colour):
    """The relative luminance of WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


# "other", "left" and "rung" are background styles.
@pytest.mark.parametrize("name", sorted(STYLES.keys() - {"other", "left", "rung"}))
def test_colours_have_enough_contrast_on_light_and_dark_pages(name):
    style = STYLES[name]
    for ink, page in ((style.light, "#ffffff"), (style.dark, "#16181b")):
        dark, bright = sorted((brightness(ink), brightness(page)))
        assert (bright + 0.05) / (dark + 0.05) > 4.5  # the WCAG minimum for small text
