"""Other libraries as methods, through their public interfaces: one file each.

A file of this folder declares

    REQUIREMENTS    what pip installs for it, its own library last
    PEERS           {name: Method of (space, *, budget, seed, evaluations)}

and imports its library only when a peer is made, so that names can be listed where the library is
missing. A peer knows what farthing knows: the parameters with their scales, the budget in units of
cost, and with every value its cost; and besides, `evaluations`: how many uniform configurations the
budget would buy, by which its initial design is sized as its documentation says (`_terms.initial`
where that says nothing). Of a table of rows it asks for any configuration and is told the nearest
free row and what that gave, as ours is (FLAML takes no other configuration than it asked for).
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.methods import Method
    from farthing import Space

LIBRARIES = tuple(m.name for m in iter_modules(__path__) if not m.name.startswith("_"))
NAMES: dict[str, str] = {
    peer: library for library in LIBRARIES for peer in import_module(f"{__name__}.{library}").PEERS
}  # the library of each peer


def make(name: str, space: Space, *, budget: float, seed: int, evaluations: int) -> Method:
    """A peer ready to be asked."""
    if name not in NAMES:
        raise KeyError(f"No method {name!r}: the peers are {', '.join(NAMES)}.")
    peers = import_module(f"{__name__}.{NAMES[name]}").PEERS
    method: Method = peers[name](space, budget=budget, seed=seed, evaluations=evaluations)
    return method
