"""XGBoost on a machine that is paid by the hour: the budget is money, and `rate` is its price.

Each trial is a process. Farthing kills a trial that the budget can no longer pay for, charges it,
and learns from it.
"""

import sys
import tempfile
import warnings
from importlib.util import find_spec

if find_spec("xgboost") is None:
    sys.exit(print("skipped: xgboost is not installed. Run pip install xgboost"))

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score

from farthing import Float, Int, Study

X, y = load_breast_cancer(return_X_y=True)
SPACE = {
    "n_estimators": Int(4, 400, log=True, cost="increases"),
    "max_depth": Int(1, 8, cost="increases"),
    "learning_rate": Float(1e-2, 1, log=True),
    "subsample": Float(0.3, 1),
}


def loss(params: dict) -> float:
    """Return the cross-validated log loss."""
    from xgboost import XGBClassifier  # in the trial's process: threads do not survive a fork

    with warnings.catch_warnings(action="ignore"):
        model = XGBClassifier(**params, n_jobs=1, random_state=0)
        return -cross_val_score(model, X, y, cv=3, scoring="neg_log_loss").mean()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        url = f"{folder}/tune.db"
        study = Study.create(url, name="trees", space=SPACE, budget="$0.006", rate="$3.60/h")
        print(study.run(loss))
        most_expensive = max(study.history.done, key=lambda trial: trial.cost["usd"])
        print(f"most expensive: ${most_expensive.cost['usd']:.5f} at {most_expensive.params}")
        study.close()
