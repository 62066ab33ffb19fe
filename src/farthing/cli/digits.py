"""A small neural network that reads digits: what `farthing demo` tunes, also as a program.

    farthing run --budget 1m --param width=int:16:512:log --param rate=float:1e-3:3e-2:log \\
        -- python -m farthing.cli.digits --width {width} --rate {rate}

The digits are scikit-learn's scans of handwritten digits. If scikit-learn is not installed, they
are drawn here from the seven strokes of a pocket calculator, with random positions and noise. The
network is a multilayer perceptron with rectified linear units, trained on the cross-entropy of
batches by Adam (Kingma and Ba 2015, algorithm 1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from farthing.space.space import Float, Int, Space

__all__ = ["SPACE", "Digits", "drawn", "load", "reader"]

SPACE = Space(
    {
        "width": Int(16, 512, log=True),  # neurons in each hidden layer
        "layers": Int(1, 3),  # hidden layers
        "epochs": Int(5, 100, log=True),  # passes over the training digits
        "rate": Float(1e-3, 3e-2, log=True),  # learning rate
    }
)
TEST_SHARE = 0.4
BATCH = 100  # digits in one step of the training
DECAY = 0.9, 0.999  # Adam's decay of the mean gradient and of the mean squared gradient
TINY = 1e-8  # Adam's guard against a division by zero

DRAWN = 1797  # as many as scikit-learn has
NOISE = 0.25  # standard deviation of a pixel; a stroke has the brightness 1
STROKES: Mapping[str, tuple[slice, slice]] = {  # rows and columns of a glyph of 7 x 4 pixels
    "a": (slice(0, 1), slice(0, 4)),
    "b": (slice(0, 4), slice(3, 4)),
    "c": (slice(3, 7), slice(3, 4)),
    "d": (slice(6, 7), slice(0, 4)),
    "e": (slice(3, 7), slice(0, 1)),
    "f": (slice(0, 4), slice(0, 1)),
    "g": (slice(3, 4), slice(0, 4)),
}
GLYPHS = "abcdef bc abged abgcd fgbc afgcd afgcde abc abcdefg abcdfg".split()  # noqa: SIM905

Array = NDArray[np.float32]


class Digits(NamedTuple):
    """Images of digits, (n, 64), and the digits that they show, (n,)."""

    images: Array
    labels: NDArray[np.int64]
    source: str


def load() -> Digits:
    """Scikit-learn's handwritten digits; without scikit-learn, drawn ones."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return drawn()
    images, labels = load_digits(return_X_y=True)
    return Digits((images / 16).astype(np.float32), labels, "handwritten digits")


def drawn() -> Digits:
    """Digits of a pocket calculator at random places of noisy images of 8 x 8 pixels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=DRAWN)
    images = np.zeros((DRAWN, 8, 8), np.float32)
    for image, label in zip(images, labels, strict=True):
        top, left = rng.integers(2), rng.integers(5)
        for stroke in GLYPHS[label]:
            image[top:, left:][STROKES[stroke]] = 1.0
    images += rng.normal(0.0, NOISE, images.shape).astype(np.float32)
    return Digits(images.reshape(DRAWN, 64), labels, "drawn digits")


def reader(digits: Digits) -> Callable[[Mapping[str, Any]], float]:
    """An objective: the percentage of the test digits that a trained network misreads."""
    images, labels, _ = digits
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = np.split(order, [round(TEST_SHARE * len(labels))])

    def percentage(params: Mapping[str, Any]) -> float:
        # One core multiplies small matrices faster than several do.
        with threadpool_limits(1):
            weights = _trained(images[train], labels[train], params)
            wrong = _outputs(weights, images[test])[-1].argmax(axis=1) != labels[test]
        return float(100.0 * wrong.mean())

    return percentage


def _trained(images: Array, labels: NDArray[np.int64], params: Mapping[str, Any]) -> list[Array]:
    """Weights of all layers; the last row of each is the bias."""
    rng = np.random.default_rng(0)
    sizes = [images.shape[1], *[params["width"]] * params["layers"], 10]
    weights = [
        np.vstack([rng.normal(0.0, np.sqrt(2 / m), (m, n)), np.zeros(n)]).astype(np.float32)
        for m, n in pairwise(sizes)
    ]
    mean, square = ([np.zeros_like(W) for W in weights] for _ in range(2))
    (keep, keep_square), step = DECAY, 0
    for _ in range(params["epochs"]):
        order = rng.permutation(len(labels))
        for batch in np.array_split(order, np.ceil(len(order) / BATCH)):
            step += 1
            gradients = _gradients(weights, images[batch], labels[batch])
            for W, g, m, s in zip(weights, gradients, mean, square, strict=True):
                m += (1 - keep) * (g - m)
                s += (1 - keep_square) * (g**2 - s)
                scale = np.sqrt(s / (1 - keep_square**step)) + TINY
                W -= params["rate"] / (1 - keep**step) * m / scale
    return weights


def _outputs(weights: list[Array], images: Array) -> list[Array]:
    """The images, then the output of each layer; the last is not rectified."""
    outputs = [images]
    for number, W in enumerate(weights, start=1):
        output = outputs[-1] @ W[:-1] + W[-1]
        outputs.append(output if number == len(weights) else np.maximum(output, 0))
    return outputs


def _gradients(weights: list[Array], images: Array, labels: NDArray[np.int64]) -> list[Array]:
    """d/dW of the mean cross-entropy of a batch, by backpropagation."""
    *inputs, output = _outputs(weights, images)
    error = np.exp(output - output.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    found = list[Array]()
    for W, given in zip(reversed(weights), reversed(inputs), strict=True):
        found.append(np.vstack([given.T @ error, error.sum(axis=0)]))
        error = (error @ W[:-1].T) * (given > 0)
    return found[::-1]


@click.command()
@click.option("--width", default=64, show_default=True, help="Neurons in each hidden layer.")
@click.option("--layers", default=1, show_default=True, help="Hidden layers.")
@click.option("--epochs", default=20, show_default=True, help="Passes over the training digits.")
@click.option("--rate", default=0.003, show_default=True, help="Learning rate.")
def main(**params: Any) -> None:
    """Train one network, and print the percentage of the test digits that it misreads."""
    click.echo(json.dumps({"value": reader(load())(params)}))


if __name__ == "__main__":
    main(prog_name="python -m farthing.cli.digits")
