"""What was asked, what came back, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.notebook import html_table

__all__ = [
    "BUDGET_SPENT",
    "ELSEWHERE",
    "NOT_ENDED",
    "History",
    "Origin",
    "Outcome",
    "PricePoint",
    "Run",
    "StopKind",
    "StopReason",
    "Trial",
    "TrialState",
    "origin_of",
]

Array = NDArray[np.float64]
ELSEWHERE = "evaluated elsewhere"  # what is said of an imported trial
TrialState = Literal["running", "done", "failed", "killed", "lost"]

# Where a trial comes from: the policy, the initial design, a person who enqueued it, a lost trial
# that is tried again, or another place, where it was evaluated and paid.
Origin = Literal["suggested", "design", "enqueued", "retry", "imported"]

StopKind = Literal[
    "budget_spent",
    "unaffordable",  # something is left of the budget, but too little for any untried point
    "all_tried",  # every configuration of a finite space
    "rule",  # a stopping rule
    "requested",
    "interrupted",  # Ctrl-C
    "terminated",  # SIGTERM
    "orphaned",  # the process that started a worker is gone
    "too_many_failures",
    "cost_missing",  # a trial did not report a cost that the budget or the policy needs
    "all_free",  # trials cost nothing, so the budget would never end
    "worker_suspect",  # a worker waits, because its first trials all failed
    "worker_error",  # another worker of the same run raised an error
    "not_ended",
]


@dataclass(frozen=True)
class StopReason:
    """Why a study stops: `kind` is for programs, `sentence` for people.

    Nothing may be decided by the sentence.
    """

    kind: StopKind
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def includes(self, text: str) -> bool:
        """Whether the sentence contains a text, which then need not be shown again beside it."""
        return text in self.sentence


BUDGET_SPENT = StopReason("budget_spent", "the budget is spent")
NOT_ENDED = StopReason("not_ended", "it has not ended")


@dataclass(frozen=True)
class Outcome:
    """What an objective may return instead of a number, when it knows more than the value.

    Attributes:
        value: what is optimised.
        cost: what it cost, a number in the budget's first resource or {resource: amount}.
        failed: why there is no value; the configuration is then learnt to be a bad idea.
        metrics: what else is worth keeping, `{"accuracy": 0.97}`: it is stored and shown.
    """

    value: float | None = None
    cost: float | Mapping[str, float] | None = None
    failed: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """How a trial is evaluated: by whom, under which lease, when, and what it has used.

    Attributes:
        seed: for the evaluation's own randomness.
        worker: who evaluates it.
        lease: it is lost when the memory's clock has passed this; None: nobody promised to renew.
        attempt: 1, or one more than that of the lost trial that it repeats.
        retry: it was lost, and waits to be tried again under a new number.
        asked_at: on the memory's clock.
        told_at: on the memory's clock.
        suggest_s: seconds it took to suggest it.
        queue_s: seconds between ask and tell in which it was not evaluated.
        run_s: seconds it was evaluated.
        cpu_s: CPU seconds of the evaluation.
        peak_mb: the largest memory one of its processes held.
        reports: what it reported on its way.
        metrics: what its result said besides value and cost.
        slot: the place where it ran, such as the number of a GPU.
        log: the file with everything it printed, on the machine of its worker.
        tail: the last lines it printed.
    """

    seed: int = 0
    worker: str | None = None
    lease: float | None = None
    attempt: int = 1
    retry: bool = False
    asked_at: float = 0.0
    told_at: float | None = None
    suggest_s: float = 0.0
    queue_s: float | None = None
    run_s: float | None = None
    cpu_s: float | None = None
    peak_mb: float | None = None
    reports: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    slot: str | None = None
    log: str | None = None
    tail: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Trial:
    """One evaluation, from `ask` to `tell`.

    Attributes:
        number: 0, 1, 2, ... in the order of asking.
        params: what to evaluate.
        x: the same as a point of the unit cube, (d,).
        state: running, done, failed, killed (its cost is then a lower bound), or lost: its worker
            disappeared or the machine failed it, from which nothing is learnt.
        value: what was told, in the user's units and direction.
        cost: what was paid, by resource.
        predicted: what it was expected to cost, by resource.
        because: why it was chosen.
        error: why it failed.
        notes: what the next thought needs to remember; plain JSON values.
        origin: where it comes from: see `Origin`.
        run: how it is evaluated.
    """

    number: int
    params: Mapping[str, Any]
    x: Array
    state: TrialState = "running"
    value: float | None = None
    cost: Mapping[str, float] = field(default_factory=dict)
    predicted: Mapping[str, float] = field(default_factory=dict)
    because: str = ""
    error: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = "suggested"
    run: Run = Run()

    def _facts(self) -> dict[str, Any]:
        """What a person wants to see of it at once."""
        known: dict[str, Any] = {
            "number": self.number,
            "state": self.state,
            "value": self.value,
            "params": dict(self.params),
            "cost": dict(self.cost),
            "metrics": dict(self.run.metrics),
            "error": self.error,
            "because": self.because,
        }
        return {name: fact for name, fact in known.items() if fact not in (None, {}, "")}

    def __repr__(self) -> str:
        facts = (f"{name}={fact!r}" for name, fact in self._facts().items() if name != "because")
        return f"Trial({', '.join(facts)})"

    def _repr_html_(self) -> str:
        return html_table(self._facts())

    @property
    def predicted_cost(self) -> float | None:
        """Expected cost in the first resource; None while nothing is known about costs."""
        return next(iter(self.predicted.values()), None)

    @property
    def limit(self) -> Mapping[str, float]:
        """The most it may cost by resource: whoever can kill it does so there, and tells it."""
        most: Mapping[str, float] = self.notes.get("limit", {})
        return most

    @property
    def is_external(self) -> bool:
        """Whether it was evaluated, and paid, elsewhere."""
        return self.origin == "imported"

    @property
    def is_dropped(self) -> bool:
        """Whether somebody said that nothing is to be learnt from it."""
        return self.state == "lost" and "dropped" in self.notes

    @property
    def leads_on(self) -> bool:
        """Whether the next evaluation follows it: one lost, or made elsewhere, led nowhere."""
        return self.state != "lost" and not self.is_external

    @property
    def is_start(self) -> bool:
        """Whether it belongs to the initial design."""
        return self.notes.get("phase") == "start"


def origin_of(notes: Mapping[str, Any]) -> Origin:
    """The origin of a trial that was chosen here, by the notes of its proposal."""
    if "given" in notes:
        return "enqueued"
    return "design" if notes.get("phase") == "start" else "suggested"


class PricePoint(NamedTuple):
    """A cost from elsewhere, without a value: it teaches the cost models and is no trial.

    Attributes:
        x: (d,) a point of the cube.
        cost: by resource.
        at_least: whether it is a lower bound, because the evaluation was killed.
    """

    x: Array
    cost: Mapping[str, float]
    at_least: bool = False


@dataclass(frozen=True, repr=False)
class History:
    """All trials in the order of their numbers; a change is a new History."""

    trials: tuple[Trial, ...] = ()

    def __repr__(self) -> str:
        found = [(len(trials), state) for state, trials in self._by_state.items() if trials]
        counts = ", ".join(f"{count} {state}" for count, state in found)
        return f"<History of {len(self)} trials: {counts}>" if self.trials else "<History: none>"

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __getitem__(self, number: int) -> Trial:
        return self.trials[number]

    def adding(self, *trials: Trial) -> History:
        """With more trials."""
        more = History((*self.trials, *trials))
        if "_by_state" in vars(self) and len(trials) == 1:
            vars(more)["_by_state"] = _moved(self._by_state, None, trials[0])
        if "X" in vars(self) and trials:  # stacked already: an ask adds a row
            new = np.array([trial.x for trial in trials])
            vars(more)["X"] = np.concatenate([self.X, new]) if len(self.X) else new
        return more

    def replacing(self, trial: Trial) -> History:
        """With one trial as it is now, at the point where it was."""
        at = trial.number
        changed = History((*self.trials[:at], trial, *self.trials[at + 1 :]))
        if "_by_state" in vars(self):
            vars(changed)["_by_state"] = _moved(self._by_state, self.trials[at], trial)
        if "X" in vars(self):
            vars(changed)["X"] = self.X
        return changed

    @cached_property
    def X(self) -> Array:
        """(n, d) the points of all trials; (0,) where there are none."""
        return np.array([trial.x for trial in self.trials])

    def points(self, *states: TrialState) -> Array:
        """(k, d) the points of the trials in one of these states; (0,) where there are none."""
        if len(self.having(*states)) == len(self):  # mostly, and then none is to be looked at
            return self.X
        return np.asarray(self.X[np.array([t.state in states for t in self.trials], dtype=bool)])

    @cached_property
    def _by_state(self) -> dict[TrialState, tuple[Trial, ...]]:
        """Sorted once: a thought looks at the same few states many times."""
        found: dict[TrialState, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.state, []).append(trial)
        return {state: tuple(trials) for state, trials in found.items()}

    def having(self, *states: TrialState) -> tuple[Trial, ...]:
        """The trials in one of these states."""
        parts = [self._by_state[state] for state in states if self._by_state.get(state)]
        if len(parts) <= 1:
            return parts[0] if parts else ()
        return tuple(sorted(chain(*parts), key=attrgetter("number")))

    @property
    def done(self) -> tuple[Trial, ...]:
        """The trials that returned a value."""
        return self.having("done")

    @property
    def running(self) -> tuple[Trial, ...]:
        """The trials asked and not yet told."""
        return self.having("running")

    @cached_property
    def previous(self) -> Array:
        """(n + 1, d) the point evaluated before each trial, and before the next; NaN: none was.

        Trials are taken to follow one another in the order of asking, whoever evaluates them.
        """
        found = np.full((len(self) + 1, self.X.shape[-1]), np.nan)
        for i, trial in enumerate(self.trials):
            found[i + 1] = trial.x if trial.leads_on else found[i]
        return found

    def before(self, number: int) -> Array | None:
        """(d,) the point evaluated before trial `number`; None: none was."""
        return next((t.x for t in reversed(self.trials[:number]) if t.leads_on), None)

    def last_note(self, key: str) -> Any:
        """The most recently stored note of that name, or None."""
        return next(
            (trial.notes[key] for trial in reversed(self.trials) if key in trial.notes), None
        )


def _moved(
    sorted_: Mapping[TrialState, tuple[Trial, ...]], old: Trial | None, new: Trial
) -> dict[TrialState, tuple[Trial, ...]]:
    """Trials by state after one of them changed: sorting all of them again takes longer."""
    found = dict(sorted_)
    if old is not None:
        found[old.state] = tuple(trial for trial in found[old.state] if trial is not old)
    there = found.get(new.state, ())
    found[new.state] = (*there, new)
    if there and there[-1].number > new.number:
        found[new.state] = tuple(sorted(found[new.state], key=attrgetter("number")))
    return found
