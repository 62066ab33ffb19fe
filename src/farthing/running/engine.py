"""The interface between a worker and the engine that evaluates its trials."""

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

__all__ = ["Allowance", "Engine", "Job", "Part"]


@dataclass(frozen=True)
class Part:
    """The part of a training that a job runs.

    Attributes:
        step: the step at which the training was paused; 0 for a new one.
        until: the step at which the tuner decides next.
        last: the step at which the training is complete.
        checkpoint: the folder for the checkpoint of the trial, which exists; None if a paused
            training is never resumed.
        resources: those in which its cost counts; empty if it need not report a cost.
    """

    step: int
    until: int
    last: int
    checkpoint: Path | None = None
    resources: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that describe the part."""
        folder = {} if self.checkpoint is None else {"FARTHING_CHECKPOINT": str(self.checkpoint)}
        return {"FARTHING_STEP": str(self.step), "FARTHING_UNTIL": str(self.until), **folder}


@dataclass(frozen=True)
class Job:
    """What an engine needs to know about a trial.

    Attributes:
        params: the configuration.
        number: number of the trial.
        seed: random seed for the evaluation.
        slot: the resource that it may use, such as the number of a GPU; None for none.
        env: environment variables for the evaluation; `{slot}` is replaced.
        cwd: working directory; None for the current one.
        log: file for the output of the evaluation; None to keep only the last lines.
        part: the part of a training; None if trials are evaluated as a whole.
        journal: the file for what the evaluation reports (see `journal`); None for no file.
    """

    params: Mapping[str, Any]
    number: int
    seed: int
    slot: str | None = None
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    log: Path | None = None
    part: Part | None = None
    journal: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables of `env`, and those that describe the trial."""
        slot = {} if self.slot is None else {"FARTHING_SLOT": self.slot}
        own = {
            name: text.replace("{slot}", self.slot or "") for name, text in (self.env or {}).items()
        }
        return {
            **own,
            **slot,
            "FARTHING_PARAMS": json.dumps(dict(self.params), default=plain),
            "FARTHING_TRIAL": str(self.number),
            "FARTHING_SEED": str(self.seed),
            **({} if self.part is None else self.part.environment),
        }


@dataclass(frozen=True)
class Allowance:
    """The limits of an evaluation, and the callbacks for its progress.

    Attributes:
        tick: seconds between two calls of `may_go_on`.
        may_go_on: called with the usage so far; returns None, or why the evaluation must end now.
            The engine reads no output during the call.
        on_report: called with each progress message and the usage at that time. At the steps at
            which the tuner decides, it returns the answer to the training: "continue UNTIL",
            "pause", "suspend" or "stop"; at all others None.
        until: returns the deadline as a monotonic time. It holds even if `may_go_on` cannot be
            called. The engine reads it at the start and after each `may_go_on`.
    """

    tick: float
    may_go_on: Callable[[Usage], str | None]
    on_report: Callable[[Mapping[str, Any], Usage], str | None] | None = None
    until: Callable[[], float] = lambda: math.inf

    def __post_init__(self) -> None:
        if not 0 < self.tick < math.inf:
            raise InvalidInput(f"tick={self.tick!r}: expected a positive number of seconds.")


class Engine(Protocol):
    """Evaluates trials: `InProcess`, `ProcessGroup`, or the engine of a `Cluster`."""

    @property
    def kills(self) -> bool:
        """Whether it can kill a trial. If not, it never calls `Allowance.may_go_on`."""

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial. All its processes have ended when this returns or raises.

        A trial that `may_go_on` ends has the state "killed", even if it still prints a result. The
        first line of its error is the reason. Exceptions of `may_go_on` and `on_report` are raised.

        Raises:
            InvalidInput: no trial of this kind can run here; nothing was evaluated.
            Interrupted: Ctrl-C; `.finished` has the state and the usage of the trial.
        """


def plain(value: Any) -> Any:
    """The Python value of a NumPy scalar; any other object as text, for JSON."""
    return value.item() if hasattr(value, "item") else str(value)
