"""The scripts and the style sheet of pages, from the files beside this one.

The scripts are plain files without a build step: each defines one name, and the page loads them in
the order of `SCRIPTS`. `vendor/` has uPlot 1.6.32 (MIT licence) as npm distributes it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from farthing.view.primitives import STYLES

__all__ = ["CARD_SCRIPTS", "SCRIPTS", "SHEET", "hash_of", "script", "source_of"]

# In the order in which a page loads them: each uses only names of those before it.
SCRIPTS = (
    "vendor/uPlot.iife.min.js",
    "elements.js",
    "format.js",
    "chart.js",
    "figure.js",
    "trials.js",
    "filter.js",
    "curve.js",
    "table.js",
    "parallel.js",
    "trial.js",
    "head.js",
    "tabs.js",
    "study.js",
    "studies.js",
    "embedded.js",
    "live.js",
)

# The directions of the lines of a hatch, in degrees as CSS counts them.
ANGLES = {"/": "135", "\\": "45", "x": "135 45", ".": "90"}

# Those of a study in a notebook, where each output contains them.
CARD_SCRIPTS = (
    "vendor/uPlot.iife.min.js",
    "elements.js",
    "format.js",
    "chart.js",
    "figure.js",
    "trials.js",
    "curve.js",
    "trial.js",
    "head.js",
    "card.js",
)


def source_of(name: str) -> str:
    """The text of a file beside this one, such as `chart.js`."""
    return files("farthing.view.web").joinpath(*name.split("/")).read_text("utf-8")


def script(names: Sequence[str] = SCRIPTS) -> str:
    """Some scripts as one."""
    return "\n".join(source_of(name) for name in names)


def hash_of(text: str) -> str:
    """The hash of a script or style sheet, as a content security policy names it."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _hatch(hatch: str) -> str:
    """Lines over a colour, as a CSS background."""
    lines = "transparent 0 3px,var(--hatch) 3px 4.5px"
    angles = ANGLES[hatch].split()
    return ",".join(f"repeating-linear-gradient({angle}deg,{lines})" for angle in angles)


def _styles() -> str:
    """The styles of layers as CSS variables: `--failed`, `--failed-mark`, `--failed-dash`.

    An area can also have lines: `--failed-lines` are their directions, `--failed-hatch` is a
    background.
    """

    def looks(dark: bool) -> str:
        return "".join(
            f"--{name}:{style.dark if dark else style.light};" for name, style in STYLES.items()
        )

    shapes = "".join(
        f'--{name}-mark:"{style.marker}";--{name}-dash:"{" ".join(map(str, style.dash))}";'
        for name, style in STYLES.items()
    )
    shapes += "".join(
        f'--{name}-lines:"{ANGLES[style.hatch]}";--{name}-hatch:{_hatch(style.hatch)};'
        for name, style in STYLES.items()
        if style.hatch
    )
    dark = f"@media (prefers-color-scheme:dark){{:root{{{looks(True)}}}}}"
    return f":root{{{looks(False)}{shapes}}}\n{dark}\n"


SHEET = source_of("vendor/uPlot.min.css") + "\n" + _styles() + source_of("style.css")
