"""Every figure and table, in the order of the page."""

from benchmarks.artefacts import (
    carbo,
    comparison,
    cost_models,
    pareto,
    realtime,
    rollout,
    stopping,
)

ARTEFACTS = (
    *comparison.ARTEFACTS,
    *realtime.ARTEFACTS,
    *carbo.ARTEFACTS,
    *pareto.ARTEFACTS,
    *cost_models.ARTEFACTS,
    *stopping.ARTEFACTS,
    *rollout.ARTEFACTS,
)
