"""The few exceptions a user can meet."""

from typing import Any

__all__ = [
    "FarthingError",
    "Infrastructure",
    "Interrupted",
    "InvalidInput",
    "Outdated",
    "Stopped",
    "StorageError",
]


class FarthingError(Exception):
    """Anything Farthing raises on purpose."""


class InvalidInput(FarthingError, ValueError):
    """Something given was wrong; the sentence says what, what was expected, and what to do."""


class Stopped(FarthingError):
    """`ask` was called after a verdict to stop; the sentence is the reason."""


class Outdated(FarthingError):
    """A thought was about a study that has changed since; another is needed. No user meets it."""


class Infrastructure(FarthingError):
    """Raise it in an objective when the machine failed, not the parameters: nothing is learnt."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during an evaluation, which was killed; `finished` says what it had used by then."""

    def __init__(self, finished: Any) -> None:
        self.finished = finished


class StorageError(FarthingError):
    """The database cannot be used; the sentence says why, and what to do."""
