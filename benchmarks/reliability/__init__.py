"""Fault injection, fuzzing, mutants, licences."""
