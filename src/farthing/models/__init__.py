"""Models: Gaussian processes, regression, and formulas for one normal variable."""
