"""Beliefs built by hand: posteriors that are two given columns, and the toy pool P as a table."""

from dataclasses import dataclass

import numpy as np
from oracles import POOL_BEST, POOL_COST, POOL_MEAN, POOL_NAMES, POOL_STD

from farthing import Budget, Float, History, Ledger, Space, Trial
from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.cost import Known
from farthing.models.gp import Hyper, Normal, build

NOTHING = Proposal(None, "nothing was proposed")


@dataclass(frozen=True)
class Given:
    """A posterior with the given mean and std at the rows of a table, of an objective (`at`) or of
    a cost (`log_at`).
    """

    rows: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    scale: float = 1.0
    memory: None = None

    @property
    def lengthscales(self):
        return np.ones(self.rows.shape[1])

    def log_at(self, X):
        row = np.array([int(np.flatnonzero((self.rows == x).all(axis=1))[0]) for x in X], dtype=int)
        return Normal(self.mean[row], self.std[row])

    def at(self, X):
        mean, std = self.log_at(X)
        return Normal(mean[:, None], std)

    def sample(self, X, size, rng):
        """The rows are independent."""
        mean, std = self.log_at(X)
        return mean + std * rng.standard_normal((size, len(mean)))


def one_column(model, X):
    """The posterior at X of a process without fantasies: its one mean (m,), and its std."""
    mean, std = model.at(X)
    assert mean.shape == (len(X), 1)
    return Normal(mean[:, 0], std)


def line(count):
    """A table space of `count` rows on a line."""
    return Space.from_rows([{"row": i} for i in range(count)])


def known(space, **settings):
    """A belief about a space with everything else as given, or empty."""
    history = settings.pop("history", History())
    ledger = settings.pop("ledger", Ledger.of(settings.pop("budget", None)))
    defaults = {
        "objective": None,
        "cost": {},
        "success": None,
        "y": np.array([t.value for t in history.done], dtype=float),
        "best": np.array([np.inf]),
        "number": len(history),
        "seed": 0,
        "noisy": False,
        "worth": None,
        "sign": 1.0,
        "memories": {},
    }
    return Belief(space=space, ledger=ledger, history=history, **(defaults | settings))


def pool(mean, std, cost, best, *, cost_std=None, limit=None, **settings):
    """A belief about a table of len(mean) rows; `limit` is a budget in the plain unit of cost."""
    space = settings.pop("space", None) or line(len(mean))
    mean, std, cost = (np.asarray(column, dtype=float) for column in (mean, std, cost))
    cost_std = np.zeros_like(cost) if cost_std is None else np.asarray(cost_std, dtype=float)
    return known(
        space,
        objective=Given(space.rows, mean, std),
        cost={"cost": Given(space.rows, np.log(cost), cost_std)},
        budget=None if limit is None else Budget(limit),
        best=np.array([best]),
        **settings,
    )


def toy(**settings):
    """The toy pool P of tests/ORACLES.md."""
    return pool(POOL_MEAN, POOL_STD, POOL_COST, POOL_BEST, **settings)


def chosen(policy, belief, seed=0):
    """Index of the row that the policy proposes."""
    proposal = policy.propose(belief, np.random.default_rng(seed))
    assert proposal.because
    return int(np.flatnonzero((belief.space.rows == proposal.x).all(axis=1))[0])


def letter(policy, belief):
    """Name of the row of P that the policy proposes."""
    return POOL_NAMES[chosen(policy, belief)]


def random_pool(rng, size=12, **settings):
    """A pool with EIs and costs that spread over several orders of magnitude."""
    return pool(
        rng.normal(3.0, 0.5, size),
        np.exp(rng.normal(-1.0, 0.7, size)),
        np.exp(rng.normal(1.0, 1.5, size)),
        2.6,
        **settings,
    )


def done(number, x, value, *, cost=None, space=None, **changes):
    """A trial that returned a value."""
    params = space.decode(np.asarray(x)) if space is not None else {}
    paid = {} if cost is None else {"cost": float(cost)}
    fields = {"state": "done", "value": float(value), "cost": paid} | changes
    return Trial(number, params, np.asarray(x, dtype=float), **fields)


def two_points(cost=None, **settings):
    """The GP of [two-point-gp]; the cost is a known function of x."""
    space = Space({"x": Float(0, 1)})
    gp = build([[0.2], [0.8]], [0.5, -0.1], Hyper(np.array([0.3]), 1.0, 1e-6, 0.0))
    history = History((done(0, [0.2], 0.5, space=space), done(1, [0.8], -0.1, space=space)))
    return known(
        space,
        objective=gp,
        cost={} if cost is None else {"cost": Known(lambda p: cost(p["x"])).bind(space)},
        history=history,
        best=np.array([-0.1]),
        **settings,
    )
