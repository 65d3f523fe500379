"""Sparse models of float32 rows: divided rows give what all rows give, to float32's precision."""

from itertools import accumulate, pairwise

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression

import gpuml_dask.linear_model
from gpuml import get_config
from gpuml._arrays import HOST
from gpuml.divided import DividedRows, InProcess, Share
from gpuml.divided.fitting import fit_divided
from gpuml.linear_model import ElasticNet, Lasso, LogisticRegression

N, P = 600, 12
# Of pieces; one has a single row.
pytestmark = pytest.mark.exhaustive

CUTS = {"pieces": (200, 1, 249, 150), "rows": (1,) * N, "one piece": (N,)}
# Sums are of float64, coefficients are rounded to float32: its spacing, some times over.
TOL = 32 * np.finfo(np.float32).eps
# What iterates over rows stops a little earlier or later.
ITERATED_TOL = 1e-3
REGRESSORS = [
    Lasso(alpha=0.3),
    Lasso(alpha=0.01, fit_intercept=False),
    ElasticNet(alpha=0.3),
    ElasticNet(alpha=0.01, l1_ratio=0.9),
    ElasticNet(alpha=1.0, l1_ratio=0.0),
]
SAGA = LogisticRegression(solver="saga", max_iter=2000, tol=1e-5)
CLASSIFIERS = [
    clone(SAGA).set_params(C=0.05, l1_ratio=1.0),
    clone(SAGA).set_params(C=1.0, l1_ratio=0.5),
    clone(SAGA).set_params(C=1.0, l1_ratio=0.0),
    clone(SAGA).set_params(C=0.05, l1_ratio=1.0, fit_intercept=False, class_weight="balanced"),
]


@pytest.fixture(scope="module")
def regression():
    X, y = make_regression(N, P, n_informative=5, noise=5, random_state=0)
    return (X + 3).astype(np.float32), y.astype(np.float32)


@pytest.fixture(scope="module", params=[2, 3])
def classes(request):
    options = {"n_informative": 6, "n_classes": request.param, "random_state": 1}
    X, y = make_classification(N, P, **options)
    return (X + 0.5).astype(np.float32), y


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(2).uniform(0.1, 2, N).astype(np.float32)


def divided(sizes, X, y, weight=None):
    """Rows in pieces that are all in this process."""
    bounds = pairwise([0, *accumulate(sizes)])
    shares = [Share(*(None if c is None else c[a:b] for c in (X, y, weight))) for a, b in bounds]
    return DividedRows(InProcess(shares, HOST), tuple(sizes), X.shape[1], get_config())


def assert_near(found, expected, tol):
    """Coefficients and intercepts agree, relative to the largest one, and are of one dtype."""
    assert found["coef_"].dtype == np.float32
    for name in ("coef_", "intercept_"):
        mine, theirs = found[name], getattr(expected, name)
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype, name
        scale = max(1.0, float(np.max(np.abs(theirs))))
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tol * scale, err_msg=name)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_sparse_regressors(model, cut, weighted, regression, weights):
    X, y = regression
    weight = weights if weighted else None
    found = fit_divided(model, divided(CUTS[cut], X, y, weight), weighted=weighted)
    expected = clone(model).fit(X, y, weight)
    assert_near(found, expected, TOL)
    assert np.array_equal(found["coef_"] == 0, expected.coef_ == 0)


@pytest.mark.parametrize("cut", ["pieces", "one piece"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_saga(model, cut, weighted, classes, weights):
    X, y = classes
    weight = weights if weighted else None
    found = fit_divided(model, divided(CUTS[cut], X, y, weight), weighted=weighted)
    expected = clone(model).fit(X, y, weight)
    assert_near(found, expected, ITERATED_TOL)
    assert np.array_equal(found["classes_"], expected.classes_)


def test_saga_of_more_features_than_rows():
    X, y = make_classification(80, 1100, n_informative=6, random_state=3)
    X = X.astype(np.float32)
    found = fit_divided(CLASSIFIERS[1], divided((30, 50), X, y))
    assert_near(found, clone(CLASSIFIERS[1]).fit(X, y), ITERATED_TOL)


@pytest.mark.parametrize("model", [REGRESSORS[0], REGRESSORS[2], CLASSIFIERS[1]], ids=str)
def test_float32_rows_on_workers(client, model, regression, classes, weights):
    X, y = classes if hasattr(model, "predict_proba") else regression
    sizes = CUTS["pieces"]
    there = getattr(gpuml_dask.linear_model, type(model).__name__)(**model.get_params())
    with dask.config.set({"gpuml.piece-bytes": "4 kB"}):
        columns = (da.from_array(x, chunks=(sizes, *x.shape[1:])) for x in (X, y, weights))
        there.fit(*columns)
    expected = clone(model).fit(X, y, weights)
    tol = TOL if model in REGRESSORS else ITERATED_TOL
    assert_near(vars(there), expected, tol)
