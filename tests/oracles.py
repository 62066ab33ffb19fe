"""Slow, obvious versions of the fast formulas, and the toy pool of tests/ORACLES.md."""

import mpmath as mp
import numpy as np
from scipy.stats import norm

# ---------------------------------------------------------------- the toy pool P
POOL_NAMES = "ABCDE"
POOL_BEST = 0.25
POOL_MEAN = np.array([0.20, 0.22, 0.30, 0.35, 0.28])
POOL_STD = np.array([0.10, 0.12, 0.20, 0.15, 0.05])
POOL_COST = np.array([100.0, 40.0, 10.0, 2.0, 30.0])
POOL_EI = np.array([0.06977965574, 0.06436136379, 0.05726893964, 0.02266794707, 0.008433636612])
POOL_LOG_EI = np.array([-2.662412777, -2.743241767, -2.859996868, -3.786803376, -4.775527211])


# ---------------------------------------------------------------- one normal variable
def h_mp(u):
    """h(u) = phi(u) + u Phi(u) as an mpmath number of at least 60 correct digits.

    Phi is erfc, so nothing underflows; the sum cancels to a share 1/u^2: hence the extra digits.
    """
    with mp.workdps(60 + 4 * int(mp.log10(1 + abs(mp.mpf(float(u)))) + 1)):
        u = mp.mpf(float(u))
        return mp.npdf(u) + u * mp.erfc(-u / mp.sqrt(2)) / 2


def log_h_mp(u):
    """ln h(u), to sixty digits."""
    with mp.workdps(60):
        return mp.log(h_mp(u))


def d_log_h_mp(u):
    """Phi(u) / h(u)."""
    with mp.workdps(60):
        return mp.erfc(-mp.mpf(float(u)) / mp.sqrt(2)) / 2 / h_mp(u)


def sampled_improvement(mean, std, best, *, draws=200_000, seed=0):
    """Mean of (best - f)+ over draws of f, and the standard error of that mean."""
    f = mean + std * np.random.default_rng(seed).standard_normal(draws)
    gained = np.maximum(best - f, 0.0)
    return gained.mean(), gained.std() / np.sqrt(draws)


# ---------------------------------------------------------------- Gaussian process
def matern52(A, B, lengthscales, variance=1.0, categorical=False):
    """k = v (1 + q + q^2/3) exp(-q), q = sqrt(5) |(a - b) / l|, one pair at a time.

    Where `categorical`, a difference is 1 or 0: the same option or another one.
    """
    A, B = np.atleast_2d(A), np.atleast_2d(B)
    K = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            difference = np.where(categorical, (a != b).astype(float), a - b)
            q = np.sqrt(5.0) * np.linalg.norm(difference / lengthscales)
            K[i, j] = variance * (1 + q + q**2 / 3) * np.exp(-q)
    return K


def dense_gp(X, y, Xs, lengthscales, variance, noise, mean=0.0, categorical=False):
    """Posterior mean (m,) and covariance (m, m) of the noise-free function at Xs, by `solve`."""
    K = matern52(X, X, lengthscales, variance, categorical) + noise * np.eye(len(X))
    Ks = matern52(X, Xs, lengthscales, variance, categorical)
    return (
        mean + Ks.T @ np.linalg.solve(K, y - mean),
        matern52(Xs, Xs, lengthscales, variance, categorical) - Ks.T @ np.linalg.solve(K, Ks),
    )


def dense_lml(X, y, lengthscales, variance, noise, mean=0.0, categorical=False):
    """Log marginal likelihood, ln N(y; mean, K + noise I)."""
    K = matern52(X, X, lengthscales, variance, categorical) + noise * np.eye(len(X))
    residual = y - mean
    _, log_det = np.linalg.slogdet(K)
    quadratic = residual @ np.linalg.solve(K, residual)
    return -0.5 * (quadratic + log_det + len(X) * np.log(2 * np.pi))


def dense_mean(X, y, lengthscales, variance, noise, categorical=False):
    """The constant mean that maximises the likelihood, 1'K^-1 y / 1'K^-1 1."""
    K = matern52(X, X, lengthscales, variance, categorical) + noise * np.eye(len(X))
    weights = np.linalg.solve(K, np.ones(len(X)))
    return weights @ y / weights.sum()


def differences(function, X, step=1e-6):
    """Gradient (m, d, ...) of function(X) (m, ...) row by row, by central differences."""
    X = np.asarray(X, dtype=float)
    columns = []
    for j in range(X.shape[1]):
        move = np.zeros(X.shape[1])
        move[j] = step
        columns.append((function(X + move) - function(X - move)) / (2 * step))
    return np.stack(columns, axis=1)


# ---------------------------------------------------------------- Pareto front
def brute_front(log_ei, log_cost):
    """Every row that no other row dominates; of equal rows the first. A set of indices."""
    rows = list(zip(log_ei, log_cost, strict=True))
    return {
        i
        for i, (ei, cost) in enumerate(rows)
        if not any(
            e >= ei and c <= cost and (e > ei or c < cost or j < i)
            for j, (e, c) in enumerate(rows)
            if j != i
        )
    }


def brute_minimax_alpha(log_ei, log_cost, chosen):
    """Least log-regret over every alpha >= 0 at which two lines ln EI_j - alpha ln c_j cross."""
    gain = np.asarray(log_ei) - log_ei[chosen]
    dearness = np.asarray(log_cost) - log_cost[chosen]
    candidates = [0.0]
    for i in range(len(gain)):
        for j in range(i):
            if dearness[i] != dearness[j]:
                candidates.append((gain[i] - gain[j]) / (dearness[i] - dearness[j]))
    regrets = {a: np.max(gain - a * dearness) for a in candidates if a >= 0 and np.isfinite(a)}
    return min(regrets, key=regrets.get), min(regrets.values())


# ---------------------------------------------------------------- simulated futures
def imagined_gain(belief, X, first, normals, scores, truncate=False):
    """What one path gains that begins at row `first` of X and goes on by the scores, step by step.

    `belief` has one fantasy, and cost models that conditioning leaves as they are.
    """
    here, gained = X[first], 0.0
    for z, score in zip([*normals, None], [*scores, None], strict=True):
        (mean,), std = belief.objective.at(here[None]).mean[0], belief.objective.at(here[None]).std
        u = (belief.best[0] - mean) / std[0]
        ei = std[0] * (norm.pdf(u) + u * norm.cdf(u))
        fits, paid = 1.0, {}
        for resource, (m, s) in belief.predicted(here).items():
            left = belief.ledger[resource].left
            if s[0] == 0:
                paid[resource] = min(np.exp(m[0]), left)
                continue
            fits = norm.cdf((np.log(left) - m[0]) / s[0])
            below = norm.cdf((np.log(left) - m[0] - s[0] ** 2) / s[0])
            over = 0.0 if np.isinf(left) else left * norm.sf((np.log(left) - m[0]) / s[0])
            paid[resource] = np.exp(m[0] + s[0] ** 2 / 2) * below + over
        gained += ei * fits * np.exp(belief.log_success(here[None])[0])
        if score is None:
            return gained
        noise = belief.objective.noise * belief.objective.scale**2 if belief.noisy else 0.0
        belief = belief.fantasise(here, mean + np.sqrt(std[0] ** 2 + noise) * z, paid)
        outlook = belief.outlook(X)
        affordable = outlook.shortfall <= 0
        rated = np.where(affordable | truncate, score(outlook).score, -np.inf)
        if not affordable[np.argmax(rated)]:
            return gained
        here = X[np.argmax(rated)]
    raise AssertionError("the last step has no score")
