"""Other libraries as methods, through their public interfaces: one file each.

A file of this folder declares

    REQUIREMENTS    what pip installs for it, its own library last
    PEERS           {name: Method of (space, *, budget, seed, evaluations)}

and imports its library only when a peer is made, so that the names can be listed without the
library. A peer knows what Farthing knows: the parameters with their scales, the budget in units of
cost, and the cost of every value. It also gets `evaluations`, the number of uniform configurations
that the budget would buy. The size of its initial design depends on it as its documentation
recommends, or else as in `_terms.initial`. In a table of rows, a peer suggests any configuration
and gets the nearest free row with its result, as Farthing does. FLAML only accepts the
configuration that it suggested.
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
    """Make a peer."""
    if name not in NAMES:
        raise KeyError(f"No method {name!r}: the peers are {', '.join(NAMES)}.")
    peers = import_module(f"{__name__}.{NAMES[name]}").PEERS
    method: Method = peers[name](space, budget=budget, seed=seed, evaluations=evaluations)
    return method
