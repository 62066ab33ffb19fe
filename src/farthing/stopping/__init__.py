"""Reasons to stop, one a file."""

from farthing.decision import all_of, any_of
from farthing.stopping.max_trials import MaxTrials
from farthing.stopping.not_worth_it import NotWorthIt
from farthing.stopping.out_of_budget import OutOfBudget
from farthing.stopping.target import Target

__all__ = ["MaxTrials", "NotWorthIt", "OutOfBudget", "Target", "all_of", "any_of"]
