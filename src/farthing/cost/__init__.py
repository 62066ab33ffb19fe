"""Cost models, one a file: what an evaluation will cost, as a distribution of ln c."""

from farthing.cost.known import Known
from farthing.cost.linear import Linear
from farthing.cost.log_gp import LogGP
from farthing.cost.median import Median
from farthing.cost.model import (
    CostLearner,
    CostModel,
    Evidence,
    Explained,
    KnownBeforehand,
    LeavesOut,
)

__all__ = [
    "CostLearner",
    "CostModel",
    "Evidence",
    "Explained",
    "Known",
    "KnownBeforehand",
    "LeavesOut",
    "Linear",
    "LogGP",
    "Median",
]
