"""Tune a support vector machine in six seconds of wall-clock time.

Some candidates take several times as long as others; Farthing learns their cost during the run. The
budget includes Farthing's own overhead.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from farthing import Categorical, Float, Int, minimize

X, y = (part[:600] for part in load_digits(return_X_y=True))
SPACE = {
    "kernel": Categorical(["rbf", "poly"]),
    "C": Float(1e-2, 1e3, log=True),
    "gamma": Float(1e-6, 1e-1, log=True),
    "degree": Int(2, 5, when={"kernel": "poly"}),  # only if the kernel is poly
}


def errors(params: dict) -> float:
    """Return the cross-validated error rate."""
    return 1 - cross_val_score(SVC(**params), X, y, cv=3).mean()


result = minimize(errors, SPACE, budget="6s", start={"kernel": "rbf", "C": 1.0})  # your first guess
seconds = [trial.cost["s"] for trial in result.history.done]
print(result)
print(f"prices:  {min(seconds):.3f} to {max(seconds):.3f} s a trial")
