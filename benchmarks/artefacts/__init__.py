"""Every figure and table, in the order of the page."""

from benchmarks.artefacts import carbo, comparison, pareto, realtime, rollout

ARTEFACTS = (
    *comparison.ARTEFACTS,
    *realtime.ARTEFACTS,
    *carbo.ARTEFACTS,
    *pareto.ARTEFACTS,
    *rollout.ARTEFACTS,
)
