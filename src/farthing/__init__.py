"""Cost-aware Bayesian optimisation: spend a budget where it buys most."""

from typing import TYPE_CHECKING, Any

from farthing import cost, policies, stopping
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import Suggestion, suggest
from farthing.errors import FarthingError, InvalidInput, Stopped, StorageError
from farthing.history import History, Outcome, StopReason, Trial
from farthing.minimize import maximize, minimize
from farthing.optimizer import Optimizer
from farthing.space.conditions import at_least, at_most, between
from farthing.space.space import Bool, Categorical, Float, Int, Ordinal, Space
from farthing.steps import Steps
from farthing.view.result import Result

if TYPE_CHECKING:
    from farthing.study import Study

__version__ = "0.2.0"

__all__ = [
    "Bool",
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
    "Settings",
    "Space",
    "State",
    "Steps",
    "StopReason",
    "Stopped",
    "StorageError",
    "Study",
    "Suggestion",
    "Trial",
    "at_least",
    "at_most",
    "between",
    "cost",
    "maximize",
    "minimize",
    "policies",
    "stopping",
    "suggest",
]


def __getattr__(name: str) -> Any:
    """`Study` needs SQLAlchemy, which is loaded when it is first wanted."""
    if name == "Study":
        from farthing.study import Study

        return Study
    raise AttributeError(f"module 'farthing' has no attribute {name!r}")
