"""Trials: what was suggested, what it returned, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.notebook import html_rows, html_table

__all__ = [
    "BUDGET_SPENT",
    "FOLDER",
    "IMPORTED",
    "NOT_ENDED",
    "PRUNED",
    "STARTS_AGAIN",
    "CurvePoint",
    "History",
    "LimitRule",
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
IMPORTED = "imported with its result"  # the reason of an imported trial
SHOWN = 50  # trials in the table of a notebook
_COLUMNS = ("number", "state", "value", "params", "cost", "metrics", "error", "because")
STARTS_AGAIN, FOLDER = "starts_again", "checkpoint_folder"  # notes about deleted checkpoints
TrialState = Literal["running", "paused", "done", "failed", "killed", "lost"]

# Where a trial comes from: the policy, the initial design, a user who enqueued it, a lost trial
# that is tried again, or an import of an evaluation that was paid outside this study.
Origin = Literal["suggested", "design", "enqueued", "retry", "imported"]

# Which rule limits the cost of a trial: the cap of the initial design, or a setting of that name.
LimitRule = Literal["start", "max_overrun", "max_cost"]

StopKind = Literal[
    "budget_spent",
    "unaffordable",  # the budget is not spent, but no untried point is affordable
    "all_tried",  # every configuration of a finite space was tried
    "rule",  # a stopping rule
    "requested",
    "interrupted",  # Ctrl-C
    "terminated",  # SIGTERM
    "orphaned",  # the process that started a worker has ended
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

    No program may depend on the sentence.
    """

    kind: StopKind
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def includes(self, text: str) -> bool:
        """Whether the sentence contains a text, so that it need not be printed again."""
        return text in self.sentence


BUDGET_SPENT = StopReason("budget_spent", "the budget is spent")
PRUNED = "pruned"  # killed by a scheduler of another tool
NOT_ENDED = StopReason("not_ended", "the study has not ended")


@dataclass(frozen=True)
class Outcome:
    """What an objective may return instead of a number.

    Attributes:
        value: the value of the objective.
        cost: its cost, as a number in the budget's first resource or as {resource: amount}.
        failed: why there is no value. The models learn to avoid such configurations.
        metrics: other results to store and show, such as `{"accuracy": 0.97}`.
        constraints: the measured quantities that the study constrains, such as
            `{"latency_ms": 12.0}`. They are stored and shown like metrics.
    """

    value: float | None = None
    cost: float | Mapping[str, float] | None = None
    failed: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    constraints: Mapping[str, float] = field(default_factory=dict)


class CurvePoint(NamedTuple):
    """What a training reported at one step.

    Attributes:
        step: 1, 2, ...: an epoch, a boosting round, or anything else that grows.
        value: the value of the objective at that step, in the user's units and direction.
        cost: what was paid for the trial up to that step, by resource.
    """

    step: int
    value: float
    cost: Mapping[str, float]


@dataclass(frozen=True)
class Run:
    """How a trial is evaluated: its worker, its lease, its times and its use of resources.

    Attributes:
        seed: random seed for the evaluation itself.
        worker: the worker that evaluates it.
        lease: when the lease expires and the trial is lost, on the store's clock; None if there is
            no lease.
        attempt: 1, or one more than that of the lost trial that it repeats.
        retry: whether it was lost and waits to be tried again under a new number.
        asked_at: when it was suggested, on the store's clock.
        told_at: when its result was reported, on the store's clock.
        suggest_s: seconds that suggesting it took.
        queue_s: seconds between ask and tell in which it was not evaluated.
        run_s: seconds that the evaluation took.
        cpu_s: CPU seconds of the evaluation.
        peak_mb: the largest memory of one of its processes, in MB.
        reports: what it reported while it ran.
        metrics: further results besides value and cost, such as what constraints limit.
        slot: the slot that it ran on, such as the number of a GPU.
        log: the file with its output, on the machine of its worker.
        tail: the last lines of its output.
        since: the step at which the last part of a training began: its checkpoint is from there.
        earlier: what the parts before the last one cost, by resource.
        turn: its place in the order in which trials and parts of trials began; None: its number.
        waits: whether its process waits at a rung for the decision to continue. Continuing then
            costs nothing on top. Only a policy that decides about this trial sees it.
        elsewhere: whether the worker that asks for a trial lacks its checkpoint. Only the policy
            that decides for this worker sees it.
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
    since: int = 0
    earlier: Mapping[str, float] = field(default_factory=dict)
    turn: int | None = None
    waits: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Trial:
    """One evaluation, from `ask` to `tell`.

    Attributes:
        number: 0, 1, 2, ... in the order of suggestion.
        params: the parameters to evaluate.
        x: the same as a point of the unit cube, (d,).
        state: "running", "paused" (at a step before the last one), "done", "failed", "killed"
            (its cost is then a lower bound) or "lost". A trial is lost if its worker disappeared or
            the machine failed. Nothing is learnt from a lost trial.
        value: the reported value, in the user's units and direction; of a paused trial, its value
            so far.
        cost: the cost paid, by resource.
        predicted: the expected cost, by resource.
        because: why it was chosen.
        error: why it failed.
        notes: what later suggestions need to remember, as plain JSON values.
        origin: where it comes from; see `Origin`.
        run: how it is evaluated.
        curve: the values that a training reported, by ascending step.
        until: the step that its part of a training goes to; None without `steps`, and if it is
            paused or done.
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
    curve: tuple[CurvePoint, ...] = ()
    until: int | None = None

    def _facts(self) -> dict[str, Any]:
        """What the representations show."""
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
        """Expected cost in the first resource; None if no costs are known."""
        return next(iter(self.predicted.values()), None)

    @property
    def step(self) -> int:
        """The last step that it reached; 0 if it has reported none."""
        return self.curve[-1].step if self.curve else 0

    @property
    def is_resumed(self) -> bool:
        """Whether its training was paused and resumed."""
        return self.run.since > 0 or bool(self.run.earlier)

    @property
    def starts_again(self) -> bool:
        """Whether its checkpoint was deleted: resuming it would mean to start at step 0."""
        return bool(self.notes.get(STARTS_AGAIN, False))

    @property
    def checkpoint_folder(self) -> int:
        """How often its checkpoint was deleted. After each time its folder is another one."""
        return int(self.notes.get(FOLDER, 0))

    @property
    def part_cost(self) -> Mapping[str, float]:
        """The cost of its last part, by resource; of a trial in one part, its cost."""
        earlier = self.run.earlier
        if not earlier:
            return self.cost
        return {r: max(amount - earlier.get(r, 0.0), 0.0) for r, amount in self.cost.items()}

    @property
    def limit(self) -> Mapping[str, float]:
        """The most that its part may cost, by resource. If possible it is killed there."""
        limit: Mapping[str, float] = self.notes.get("limit", {})
        return limit

    @property
    def limit_by(self) -> Mapping[str, LimitRule]:
        """The rule that sets the limit, by resource."""
        rules: Mapping[str, LimitRule] = self.notes.get("limit_by", {})
        return rules

    @property
    def is_external(self) -> bool:
        """Whether it was imported, so that this study did not pay for it."""
        return self.origin == "imported"

    @property
    def is_dropped(self) -> bool:
        """Whether a user dropped it, so that nothing is learnt from it."""
        return self.state == "lost" and "dropped" in self.notes

    @property
    def leads_on(self) -> bool:
        """Whether the next evaluation follows it. A lost or an imported trial has no successor."""
        return self.state != "lost" and not self.is_external

    @property
    def is_valueless(self) -> bool:
        """Whether it was killed before it had a value, at a limit that the user chose.

        A trial that the initial design or the end of the budget killed may have a good value.
        """
        return self.notes.get("killed_by") in ("timeout", "max_overrun", "max_cost", "user")

    @property
    def is_pruned(self) -> bool:
        """Whether a scheduler of another tool ended it, because it was worse than others."""
        return self.notes.get("killed_by") == PRUNED

    @property
    def is_start(self) -> bool:
        """Whether it belongs to the initial design."""
        return self.notes.get("phase") == "start"


def origin_of(notes: Mapping[str, Any]) -> Origin:
    """The origin of a proposal, by its notes."""
    if "given" in notes:
        return "enqueued"
    return "design" if notes.get("phase") == "start" else "suggested"


class PricePoint(NamedTuple):
    """An imported cost without a value. The cost models learn from it, but it is not a trial.

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
    """All trials in the order of their numbers. It is immutable."""

    trials: tuple[Trial, ...] = ()

    def __repr__(self) -> str:
        found = [(len(trials), state) for state, trials in self._by_state.items() if trials]
        counts = ", ".join(f"{count} {state}" for count, state in found)
        return f"<History of {len(self)} trials: {counts}>" if self.trials else "<History: none>"

    def _repr_html_(self) -> str:
        """The last trials in a notebook."""
        last = [trial._facts() for trial in self.trials[-SHOWN:]]
        names = [name for name in _COLUMNS if any(name in facts for facts in last)]
        left_out = len(self) - len(last)
        above = f"{escape(repr(self))}{f', of which the last {SHOWN}' if left_out else ''}"
        return above + html_rows(names, ([facts.get(name, "") for name in names] for facts in last))

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __getitem__(self, number: int) -> Trial:
        return self.trials[number]

    def adding(self, *trials: Trial) -> History:
        """This history with more trials."""
        more = History((*self.trials, *trials))
        if "_by_state" in vars(self) and len(trials) == 1:
            vars(more)["_by_state"] = _updated(self._by_state, None, trials[0])
        if "X" in vars(self) and trials:  # append to the cached array
            new = np.array([trial.x for trial in trials])
            vars(more)["X"] = np.concatenate([self.X, new]) if len(self.X) else new
        if "turns" in vars(self):
            vars(more)["turns"] = max(self.turns, len(more), *(_turn(t) + 1 for t in trials))
        return more

    def replacing(self, trial: Trial) -> History:
        """This history with a new version of one trial, which must have the same point."""
        at = trial.number
        changed = History((*self.trials[:at], trial, *self.trials[at + 1 :]))
        if "_by_state" in vars(self):
            vars(changed)["_by_state"] = _updated(self._by_state, self.trials[at], trial)
        if "X" in vars(self):
            vars(changed)["X"] = self.X
        if "turns" in vars(self):
            vars(changed)["turns"] = max(self.turns, _turn(trial) + 1)
        return changed

    @cached_property
    def X(self) -> Array:
        """(n, d) the points of all trials; (0,) if there are none."""
        return np.array([trial.x for trial in self.trials])

    def points(self, *states: TrialState) -> Array:
        """(k, d) the points of the trials in one of these states; (0,) if there are none."""
        if len(self.having(*states)) == len(self):  # the usual case, which needs no selection
            return self.X
        return np.asarray(self.X[np.array([t.state in states for t in self.trials], dtype=bool)])

    @cached_property
    def _by_state(self) -> dict[TrialState, tuple[Trial, ...]]:
        """The trials by state, cached because a suggestion uses the same states many times."""
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
        """The pending trials: suggested, but without a result yet."""
        return self.having("running")

    @cached_property
    def previous(self) -> Array:
        """(n + 1, d) the point evaluated before each trial and before the next one; NaN if none.

        Trials follow one another in the order of their numbers, whatever worker evaluates them.
        """
        found = np.full((len(self) + 1, self.X.shape[-1]), np.nan)
        for i, trial in enumerate(self.trials):
            found[i + 1] = trial.x if trial.leads_on else found[i]
        return found

    def before(self, number: int) -> Array | None:
        """(d,) the point evaluated before trial `number`; None if there is none."""
        return next((t.x for t in reversed(self.trials[:number]) if t.leads_on), None)

    @cached_property
    def turns(self) -> int:
        """The number of trials and resumed parts of trials that have begun.

        It never decreases, and without resumed parts it is the number of trials.
        """
        resumed = (trial.run.turn for trial in self.trials if trial.run.turn is not None)
        return max(len(self), max(resumed, default=-1) + 1)

    def last_note(self, key: str) -> Any:
        """The most recently stored note of that name, or None."""
        trials = self.trials
        if self.turns > len(trials):
            trials = tuple(sorted(trials, key=_turn))
        return next((trial.notes[key] for trial in reversed(trials) if key in trial.notes), None)


def _turn(trial: Trial) -> int:
    return trial.number if trial.run.turn is None else trial.run.turn


def _updated(
    by_state: Mapping[TrialState, tuple[Trial, ...]], old: Trial | None, new: Trial
) -> dict[TrialState, tuple[Trial, ...]]:
    """The trials by state after one trial changed, without sorting all of them again."""
    found = dict(by_state)
    if old is not None:
        found[old.state] = tuple(trial for trial in found[old.state] if trial is not old)
    others = found.get(new.state, ())
    found[new.state] = (*others, new)
    if others and others[-1].number > new.number:
        found[new.state] = tuple(sorted(found[new.state], key=attrgetter("number")))
    return found


class Here(NamedTuple):
    """Which paused trainings a worker can resume.

    Attributes:
        waiting: those whose processes it has, with `resume="suspend"`.
        lacking: those of a history whose checkpoints it does not have.
    """

    waiting: frozenset[int] = frozenset()
    lacking: Callable[[History], frozenset[int]] = lambda history: frozenset()
