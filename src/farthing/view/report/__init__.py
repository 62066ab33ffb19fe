"""The report of a study: its facts and its text; `page` has the HTML page and the card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from farthing.view.report.explained import explained
from farthing.view.report.report_facts import (
    ReportFacts,
    copies,
    report_facts,
    report_text,
    status_sentence,
)

__all__ = [
    "ReportFacts",
    "Summary",
    "copies",
    "explained",
    "report_facts",
    "report_text",
    "status_sentence",
]


class Summary(dict[str, Any]):
    """A dictionary of plain values that prints as readable text."""

    def __init__(self, facts: Mapping[str, Any], text: Callable[[], str]) -> None:
        self.update(facts)
        self._text = text

    def __str__(self) -> str:
        return self._text()
