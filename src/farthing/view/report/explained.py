"""Explains in words why a trial was suggested, what was expected of it, and its result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from farthing.view.chosen import WITHOUT_COMPARISON
from farthing.view.formatting import amounts, first_line, shown_params, state_of

__all__ = ["explained", "part_sentence"]

LAST_LINES = 10  # of the output of a trial without a value


def explained(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `result.explanation` into labelled lines; an entry may be a list of lines."""
    words = {
        "trial": f"{facts['number']} at {shown_params(facts['params'])}",
        "because": facts["because"],
        "expected": _expected(facts),
        "trade-off": _trade_off(facts),
    }
    if facts["sources"]:
        words["learnt"] = _learnt(facts["sources"])
    if facts["running_then"]:
        numbers = ", ".join(map(str, facts["running_then"]))
        is_plural = len(facts["running_then"]) > 1
        running = f"trials {numbers} were" if is_plural else f"trial {numbers} was"
        words["meanwhile"] = f"{running} running"
    if any(part["continued"] or part["ended"] == "paused" for part in facts["parts"]):
        words |= {f"part {part['part']}": part_sentence(part) for part in facts["parts"]}
    words["result"] = _result(facts)
    if facts["going_on"]:
        words["going on"] = _going_on(facts["going_on"])
    if facts.get("constraints"):
        words["constraints"] = _constraints(facts["constraints"])
    if facts["metrics"]:
        words["metrics"] = shown_params(facts["metrics"])
    if reports := facts["reports"]:
        count = f"{len(reports)} report{'s' * (len(reports) > 1)}"
        last = {name: fact for name, fact in reports[-1].items() if name != "cost"}
        words["progress"] = f"{count}, the last: {shown_params(last)}"
    if curve := facts["curve"]:
        count = f"{len(curve)} value{'s' * (len(curve) > 1)}"
        words["curve"] = f"{count}, the last {curve[-1]['value']:.6g} at step {curve[-1]['step']}"
    if facts["log"]:
        words["printed"] = facts["log"]
    if facts["state"] in ("failed", "killed", "lost") and facts["tail"]:
        words["last lines"] = facts["tail"].splitlines()[-LAST_LINES:]
    return words


def _expected(facts: Mapping[str, Any]) -> str:
    """The expected cost, and the expected improvement if it decided."""
    predicted = facts["predicted"]
    text = f"a cost of {amounts(predicted)}" if predicted else "no cost was predicted"
    if "front" not in facts or facts["chosen_by"] != "model":
        return text
    gain = facts["expected_improvement"]
    improvement = "any feasible value" if gain is None else f"an improvement of {gain:.3g}"
    return (
        f"{text}; {improvement}, "
        f"{facts['share_of_the_most']:.0%} of the highest of all compared points"
    )


def _trade_off(facts: Mapping[str, Any]) -> str:
    """What was weighed against what when the trial was chosen."""
    if facts["chosen_by"] != "model":
        return WITHOUT_COMPARISON[facts["chosen_by"]]
    if "front" not in facts:
        return "There was no model yet to compare points with."
    if not facts["predicted"]:
        return "Costs are not predicted, so only the improvement counted."
    count, cheaper = facts["front"], facts["cheaper_on_the_front"]
    if facts["on_the_front"]:
        sentence = "No compared point promised more improvement for the same cost or less."
        if cheaper:
            points = "1 point" if cheaper == 1 else f"{cheaper} points"
            verb = "was" if cheaper == 1 else "were"
            sentence += f" {points} with this property {verb} cheaper, but promised less."
        return f"{sentence} {_exponent(facts['alpha'])}".rstrip()
    compromises = "the best compromise" if count == 1 else f"the {count} best compromises"
    among = f" ({cheaper} of them cheaper)" if cheaper and count > 1 else ""
    return (
        "The policy may also count what can still be learnt, what is running and what is left of "
        f"the budget. Its choice can therefore differ from {compromises} between expected "
        f"improvement and expected cost alone{among}."
    )


def _exponent(alpha: list[float | None] | None) -> str:
    if alpha is None:
        return ""
    low, high = alpha
    exponents = f"a >= {low:.2f}" if high is None else f"a from {low:.2f} to {high:.2f}"
    return (
        f"It has the highest improvement / cost^a for {exponents} "
        "(a = 0 ignores the cost; a = 1 is improvement per cost)."
    )


def _learnt(sources: Mapping[str, Mapping[str, float]]) -> str:
    """How far each earlier study was trusted, and what it changed."""
    told = []
    for name, noted in sources.items():
        trust = f" (trust {noted['trust']:.2f})" if "trust" in noted else ""
        effects = []
        if "portfolio" in noted:
            effects.append(f"expected {noted['portfolio']:.0%} of the improvement")
        if "from_sources" in noted:
            effects.append(f"moved the predicted value by {noted['from_sources']:+.3g}")
        told.append(f"{name!r}{trust} {' and '.join(effects)}".rstrip())
    return "; ".join(told)


def part_sentence(part: Mapping[str, Any]) -> str:
    """One part of a training: its steps, its cost, and why it went on and ended."""
    text = f"steps {part['from']} to {part['to']}"
    if part["cost"]:
        text += f", {amounts(part['cost'])}"
    if part["part"] > 1 and part["because"]:
        text += f", resumed: {part['because']}"
    for each in part["continued"]:
        text += f"; continued at step {each['step']}: {each['because']}"
    text += f"{'; ' if ':' in text else ', '}{part['ended']}"
    return f"{text}: {first_line(part['ended_because'])}" if part["ended_because"] else text


def _going_on(facts: Mapping[str, Any]) -> str:
    """What a paused training would cost from now on."""

    def to(step: int, cost: Mapping[str, float]) -> str:
        return f"to step {step}" + (f" for about {amounts(cost)}" if cost else "")

    text = to(facts["until"], facts["cost"])
    if facts["last"] > facts["until"]:
        text += f", {to(facts['last'], facts['cost_to_last'])}"
    return text if facts["from"] else f"it would start again, without its checkpoint: {text}"


def _constraints(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """How probable it was that the constraints are met, which is the hardest, what was measured."""
    chances = {
        n: each["probability"] for n, each in facts.items() if each["probability"] is not None
    }
    text = "there was no model of the constraints yet"
    if chances:
        text = f"met with probability {math.prod(chances.values()):.3g}"
        hardest = min(chances, key=chances.__getitem__)
        if len(chances) > 1:
            text += f"; the hardest is {facts[hardest]['condition']} ({chances[hardest]:.3g})"
    measured = [
        f"{name} = {each['measured']:.6g}{'' if each['met'] else ' violates ' + each['condition']}"
        for name, each in facts.items()
        if each["met"] is not None and each["measured"] is not None
    ]
    return "; ".join([text, *measured])


def _result(facts: Mapping[str, Any]) -> str:
    value, before = facts["value"], facts["best_before"]
    text = facts["state"] if value is None else f"{value:.6g}"
    if value is None and facts["curve"] and (value := facts["counted_value"]) is not None:
        step = next(each["step"] for each in facts["curve"] if each["value"] == value)
        text += f" with {value:.6g} at step {step}"
    if facts["state"] == "paused" and value is not None and facts["curve"]:
        text += f" ({state_of('paused', facts['curve'][-1]['step'])})"
    if facts["cost"]:
        text += f" {'after' if facts['value'] is None else 'for'} {amounts(facts['cost'])}"
    if value is not None and before is not None:
        gained = facts["improved_by"]  # None: it violates a constraint
        change = f"an improvement of {gained:.4g}" if gained else "no improvement"
        text += f"; the best was {before:.6g}: {change}"
    return text if facts["error"] is None else f"{text}: {first_line(facts['error'])}"
