"""Cost models, one a file: what an evaluation will cost, as a distribution of ln c."""

from farthing.cost.known import Known
from farthing.cost.linear import Linear
from farthing.cost.log_gp import LogGP
from farthing.cost.median import Median
from farthing.cost.model import CostLearner, CostModel, Evidence, Following, KnownBeforehand
from farthing.cost.moving import Moving

__all__ = [
    "CostLearner",
    "CostModel",
    "Evidence",
    "Following",
    "Known",
    "KnownBeforehand",
    "Linear",
    "LogGP",
    "Median",
    "Moving",
]
