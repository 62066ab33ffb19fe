"""The parts of a training as plain values, and what it would cost to continue a paused one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farthing.core.part_reasons import reasons_of
from farthing.core.settings import Settings
from farthing.history import Trial

__all__ = ["cost_per_step", "going_on", "parts_of"]


def parts_of(trial: Trial) -> list[dict[str, Any]]:
    """The parts of a training in their order: steps, cost, and why each began, went on and ended.

    `ended` is "paused", or the state of the trial in its last part.
    """
    parts: list[dict[str, Any]] = []
    paid: Mapping[str, float] = {}
    for each in reasons_of(trial):
        if each.kind in ("started", "resumed"):
            # A program that exits at its rung, though it was to continue, is resumed to do so.
            if parts and [c["because"] for c in parts[-1]["continued"][-1:]] == [each.because]:
                parts[-1]["continued"].pop()
            first = {"part": each.part, "from": each.step, "because": each.because}
            parts.append({**first, "continued": [], "to": each.step, "cost": {}})
            paid = each.cost
            continue
        if each.part != parts[-1]["part"]:  # the reasons between were not kept
            between = {"part": each.part, "from": parts[-1]["to"], "because": ""}
            parts.append({**between, "continued": [], "cost": {}})
        part = parts[-1]
        part |= {"to": max(each.step, part["from"]), "cost": _difference(each.cost, paid)}
        if each.kind == "continued":
            part["continued"].append({"step": each.step, "because": each.because})
        else:
            part |= {"ended": "paused", "ended_because": each.because}
    last = parts[-1]
    if "ended" not in last:
        last |= {"to": max(trial.step, last["from"]), "cost": _difference(trial.cost, paid)}
        last |= {"ended": trial.state, "ended_because": trial.error or ""}
    return parts


def _difference(cost: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {r: max(amount - before.get(r, 0.0), 0.0) for r, amount in cost.items()}


def cost_per_step(trial: Trial) -> dict[str, float]:
    """What a step of a training has cost on average, by resource; its start-up is included."""
    if not trial.curve:
        return {}
    last = trial.curve[-1]
    return {resource: amount / last.step for resource, amount in last.cost.items()}


def going_on(settings: Settings, trial: Trial) -> dict[str, Any] | None:
    """What a paused training would cost from now on: to its next rung, and to its last step.

    Its cost per step so far times the steps, and the cost of resuming it. Without a checkpoint it
    starts again at step 0. None if it is not paused, or has reported no step.
    """
    steps = settings.steps
    if steps is None or trial.state != "paused" or not trial.curve:
        return None
    again = trial.starts_again or not steps.can_resume
    since, until = 0 if again else trial.step, steps.next_rung(trial.step)
    rate = cost_per_step(trial)
    restore = 0.0 if isinstance(steps.resume, str) or again else float(steps.resume)

    def cost(step: int) -> dict[str, float]:
        found = {resource: amount * (step - since) for resource, amount in rate.items()}
        first = settings.cost_resources[0]
        return found | ({first: found[first] + restore} if first in found else {})

    return {
        "from": since,
        "until": until,
        "cost": cost(until),
        "last": steps.last,
        "cost_to_last": cost(steps.last),
    }
