"""Two workers share one budget: each trial is a process with its own reservation.

More workers can join from other processes and machines: `farthing worker URL NAME`.
"""

import tempfile
import time
from collections import Counter

from farthing import Float, Int, Study

SPACE = {"rate": Float(1e-4, 1e-1, log=True), "epochs": Int(1, 64, log=True, cost="increases")}


def train(params: dict) -> float:
    """Simulate training: an epoch takes a hundredth of a second."""
    time.sleep(0.01 * params["epochs"])
    return 1.0 / (1 + 300 * params["rate"] * params["epochs"]) + 5 * params["rate"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        study = Study.create(f"{folder}/tune.db", name="net", space=SPACE, budget="4 worker_s")
        result = study.run(train, workers=2)
        who = Counter(trial.run.worker for trial in study.history.trials)
        study.close()
    print(result)
    print(f"workers: {len(who)}, with {' and '.join(str(n) for n in who.values())} trials")
