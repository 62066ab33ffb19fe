"""Real training: CArBO's five models on four data sets, and XGBoost behind eight pipelines.

    model      d   value                            cost
    knn        5   test error                       CPU seconds of fitting and predicting
    mlp       11   test error
    svm        6   test error
    dt, rf     3   test error
    xgboost    7   test error; regression: test RMSE over the standard deviation of the test y

Spaces: Lee et al. (CArBO) section 4, with the names of scikit-learn; Guinet et al. appendix A. Test
sets are cut to 5,000 rows, drawn once. A pipeline is one of {ordinal, one-hot} x {as is,
standardised} x {as is, PCA to 95 % of the variance}, fitted on the training rows. Its name has the
letters h, s, p for the second choices, or is "plain".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing import Categorical, Float, Int, Space

Array = NDArray[np.float64]
Params = Mapping[str, Any]

TEST_ROWS = 5_000
TEST_SHARE = 0.25  # of a data set without a test part
FEW_VALUES = 10  # an integer column with at most this number of distinct values is a category


@dataclass(frozen=True)
class Data:
    """Training rows and test rows; y is a class number, or a number to predict."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    classes: int  # 0: regression


# ── the spaces ─────────────────────────────────────────────────────────────────────────────────

METRICS = ["minkowski", "cityblock", "cosine", "euclidean", "l1", "l2", "manhattan"]
KNN = Space(
    {
        "share": Float(1e-6, 1.0, log=True),
        "projection": Categorical(["gaussian", "sparse"]),
        "neighbours": Int(1, 256),
        "weights": Categorical(["uniform", "distance"]),
        "metric": Categorical(METRICS),
    }
)
MLP = Space(
    {
        "layers": Int(1, 4),
        **{f"width_{i}": Int(10, 150, log=True) for i in (1, 2, 3, 4)},
        "activation": Categorical(["logistic", "tanh", "relu"]),
        "tolerance": Float(1e-5, 1e-2, log=True),
        "alpha": Float(1e-6, 1.0, log=True),
        "learning_rate": Float(1e-6, 1e-2, log=True),
        "beta_1": Float(1e-3, 0.99, log=True),
        "beta_2": Float(1e-3, 0.99, log=True),
    }
)
SVM = Space(
    {
        "iterations": Int(1, 128),
        "penalty": Categorical(["l1", "l2", "elasticnet"]),
        "l1_ratio": Float(0.0, 1.0),
        "alpha": Float(1e-3, 1e3, log=True),
        "eta0": Float(1e-4, 1e-1, log=True),
        "schedule": Categorical(["constant", "optimal", "invscaling", "adaptive"]),
    }
)
DT = Space(
    {
        "depth": Int(1, 64),
        "split": Float(0.1, 1.0, log=True),
        "features": Float(1e-3, 0.5, log=True),
    }
)
RF = Space({"trees": Int(1, 256), "depth": Int(1, 64), "split": Float(0.1, 1.0, log=True)})
XGBOOST = Space(
    {
        "rounds": Int(1, 256, log=True),
        "learning_rate": Float(0.01, 1.0, log=True),
        "gamma": Float(0.0, 0.1),
        "alpha": Float(1e-3, 1e3, log=True),
        "lambda": Float(1e-3, 1e3, log=True),
        "subsample": Float(0.01, 1.0),
        "depth": Int(1, 16),
    }
)
SPACES = {"knn": KNN, "mlp": MLP, "svm": SVM, "dt": DT, "rf": RF, "xgboost": XGBOOST}


# ── the models ─────────────────────────────────────────────────────────────────────────────────


def _knn(params: Params, data: Data) -> Any:
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

    kinds = {"gaussian": GaussianRandomProjection, "sparse": SparseRandomProjection}
    components = max(1, round(params["share"] * data.X.shape[1]))
    return make_pipeline(
        kinds[params["projection"]](components, random_state=0),
        KNeighborsClassifier(
            params["neighbours"], weights=params["weights"], metric=params["metric"], n_jobs=1
        ),
    )


def _mlp(params: Params, data: Data) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        tuple(params[f"width_{i}"] for i in range(1, params["layers"] + 1)),
        activation=params["activation"],
        tol=params["tolerance"],
        alpha=params["alpha"],
        learning_rate_init=params["learning_rate"],
        beta_1=params["beta_1"],
        beta_2=params["beta_2"],
        random_state=0,
    )


def _svm(params: Params, data: Data) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(
        loss="hinge",
        max_iter=params["iterations"],
        penalty=params["penalty"],
        l1_ratio=params["l1_ratio"],
        alpha=params["alpha"],
        eta0=params["eta0"],
        learning_rate=params["schedule"],
        random_state=0,
    )


def _dt(params: Params, data: Data) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(
        max_depth=params["depth"],
        min_samples_split=params["split"],
        max_features=params["features"],
        random_state=0,
    )


def _rf(params: Params, data: Data) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        params["trees"],
        max_depth=params["depth"],
        min_samples_split=params["split"],
        random_state=0,
        n_jobs=1,
    )


def _xgboost(params: Params, data: Data) -> Any:
    from xgboost import XGBClassifier, XGBRegressor

    return (XGBClassifier if data.classes else XGBRegressor)(
        n_estimators=params["rounds"],
        learning_rate=params["learning_rate"],
        gamma=params["gamma"],
        reg_alpha=params["alpha"],
        reg_lambda=params["lambda"],
        subsample=params["subsample"],
        max_depth=params["depth"],
        random_state=0,
        n_jobs=1,
    )


MODELS: dict[str, Callable[[Params, Data], Any]] = {
    "knn": _knn,
    "mlp": _mlp,
    "svm": _svm,
    "dt": _dt,
    "rf": _rf,
    "xgboost": _xgboost,
}


def train(model: str, params: Params, data: Data) -> float:
    """The error of one configuration on the test rows."""
    return error_of(MODELS[model](params, data), data)


def error_of(model: Any, data: Data) -> float:
    """The error on the test rows; in regression, RMSE over the standard deviation of the test y."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that has not converged still has a value
        predicted = model.fit(data.X, data.y).predict(data.X_test)
    if data.classes:
        return float(np.mean(predicted != data.y_test))
    return float(np.sqrt(np.mean((predicted - data.y_test) ** 2)) / np.std(data.y_test))


# ── the data ───────────────────────────────────────────────────────────────────────────────────

LIBSVM = ("a1a", "a3a", "splice", "w2a")
PIPELINES = tuple("".join(parts) or "plain" for parts in product(("", "h"), ("", "s"), ("", "p")))
REGRESSION = (
    "abalone",
    "openml_189_kin8nm",
    "openml_287_wine_quality",
    "openml_503_wind",
    "parkinsons_telemonitoring",
)
LEAKS = {"parkinsons_telemonitoring": ["motor_UPDRS", "subject"]}  # its README says to drop them


def load(name: str, pipeline: str, folder: Path) -> Data:
    """A data set of the folder after a pipeline, with at most 5,000 test rows."""
    raw = _libsvm(name, folder) if name in (*LIBSVM, "a2a") else _tabular(name, folder)
    X, X_test = _through(pipeline, raw.X, raw.X_test)
    return Data(X, raw.y, X_test, raw.y_test, raw.classes)


@cache
def _libsvm(name: str, folder: Path) -> Data:
    with np.load(folder / "libsvm" / f"{name}.npz") as file:
        stored = dict(file)
    parts: list[Array] = []
    for part in ("train", "test"):
        if f"{part}_X" in stored:
            parts.append(stored[f"{part}_X"].astype(np.float64))
            continue
        starts, columns = stored[f"{part}_indptr"], stored[f"{part}_indices"]
        X = np.zeros((len(starts) - 1, int(stored["n_features"])))
        X[np.repeat(np.arange(len(X)), np.diff(starts)), columns] = 1.0
        parts.append(X)
    y, y_test = ((stored[f"{part}_y"] > 0).astype(float) for part in ("train", "test"))
    kept = np.random.default_rng(0).permutation(len(y_test))[
        :TEST_ROWS
    ]  # some files are sorted by y
    return Data(parts[0], y, parts[1][kept], y_test[kept], classes=2)


@cache
def _tabular(name: str, folder: Path) -> Data:
    import pandas as pd

    frame = pd.read_parquet(folder / "uci_openml" / f"{name}.parquet")
    frame = frame.drop(columns=["split", *LEAKS.get(name, [])], errors="ignore")
    target = frame.pop("y")
    codes = {
        column: pd.factorize(frame[column], sort=True)[0]
        for column in frame
        if not pd.api.types.is_numeric_dtype(frame[column])
    }
    X = frame.assign(**codes).to_numpy(np.float64)
    classes = 0 if name in REGRESSION else target.nunique()
    y = (pd.factorize(target, sort=True)[0] if classes else target.to_numpy()).astype(float)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    cut = round((1 - TEST_SHARE) * len(X))
    return Data(X[:cut], y[:cut], X[cut:][:TEST_ROWS], y[cut:][:TEST_ROWS], classes)


def _through(pipeline: str, X: Array, X_test: Array) -> tuple[Array, Array]:
    from sklearn.compose import make_column_transformer
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    if pipeline not in PIPELINES:
        raise ValueError(f"Unknown pipeline {pipeline!r}: expected one of {', '.join(PIPELINES)}.")
    steps: list[Any] = []
    if "h" in pipeline:
        few = [j for j in range(X.shape[1]) if _is_category(X[:, j])]
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        steps.append(make_column_transformer((one_hot, few), remainder="passthrough"))
    if "s" in pipeline:
        steps.append(StandardScaler())
    if pipeline != "plain" and "p" in pipeline:
        steps.append(PCA(n_components=0.95, svd_solver="full"))
    if not steps or pipeline == "plain":
        return X, X_test
    through = make_pipeline(*steps).fit(X)
    return through.transform(X), through.transform(X_test)


def _is_category(column: Array) -> bool:
    values = np.unique(column)
    return len(values) <= FEW_VALUES and bool((values == np.round(values)).all())


# ── the recorded problems ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Training:
    """One model on one data set after one pipeline."""

    model: str
    data: str
    pipeline: str = "plain"

    @property
    def name(self) -> str:
        """As in `knn-a1a` and `xgboost-abalone-hs`."""
        tail = "" if self.pipeline == "plain" else f"-{self.pipeline}"
        return f"{self.model}-{self.data}{tail}"

    @property
    def space(self) -> Space:
        """Its parameters."""
        return SPACES[self.model]


CARBO = tuple(
    Training(model, data) for model in ("dt", "svm", "knn", "rf", "mlp") for data in LIBSVM
)
GUINET = (
    Training("xgboost", "a1a"),
    Training("xgboost", "a3a", "s"),
    Training("xgboost", "splice", "h"),
    Training("xgboost", "abalone", "hs"),
    Training("xgboost", "satimage", "p"),
    Training("xgboost", "turkiye", "hp"),
    Training("xgboost", "coil2000", "sp"),
    Training("xgboost", "parkinsons_telemonitoring", "hsp"),
    Training("xgboost", "openml_503_wind", "s"),
    Training("xgboost", "openml_189_kin8nm"),
    Training("xgboost", "openml_1489_phoneme", "sp"),
    Training("xgboost", "openml_task125922_texture", "p"),
)
RECORDED = {training.name: training for training in (*CARBO, *GUINET)}
