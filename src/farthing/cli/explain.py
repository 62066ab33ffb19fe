"""`farthing explain`: why a trial was chosen, what it was expected to buy, and what it did."""

from __future__ import annotations

from typing import Any

import click

from farthing.cli.options import as_data, open_study, where
from farthing.cli.output import print_one
from farthing.words import amounts, shown, shown_params

__all__ = ["explain"]


@click.command()
@click.argument("number", type=int)
@where
@as_data
def explain(number: int, storage: str | None, name: str | None, kind: str) -> None:
    """Why trial NUMBER was chosen, and what came of it.

    What is believed of the objective and of the costs is worked out again from the trials before
    it; the point is then compared with many others, what they promise against what they cost.
    """
    study = open_study(storage, name)
    try:
        facts = study.explain(number)
        print_one(facts, kind, table=_words(facts))
    finally:
        study.close()


def _words(facts: dict[str, Any]) -> dict[str, str]:
    predicted = facts["predicted"]
    words = {
        "trial": f"{facts['number']} at {shown_params(facts['params'])}",
        "because": facts["because"],
        "expected": f"a cost of {amounts(predicted)}" if predicted else "no cost: none was known",
    }
    if "front" in facts:
        words["expected"] += (
            f", and to improve by {shown(facts['expected_improvement'])}: "
            f"{facts['share_of_the_most']:.0%} of the most any point promised"
        )
        place = "on" if facts["on_the_front"] else "below"
        words["front"] = (
            f"{place} the front of improvement against cost, which has {facts['front']} points; "
            f"{facts['cheaper_on_the_front']} of them cheaper. {_exponent(facts['alpha'])}"
        )
    else:
        words["front"] = "there was no model yet to compare it with"
    if facts["running_then"]:
        words["meanwhile"] = f"trial {', '.join(map(str, facts['running_then']))} was running"
    words["result"] = _result(facts)
    return words


def _exponent(alpha: list[float | None] | None) -> str:
    if alpha is None:
        return "No exponent a in EI / cost^a would have chosen it."
    low, high = alpha
    until = "on" if high is None else f"to {high:.2f}"
    return f"EI / cost^a chooses it for a from {low:.2f} {until}."


def _result(facts: dict[str, Any]) -> str:
    value, before = facts["value"], facts["best_before"]
    said = facts["state"] if value is None else f"{value:.6g}"
    if facts["cost"]:
        said += f" for {amounts(facts['cost'])}"
    if value is not None and before is not None:
        gained = facts["improved_by"]
        said += f"; the best was {before:.6g}, " + (
            f"{gained:.4g} better" if gained else "no improvement"
        )
    return said if facts["error"] is None else f"{said}: {facts['error'].strip().splitlines()[0]}"
