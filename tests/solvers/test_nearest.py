"""The nearest rows that a GPU finds are those of exact distances, on any data and for any number."""

import numpy as np
import pytest

from gpuml.solvers import nearest as module
from gpuml.solvers.nearest import OF_DOUBLES, OF_SINGLES, nearest

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(0)


def normal(n, p):
    return RNG.normal(size=(n, p))


def clusters(n, p):
    """Two, that are a million times as far apart as their rows."""
    return normal(n, p) + 1e6 * (np.arange(n) % 2)[:, None]


def far(n, p, value=1e12):
    """One row that is far from all others."""
    X = normal(n, p)
    X[0] = value
    return X


# name -> (training rows, rows, neighbours)
CASES = {
    "one feature": (normal(3000, 1), normal(200, 1), 7),
    "two features": (normal(40_000, 2), normal(200, 2), 30),
    "float32": (normal(3000, 50).astype("f4"), normal(200, 50).astype("f4"), 7),
    "one of two is float32": (normal(3000, 5), normal(200, 5).astype("f4"), 7),
    "many features": (normal(2000, 600), normal(100, 600), 5),
    "several tiles": (normal(40_000, 9), normal(5000, 9)[:50], 12),
    "many rows to ask": (normal(500, 6), normal(9000, 6), 3),
    "many neighbours": (normal(20_000, 12), normal(60, 12), 300),
    "as many as a block keeps": (normal(5000, 12), normal(60, 12), 504),
    "all rows": (normal(10, 4), normal(10, 4), 10),
    "nearly all rows": (normal(10, 4), normal(10, 4), 3),
    "clusters": (clusters(3000, 5), clusters(200, 5), 10),
    "ties": (np.floor(3 * RNG.random((3000, 5))), np.floor(3 * RNG.random((200, 5))), 10),
    "equal rows": (np.ones((3000, 4)), np.ones((20, 4)), 5),
    "a far row": (far(5000, 7), normal(100, 7), 5),
    "a very far row": (far(5000, 7, 1e30), normal(100, 7), 5),
    "tiny numbers": (1e-140 * normal(5000, 7), 1e-140 * normal(100, 7), 5),
    "large numbers": (1e150 * normal(5000, 7), 1e150 * normal(100, 7), 5),
}


@pytest.mark.parametrize("case", CASES)
def test_nearest_rows_are_those_of_exact_distances(case):
    cupy = pytest.importorskip("cupy")
    train, X, k = CASES[case]
    distances, found = map(cupy.asnumpy, nearest(cupy.asarray(train), cupy.asarray(X), k))
    single = train.dtype == X.dtype == np.float32
    assert distances.dtype == (np.float32 if single else np.float64)
    train, X = train.astype(float), X.astype(float)
    exact = np.array([np.sqrt(np.sum((train - row) ** 2, axis=1)) for row in X])
    first = np.argsort(exact, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found, first)
    expected = np.take_along_axis(exact, first, axis=1)
    np.testing.assert_allclose(distances, expected, rtol=1e-6 if single else 1e-13)


@pytest.mark.parametrize("products", [OF_SINGLES, OF_DOUBLES], ids=lambda each: each.dtype)
@pytest.mark.parametrize("p", [1, 9, 50, 800])
def test_products_are_off_by_less_than_their_bound(products, p):
    cupy = pytest.importorskip("cupy")
    x, t = cupy.asarray(0.2 * normal(300, p)), cupy.asarray(0.2 * normal(500, p))
    of_x, of_t = cupy.sum(x**2, axis=1), cupy.sum(t**2, axis=1)
    out = cupy.empty((300, 500), dtype=products.dtype)
    products.multiply(products.left(x, of_x), products.right(t, of_t), out)
    added = of_t + 2 * cupy.sqrt(of_x)[:, None] * cupy.sqrt(of_t)
    error = cupy.abs(out - (of_t - 2 * x @ t.T)) / added
    # The reference has roundings of its own.
    assert float(cupy.max(error)) <= (p + 8) * (products.rounding + 2.0**-53)


def test_few_rows_are_searched_again():
    cupy = pytest.importorskip("cupy")
    train, X = cupy.asarray(normal(20_000, 20)), cupy.asarray(normal(1000, 20))
    frame = module._frame(train, X)
    doubtful = module._searched(train, X, 10, frame, OF_SINGLES)[2]
    assert float(cupy.mean(doubtful)) < 0.01


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_others_search_rows_that_are_not_finite(value):
    cupy = pytest.importorskip("cupy")
    train, X = cupy.asarray(normal(50, 2)), cupy.asarray(normal(5, 2))
    assert nearest(train, X, 3) is not None
    X[1, 1] = value
    assert nearest(train, X, 3) is None
    assert nearest(X, train, 3) is None


def test_others_search_more_neighbours_than_a_block_keeps():
    cupy = pytest.importorskip("cupy")
    train = cupy.asarray(normal(600, 2))
    assert nearest(train, train, 505) is None
