"""The figures of a study, each from its settings and its state to plain values; one a file."""

from farthing.figures.curve import comparison, curve
from farthing.figures.drivers import drivers
from farthing.figures.front import front_figure
from farthing.figures.learning import learning
from farthing.figures.money import money
from farthing.figures.predictions import predictions
from farthing.figures.prospect import next_buy, prospect
from farthing.figures.slices import slice_figure
from farthing.figures.timeline import timeline

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
