"""The probability that an evaluation returns a value, learnt from failed trials.

ln P = ln Phi(mean / sqrt(std^2 + 0.1)): least-squares classification of +1 and -1 (Rasmussen and
Williams 2006, section 6.5; used as the probability of feasibility, as in Gelbart et al. 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from farthing.history import History, TrialState
from farthing.models.gp import GP, FitMemory, Normal, refit
from farthing.models.normal import LOG_SQRT_2PI
from farthing.space.space import Space

__all__ = ["fit_success", "log_success", "log_success_slopes"]

Array = NDArray[np.float64]

LABEL_VARIANCE = 0.1  # of the labels +1 and -1: at a failed point P(success) is 8e-4, not 0


def fit_success(
    space: Space,
    history: History,
    returned: tuple[TrialState, ...],
    memories: dict[str, FitMemory],
    light: bool,
) -> GP | None:
    """A GP on +1 (trials in one of these states) and -1 (failed); None until a trial has failed."""
    trials = history.having(*returned, "failed")
    if not history.having("failed"):
        return None
    labels = np.array([-1.0 if trial.state == "failed" else 1.0 for trial in trials])
    success, memories["success"] = refit(
        history.points(*returned, "failed"),
        labels,
        memories.get("success"),
        options=space.options,
        noisy=True,
        clip=False,
        seldom=light,
    )
    return success


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
