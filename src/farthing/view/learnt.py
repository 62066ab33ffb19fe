"""What a study learns from earlier studies: its sources, and what its trials have noted of them.

A trial that was suggested with sources has notes (see `models.prior_mean`): `trust`, between 0 and
1, in each source at that time; `from_sources`, by how much each moved the predicted value; and in
the initial design `portfolio`, the share of each in the improvement that was expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.data.tabular import LEARNT
from farthing.history import Trial
from farthing.view.primitives import visible

__all__ = ["Learnt", "learnt_by", "learnt_from", "learnt_line", "trust_over_time"]


class Learnt(NamedTuple):
    """A source of a study.

    Attributes:
        about: which trials and parameters were used, and which were not.
        trials: the number of used trials.
        trust: in the latest suggestion; None if no suggestion has noted it.
    """

    name: str
    about: str
    trials: int
    fingerprint: str
    trust: float | None

    def __str__(self) -> str:
        trust = "" if self.trust is None else f"; trust {self.trust:.2f}"
        return f"{self.name!r} ({visible(self.about, None) or f'{self.trials} trials'}{trust})"


def learnt_from(settings: Settings, state: State) -> tuple[Learnt, ...]:
    """The sources of a study, with the latest trust in each."""
    latest = _numbers(state.history.last_note("trust")) if settings.learn_from else {}
    return tuple(
        Learnt(each.name, each.about, len(each.y), each.fingerprint, latest.get(each.name))
        for each in settings.learn_from
    )


def learnt_line(sources: tuple[Learnt, ...]) -> str:
    """The sources in one line."""
    return "; ".join(map(str, sources))


def learnt_by(trial: Trial) -> dict[str, dict[str, float]]:
    """What a trial has noted of each source: {name: {"trust": 0.8, "from_sources": -0.1}}."""
    noted = {key: _numbers(trial.notes.get(key)) for key in LEARNT}
    names = dict.fromkeys(name for numbers in noted.values() for name in numbers)
    return {name: {k: n[name] for k, n in noted.items() if name in n} for name in names}


def trust_over_time(state: State) -> dict[str, list[tuple[int, float]]]:
    """For each source the trials that have noted the trust in it, and the trust."""
    found: dict[str, list[tuple[int, float]]] = {}
    for trial in state.history:
        for name, trust in _numbers(trial.notes.get("trust")).items():
            found.setdefault(name, []).append((trial.number, trust))
    return found


def _numbers(note: Any) -> dict[str, float]:
    """The finite numbers of a note by name: anyone may have written the database."""
    entries = note.items() if isinstance(note, Mapping) else ()
    return {
        str(name): float(number)
        for name, number in entries
        if isinstance(number, int | float) and math.isfinite(number)
    }
