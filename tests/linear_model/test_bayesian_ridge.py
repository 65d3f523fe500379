"""Bayesian ridge regression: scikit-learn's, and a fixed point of its updates."""

import numpy as np
import pytest
import sklearn.linear_model as sk
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.pipeline import make_pipeline as their_pipeline
from sklearn.preprocessing import StandardScaler as TheirScaler

from gpuml._arrays import device_of
from gpuml.linear_model import BayesianRidge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import array_libraries

CASES = [
    {},
    {"fit_intercept": False},
    {"compute_score": True, "lambda_1": 1.0},
    {"alpha_init": 2.0, "lambda_init": 0.1, "max_iter": 2},
    {"alpha_1": 10.0, "alpha_2": 3.0, "tol": 1e-8},
]


def data(rng, n_rows=70):
    X = rng.normal(size=(n_rows, 5)) * np.logspace(-1, 1, 5) + 3.0
    return X, X @ rng.normal(size=5) + rng.normal(size=n_rows), rng.integers(0, 3, n_rows) * 1.0


@pytest.mark.pairwise
@pytest.mark.parametrize("params", CASES, ids=str)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("is_weighted", [False, True])
def test_models_are_those_of_scikit_learn(params, library, is_weighted, rng):
    X, y, weight = data(rng)
    weight = weight if is_weighted else None
    expected = sk.BayesianRidge(**params).fit(X, y, weight)
    rows = library.asarray(X)
    own_weight = library.asarray(weight) if is_weighted else None
    model = BayesianRidge(**params).fit(rows, library.asarray(y), own_weight)
    for name in ("coef_", "intercept_", "sigma_", "alpha_", "lambda_", "X_offset_", "X_scale_"):
        found = library.to_numpy(getattr(model, name))
        np.testing.assert_allclose(found, getattr(expected, name), rtol=1e-7, atol=1e-10)
    assert model.n_iter_ == expected.n_iter_
    # scikit-learn's last score is of coefficients before the last update.
    np.testing.assert_allclose(model.scores_[:-1], expected.scores_[:-1], rtol=1e-9)
    both = model.predict(rows, return_std=True)
    for found, other in zip(both, expected.predict(X, return_std=True), strict=True):
        assert device_of(found) == device_of(rows)
        np.testing.assert_allclose(library.to_numpy(found), other, rtol=1e-7)


def test_precisions_are_a_fixed_point(rng):
    X, y, _ = data(rng)
    model = BayesianRidge(tol=1e-12, max_iter=10_000).fit(X, y)
    X, y = X - X.mean(axis=0), y - y.mean()
    values = np.linalg.eigvalsh(X.T @ X)
    gamma = np.sum(model.alpha_ * values / (model.lambda_ + model.alpha_ * values))
    error = np.sum((y - X @ model.coef_) ** 2)
    np.testing.assert_allclose(model.lambda_, gamma / (model.coef_ @ model.coef_), rtol=1e-5)
    np.testing.assert_allclose(model.alpha_, (len(y) - gamma) / error, rtol=1e-5)


def test_weights_are_repetitions(rng):
    X, y, weight = data(rng)
    # The number of rows decides on nothing here, but that there are more than features.
    times = weight.astype(int)
    weighted = BayesianRidge().fit(X, y, weight)
    repeated = BayesianRidge().fit(X.repeat(times, axis=0), y.repeat(times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
    np.testing.assert_allclose(weighted.sigma_, repeated.sigma_, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("is_scaled", [False, True])
def test_searches_are_fits_one_by_one(is_scaled, rng):
    X, y, _ = data(rng)
    grid = {"lambda_1": [1e-6, 10.0], "fit_intercept": [True, False], "max_iter": [1, 50]}
    ours, theirs = BayesianRidge(), sk.BayesianRidge()
    if is_scaled:
        grid = {f"bayesianridge__{name}": values for name, values in grid.items()}
        ours = make_pipeline(StandardScaler(), ours)
        theirs = their_pipeline(TheirScaler(), theirs)
    found, expected = GridSearchCV(ours, grid).fit(X, y), TheirSearch(theirs, grid).fit(X, y)
    assert found.plan_.n_passes == 1
    for split in range(5):
        name = f"split{split}_test_score"
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], rtol=1e-9)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-9)


def test_fewer_rows_than_features(rng):
    X, y = rng.normal(size=(10, 20)), rng.normal(size=10)
    expected = sk.BayesianRidge().fit(X, y)
    np.testing.assert_allclose(BayesianRidge().fit(X, y).coef_, expected.coef_, rtol=1e-7)
    strict = pytest.importorskip("array_api_strict")
    there = BayesianRidge().fit(strict.asarray(X), strict.asarray(y))
    np.testing.assert_allclose(np.asarray(there.coef_), expected.coef_, rtol=1e-5)


@pytest.mark.parametrize("shape", [(10, 13), (10, 6), (20, 19)], ids=str)
def test_directions_without_rows_are_not_determined_by_them(rng, shape):
    """Not even by rounding, where a constant target leaves hardly any noise to be seen."""
    X = np.round(rng.normal(size=shape))
    X[:, 1] = X[:, 0]
    y = np.full(len(X), 2.0)
    search = GridSearchCV(BayesianRidge(compute_score=True), {"tol": [1e-3, 1e-6]}, cv=2).fit(X, y)
    for model in (search.best_estimator_, BayesianRidge(compute_score=True).fit(X, y)):
        assert model.alpha_ > 0
        assert np.isfinite(model.scores_).all()
        np.testing.assert_allclose(model.predict(X), y)
