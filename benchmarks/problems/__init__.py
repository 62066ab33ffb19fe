"""Every problem by name: `family/name`, each kind of family in one file of this folder."""

from __future__ import annotations

from benchmarks.problems import lookahead, recorded, synthetic_priced, tables
from benchmarks.problems.problem import Evaluation, Problem

__all__ = ["Evaluation", "Problem", "load"]

# Files whose problems need no folder; each has FAMILIES and load(name). Add yours here.
WITHOUT_FOLDER = (recorded, synthetic_priced)


def load(name: str, folder: str | None = None, *, seed: int = 0) -> Problem:
    """The problem with this name; `folder` has the tables, `seed` says where a moved one is."""
    family = name.partition("/")[0]
    if family == "moved":
        return synthetic_priced.load(name, seed)
    if family in tables.CHOSEN:
        return tables.load(name, tables.data_folder(folder))
    if family in lookahead.FAMILIES:
        return lookahead.load(name, folder)
    for kind in WITHOUT_FOLDER:
        if family in kind.FAMILIES:
            return kind.load(name)
    known = (*tables.CHOSEN, *lookahead.FAMILIES)
    known = (*known, *(family for kind in WITHOUT_FOLDER for family in kind.FAMILIES))
    raise KeyError(f"Unknown problem {name!r}. The families are {', '.join(known)}.")
