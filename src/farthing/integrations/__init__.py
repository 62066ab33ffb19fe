"""Farthing in other libraries; each module needs the library of its name.

    farthing.integrations.optuna      CostAwareSampler, StopAtBudget, import_study, Mirror
    farthing.integrations.sklearn     BudgetSearchCV
    farthing.integrations.dask        Dask: trials as tasks of a Dask cluster
    farthing.integrations.ray         Ray: trials as tasks of a Ray cluster
    farthing.integrations.ray_tune    BudgetSearch: a searcher for ray.tune

`pip install 'farthing[optuna]'` (or sklearn, dask, ray) installs the library. Farthing imports a
module of this folder only if the user does.
"""
