"""How a stored study is shown: its settings, changes, result and one-line description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.history import NOT_ENDED
from farthing.storage import described, external_in, from_described, to_text
from farthing.view.result import Result
from farthing.view.watched import Watched

__all__ = ["changes_of", "external_code", "plain_settings", "result_of"]


def plain_settings(settings: Settings) -> Mapping[str, Any]:
    """Settings as plain values. Of a source, this is what it is, not its rows."""
    sources = [
        {"name": each.name, "about": each.about, "fingerprint": each.fingerprint}
        for each in settings.learn_from
    ]
    stored = {name: value for name, value in described(settings).items() if name != "learn_from"}
    return {**from_described(to_text(stored)), "learn_from": sources}


def external_code(settings: Settings) -> dict[str, list[str]]:
    """The names of code in the settings that was not imported, by part."""
    parts = settings.unimported.items()
    return {part: [str(name) for name in external_in(code.described)] for part, code in parts}


def changes_of(state: State) -> list[dict[str, Any]]:
    """The changes of a study as plain values."""
    return [
        {"at": change.at, "trials": change.trials, "said": dict(change.differences)}
        for change in state.changes
    ]


def result_of(optimizer: Watched, settings: Settings, state: State, *, suggests: bool) -> Result:
    """The result of a study.

    Args:
        suggests: if the study has not ended, suggest a trial to see whether it should.
    """
    reason = state.stop_reason or state.stop_requested
    if reason is None:
        judged = (suggests or state.ledger.used_up) and not settings.unimported
        verdict = optimizer.verdict if judged else None
        reason = verdict.reason if verdict and verdict.stop else NOT_ENDED
    return Result.of(settings, optimizer.best, reason, state)
