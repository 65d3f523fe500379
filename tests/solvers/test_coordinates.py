"""scikit-learn's compiled coordinate descent, as solvers here call it."""

import inspect
import warnings

import numpy as np
import pytest
import sklearn.linear_model as sk
from sklearn.linear_model import _cd_fast

from gpuml.penalties import Penalty
from gpuml.solvers import _sweeps
from gpuml.solvers._coordinates import descend_gram, sweep_gram
from gpuml.solvers._sweeps import approach


def rows(rng, n=40, p=60):
    X = np.asfortranarray(rng.normal(size=(n, p)))
    return X, X @ rng.normal(size=p) + rng.normal(size=n)


def check_optimal(X, y, v, l1, l2):
    slope = X.T @ (X @ v - y) + l2 * v
    size = np.abs(X.T @ y).max()
    assert Penalty(l1 + np.zeros_like(v), 0.0).violation(v, slope, np).max() < 1e-6 * size


def test_scikit_learn_has_the_functions_that_are_called():
    # They are private: if this fails, gpuml/solvers/_coordinates.py has to follow scikit-learn.
    ends = ["max_iter", "tol", "rng", "random", "positive", "do_screening"]
    of_gram = inspect.signature(_cd_fast.enet_coordinate_descent_gram).parameters
    assert list(of_gram) == ["w", "alpha", "beta", "Q", "q", "y", *ends]


@pytest.mark.parametrize("l2", [0.0, 3.0])
def test_moments_are_descended_as_they_are(rng, l2):
    X, y = rows(rng)
    H, g, start = X.T @ X, X.T @ y, rng.normal(size=X.shape[1])
    # Room for more coordinates, which H does not see: they stay where they are.
    H, g, start = np.pad(H, (0, 5)), np.pad(g, (0, 5)), np.pad(start, (0, 5))
    before = H.copy(), g.copy(), start.copy()
    size = np.linalg.norm(y)
    v, n_iter = sweep_gram(H, g, start, 5.0, l2, tol=1e-13, max_iter=100_000, size=size)
    check_optimal(X, y, v[:-5], 5.0, l2)
    assert not v[-5:].any()
    assert 1 < n_iter < 100_000
    assert sweep_gram(H, g, start, 5.0, l2, tol=1e-13, max_iter=3)[1] == 3
    for now, then in zip((H, g, start), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1e-3, 1e3)])
def test_moments_are_descended_with_a_penalty_for_each_coordinate(rng, sizes):
    X, y = rows(rng)
    l1, l2 = 5 * np.geomspace(*sizes, X.shape[1]), rng.uniform(0, 3, size=X.shape[1])
    start = rng.normal(size=X.shape[1])
    before = start.copy()
    v = descend_gram(X.T @ X, X.T @ y, start, l1, l2, tol=1e-13, max_iter=100_000)
    check_optimal(X, y, v, l1, l2)
    assert 0 < (v == 0).sum() < len(v)
    np.testing.assert_array_equal(start, before)


def test_early_stops_are_no_news_but_those_of_users_are(rng):
    X, y = rows(rng)
    zero, l1 = np.zeros(X.shape[1]), np.full(X.shape[1], 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sweep_gram(X.T @ X, X.T @ y, zero, 1e-3, 0.0, tol=1e-14, max_iter=1)
        descend_gram(X.T @ X, X.T @ y, zero, l1, 0 * l1, tol=1e-14, max_iter=1)
        with pytest.raises(Warning, match="did not converge"):
            sk.Lasso(1e-3, max_iter=1).fit(X, y)


def quadratic(rng, n_free, n_dead=2, p=150):
    """A problem whose last coordinates have no l1 part, and some of whose first nobody sees."""
    X = rng.normal(size=(100, p))
    X[:, :n_dead] = 0.0
    if 1 < n_free < p:  # a direction of them changes nothing, as intercepts of classes have one
        X[:, -n_free:] -= X[:, -n_free:].mean(axis=1, keepdims=True)
    l1 = np.where(np.arange(p) < p - n_free, 5.0, 0.0)
    return X.T @ X, X.T @ rng.normal(size=100), l1, rng.uniform(0, 1, size=p) * (l1 > 0)


@pytest.mark.parametrize("n_free", [0, 1, 10, 148, 150])
@pytest.mark.parametrize("share", [0.1, 1e-6])
def test_a_minimum_is_approached_as_far_as_is_asked(rng, n_free, share):
    H, g, l1, l2 = quadratic(rng, n_free)
    start = rng.normal(size=len(g)) * (rng.random(len(g)) < 0.5) * (np.diagonal(H) > 0)
    before = start.copy()

    def violated(v):
        return Penalty(l1, l2).violation(v, H @ v + l2 * v - g, np)[2:].max()

    def value(v):
        return v @ H @ v / 2 - g @ v + np.sum(l1 * np.abs(v) + l2 * v**2 / 2)

    allowed = share * violated(start)
    v = approach(H, g, l1, l2, start, allowed=allowed, max_sweeps=10_000)
    assert violated(v) <= allowed
    assert value(v) < value(start)
    few = approach(H, g, l1, l2, start, allowed=allowed, max_sweeps=10)
    assert value(v) - 1e-9 * abs(value(v)) <= value(few) < value(start)
    stays = approach(H, g, l1, l2, start, allowed=np.inf, max_sweeps=10)
    np.testing.assert_array_equal(start, before)
    np.testing.assert_array_equal(stays, start)


@pytest.mark.parametrize("most", [5, 10, 200, 1000])
def test_checks_of_slow_descents_become_rare(most, rng, monkeypatch):
    sweeps, real = [], _sweeps.descend_gram

    def descend(*args, **options):
        sweeps.append(options["max_iter"])
        return real(*args, **options)

    monkeypatch.setattr(_sweeps, "descend_gram", descend)
    X = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 200)) + 1e-3 * rng.normal(size=(50, 200))
    H, g, start = X.T @ X, X.T @ rng.normal(size=50), np.zeros(200)
    approach(H, g, np.full(200, 1e-3), 0 * start, start, allowed=1e-12, max_sweeps=most)
    assert sum(sweeps) == most
    assert len(sweeps) <= 1 + np.log2(most / 5)


@pytest.mark.parametrize("begin", [0.0, 1.0, 5.0])
def test_minima_of_few_coordinates_take_no_sweeps(begin, rng, monkeypatch):
    """Coordinates leave on the way to the minimum on some signs, until it is there."""
    monkeypatch.setattr(_sweeps, "descend_gram", None)
    X = rng.normal(size=(100, 12)) @ (np.eye(12) + 0.3 * rng.normal(size=(12, 12)))
    w = rng.normal(size=12) * (rng.random(12) < 0.5)
    H, g = X.T @ X, X.T @ (X @ w + rng.normal(size=100))
    l1, l2 = np.append(np.full(11, 20.0), 0.0), np.zeros(12)
    v = approach(H, g, l1, l2, begin * rng.normal(size=12), allowed=1e-8, max_sweeps=100)
    assert Penalty(l1, l2).violation(v, H @ v - g, np).max() <= 1e-8
    assert 0 < np.count_nonzero(v) < 12


def test_a_minimum_at_zero_is_approached(rng):
    """Also from elsewhere: no coordinate is left whose sign could be solved for."""
    H, g, l1, l2 = quadratic(rng, 1)
    l1 = np.where(l1 > 0, 10 * np.abs(g).max(), 0.0)
    v = approach(H, g, l1, l2, rng.normal(size=len(g)), allowed=1e-6, max_sweeps=10_000)
    assert not v[2:-1].any()
    assert v[-1] == pytest.approx(g[-1] / H[-1, -1])
