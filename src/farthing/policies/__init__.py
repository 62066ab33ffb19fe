"""Policies: methods that choose the next evaluation, one per file."""

from farthing.policies.asha import ASHA
from farthing.policies.carbo import CArBO
from farthing.policies.confidence_bound import ConfidenceBound
from farthing.policies.contextual import ContextualEI
from farthing.policies.cooling import Cooling
from farthing.policies.cost_effective_design import CostEffectiveDesign
from farthing.policies.ei import EI
from farthing.policies.ei_per_cost import EIPerCost
from farthing.policies.ei_per_remaining_cost import EIPerRemainingCost
from farthing.policies.gittins import Gittins
from farthing.policies.hyperband import Hyperband
from farthing.policies.latin_hypercube import LatinHypercube
from farthing.policies.one_epoch import OneEpoch
from farthing.policies.random import Random
from farthing.policies.rollout import Rollout
from farthing.policies.sobol import Sobol
from farthing.policies.staged_gittins import StagedGittins
from farthing.policies.start_with import StartWith
from farthing.policies.thompson import Thompson

__all__ = [
    "ASHA",
    "EI",
    "CArBO",
    "ConfidenceBound",
    "ContextualEI",
    "Cooling",
    "CostEffectiveDesign",
    "EIPerCost",
    "EIPerRemainingCost",
    "Gittins",
    "Hyperband",
    "LatinHypercube",
    "OneEpoch",
    "Random",
    "Rollout",
    "Sobol",
    "StagedGittins",
    "StartWith",
    "Thompson",
]
