"""Training-set sizes as steps: a support vector machine sees all rows only if that pays.

A larger set means a new training. With n rows it takes about n^2, so 300, 600 and 1,200 rows are 1,
4 and 16 units of work. The steps count the work of all sizes so far: 1, 5 and 21.
"""

from itertools import accumulate

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from farthing import Budget, Float, Steps, minimize

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16.0, y, train_size=1200, random_state=0, stratify=y)
SIZES = (300, 600, 1200)
WORK = {rows: (rows // SIZES[0]) ** 2 for rows in SIZES}
ROWS = dict(zip(accumulate(WORK.values()), SIZES, strict=True))  # by the step to run to


def train(params, trial):
    work = 0
    while True:
        rows = ROWS[trial.until]
        work += WORK[rows]  # since this part of the training began
        model = SVC(**params).fit(X[:rows], y[:rows])
        if trial.report(trial.until, 1.0 - model.score(X_test, y_test), cost=work) != "continue":
            return


*rungs, last = ROWS
result = minimize(
    train,
    {"C": Float(1e-2, 1e3, log=True), "gamma": Float(1e-4, 10.0, log=True)},
    budget=Budget(150, "units"),
    steps=Steps(last, rungs=tuple(rungs), value="last"),
    seed=0,
)
print(result)
whole = sum(trial.step == last for trial in result.history)
print(f"sizes: {whole} of {len(result.history)} configurations saw all {SIZES[-1]} rows")
