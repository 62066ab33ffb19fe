"""Every figure and table, in the order of the page."""

from benchmarks.artefacts import carbo, comparison, pareto

ARTEFACTS = (*comparison.ARTEFACTS, *carbo.ARTEFACTS, *pareto.ARTEFACTS)
