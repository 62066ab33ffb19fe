"""Figures in a notebook: each is shown once, whatever the backend of matplotlib."""

import subprocess
import sys

import pytest

from farthing import Float, Optimizer, minimize

SPACE = {"x": Float(0, 1)}
PNG = b"\x89PNG\r\n"
REPRESENTATIONS = ("_repr_html_", "_repr_png_", "_repr_svg_", "_repr_jpeg_", "_repr_mimebundle_")


@pytest.fixture(scope="module")
def result():
    return minimize(lambda params: (params["x"] - 0.3) ** 2, SPACE, n_trials=6)


def shown(thing):
    """The kinds of pictures that a notebook makes of a value, as IPython's formatters do."""
    found = {name: getattr(thing, name, None) for name in REPRESENTATIONS}
    made = {name: method() for name, method in found.items() if callable(method)}
    return {name: data for name, data in made.items() if data is not None}


@pytest.mark.parametrize("name", ["curve", "money", "drivers", "timeline", "prospect", "pareto"])
def test_a_figure_is_one_picture(result, name):
    pictures = shown(getattr(result.plot, name)())
    assert list(pictures) == ["_repr_png_"]
    assert pictures["_repr_png_"].startswith(PNG)


def test_an_empty_figure_is_a_picture_too():
    assert shown(Optimizer(SPACE, "$9").plot.predictions())["_repr_png_"].startswith(PNG)


def test_a_figure_can_still_be_saved_and_changed(result, tmp_path):
    figure = result.plot.curve()
    figure.axes[0].set_title("mine")
    figure.savefig(tmp_path / "curve.pdf")
    assert (tmp_path / "curve.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_pyplot_does_not_show_a_figure_a_second_time():
    code = (
        "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as plt\n"
        "from farthing import Float, minimize\n"
        "figure = minimize(lambda p: p['x'], {'x': Float(0, 1)}, n_trials=2).plot.curve()\n"
        "assert figure._repr_png_() and plt.get_fignums() == []"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_svg_and_text_are_shown_as_they_are(result):
    assert list(shown(result.plot.svg.curve())) == ["_repr_svg_"]
    text, lines = result.plot.text.curve(), []

    class Printer:
        text = staticmethod(lines.append)

    assert shown(text) == {}
    text._repr_pretty_(Printer(), False)
    assert lines == [str(text)]
    assert "\n" in text
    assert text == str(text)


def test_the_real_display_formatter_shows_a_figure_once(result):
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(result.plot.curve())
    assert set(data) == {"text/plain", "image/png"}


def test_an_optimizer_in_a_console_and_in_a_notebook():
    optimizer = Optimizer({"x<b>": Float(0, 1)}, "$9")
    assert repr(optimizer) == "Optimizer(x<b>)\nno trial yet; $0.00 of $9.00 spent; best none yet"
    trial = optimizer.ask()
    optimizer.tell(trial, 0.25, cost=1.0)
    assert repr(optimizer).splitlines()[1].startswith("1 done; $1.00 of $9.00 spent; best 0.25 (tr")
    html = optimizer._repr_html_()
    assert "0.25" in html
    assert "image/svg+xml" in html
    assert "<b>" not in html
