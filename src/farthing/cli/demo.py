"""`farthing demo`: tune a neural network on the digits that come with scikit-learn."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from farthing.cli.options import STORAGE, STUDY
from farthing.cli.run import finish
from farthing.errors import InvalidInput
from farthing.space.space import Categorical, Float, Int, Space

__all__ = ["demo"]

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
WORTH = "0.1 = 1m"  # 0.1 in log10, a fifth fewer errors, is worth one minute


@click.command()
@click.option("--budget", default="1m", show_default=True, help="Time to spend.")
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of trials at the same time.",
)
@click.option(
    "--storage",
    metavar="URL",
    envvar=STORAGE,
    help=f"Database for the study.  [default: ${STORAGE}, or a temporary file]",
)
@click.option("--name", default=STUDY, show_default=True, help="Name of the study.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--quiet", is_flag=True, help="Print only the result.")
def demo(budget: str, workers: int, storage: str | None, name: str, seed: int, quiet: bool) -> int:
    """Tune a small neural network for one minute.

    The network reads handwritten digits; two fifths of them are the test set. Depending on the
    parameters, it trains in a hundredth of a second or in several seconds. The demo needs
    scikit-learn.
    """
    from farthing.stopping import NotWorthIt
    from farthing.study import Study
    from farthing.view.progress import watching

    objective = _objective()
    with _database(storage) as url:
        study = Study.create(
            url,
            name=name,
            space=SPACE,
            budget=budget,
            stop=NotWorthIt(),
            worth=WORTH,
            seed=seed,
            retries=1,
        )
        try:
            if not quiet:
                click.echo(
                    f"Tuning a neural network for handwritten digits with a budget of {budget}."
                )
            with watching(study, quiet=quiet) as on_change:
                result = study.run(objective, workers=workers, on_change=lambda _: on_change())
            code = finish(result, "table", again="farthing demo --storage ...")
            if result.found is not None and result.best.value is not None:
                click.echo(f"errors:  {10**result.best.value:.1%} of the test digits")
                if result.ledger.used_up:  # the budget ended the run before the rule did
                    click.echo(f"go on?   {_advice(study)}")
            return code
        finally:
            study.close()


def _objective() -> Any:
    """log10 of the error rate on the test digits: 2 % is as far from 4 % as 20 % from 40 %."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
        from sklearn.neural_network import MLPClassifier
    except ImportError:
        raise InvalidInput("The demo needs scikit-learn: pip install 'farthing[demo]'.") from None
    from threadpoolctl import threadpool_limits

    digits, labels = load_digits(return_X_y=True)
    parts = train_test_split(digits / 16, labels, test_size=0.4, random_state=0)
    train, test, train_labels, test_labels = parts

    def log_error(params: Mapping[str, Any]) -> float:
        network = MLPClassifier(
            hidden_layer_sizes=[params["width"]] * params["layers"],
            max_iter=params["epochs"],
            learning_rate_init=params["rate"],
            solver=params["solver"],
            momentum=params.get("momentum", 0.9),
            random_state=0,
        )
        # One core multiplies small matrices faster than several do.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few epochs are intended
            accuracy = network.fit(train, train_labels).score(test, test_labels)
        return math.log10(max(1 - accuracy, 1e-3))

    return log_error


@contextmanager
def _database(storage: str | None) -> Iterator[str]:
    if storage is not None:
        yield storage
        return
    with tempfile.TemporaryDirectory(prefix="farthing-demo-") as folder:
        yield str(Path(folder) / "demo.db")


def _advice(study: Any) -> str:
    """The verdict of the stopping rule on the same trials with a budget of one hour."""
    from farthing.optimizer import Optimizer
    from farthing.stopping import NotWorthIt

    optimizer = Optimizer(SPACE, "1h", stop=NotWorthIt(), worth=WORTH)
    for trial in study.history.done:
        optimizer.add(trial.params, trial.value, cost=trial.cost)
    verdict = optimizer.verdict
    return f"{'no' if verdict.stop else 'yes'}: {verdict.because}"
