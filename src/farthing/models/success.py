"""The probability that an evaluation returns a value, from a process on +1 (returned) and -1."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from farthing.history import Trial
from farthing.models.gp import GP, FitMemory, Normal, refit
from farthing.models.normal import LOG_SQRT_2PI

__all__ = ["fit_success", "log_success", "log_success_slopes"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

LABEL_VARIANCE = 0.1  # of the labels +1 and -1: at a failed point P(success) is 8e-4, not 0


def fit_success(
    returned: Sequence[Trial],
    missing: Sequence[Trial],
    memory: FitMemory | None,
    *,
    options: Ints,
    seldom: bool,
) -> tuple[GP, FitMemory]:
    """A process on +1 (trials that returned a value) and -1 (those without one), and its memory."""
    without = {trial.number for trial in missing}
    trials = sorted((*returned, *missing), key=attrgetter("number"))
    return refit(
        np.array([trial.x for trial in trials]),
        np.array([-1.0 if trial.number in without else 1.0 for trial in trials]),
        memory,
        options=options,
        noisy=True,
        clip=False,
        seldom=seldom,
    )


def log_success(latent: Normal) -> Array:
    """ln P = ln Phi(mean / sqrt(std^2 + 0.1)): least-squares classification of +1 and -1.

    Rasmussen and Williams 2006, section 6.5; used as the probability of feasibility, as in Gelbart
    et al. 2014.
    """
    return np.asarray(log_ndtr(latent.mean[:, 0] / np.sqrt(latent.std**2 + LABEL_VARIANCE)))


def log_success_slopes(latent: Normal, d_mean: Array, d_std: Array) -> tuple[Array, Array]:
    """`log_success` and its gradient (m, d)."""
    value = log_success(latent)
    spread = np.sqrt(latent.std**2 + LABEL_VARIANCE)
    t = latent.mean[:, 0] / spread
    ratio = np.exp(-0.5 * t * t - LOG_SQRT_2PI - value) / spread
    return value, ratio[:, None] * (d_mean[:, :, 0] - (t * latent.std / spread)[:, None] * d_std)
