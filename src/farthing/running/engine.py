"""The seam between a run and the place where its trials are evaluated."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from farthing.errors import InvalidInput
from farthing.running.finished import Finished, Usage

__all__ = ["Allowance", "Engine", "Job"]


@dataclass(frozen=True)
class Job:
    """What an engine is told of a trial.

    Attributes:
        params: the configuration.
        number: of the trial.
        seed: for the evaluation's own randomness.
        slot: the place where it runs, such as the number of a GPU; None: it has none.
        env: variables it is given; `{slot}` in one of them is replaced.
        cwd: the folder where it runs; None: this one.
        log: the file that keeps what it prints; None: only the last lines are kept.
    """

    params: Mapping[str, Any]
    number: int
    seed: int
    slot: str | None = None
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    log: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that are its own, and those that tell an evaluation who it is."""
        slot = {} if self.slot is None else {"FARTHING_SLOT": self.slot}
        given = {
            name: text.replace("{slot}", self.slot or "") for name, text in (self.env or {}).items()
        }
        return {
            **given,
            **slot,
            "FARTHING_PARAMS": json.dumps(dict(self.params), default=plain),
            "FARTHING_TRIAL": str(self.number),
            "FARTHING_SEED": str(self.seed),
        }


@dataclass(frozen=True)
class Allowance:
    """How far an evaluation may go, and who wants to hear of it.

    Attributes:
        tick: seconds between two questions.
        may_go_on: given what it has used, None, or why it must end now. Nothing is read meanwhile.
        on_report: called with each progress message and what had been used by then.
        until: by the monotonic clock, when it has to end though nobody could ask; read at the start
            and after each question.
    """

    tick: float
    may_go_on: Callable[[Usage], str | None]
    on_report: Callable[[Mapping[str, Any], Usage], None] | None = None
    until: Callable[[], float] = lambda: math.inf

    def __post_init__(self) -> None:
        if not 0 < self.tick < math.inf:
            raise InvalidInput(f"tick={self.tick!r}: expected seconds above 0.")


class Engine(Protocol):
    """Where trials are evaluated: `InProcess` or `ProcessGroup`."""

    @property
    def kills(self) -> bool:
        """Whether it can end a trial that may not go on; if not, it never asks."""

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial; nothing of it runs any more when this returns or raises.

        One that was told to end is killed, whatever it still says, and the reason it was given is
        the first line of its error. What `may_go_on` and `on_report` raise is raised here.

        Raises:
            InvalidInput: no trial of this kind can ever run here; nothing was evaluated.
            Interrupted: Ctrl-C; `.finished` says what became of the trial and what it had used.
        """


def plain(value: Any) -> Any:
    """The Python value of a NumPy scalar; whatever else JSON does not know, as text."""
    return value.item() if hasattr(value, "item") else str(value)
