"""Acquisition: beliefs, scores, and the search for the best next evaluation."""
