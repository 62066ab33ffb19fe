"""Every figure and table, in the order of the page."""

from benchmarks.evidence.artefacts import (
    carbo,
    carbo_batches,
    comparison,
    cost_models,
    first_euro,
    pareto,
    realtime,
    rollout,
    stopping,
)

ARTEFACTS = (
    *comparison.ARTEFACTS,
    *first_euro.ARTEFACTS,
    *realtime.ARTEFACTS,
    *carbo.ARTEFACTS,
    *carbo_batches.ARTEFACTS,
    *carbo.SURROGATES,
    *pareto.ARTEFACTS,
    *cost_models.ARTEFACTS,
    *stopping.ARTEFACTS,
    *rollout.ARTEFACTS,
)
