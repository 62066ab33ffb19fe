"""Stopping rules, one per file."""

from farthing.stopping.combine import after, all_of, any_of, in_a_row
from farthing.stopping.ei_ratio import EIRatio
from farthing.stopping.max_trials import MaxTrials
from farthing.stopping.no_improvement import NoImprovement
from farthing.stopping.not_worth_it import NotWorthIt
from farthing.stopping.out_of_budget import OutOfBudget
from farthing.stopping.probable_regret import ProbableRegret
from farthing.stopping.regret_gap import RegretGap
from farthing.stopping.regret_gap_ratio import RegretGapRatio
from farthing.stopping.small_improvement import SmallImprovement
from farthing.stopping.target import Target

__all__ = [
    "EIRatio",
    "MaxTrials",
    "NoImprovement",
    "NotWorthIt",
    "OutOfBudget",
    "ProbableRegret",
    "RegretGap",
    "RegretGapRatio",
    "SmallImprovement",
    "Target",
    "after",
    "all_of",
    "any_of",
    "in_a_row",
]
