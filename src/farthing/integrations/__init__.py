"""Farthing in other libraries; each module needs the library of its name.

    farthing.integrations.optuna      CostAwareSampler, StopAtBudget, import_study, Mirror
    farthing.integrations.sklearn     BudgetSearchCV
    farthing.integrations.dask        Dask: trials as tasks of a Dask cluster
    farthing.integrations.ray         Ray: trials as tasks of a Ray cluster
    farthing.integrations.ray_tune    BudgetSearch: a searcher for ray.tune
    farthing.integrations.submitit    Submitit: trials as jobs, for example of Slurm
    farthing.integrations.hydra       what `hydra/sweeper=farthing` does
    farthing.integrations.mlflow      MLflow: each trial as a run
    farthing.integrations.wandb       WandB: each trial as a run of Weights & Biases

    xgboost, lightgbm, lightning, transformers, keras    Report: a callback of a training loop
    farthing.integrations.partial_fit                    the same for models of scikit-learn

`pip install 'farthing[optuna]'` (or another extra) installs the library. Farthing imports a module
of this folder only if the user does.
"""
