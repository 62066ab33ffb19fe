"""The initial design that earlier studies give: configurations that were good for their cost.

    best_s(k) = min(0, min mu_s over the first k trials here)     0 is the mean of source s
    gain(x)   = sum_s w_s max(best_s - mu_s(x), 0)                in standard deviations
    next      = argmax  gain(x) / c(x)^COST_POWER   over the configurations of the sources

w_s are the shares of the sources in the prior mean, so that a source which misleads loses its say.
c is the predicted cost; before the first cost here, the shape of the sources' costs, whose level
does not matter. A parameter that a source lacks has the value of the first point of the space. The
portfolio ends once no configuration is expected to gain LEAST standard deviations, or once no
source is TRUSTED.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import TRUSTED, Belief
from farthing.acquisition.earlier_costs import cost_shape

__all__ = ["ranked"]

Array = NDArray[np.float64]

COST_POWER = 0.5
LEAST = 0.1


def ranked(belief: Belief, base: Array) -> tuple[Array, Array]:
    """The configurations worth starting with, best first, (m, d), and who expects it, (m, s).

    The second are shares of the expected gain by source of `belief.prior`.

    Args:
        base: (d,) values of parameters that a source lacks.
    """
    space, prior = belief.space, belief.prior
    if prior is None or max(belief.trust.values()) < TRUSTED:
        return np.empty((0, space.d)), np.empty((0, 0))
    kept = [source.x[np.isfinite(source.y)] for source in belief.sources]
    X = space.snap(np.where(np.isnan(x := np.vstack(kept)), base, x))
    share = prior.weights / prior.weights.sum()
    best = prior.parts(belief.history.X.reshape(-1, space.d)).min(axis=0, initial=0.0)
    gains = share * np.maximum(best - prior.parts(X), 0.0)
    gain = gains.sum(axis=1)
    order = np.argsort(-gain / np.exp(COST_POWER * _log_cost(belief, X)), kind="stable")
    order = order[gain[order] >= LEAST]
    return X[order], gains[order] / gain[order, None]


def _log_cost(belief: Belief, X: Array) -> Array:
    """ln c at X, up to a constant."""
    if belief.cost:
        return belief.costs(X)[0].mean
    resources = belief.ledger.limited_resources
    resource = next((r for r in resources if r != "trials"), "")
    shape = cost_shape(belief.sources, resource, belief.space.options) if resource else None
    return np.zeros(len(X)) if shape is None else shape.at(X)
