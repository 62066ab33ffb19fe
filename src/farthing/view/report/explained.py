"""Why a trial was chosen, what it was expected to buy, and what it did, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farthing.view.formatting import amounts, first_line, shown_params

__all__ = ["explained"]

LAST_LINES = 10  # shown of what a trial printed that returned no value


def explained(facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts.explanation` a line each, or a list of lines."""
    predicted = facts["predicted"]
    words = {
        "trial": f"{facts['number']} at {shown_params(facts['params'])}",
        "because": facts["because"],
        "expected": f"a cost of {amounts(predicted)}" if predicted else "its cost was not known",
    }
    if "front" in facts:
        words["expected"] += (
            f"; an improvement of {facts['expected_improvement']:.3g}, "
            f"{facts['share_of_the_most']:.0%} of the most that any point promised"
        )
        if predicted:
            words["front"] = _front(facts)
    else:
        words["front"] = "there was no model yet to compare it with"
    if facts["running_then"]:
        numbers = ", ".join(map(str, facts["running_then"]))
        several = len(facts["running_then"]) > 1
        running = f"trials {numbers} were" if several else f"trial {numbers} was"
        words["meanwhile"] = f"{running} running"
    words["result"] = _result(facts)
    if facts["metrics"]:
        words["metrics"] = shown_params(facts["metrics"])
    if progress := facts["progress"]:
        lines = f"{len(progress)} line{'s' * (len(progress) > 1)}"
        last = {name: fact for name, fact in progress[-1].items() if name != "cost"}
        words["progress"] = f"{lines}, the last: {shown_params(last)}"
    if facts["log"]:
        words["printed"] = facts["log"]
    if facts["state"] in ("failed", "killed", "lost") and facts["tail"]:
        words["last lines"] = facts["tail"].splitlines()[-LAST_LINES:]
    return words


def _front(facts: Mapping[str, Any]) -> str:
    """Its place among the points of which none cheaper promises more."""
    place, count = "on" if facts["on_the_front"] else "below", facts["front"]
    points = "the one point that promises" if count == 1 else f"the {count} points that promise"
    cheaper = facts["cheaper_on_the_front"]
    among = f", {cheaper} of them cheaper" if cheaper else ""
    return f"{place} the front: {points} most for the price{among}. {_exponent(facts['alpha'])}"


def _exponent(alpha: list[float | None] | None) -> str:
    if alpha is None:
        return "However much the cost counts against the improvement, another point is better."
    low, high = alpha
    until = "on" if high is None else f"to {high:.2f}"
    return (
        f"It has the most improvement per cost^a for a from {low:.2f} {until} "
        "(0: the cost does not count; 1: it counts in full)."
    )


def _result(facts: Mapping[str, Any]) -> str:
    value, before = facts["value"], facts["best_before"]
    said = facts["state"] if value is None else f"{value:.6g}"
    if facts["cost"]:
        said += f" {'after' if value is None else 'for'} {amounts(facts['cost'])}"
    if value is not None and before is not None:
        gained = facts["improved_by"]
        said += f"; the best was {before:.6g}, " + (
            f"{gained:.4g} better" if gained else "no improvement"
        )
    return said if facts["error"] is None else f"{said}: {first_line(facts['error'])}"
