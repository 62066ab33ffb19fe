"""Figures to look at: `study.plot.pareto(12)` with matplotlib, with plotly, as SVG, in letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.view import figures
from farthing.view.plots import svg, terminal, with_matplotlib, with_plotly
from farthing.view.primitives import Figure

__all__ = ["Plots", "svg", "terminal"]


class Svg(str):
    """A figure that a notebook shows, and that can be written to a file as it is."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Plots:
    """The figures of a study as it is when one is asked for.

    study.plot.curve()                   a matplotlib Figure; .savefig("curve.pdf")
    study.plot.interactive.pareto(12)     a plotly Figure, to zoom and point
    study.plot.svg.money()               SVG, for which nothing needs to be installed
    print(study.plot.text.curve())       letters, for a terminal
    """

    look: Callable[[], tuple[Settings, State]]
    draw: Callable[[Figure], Any] = with_matplotlib.drawn

    # ── what draws ─────────────────────────────────────────────────────────────────────────

    @property
    def interactive(self) -> Plots:
        """The same by plotly."""
        return replace(self, draw=with_plotly.drawn)

    @property
    def svg(self) -> Plots:
        """The same as SVG."""
        return replace(self, draw=lambda figure: Svg(svg.document(figure)))

    @property
    def text(self) -> Plots:
        """The same as text."""
        return replace(self, draw=terminal.drawn)

    @property
    def values(self) -> Plots:
        """The same as plain values, which whatever else may draw."""
        return replace(self, draw=lambda figure: figure)

    # ── what is drawn ──────────────────────────────────────────────────────────────────────

    def curve(self, resource: str | None = None) -> Any:
        """Best value against cumulative cost, every trial a bar as long as its cost."""
        return self.draw(figures.curve(*self.look(), resource))

    def pareto(self, number: int | None = None) -> Any:
        """Expected improvement against cost when a trial was chosen; by default the last."""
        return self.draw(figures.front_figure(*self.look(), number))

    def money(self) -> Any:
        """Where the money went: useful, failed, killed, lost, thinking, held, left."""
        return self.draw(figures.money(*self.look()))

    def predictions(self) -> Any:
        """Predicted against paid, each bill by the others, with the middle 80 %."""
        return self.draw(figures.predictions(*self.look()))

    def prospect(self) -> Any:
        """Expected improvement against its worth, and the stopping rule, over what was spent."""
        return self.draw(figures.prospect(*self.look()))

    def drivers(self) -> Any:
        """What drives the value and what drives the cost, with its uncertainty."""
        return self.draw(figures.drivers(*self.look()))

    def slice(self, *names: str) -> Any:
        """Value and cost along one parameter or over two, the others as in the best trial."""
        return self.draw(figures.slice_figure(*self.look(), *names))

    def timeline(self) -> Any:
        """Which worker evaluated what, and when."""
        return self.draw(figures.timeline(*self.look()))

    def learning(self, *, steps: bool = False) -> Any:
        """What trials reported on their way, against what they had cost, or their steps."""
        return self.draw(figures.learning(*self.look(), steps=steps))
