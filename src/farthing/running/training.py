"""A training that reports its progress: what its objective gets, and how the tuner answers.

    def train(params, trial):
        model = load(trial.checkpoint) if trial.step else new(params)
        for step in range(model.step + 1, 51):
            model.train_one_epoch()
            if trial.report(step, model.loss()) != "continue":
                model.save(trial.checkpoint)
                return

At the steps at which the tuner decides, `report` waits for its answer. In another process, the
answers come through a named pipe; a program reads them from the file FARTHING_CONTINUE.
"""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from farthing.errors import InvalidInput
from farthing.running.engine import Job
from farthing.running.journal import append, with_usage
from farthing.running.output import costs_of
from farthing.running.reporting import plain_cost, report_progress
from farthing.steps import Steps

__all__ = [
    "Answers",
    "Decision",
    "Training",
    "answer_file",
    "check_steps",
    "continue_file",
    "receiver",
    "takes_training",
]

Decision = Literal["continue", "pause", "stop"]
ANSWERS, CONTINUE = "answers", "continue"  # names of files in the folder of the evaluation


class Training:
    """The second argument of an objective: one part of a training.

    Attributes:
        number: the number of the trial.
        seed: random seed for the training.
        step: the step at which it was paused; 0 for a new training.
        until: the step at which the tuner decides next.
        last: the step at which the training is complete.
        checkpoint: a folder of this trial, which exists and keeps its files between the parts; None
            if a paused training is never resumed.
        reported: the value that it reported last.
        is_paused: whether the tuner told it to end before its last step.
    """

    def __init__(self, job: Job, receive: Callable[[], str]) -> None:
        assert job.part is not None
        self.number, self.seed = job.number, job.seed
        self.step, self.until, self.last = job.part.step, job.part.until, job.part.last
        self.checkpoint = job.part.checkpoint
        self._receive = receive
        self._journal = job.journal
        self._resources = job.part.resources
        self._began = time.monotonic(), time.process_time()
        self._waited = 0.0  # seconds for answers
        self._decision: Decision = "continue"
        self.reported: float | None = None
        self.is_paused = False

    def report(
        self, step: int, value: float, *, cost: float | Mapping[str, float] | None = None
    ) -> Decision:
        """Report the value of the objective after a step.

        A step that is not later than the one reported before, or later than the last one, adds
        nothing to the curve.

        Args:
            cost: the cost since the start of this part, if it is not a time: a number, or
                {resource: amount}.

        Returns:
            "continue"; "pause": save a checkpoint and return None; or "stop": return None.

        Raises:
            InvalidInput: the step is not a whole number, the value is not a finite number, or the
                cost is negative, or is only in resources that the study does not count.
        """
        if isinstance(step, bool) or not hasattr(step, "__index__") or int(step) < 1:
            raise InvalidInput(
                f"report(step, value): step is {step!r:.200}, expected a whole number from 1 to "
                f"{self.last}."
            )
        number = _checked_value(int(step), value)
        if cost is not None:
            cost = _checked_cost(cost, self._resources)
        if self._journal is not None:
            self._write_journal(self._journal, int(step), number, cost)
        report_progress(int(step), number, cost=cost)
        self.reported = number
        if self._decision == "continue" and step >= self.last:
            self._decision = "stop"  # it is complete
        elif self._decision == "continue" and step >= self.until:
            asked = time.monotonic()
            answer, *rest = self._receive().split(" ", 2)
            self._waited += time.monotonic() - asked
            if answer == "continue":
                self.until = int(rest[0])
                self._begin_part(*rest[1:])
            else:
                self._decision = "pause" if answer == "pause" else "stop"
                self.is_paused = True
        return self._decision

    def _begin_part(self, journal: str = "") -> None:
        """After it was suspended, a training goes on as a new part with its own journal."""
        if journal:
            self._journal, self._waited = Path(journal), 0.0
            self._began = time.monotonic(), time.process_time()

    def _write_journal(
        self, journal: Path, step: int, value: float, cost: float | Mapping[str, float] | None
    ) -> None:
        wall, cpu = self._began
        used = time.monotonic() - wall - self._waited, time.process_time() - cpu
        message: dict[str, Any] = {"step": step, "value": value}
        if cost is not None:
            message["cost"] = cost
        append(journal, [with_usage(message, *used)])


def _checked_value(step: int, value: Any) -> float:
    """The value of a step as a float, from any number, also from NumPy or a tensor library."""
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        number = float(value)
    except Exception:  # __float__ may raise anything
        number = math.nan
    if math.isfinite(number):
        return number
    raise InvalidInput(
        f"report(step, value): the value at step {step} is {value!r:.200}, expected a finite "
        "number. If the training went wrong, return Outcome(failed='why')."
    )


def _checked_cost(
    cost: float | Mapping[str, float], resources: tuple[str, ...]
) -> float | dict[str, float]:
    """A cost in plain numbers. Some of its resources may be unknown, as in a result, but not all.

    Args:
        resources: those that the study counts; empty if it needs no report of the cost.
    """
    try:
        plain = plain_cost(cost)
        known = costs_of(plain)
    except Exception:  # __float__ may raise anything
        raise InvalidInput(
            f"report(cost=...): the cost is {cost!r:.200}, expected what this part has cost since "
            "its start: a number of at least 0, or {resource: amount}."
        ) from None
    if known and resources and not {"", *resources} & set(known):
        raise InvalidInput(
            f"report(cost=...): the cost is in {', '.join(known)}, but this study counts "
            f"{', '.join(resources)}. Report the cost in these units."
        )
    return plain


def takes_training(objective: Any) -> bool:
    """Whether an objective takes its training, too.

    Its second positional parameter has no default, or it is called `trial`.
    """
    try:
        parameters = inspect.signature(objective).parameters.values()
    except (TypeError, ValueError):  # a function in C has no signature
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2 or any(p.default is p.empty for p in positional[2:]):
        return False
    return positional[1].default is inspect.Parameter.empty or positional[1].name == "trial"


def check_steps(objective: Any, steps: Steps | None) -> None:
    """Refuse an objective that wants to report steps to a study without any."""
    if steps is None and takes_training(objective):
        name = getattr(objective, "__qualname__", type(objective).__qualname__)
        raise InvalidInput(
            f"The objective {name}{inspect.signature(objective)} cannot be called with the "
            "parameters alone. Give it one argument, the dictionary of parameters: def "
            "objective(params). If its second argument is its training, set steps=... to the last "
            "step of a training, such as steps=50."
        )


# ── answers to another process ───────────────────────────────────────────────────────────────────


def answer_file(folder: Path) -> Path:
    """The named pipe through which a Python function receives answers."""
    return folder / ANSWERS


def continue_file(folder: Path) -> Path:
    """The file in which a program finds the step that it may run to, or "pause"."""
    return folder / CONTINUE


class Answers:
    """The answers to one evaluation in another process, as the worker gives them.

    Args:
        folder: the folder of the evaluation.
        until: the step at which the tuner decides first.
    """

    def __init__(self, folder: Path, until: int) -> None:
        self._continue = continue_file(folder)
        self._write(str(until))
        os.mkfifo(answer_file(folder))
        # Open for reading, too: then neither end waits for the other.
        self._pipe = os.open(answer_file(folder), os.O_RDWR | os.O_NONBLOCK)

    def give(self, answer: str, journal: Path | None = None) -> None:
        """Answer a report: "continue UNTIL", "pause" or "stop".

        Args:
            journal: the file for further reports of a function that was suspended.
        """
        self._write(answer.removeprefix("continue "))
        os.write(self._pipe, os.fsencode(f"{answer}{f' {journal}' if journal else ''}\n"))

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._pipe)

    def _write(self, text: str) -> None:
        new = self._continue.with_suffix(".new")
        new.write_text(f"{text}\n", encoding="utf-8")
        new.replace(self._continue)


def receiver(pipe: Path) -> Callable[[], str]:
    """A function that waits for the next answer."""
    stream: Any = None

    def receive() -> str:
        nonlocal stream
        if stream is None:
            stream = open(pipe, encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
        return stream.readline().strip() or "pause"

    return receive
