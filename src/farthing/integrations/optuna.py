"""Optuna with a budget: a sampler, a callback, an importer and a mirror.

    study = optuna.create_study(sampler=CostAwareSampler(budget="10m"))
    study.optimize(objective)

What a trial costs is what it says, `trial.set_user_attr("cost", 3.5)` (or {resource: amount}); a
trial that says nothing costs the seconds that its objective took, without the sampler's own. Optuna
asks a sampler when a trial has begun already, and cannot end one: so a trial that cannot be paid
is pruned before it does anything, and one that is under way is let finish.
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
from farthing.core.outcomes import unpriced
from farthing.core.settings import AnyBudget, AnySpace, SearchOptions, Settings, takes_settings
from farthing.core.suggest import Suggestion, one_thread, suggest
from farthing.cost import KnownBeforehand
from farthing.history import BUDGET_SPENT
from farthing.integrations.optuna_exchange import Mirror, import_study
from farthing.integrations.optuna_space import Translation, distributions_of, space_of
from farthing.integrations.optuna_state import RECORD, SECONDS, cost_of, ledger_of, state_of
from farthing.policies import EIPerCost
from farthing.space.space import Float, Space

__all__ = ["CostAwareSampler", "Mirror", "StopAtBudget", "import_study", "space_of"]

STOPPED = "farthing:stopped"  # the attribute of a study that says why it was stopped
SPENT = Verdict(True, BUDGET_SPENT.sentence, kind=BUDGET_SPENT.kind)
NOWHERE = Space({"x": Float(0, 1)})
NOT_HERE = {
    "direction": "it is the study's. Say optuna.create_study(direction=...)",
    "leash": "Optuna cannot end a trial from outside. Use a pruner, or farthing.Study",
}


class CostAwareSampler(BaseSampler):  # type: ignore[misc,unused-ignore]
    """Choose trials by what they promise and what they cost, within a budget.

    When the budget is spent, or a rule says stop, `study.optimize` ends; why is the study's
    attribute "farthing:stopped". The verdict is a function of what Optuna has stored, so every
    process that works on the study comes to it.

    Args:
        search_space: {name: Optuna's distribution}, or a Farthing space, which may say what makes
            things dearer. None: what all trials so far have in common, as in Optuna's samplers;
            the first trial is then in the middle of what it suggests, and a parameter that only
            some trials have is drawn at random.
        budget: what the trials of this sampler may cost in all: "2h", "$40"; None: no limit.
        rate: what a second costs, "$3.06/h".

    The other arguments are the Optimizer's, but for the direction, which is the study's. Without a
    budget of something that is paid, the policy is EI per cost.
    """

    @takes_settings(SearchOptions)
    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution] | AnySpace | None = None,
        budget: AnyBudget = None,
        rate: str | None = None,
        **settings: Unpack[SearchOptions],
    ) -> None:
        for name, why in NOT_HERE.items():
            if name in settings:
                raise InvalidInput(f"CostAwareSampler(... {name}=...): {why}.")
        self._space: Space | None = None
        self._distributions: dict[str, BaseDistribution] | None = None
        if search_space is not None:
            self._space, self._distributions = _both(search_space)
        self._rules = Rules(budget, rate, dict(settings))
        self._rules.settings(self._space or NOWHERE)  # what cannot be is refused now
        self._kept: tuple[Any, Suggestion] | None = None
        self._clocks: dict[int, _Clock] = {}  # by trial
        self._lock = threading.Lock()  # Optuna's threads share a sampler

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None, "_kept": None, "_clocks": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    # ── what Optuna asks ───────────────────────────────────────────────────────────────────

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Its clock begins."""
        self._clocks[trial._trial_id] = _Clock()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """What is chosen together: what was given, or what all trials have in common."""
        with self._clock(trial):
            return self._relative(_whole(study).get_trials(deepcopy=False))

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """What to evaluate next.

        Raises:
            optuna.TrialPruned: nothing is left to pay for it; in a study that is only asked, and
                not optimised, `Stopped`.
        """
        self._raise_error_if_multi_objective(study)
        study = _whole(study)
        with self._clock(trial) as clock, self._lock:
            translation = Translation.of(search_space, self._space)
            if translation is None:
                return {}
            others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
            settings = self._rules.settings(translation.space, study, translation)
            suggestion, seconds = self._suggest(study, others, translation, settings)
            if suggestion.proposal.x is None and settings.budget is None:
                # Everything was tried: whoever goes on wants some of it again.
                rng = np.random.default_rng(_seed(settings.seed, trial, ""))
                x = translation.space.sample(1, rng)[0]
                suggestion = suggestion._replace(proposal=replace(suggestion.proposal, x=x))
            if suggestion.proposal.x is None:
                _attribute(study, trial, {"declined": suggestion.verdict.because})
                raise self._end(study, suggestion.verdict)
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
        """A parameter that is not chosen together: the middle in the first trial, then uniform."""
        self._raise_error_if_multi_objective(study)
        study = _whole(study)
        with self._clock(trial):
            if RECORD not in study._storage.get_trial(trial._trial_id).system_attrs:
                settings = self._rules.settings(NOWHERE, study)
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
            if translation is None:  # one value, or more than a cube can tell apart
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
        """Its clock ends; stop the study if the budget is spent or a rule says so.

        Raises:
            InvalidInput: it did not say what it cost in something that only it can know.
        """
        study, clock = _whole(study), self._clocks.pop(trial._trial_id, None)
        seconds = _since(trial) if clock is None else clock.seconds
        study._storage.set_trial_user_attr(trial._trial_id, SECONDS, seconds)
        over = copy.copy(study._storage.get_trial(trial._trial_id))
        over.state, over.values = state, None if values is None else list(values)
        trials = [
            over if each.number == trial.number else each
            for each in study.get_trials(deepcopy=False)
        ]
        if "declined" in over.system_attrs.get(RECORD, {}):
            return
        settings = self._rules.settings(self._space or NOWHERE, study)
        missing = unpriced(settings, cost_of(over, settings))
        if (
            missing is not None
            and state == TrialState.COMPLETE
            and not _is_known(settings, missing)
        ):
            raise InvalidInput(
                f"Trial {trial.number} did not say what it cost in {missing!r}, which the budget "
                'needs. Say trial.set_user_attr("cost", ...) in the objective, or give a rate.'
            )
        if settings.budget is not None or settings.stop is not None:
            with self._lock:
                verdict = self._verdict(study, trials)
            if verdict.stop:
                self._end(study, verdict)

    def reseed_rng(self) -> None:
        """Nothing to do: what is drawn for a trial depends on its number and the seed alone."""

    # ── what a user may ask ────────────────────────────────────────────────────────────────

    def verdict(self, study: optuna.Study) -> Verdict:
        """Whether to stop now, and why."""
        with self._lock:
            return self._verdict(study, study.get_trials(deepcopy=False))

    def ledger(self, study: optuna.Study) -> Ledger:
        """What the trials of this sampler have cost so far."""
        trials = study.get_trials(deepcopy=False)
        translation = Translation.of(self._relative(trials), self._space)
        space = NOWHERE if translation is None else translation.space
        settings = self._rules.settings(space, study, translation)
        return ledger_of(trials, settings, datetime.now(), self._here, translation)

    # ── thinking ───────────────────────────────────────────────────────────────────────────

    @property
    def _seed(self) -> int:
        return self._rules.settings(NOWHERE).seed

    @property
    def _here(self) -> list[int]:
        """The trials that are running in this process."""
        clocks = tuple(self._clocks.values())  # other threads begin and end theirs
        return [clock.number for clock in clocks if clock.number is not None]

    def _clock(self, trial: FrozenTrial) -> _Clock:
        """The clock of a trial; while inside, the time is ours and not its objective's."""
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
        """One thought, kept until something new is known; and how long it took."""
        begun = time.perf_counter()
        state = state_of(trials, translation, settings, datetime.now(), self._here)
        key = (study.study_name, translation.space, state.known())
        if self._kept is None or self._kept[0] != key:
            with one_thread():
                self._kept = key, suggest(settings, state)
        return self._kept[1], time.perf_counter() - begun

    def _verdict(self, study: optuna.Study, trials: list[FrozenTrial]) -> Verdict:
        translation = Translation.of(self._relative(trials), self._space)
        if translation is None:
            settings = self._rules.settings(NOWHERE, study)
            spent = ledger_of(trials, settings, datetime.now(), self._here).used_up
            return SPENT if spent else Verdict(False, "nothing is known yet")
        settings = self._rules.settings(translation.space, study, translation)
        return self._suggest(study, trials, translation, settings)[0].verdict

    def _end(self, study: optuna.Study, verdict: Verdict) -> Exception:
        """Stop the loop if there is one; what to raise if a trial was about to begin."""
        study._storage.set_study_user_attr(study._study_id, STOPPED, verdict.because)
        if not study._thread_local.in_optimize_loop:
            return Stopped(verdict.reason)
        study.stop()
        return optuna.TrialPruned(verdict.because)


class _Clock:
    """How long an objective took, without the time that its sampler did."""

    def __init__(self) -> None:
        self.overhead = 0.0  # seconds that are in no record yet
        self.number: int | None = None
        self._begun = time.perf_counter()
        self._ours = 0.0
        self._since = 0.0

    @property
    def seconds(self) -> float:
        """Until now."""
        return max(time.perf_counter() - self._begun - self._ours, 1e-9)

    def __enter__(self) -> _Clock:
        self._since = time.perf_counter()
        return self

    def __exit__(self, *raised: object) -> None:
        took = time.perf_counter() - self._since
        self._ours += took
        self.overhead += took


class StopAtBudget:
    """A callback that stops a study, whatever its sampler, when a budget is spent.

        study.optimize(objective, callbacks=[StopAtBudget("$40")])

    Every trial of the study counts: with what it said it cost, `trial.set_user_attr("cost", ...)`,
    or else with its seconds.

    Args:
        budget: "2h", "$40", a number.
        rate: what a second costs, "$3.06/h".
    """

    def __init__(self, budget: AnyBudget, *, rate: str | None = None) -> None:
        self._settings = Rules(budget, rate, {}).settings(NOWHERE)

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """After every trial."""
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
class Rules:
    """What a sampler was made with, which becomes settings when a space and a study are known."""

    budget: AnyBudget
    rate: str | None
    given: Mapping[str, Any]

    def settings(
        self,
        space: Space,
        study: optuna.Study | None = None,
        translation: Translation | None = None,
    ) -> Settings:
        """For that space, in the direction of that study."""
        said: dict[str, Any] = {**self.given, "rate": self.rate}
        if space is NOWHERE:
            said.pop("start", None)
        known = said.get("cost")
        if callable(known) and not hasattr(known, "fit") and translation is not None:
            said["cost"] = lambda params: known(translation.theirs(params))
        if study is not None and study.direction.name in ("MINIMIZE", "MAXIMIZE"):
            said["direction"] = study.direction.name.lower()
        limits = {} if self.budget is None else Budget(self.budget).limits
        if said.get("policy") is None and not set(limits) - {"trials"}:
            said["policy"] = EIPerCost()
        return Settings.of(space, self.budget, **said)


def _both(
    given: Mapping[str, BaseDistribution] | AnySpace,
) -> tuple[Space | None, dict[str, BaseDistribution]]:
    """A space in our language, if it was given so, and in Optuna's."""
    if isinstance(given, Space):
        return given, distributions_of(given)
    theirs = {n: each for n, each in given.items() if isinstance(each, BaseDistribution)}
    if theirs and len(theirs) == len(given):
        return None, theirs
    if theirs:
        raise InvalidInput("search_space: expected Optuna's distributions or ours, not both.")
    space = Space({n: each for n, each in given.items() if not isinstance(each, BaseDistribution)})
    return space, distributions_of(space)


def _whole(study: optuna.Study) -> optuna.Study:
    """The study, where a pruner shows a sampler only a bracket of it: there is one budget."""
    whole: optuna.Study = getattr(study, "_study", study)
    return whole


def _is_known(settings: Settings, resource: str) -> bool:
    return isinstance(settings.learners.get(resource), KnownBeforehand)


def _attribute(study: optuna.Study, trial: FrozenTrial, record: Mapping[str, Any]) -> None:
    """What others must know of a trial before it has suggested anything."""
    study._storage.set_trial_system_attr(trial._trial_id, RECORD, dict(record))


def _since(trial: FrozenTrial) -> float:
    """Seconds since a trial began, which another process has asked for."""
    begun = trial.datetime_start or datetime.now()
    return max((datetime.now() - begun).total_seconds(), 1e-9)


def _seed(seed: int, trial: FrozenTrial, name: str) -> list[int]:
    return [seed, trial.number, zlib.crc32(name.encode())]
