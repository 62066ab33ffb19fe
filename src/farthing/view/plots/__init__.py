"""Rendered figures, `study.plot.pareto(12)`: by matplotlib or plotly, as SVG or terminal plots."""

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
    """SVG text, which a notebook displays and which can be written to a file."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


class Text(str):
    """A terminal plot, which a notebook displays line by line."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


@dataclass(frozen=True)
class Plots:
    """The figures of a study, an optimizer or a result, as it is when it is drawn.

    study.plot.curve()                   a matplotlib Figure; .savefig("curve.pdf")
    study.plot.interactive.pareto(12)    a plotly Figure, with zoom and hover
    study.plot.svg.money()               SVG, which needs no extra package
    print(study.plot.text.curve())       a terminal plot
    """

    look: Callable[[], tuple[Settings, State]]
    draw: Callable[[Figure], Any] = with_matplotlib.drawn

    # ── renderers ──────────────────────────────────────────────────────────────────────────

    @property
    def interactive(self) -> Plots:
        """The same figures, as plotly figures."""
        return replace(self, draw=with_plotly.drawn)

    @property
    def svg(self) -> Plots:
        """The same figures, as SVG."""
        return replace(self, draw=lambda figure: Svg(svg.document(figure)))

    @property
    def text(self) -> Plots:
        """The same figures, as terminal plots."""
        return replace(self, draw=lambda figure: Text(terminal.drawn(figure)))

    @property
    def values(self) -> Plots:
        """The same figures as plain values, for your own plots."""
        return replace(self, draw=lambda figure: figure)

    # ── figures ────────────────────────────────────────────────────────────────────────────

    def curve(self, resource: str | None = None) -> Any:
        """Best value against spending; each trial is a bar as long as its share of it."""
        return self.draw(figures.curve(*self.look(), resource))

    def pareto(self, number: int | None = None) -> Any:
        """Expected improvement against cost when a trial was suggested; by default the last."""
        return self.draw(figures.front_figure(*self.look(), number))

    def money(self) -> Any:
        """Where the budget went: trials by state, overhead, what is reserved and what is left."""
        return self.draw(figures.money(*self.look()))

    def predictions(self) -> Any:
        """Predicted against actual cost, each predicted from the others, with 80 % intervals."""
        return self.draw(figures.predictions(*self.look()))

    def prospect(self) -> Any:
        """Expected improvement per cost, the exchange rate and the stopping rule, against cost."""
        return self.draw(figures.prospect(*self.look()))

    def drivers(self) -> Any:
        """The effect of each parameter on the value and on the cost, with standard errors."""
        return self.draw(figures.drivers(*self.look()))

    def slice(self, *names: str) -> Any:
        """Value and cost along one parameter or over two; the others are as in the best trial."""
        return self.draw(figures.slice_figure(*self.look(), *names))

    def timeline(self) -> Any:
        """Which worker ran which trial, and when."""
        return self.draw(figures.timeline(*self.look()))

    def trust(self) -> Any:
        """The trust in each earlier study of `learn_from` when each trial was suggested."""
        return self.draw(figures.trust(*self.look()))

    def learning(self, *, steps: bool | None = None) -> Any:
        """Values that trials reported while running, against their steps or their cost.

        By default against the steps if the study has `steps`.
        """
        return self.draw(figures.learning(*self.look(), steps=steps))
