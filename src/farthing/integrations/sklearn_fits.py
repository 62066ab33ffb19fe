"""The fits of a cross-validated search: some candidates on some folds, several at the same time.

A fit in a process of its own (`n_jobs` > 1 with joblib's own backend) can be killed. Any other fit
is allowed to finish.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import joblib
import numpy as np
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import clone
from sklearn.model_selection._validation import _fit_and_score
from sklearn.utils.parallel import Parallel, delayed

__all__ = ["Fit", "Fits", "Out"]

Out = dict[str, Any]  # the result of one fit in scikit-learn


class Fit(NamedTuple):
    """One fit: a candidate, by its number and its parameters, and a fold."""

    candidate: int
    params: Mapping[str, Any]
    fold: int


@dataclass
class Fits:
    """How the candidates of a search are fitted.

    Attributes:
        data: X and y.
        splits: the training and the test rows of each fold, the same for all candidates.
        options: the other arguments of scikit-learn's `_fit_and_score`.
        backend: a backend of joblib whose processes may be killed, or None.
        candidates: the number of candidates, for what is printed; 0: unknown.
    """

    estimator: Any
    data: tuple[Any, Any]
    splits: Sequence[tuple[Any, Any]]
    options: Mapping[str, Any]
    n_jobs: int | None
    pre_dispatch: Any
    backend: Any
    candidates: int = 0
    killed: bool = field(default=False, init=False)  # whether the last fits were killed

    @property
    def at_once(self) -> int:
        """The number of fits at the same time."""
        return int(joblib.effective_n_jobs(self.n_jobs))

    def run(self, fits: Sequence[Fit], seconds: float) -> list[Out | None]:
        """The results of some fits; None for those that were killed after `seconds`."""
        self.killed = False
        found: list[Out | None] = [None] * len(fits)
        parallel = Parallel(n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch)
        if self.backend is None:
            tasks = (delayed(_fit_and_score)(**self._arguments(fit)) for fit in fits)
            return list(parallel(tasks))
        # As each one ends, so that the results of others that have ended are not lost with it.
        parallel = Parallel(
            n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch, return_as="generator_unordered"
        )
        tasks = (delayed(_numbered)(i, self._arguments(fit)) for i, fit in enumerate(fits))
        with self._killed_after(seconds):
            try:
                for i, out in parallel(tasks):
                    found[i] = out
            except TerminatedWorkerError:
                if not self.killed:
                    raise
        return found

    def start(self) -> None:
        """Start the processes, at first and after a kill, so that no candidate pays for it."""
        if self.backend is None:
            return
        for last in (False, True):
            tasks = [joblib.delayed(_imported)(self.estimator) for _ in range(self.at_once)]
            try:
                joblib.Parallel(self.at_once)(tasks)
                return
            except TerminatedWorkerError:  # joblib had not noticed yet that they were killed
                if last or not self.killed:
                    raise

    def _arguments(self, fit: Fit) -> dict[str, Any]:
        train, test = self.splits[fit.fold]
        X, y = self.data
        return {
            **self.options,
            "estimator": clone(self.estimator),
            "X": X,
            "y": y,
            "train": train,
            "test": test,
            "parameters": fit.params,
            "split_progress": (fit.fold, len(self.splits)),
            "candidate_progress": (fit.candidate, self.candidates or fit.candidate + 1),
            "return_n_test_samples": True,
            "return_times": True,
            "return_parameters": False,
        }

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        """Kill the processes after some seconds."""

        def kill() -> None:
            self.killed = True
            for pid in tuple(getattr(self.backend._workers, "_processes", ())):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        if not np.isfinite(seconds):
            yield
            return
        timer = threading.Timer(min(max(seconds, 0.0), threading.TIMEOUT_MAX), kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # so that no process is killed later


def _numbered(i: int, arguments: dict[str, Any]) -> tuple[int, Out]:
    return i, _fit_and_score(**arguments)


def _imported(estimator: Any) -> None:
    """Nothing: to call it, a process imports what a fit needs, this module and the estimator."""
