"""A study on Ray: each trial takes one CPU and the share of a GPU that you set.

`ray.init()` starts Ray on this machine; `ray.init("auto")` connects to a running cluster.
"""

import os
import tempfile
import time

os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # only this machine can reach this Ray
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray

from farthing import Float, Int, Study
from farthing.integrations.ray import Ray

SPACE = {"rate": Float(1e-4, 1e-1, log=True), "epochs": Int(1, 64, log=True, cost="increases")}


def train(params: dict) -> float:
    """Simulate training: an epoch takes a hundredth of a second."""
    time.sleep(0.01 * params["epochs"])
    return 1.0 / (1 + 300 * params["rate"] * params["epochs"]) + 5 * params["rate"]


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    with tempfile.TemporaryDirectory() as folder:
        study = Study.create(f"{folder}/tune.db", name="net", space=SPACE, budget="4 worker_s")
        result = study.run(train, engine=Ray(num_cpus=1, num_gpus=0))
        study.close()
    ray.shutdown()
    print(result)
