"""`hydra/sweeper=farthing`: a sweep of Hydra within a budget.

Hydra imports every module of this folder when an app starts, so Farthing is imported in a sweep.
It does so without `sys.modules`, where a dataclass would look up annotations that are strings.
"""

import logging
from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.sweeper import Sweeper
from omegaconf import MISSING, DictConfig, OmegaConf

__all__ = ["FarthingSweeper", "FarthingSweeperConf"]

log = logging.getLogger(__name__)


@dataclass
class FarthingSweeperConf:
    """The settings of the sweeper.

    Attributes:
        budget: what the sweep may spend: "20 trials", "2h", "$40" or "2h, 50 trials".
        params: the parameters, in the syntax of overrides: {lr: "tag(log, interval(1e-5, 0.1))"}.
        direction: "minimize" or "maximize" what the app returns.
        jobs: the number of jobs that are given to the launcher at the same time.
        storage: a database, so that the same sweep can be continued; None: in memory.
        name: of the study in the database.
        settings: other settings of `farthing.Optimizer`, such as {policy: ei, seed: 1}.
    """

    _target_: str = "hydra_plugins.farthing_sweeper.FarthingSweeper"
    budget: Any = MISSING
    params: Any = None
    direction: str = "minimize"
    jobs: int = 1
    storage: str | None = None
    name: str = "${hydra.job.name}"
    settings: Any = None


ConfigStore.instance().store(
    group="hydra/sweeper", name="farthing", node=FarthingSweeperConf, provider="farthing"
)


class FarthingSweeper(Sweeper):  # type: ignore[misc]
    """Launches the jobs that Farthing suggests until the budget is spent."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.config: DictConfig | None = None

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        """Make the launcher, which measures the time of each job."""
        from farthing.integrations.hydra import Timed

        self.config, self.hydra_context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=Timed(task_function), config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run the sweep, and return the best value.

        Args:
            arguments: the overrides of the command line.
        """
        from farthing.errors import FarthingError
        from farthing.integrations.hydra import run_sweep

        options = OmegaConf.to_container(OmegaConf.create(self.options), resolve=True)
        params = options.pop("params") or {}
        given = {line.split("=", 1)[0]: line for line in arguments}
        lines = [f"{name}={text}" for name, text in params.items() if name not in given]
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*lines, *arguments])

        def launch(batch: list[list[str]], first: int) -> Any:
            self.validate_batch_is_legal(batch)
            return self.launcher.launch(batch, initial_job_idx=first)

        assert self.config is not None
        try:
            return run_sweep(overrides, launch, self.config.hydra.sweep.dir, log, **options)
        except FarthingError as error:  # Hydra shows its own errors without a traceback
            raise HydraException(str(error)) from error
