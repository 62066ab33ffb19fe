"""Which parameters drive the value and the cost: the total effect of each parameter on both.

    share_j = E[(m(x) - m(x with x_j drawn anew))^2] / (2 var m)       (calibration.py)

where m is the mean of the model. The standard error is that of the delete-a-group jackknife
(Kott 2001). Each share_j(-k) is computed from a model fitted without group k of g groups of trials:

    se^2 = (g - 1) / g  sum_k (share_j(-k) - mean)^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.paid_costs import evidence_of, paid
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import cost_learners, one_thread
from farthing.cost.calibration import total_effects
from farthing.history import Trial
from farthing.models.gp import refit
from farthing.view.primitives import Figure, Layer, Panel, Segments, axis, named, thinned, visible

__all__ = ["GROUPS", "Effect", "draw_drivers", "drivers", "drivers_of"]

Array = NDArray[np.float64]
Mean = Callable[[Array], Array]

POINTS = 512  # at which an effect is measured
GROUPS = 8  # of the jackknife
MAX_TRIALS = 200  # that a model is fitted to, GROUPS + 1 times
MIN_TRIALS = 5
MAX_SHOWN = 12  # parameters


class Effect(NamedTuple):
    """A parameter's share of the variance of a model's mean, and its standard error."""

    name: str
    share: float
    error: float


def drivers_of(settings: Settings, state: State) -> dict[str, list[Effect]]:
    """The effects on "value" and on each learnt cost, by target; the largest effect first."""
    space = settings.space
    rng = np.random.default_rng(settings.seed)
    X, other = (space.sample(POINTS, rng) for _ in range(2))
    found = {}
    with one_thread():
        for target, trials, mean_of in _targets(settings, state):
            groups = np.arange(len(trials)) % GROUPS
            whole = _shares(mean_of, trials, X, other)
            if whole is None:
                continue
            parts = [
                _shares(
                    mean_of, [t for t, g in zip(trials, groups, strict=True) if g != k], X, other
                )
                for k in range(GROUPS)
            ]
            spread = np.array([part for part in parts if part is not None])
            error = np.sqrt(np.sum((spread - spread.mean(axis=0)) ** 2, axis=0))
            error *= math.sqrt((len(spread) - 1) / len(spread)) if len(spread) else math.nan
            effects = [
                Effect(*each) for each in zip(space.names, whole, error.tolist(), strict=True)
            ]
            found[target] = sorted(effects, key=lambda effect: -effect.share)
    return found


def _shares(
    mean_of: Callable[[list[Trial]], Mean | None], trials: list[Trial], X: Array, other: Array
) -> list[float] | None:
    mean = mean_of(trials) if len(trials) >= 2 else None
    return None if mean is None else total_effects(mean, X, other)


def _targets(
    settings: Settings, state: State
) -> Iterator[tuple[str, list[Trial], Callable[[list[Trial]], Mean | None]]]:
    """For each modelled quantity: its name, its trials, and a fit of its mean to given trials."""

    def value_mean(trials: list[Trial]) -> Mean:
        X = np.array([trial.x for trial in trials])
        y = settings.sign * np.array([trial.value for trial in trials])
        memory = _start_of_fit(state, "objective")
        model, _ = refit(X, y, memory, options=settings.space.options, noisy=settings.noisy)
        return lambda X: model.at(X).mean[:, 0]

    done = _sample(list(state.history.done))
    if len(done) >= MIN_TRIALS:
        yield "value", done, value_mean
    for resource, learner in cost_learners(settings, state).items():

        def cost_mean(
            trials: list[Trial], resource: str = resource, fit: Callable[..., object] = learner.fit
        ) -> Mean | None:
            model = fit(evidence_of(settings.space, trials, resource))
            return None if model is None else lambda X: model.log_at(X).mean  # type: ignore[attr-defined]

        paying = _sample(list(paid(state.history, resource)))
        if len(paying) >= MIN_TRIALS:
            yield resource, paying, cost_mean


def _sample(trials: list[Trial]) -> list[Trial]:
    return [trials[i] for i in thinned(len(trials), most=MAX_TRIALS)]


def _start_of_fit(state: State, model: str) -> dict[str, object] | None:
    """The last hyperparameters as a starting point; `n` = 0 makes `refit` learn them again."""
    memory = (state.history.last_note("memories") or {}).get(model)
    return None if memory is None else {**memory, "n": 0}


def drivers(settings: Settings, state: State) -> Figure:
    """Draw the effect of each parameter on the value and on the costs."""
    return draw_drivers(drivers_of(settings, state))


def draw_drivers(found: dict[str, list[Effect]]) -> Figure:
    """Draw a panel for the value and one for each cost, with the parameters in the same order."""
    name, title = "drivers", "Which parameters drive value and cost"
    if not found:
        why = f"This needs at least {MIN_TRIALS} trials with a value or a cost."
        return Figure(name, title, (), "", why)
    first = next(iter(found.values()))
    order = [effect.name for effect in first][:MAX_SHOWN]
    panels = tuple(_panel(target, effects, order) for target, effects in found.items())
    strongest = "; ".join(_strongest(target, effects[0]) for target, effects in found.items())
    caption = (
        f"{strongest[:1].upper()}{strongest[1:]}. An interaction counts for each of its "
        "parameters, so shares can add up to more than 100 %."
    )
    return Figure(name, title, panels, caption)


def _strongest(target: str, effect: Effect) -> str:
    what = "the value" if target == "value" else f"the cost in {target}"
    if effect.share <= effect.error:
        return f"no parameter clearly drives {what}"
    share = f"{effect.share:.0%} ± {effect.error:.0%}"
    return f"{what} depends most on {visible(effect.name, 40)} ({share})"


def _panel(target: str, effects: list[Effect], order: list[str]) -> Panel:
    by_name = {effect.name: effect for effect in effects}
    shown = [by_name[name] for name in reversed(order)]  # the first is at the top
    lanes = tuple(float(i) for i in range(len(shown)))
    shares = tuple(100 * effect.share for effect in shown)
    errors = [100 * effect.error for effect in shown]
    low = tuple(max(s - e, 0.0) for s, e in zip(shares, errors, strict=True))
    high = tuple(min(s + e, 100.0) for s, e in zip(shares, errors, strict=True))
    texts = tuple(f"{e.name}: {e.share:.0%} ± {e.error:.0%}" for e in shown)
    style = "best" if target == "value" else "second"
    layers: tuple[Layer, ...] = (
        Segments((0.0,) * len(shown), shares, lanes, style, thick=0.55, texts=texts),
        Segments(low, high, lanes, "line", "± one standard error"),
    )
    title = "value" if target == "value" else f"cost ({target})"
    x = axis("total effect (% of the variance)", (0.0, 100.0), zero=True, tight=True)
    return Panel(x, named("", [effect.name for effect in shown]), layers, title=title)
