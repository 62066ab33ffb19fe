"""A matplotlib figure that a notebook displays without `%matplotlib inline`."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

__all__ = ["NotebookFigure"]

DPI = 110  # of the picture in a notebook


class NotebookFigure(Figure):
    """A figure with a PNG representation.

    pyplot does not know it, so that a notebook shows it once, as the value of its cell, whatever
    the backend.
    """

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=DPI)
        return picture.getvalue()

    def _repr_html_(self) -> None:
        """No HTML: that of matplotlib depends on the backend."""
