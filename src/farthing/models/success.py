"""The probability that an evaluation returns a value, from a process on +1 (returned) and -1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from farthing.models.gp import Normal
from farthing.models.normal import LOG_SQRT_2PI

__all__ = ["log_success", "log_success_slopes"]

Array = NDArray[np.float64]

LABEL_VARIANCE = 0.1  # of the labels +1 and -1: at a failed point P(success) is 8e-4, not 0


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
