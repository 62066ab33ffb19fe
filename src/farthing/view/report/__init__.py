"""A study as one page, as a card in a notebook, and as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from farthing.view.report.explained import explained
from farthing.view.report.page import card, page
from farthing.view.report.report_facts import ReportFacts, copies, in_words, report_facts, standing

__all__ = [
    "ReportFacts",
    "Summary",
    "card",
    "copies",
    "explained",
    "in_words",
    "page",
    "report_facts",
    "standing",
]


class Summary(dict[str, Any]):
    """Plain values that print as a person reads them."""

    def __init__(self, facts: Mapping[str, Any], words: Callable[[], str]) -> None:
        self.update(facts)
        self._words = words

    def __str__(self) -> str:
        return self._words()
