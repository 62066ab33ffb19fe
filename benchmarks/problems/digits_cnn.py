"""The training cost of a convolutional network on scikit-learn's digits, in numpy.

Two convolutions (kernel r, channels m_1, m_2, padded so that a map stays 8 x 8), a max pooling of
2 x 2, a hidden layer of n_1 and ten outputs; plain gradient descent on batches of 100. The cost is
CPU seconds of one thread. benchmarks/recorded has the configurations that were timed.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from farthing import Float, Int, Space
from farthing.cost import CNNFlops

Array = NDArray[np.float64]

FILE = Path(__file__).resolve().parents[1] / "recorded" / "digits-cnn.json"
COUNT = 120
ROWS, BATCH, SIDE = 500, 100, 8
SPACE = Space(
    {
        "kernel": Int(1, 5),
        "channels_1": Int(2, 24, log=True),
        "channels_2": Int(2, 24, log=True),
        "width": Int(8, 128, log=True),
        "epochs": Int(1, 6),
        "rate": Float(1e-3, 0.3, log=True),
    }
)
WORK = CNNFlops(
    SIDE, 1, "kernel", ["channels_1", "channels_2"], [1, 0.25], ["width", 10], times=["epochs"]
)


class Recording(NamedTuple):
    """Points of the cube, ln cost and errors."""

    X: Array
    log_cost: Array
    error: Array


def _columns(maps: Array, kernel: int) -> Array:
    """(n, 8, 8, kernel, kernel, channels) windows of padded maps (n, 8, 8, channels)."""
    before = (kernel - 1) // 2
    pad = ((0, 0), (before, kernel - 1 - before), (before, kernel - 1 - before), (0, 0))
    windows = sliding_window_view(np.pad(maps, pad), (kernel, kernel), axis=(1, 2))
    return np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3))


def _back(slope: Array, weights: Array, kernel: int) -> Array:
    """The gradient of the convolved maps: the sum of the gradients of the windows."""
    n, channels = len(slope), weights.shape[0] // (kernel * kernel)
    parts = (slope @ weights.T).reshape(n, SIDE, SIDE, kernel, kernel, channels)
    before = (kernel - 1) // 2
    total = np.zeros((n, SIDE + kernel - 1, SIDE + kernel - 1, channels))
    for i in range(kernel):
        for j in range(kernel):
            total[:, i : i + SIDE, j : j + SIDE] += parts[:, :, :, i, j]
    return total[:, before : before + SIDE, before : before + SIDE]


def train(params: Mapping[str, Any], seed: int = 0) -> tuple[float, float]:
    """Error on the held-out digits, and the CPU seconds of training."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = data.images[..., None] / 16.0, data.target
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], labels[order]
    rng = np.random.default_rng(seed)
    r, sizes = params["kernel"], (1, params["channels_1"], params["channels_2"])
    flat = sizes[2] * (SIDE // 2) ** 2
    shapes = [
        (r * r * sizes[0], sizes[1]),
        (r * r * sizes[1], sizes[2]),
        (flat, params["width"]),
        (params["width"], 10),
    ]
    weights = [rng.normal(0.0, np.sqrt(2.0 / a), (a, b)) for a, b in shapes]

    def forward(batch: Array) -> list[Array]:
        kept, maps = [], batch
        for layer in (0, 1):
            windows = _columns(maps, r).reshape(len(batch), SIDE, SIDE, -1)
            maps = np.maximum(windows @ weights[layer], 0.0)
            kept += [windows, maps]
        blocks = maps.reshape(len(batch), 4, 2, 4, 2, -1)
        pooled = blocks.max(axis=(2, 4))
        hidden = np.maximum(pooled.reshape(len(batch), -1) @ weights[2], 0.0)
        return [*kept, pooled, hidden, hidden @ weights[3]]

    begun = time.process_time()
    for _ in range(params["epochs"]):
        for start in range(0, ROWS, BATCH):
            batch, target = images[start : start + BATCH], labels[start : start + BATCH]
            w1, m1, w2, m2, pooled, hidden, out = forward(batch)
            slope = np.exp(out - out.max(axis=1, keepdims=True))
            slope /= slope.sum(axis=1, keepdims=True)
            slope[np.arange(len(target)), target] -= 1.0
            slope /= len(target)
            gradients: list[Array] = [np.zeros(0)] * 4
            gradients[3] = hidden.T @ slope
            slope = (slope @ weights[3].T) * (hidden > 0)
            gradients[2] = pooled.reshape(len(batch), -1).T @ slope
            slope = (slope @ weights[2].T).reshape(pooled.shape)
            wide = slope[:, :, None, :, None] * (
                m2.reshape(len(batch), 4, 2, 4, 2, -1) == pooled[:, :, None, :, None]
            )
            slope = wide.reshape(m2.shape) * (m2 > 0)
            gradients[1] = np.einsum("nxyk,nxyc->kc", w2, slope, optimize=True)
            slope = _back(slope, weights[1], r) * (m1 > 0)
            gradients[0] = np.einsum("nxyk,nxyc->kc", w1, slope, optimize=True)
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= params["rate"] * gradient
    seconds = time.process_time() - begun
    held = slice(ROWS, ROWS + 500)
    return float(np.mean(forward(images[held])[-1].argmax(axis=1) != labels[held])), seconds


def record(count: int = COUNT) -> dict[str, Any]:
    """Train this number of uniform configurations."""
    X = SPACE.sample(count, np.random.default_rng(0))
    rows = []
    for x in X:
        params = SPACE.decode(x)
        error, seconds = train(params)
        rows.append({**params, "error": error, "cost": float(f"{seconds:.5g}")})
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cores": os.cpu_count(),
    }
    return {"about": about, "rows": rows}


def read(count: int | None = None) -> Recording:
    """The kept recording, or a new one of `count` configurations."""
    kept = json.loads(FILE.read_text()) if count is None else record(count)
    names = SPACE.names
    X = np.array([SPACE.encode({name: row[name] for name in names}) for row in kept["rows"]])
    cost = np.array([row["cost"] for row in kept["rows"]])
    return Recording(X, np.log(cost), np.array([row["error"] for row in kept["rows"]]))


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=0) + "\n")
    print(f"wrote {FILE}")
