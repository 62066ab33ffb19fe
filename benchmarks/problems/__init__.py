"""Every problem by name: `family/name`, each kind of family in one file of this folder."""

from __future__ import annotations

from benchmarks.problems import recorded, tables
from benchmarks.problems.problem import Evaluation, Problem

__all__ = ["Evaluation", "Problem", "load"]


def load(name: str, folder: str | None = None) -> Problem:
    """The problem of that name; tables are looked for in the folder."""
    family = name.partition("/")[0]
    if family in tables.CHOSEN:
        return tables.load(name, tables.data_folder(folder))
    if family in recorded.FAMILIES:
        return recorded.load(name)
    known = (*tables.CHOSEN, *recorded.FAMILIES)
    raise KeyError(f"No problem {name!r}: the families are {', '.join(known)}.")
