"""`farthing costs`: how well costs are predicted, and which parameters drive them."""

from __future__ import annotations

import math
from typing import Any

import click

from farthing.cli.options import format_option, open_study, study_argument
from farthing.cli.output import print_one, print_rows
from farthing.data.tabular import to_json
from farthing.view.formatting import amounts

__all__ = ["costs"]

MAX_DRIVERS = 5  # parameters named among the drivers
ALIKE = 1.1  # costs that differ by less have no drivers worth naming


@click.command()
@study_argument
@format_option
def costs(storage: str | None, name: str | None, kind: str) -> int:
    """Show how well costs are predicted, and what drives them.

    Each cost is predicted by a model of the other trials (cross-validation). The output shows the
    error, the share of costs inside their predicted bands, the parameters that drive the cost, and
    a row for each trial.
    """
    study = open_study(storage, name)
    try:
        found = study.costs()
    finally:
        study.close()
    if not found:
        click.echo(
            "There is no cost model yet. It needs a budget and two trials with a cost.", err=True
        )
        return 1
    if kind == "json":
        click.echo(to_json(found))
        return 0
    for report in found:
        rows = [{"resource": report["resource"], **trial} for trial in report["trials"]]
        if kind == "table":
            print_one(report, kind, table=_summary(report))
            click.echo()
        print_rows(rows, kind, table=[_line(row) for row in rows])
    return 0


def _summary(report: dict[str, Any]) -> dict[str, str]:
    """The summary of one resource."""
    words = {"cost in": report["resource"], "model": report["model"]}
    if report["because"]:
        words["because"] = report["because"]
    killed = f", {report['killed']} of them of killed trials" if report["killed"] else ""
    words["costs"] = f"{report['costs']}{killed}"
    if report["log_rmse"] is not None:
        factor = math.exp(report["log_rmse"])
        words["error"] = f"{report['log_rmse']:.3g} in ln cost, a factor of {factor:.2f}"
        words["bands"] = ", ".join(
            f"{share:.0%} of the costs in the {band} band"
            for band, share in report["coverage"].items()
        )
    predicted = [trial["predicted"] for trial in report["trials"]]
    if max(predicted) < ALIKE * min(predicted):
        words["drivers"] = f"none: the predicted costs differ by less than {ALIKE - 1:.0%}"
    else:
        words["drivers"] = ", ".join(
            f"{name} {driver['share']:.0%} (x {driver['factor']:.3g})"
            for name, driver in list(report["drivers"].items())[:MAX_DRIVERS]
        )
    return words


def _line(row: dict[str, Any]) -> dict[str, Any]:
    """A trial as a line of a table."""
    resource = row["resource"]
    bound = "at least " if row["state"] == "killed" else ""
    low, predicted, high, paid = (
        amounts({resource: row[name]}) for name in ("low", "predicted", "high", "paid")
    )
    return {
        "number": row["number"],
        "cost": bound + paid,
        "predicted": predicted,
        "80 % band": f"{low} to {high}",
        "cost / predicted": f"{row['paid'] / row['predicted']:.2f}",
    }
