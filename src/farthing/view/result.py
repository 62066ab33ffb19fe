"""The facts about a study and a trial as plain values, which other modules render."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.paid_costs import evidence_of, paid
from farthing.acquisition.pareto import front, implied_alpha
from farthing.acquisition.scores import cheapness, log_ei_per_cost
from farthing.acquisition.search import sobol
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget, format_amount
from farthing.core.endings import failed_in_a_row
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import believed, cost_learners, one_thread
from farthing.cost.calibration import BANDS, Calibration, calibrate
from farthing.data.tabular import to_frame
from farthing.errors import InvalidInput, NothingFound
from farthing.history import History, StopReason, Trial
from farthing.notebook import html_table
from farthing.view.formatting import best_line, counted, first_line, spent, time_line

__all__ = ["Result", "costs", "explanation", "state_before", "summary", "time_of", "trial_of"]

CANDIDATES = 2048  # points that a suggestion is compared with
ON_THE_FRONT = 1e-6  # tolerance in ln EI for a point on the Pareto front
Z_80 = (-1.2815515655446004, 0.0, 1.2815515655446004)  # 10 %, 50 % and 90 % quantiles of N(0, 1)


# ── a study ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run: the best trial, the spending and the reason why the run stopped.

    Attributes:
        found: the best trial, or None if no trial returned a value.
        stop_reason: `.kind` for programs and `.sentence` for people; `str` gives the sentence.
        ledger: `.spent`, `.left` and `.overhead`, the part of `.spent` that suggesting took.
        history: all trials.
        failed: whether the run stopped because too many consecutive trials failed.
        elapsed_s: the time spent on the study, in seconds.
        overhead_s: the part of `elapsed_s` that Farthing needed for its suggestions.
    """

    found: Trial | None
    stop_reason: StopReason
    ledger: Ledger
    history: History
    failed: bool = False
    elapsed_s: float = 0.0
    overhead_s: float = 0.0

    @classmethod
    def of(
        cls, settings: Settings, found: Trial | None, stop_reason: StopReason, state: State
    ) -> Result:
        """Make the result of a study from its settings and its state."""
        failed = failed_in_a_row(settings, state)
        return cls(found, stop_reason, state.ledger, state.history, failed, *time_of(state))

    @property
    def best(self) -> Trial:
        """The best trial, with `.params` and `.value`; use `found` if there may be none.

        Raises:
            NothingFound: no trial returned a value.
        """
        if self.found is None:
            states = counted(self.history) or "no trial was started"
            raise NothingFound(
                f"There is no best trial ({states}): {self._why_nothing()}. "
                f"The run stopped because {self.stop_reason}"
            )
        return self.found

    @property
    def spent(self) -> float:
        """The total spending in the first resource of the budget."""
        return self.ledger.spent

    def dataframe(self) -> Any:
        """Return a pandas data frame with one row per trial; needs pandas."""
        return to_frame(self.history)

    def _why_nothing(self) -> str:
        """Why there is no best trial, with the first error of a trial."""
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
        }

    def __str__(self) -> str:
        return "\n".join(f"{name + ':':<8} {fact}" for name, fact in self._facts().items())

    def __repr__(self) -> str:
        reason, _, more = self.stop_reason.sentence.partition("\n")
        facts = self._facts() | {"stopped": f"{reason} {first_line(more)}".strip()}
        return "\n".join(f"{name + ':':<8} {fact}" for name, fact in facts.items())

    def _repr_html_(self) -> str:
        return html_table(self._facts())


def time_of(state: State) -> tuple[float, float]:
    """Elapsed seconds and overhead seconds of a study, from the account `s` if there is one."""
    if "s" in state.ledger:
        return state.ledger["s"].spent, state.ledger["s"].overhead
    return state.elapsed_s, state.overhead_s


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
            }
            for trial in running
        ],
    }


# ── costs ──────────────────────────────────────────────────────────────────────────────────────


def costs(settings: Settings, state: State) -> list[dict[str, Any]]:
    """Measure how well each cost is predicted by a model of the other trials (leave-one-out)."""
    rng = np.random.default_rng(settings.seed)
    found = []
    with one_thread():
        for resource, learner in cost_learners(settings, state).items():
            trials = list(paid(state.history, resource))
            evidence = evidence_of(settings.space, trials, resource)
            report = calibrate(learner, evidence, rng)
            if report is not None:
                found.append(_calibrated(resource, trials, report))
    return found


def _calibrated(resource: str, trials: list[Trial], report: Calibration) -> dict[str, Any]:
    low, middle, high = (np.exp(report.predicted.mean + z * report.predicted.std) for z in Z_80)
    return {
        "resource": resource,
        "model": report.about,
        "because": report.because,
        "costs": len(trials),
        "killed": int(report.at_least.sum()),
        "log_rmse": report.error,
        "coverage": {f"{band:.0%}": report.coverage(band) for band in BANDS},
        "drivers": {
            driver.name: {"share": driver.share, "factor": driver.factor}
            for driver in report.drivers
        },
        "trials": [
            {
                "number": trial.number,
                "state": trial.state,
                "predicted": float(middle[i]),
                "low": float(low[i]),
                "high": float(high[i]),
                "paid": float(trial.cost[resource]),
            }
            for i, trial in enumerate(trials)
        ],
    }


# ── a trial ────────────────────────────────────────────────────────────────────────────────────


def trial_of(history: History, number: int) -> Trial:
    """Return a trial by its number.

    Raises:
        InvalidInput: there is no trial with this number.
    """
    if not 0 <= number < len(history):
        available = f"0 to {len(history) - 1}" if len(history) else "none yet"
        raise InvalidInput(f"There is no trial {number}: the study has {available}.")
    return history[number]


def explanation(settings: Settings, state: State, number: int) -> dict[str, Any]:
    """Explain why a trial was suggested, what was expected of it, and its result.

    The models are fitted again to what was known before the trial.
    """
    history, sign = state.history, settings.sign
    trial = trial_of(history, number)
    before = state_before(state, trial)
    done = [sign * t.value for t in before.history.done if t.value is not None]
    with one_thread():
        belief = believed(settings, before, model=True)
        promise = {} if belief.objective is None else _promise(belief, trial)
    improved = None
    if trial.value is not None and done:
        improved = max(min(done) - sign * trial.value, 0.0)
    return {
        "number": number,
        "params": dict(trial.params),
        "because": trial.because,
        "predicted": dict(trial.predicted),
        "best_before": sign * min(done) if done else None,
        "running_then": [t.number for t in before.history.running],
        **promise,
        "state": trial.state,
        "value": trial.value,
        "cost": dict(trial.cost),
        "improved_by": improved,
        "error": trial.error,
        "metrics": dict(trial.run.metrics),
        "reports": [dict(line) for line in trial.run.reports],
        "slot": trial.run.slot,
        "worker": trial.run.worker,
        "log": trial.run.log,
        "tail": trial.run.tail,
        "suggest_s": trial.run.suggest_s,
    }


def state_before(state: State, trial: Trial) -> State:
    """Reconstruct the state at the time when a trial was suggested."""
    history, ledger = _history_before(state.history, trial), _ledger_before(state, trial)
    return replace(state, history=history, ledger=ledger)


def _history_before(history: History, trial: Trial) -> History:
    """The history when a trial was suggested: trials reported later were still running."""
    trials = []
    for earlier in history.trials[: trial.number]:
        reported_at = earlier.run.told_at
        if reported_at is None or reported_at > trial.run.asked_at:
            earlier = replace(earlier, state="running", value=None, cost={}, error=None)
        trials.append(earlier)
    return History(tuple(trials))


def _ledger_before(state: State, trial: Trial) -> Ledger:
    """The ledger when a trial was suggested.

    The spending of today is scaled by the share of all reported costs that was reported by then.
    """
    now = state.ledger
    limits = {name: now[name].limit for name in now if math.isfinite(now[name].limit)}
    own = [t for t in state.history if not t.is_external]
    reported = [t for t in own if t.run.told_at is not None]
    earlier = [
        t for t in reported if t.run.told_at is not None and t.run.told_at <= trial.run.asked_at
    ]
    paid: dict[str, float] = {}
    for resource in now:
        total = sum(t.cost.get(resource, 0.0) for t in reported)
        if resource != "trials" and total > 0:
            share = sum(t.cost.get(resource, 0.0) for t in earlier) / total
            paid[resource] = now[resource].spent * share
    return Ledger.of(Budget(limits) if limits else None).pay(paid)


def _promise(belief: Belief, trial: Trial) -> dict[str, Any]:
    """Compare the expected improvement and cost of a trial with those of many other points."""
    space = belief.space
    X = space.rows if space.rows is not None else space.spread(sobol(CANDIDATES, space.d))
    X = np.concatenate([trial.x[None], np.asarray(X)])
    outlook = belief.outlook(X)
    log_ei, log_cost = log_ei_per_cost(0.0)(outlook).score, -cheapness(outlook).score
    fits = outlook.shortfall <= 0
    fits[0] = True
    log_ei, log_cost = log_ei[fits], log_cost[fits]
    rows = front(log_ei, log_cost)
    best_as_cheap = log_ei[log_cost <= log_cost[0]].max()
    alpha = implied_alpha(log_ei, log_cost, 0)
    return {
        "expected_improvement": float(np.exp(log_ei[0])),
        "share_of_the_most": float(np.exp(log_ei[0] - log_ei.max())),
        "on_the_front": bool(log_ei[0] >= best_as_cheap - ON_THE_FRONT),
        "cheaper_on_the_front": int(np.sum(log_cost[rows] < log_cost[0])),
        "front": len(rows),
        "alpha": [alpha.low, alpha.high if math.isfinite(alpha.high) else None]
        if alpha.supported
        else None,
    }
