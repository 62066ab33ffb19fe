"""The figures of a study, each from its settings and its state to plain values; one a file."""

from farthing.view.figures.curve import comparison, curve
from farthing.view.figures.drivers import drivers
from farthing.view.figures.learning import learning
from farthing.view.figures.money import money
from farthing.view.figures.pareto import front_figure
from farthing.view.figures.predictions import predictions
from farthing.view.figures.prospect import next_buy, prospect
from farthing.view.figures.slices import slice_figure
from farthing.view.figures.timeline import timeline

__all__ = [
    "comparison",
    "curve",
    "drivers",
    "front_figure",
    "learning",
    "money",
    "next_buy",
    "predictions",
    "prospect",
    "slice_figure",
    "timeline",
]
