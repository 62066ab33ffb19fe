"""A Belief: the models of the objective and of the costs, the ledger and the history.

f    number of fantasies: posterior draws of the running trials, which share one Cholesky factor; 1
     if no trial is running
eta  = 0.2: a point is affordable if P(c <= left) >= 1 - eta for every resource
shortfall(x) = max over resources of  m + z_{1-eta} s - ln left,   affordable iff <= 0

The incumbent is the best value of a feasible trial: one that meets all constraints. It is infinite
before there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.closed_options import ClosedOptions, closed_options
from farthing.acquisition.fantasies import (
    FANTASIES,
    fantasise,
    fantasise_constraints,
    penalise_failures,
    valueless,
)
from farthing.acquisition.outlook import Outlook, OutlookSlopes
from farthing.acquisition.paid_costs import fit_costs
from farthing.acquisition.trainings import REPORTED, Trainings, has_begun, is_staged, train
from farthing.budget.ledger import Ledger
from farthing.cost import CostLearner, CostModel, DependsOnPrevious
from farthing.cost.model import because_of, least_of
from farthing.earlier import Source
from farthing.history import History, Run, Trial, TrialState
from farthing.models.constraints import Constraint, are_feasible, violations
from farthing.models.feasibility import Feasibility, fit_constraints
from farthing.models.gp import GP, FitMemory, Normal, refit
from farthing.models.prior_mean import Mixture, prior_mean
from farthing.models.success import fit_success, log_success, log_success_slopes
from farthing.space.space import Space
from farthing.steps import Steps

__all__ = ["Belief", "believe"]

Array = NDArray[np.float64]

LARGEST = 1e150  # values are clipped here, so that the square of their scale does not overflow
START = 4  # trials of the initial design, before any model (docs/decisions.md)
START_TRUSTED = 2  # the same if an earlier study is TRUSTED so much or more
TRUSTED = 0.4
START_SHARE = 1 / 5  # share of the budget after which the initial design ends early
Z_AFFORDABLE = 0.8416212335729143  # Phi^-1(1 - eta), eta = 0.2
EQUAL_COST = 1e-9  # in ln c: a known cost equal to the amount left is affordable
MAX_PENDING = 1_000  # the last running trials: a draw of all of them needs their joint covariance
UNAFFORDABLE = 50.0  # the shortfall of a closed option, in ln c


@dataclass(frozen=True)
class Belief:
    """Everything known at one moment: space, models of objective and cost, ledger, history.

    Attributes:
        objective: None during the initial design, while there are too few values for a model.
        cost: a model of ln c for each resource whose cost is needed.
        success: a GP on +1 (returned a value) and -1 (failed, or killed at a limit of the user);
            None until a trial has no value.
        y: (n,) values to minimise, of the trials done.
        best: the incumbent, (f,): one per fantasy; inf if no trial is feasible.
        number: the number of the trial to be proposed.
        worth: exchange rate: the objective units that one unit of cost is worth, or None.
        sign: +1, or -1 if the user maximises; only for messages and for thresholds of the user.
        unit: the resource that measures the cost as one number; None: the scarcest at each point.
        light: whether to search less, to limit the overhead.
        steps: the steps of a training; None if trials are evaluated as a whole.
        trainings: the model of the learning curves, if the policy decides by steps. The costs are
            then those of a whole training.
        max_cost: the most that one trial can cost, by resource, as the user states it.
        constraints: the constraints that a feasible trial meets.
        feasibility: the models of the constraints; () if there are none or no objective model.
        sources: the earlier studies, with the `trust` in each, between 0 and 1, by name.
        prior: the prior mean of the objective that they give; None if none of them counts.
    """

    space: Space
    objective: GP | None
    cost: Mapping[str, CostModel]
    success: GP | None
    ledger: Ledger
    history: History
    y: Array
    best: Array
    number: int
    seed: int
    noisy: bool
    worth: float | None
    sign: float
    memories: Mapping[str, FitMemory]
    unit: str | None = None
    light: bool = False
    steps: Steps | None = None
    trainings: Trainings | None = None
    max_cost: Mapping[str, float] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    feasibility: tuple[Feasibility, ...] = ()
    sources: tuple[Source, ...] = ()
    prior: Mixture | None = None
    trust: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def tried(self) -> Array:
        """(k, d) points not to be proposed again; if values are noisy, only the running ones."""
        # The point of a lost trial may be proposed again: its value is unknown.
        states: tuple[TrialState, ...] = ("running", "paused", "done", "failed", "killed")
        points = self.history.points(*(states[:1] if self.noisy else states))
        return points.reshape(-1, self.space.d)

    @cached_property
    def top(self) -> Array:
        """(up to 5, d) the best points tried, best first; infeasible ones by their violation."""
        done = self.history.done
        order = np.argsort(self.y, kind="stable")[:5]
        if self.constraints:
            order = np.lexsort((self.y, violations(self.constraints, done)))[:5]
        return np.array([done[i].x for i in order]).reshape(-1, self.space.d)

    @cached_property
    def feasible_y(self) -> Array:
        """(n,) `y`, but inf for a trial that violates a constraint."""
        if not self.constraints:
            return self.y
        return np.where(are_feasible(self.constraints, self.history.done), self.y, np.inf)

    @property
    def lacks_feasible(self) -> bool:
        """Whether there are values, but none of a trial that meets the constraints."""
        return bool(len(self.y)) and bool(np.isinf(self.feasible_y).all())

    @property
    def has_incumbent(self) -> bool:
        """Whether there is a best value: of a feasible trial, or of a running one as drawn."""
        return bool(np.isfinite(self.best).all())

    @property
    def scale(self) -> float:
        """The scale by which the model standardises values; 1 without a model."""
        return self.objective.scale if self.objective is not None else 1.0

    def notes(self) -> dict[str, Any]:
        """Values that the next suggestion needs, to be stored with the trial."""
        notes = {"memories": dict(self.memories), "trust": dict(self.trust)}
        return {name: note for name, note in notes.items() if note}

    # ── costs ──────────────────────────────────────────────────────────────────────────────

    def _left(self, resource: str) -> float:
        return max(self.ledger[resource].left, 1e-300)

    @cached_property
    def _limited(self) -> tuple[str, ...]:
        return tuple(r for r in self.cost if np.isfinite(self.ledger[r].limit))

    def in_one_unit(self) -> Belief:
        """The same belief with the cost in units of the first resource, to which `worth` refers."""
        return replace(self, unit=next(iter(self.cost), None))

    @property
    def cap(self) -> float:
        """The most that an evaluation can cost: the amount left, or 1 if costs are shares of it."""
        if self.unit is not None:
            return self._left(self.unit) if self.unit in self._limited else np.inf
        if len(self._limited) > 1:
            return 1.0
        return self._left(self._limited[0]) if self._limited else np.inf

    @cached_property
    def left(self) -> Array:
        """(k, 1) amount left of each resource with a cost model; inf if unlimited."""
        left = [self._left(resource) for resource in self.cost]
        return np.array(left, dtype=np.float64).reshape(-1, 1)

    def one_cost(self, costs: Sequence[Normal], left: Array) -> tuple[Normal, NDArray[np.int64]]:
        """ln c as one number per point, (u, m), and the index of the resource it refers to.

        With one resource, or if `unit` names one, it is the cost of that resource. With several
        resources it is ln max_j c_j / left_j: the largest share of the amount left.

        Args:
            costs: ln c of each resource, (m,) or (u, m).
            left: (k, u) amount left of each resource.
        """
        if len(costs) == 1 or self.unit is not None:
            k = list(self.cost).index(self.unit) if self.unit is not None else 0
            which = np.full((left.shape[1], costs[k].mean.shape[-1]), k)
            return Normal(*(np.broadcast_to(part, which.shape) for part in costs[k])), which
        log_left = np.log(left)[:, :, None]
        shares = np.array([normal.mean - log for normal, log in zip(costs, log_left, strict=True)])
        stds = np.array([np.broadcast_to(normal.std, shares.shape[1:]) for normal in costs])
        which = shares.argmax(axis=0)
        return Normal(_select(shares, which), _select(stds, which)), which

    def shortfall(self, costs: Sequence[Normal], left: Array) -> tuple[Array, NDArray[np.int64]]:
        """(u, m) affordable where <= 0, and the index of its resource; arguments as `one_cost`."""
        over = np.array(
            [
                normal.mean + Z_AFFORDABLE * normal.std - log - EQUAL_COST
                for normal, log in zip(costs, np.log(left)[:, :, None], strict=True)
            ]
        )
        which = over.argmax(axis=0)
        return _select(over, which), which

    def costs(self, X: Array) -> tuple[Normal, Array]:
        """ln c as one number per point, and the shortfall, affordable where <= 0; (m,) each."""
        if not self.cost:
            nothing = np.full(len(X), -np.inf)
            return Normal(np.zeros(len(X)), np.zeros(len(X))), self._closing(X, nothing)
        costs = [model.log_at(X) for model in self.cost.values()]
        mean, std = self.one_cost(costs, self.left)[0]
        return Normal(mean[0], std[0]), self._closing(X, self.shortfall(costs, self.left)[0][0])

    def cost_slopes(self, X: Array) -> tuple[Normal, Array, Array, Array, Array]:
        """`costs(X)` and the gradients (m, d) of ln c's mean, its std, and of the shortfall."""
        if not self.cost:
            flat = np.zeros(np.shape(X))
            return *self.costs(X), flat, flat, flat
        models = [model.slopes(X) for model in self.cost.values()]
        costs = [model[0] for model in models]
        d_means = np.array([model[1] for model in models])
        d_stds = np.array([model[2] for model in models])
        rows = np.arange(len(X))
        (mean, std), [which] = self.one_cost(costs, self.left)
        [shortfall], [short] = self.shortfall(costs, self.left)
        d_shortfall = d_means[short, rows] + Z_AFFORDABLE * d_stds[short, rows]
        cost = Normal(mean[0], std[0])
        shortfall = self._closing(X, shortfall)
        return cost, shortfall, d_means[which, rows], d_stds[which, rows], d_shortfall

    @cached_property
    def closed(self) -> ClosedOptions:
        """The options that are not proposed, because they were killed and never finished."""
        return closed_options(self.space, self.history)

    def _closing(self, X: Array, shortfall: Array) -> Array:
        """The shortfall, with points that have a closed option far from affordable."""
        return (
            np.where(self.closed.contain(X), UNAFFORDABLE, shortfall) if self.closed else shortfall
        )

    def about_costs(self) -> str:
        """Remarks of the cost models, such as why one is simpler than the user chose."""
        reasons = (because_of(model) for model in self.cost.values())
        return "; ".join(dict.fromkeys(filter(None, reasons)))

    def predicted(self, x: Array) -> dict[str, Normal]:
        """ln c at one point for every resource with a cost model."""
        return {resource: model.log_at(x[None]) for resource, model in self.cost.items()}

    # ── success ────────────────────────────────────────────────────────────────────────────

    def log_success(self, X: Array) -> Array:
        """ln P(an evaluation at X returns a value and meets the constraints), (m,).

        The part of the value is 0 until a trial has failed.
        """
        value = np.zeros(len(X)) if self.success is None else log_success(self.success.at(X))
        return value + self.log_feasible(X) if self.feasibility else value

    def log_feasible(self, X: Array) -> Array:
        """ln P(an evaluation at X meets all constraints), (m,); they are independent."""
        parts = [model.log_probability(X) for model in self.feasibility]
        return np.sum(parts, axis=0) if parts else np.zeros(len(X))

    def log_success_slopes(self, X: Array) -> tuple[Array, Array]:
        """`log_success(X)` and its gradient (m, d)."""
        if self.success is None:
            value, slope = np.zeros(len(X)), np.zeros(np.shape(X))
        else:
            value, slope = log_success_slopes(*self.success.slopes(X))
        for model in self.feasibility:
            more, d_more = model.slopes(X)
            value, slope = value + more, slope + d_more
        return value, slope

    # ── everything at once ─────────────────────────────────────────────────────────────────

    def outlook(self, X: Array) -> Outlook:
        """The predictions at the points X (m, d)."""
        assert self.objective is not None
        mean, std = self.objective.at(X)
        cost, shortfall = self.costs(X)
        success = self.log_success(X)
        return Outlook(mean, std, cost, success, self.best, self.cap, shortfall)

    def at_best(self, X: Array) -> Outlook:
        """A bound: no worse than `outlook(X)` in any number, at a fraction of its time.

        P(success) is 1. The cost is known and at most the expected one: E[min(c, cap)] >=
        min(exp(m), cap/2), because ln c is symmetric about m and cosh >= 1.
        """
        assert self.objective is not None
        mean, std = self.objective.at_best(X)
        none = np.zeros(len(X))
        costs = [Normal(least_of(model, X), none) for model in self.cost.values()]
        cost, shortfall = Normal(none, none), np.full(len(X), -np.inf)
        if costs:
            expected = self.one_cost(costs, self.left)[0].mean[0]
            cost = Normal(np.minimum(expected, np.log(self.cap / 2.0)), none)
            [shortfall] = self.shortfall(costs, self.left)[0]
        return Outlook(mean, std, cost, none, self.best, self.cap, shortfall)

    def slopes(self, X: Array) -> tuple[Outlook, OutlookSlopes]:
        """`outlook(X)` and the gradients of its numbers."""
        assert self.objective is not None
        (mean, std), d_mean, d_std = self.objective.slopes(X)
        cost, shortfall, d_cost_mean, d_cost_std, d_shortfall = self.cost_slopes(X)
        success, d_success = self.log_success_slopes(X)
        return (
            Outlook(mean, std, cost, success, self.best, self.cap, shortfall),
            OutlookSlopes(d_mean, d_std, d_cost_mean, d_cost_std, d_success, d_shortfall),
        )

    def without_running(self) -> Belief:
        """The same belief without fantasies of the running trials."""
        gp, running = self.objective, min(len(self.history.running), MAX_PENDING)
        if gp is None or not running:
            return self
        n = len(gp.X) - running
        gp = replace(gp, X=gp.X[:n], targets=gp.targets[:n, :1], L=gp.L[:n, :n])
        best = np.array([self.feasible_y.min()])
        if self.noisy and np.isfinite(best[0]):
            X = np.array([t.x for t in self.history.done])
            best = gp.at(X[np.isfinite(self.feasible_y)]).mean.min(axis=0)
        feasibility = tuple(each.without_drawn() for each in self.feasibility)
        return replace(self, objective=gp, best=best, feasibility=feasibility)

    def fantasise(self, x: Array, y: float, cost: float | Mapping[str, float]) -> Belief:
        """The belief after observing y at x, with unchanged hyperparameters.

        The observation meets the constraints, and their models do not learn from it.

        Args:
            cost: a number in the first resource that is not "trials", or numbers by resource.
        """
        assert self.objective is not None
        first = next(name for name in self.ledger.resources if name != "trials")
        paid = dict(cost) if isinstance(cost, Mapping) else {first: cost}
        objective = self.objective.condition(x, y)
        seen = objective.at(x[None]).mean[0] if self.noisy else y
        trial = Trial(
            self.number,
            self.space.decode(x),
            x,
            state="done",
            value=self.sign * y,
            cost=paid,
            run=Run(metrics={each.name: each.bound for each in self.constraints}),
        )
        return replace(
            self,
            objective=objective,
            cost={
                name: model.condition(x, paid[name]) if name in paid else _after(model, x)
                for name, model in self.cost.items()
            },
            ledger=self.ledger.charge(None, paid),
            history=self.history.adding(trial),
            y=np.append(self.y, y),
            best=np.minimum(self.best, seen),
            number=self.number + 1,
        )


def _select(parts: Array, which: NDArray[np.int64]) -> Array:
    """(u, m): parts[which[i, j], i, j], for parts of shape (k, u, m)."""
    return np.asarray(np.take_along_axis(parts, which[None], axis=0)[0])


def _after(model: CostModel, x: Array) -> CostModel:
    """The cost model after an evaluation at x whose cost in this resource is unknown."""
    return model.after(x) if isinstance(model, DependsOnPrevious) else model


# ── fitting ────────────────────────────────────────────────────────────────────────────────────


def believe(
    space: Space,
    history: History,
    ledger: Ledger,
    *,
    learners: Mapping[str, CostLearner],
    sign: float = 1.0,
    noisy: bool = False,
    worth: float | None = None,
    seed: int = 0,
    model: bool = True,
    light: bool = False,
    steps: Steps | None = None,
    curves: bool = False,
    max_cost: Mapping[str, float] = MappingProxyType({}),
    constraints: tuple[Constraint, ...] = (),
    sources: tuple[Source, ...] = (),
) -> Belief:
    """Fit the models to the history; earlier hyperparameters are in the notes of the trials.

    Args:
        learners: a cost learner for each resource whose cost is needed.
        model: whether to fit the objective; False for policies that use no model.
        light: whether to fit hyperparameters less often and search less, to limit the overhead.
        steps: the steps of a training; None if trials are evaluated as a whole.
        curves: whether to fit a model of the learning curves, if there are several rungs.
        max_cost: the most that one trial can cost, by resource.
        constraints: what a trial must meet to be feasible.
        sources: earlier studies, which give the prior mean of the objective.
    """
    done = history.done
    memories = dict(((model or learners) and history.last_note("memories")) or {})
    X = history.points("done").reshape(-1, space.d)
    y = sign * np.array([t.value for t in done], dtype=np.float64).clip(-LARGEST, LARGEST)
    objective, success, trainings = None, None, None
    feasibility: tuple[Feasibility, ...] = ()
    feasible = are_feasible(constraints, done) if constraints else np.ones(len(y), dtype=np.bool_)
    prior, trust = prior_mean(sources if model or curves else (), space.options, X, y)
    how: dict[str, Any] = {"options": space.options, "noisy": noisy, "seldom": light}
    if model and _design_has_ended(history, ledger, trust):
        before = memories.get("objective")
        objective, memories["objective"] = refit(X, y, before, prior=prior, **how)
        feasibility, of_constraints = fit_constraints(constraints, X, done, memories, **how)
        memories |= of_constraints
    began = 2 if ledger.spent_share >= START_SHARE else START
    if curves and steps is not None and is_staged(steps) and has_begun(history, steps, began):
        reports = sum(len(t.curve) for t in history)
        trainings, memories["curves"] = train(
            *(history, space, steps),
            sign=sign,
            noisy=noisy,
            memory=memories.get("curves"),
            fantasies=FANTASIES,
            rng=np.random.default_rng([seed, len(history), reports, FANTASIES]),
            constraints=constraints,
            seldom=light,
        )
        reported = (history.points(*REPORTED), history.having(*REPORTED), memories)
        feasibility, of_constraints = fit_constraints(constraints, *reported, **how)
        memories |= of_constraints
    if (objective or trainings) and (missing := valueless(history)):
        returned = done if trainings is None else history.having(*REPORTED)
        success, memories["success"] = fit_success(
            returned, missing, memories.get("success"), options=space.options, seldom=light
        )
    cost, of_costs = fit_costs(learners, space, history, steps, memories, seldom=light)
    memories |= of_costs
    best = np.array([y[feasible].min(initial=np.inf)])
    if objective is not None:
        if noisy and feasible.any():
            best = objective.at(X[feasible]).mean.min(axis=0)
        objective = penalise_failures(objective, history, y)
        if history.running:
            pending = history.points("running")[-MAX_PENDING:]
            rng = np.random.default_rng([seed, len(history), FANTASIES])
            feasibility, met = fantasise_constraints(feasibility, pending, rng.spawn(1)[0])
            objective, best = fantasise(objective, best, pending, rng, met)
    return Belief(
        space=space,
        objective=objective,
        cost=cost,
        success=success,
        ledger=ledger,
        history=history,
        y=y,
        best=best,
        number=len(history),
        seed=seed,
        noisy=noisy,
        worth=worth,
        sign=sign,
        memories=memories,
        light=light,
        steps=steps,
        trainings=trainings,
        max_cost=max_cost,
        constraints=constraints,
        feasibility=feasibility,
        sources=sources,
        prior=prior,
        trust=trust,
    )


def _design_has_ended(history: History, ledger: Ledger, trust: Mapping[str, float]) -> bool:
    """Whether the initial design has enough trials, or has spent its share, and two values."""
    finished = history.having("done", "failed", "killed")
    first = START_TRUSTED if max(trust.values(), default=0.0) >= TRUSTED else START
    is_over = len(finished) >= first or ledger.spent_share >= START_SHARE
    return is_over and len(history.done) >= 2
