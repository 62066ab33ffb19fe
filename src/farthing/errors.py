"""The few exceptions a user can meet."""

__all__ = ["FarthingError", "InvalidInput", "Stopped"]


class FarthingError(Exception):
    """Anything Farthing raises on purpose."""


class InvalidInput(FarthingError, ValueError):
    """Something given was wrong; the sentence says what, what was expected, and what to do."""


class Stopped(FarthingError):
    """`ask` was called after a verdict to stop; the sentence is the reason."""
