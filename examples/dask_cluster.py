"""A study on a Dask cluster: two workers share one budget of worker time.

`LocalCluster` replaces a real cluster. For yours, pass the address of its scheduler to `Client`.
"""

import logging
import tempfile
import time

from distributed import Client, LocalCluster

from farthing import Float, Int, Study
from farthing.integrations.dask import Dask
from farthing.running import report_progress

SPACE = {"rate": Float(1e-4, 1e-1, log=True), "epochs": Int(1, 64, log=True, cost="increases")}


def train(params: dict) -> float:
    """Simulate training: an epoch takes a hundredth of a second."""
    for epoch in range(params["epochs"]):
        time.sleep(0.01)
        loss = 1.0 / (1 + 300 * params["rate"] * (epoch + 1)) + 5 * params["rate"]
        report_progress(epoch, loss)
    return loss


if __name__ == "__main__":
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        study = Study.create(f"{folder}/tune.db", name="net", space=SPACE, budget="4 worker_s")
        result = study.run(train, engine=Dask(client))
        study.close()
    print(result)
