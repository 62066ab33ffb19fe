"""Fault injection, fuzzing, mutation tests, licences."""
