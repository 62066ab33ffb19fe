"""The few exceptions a user can meet."""

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
    "Unfit",
    "Unreachable",
]


class FarthingError(Exception):
    """Anything Farthing raises on purpose."""


class InvalidInput(FarthingError, ValueError):
    """Something given was wrong; the sentence says what, what was expected, and what to do."""


class MissingExtra(FarthingError, ImportError):
    """A library that only some need is not installed; the sentence says how to get it."""

    def __init__(self, extra: str, library: str) -> None:
        remedy = f"{library} is not installed. Say pip install 'farthing[{extra}]'."
        ImportError.__init__(self, remedy, name=extra)


class Stopped(FarthingError):
    """`ask` was called after a verdict to stop; `reason` is a `StopReason`."""

    def __init__(self, reason: Any) -> None:
        FarthingError.__init__(self, reason)
        self.reason = reason


class Outdated(FarthingError):
    """A thought was about a study that has changed since; another is needed. No user meets it."""


class Infrastructure(FarthingError):
    """Raise it in an objective when the machine failed, not the parameters: nothing is learnt."""


class NothingFound(FarthingError):
    """The best trial was asked for, but none has returned a value; the sentence says why."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during an evaluation, which was killed; `finished` says what it had used by then."""

    def __init__(self, finished: Any) -> None:
        self.finished = finished


class Unfit(FarthingError):
    """A worker was set aside: all its trials failed, while those of others did not."""


class StorageError(FarthingError):
    """The database cannot be used; the sentence says why, and what to do."""


class Unreachable(StorageError):
    """The database cannot be used now, but may be later: a restart, a lock or a full disk."""
