"""The points of a learning curve that a part of a training has reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farthing.core.settings import Settings
from farthing.history import CurvePoint
from farthing.running.remote_part import step_and_value
from farthing.steps import Steps

__all__ = ["Curve", "point_of"]

MAX_POINTS = 2000  # of the curve of one part


class Curve:
    """The points that a part of a training has reported.

    All of them, up to MAX_POINTS; of more, the rungs, the best one, the last one, and every k-th.
    """

    def __init__(self, steps: Steps | None) -> None:
        self.points = list[CurvePoint]()
        self._rungs = frozenset() if steps is None else frozenset(steps.decision_steps)

    def add(self, point: CurvePoint) -> None:
        """Append a point, if its step is later than the last one."""
        if self.points and point.step <= self.points[-1].step:
            return
        self.points.append(point)
        if len(self.points) > MAX_POINTS:
            values = [each.value for each in self.points]
            kept = {values.index(min(values)), values.index(max(values)), len(values) - 1}
            self.points = [
                each
                for i, each in enumerate(self.points)
                if i % 2 == 0 or i in kept or each.step in self._rungs
            ]


def point_of(
    settings: Settings, message: Mapping[str, Any], cost: Mapping[str, float]
) -> CurvePoint | None:
    """The point of a curve in a progress message; None if it has no whole step or no value."""
    assert settings.steps is not None
    found = step_and_value(message, settings.metric, settings.steps.last)
    return None if found is None else CurvePoint(*found, cost)
