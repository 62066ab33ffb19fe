"""The renderers: matplotlib, plotly, SVG and terminal plots draw the same numbers."""

import math
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from runs import KINDS, played, seen

from farthing import Categorical, Float, Optimizer
from farthing.errors import InvalidInput
from farthing.view.plots import Plots, svg, terminal, with_matplotlib, with_plotly
from farthing.view.primitives import STYLES, Heat, Line, Points, Segments

REPO = Path(__file__).resolve().parents[2]
CALLS = {
    "curve": (),
    "pareto": (),
    "money": (),
    "predictions": (),
    "prospect": (),
    "drivers": (),
    "slice": ("rate",),
    "timeline": (),
    "learning": (),
}


@pytest.fixture(scope="module")
def plots():
    """Two resources, so that figures have several panels."""
    run = seen(KINDS["two resources"]())
    return Plots(lambda: tuple(run))


@pytest.fixture(scope="module")
def figures(plots):
    """Every figure, computed once."""
    found = [getattr(plots.values, name)(*arguments) for name, arguments in CALLS.items()]
    return [*found, plots.values.slice("rate", "depth")]


@pytest.mark.slow
def test_matplotlib_draws_the_numbers(figures):
    for figure in figures:
        canvas = with_matplotlib.drawn(figure)
        for panel, ax in zip(figure.panels, canvas.axes, strict=False):
            assert ax.get_xlabel() == panel.x.label.replace("$", r"\$")
            assert ax.get_xlim() == pytest.approx((panel.x.low, panel.x.high))
            drawn = [tuple(map(tuple, line.get_data())) for line in ax.get_lines()]
            expected = [(layer.x, layer.y) for layer in panel.layers if isinstance(layer, Line)]
            assert drawn == expected
            dots = [np.asarray(c.get_offsets()).T for c in ax.collections if len(c.get_offsets())]
            for layer in panel.layers:
                if isinstance(layer, Points):
                    assert any(
                        d.shape[1] == len(layer.x) and np.allclose(d, [layer.x, layer.y])
                        for d in dots
                    )


@pytest.mark.slow
def test_plotly_draws_the_numbers(figures):
    for figure in figures:
        canvas = with_plotly.drawn(figure)
        layers = [layer for panel in figure.panels for layer in panel.layers]
        assert len(canvas.data) == len(layers)
        for trace, layer in zip(canvas.data, layers, strict=True):
            if isinstance(layer, Line | Points):
                assert tuple(trace.x) == layer.x
                assert tuple(trace.y) == layer.y
            elif isinstance(layer, Segments) and layer.thick:
                assert tuple(trace.base) == layer.start
            elif isinstance(layer, Segments):
                texts = [text for text in layer.texts for _ in range(3)]  # two ends and a gap
                assert list(trace.hovertext or ()) == texts
                assert len(texts) in (0, len(trace.x))
            elif isinstance(layer, Heat):
                assert len(trace.z) == len(layer.y)


@pytest.mark.slow
def test_svg_contains_the_texts_of_the_figure(figures):
    for figure in figures:
        texts = "".join(ET.fromstring(svg.document(figure)).itertext())
        assert figure.title in texts
        for panel in figure.panels:
            assert panel.x.label in texts
            for layer in panel.layers:
                assert layer.label in texts


@pytest.mark.slow
def test_all_renderers_have_the_same_methods(plots, tmp_path):
    figure = plots.values.money()
    canvas = plots.money()
    canvas.savefig(tmp_path / "money.png")
    assert (tmp_path / "money.png").read_bytes().startswith(b"\x89PNG")
    assert plots.interactive.money().layout.title.text == figure.title
    assert plots.svg.money()._repr_svg_() == svg.document(figure)
    assert plots.text.money() == terminal.drawn(figure)


def test_a_line_is_drawn_at_its_coordinates():
    """In this panel, the line goes from corner to corner of the frame."""
    from farthing.view.primitives import Axis, Figure, Panel

    ticks = ((1.0, "1"), (100.0, "100"))
    axes = Axis("x", 1.0, 100.0, ticks, log=True), Axis("", 0.0, 2.0, ((0.0, "0"),))
    line = Line((1.0, 10.0, 100.0), (0.0, 1.0, 2.0), "before")
    markup = svg.inline(Figure("f", "t", (Panel(*axes, (line,)),), "c"))
    narrow = svg.inline(Figure("f", "t", (Panel(*axes, (line,), title="<a panel>"),), "c"), 420)
    assert re.findall(r'viewBox="0 0 (\d+)', markup + narrow) == ["640", "420"]
    assert "<h4>&lt;a panel&gt;</h4>" in narrow
    (inside,) = re.findall(r'<svg x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', markup)
    width, height = float(inside[2]), float(inside[3])
    (d,) = re.findall(r'<path d="([^"]+)" class="stroke s-before"', markup)
    places = [tuple(map(float, p.split())) for p in re.split("[ML]", d)[1:]]
    assert places[0] == pytest.approx((0, height), abs=1)
    assert places[1] == pytest.approx((width / 2, height / 2), abs=1)
    assert places[2] == pytest.approx((width, 0), abs=1)


def test_marks_far_outside_the_frame_are_left_out():
    """They would make the picture large, and nobody sees them."""
    from farthing.view.primitives import Axis, Figure, Panel

    axes = Axis("x", 0.0, 2.0, ()), Axis("y", 0.0, 2.0, ())

    def paths(*x):
        points = Points(x, (1.0,) * len(x), "before")
        markup = svg.inline(Figure("f", "t", (Panel(*axes, (points,)),), "c"))
        return re.findall(r'<path d="([^"]+)" class="\w+ s-before"', markup)

    assert paths(1.0, 1e9, -1e9) == paths(1.0) != paths(1.0, 1.5)


def test_marks_have_the_given_size():
    """The default size is 1."""
    from farthing.view.primitives import Axis, Figure, Panel

    axes = Axis("x", 0.0, 2.0, ()), Axis("y", 0.0, 2.0, ())

    def drawn(**size):
        points = Points((1.0,), (1.0,), "done", **size)
        return svg.inline(Figure("f", "t", (Panel(*axes, (points,)),), "c"))

    assert drawn() == drawn(size=1.0) != drawn(size=2.0)


@pytest.mark.slow
def test_interactive_marks_grow_with_their_size():
    from farthing.view.primitives import Axis, Figure, Panel

    axes = Axis("x", 0.0, 2.0, ()), Axis("y", 0.0, 2.0, ())
    layers = [Points((1.0,), (1.0,), "done", size=size) for size in (1.0, 2.0)]
    small, large = with_plotly.drawn(Figure("f", "t", (Panel(*axes, layers),), "c")).data
    assert large.marker.size == 2 * small.marker.size


def test_the_mark_of_a_legend_is_in_the_middle_of_its_sample():
    """Samples are 20 wide and 12 high, and the text follows at 25."""
    from farthing.view.primitives import Axis, Figure, Panel

    axes = Axis("x", 0.0, 9.0, ()), Axis("y", 0.0, 9.0, ())
    layers = Points((1.0,), (1.0,), "done", "tried"), Points((2.0,), (2.0,), "killed", "ended")
    drawn = svg.inline(Figure("f", "t", (Panel(*axes, layers),), "c"))
    disc, cross = re.findall(r'<path d="([^"]*)"[^>]*></path><text x="25"', str(drawn))
    assert disc.startswith("M7.0 6.0a3.0")  # 3 to the left of the centre
    assert cross.startswith("M10.0 6.0")


def test_hatches_join_from_tile_to_tile():
    """A line that crosses a tile ends at its edges, where the next tile continues it."""
    sides = ("width", "height")
    patterns = re.findall(r"<pattern.*?</pattern>", svg.hatches())
    assert len(patterns) == len([style for style in STYLES.values() if style.hatch])
    for pattern in patterns:
        (width,), (height,) = (re.findall(rf' {side}="(\d+)"', pattern) for side in sides)
        (d,) = re.findall(r' d="([^"]+)"', pattern)
        for a, b, c, e in re.findall(r"M(\d+) (\d+)L(\d+) (\d+)", d):
            assert {a, c} == {"0", width}
            assert {b, e} == {"0", height}


def test_styles_differ_without_colours():
    together = ("done", "failed", "killed", "lost", "running", "overhead")
    looks = {(STYLES[s].hatch, STYLES[s].marker) for s in together}
    assert len(looks) == len(together)
    lines = ("best", "before", "second", "third", "fourth", "fifth", "sixth", "seventh")
    assert len({STYLES[s].dash for s in lines}) == len(lines)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_have_colours_that_can_be_told_apart(scheme):
    states = ("done", "failed", "killed", "lost", "running")
    hexes = [getattr(STYLES[state], scheme) for state in states]
    colours = [tuple(int(hue[i : i + 2], 16) for i in (1, 3, 5)) for hue in hexes]
    assert min(math.dist(a, b) for a, b in combinations(colours, 2)) > 55  # of 441


@pytest.mark.slow
def test_terminal_plots_show_the_curve_and_the_front(plots):
    for name in ("curve", "pareto", "money", "timeline"):
        text = getattr(plots.text, name)()
        assert max(map(len, text.splitlines()[:-1])) <= 100
        figure = getattr(plots.values, name)()
        assert text.startswith(figure.title)
        assert text.endswith(figure.caption)
    curve = plots.text.curve().splitlines()
    assert sum("\u2800" < char < "\u2900" for line in curve for char in line) > 40
    assert "◆" in plots.text.pareto()
    assert "\N{MULTIPLICATION SIGN}" in "".join(curve)


def test_a_falling_curve_falls_in_a_terminal_plot():
    optimizer = Optimizer({"x": Float(0, 1)}, "$100")
    for value in (4.0, 3.0, 2.0, 1.0):
        optimizer.tell(optimizer.ask(), value, cost=10.0)
    rows = Plots(lambda: tuple(seen(optimizer))).text.curve().splitlines()[1:15]
    columns = {i: max(map(len, rows)) for i in range(3)}
    first = next(row for row in rows if any("\u2800" < c < "\u2900" for c in row))
    last = [row for row in rows if any("\u2800" < c < "\u2900" for c in row)][-1]
    assert len(first) < len(last) <= columns[0]


def test_the_ticks_of_a_terminal_plot_are_below_it_from_left_to_right():
    optimizer = Optimizer({"x": Float(0, 1)}, "$100")
    for value in (4.0, 3.0, 2.0):
        optimizer.tell(optimizer.ask(), value, cost=10.0)
    plots = Plots(lambda: tuple(seen(optimizer)))
    lines = plots.text.curve().splitlines()
    below = lines[next(i for i, line in enumerate(lines) if "└" in line) + 1]
    words = [word for _, word in plots.values.curve().panels[0].x.ticks]
    assert below.split() == " ".join(words).split()
    assert len(words) > 2


HOSTILE = {
    "<script>alert(1)</script>": Float(0, 1),
    "\u202eevil": Categorical(["<img src=x onerror=alert(1)>", "b" * 10_000_000, "$x^$"]),
}


def hostile():
    optimizer = Optimizer(HOSTILE, "$100")
    for k in range(7):
        trial = optimizer.ask()
        if k == 2:
            optimizer.tell(trial, failed="</svg><script>alert(1)</script>", cost=1.0)
        else:
            optimizer.tell(trial, 1.0 / (k + 1), cost=1.0 + k)
    return seen(optimizer)


@pytest.mark.slow
def test_no_data_in_a_study_becomes_markup(tmp_path):
    run = hostile()
    plots = Plots(lambda: tuple(run)).values
    for name in CALLS:
        figure = getattr(plots, name)(*(("\u202eevil",) if name == "slice" else ()))
        text = str(svg.document(figure))
        ET.fromstring(text)
        assert "<script" not in text
        assert "<img" not in text
        assert "\u202e" not in text
        assert len(text) < 200_000
        with_matplotlib.drawn(figure).savefig(tmp_path / "x.png", dpi=30)
        drawn = with_plotly.drawn(figure).to_json()
        assert "<script" not in drawn.replace("\\u003c", "<")
        assert "\u202e" not in terminal.drawn(figure)


@pytest.mark.parametrize(
    ("hidden", "package"), [("matplotlib.figure", "matplotlib"), ("plotly.subplots", "plotly")]
)
def test_a_missing_extra_is_named(monkeypatch, hidden, package):
    monkeypatch.setitem(sys.modules, hidden, None)
    monkeypatch.delitem(sys.modules, "farthing.view.plots.notebook_figure", raising=False)
    plots = Plots(lambda: tuple(seen(played(2))))
    drawn = plots if package == "matplotlib" else plots.interactive
    with pytest.raises(InvalidInput, match=rf"{package}.*pip install 'farthing\[plots\]'"):
        drawn.money()
    assert plots.svg.money()


OPTIONAL = {"matplotlib", "plotly", "starlette", "uvicorn"}


def test_a_plain_install_has_no_plotting_or_server_packages():
    pyproject = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[\[<>=~! ]", each)[0] for each in pyproject["dependencies"]}
    assert names == {
        *("numpy", "scipy", "threadpoolctl", "SQLAlchemy", "cloudpickle", "click", "rich")
    }
    extras = pyproject["optional-dependencies"]
    assert [re.split("[<>=]", each)[0] for each in extras["plots"]] == ["matplotlib", "plotly"]
    assert [re.split("[<>=]", each)[0] for each in extras["dashboard"]] == ["starlette", "uvicorn"]


@pytest.mark.slow
def test_looking_at_a_study_imports_no_optional_package():
    code = (
        "import sys, tempfile, farthing.cli; from farthing import Float, Study;"
        "s = Study.create(tempfile.mkdtemp() + '/s.db', name='s', space={'x': Float(0, 1)});"
        "s.report(), s._repr_html_(), s.plot.svg.money(), s.plot.text.curve(), str(s.summary());"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "farthing" in out.stdout.split()
    assert not OPTIONAL & set(out.stdout.split())
