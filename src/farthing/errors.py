"""The exceptions that Farthing raises."""

from typing import Any

__all__ = [
    "FarthingError",
    "Infrastructure",
    "Interrupted",
    "InvalidInput",
    "MissingExtra",
    "NothingFound",
    "Outdated",
    "Stopped",
    "StorageError",
    "Superseded",
    "Unfit",
    "Unreachable",
]


class FarthingError(Exception):
    """The base class of the exceptions that Farthing raises on purpose."""


class InvalidInput(FarthingError, ValueError):
    """An argument is invalid. The message says what was expected and what to do."""


class MissingExtra(FarthingError, ImportError):
    """An optional library is not installed. The message says how to install it."""

    def __init__(self, extra: str, library: str) -> None:
        message = f"{library} is not installed. Run: pip install 'farthing[{extra}]'"
        ImportError.__init__(self, message, name=extra)


class Stopped(FarthingError):
    """`ask` was called after the study had stopped; `reason` is a `StopReason`."""

    def __init__(self, reason: Any) -> None:
        FarthingError.__init__(self, reason)
        self.reason = reason


class Outdated(FarthingError):
    """A suggestion is outdated because the study has changed. Farthing catches it itself."""


class Infrastructure(FarthingError):
    """Raise it in an objective if the machine failed. Nothing is learnt about the parameters."""


class NothingFound(FarthingError):
    """There is no best trial, because none has returned a value. The message says why."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C killed an evaluation; `finished` says what it had used by then."""

    def __init__(self, finished: Any) -> None:
        self.finished = finished


class Unfit(FarthingError):
    """A worker was excluded because all its trials failed, while those of other workers did not."""


class StorageError(FarthingError):
    """The database cannot be used. The message says why and what to do."""


class Unreachable(StorageError):
    """The database is temporarily unavailable: a restart, a lock or a full disk."""


class Superseded(Unreachable):
    """Another version of Farthing has changed the schema of the database while it was in use."""
