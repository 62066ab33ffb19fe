"""Cost models, one a file: what an evaluation will cost, as a distribution of ln c."""

from farthing.cost.auto_cost import AutoCost
from farthing.cost.flops import CNNFlops, Flops, MLPFlops
from farthing.cost.known import Known
from farthing.cost.linear import Linear
from farthing.cost.log_gp import LogGP
from farthing.cost.model import (
    Bounded,
    CostLearner,
    CostModel,
    Evidence,
    Explained,
    Following,
    KnownBeforehand,
    LeavesOut,
    Trend,
    TrendLearner,
)
from farthing.cost.point_estimate import PointEstimate
from farthing.cost.residual_gp import ResidualGP
from farthing.cost.selected_gp import SelectedGP
from farthing.cost.switching_cost import SwitchingCost
from farthing.cost.transfer import Transfer

__all__ = [
    "AutoCost",
    "Bounded",
    "CNNFlops",
    "CostLearner",
    "CostModel",
    "Evidence",
    "Explained",
    "Flops",
    "Following",
    "Known",
    "KnownBeforehand",
    "LeavesOut",
    "Linear",
    "LogGP",
    "MLPFlops",
    "PointEstimate",
    "ResidualGP",
    "SelectedGP",
    "SwitchingCost",
    "Transfer",
    "Trend",
    "TrendLearner",
]
