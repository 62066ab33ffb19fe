"""The comparisons and the reruns of the papers."""
