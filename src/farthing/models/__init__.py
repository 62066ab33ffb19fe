"""Models: Gaussian processes, regression, and the formulas of one normal variable."""
