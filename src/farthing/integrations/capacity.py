"""The number of trials that a cluster can run at the same time."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

__all__ = ["capacity", "warn_if_none"]


def capacity(needs: Mapping[str, float], machines: Iterable[Mapping[str, float]]) -> int:
    """Sum over machines of min over resources of floor(available / needed per trial)."""
    each = (min(has.get(name, 0) // n for name, n in needs.items() if n) for has in machines)
    return int(sum(each))


def warn_if_none(count: int, needs: Mapping[str, float]) -> None:
    """Warn that trials will wait. This is no error, because a machine may still join."""
    if not count:
        needed = ", ".join(f"{name} {need:g}" for name, need in needs.items() if need)
        warnings.warn(
            f"No machine of the cluster has the resources of a trial ({needed}). Trials wait until "
            "one joins, and a budget of wall-clock time is spent meanwhile. Stop the run if none "
            "will join.",
            UserWarning,
            stacklevel=4,
        )
