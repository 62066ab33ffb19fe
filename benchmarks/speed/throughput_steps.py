"""Steps per second with 1, 4 and 16 workers that decide at every rung of a training.

    python -m benchmarks.speed.throughput_steps             about two minutes on two cores
    python -m benchmarks.speed.throughput_steps --step 0.02  shorter steps

The workers are real: each part of a training is a process that sleeps, with its supervisor.
`steps_s` counts the steps per second of a run, and `ideal_s` is what the workers would do if
decisions and processes took no time. `rungs` is the number of decisions at a rung while a training
ran, and `known` the share of those that the model decided which had chosen the training, without a
new suggestion. `cpu_ms` is the CPU time of all processes per decision. Results are printed, one
JSON line per number of workers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.speed.throughput import NAMES, space, study_stop
from farthing import Study
from farthing.core.part_reasons import reasons_of
from farthing.running.training import Training

LAST = 27
LASTING = 25.0  # seconds of a run


def training(seconds: float) -> Callable[[dict[str, float], Training], None]:
    """A training whose steps sleep."""

    def train(params: dict[str, float], trial: Training) -> None:
        level = sum((params[name] - 0.3) ** 2 for name in NAMES)
        for step in range(trial.step + 1, LAST + 1):
            time.sleep(seconds)
            if trial.report(step, level + (1.0 + params["a"]) / step) != "continue":
                return

    return train


def cpu() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


def measure(workers: int, seconds: float, folder: str, policy: str | None) -> dict[str, Any]:
    """One run."""
    url = f"sqlite:///{folder}/{workers}.db"
    study = Study.create(
        url,
        name="throughput",
        space=space(),
        budget="1h",
        steps=LAST,
        policy=policy,
        grace=0.5,
    )
    end = threading.Timer(LASTING, study_stop, args=(url,))
    end.start()
    before = cpu()
    study.run(training(seconds), workers=workers)
    used = cpu() - before
    end.join()
    trials = list(study.history)
    decided = [
        each
        for trial in trials
        for each in reasons_of(trial)
        if each.kind in ("continued", "paused") and each.step < LAST
    ]
    known = sum("by the last model" in each.because for each in decided)
    study.close()
    return {
        "workers": workers,
        "steps_s": round(sum(trial.step for trial in trials) / LASTING, 1),
        "ideal_s": workers / seconds,
        "trials": len(trials),
        "rungs": len(decided),
        "rungs_s": round(len(decided) / LASTING, 1),
        "known": round(known / len(decided), 2),
        "cpu_ms": round(1e3 * used / len(decided), 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", default="1,4,16", help="numbers of workers (1,4,16)")
    parser.add_argument("--policy", help="another policy, such as asha")
    parser.add_argument("--step", type=float, default=0.1, help="seconds of a step (0.1)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for workers in map(int, arguments.workers.split(",")):
            print(
                json.dumps(measure(workers, arguments.step, folder, arguments.policy)), flush=True
            )


if __name__ == "__main__":
    main()
