"""Farthing beside what people already use; each file needs the library it is named after.

    farthing.integrations.optuna      CostAwareSampler, StopAtBudget, import_study, Mirror
    farthing.integrations.sklearn     BudgetSearchCV
    farthing.integrations.dask        Dask: trials as tasks of a cluster
    farthing.integrations.ray         Ray: likewise
    farthing.integrations.ray_tune    BudgetSearch: a searcher of ray.tune

`pip install 'farthing[optuna]'` (or sklearn, dask, ray) brings the library; nothing here is loaded
before it is imported by its own name.
"""
