"""What pausing has saved: the steps that paused trainings have not run, at their own cost.

    saved = sum over paused trials i of (cost of i so far / its step) x (last step - its step)

This is an estimate: the coming steps would cost as much as those so far, whose start-up is
included. A training that is resumed later has saved less. In a study with `resume="never"`, these
are the trainings that were stopped early.
"""

from __future__ import annotations

from typing import NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.history import Trial
from farthing.view.formatting import amounts
from farthing.view.training_parts import cost_per_step

__all__ = ["HOW_SAVED", "NOTHING_SAVED", "Saved", "saved_by_pausing"]


class Saved(NamedTuple):
    """What pausing has saved.

    Attributes:
        amounts: by resource of the budget that trials have a cost in.
        trials: the number of paused trainings.
        steps: the steps that these have not run.
        all_steps: the steps that all trainings would have run to the end.
    """

    amounts: dict[str, float]
    trials: int = 0
    steps: int = 0
    all_steps: int = 0

    def __str__(self) -> str:
        count = "1 training" if self.trials == 1 else f"{self.trials:,} trainings"
        text = f"{self.steps:,} of {self.all_steps:,} steps not run, by pausing {count}"
        return f"about {amounts(self.amounts)}: {text}" if self.amounts else text


HOW_SAVED = "This assumes that each step not run would cost as much as those before it."
NOTHING_SAVED = Saved({})


def saved_by_pausing(settings: Settings, state: State) -> Saved:
    """What the paused trainings of a study would cost until their last step."""
    steps = settings.steps
    own: list[Trial] = [] if steps is None else [t for t in state.history if not t.is_external]
    paused = [trial for trial in own if trial.state == "paused" and trial.curve]
    if steps is None or not paused:
        return NOTHING_SAVED
    found: dict[str, float] = {}
    for trial in paused:
        for resource, rate in cost_per_step(trial).items():
            if resource in settings.cost_resources:
                more = rate * (steps.last - trial.step)
                found[resource] = found.get(resource, 0.0) + more
    ahead = sum(steps.last - trial.step for trial in paused)
    begun = sum(bool(trial.curve) for trial in own)
    return Saved(found, len(paused), ahead, begun * steps.last)
