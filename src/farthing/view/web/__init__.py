"""The browser side of pages: scripts, style sheets, and what they are given to show."""

from farthing.view.web import answers
from farthing.view.web.assets import SCRIPTS, SHEET, hash_of, script, source_of
from farthing.view.web.columns import trial_columns
from farthing.view.web.figure_values import figure_values
from farthing.view.web.key_figures import forecast_values, key_figures

__all__ = [
    "SCRIPTS",
    "SHEET",
    "answers",
    "figure_values",
    "forecast_values",
    "hash_of",
    "key_figures",
    "script",
    "source_of",
    "trial_columns",
]
