"""A study whose trials are jobs of submitit: Slurm without a database server.

`LocalExecutor` replaces Slurm. Use `submitit.AutoExecutor(folder)`, with a folder that all nodes
share, and `executor.update_parameters(timeout_min=240, slurm_partition="gpu")`.
"""

import tempfile
import time

import submitit

from farthing import Float, Int, Study
from farthing.integrations.submitit import Submitit

SPACE = {"rate": Float(1e-4, 1e-1, log=True), "epochs": Int(1, 64, log=True, cost="increases")}


def train(params: dict) -> float:
    """Simulate training: an epoch takes a hundredth of a second."""
    time.sleep(0.01 * params["epochs"])
    return 1.0 / (1 + 300 * params["rate"] * params["epochs"]) + 5 * params["rate"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        executor = submitit.LocalExecutor(f"{folder}/jobs")
        executor.update_parameters(timeout_min=30)
        study = Study.create(f"{folder}/tune.db", name="net", space=SPACE, budget="2 worker_s")
        result = study.run(train, engine=Submitit(executor, jobs=2))
        study.close()
    print(result)
