"""The predictions at some points, on which scores depend, and their gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.models.gp import Normal

__all__ = ["Outlook", "OutlookSlopes"]

Array = NDArray[np.float64]


class Outlook(NamedTuple):
    """The predictions at m points: everything a score may depend on.

    Attributes:
        mean: posterior mean of the objective, (m, f) with f fantasies; lower is better.
        std: posterior standard deviation of the objective, (m,).
        cost: mean and std of ln c of the scarcest resource, (m,) each.
        log_success: ln P(the evaluation returns a value and meets the constraints), (m,).
        best: the incumbent, (f,); inf if no trial is feasible.
        cap: the most that an evaluation can cost; inf without a budget.
        shortfall: affordable where <= 0, (m,).
    """

    mean: Array
    std: Array
    cost: Normal
    log_success: Array
    best: Array
    cap: float
    shortfall: Array


class OutlookSlopes(NamedTuple):
    """Gradients in the cube, (m, d), of the numbers of an Outlook; d_mean is (m, d, f)."""

    d_mean: Array
    d_std: Array
    d_cost_mean: Array
    d_cost_std: Array
    d_log_success: Array
    d_shortfall: Array
