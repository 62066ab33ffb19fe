"""Tune a neural network on the digits that come with scikit-learn, on a budget of seconds.

    python examples/demo.py [--budget 30s]

Training takes from a hundredth of a second to several seconds, depending on the parameters.
"""

import argparse
import math
import warnings

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from farthing import Categorical, Float, Int, Optimizer, Space, minimize
from farthing.stopping import NotWorthIt

SPACE = Space(
    {
        "width": Int(4, 256, log=True),
        "layers": Int(1, 3),
        "epochs": Int(2, 60, log=True),
        "rate": Float(1e-4, 1e-1, log=True),
        "solver": Categorical(["adam", "sgd"]),
        "momentum": Float(0.0, 0.99, when={"solver": "sgd"}),
    }
)
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.4, random_state=0)


def log_error(params: dict) -> float:
    """log10 of the share of held-back digits read wrong: 2 % is as far from 4 % as 20 from 40."""
    network = MLPClassifier(
        hidden_layer_sizes=[params["width"]] * params["layers"],
        max_iter=params["epochs"],
        learning_rate_init=params["rate"],
        solver=params["solver"],
        momentum=params.get("momentum", 0.9),
        random_state=0,
    )
    return math.log10(max(1 - network.fit(X_train, y_train).score(X_test, y_test), 1e-3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", default="30s")
    budget = parser.parse_args().budget
    warnings.simplefilter("ignore")  # few epochs are meant, and scikit-learn warns of each
    with threadpool_limits(1):  # small matrices are multiplied faster by one core than by several
        result = minimize(log_error, SPACE, budget, progress=True)
    print(result)
    print(f"error:   {10**result.best.value:.1%} of the held-back digits")
    # Would it be worth going on, if a fifth fewer errors (0.1 in log10) were worth ten seconds?
    onwards = Optimizer(SPACE, "1h", stop=NotWorthIt(), worth="0.1 = 10s")
    for trial in result.history.done:
        onwards.add(trial.params, trial.value, cost=trial.cost)
    print(f"go on?   {'no' if onwards.verdict.stop else 'yes'}: {onwards.verdict.because}")
