import numpy as np
import pytest
from oracles import differences, matern52

from farthing.models.kernel import columns, distances, embed, matern, matern_slopes, pulled

OPTIONS = np.array([0, 3, 0, 2])
CATEGORICAL = OPTIONS > 0
LENGTHSCALES = np.array([0.3, 0.8, 2.0, 1.5])


def points(count, seed=0):
    X = np.random.default_rng(seed).random((count, 4))
    X[:, 1] = (np.floor(3 * X[:, 1]) + 0.5) / 3
    X[:, 3] = (np.floor(2 * X[:, 3]) + 0.5) / 2
    return X


def scaled(X):
    return embed(X, OPTIONS) / LENGTHSCALES[columns(OPTIONS)]


def test_kernel_equals_the_formula_for_each_pair():
    A, B = points(12), points(9, seed=1)
    slow = matern52(A, B, LENGTHSCALES, 2.5, CATEGORICAL)
    np.testing.assert_allclose(matern(distances(scaled(A), scaled(B)), 2.5), slow, rtol=1e-12)
    assert matern(np.zeros((1, 1)), 2.5) == 2.5


def test_the_oracle():  # [two-point-gp]
    assert matern(np.sqrt(5) * np.array([0.1 / 0.3]), 1.0)[0] == pytest.approx(0.9161679075)


def test_the_embedding():
    X = np.array([[0.2, 0.5, 0.7, 0.25]])
    half = 1 / np.sqrt(2)
    np.testing.assert_allclose(embed(X, OPTIONS), [[0.2, 0, half, 0, 0.7, half, 0]])
    np.testing.assert_array_equal(columns(OPTIONS), [0, 1, 1, 1, 2, 3, 3])
    np.testing.assert_array_equal(embed(X, np.zeros(4, dtype=int)), X)


def test_slope_is_the_derivative_of_the_value():
    """dk/dz = -s (z - z'), and `matern_slopes` returns the same k as `matern`."""
    q = np.linspace(0.0, 30.0, 61)
    k, s = matern_slopes(q, 3.0)
    np.testing.assert_array_equal(k, matern(q, 3.0))
    step = 1e-5
    slow = (matern(q[1:] + step, 3.0) - matern(q[1:] - step, 3.0)) / (2 * step)
    # With r = q / sqrt(5): dk/dr = -s r, so dk/dq = -s q / 5.
    np.testing.assert_allclose(-s[1:] * q[1:] / 5, slow, rtol=1e-6, atol=1e-12)
    assert s[0] == pytest.approx(5.0)  # (5/3) v


def test_weighted_sums_of_gradients():
    rng = np.random.default_rng(2)
    Z, centres, weights = rng.random((7, 3)), rng.random((5, 3)), rng.standard_normal(5)
    _, s = matern_slopes(distances(Z, centres), 1.7)
    slow = differences(lambda S: matern(distances(S, centres), 1.7) @ weights, Z)
    np.testing.assert_allclose(pulled(s * weights, Z, centres), slow, rtol=1e-6, atol=1e-8)


def test_slopes_in_the_lengthscales():
    """dk/d ln l_j = s (z_j - z'_j)^2."""
    A, B = points(4)[:, :1], points(3, seed=1)[:, :1]
    step = 1e-6

    def k(log_length):
        return matern(distances(A / np.exp(log_length), B / np.exp(log_length)), 2.0)

    slow = (k(-1 + step) - k(-1 - step)) / (2 * step)
    _, s = matern_slopes(distances(A * np.e, B * np.e), 2.0)
    np.testing.assert_allclose(s * (A * np.e - B.T * np.e) ** 2, slow, rtol=1e-6, atol=1e-9)
