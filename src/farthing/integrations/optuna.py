"""Optuna with a budget: a sampler, a pruner, a callback, an importer and a mirror.

    study = optuna.create_study(sampler=CostAwareSampler(budget="10m"))
    study.optimize(objective)

A trial reports its cost with `trial.set_user_attr("cost", 3.5)` (or {resource: amount}). A trial
that reports none costs the seconds of its objective, without those of the sampler.

Optuna asks a sampler after a trial has started, and cannot end a running trial. If the budget
cannot pay for a new trial, it is therefore pruned before its objective does anything. A running
trial is finished.
"""

from __future__ import annotations

import copy
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Unpack

from farthing.errors import InvalidInput, MissingExtra, Stopped

try:
    import optuna
except ImportError as error:
    raise MissingExtra("optuna", "Optuna") from error

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from farthing.acquisition.protocols import Verdict
from farthing.budget.ledger import Ledger
from farthing.core.options import AnyBudget, AnySpace, SearchOptions
from farthing.core.outcomes import missing_cost
from farthing.core.settings import Settings
from farthing.core.signatures import takes_settings
from farthing.core.suggest import Suggestion, one_thread, suggest
from farthing.cost import KnownBeforehand
from farthing.history import BUDGET_SPENT
from farthing.integrations.optuna_callback import StopAtBudget
from farthing.integrations.optuna_clock import Clock
from farthing.integrations.optuna_conditions import seen
from farthing.integrations.optuna_exchange import Mirror, import_study
from farthing.integrations.optuna_process import this_process
from farthing.integrations.optuna_pruner import CostAwarePruner
from farthing.integrations.optuna_settings import (
    PLACEHOLDER,
    Arguments,
    check_one_objective,
    space_and_distributions,
)
from farthing.integrations.optuna_space import Translation, space_of
from farthing.integrations.optuna_state import (
    CONSTRAINTS,
    RECORD,
    SECONDS,
    STOPPED,
    UNKNOWN,
    cost_of,
    declined,
    ledger_of,
    reported_cost,
    state_of,
)
from farthing.space.space import Space

__all__ = [
    "CostAwarePruner",
    "CostAwareSampler",
    "Mirror",
    "StopAtBudget",
    "import_study",
    "space_of",
]

FIXED = "fixed_params"  # the system attribute of Optuna with enqueued parameters
SPENT = Verdict(True, BUDGET_SPENT.sentence, kind=BUDGET_SPENT.kind)
MORE = Verdict(False, "the objective has parameters that are drawn at random")
UNSUPPORTED = {
    "direction": "the direction is that of the study. Give optuna.create_study(direction=...)",
    "max_overrun": "Optuna cannot end a trial from outside. Use a pruner, or farthing.Study",
}


class CostAwareSampler(BaseSampler):  # type: ignore[misc,unused-ignore]
    """An Optuna sampler that weighs expected improvement against cost, within a budget.

    When the budget is spent, or a rule stops the study, `study.optimize` ends. The user attribute
    "farthing:stopped" of the study then has the reason. The verdict is a function of what Optuna
    has stored, so it is the same in every process.

    Args:
        search_space: {name: Optuna's distribution}, or a space of Farthing, which may declare the
            effect of a parameter on the cost. By default, the parameters that trials have
            suggested so far. The first trial is then in the middle of its ranges. If only some
            trials have a parameter, the values of others that explain this become its condition;
            a parameter that nothing explains is drawn at random.
        budget: the total cost of the trials of this sampler, "2h" or "$40"; None for no limit.
        rate: the price of the machine, "$3.06/h".
        constraints_func: as in Optuna's samplers: of a trial that has ended, the values that must
            be at most 0. `trial.set_constraint(name, value)` needs no argument.

    The other arguments are those of `Optimizer`. The direction is that of the study. `constraints`
    limits user attributes, {"latency_ms": "<= 10"}. If the budget limits no cost, the policy is EI
    per cost. `learn_from` also takes studies of Optuna; every process must give the same.

    With `steps=51`, the number of steps of a complete training, the sampler learns from the values
    that trials report, `trial.report(value, step)`, also from those of pruned trials. Without it, a
    pruned trial counts as if its value were no better than the median.
    """

    @takes_settings(SearchOptions)
    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution] | AnySpace | None = None,
        budget: AnyBudget = None,
        rate: str | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        **settings: Unpack[SearchOptions],
    ) -> None:
        for name, why in UNSUPPORTED.items():
            if name in settings:
                raise InvalidInput(f"CostAwareSampler(... {name}=...): {why}.")
        self._space: Space | None = None
        self._distributions: dict[str, BaseDistribution] | None = None
        if search_space is not None:
            self._space, self._distributions = space_and_distributions(search_space)
        self._arguments = Arguments(budget, rate, dict(settings))
        self._arguments.settings(self._space or PLACEHOLDER)  # invalid settings raise an error now
        if "learn_from" in settings and (known := Translation.of(self._distributions or {})):
            self._arguments.settings(known.space, translation=known)
        self._constraints_func = constraints_func
        self._cached: _Cached | None = None
        self._clocks: dict[int, Clock] = {}  # by trial
        self._lock = threading.RLock()  # Optuna's threads share a sampler

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None, "_cached": None, "_clocks": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    # ── the interface of Optuna ────────────────────────────────────────────────────────────

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Start the clock of a trial, and its record: what it may cost is reserved from now on."""
        self._clocks[trial._trial_id] = Clock()
        if len(study.directions) == 1:
            with self._working(self._clock(trial)):
                begun = self._begin(_whole(study), trial)
            if "declined" in begun:  # it must ask for its parameters, and is then pruned
                attributes = trial.system_attrs
                trial.system_attrs = {k: v for k, v in attributes.items() if k != FIXED}

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The parameters that are chosen together: those given, or those that trials have."""
        with self._working(self._clock(trial)):
            return self._relative(_whole(study).get_trials(deepcopy=False))

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest the next point.

        Raises:
            optuna.TrialPruned: the budget is spent, or a rule stops the study. In a study that is
                used with `ask`, without `optimize`, it raises `Stopped`.
        """
        study = _whole(study)
        check_one_objective(study)
        with self._working(self._clock(trial)) as clock:
            record = self._record(study, trial)
            others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
            translation = Translation.of(search_space, self._space, others)
            if translation is None:
                return {}
            settings = self._arguments.settings(translation.space, study, translation)
            suggestion, seconds = self._suggest(study, others, translation, settings)
            again = settings.budget is None or (
                suggestion.verdict.kind == "all_tried" and _has_more(others, translation)
            )
            if suggestion.proposal.x is None and again:
                # Every configuration was tried, so the user wants some of them again.
                rng = np.random.default_rng(_seed(settings.seed, trial, ""))
                x = translation.space.sample(1, rng)[0]
                suggestion = suggestion._replace(proposal=replace(suggestion.proposal, x=x))
            if suggestion.proposal.x is None:
                _attribute(study, trial, {"declined": suggestion.verdict.because})
                raise self._end(study, suggestion.verdict)
            if settings.steps is not None:  # nobody pauses it: it costs a whole training
                whole = suggestion.belief.predicted(suggestion.proposal.x)
                proposal = replace(suggestion.proposal, predicted=whole, until=None)
                suggestion = suggestion._replace(proposal=proposal)
            chosen, reservation = suggestion.trial()
            params = translation.theirs(chosen.params)
            record |= {
                "params": {**params, **record["params"]},
                "names": translation.signature,
                "predicted": dict(chosen.predicted),
                "hold": reservation,
                "because": chosen.because,
                "notes": dict(chosen.notes),
                "think_s": clock.overhead + clock.running,
                "suggest_s": seconds,
            }
            _attribute(study, trial, record)
            clock.record()
            return params

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a parameter that is chosen alone: first the middle of its range, later uniformly."""
        study = _whole(study)
        check_one_objective(study)
        with self._working(self._clock(trial)):
            self._record(study, trial)
            rng = np.random.default_rng(_seed(self._seed, trial, param_name))
            translation = Translation.of({param_name: param_distribution})
            if translation is None:  # one value, or too many to search
                if isinstance(param_distribution, FloatDistribution):
                    low, high = param_distribution.low, param_distribution.high
                    if np.isinf(high - low):  # Optuna's sampler raises an OverflowError
                        share = float(rng.random())
                        return (1 - share) * low + share * high
                sampler = optuna.samplers.RandomSampler(seed=int(rng.integers(2**31)))
                return sampler.sample_independent(study, trial, param_name, param_distribution)
            space = translation.space
            x = space.sample(1, rng)[0] if trial.number else np.full(1, 0.5)
            return translation.theirs(space.decode(x))[param_name]

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Stop the clock of a trial, and the study if the budget is spent or a rule stops it.

        Raises:
            InvalidInput: the trial did not report a cost that the budget needs. Only a complete
                trial raises an error here: Optuna would hide why another one has ended.
        """
        study, clock = _whole(study), self._clocks.pop(trial._trial_id, None) or Clock(trial)
        complete = state == TrialState.COMPLETE
        if complete:
            check_one_objective(study)
        elif len(study.directions) > 1:
            return
        clock.stop()
        with self._working(clock):
            study._storage.set_trial_user_attr(trial._trial_id, SECONDS, clock.seconds)
            ended = self._ended(study, trial, state, values)
            if declined(ended):
                return
            try:
                if complete:
                    self._check_cost(study, ended)
                self._stop_if_due(study, ended)
            except InvalidInput:
                if complete:
                    raise
        record = ended.system_attrs.get(RECORD)
        if record is not None:  # the next suggestion was made here
            record = {**record, "think_s": record["think_s"] + clock.overhead}
            if self._cached is not None:
                record["suggest_s"] = self._cached.seconds
            _attribute(study, trial, record)

    def reseed_rng(self) -> None:
        """Do nothing: the random numbers of a trial depend only on its number and the seed."""

    # ── for users ──────────────────────────────────────────────────────────────────────────

    def verdict(self, study: optuna.Study) -> Verdict:
        """Whether to stop now, and why."""
        with self._lock:
            return self._verdict(study, study.get_trials(deepcopy=False))

    def ledger(self, study: optuna.Study) -> Ledger:
        """The costs of the trials of this sampler so far."""
        return self._ledger(study, study.get_trials(deepcopy=False))

    def can_pay(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether the budget pays for what a running trial has cost until now."""
        settings = self._arguments.settings(self._space or PLACEHOLDER, study)
        if settings.budget is None:
            return True
        running, clock = copy.copy(trial), self._clocks.get(trial._trial_id) or Clock(trial)
        running.user_attrs = {**trial.user_attrs, SECONDS: clock.seconds}
        ledger, cost = self.ledger(_whole(study)), cost_of(running, settings)
        return all(
            ledger[r].left > (0.0 if r == "s" else cost.get(r, 0.0))
            for r in ledger.limited_resources
            if r != "trials"
        )

    # ── the record of a trial ──────────────────────────────────────────────────────────────

    def _begin(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        """Write the record of a trial before it suggests anything: enqueued, or at random."""
        others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        fixed = trial.system_attrs.get(FIXED, {})
        record: dict[str, Any] = {"params": dict(fixed), "names": [], "predicted": {}, "hold": {}}
        record |= {"because": "enqueued" if fixed else "drawn at random"}
        record |= {"notes": {"phase": "start"}, "think_s": 0.0, "process": this_process()}
        if self._arguments.budget is not None:
            ledger = self._ledger(study, others, reserve=True)
            if ledger.used_up:
                record["declined"] = SPENT.because
            costs = [cost_of(t, self._arguments.settings(PLACEHOLDER)) for t in others]
            for resource in ledger.limited_resources:
                highest = max((cost.get(resource, 0.0) for cost in costs), default=0.0)
                record["hold"][resource] = highest or UNKNOWN * ledger[resource].left
        _attribute(study, trial, record)
        return record

    def _record(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        """The record of a trial.

        Raises:
            optuna.TrialPruned, Stopped: the budget was spent before it began.
        """
        found = study._storage.get_trial(trial._trial_id).system_attrs.get(RECORD)
        record = self._begin(study, trial) if found is None else dict(found)
        if "declined" in record:
            raise self._end(study, replace(SPENT, because=record["declined"]))
        return record

    def _ended(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> FrozenTrial:
        """The trial as it will be stored, with its constraints."""
        if self._constraints_func is not None and state in (TrialState.COMPLETE, TrialState.PRUNED):
            met = [float(value) for value in self._constraints_func(trial)]
            study._storage.set_trial_system_attr(trial._trial_id, CONSTRAINTS, met)
        ended = copy.copy(study._storage.get_trial(trial._trial_id))
        ended.state, ended.values = state, None if values is None else list(values)
        if declined(ended) and state == TrialState.COMPLETE:  # it has no parameters, and was run
            record = {k: v for k, v in ended.system_attrs[RECORD].items() if k != "declined"}
            ended.system_attrs = {**ended.system_attrs, RECORD: record}
        return ended

    def _check_cost(self, study: optuna.Study, ended: FrozenTrial) -> None:
        reported_cost(ended, strict=True)
        settings = self._arguments.settings(self._space or PLACEHOLDER, study)
        missing = missing_cost(settings, cost_of(ended, settings))
        if missing is not None and not _is_known(settings, missing):
            raise InvalidInput(
                f"Trial {ended.number} did not report its cost in {missing!r}, which the budget "
                'needs. Call trial.set_user_attr("cost", ...) in the objective, or give a rate.'
            )

    def _stop_if_due(self, study: optuna.Study, ended: FrozenTrial) -> None:
        """Stop the study if the budget is spent or a rule stops it."""
        if self._arguments.budget is not None or self._arguments.given.get("stop") is not None:
            trials = [
                ended if each.number == ended.number else each
                for each in study.get_trials(deepcopy=False)
            ]
            verdict = self._verdict(study, trials)
            if verdict.stop:
                self._end(study, verdict)

    # ── suggesting ─────────────────────────────────────────────────────────────────────────

    @property
    def _seed(self) -> int:
        return self._arguments.settings(PLACEHOLDER).seed

    @property
    def _here(self) -> list[int]:
        """The numbers of the trials that run in this process."""
        clocks = tuple(self._clocks.values())  # other threads may change the dictionary
        return [clock.number for clock in clocks if clock.number is not None]

    @contextmanager
    def _working(self, clock: Clock) -> Iterator[Clock]:
        """The sampler works for a trial, and for no other one; waiting for that is not overhead."""
        start = time.perf_counter()
        with self._lock:
            clock.wait(time.perf_counter() - start)
            with clock:
                yield clock

    def _clock(self, trial: FrozenTrial) -> Clock:
        """The clock of a trial; time inside of its context belongs to the sampler."""
        clock = self._clocks.setdefault(trial._trial_id, Clock())
        clock.number = trial.number
        return clock

    def _relative(self, trials: list[FrozenTrial]) -> dict[str, BaseDistribution]:
        found = seen(trials) if self._distributions is None else self._distributions
        return {name: found[name] for name in sorted(found) if not found[name].single()}

    def _translation(self, trials: list[FrozenTrial]) -> Translation | None:
        return Translation.of(self._relative(trials), self._space, trials)

    def _ledger(
        self, study: optuna.Study, trials: list[FrozenTrial], *, reserve: bool = False
    ) -> Ledger:
        translation = self._translation(trials)
        space = PLACEHOLDER if translation is None else translation.space
        settings = self._arguments.settings(space, study, translation)
        now = datetime.now()
        return ledger_of(trials, settings, now, self._here, translation, reserve=reserve)

    def _suggest(
        self,
        study: optuna.Study,
        trials: list[FrozenTrial],
        translation: Translation,
        settings: Settings,
    ) -> tuple[Suggestion, float]:
        """The suggestion, cached until the state changes, and the seconds that it took."""
        state = state_of(trials, translation, settings, datetime.now(), self._here)
        key = (study.study_name, translation.space, settings.constraints, state.version())
        if self._cached is None or self._cached.key != key:
            start = time.perf_counter()
            with one_thread():
                found = suggest(settings, state)
            self._cached = _Cached(key, found, time.perf_counter() - start)
        return self._cached.suggestion, self._cached.seconds

    def _verdict(self, study: optuna.Study, trials: list[FrozenTrial]) -> Verdict:
        translation = self._translation(trials)
        if translation is None:
            settings = self._arguments.settings(PLACEHOLDER, study)
            spent = ledger_of(trials, settings, datetime.now(), self._here).used_up
            return SPENT if spent else Verdict(False, "there is no trial yet")
        settings = self._arguments.settings(translation.space, study, translation)
        verdict = self._suggest(study, trials, translation, settings)[0].verdict
        more = verdict.kind == "all_tried" and _has_more(trials, translation)
        return MORE if more else verdict

    def _end(self, study: optuna.Study, verdict: Verdict) -> Exception:
        """Stop `study.optimize` if it runs; return the exception for a trial that was about to "
        "start."""
        study._storage.set_study_user_attr(study._study_id, STOPPED, verdict.because)
        if not study._thread_local.in_optimize_loop:
            return Stopped(verdict.reason)
        study.stop()
        return optuna.TrialPruned(verdict.because)


class _Cached(NamedTuple):
    """A suggestion, what it depends on, and the seconds that it took."""

    key: Any
    suggestion: Suggestion
    seconds: float


def _whole(study: optuna.Study) -> optuna.Study:
    """The whole study: a pruner may show a sampler only a part of it, but there is one budget."""
    whole: optuna.Study = getattr(study, "_study", study)
    return whole


def _is_known(settings: Settings, resource: str) -> bool:
    return isinstance(settings.learners.get(resource), KnownBeforehand)


def _attribute(study: optuna.Study, trial: FrozenTrial, record: Mapping[str, Any]) -> None:
    """Store the record of a trial, so that other processes know it from the start."""
    study._storage.set_trial_system_attr(trial._trial_id, RECORD, dict(record))


def _has_more(trials: Sequence[FrozenTrial], translation: Translation) -> bool:
    """Whether a trial has parameters with several values outside of the space."""
    return any(
        name not in translation.conversions and not distribution.single()
        for trial in trials
        for name, distribution in trial.distributions.items()
    )


def _seed(seed: int, trial: FrozenTrial, name: str) -> list[int]:
    return [seed, trial.number, zlib.crc32(name.encode())]
