"""Boosting rounds as steps: bad configurations are paused after a few trees.

A step is ten trees of scikit-learn's gradient boosting. A paused model waits in its checkpoint.
The early stopping of the library is off, because the tuner decides which model gets more trees.
"""

import pickle

from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from farthing import Float, Int, Steps, minimize

X, y = load_digits(n_class=5, return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=400, random_state=0, stratify=y)


def train(params, trial):
    file = trial.checkpoint / "model.pickle"
    if file.exists():
        model = pickle.loads(file.read_bytes())
    else:
        model = GradientBoostingClassifier(
            n_estimators=0, warm_start=True, max_features="sqrt", random_state=0, **params
        )
    for step in range(model.n_estimators // 10 + 1, trial.last + 1):
        model.set_params(n_estimators=10 * step).fit(X, y)
        if trial.report(step, log_loss(y_test, model.predict_proba(X_test))) != "continue":
            file.write_bytes(pickle.dumps(model))
            return


result = minimize(
    train,
    {
        "learning_rate": Float(0.01, 1.0, log=True),
        "max_depth": Int(1, 8),
        "subsample": Float(0.2, 1.0),
    },
    budget="8s",
    steps=Steps(16),
    seed=0,
)
print(result)
print(f"trees: {10 * result.best.step} of {10 * 16}")
