"""The settings of an Optuna sampler, which depend on its study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.distributions import BaseDistribution

from farthing.budget.units import Budget
from farthing.core.options import AnyBudget, AnySpace
from farthing.core.settings import Settings
from farthing.earlier import Source
from farthing.errors import InvalidInput
from farthing.integrations.optuna_curves import without_resume
from farthing.integrations.optuna_sources import sources_of
from farthing.integrations.optuna_space import Translation, distributions_of
from farthing.integrations.optuna_state import constraint_names
from farthing.policies import EIPerCost
from farthing.space.space import Float, Space

__all__ = ["PLACEHOLDER", "Arguments", "check_one_objective", "space_and_distributions"]

PLACEHOLDER = Space({"x": Float(0, 1)})  # where only the budget and the direction matter


@dataclass(frozen=True)
class Arguments:
    """The arguments of a sampler, which become settings once the space and the study are known."""

    budget: AnyBudget
    rate: str | None
    given: Mapping[str, Any]
    _read: dict[tuple[Space, str], tuple[Source, ...]] = field(default_factory=dict, repr=False)

    def settings(
        self,
        space: Space,
        study: optuna.Study | None = None,
        translation: Translation | None = None,
    ) -> Settings:
        """The settings for a space, with the direction and the constraints of a study."""
        options: dict[str, Any] = {**self.given, "rate": self.rate}
        earlier = options.pop("learn_from", None)
        if space is PLACEHOLDER:
            options.pop("start", None)
        cost = options.get("cost")
        if callable(cost) and not hasattr(cost, "fit") and translation is not None:
            options["cost"] = lambda params: cost(translation.theirs(params))
        if study is not None:
            check_one_objective(study)
            if study.direction.name in ("MINIMIZE", "MAXIMIZE"):
                options["direction"] = study.direction.name.lower()
            names = constraint_names(study.get_trials(deepcopy=False))
            options["constraints"] = {
                **(options.get("constraints") or {}),
                **dict.fromkeys(names, "<= 0"),
            } or None
        limits = {} if self.budget is None else Budget(self.budget).limits
        if options.get("steps") is not None:
            options["steps"] = without_resume(options["steps"])
        elif options.get("policy") is None and not set(limits) - {"trials"}:
            options["policy"] = EIPerCost()
        settings = Settings.of(space, self.budget, **options)
        if earlier is None or space is PLACEHOLDER:
            return settings
        key = space, settings.direction
        if key not in self._read:  # once: a file may change
            found = sources_of(earlier, settings, translation)
            if found and found not in self._read.values():
                log = optuna.logging.get_logger("optuna.farthing")
                log.info(f"Learns from {'; '.join(map(str, found))}.")
            self._read[key] = found
        return Settings.of(space, self.budget, **options, learn_from=self._read[key])


def space_and_distributions(
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


def check_one_objective(study: optuna.Study) -> None:
    """Raise InvalidInput if a study has several objectives."""
    if len(study.directions) > 1:
        raise InvalidInput(
            f"CostAwareSampler has one objective, but the Optuna study {study.study_name!r} has "
            f"{len(study.directions)}. Use a sampler of Optuna, which "
            "callbacks=[StopAtBudget(...)] can stop."
        )
