"""The figures of a study, one per file: functions from settings and state to plain values."""

from farthing.view.figures.curve import comparison, curve
from farthing.view.figures.drivers import drivers
from farthing.view.figures.learning import learning
from farthing.view.figures.money import money
from farthing.view.figures.pareto import front_figure
from farthing.view.figures.predictions import predictions
from farthing.view.figures.prospect import next_trial, prospect
from farthing.view.figures.slices import slice_figure
from farthing.view.figures.timeline import timeline
from farthing.view.figures.trust import trust

__all__ = [
    "comparison",
    "curve",
    "drivers",
    "front_figure",
    "learning",
    "money",
    "next_trial",
    "predictions",
    "prospect",
    "slice_figure",
    "timeline",
    "trust",
]
