"""How a trial was chosen: by a policy that compares points, or in another way."""

from __future__ import annotations

from typing import Literal

from farthing.core.settings import Settings
from farthing.history import Trial

__all__ = ["WITHOUT_COMPARISON", "ChosenBy", "chosen_by"]

ChosenBy = Literal[
    "model",
    "steps",
    "no model",
    "explore",
    "step",
    "design",
    "portfolio",
    "user",
    "retry",
    "import",
]

# What decided instead of a comparison of expected improvement and cost.
WITHOUT_COMPARISON: dict[ChosenBy, str] = {
    "steps": "The policy compared new and paused trainings: what each promises at its last step, "
    "and what its next steps cost.",
    "no model": "The policy uses no model: it compares neither improvement nor cost.",
    "explore": "It explores a part of the space without trials, whatever improvement is expected.",
    "step": "It is a small step from the best point, which needs no comparison of points.",
    "design": "It belongs to the initial design, from which the models learn. These trials are "
    "spread over the space at a low cost, whatever improvement is expected.",
    "portfolio": "It belongs to the initial design, from which the models learn. Earlier studies "
    "expect much improvement there for its cost.",
    "user": "A user asked for this point, so it was not compared with others.",
    "retry": "It repeats a lost trial, so it was not compared with other points.",
    "import": "It was evaluated outside this study and imported with its result.",
}


def chosen_by(settings: Settings, trial: Trial) -> ChosenBy:
    """What chose a trial; only `model` compares expected improvements."""
    match trial.origin:
        case "design":
            return "portfolio" if "portfolio" in trial.notes else "design"
        case "enqueued":
            return "user"
        case "retry":
            return "retry"
        case "imported":
            return "import"
        case "suggested":
            if trial.notes.get("phase") == "explore":  # before 19 November 2026
                return "explore"
            if trial.notes.get("effort") == "none":
                return "step"
            uses = settings.policy.needs | settings.policy.reads
            if {"model", "steps"} <= settings.policy.needs:
                return "steps"
            return "model" if "model" in uses or settings.unimported else "no model"
