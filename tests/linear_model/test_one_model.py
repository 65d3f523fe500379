"""One fit of a smooth model on a CPU: as near to the minimum as scikit-learn, in few calls."""

import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn import linear_model as sk
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning

from gpuml import linear_model
from gpuml.linear_model import LogisticRegression, PoissonRegressor
from gpuml.solvers import newton, one_model

KINDS = LogisticRegression, sk.LogisticRegression


def rows(n_rows, n_features, n_classes=2, scales=0.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    Z = X @ rng.normal(size=(n_features, n_classes)) + rng.gumbel(size=(n_rows, n_classes))
    return X * 10.0 ** rng.uniform(-scales, scales, n_features) + scales, Z.argmax(axis=1)


def few_values():
    """Columns of which some are constant, and some say who is in a class of few rows."""
    X, y = rows(400, 6)
    X[:, 0], X[:, 1] = 3.0, np.arange(400) < 2
    return X, y


DATA = {
    "small": lambda: rows(300, 10),
    "classes": lambda: rows(500, 20, 4),
    "more features": lambda: rows(700, 100),
    "long": lambda: rows(30_000, 12),
    "scales": lambda: rows(600, 20, scales=2.0),
    "of use": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(n_class=4, return_X_y=True),
    "few values": few_values,
    "float32": lambda: (rows(600, 20)[0].astype(np.float32), rows(600, 20)[1]),
    "hardly more rows": lambda: rows(41, 40),
}


def objective(model, X, y):
    """As both minimise it, per row."""
    z = X.astype(np.float64) @ model.coef_.T.astype(np.float64) + model.intercept_
    z = np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z
    losses = np.logaddexp.reduce(z, axis=1) - z[np.arange(len(y)), y]
    penalty = np.sum(model.coef_.astype(np.float64) ** 2) / 2 / model.C
    return (losses.sum() + penalty) / len(y)


def fitted(kind, X, y, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(**params).fit(X, y)


@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("data", DATA)
def test_a_fit_is_as_near_to_the_minimum_as_that_of_scikit_learn(data, C):
    X, y = DATA[data]()
    ours, theirs = (objective(fitted(kind, X, y, C=C), X, y) for kind in KINDS)
    best = objective(fitted(LogisticRegression, X, y, C=C, tol=1e-8, max_iter=1000), X, y)
    rounding = 1e-6 if X.dtype == np.float32 else 1e-12
    assert ours - best <= max(theirs - best, 2e-8) + rounding


@pytest.mark.parametrize("intercept", [True, False])
def test_weights_count_as_rows_that_are_repeated(intercept):
    X, y = rows(200, 5)
    times = np.arange(200) % 4
    kind = LogisticRegression(fit_intercept=intercept, tol=1e-9)
    one = kind.fit(X, y, sample_weight=times)
    coef, level = one.coef_.copy(), one.intercept_.copy()
    more = kind.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(coef, more.coef_, rtol=1e-8)
    np.testing.assert_allclose(level, more.intercept_, rtol=1e-8)


def test_a_loss_without_a_bound_and_one_that_is_not_convex_end_at_their_minimum():
    X, _ = rows(400, 8)
    y = np.random.default_rng(1).poisson(np.exp(X[:, 0])) + 1.0
    ours = PoissonRegressor(tol=1e-9).fit(X, y)
    theirs = sk.PoissonRegressor(tol=1e-9, max_iter=1000, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7, atol=1e-9)


def test_separated_classes_without_a_penalty_stop_with_a_warning_or_none():
    X = np.linspace(-1, 1, 50)[:, None]
    model = fitted(LogisticRegression, X, (X[:, 0] > 0).astype(int), C=np.inf)
    assert np.isfinite(model.coef_).all()
    assert model.score(X, (X[:, 0] > 0).astype(int)) == 1.0


def test_classes_that_are_ever_farther_apart_take_no_more_passes_than_in_scikit_learn():
    """Curvatures at the start are far too large later: steps are measured by the last one."""
    X, y = load_digits(return_X_y=True)
    ours, theirs = (fitted(kind, X, y, C=np.inf) for kind in KINDS)
    assert ours.n_iter_ <= theirs.n_iter_
    assert objective(ours, X, y) <= objective(theirs, X, y)


@pytest.mark.parametrize(("n_rows", "n_features"), [(300, 10), (2000, 50)])
def test_a_fit_takes_no_more_calls_of_python_than_that_of_scikit_learn(n_rows, n_features):
    X, y = rows(n_rows, n_features)
    models = [kind() for kind in KINDS]
    for model in models:
        model.fit(X, y)
    ours, theirs = (calls(model.fit, X, y) for model in models)
    assert ours <= theirs


@pytest.mark.parametrize("kind", ["LogisticRegression", "PoissonRegressor"])
def test_newton_steps_take_few_calls_of_python(kind):
    X, y = rows(2000, 50)
    ours, theirs = (
        getattr(module, kind)(solver="newton-cholesky").fit(X, y) for module in (linear_model, sk)
    )
    exact = getattr(sk, kind)(solver="newton-cholesky", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, exact.coef_, atol=1e-6)
    assert calls(ours.fit, X, y) <= 1.5 * calls(theirs.fit, X, y)


def test_hessians_of_coupled_vectors_take_one_copy_of_the_rows_for_each(rng):
    k, n_rows, q = 5, 2000, 30
    X, c, w = rng.normal(size=(n_rows, q)), rng.random((k, n_rows)), rng.random(n_rows)
    total = np.zeros((k * q, k * q))
    tracemalloc.start()
    newton._add_coupled(total, w, c, X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * 8 * n_rows * k * q
    U = ((np.sqrt(w) * c)[:, None, :] * X.T).reshape(k * q, n_rows)
    expected = -U @ U.T
    for j in range(k):
        own = slice(j * q, (j + 1) * q)
        expected[own, own] += (X.T * (w * c[j])) @ X
    np.testing.assert_allclose(np.tril(total), np.tril(expected), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_sparse_rows_take_the_steps_of_dense_ones(n_classes):
    X, y = rows(1500, 200, n_classes)
    X *= np.random.default_rng(1).random(X.shape) < 0.1
    dense, thin = (LogisticRegression(C=0.1).fit(Z, y) for Z in (X, csr_array(X)))
    assert thin.n_iter_ == dense.n_iter_
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-8, atol=1e-8)


def test_hessians_that_take_longer_than_all_passes_are_left_out(monkeypatch):
    """However slow the passes are: what `max_iter` stops has not converged, but ends soon."""
    X = random_array((3000, 1500), density=0.01, format="csr", rng=np.random.default_rng(0))
    y = (X @ np.random.default_rng(1).normal(size=1500) > 0).astype(int)
    monkeypatch.setattr(one_model._Steps, "take_hessian", None)
    assert fitted(LogisticRegression, X, y, C=1e4, max_iter=30).n_iter_ == 30


def test_features_that_go_together_take_few_passes_however_many_there_may_be(rng):
    """The rate of the first passes deceives: a Hessian comes once passes took as long as it does."""
    common = rng.normal(size=(3000, 10))
    X = common @ rng.normal(size=(10, 500)) + rng.normal(size=(3000, 500))
    y = (common[:, 0] + rng.logistic(size=3000) > 0).astype(int)
    X *= np.exp(rng.normal(size=500))
    assert fitted(LogisticRegression, X, y, max_iter=1000).n_iter_ < 80


def test_a_hessian_that_has_no_factor_is_not_tried_at_once_again(monkeypatch):
    X, y = rows(3000, 100)
    X += 3 * X[:, :1]
    tried = []
    monkeypatch.setattr(one_model._Steps, "pays", lambda steps, most: len(steps.lefts) > 3)
    monkeypatch.setattr(one_model._Steps, "take_hessian", lambda *_: tried.append(1))
    n_iter = fitted(LogisticRegression, X, y).n_iter_
    assert 0 < len(tried) < n_iter


def calls(function, *args):
    """Calls of functions of Python, and of C by Python."""
    seen = [0]

    def count(frame, event, arg):
        seen[0] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return seen[0]
