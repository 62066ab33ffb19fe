"""What earlier studies know: their trials as points of the present space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Source"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Source:
    """The trials of one earlier study, as points of the present space.

    Attributes:
        name: how messages call it.
        x: (n, d) points of the unit cube; nan in the column of a parameter that the study lacked.
        y: (n,) values to minimise, in the study's own unit; nan if a trial returned none.
        cost: (n,) by resource, in the study's own unit; nan if unknown.
        censored: (n,) whether the cost is only a lower bound, because the trial was killed.
        fingerprint: a hash of the rows, which pins the source.
    """

    name: str
    x: Array
    y: Array
    cost: Mapping[str, Array] = field(default_factory=dict)
    censored: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    fingerprint: str = ""
