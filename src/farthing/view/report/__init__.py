"""A study as one page, as a card in a notebook, and as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from farthing.view.report.explained import explained
from farthing.view.report.page import card, page
from farthing.view.report.report_facts import Account, account_of, copies, in_words, standing

__all__ = [
    "Account",
    "Summary",
    "account_of",
    "card",
    "copies",
    "explained",
    "in_words",
    "page",
    "standing",
]


class Summary(dict[str, Any]):
    """Plain values that print as a person reads them."""

    def __init__(self, facts: Mapping[str, Any], words: Callable[[], str]) -> None:
        self.update(facts)
        self._words = words

    def __str__(self) -> str:
        return self._words()
