"""The result of a study, and its summary as plain values."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.endings import failed_in_a_row
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.data.tabular import curve_rows, frame_of, to_frame
from farthing.errors import InvalidInput, NothingFound
from farthing.history import History, StopReason, Trial
from farthing.models.constraints import Constraint
from farthing.notebook import html_table
from farthing.view.card import card
from farthing.view.formatting import (
    best_line,
    counted,
    first_line,
    spent,
    time_line,
    time_of,
    why_no_best,
    without_controls,
)
from farthing.view.learnt import Learnt, learnt_from, learnt_line
from farthing.view.plots import Plots
from farthing.view.saved import NOTHING_SAVED, Saved, saved_by_pausing

__all__ = ["Result", "summary"]


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run: the best trial, the spending and the reason why the run stopped.

    Attributes:
        found: the best trial that meets the constraints; None if there is none.
        stop_reason: `.kind` for programs and `.sentence` for people; `str` gives the sentence.
        ledger: `.spent`, `.left` and `.overhead`, the part of `.spent` that suggesting took.
        history: all trials.
        failed: whether the run stopped because too many consecutive trials failed.
        elapsed_s: the time spent on the study, in seconds.
        overhead_s: the part of `elapsed_s` that Farthing needed for its suggestions.
        facts: the settings and the state of the study, from which `plot` draws.
        constraints: the constraints of the study.
        saved: what pausing trainings has saved, an estimate: the cost per step of each paused
            training times the steps that it has not run. `saved.amounts` is by resource.
        learnt: the earlier studies of `learn_from`: what was used of each, and the latest trust.
    """

    found: Trial | None
    stop_reason: StopReason
    ledger: Ledger
    history: History
    failed: bool = False
    elapsed_s: float = 0.0
    overhead_s: float = 0.0
    facts: tuple[Settings, State] | None = field(default=None, compare=False)
    constraints: tuple[Constraint, ...] = ()
    saved: Saved = NOTHING_SAVED
    learnt: tuple[Learnt, ...] = ()

    @classmethod
    def of(
        cls, settings: Settings, found: Trial | None, stop_reason: StopReason, state: State
    ) -> Result:
        """Make the result of a study from its settings and its state."""
        failed = failed_in_a_row(settings, state)
        times, facts = time_of(state), (settings, state)
        return cls(
            *(found, stop_reason, state.ledger, state.history, failed, *times, facts),
            constraints=settings.bounds,
            saved=saved_by_pausing(settings, state),
            learnt=learnt_from(settings, state),
        )

    @property
    def best(self) -> Trial:
        """The best trial, with `.params` and `.value`; use `found` if there may be none.

        Raises:
            NothingFound: no trial returned a value and met the constraints.
        """
        if self.found is None:
            states = counted(self.history) or "no trial was started"
            raise NothingFound(
                f"There is no best trial ({states}): {self._why_nothing()}. "
                f"The run stopped because {self.stop_reason}"
            )
        return self.found

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters of the best trial. Raises NothingFound if no trial returned a value."""
        return dict(self.best.params)

    @property
    def best_value(self) -> float:
        """The value of the best trial. Raises NothingFound if no trial returned a value."""
        value = self.best.value
        assert value is not None
        return value

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order in which they were suggested."""
        return list(self.history)

    @property
    def plot(self) -> Plots:
        """The figures: `result.plot.curve()`, `result.plot.drivers()`; see `Plots`."""
        if self.facts is None:
            raise InvalidInput(
                "This result has no settings, because it was pickled and they cannot be: a cost or "
                "a policy is a lambda or a local class. Draw the figures before you pickle it."
            )
        facts = self.facts
        return Plots(lambda: facts)

    @property
    def spent(self) -> float:
        """The total spending in the first resource of the budget."""
        return self.ledger.spent

    def dataframe(self) -> Any:
        """Return a pandas data frame with one row per trial; needs pandas."""
        return to_frame(self.history)

    def curves(self) -> Any:
        """Return a pandas data frame with one row per trial and reported step; needs pandas."""
        return frame_of(curve_rows(self.history), "curves()")

    def __getstate__(self) -> dict[str, Any]:
        """The fields, without settings that cannot be pickled: a cost may be a lambda."""
        try:
            pickle.dumps(self.facts)
        except Exception:  # __reduce__ may raise anything
            return {**vars(self), "facts": None}
        return dict(vars(self))

    def _why_nothing(self) -> str:
        """Why there is no best trial, with the first error of a trial."""
        if self.history.done:
            return why_no_best(self.constraints, self.history)
        first = next((trial for trial in self.history if trial.error), None)
        if first is None or first.error is None or self.stop_reason.includes(first.error):
            return "no trial returned a value"
        return f"no trial returned a value; trial {first.number}: {first_line(first.error)}"

    def _facts(self) -> dict[str, str]:
        ledger = self.ledger
        overhead, time = "", f"; {time_line(self.elapsed_s, self.overhead_s)}"
        if "s" in ledger:
            overhead, time = f", {format_amount('s', ledger['s'].overhead)} of it overhead", ""
        trials = format_amount("trials", len(self.history))
        if len(self.history):
            trials += f" ({counted(self.history)})"
        return {
            "stopped": self.stop_reason.sentence,
            "best": self._why_nothing() if self.found is None else best_line(self.found),
            "spent": f"{spent(ledger) or 'nothing'}{overhead}; {trials}{time}",
            **({"saved": str(self.saved)} if self.saved.trials else {}),
            **({"learnt": f"from {learnt_line(self.learnt)}"} if self.learnt else {}),
        }

    def __str__(self) -> str:
        facts = self._facts().items()
        return "\n".join(f"{name + ':':<8} {without_controls(str(fact))}" for name, fact in facts)

    def __repr__(self) -> str:
        reason, _, more = self.stop_reason.sentence.partition("\n")
        facts = self._facts() | {"stopped": f"{reason} {first_line(more)}".strip()}
        return "\n".join(f"{name + ':':<8} {fact}" for name, fact in facts.items())

    def _repr_html_(self) -> str:
        facts = self._facts()
        return html_table(facts) if self.facts is None else card("Result", facts, *self.facts)


def summary(name: str, result: Result) -> dict[str, Any]:
    """Summarise a study as plain values: its state, budget, best trial and running trials."""
    ledger, best, running = result.ledger, result.found, result.history.running
    return {
        "name": name,
        "state": "running" if running else result.stop_reason.sentence,
        "stop_kind": None if running else result.stop_reason.kind,
        "trials": dict(Counter(trial.state for trial in result.history)),
        "budget": {
            resource: {
                "limit": account.limit if math.isfinite(account.limit) else None,
                "spent": account.spent,
                "reserved": account.reserved,
                "left": account.left if math.isfinite(account.limit) else None,
                "overhead": account.overhead,
            }
            for resource in ledger
            for account in [ledger[resource]]
        },
        "saved": result.saved._asdict() if result.saved.trials else None,
        **({"learnt": [each._asdict() for each in result.learnt]} if result.learnt else {}),
        "elapsed_s": result.elapsed_s,
        "overhead_s": result.overhead_s,
        "best": None
        if best is None
        else {"number": best.number, "value": best.value, "params": dict(best.params)},
        "running": [
            {
                "number": trial.number,
                "params": dict(trial.params),
                "cost": dict(trial.cost),
                "predicted": dict(trial.predicted),
                **({"step": trial.step} if trial.step else {}),
            }
            for trial in running
        ],
    }
