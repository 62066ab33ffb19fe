"""Every figure and table, in the order of the page."""

from benchmarks.artefacts import carbo, comparison, cost_models, pareto

ARTEFACTS = (
    *comparison.ARTEFACTS,
    *carbo.ARTEFACTS,
    *pareto.ARTEFACTS,
    *cost_models.ARTEFACTS,
)
