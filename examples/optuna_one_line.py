"""An Optuna study with a budget: only the line that creates the sampler is new.

The sampler times only the objective, learns that large forests are expensive, and ends the loop
when the budget is spent.
"""

import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

from farthing.integrations.optuna import CostAwareSampler

X, y = load_breast_cancer(return_X_y=True)


def objective(trial: optuna.Trial) -> float:
    model = RandomForestClassifier(
        n_estimators=trial.suggest_int("n_estimators", 2, 256, log=True),
        max_depth=trial.suggest_int("max_depth", 2, 16),
        max_features=trial.suggest_float("max_features", 0.05, 1.0),
        random_state=0,
    )
    return cross_val_score(model, X, y, cv=3).mean()


optuna.logging.set_verbosity(optuna.logging.WARNING)
sampler = CostAwareSampler(budget="6s")
study = optuna.create_study(direction="maximize", sampler=sampler)
study.optimize(objective)

ledger = sampler.ledger(study)
seconds = [trial.user_attrs["farthing:seconds"] for trial in study.trials]
print(f"stopped: {study.user_attrs['farthing:stopped']}")
print(f"best:    {study.best_value:.4f} at {study.best_params}")
print(f"spent:   {ledger.spent:.1f} s, {ledger.overhead:.1f} s of it overhead")
print(f"trials:  {len(seconds)}, of {min(seconds):.2f} to {max(seconds):.2f} s")
