"""An app of Hydra, tuned within a budget by `hydra/sweeper=farthing`.

python hydra_sweep.py --multirun              # the sweep that is configured below
python hydra_sweep.py --multirun hydra.sweeper.budget=1m 'lr=interval(0.1, 0.2)'
"""

from dataclasses import dataclass, field
from typing import Any

import hydra
import numpy as np
from hydra.core.config_store import ConfigStore

PARAMS = {"lr": "tag(log, interval(1e-3, 1))", "epochs": "range(1, 30)", "penalty": "none,l1,l2"}
SWEEP = {"sweeper": {"budget": "12 trials", "params": PARAMS}}
FARTHING = ["_self_", {"override hydra/sweeper": "farthing"}]


@dataclass
class Config:
    defaults: list[Any] = field(default_factory=lambda: FARTHING)
    lr: float = 0.1
    epochs: int = 10
    penalty: str = "none"
    hydra: Any = field(default_factory=lambda: SWEEP)


ConfigStore.instance().store(name="config", node=Config)


@hydra.main(version_base=None, config_name="config")
def train(config: Config) -> float:
    """The loss of a linear regression after some epochs."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(50, 4)), np.zeros(4)
    y = X @ [1.0, -1.0, 0.0, 0.0] + 0.1 * rng.normal(size=50)
    for _ in range(config.epochs):
        weights -= config.lr * X.T @ (X @ weights - y) / len(y)
        shrink = {"none": 0.0, "l1": 0.01 * np.sign(weights), "l2": 0.01 * weights}
        weights -= config.lr * shrink[config.penalty]
    return float(np.mean((X @ weights - y) ** 2))


if __name__ == "__main__":
    train()
