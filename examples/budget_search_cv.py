"""A scikit-learn search with a budget: only the name of the class changes.

The search pauses a candidate between folds if it is far behind the best one. It gives a candidate
up if the budget cannot pay for its remaining folds.
"""

from collections import Counter

from scipy.stats import loguniform
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from farthing.integrations.sklearn import BudgetSearchCV

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=600, random_state=0)

search = BudgetSearchCV(
    make_pipeline(StandardScaler(), SVC()),
    {
        "svc__C": loguniform(1e-2, 1e3),
        "svc__gamma": loguniform(1e-5, 1e0),
        "svc__kernel": ["rbf", "sigmoid"],
    },
    budget="5s",
    random_state=0,
)
search.fit(X, y)

results, ledger = search.cv_results_, search.result_.ledger
states = Counter(results["state"].tolist())
print(f"stopped: {search.result_.stop_reason}")
print(f"best:    {search.best_score_:.4f} at {search.best_params_}")
print(f"spent:   {ledger.spent:.1f} s, {ledger.overhead:.1f} s of it overhead")
print(f"folds:   {results['n_folds'].sum()} of {5 * len(results['params'])}, {dict(states)}")
print(f"test:    {search.score(X_test, y_test):.4f}")
