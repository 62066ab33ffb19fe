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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Unpack

from farthing.errors import InvalidInput, MissingExtra, Stopped

try:
    import optuna
except ImportError as error:
    raise MissingExtra("optuna", "Optuna") from error

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space
from optuna.trial import FrozenTrial, TrialState

from farthing.acquisition.protocols import Verdict
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.core.options import AnyBudget, AnySpace, SearchOptions
from farthing.core.outcomes import missing_cost
from farthing.core.settings import Settings
from farthing.core.signatures import takes_settings
from farthing.core.suggest import Suggestion, one_thread, suggest
from farthing.cost import KnownBeforehand
from farthing.history import BUDGET_SPENT
from farthing.integrations.optuna_curves import without_resume
from farthing.integrations.optuna_exchange import Mirror, import_study
from farthing.integrations.optuna_pruner import CostAwarePruner
from farthing.integrations.optuna_space import Translation, distributions_of, space_of
from farthing.integrations.optuna_state import RECORD, SECONDS, cost_of, ledger_of, state_of
from farthing.policies import EIPerCost
from farthing.space.space import Float, Space

__all__ = [
    "CostAwarePruner",
    "CostAwareSampler",
    "Mirror",
    "StopAtBudget",
    "import_study",
    "space_of",
]

STOPPED = "farthing:stopped"  # the user attribute of a study with the reason why it stopped
SPENT = Verdict(True, BUDGET_SPENT.sentence, kind=BUDGET_SPENT.kind)
PLACEHOLDER = Space({"x": Float(0, 1)})
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
            effect of a parameter on the cost. By default, the parameters that all trials so far
            have in common, as in Optuna's samplers. The first trial is then in the middle of its
            ranges, and a parameter that only some trials have is drawn at random.
        budget: the total cost of the trials of this sampler, "2h" or "$40"; None for no limit.
        rate: the price of the machine, "$3.06/h".

    The other arguments are those of `Optimizer`. The direction is that of the study. If the budget
    limits no cost, the policy is EI per cost.

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
        **settings: Unpack[SearchOptions],
    ) -> None:
        for name, why in UNSUPPORTED.items():
            if name in settings:
                raise InvalidInput(f"CostAwareSampler(... {name}=...): {why}.")
        self._space: Space | None = None
        self._distributions: dict[str, BaseDistribution] | None = None
        if search_space is not None:
            self._space, self._distributions = _space_and_distributions(search_space)
        self._arguments = Arguments(budget, rate, dict(settings))
        self._arguments.settings(self._space or PLACEHOLDER)  # invalid settings raise an error now
        self._cached: tuple[Any, Suggestion] | None = None
        self._clocks: dict[int, _Clock] = {}  # by trial
        self._lock = threading.Lock()  # Optuna's threads share a sampler

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None, "_cached": None, "_clocks": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    # ── the interface of Optuna ────────────────────────────────────────────────────────────

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Start the clock of a trial."""
        self._clocks[trial._trial_id] = _Clock()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The parameters that are chosen together: those given, or those that all trials have."""
        with self._clock(trial):
            return self._relative(_whole(study).get_trials(deepcopy=False))

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest the next point.

        Raises:
            optuna.TrialPruned: the budget is spent, or a rule stops the study. In a study that is
                used with `ask`, without `optimize`, it raises `Stopped`.
        """
        self._raise_error_if_multi_objective(study)
        study = _whole(study)
        with self._clock(trial) as clock, self._lock:
            translation = Translation.of(search_space, self._space)
            if translation is None:
                return {}
            others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
            settings = self._arguments.settings(translation.space, study, translation)
            suggestion, seconds = self._suggest(study, others, translation, settings)
            if suggestion.proposal.x is None and settings.budget is None:
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
            record = {
                "params": params,
                "names": list(translation.space.names),
                "predicted": dict(chosen.predicted),
                "hold": reservation,
                "because": chosen.because,
                "notes": dict(chosen.notes),
                "think_s": clock.overhead + seconds,
            }
            _attribute(study, trial, record)
            clock.overhead = 0.0
            return params

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a parameter that is chosen alone: first the middle of its range, later uniformly."""
        self._raise_error_if_multi_objective(study)
        study = _whole(study)
        with self._clock(trial):
            if RECORD not in study._storage.get_trial(trial._trial_id).system_attrs:
                settings = self._arguments.settings(PLACEHOLDER, study)
                ledger = ledger_of(study.get_trials(deepcopy=False), settings, datetime.now())
                if ledger.used_up:
                    _attribute(study, trial, {"declined": SPENT.because})
                    raise self._end(study, SPENT)
                record = {
                    "params": {},
                    "names": [],
                    "predicted": {},
                    "hold": {},
                    "notes": {"phase": "start"},
                }
                _attribute(study, trial, {**record, "because": "drawn at random", "think_s": 0.0})
            rng = np.random.default_rng(_seed(self._seed, trial, param_name))
            translation = Translation.of({param_name: param_distribution})
            if translation is None:  # one value, or too many to search
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
            InvalidInput: the trial did not report a cost that the budget needs.
        """
        study, clock = _whole(study), self._clocks.pop(trial._trial_id, None)
        seconds = _since(trial) if clock is None else clock.seconds
        study._storage.set_trial_user_attr(trial._trial_id, SECONDS, seconds)
        ended = copy.copy(study._storage.get_trial(trial._trial_id))
        ended.state, ended.values = state, None if values is None else list(values)
        trials = [
            ended if each.number == trial.number else each
            for each in study.get_trials(deepcopy=False)
        ]
        if "declined" in ended.system_attrs.get(RECORD, {}):
            return
        settings = self._arguments.settings(self._space or PLACEHOLDER, study)
        missing = missing_cost(settings, cost_of(ended, settings))
        if (
            missing is not None
            and state == TrialState.COMPLETE
            and not _is_known(settings, missing)
        ):
            raise InvalidInput(
                f"Trial {trial.number} did not report its cost in {missing!r}, which the budget "
                'needs. Call trial.set_user_attr("cost", ...) in the objective, or give a rate.'
            )
        if settings.budget is not None or settings.stop is not None:
            with self._lock:
                verdict = self._verdict(study, trials)
            if verdict.stop:
                self._end(study, verdict)

    def reseed_rng(self) -> None:
        """Do nothing: the random numbers of a trial depend only on its number and the seed."""

    # ── for users ──────────────────────────────────────────────────────────────────────────

    def verdict(self, study: optuna.Study) -> Verdict:
        """Whether to stop now, and why."""
        with self._lock:
            return self._verdict(study, study.get_trials(deepcopy=False))

    def ledger(self, study: optuna.Study) -> Ledger:
        """The costs of the trials of this sampler so far."""
        trials = study.get_trials(deepcopy=False)
        translation = Translation.of(self._relative(trials), self._space)
        space = PLACEHOLDER if translation is None else translation.space
        settings = self._arguments.settings(space, study, translation)
        return ledger_of(trials, settings, datetime.now(), self._here, translation)

    def can_pay(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether the budget pays for what a running trial has cost until now."""
        settings = self._arguments.settings(self._space or PLACEHOLDER, study)
        if settings.budget is None:
            return True
        running, clock = copy.copy(trial), self._clocks.get(trial._trial_id)
        seconds = _since(trial) if clock is None else clock.seconds
        running.user_attrs = {**trial.user_attrs, SECONDS: seconds}
        ledger, cost = self.ledger(_whole(study)), cost_of(running, settings)
        return all(
            ledger[r].left > (0.0 if r == "s" else cost.get(r, 0.0))
            for r in ledger.limited_resources
            if r != "trials"
        )

    # ── suggesting ─────────────────────────────────────────────────────────────────────────

    @property
    def _seed(self) -> int:
        return self._arguments.settings(PLACEHOLDER).seed

    @property
    def _here(self) -> list[int]:
        """The numbers of the trials that run in this process."""
        clocks = tuple(self._clocks.values())  # other threads may change the dictionary
        return [clock.number for clock in clocks if clock.number is not None]

    def _clock(self, trial: FrozenTrial) -> _Clock:
        """The clock of a trial; time inside of its context belongs to the sampler."""
        clock = self._clocks.setdefault(trial._trial_id, _Clock())
        clock.number = trial.number
        return clock

    def _relative(self, trials: list[FrozenTrial]) -> dict[str, BaseDistribution]:
        found = self._distributions
        if found is None:
            found = intersection_search_space(trials, include_pruned=True)
        return {name: found[name] for name in sorted(found) if not found[name].single()}

    def _suggest(
        self,
        study: optuna.Study,
        trials: list[FrozenTrial],
        translation: Translation,
        settings: Settings,
    ) -> tuple[Suggestion, float]:
        """The suggestion, cached until the state changes, and the seconds that it took."""
        start = time.perf_counter()
        state = state_of(trials, translation, settings, datetime.now(), self._here)
        key = (study.study_name, translation.space, state.version())
        if self._cached is None or self._cached[0] != key:
            with one_thread():
                self._cached = key, suggest(settings, state)
        return self._cached[1], time.perf_counter() - start

    def _verdict(self, study: optuna.Study, trials: list[FrozenTrial]) -> Verdict:
        translation = Translation.of(self._relative(trials), self._space)
        if translation is None:
            settings = self._arguments.settings(PLACEHOLDER, study)
            spent = ledger_of(trials, settings, datetime.now(), self._here).used_up
            return SPENT if spent else Verdict(False, "there is no trial yet")
        settings = self._arguments.settings(translation.space, study, translation)
        return self._suggest(study, trials, translation, settings)[0].verdict

    def _end(self, study: optuna.Study, verdict: Verdict) -> Exception:
        """Stop `study.optimize` if it runs; return the exception for a trial that was about to "
        "start."""
        study._storage.set_study_user_attr(study._study_id, STOPPED, verdict.because)
        if not study._thread_local.in_optimize_loop:
            return Stopped(verdict.reason)
        study.stop()
        return optuna.TrialPruned(verdict.because)


class _Clock:
    """The seconds of an objective, without those of its sampler."""

    def __init__(self) -> None:
        self.overhead = 0.0  # seconds that are not in a record yet
        self.number: int | None = None
        self._start = time.perf_counter()
        self._sampler_s = 0.0
        self._since = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of the objective until now."""
        return max(time.perf_counter() - self._start - self._sampler_s, 1e-9)

    def __enter__(self) -> _Clock:
        self._since = time.perf_counter()
        return self

    def __exit__(self, *raised: object) -> None:
        took = time.perf_counter() - self._since
        self._sampler_s += took
        self.overhead += took


class StopAtBudget:
    """A callback that stops a study with any sampler when a budget is spent.

        study.optimize(objective, callbacks=[StopAtBudget("$40")])

    Every trial of the study counts, with its reported cost, `trial.set_user_attr("cost", ...)`, or
    else with its seconds.

    Args:
        budget: "2h", "$40", a number.
        rate: the price of the machine, "$3.06/h".
    """

    def __init__(self, budget: AnyBudget, *, rate: str | None = None) -> None:
        self._settings = Arguments(budget, rate, {}).settings(PLACEHOLDER)

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Stop the study if the budget is spent; Optuna calls this after every trial."""
        counted = []
        for each in study.get_trials(deepcopy=False):
            each = copy.copy(each)
            each.system_attrs = {**each.system_attrs, RECORD: {"think_s": 0.0}}
            counted.append(each)
        if ledger_of(counted, self._settings, datetime.now()).used_up:
            study.set_user_attr(STOPPED, f"the budget of {self._settings.budget} is spent")
            study.stop()


# ── settings ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Arguments:
    """The arguments of a sampler, which become settings once the space and the study are known."""

    budget: AnyBudget
    rate: str | None
    given: Mapping[str, Any]

    def settings(
        self,
        space: Space,
        study: optuna.Study | None = None,
        translation: Translation | None = None,
    ) -> Settings:
        """The settings for a space, with the direction of a study."""
        options: dict[str, Any] = {**self.given, "rate": self.rate}
        if space is PLACEHOLDER:
            options.pop("start", None)
        cost = options.get("cost")
        if callable(cost) and not hasattr(cost, "fit") and translation is not None:
            options["cost"] = lambda params: cost(translation.theirs(params))
        if study is not None and study.direction.name in ("MINIMIZE", "MAXIMIZE"):
            options["direction"] = study.direction.name.lower()
        limits = {} if self.budget is None else Budget(self.budget).limits
        if options.get("steps") is not None:
            options["steps"] = without_resume(options["steps"])
        elif options.get("policy") is None and not set(limits) - {"trials"}:
            options["policy"] = EIPerCost()
        return Settings.of(space, self.budget, **options)


def _space_and_distributions(
    given: Mapping[str, BaseDistribution] | AnySpace,
) -> tuple[Space | None, dict[str, BaseDistribution]]:
    """The space, if the user gave one of Farthing, and the distributions of Optuna."""
    if isinstance(given, Space):
        return given, distributions_of(given)
    theirs = {n: each for n, each in given.items() if isinstance(each, BaseDistribution)}
    if theirs and len(theirs) == len(given):
        return None, theirs
    if theirs:
        raise InvalidInput(
            "search_space: expected distributions of Optuna or parameters of Farthing, not both."
        )
    space = Space({n: each for n, each in given.items() if not isinstance(each, BaseDistribution)})
    return space, distributions_of(space)


def _whole(study: optuna.Study) -> optuna.Study:
    """The whole study: a pruner may show a sampler only a part of it, but there is one budget."""
    whole: optuna.Study = getattr(study, "_study", study)
    return whole


def _is_known(settings: Settings, resource: str) -> bool:
    return isinstance(settings.learners.get(resource), KnownBeforehand)


def _attribute(study: optuna.Study, trial: FrozenTrial, record: Mapping[str, Any]) -> None:
    """Store the record of a trial, so that other processes know it from the start."""
    study._storage.set_trial_system_attr(trial._trial_id, RECORD, dict(record))


def _since(trial: FrozenTrial) -> float:
    """Seconds since the start of a trial that another process has started."""
    start = trial.datetime_start or datetime.now()
    return max((datetime.now() - start).total_seconds(), 1e-9)


def _seed(seed: int, trial: FrozenTrial, name: str) -> list[int]:
    return [seed, trial.number, zlib.crc32(name.encode())]
