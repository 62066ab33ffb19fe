"""Cost models, one per file: the distribution of ln c, where c is the cost of an evaluation."""

from farthing.cost.auto_cost import AutoCost
from farthing.cost.flops import CNNFlops, Flops, MLPFlops
from farthing.cost.known import Known
from farthing.cost.linear import Linear
from farthing.cost.log_gp import LogGP
from farthing.cost.model import (
    CostLearner,
    CostModel,
    DependsOnPrevious,
    Evidence,
    KnownBeforehand,
    Trend,
)
from farthing.cost.point_estimate import PointEstimate
from farthing.cost.residual_gp import ResidualGP
from farthing.cost.selected_gp import SelectedGP
from farthing.cost.switching_cost import SwitchingCost
from farthing.cost.transfer import Transfer

__all__ = [
    "AutoCost",
    "CNNFlops",
    "CostLearner",
    "CostModel",
    "DependsOnPrevious",
    "Evidence",
    "Flops",
    "Known",
    "KnownBeforehand",
    "Linear",
    "LogGP",
    "MLPFlops",
    "PointEstimate",
    "ResidualGP",
    "SelectedGP",
    "SwitchingCost",
    "Transfer",
    "Trend",
]
