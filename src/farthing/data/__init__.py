"""Trials as rows: data frames, CSV, JSON, and the import of external evaluations."""
