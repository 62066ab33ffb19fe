"""A searcher for Ray Tune that keeps a budget.

    tuner = tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-5, 1e-1)},
        tune_config=tune.TuneConfig(search_alg=BudgetSearch("2h"), metric="loss", mode="min",
                                    num_samples=-1),
    )

It proposes nothing while what is left is held for running trials, and ends the experiment when the
budget is spent or a rule says so. Ray Tune runs the trials: one that has begun is let finish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from farthing.errors import InvalidInput, MissingExtra, Stopped

try:
    from ray.tune.search import Searcher
except ImportError as error:
    raise MissingExtra("ray", "Ray Tune") from error

import cloudpickle  # type: ignore[import-untyped,unused-ignore]
from ray.tune.search import sample as domains

from farthing.budget.rates import rate_of
from farthing.core.events import Told
from farthing.core.settings import AnyBudget, AnySpace, SearchOptions, Settings, takes_settings
from farthing.core.store import InMemoryStore
from farthing.optimizer import Optimizer
from farthing.running import Pricing, Usage
from farthing.space.parameters import Categorical, Float, Int, Ordinal, Parameter
from farthing.space.space import Space

__all__ = ["BudgetSearch"]

MOST_STEPS = 10_000  # values on a grid; a longer one is a Float that is rounded
TIME = "time_total_s"  # what Ray Tune measures

Meaning = Callable[[Any], Any]


class BudgetSearch(Searcher):  # type: ignore[misc,unused-ignore]
    """Choose what Ray Tune evaluates, within a budget.

    Args:
        budget: "2h" (of the clock while the experiment runs), "20 worker_h", "$40", "30 trials".
        space: ours, {name: Float(...)}; None: the `param_space` of the Tuner.
        metric, mode: as in TuneConfig, where they may be given instead.
        paid: the key of a trial's results that says what it has cost so far, a number in the
            budget's first resource; None: it costs the seconds that Ray Tune measures.
        rate: what a second costs, "$3.06/h".

    The other arguments are the Optimizer's, but for the direction, which is the mode.
    """

    @takes_settings(SearchOptions)
    def __init__(
        self,
        budget: AnyBudget = None,
        space: AnySpace | None = None,
        metric: str | None = None,
        mode: str | None = None,
        paid: str | None = None,
        rate: str | None = None,
        **settings: Unpack[SearchOptions],
    ) -> None:
        if "direction" in settings or "max_overrun" in settings:
            raise InvalidInput(
                'BudgetSearch(...): the direction is Ray Tune\'s mode="min" or "max", and there is '
                "no leash: a scheduler of Ray Tune's ends trials."
            )
        Searcher.__init__(self, metric=metric, mode=mode)
        self._budget, self._paid, self._rate = budget, paid, rate
        self._given: dict[str, Any] = dict(settings)
        self._made: Optimizer | None = None
        self._meanings: dict[str, Meaning] = {}
        self._constants: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}  # of our trials, by Ray Tune's
        self._results: dict[str, Mapping[str, Any]] = {}  # the last of each that is running
        self._presence = ExitStack()
        self._space = space if space is None or isinstance(space, Space) else Space(space)
        if self._space is not None and mode is not None:
            self._begin(self._space, mode)
        else:  # what cannot be is refused now
            unplaced = {name: each for name, each in self._given.items() if name != "start"}
            self._settings(Space({"x": Float(0, 1)}), "min", unplaced)

    # ── what Ray Tune asks ─────────────────────────────────────────────────────────────────

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """What the Tuner was given."""
        if self._made is not None:
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        space = self._space
        if space is None:
            if not config:
                return False
            space, self._meanings, self._constants = _space_of(config)
        self._begin(space, self._mode or "min")
        return True

    def suggest(self, trial_id: str) -> Any:
        """The next parameters; None: not now; FINISHED: no more."""
        optimizer = self._optimizer
        try:
            trial = optimizer.ask()
        except Stopped:
            return None if optimizer.history.running else str(Searcher.FINISHED)
        self._numbers[trial_id] = trial.number
        params = {n: self._meanings.get(n, _same)(value) for n, value in trial.params.items()}
        return _nested({**self._constants, **params})

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """What it has cost so far, in case that it never ends well."""
        self._results[trial_id] = result

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Learn what came of it, and what it cost."""
        number = self._numbers.pop(trial_id, None)
        last = self._results.pop(trial_id, {}) if result is None else result
        self._results.pop(trial_id, None)
        if number is None:
            return
        optimizer, value = self._optimizer, last.get(str(self._metric))
        cost = self._cost(last)
        if error or (result is not None and not _is_finite(value)):
            why = "it raised an error" if error else f"its {self._metric} is {value!r}"
            optimizer.commit(Told(number, "failed", None, cost, why, certain=False))
        elif result is None:
            optimizer.commit(Told(number, "lost", None, cost, "it ended early", certain=False))
        else:
            optimizer.tell(number, float(last[str(self._metric)]), cost=cost)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from an evaluation made elsewhere, of which only the value is known."""
        flat = {n: v for n, v in _flat(parameters).items() if n in self._optimizer.space.names}
        row: dict[str, Any] = {"params": flat, "state": "failed"} if error else {"params": flat}
        if not pruned:
            self._optimizer.import_trials([row if error else {**row, "value": value}])

    def save(self, checkpoint_path: str) -> None:
        """Keep what is known in a file."""
        state = self._optimizer._memory.look()
        # The clock of another process is another one.
        kept = {
            name: each for name, each in vars(self).items() if name not in ("_made", "_presence")
        }
        known = (kept, self._optimizer._settings, replace(state, charged_until=None))
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(known))

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a file; downtime is free."""
        kept, settings, state = cloudpickle.loads(Path(checkpoint_path).read_bytes())
        self._presence.close()
        vars(self).update(kept)
        self._made = Optimizer.of(settings)
        self._made._remember(settings, InMemoryStore(state))
        self._presence.enter_context(self._made.on_the_clock())

    # ── what a user may ask ────────────────────────────────────────────────────────────────

    @property
    def optimizer(self) -> Optimizer:
        """Its ledger, its history, its verdict."""
        return self._optimizer

    # ── settings and costs ─────────────────────────────────────────────────────────────────

    @property
    def _optimizer(self) -> Optimizer:
        if self._made is None:
            raise InvalidInput(
                "BudgetSearch knows no space yet: give param_space to the Tuner, or space= and "
                "mode= to BudgetSearch."
            )
        return self._made

    def _settings(self, space: Space, mode: str, given: Mapping[str, Any]) -> Settings:
        said: dict[str, Any] = {**given, "rate": self._rate}
        said["direction"] = "maximize" if mode == "max" else "minimize"
        return Settings.of(space, self._budget, **said)

    def _begin(self, space: Space, mode: str) -> None:
        self._made = Optimizer.of(self._settings(space, mode, self._given))
        self._presence.enter_context(self._made.on_the_clock())

    def _cost(self, result: Mapping[str, Any]) -> dict[str, float]:
        settings = self._optimizer._settings
        told = {}
        if self._paid is not None:
            if not _is_finite(result.get(self._paid)):
                return {}
            told = {"": float(result[self._paid])}
        seconds = float(result.get(TIME, 0.0))
        rate = {} if self._rate is None else rate_of(self._rate)
        if not told and settings.cost_resources == ("cost",) and settings.budget is None:
            return {"cost": max(seconds, 1e-9)}
        if TIME not in result and not told:
            return {}
        return Pricing(rate).cost(Usage(seconds, seconds, 0.0), told, settings.resources)


# ── spaces ─────────────────────────────────────────────────────────────────────────────────────


def _space_of(config: Mapping[str, Any]) -> tuple[Space, dict[str, Meaning], dict[str, Any]]:
    """Ray Tune's space as ours: parameters, what their values stand for, and what is constant."""
    parameters, meanings, constants = {}, {}, {}
    for name, given in _flat(config).items():
        if name.endswith("/grid_search") or isinstance(given, domains.Function):
            raise InvalidInput(
                f"param_space[{name!r}]: a grid or a function cannot be searched. Say "
                "tune.choice([...]), or another range."
            )
        if isinstance(given, domains.Domain):
            parameters[name], meaning = _parameter(name, given)
            if meaning is not None:
                meanings[name] = meaning
        else:
            constants[name] = given
    if not parameters:
        raise InvalidInput(
            "param_space has nothing to search: say tune.uniform(0, 1) and the like."
        )
    return Space(parameters), meanings, constants


def _parameter(name: str, domain: Any) -> tuple[Parameter, Meaning | None]:
    if isinstance(domain, domains.Categorical):
        options = list(domain.categories)
        try:
            return Categorical(options), None
        except InvalidInput:  # lists, dicts: by their place
            return Categorical(range(len(options))), options.__getitem__
    sampler, step = domain.get_sampler(), None
    if isinstance(sampler, domains.Quantized):
        sampler, step = sampler.get_sampler(), sampler.q
    log = isinstance(sampler, domains.LogUniform)
    if not log and not isinstance(sampler, domains.Uniform):
        raise InvalidInput(
            f"param_space[{name!r}]={domain!r}: expected a range that has ends, such as "
            "tune.uniform(0, 1)."
        )
    whole = isinstance(domain, domains.Integer)
    if whole and step in (None, 1):
        last = domain.upper if step == 1 else domain.upper - 1
        return Int(domain.lower, last, log=log), None
    if step is None:
        return Float(domain.lower, domain.upper, log=log), None
    return _grid(domain.lower, domain.upper, step, log, int if whole else float)


def _grid(
    low: float, high: float, step: float, log: bool, kind: type
) -> tuple[Parameter, Meaning | None]:
    """Multiples of a step, as Ray Tune rounds them."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last - first < MOST_STEPS:
        return Ordinal([kind(i * step) for i in range(first, last + 1)], log=log), None
    return Float(low, high, log=log), lambda value: kind(round(value / step) * step)


def _flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} as {"a/b": 1}."""
    flat: dict[str, Any] = {}
    for name, each in config.items():
        path = f"{before}{name}"
        flat |= _flat(each, f"{path}/") if isinstance(each, Mapping) and each else {path: each}
    return flat


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """And back."""
    nested: dict[str, Any] = {}
    for path, each in flat.items():
        *folders, name = path.split("/")
        inner = nested
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[name] = each
    return nested


def _same(value: Any) -> Any:
    return value


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
