"""A searcher for Ray Tune that keeps within a budget.

    tuner = tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-5, 1e-1)},
        tune_config=tune.TuneConfig(search_alg=BudgetSearch("2h"), metric="loss", mode="min",
                                    num_samples=-1),
    )

It suggests nothing while the rest of the budget is reserved for running trials. It ends the
experiment when the budget is spent or a rule stops it. Ray Tune runs the trials, so a trial that
has started is finished.

With `steps=51`, the last `training_iteration` of a training, it learns from the values of every
iteration. A trial that a scheduler such as ASHA ends earlier is a part of a training. Without
steps, such a trial counts as if its value were no better than the median, and its cost is a lower
bound. The scheduler has ended a trial that stopped at fewer iterations than another one reached,
without returning and without meeting a `stop` criterion of the RunConfig.
"""

from __future__ import annotations

import math
import sys
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
from farthing.core.options import AnyBudget, AnySpace, SearchOptions
from farthing.core.settings import Settings
from farthing.core.signatures import takes_settings
from farthing.core.store import InMemoryStore
from farthing.data.sources import settings_of
from farthing.history import PRUNED, CurvePoint
from farthing.integrations.whole_trainings import WholeTrainings
from farthing.optimizer import Optimizer
from farthing.running import Pricing, Usage
from farthing.space.parameters import Categorical, Float, Int, Ordinal, Parameter
from farthing.space.space import Space
from farthing.steps import Steps

__all__ = ["BudgetSearch"]

LARGEST = sys.float_info.max
MAX_STEPS = 10_000  # values on a grid; a longer one becomes a Float that is rounded
TIME = "time_total_s"  # the key of the time that Ray Tune measures
STEP = "training_iteration"  # the key of the step, which Ray Tune counts from 1

Decoder = Callable[[Any], Any]


class BudgetSearch(Searcher):  # type: ignore[misc,unused-ignore]
    """Suggest trials for Ray Tune, within a budget.

    Args:
        budget: "2h" (of the clock while the experiment runs), "20 worker_h", "$40", "30 trials".
        space: a space of Farthing, {name: Float(...)}; by default the `param_space` of the Tuner.
        metric, mode: as in TuneConfig, which may set them instead.
        paid: the key of a result with the cost of the trial so far, a number in the first resource
            of the budget; by default the cost is the seconds that Ray Tune measures.
        rate: the price of the machine, "$3.06/h".

    The other arguments are those of `Optimizer`. The direction is the mode.
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
        if any(name in settings for name in ("direction", "max_overrun")):
            raise InvalidInput(
                'BudgetSearch(...) has neither direction nor max_overrun. Give mode="min" or "max" '
                "instead of a direction, and a scheduler of Ray Tune to end trials early."
            )
        Searcher.__init__(self, metric=metric, mode=mode)
        self._budget, self._paid, self._rate = budget, paid, rate
        self._given: dict[str, Any] = dict(settings)
        self._inner: Optimizer | None = None
        self._decoders: dict[str, Decoder] = {}
        self._constants: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}  # numbers of our trials, by the id of Ray Tune
        self._results: dict[str, Mapping[str, Any]] = {}  # the last result of each running trial
        self._curves: dict[str, list[CurvePoint]] = {}  # of each running trial
        self._criteria: dict[str, Any] | None = {}  # of the RunConfig; None: a function decides
        self._furthest = 0  # the last iteration of any trial
        self._presence = ExitStack()
        self._space = space if space is None or isinstance(space, Space) else Space(space)
        if self._space is not None and mode is not None:
            self._start(self._space, mode)
        else:  # invalid settings raise an error now
            later = ("start", "learn_from")  # they need the space
            others = {name: each for name, each in self._given.items() if name not in later}
            self._settings(Space({"x": Float(0, 1)}), "min", others)

    # ── the interface of Ray Tune ──────────────────────────────────────────────────────────

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Take the metric, the mode and the space of the Tuner."""
        stop = spec.get("stop") or {}
        self._criteria = _flat(stop) if isinstance(stop, Mapping) else None
        if self._inner is not None:
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        space = self._space
        if space is None:
            if not config:
                return False
            space, self._decoders, self._constants = _space_of(config)
        self._start(space, self._mode or "min")
        return True

    def suggest(self, trial_id: str) -> Any:
        """The next parameters; None for "not now", FINISHED for "no more"."""
        optimizer = self._optimizer
        try:
            trial = optimizer.ask()
        except Stopped:
            return None if optimizer.history.running else str(Searcher.FINISHED)
        self._numbers[trial_id] = trial.number
        params = {n: self._decoders.get(n, _same)(value) for n, value in trial.params.items()}
        return _nested({**self._constants, **params})

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Remember the last result, for the cost of a trial that fails later, and the curve."""
        self._results[trial_id] = result
        self._furthest = max(self._furthest, _iteration(result))
        steps = self._optimizer._settings.steps
        step, value = result.get(STEP), result.get(str(self._metric))
        curve = self._curves.setdefault(trial_id, [])
        if steps is None or not isinstance(step, int) or not _is_finite(value):
            return
        if (curve[-1].step if curve else 0) < step <= steps.last:
            curve.append(CurvePoint(step, float(result[str(self._metric)]), self._cost(result)))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Learn the value and the cost."""
        number = self._numbers.pop(trial_id, None)
        before = self._results.pop(trial_id, {})
        last = before if result is None else result
        if number is None:
            return
        ended_early = result is not None and self._was_ended(before, result)
        if result is not None:
            self.on_trial_result(trial_id, result)
            self._results.pop(trial_id, None)
        curve = tuple(self._curves.pop(trial_id, ()))
        optimizer, value = self._optimizer, last.get(str(self._metric))
        cost, steps = self._cost(last), optimizer._settings.steps
        if error or (result is not None and not _is_finite(value)):
            why = "it raised an error" if error else f"its {self._metric} is {value!r}"
            optimizer.commit(Told(number, "failed", None, cost, why, by_user=False, curve=curve))
        elif result is None:
            ended = Told(number, "lost", None, cost, "it ended early", by_user=False, curve=curve)
            optimizer.commit(ended)
        elif steps is not None and curve:
            # It is done if its curve is complete.
            optimizer.commit(Told(number, "paused", None, cost, by_user=False, curve=curve))
        elif ended_early:
            pruned = Told(number, "killed", None, cost, by_user=False, because=PRUNED)
            optimizer.commit(pruned)
        else:
            optimizer.tell(number, float(last[str(self._metric)]), cost=cost)

    def _was_ended(self, before: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
        """Whether a scheduler has ended a trial.

        Ray Tune shows a searcher every result before the last one, and the last one again if the
        training has returned.
        """
        step = _iteration(last)
        returned = step == _iteration(before)
        stopped = self._criteria is None or any(
            name in last and last[name] >= bound for name, bound in self._criteria.items()
        )
        return not returned and not stopped and 0 < step < self._furthest

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from an external evaluation, of which only the value is known."""
        flat = {n: v for n, v in _flat(parameters).items() if n in self._optimizer.space.names}
        row: dict[str, Any] = {"params": flat, "state": "failed"} if error else {"params": flat}
        if not pruned:
            self._optimizer.import_trials([row if error else {**row, "value": value}])

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file."""
        state = self._optimizer._store.look()
        # Another process has another clock.
        kept = {
            name: each for name, each in vars(self).items() if name not in ("_inner", "_presence")
        }
        known = (kept, self._optimizer._settings, replace(state, charged_until=None))
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(known))

    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file; downtime is free.

        The file is a pickle, which can run any program as you: restore only files that you trust.
        """
        kept, settings, state = cloudpickle.loads(Path(checkpoint_path).read_bytes())
        self._presence.close()
        vars(self).update(kept)
        self._inner = Optimizer.of(settings)
        self._inner._attach(settings, InMemoryStore(state))
        self._presence.enter_context(self._inner.on_the_clock())

    # ── for users ──────────────────────────────────────────────────────────────────────────

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer, with the ledger, the history and the verdict."""
        return self._optimizer

    # ── settings and costs ─────────────────────────────────────────────────────────────────

    @property
    def _optimizer(self) -> Optimizer:
        if self._inner is None:
            raise InvalidInput(
                "BudgetSearch has no space yet. Give param_space to the Tuner, or space= and mode= "
                "to BudgetSearch."
            )
        return self._inner

    def _settings(self, space: Space, mode: str, given: Mapping[str, Any]) -> Settings:
        options: dict[str, Any] = {**given, "rate": self._rate}
        options["direction"] = "maximize" if mode == "max" else "minimize"
        if options.get("steps") is not None:
            options["steps"] = replace(Steps.of(options["steps"]), resume="never")
        settings = settings_of(space, self._budget, **options)
        if settings.steps is not None and "steps" in settings.policy.needs:
            settings = replace(settings, policy=WholeTrainings(settings.policy))
        return settings

    def _start(self, space: Space, mode: str) -> None:
        self._inner = Optimizer.of(self._settings(space, mode, self._given))
        self._presence.enter_context(self._inner.on_the_clock())

    def _cost(self, result: Mapping[str, Any]) -> dict[str, float]:
        settings = self._optimizer._settings
        reported = {}
        if self._paid is not None:
            if not _is_finite(result.get(self._paid)):
                return {}
            reported = {"": float(result[self._paid])}
        seconds = float(result.get(TIME, 0.0))
        rate = {} if self._rate is None else rate_of(self._rate)
        if not reported and settings.cost_resources == ("cost",) and settings.budget is None:
            return {"cost": max(seconds, 1e-9)}
        if TIME not in result and not reported:
            return {}
        return Pricing(rate).cost(Usage(seconds, seconds, 0.0), reported, settings.resources)


# ── spaces ─────────────────────────────────────────────────────────────────────────────────────


def _space_of(config: Mapping[str, Any]) -> tuple[Space, dict[str, Decoder], dict[str, Any]]:
    """The space of Ray Tune as parameters of ours, decoders of their values, and constants."""
    parameters, decoders, constants = {}, {}, {}
    for name, given in _flat(config).items():
        if name.endswith("/grid_search") or isinstance(given, domains.Function):
            raise InvalidInput(
                f"param_space[{name!r}]: a grid or a function cannot be searched. Use "
                "tune.choice([...]) or another range."
            )
        if isinstance(given, domains.Domain):
            parameters[name], decoder = _parameter(name, given)
            if decoder is not None:
                decoders[name] = decoder
        else:
            constants[name] = given
    if not parameters:
        raise InvalidInput(
            "param_space has nothing to search. Give at least one range, such as tune.uniform(0, "
            "1)."
        )
    return Space(parameters), decoders, constants


def _parameter(name: str, domain: Any) -> tuple[Parameter, Decoder | None]:
    if isinstance(domain, domains.Categorical):
        options = list(domain.categories)
        try:
            return Categorical(options), None
        except InvalidInput:  # lists and dicts are searched by their index
            return Categorical(range(len(options))), options.__getitem__
    sampler, step = domain.get_sampler(), None
    if isinstance(sampler, domains.Quantized):
        sampler, step = sampler.get_sampler(), sampler.q
    log = isinstance(sampler, domains.LogUniform)
    if not log and not isinstance(sampler, domains.Uniform):
        raise InvalidInput(
            f"param_space[{name!r}]={domain!r}: expected a bounded range, such as "
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
) -> tuple[Parameter, Decoder | None]:
    """Multiples of a step, as Ray Tune rounds them."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last - first < MAX_STEPS:
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
    """{"a/b": 1} as {"a": {"b": 1}}."""
    nested: dict[str, Any] = {}
    for path, each in flat.items():
        *folders, name = path.split("/")
        inner = nested
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[name] = each
    return nested


def _iteration(result: Mapping[str, Any]) -> int:
    """The number of iterations until a result; 0 if it is not known."""
    step = result.get(STEP)
    return step if isinstance(step, int) else 0


def _same(value: Any) -> Any:
    return value


def _is_finite(value: Any) -> bool:
    # A larger integer cannot become a float.
    return isinstance(value, int | float) and -LARGEST <= value <= LARGEST
