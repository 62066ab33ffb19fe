"""The names under which a database stores Farthing's own methods, parameters and settings.

A name is what users write: "Gittins", "any_of", "Float". It is not the path of a class, so classes
can be moved and renamed, and stored studies still open. Code of users is stored as "module:Name".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from farthing import cost, policies, stopping
from farthing.acquisition.scores import cheapness
from farthing.space.conditions import Range
from farthing.space.parameters import Categorical, Float, Int, Ordinal
from farthing.stopping.combine import _Combined, _Delayed

__all__ = [
    "FUNCTION",
    "KIND",
    "NAMES",
    "STORED_KEYS",
    "Named",
    "current",
    "current_notes",
    "name_of",
    "ours",
]

KIND, FUNCTION = "__is__", "__function__"  # keys of a description

# {field of Settings: its key in a database}, where they differ.
STORED_KEYS = {"max_overrun": "leash", "overhead": "thinking"}


@dataclass(frozen=True)
class Named:
    """The dataclass or function of a stored name.

    Attributes:
        before: the names under which earlier versions stored it.
        fixed: the values of fields that follow from the name. They are not stored.
        fields: {name of a field in earlier versions: its name}.
        newer: the values of fields that earlier versions did not have.
    """

    kind: Any
    before: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    newer: Mapping[str, Any] = field(default_factory=dict)


# To rename a class, change its row: the new name, the new class, and the old name in `before`.
# Never remove a name from `before`: a database may contain it.
NAMES: Mapping[str, Named] = {
    # parameters
    "Float": Named(Float, ("farthing.parameters:Float",)),
    "Int": Named(Int, ("farthing.parameters:Int",)),
    "Ordinal": Named(Ordinal, ("farthing.parameters:Ordinal",)),
    "Categorical": Named(Categorical, ("farthing.parameters:Categorical",)),
    # conditions
    "between": Named(Range),
    # policies
    "ASHA": Named(policies.ASHA),
    "CArBO": Named(policies.CArBO, ("farthing.policies.carbo:CArBO",)),
    "CostEffectiveDesign": Named(
        policies.CostEffectiveDesign, ("farthing.policies.cheap_cover:CheapCover",)
    ),
    "ConfidenceBound": Named(
        policies.ConfidenceBound, ("farthing.policies.confidence_bound:ConfidenceBound",)
    ),
    "ContextualEI": Named(policies.ContextualEI, ("farthing.policies.contextual:ContextualEI",)),
    "Cooling": Named(
        policies.Cooling, ("farthing.policies.cooling:Cooling",), newer={"first": 1.0}
    ),
    "EI": Named(policies.EI, ("farthing.policies.ei:EI",)),
    "EIPerCost": Named(policies.EIPerCost, ("farthing.policies.ei_per_cost:EIPerCost",)),
    "EIPerRemainingCost": Named(policies.EIPerRemainingCost),
    "Gittins": Named(policies.Gittins, ("farthing.policies.gittins:Gittins",)),
    "Hyperband": Named(policies.Hyperband),
    "LatinHypercube": Named(
        policies.LatinHypercube, ("farthing.policies.latin_hypercube:LatinHypercube",)
    ),
    "OneEpoch": Named(policies.OneEpoch),
    "Random": Named(policies.Random, ("farthing.policies.random:Random",)),
    "Rollout": Named(policies.Rollout, ("farthing.policies.rollout:Rollout",)),
    "Sobol": Named(policies.Sobol, ("farthing.policies.sobol:Sobol",)),
    "StagedGittins": Named(policies.StagedGittins),
    "StartWith": Named(policies.StartWith, ("farthing.policies.start_with:StartWith",)),
    "Thompson": Named(policies.Thompson, ("farthing.policies.thompson:Thompson",)),
    "cheapness": Named(cheapness, ("farthing.acquisition:cheapness",)),  # a base of Rollout
    # stopping rules
    "EIRatio": Named(stopping.EIRatio, ("farthing.stopping.ei_faded:EIFaded",)),
    "SmallImprovement": Named(
        stopping.SmallImprovement, ("farthing.stopping.insignificant:Insignificant",)
    ),
    "MaxTrials": Named(stopping.MaxTrials, ("farthing.stopping.max_trials:MaxTrials",)),
    "NotWorthIt": Named(stopping.NotWorthIt, ("farthing.stopping.not_worth_it:NotWorthIt",)),
    "OutOfBudget": Named(stopping.OutOfBudget, ("farthing.stopping.out_of_budget:OutOfBudget",)),
    "ProbableRegret": Named(
        stopping.ProbableRegret, ("farthing.stopping.probable_regret:ProbableRegret",)
    ),
    "RegretGap": Named(stopping.RegretGap, ("farthing.stopping.regret_gap:RegretGap",)),
    "RegretGapRatio": Named(
        stopping.RegretGapRatio, ("farthing.stopping.regret_gap_faded:RegretGapFaded",)
    ),
    "NoImprovement": Named(stopping.NoImprovement, ("farthing.stopping.stalled:Stalled",)),
    "Target": Named(stopping.Target, ("farthing.stopping.target:Target",)),
    "any_of": Named(_Combined, ("farthing.decision:_Several",), {"everyone": False}),
    "all_of": Named(_Combined, ("farthing.decision:_Several",), {"everyone": True}),
    "in_a_row": Named(_Delayed, ("farthing.decision:_Held",), {"trials": 0}),
    "after": Named(_Delayed, ("farthing.decision:_Held",), {"times": 1}),
    # cost models
    "CNNFlops": Named(cost.CNNFlops, ("farthing.cost.flops:CNNFlops",)),
    "AutoCost": Named(cost.AutoCost, ("farthing.cost.choose:Choose",)),
    "Flops": Named(cost.Flops, ("farthing.cost.flops:Flops",)),
    "Known": Named(cost.Known, ("farthing.cost.known:Known",)),
    "Linear": Named(cost.Linear, ("farthing.cost.linear:Linear",)),
    "LogGP": Named(cost.LogGP, ("farthing.cost.log_gp:LogGP",)),
    "MLPFlops": Named(cost.MLPFlops, ("farthing.cost.flops:MLPFlops",)),
    "PointEstimate": Named(cost.PointEstimate, ("farthing.cost.median:Median",)),
    "SwitchingCost": Named(cost.SwitchingCost, ("farthing.cost.moving:Moving",)),
    "ResidualGP": Named(cost.ResidualGP, ("farthing.cost.residual_gp:ResidualGP",)),
    "SelectedGP": Named(cost.SelectedGP, ("farthing.cost.selected_gp:SelectedGP",)),
    "Transfer": Named(cost.Transfer, ("farthing.cost.transfer:Transfer",)),
}


def ours(name: Any) -> Named | None:
    """The entry of a stored name; None if it is not one of Farthing's."""
    return NAMES.get(name) if isinstance(name, str) else None


def name_of(value: Any) -> str | None:
    """The name of an instance or a function of Farthing's; None for code of users."""
    for name, row in NAMES.items():
        same = row.kind is value or row.kind is type(value)
        if same and all(getattr(value, key) == fixed for key, fixed in row.fixed.items()):
            return name
    return None


def current(described: Any) -> Any:
    """A description in the form of this version, whichever version wrote it."""
    if isinstance(described, list | tuple):
        return type(described)(current(item) for item in described)
    if not isinstance(described, Mapping):
        return described
    entries = {key: current(item) for key, item in described.items()}
    for key in (KIND, FUNCTION):
        if isinstance(name := entries.get(key), str):
            return _renamed(key, name, entries)
    return entries


def _renamed(key: str, name: str, entries: dict[str, Any]) -> dict[str, Any]:
    candidates = (
        new
        for new, row in NAMES.items()
        if name in row.before and all(entries.get(k) == fixed for k, fixed in row.fixed.items())
    )
    new = next(candidates, name)
    row = NAMES.get(new, Named(None))
    dropped = row.fixed if new != name else {}
    kept = {
        row.fields.get(k, k): item for k, item in entries.items() if k != key and k not in dropped
    }
    return {key: new, **row.newer, **kept}


# `in_a_row` counts in a note whose key contains the `repr` of its rule.
STREAK = "in a row: "
CLASSES = {
    path.rpartition(":")[2]: name
    for name, row in NAMES.items()
    for path in row.before
    if isinstance(row.kind, type) and path.rpartition(":")[2] not in (name, row.kind.__name__)
}
OLD_CLASS = re.compile(rf"\b({'|'.join(CLASSES)})(?=\()")


def current_notes(notes: dict[str, Any]) -> dict[str, Any]:
    """The notes of a trial with current class names."""
    if not any(key.startswith(STREAK) for key in notes):
        return notes
    return {
        OLD_CLASS.sub(lambda old: CLASSES[old[1]], key) if key.startswith(STREAK) else key: note
        for key, note in notes.items()
    }
