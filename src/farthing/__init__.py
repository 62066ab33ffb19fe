"""Cost-aware Bayesian optimisation: spend a budget where it buys most."""

from farthing import cost, policies, stopping
from farthing.errors import FarthingError, InvalidInput, Stopped
from farthing.history import History, Outcome, Trial
from farthing.ledger import Budget, Ledger
from farthing.loop import Result, minimize
from farthing.optimizer import Optimizer
from farthing.space import Categorical, Float, Int, Ordinal, Space

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "Categorical",
    "FarthingError",
    "Float",
    "History",
    "Int",
    "InvalidInput",
    "Ledger",
    "Optimizer",
    "Ordinal",
    "Outcome",
    "Result",
    "Space",
    "Stopped",
    "Trial",
    "cost",
    "minimize",
    "policies",
    "stopping",
]
