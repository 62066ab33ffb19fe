"""How many trials fit on the machines of a cluster at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

__all__ = ["places", "warn_if_none"]


def places(needs: Mapping[str, float], machines: Iterable[Mapping[str, float]]) -> int:
    """Sum over machines of min over resources of floor(what it has / what a trial takes)."""
    each = (min(has.get(name, 0) // n for name, n in needs.items() if n) for has in machines)
    return int(sum(each))


def warn_if_none(found: int, needs: Mapping[str, float]) -> None:
    """Say that trials will wait: a machine may join yet, so it is no error."""
    if not found:
        takes = ", ".join(f"{name} {need:g}" for name, need in needs.items() if need)
        warnings.warn(
            f"No machine of the cluster has what a trial takes ({takes}): trials wait until one "
            "joins, and a budget of wall time goes on. End the run if none will.",
            UserWarning,
            stacklevel=4,
        )
