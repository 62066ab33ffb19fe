"""Optional libraries: Farthing does not import them, and an error names the missing extra."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
    "project"
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("optuna", "optuna", "optuna"),
        ("sklearn", "sklearn", "sklearn"),
        ("dask", "distributed", "dask"),
        ("ray", "ray", "ray"),
        ("ray_tune", "ray.tune.search", "ray"),
        ("submitit", "submitit", "submitit"),
        ("hydra", "hydra", "hydra"),
        ("mlflow", "mlflow", "mlflow"),
        ("wandb", "wandb", "wandb"),
        ("xgboost", "xgboost", "xgboost"),
        ("lightgbm", "lightgbm", "lightgbm"),
        ("lightning", "lightning", "lightning"),
        ("transformers", "transformers", "transformers"),
        ("keras", "keras", "keras"),
    ],
)
def test_the_error_of_a_missing_extra_names_the_command_to_install_it(module, library, extra):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"try:\n    import farthing.integrations.{module}\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert f"pip install 'farthing[{extra}]'" in done.stdout
    assert extra in PROJECT["optional-dependencies"]


def test_farthing_alone_imports_none_of_them():
    names = {"optuna", "scikit-learn", "distributed", "dask", "ray", "joblib", "hydra-core"}
    names |= {"submitit", "mlflow-skinny", "wandb", "xgboost", "lightgbm", "lightning", "keras"}
    required = {line.split(">")[0].split("[")[0] for line in PROJECT["dependencies"]}
    assert not names & required
