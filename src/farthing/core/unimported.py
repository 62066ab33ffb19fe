"""A part of a stored study whose code was not imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from farthing.acquisition.protocols import Proposal, Verdict
from farthing.cost import Evidence
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.acquisition.belief import Belief

__all__ = ["UnimportedCode"]


@dataclass(frozen=True)
class UnimportedCode:
    """A policy, stopping rule or cost model that the user wrote, as its stored description.

    It replaces the part, so that a study can be shown without running code from a database.
    Suggesting a trial raises InvalidInput.
    """

    described: Any
    needs: ClassVar[frozenset[str]] = frozenset({"cost"})
    reads: ClassVar[frozenset[str]] = frozenset({"worth"})

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Raise InvalidInput."""
        raise self._not_imported()

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Raise InvalidInput."""
        raise self._not_imported()

    def fit(self, evidence: Evidence) -> None:
        """Return no cost model: nothing is predicted."""

    def _not_imported(self) -> InvalidInput:
        return InvalidInput(
            f"This needs a part of the study that is custom code, {self.described!r}. Farthing "
            "does not import it from the database. Pass the part again: Study.open(url, name, "
            "policy=..., stop=..., cost=...)."
        )
