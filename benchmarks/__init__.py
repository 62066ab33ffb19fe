"""Benchmarks: the problems, and one command per table (see README.md in this folder)."""
