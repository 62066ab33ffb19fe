"""The kinds and origins that the sentences of older versions stand for.

Version 0.1.0, and 0.2.0 at first, stored sentences only. These are their sentences, so nothing is
ever added here. Current sentences are free to change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from farthing.history import Origin, StopKind, origin_of

__all__ = ["kind_of_old", "origin_of_old"]

STOPS: Mapping[str, StopKind] = {
    r"the budget (of .+ )?is spent": "budget_spent",
    r"nothing affordable is left": "unaffordable",
    r"every (configuration of the space|row of the table) was tried": "all_tried",
    r"a stop was requested": "requested",
    r"interrupted from the keyboard$": "interrupted",
    r"ended by SIGTERM$": "terminated",
    r"the process that started it is gone$": "orphaned",
    r"(a trial|\d+ trials in a row) failed[:;]": "too_many_failures",
    r"trial \d+ did not say what it cost": "cost_missing",
    r"\d+ trials in a row cost nothing": "all_free",
    r"its first trials all failed; others may do better$": "worker_suspect",
}
IMPORTED = "evaluated elsewhere"
RETRY = re.compile(r"trial \d+ again, which was lost")


def kind_of_old(sentence: str) -> StopKind:
    """The kind of a stop. All other sentences come from stopping rules."""
    found = (kind for pattern, kind in STOPS.items() if re.match(pattern, sentence))
    return next(found, "rule")


def origin_of_old(because: str, notes: Mapping[str, Any]) -> Origin:
    """The origin of a trial, from the sentence why it was suggested and from its notes."""
    if because == IMPORTED:
        return "imported"
    return "retry" if RETRY.fullmatch(because) else origin_of(notes)
