"""`Steps`: how a training reports its progress, and when the tuner decides about it.

A step is an epoch, a boosting round, a fold, or anything else that grows. A training reports its
value after a step. At some steps, the rungs, the tuner decides whether it continues.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from farthing.errors import InvalidInput
from farthing.history import CurvePoint

__all__ = ["Steps"]

SUSPENDED = 8  # trainings of a worker
_PREFIXES = ("", "k", "m", "g", "t", "p")
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:([kmgtp]?)(i?)b)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Steps:
    """The steps of a training.

    Attributes:
        last: the step at which a training is complete.
        first: the first step at which the tuner decides whether a training continues.
        value: the value of a trial: "best" is the best value of its curve, for a training that
            keeps its best checkpoint; "last" is the value at its last step.
        resume: what resuming a paused training costs: "checkpoint" (nothing, it continues from its
            checkpoint), a number (what restoring the checkpoint costs, in the first resource of the
            budget), "suspend" (its process is stopped and stays in memory, so that only its own
            worker can continue it), or "never" (a paused training is not continued).
        rungs: the steps at which the tuner decides; None: first, 2 first, 4 first, ..., last.
        checkpoints: the most that all checkpoints of a study may need on the disk: "20GB", or a
            number of bytes. Those that are least likely to be resumed are deleted first. A training
            without its checkpoint would start again. None: no limit.
        suspended: with resume="suspend", the most trainings that a worker keeps in memory. Of more,
            the one that is least likely to be continued is ended.
    """

    last: int
    first: int = 1
    value: Literal["best", "last"] = "best"
    resume: Literal["checkpoint", "never", "suspend"] | float = "checkpoint"
    rungs: tuple[int, ...] | None = None
    checkpoints: str | float | None = None
    suspended: int = SUSPENDED

    def __post_init__(self) -> None:
        for name, unit in {"last": "steps", "first": "steps", "suspended": "trainings"}.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(
                    f"Steps({name}={value!r}): expected a whole number of {unit}, at least 1."
                )
        if self.first > self.last:
            raise InvalidInput(
                f"Steps(first={self.first}): expected at most the last step, {self.last}."
            )
        if self.value not in ("best", "last"):
            raise InvalidInput(f"Steps(value={self.value!r}): expected 'best' or 'last'.")
        self._check_resume()
        if self.rungs is not None:
            if isinstance(self.rungs, str | bytes) or not isinstance(self.rungs, Iterable):
                raise InvalidInput(
                    f"Steps(rungs={self.rungs!r}): expected a sequence of steps, such as (1, 3, 9)."
                )
            object.__setattr__(self, "rungs", tuple(self.rungs))
            self._check_rungs()
        if self.checkpoint_bytes is not None and not self.has_checkpoints:
            raise InvalidInput(
                f"Steps(checkpoints={self.checkpoints!r}) has no effect with "
                f'resume="{self.resume}": there are no checkpoints. Leave one of them out.'
            )
        if self.suspended != SUSPENDED and not self.suspends:
            raise InvalidInput(
                f'Steps(suspended={self.suspended!r}) has no effect without resume="suspend". '
                "Leave one of them out."
            )

    def _check_resume(self) -> None:
        resume = self.resume
        is_cost = isinstance(resume, int | float) and not isinstance(resume, bool)
        if resume in ("checkpoint", "never", "suspend") or (
            is_cost and 0 <= float(resume) < math.inf
        ):
            return
        raise InvalidInput(
            f"Steps(resume={resume!r}): expected 'checkpoint', 'suspend', 'never', or what "
            "restoring a checkpoint costs, a number of at least 0."
        )

    def _check_rungs(self) -> None:
        rungs = self.rungs or ()
        whole = all(isinstance(rung, int) and not isinstance(rung, bool) for rung in rungs)
        if not whole or any(a >= b for a, b in zip((0, *rungs), rungs, strict=False)):
            raise InvalidInput(
                f"Steps(rungs={self.rungs!r}): expected ascending whole numbers, such as (1, 3, 9)."
            )
        if rungs and rungs[-1] > self.last:
            raise InvalidInput(
                f"Steps(rungs={self.rungs!r}): expected at most the last step, {self.last}."
            )
        if self.first not in (1, *rungs[:1]):
            raise InvalidInput(
                f"Steps(first={self.first}) has no effect, because rungs={self.rungs!r} begin at "
                "another step. Leave one of them out."
            )

    @classmethod
    def of(cls, steps: Steps | int) -> Steps:
        """Steps as a user writes them: `steps=51` is `Steps(51)`."""
        if isinstance(steps, Sequence) and not isinstance(steps, str | bytes):
            raise InvalidInput(
                f"steps={steps!r}: expected the last step, such as steps=9. To choose the steps at "
                "which the tuner decides, set steps=Steps(9, rungs=(1, 3, 9))."
            )
        return steps if isinstance(steps, Steps) else cls(steps)

    @cached_property
    def decision_steps(self) -> tuple[int, ...]:
        """The rungs in ascending order. The last one is `last`."""
        if self.rungs is not None:
            before = [rung for rung in self.rungs if rung < self.last]
        else:
            doublings = range((self.last // self.first).bit_length())
            before = [self.first << k for k in doublings if self.first << k < self.last]
        return (*before, self.last)

    @cached_property
    def checkpoint_bytes(self) -> float | None:
        """The limit of all checkpoints in bytes; None: no limit."""
        given = self.checkpoints
        if given is None:
            return None
        if isinstance(given, str) and (match := _SIZE.fullmatch(given)) is not None:
            number, prefix, binary = match.groups(default="")
            unit = 1024.0 if binary else 1000.0
            return float(number) * math.pow(unit, _PREFIXES.index(prefix.lower()))
        if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given < math.inf:
            return float(given)
        raise InvalidInput(
            f"Steps(checkpoints={given!r}): expected a size such as '20GB' or '500 MB', or a "
            "number of bytes."
        )

    @property
    def can_resume(self) -> bool:
        """Whether a paused training can continue."""
        return self.resume != "never"

    @property
    def suspends(self) -> bool:
        """Whether the process of a paused training is stopped and kept in memory."""
        return self.resume == "suspend"

    @property
    def has_checkpoints(self) -> bool:
        """Whether a paused training continues from a checkpoint, also in another process."""
        return self.can_resume and not self.suspends

    def next_rung(self, step: int) -> int:
        """The first rung after a step; `last` if there is none."""
        return next((rung for rung in self.decision_steps if rung > step), self.last)

    def value_of(self, curve: tuple[CurvePoint, ...], sign: float) -> float | None:
        """The value of a trial with this curve; None without a report.

        Args:
            sign: +1 to minimise, -1 to maximise.
        """
        if not curve:
            return None
        if self.value == "last":
            return curve[-1].value
        return min((point.value for point in curve), key=lambda value: sign * value)
