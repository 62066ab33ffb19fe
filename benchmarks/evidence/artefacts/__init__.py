"""Every figure and table, in the order of the page."""

from benchmarks.evidence.artefacts import (
    ablation,
    carbo,
    carbo_batches,
    centre,
    comparison,
    cost_models,
    pareto,
    realtime,
    rollout,
    start_and_overrun,
    stopping,
    unused_tables,
)

ARTEFACTS = (
    *comparison.ARTEFACTS,
    *ablation.ARTEFACTS,
    *unused_tables.ARTEFACTS,
    *start_and_overrun.ARTEFACTS,
    *centre.ARTEFACTS,
    *realtime.ARTEFACTS,
    *carbo.ARTEFACTS,
    *carbo_batches.ARTEFACTS,
    *carbo.SURROGATES,
    *pareto.ARTEFACTS,
    *cost_models.ARTEFACTS,
    *stopping.ARTEFACTS,
    *rollout.ARTEFACTS,
)
