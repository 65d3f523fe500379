"""One record of models for all linear families: what it says is what its picked models say."""

import gc
import warnings
import weakref

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model as sk
from sklearn.base import clone
from sklearn.model_selection import KFold

from gpuml import linear_model
from gpuml.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from gpuml.linear_model._models import Models
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.split import split_rows
from gpuml.svm import LinearSVC

# Estimator, what its targets are, and two candidates.
PENALTIES = [{"alpha": 0.1}, {"alpha": 2.0, "fit_intercept": False}]
STRENGTHS = [{"C": 1.0}, {"C": 0.1, "fit_intercept": False}]
FAMILIES = {
    "ridge": (Ridge(), "numbers", PENALTIES),
    "ridge of two targets": (Ridge(), "pairs", PENALTIES),
    "least squares": (LinearRegression(), "numbers", [{}, {"fit_intercept": False}]),
    "lasso": (Lasso(), "numbers", PENALTIES),
    "elastic net of two targets": (ElasticNet(), "pairs", PENALTIES),
    "two indicated classes": (RidgeClassifier(), "classes of 2", PENALTIES),
    "three indicated classes": (RidgeClassifier(), "classes of 3", PENALTIES),
    "two classes": (LogisticRegression(tol=1e-9), "classes of 2", STRENGTHS),
    "three classes": (LogisticRegression(tol=1e-9), "classes of 3", STRENGTHS),
    "counts": (PoissonRegressor(tol=1e-9), "counts", PENALTIES),
}
OF_SPARSE_ROWS = ("ridge", "ridge of two targets", "two classes", "three classes", "counts")
CASES = [(name, False) for name in FAMILIES] + [(name, True) for name in OF_SPARSE_ROWS]


NUMBERS = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60.0)


def rows(kind, is_sparse):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 5)) * (rng.random((60, 5)) < 0.5)
    X[:, 3] = 0.0  # no entries: not a column in use, where rows are sparse
    z = X @ [1.0, -1.0, 0.5, 2.0, 0.0] + 0.3 * rng.standard_normal(60) + 0.2
    y = {
        "numbers": z,
        "pairs": np.column_stack([z, z**2]),
        "classes of 2": (z > 0).astype(int),
        "classes of 3": np.digitize(z, [-0.5, 0.5]),
        "counts": rng.poisson(np.exp(0.5 * z)),
    }[kind]
    return (sparse.csr_array(X) if is_sparse else X), y


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *[(name, {}) for name in ("ARDRegression", "BayesianRidge", "HuberRegressor")],
        *[(name, {}) for name in ("LarsCV", "LassoCV", "LassoLarsIC", "RidgeCV")],
        *[("RidgeCV", {"cv": 3}), ("RidgeCV", {"alphas": [1, 2]})],
    ],
)
def test_fitted_numbers_are_of_the_types_that_scikit_learn_gives(name, options):
    found, expected = (getattr(m, name)(**options).fit(*NUMBERS) for m in (linear_model, sk))
    for attribute, value in vars(expected).items():
        assert type(getattr(found, attribute)) is type(value), attribute


def fitted(name, is_sparse):
    estimator, kind, candidates = FAMILIES[name]
    X, y = rows(kind, is_sparse)
    estimator = clone(estimator)
    batch = estimator.multifit_batch(X, y)
    splits = split_rows(KFold(3, shuffle=True, random_state=0), X, y, batch.n_rows)
    folds = make_folds(batch, splits)
    return estimator, X, y, folds, estimator.multifit(folds, candidates), candidates


@pytest.mark.parametrize(("name", "is_sparse"), CASES)
def test_models_say_of_rows_what_the_picked_ones_say(name, is_sparse):
    estimator, X, _, folds, models, candidates = fitted(name, is_sparse)
    assert isinstance(models, Models)
    assert models.n_candidates == len(candidates)
    ask = "decision" if hasattr(models, "decision") else "predict"
    theirs = {"decision": "decision_function", "predict": "predict"}[ask]
    for split in range(folds.n_splits):
        found = getattr(models, ask)(folds.batch.X, split, slice(0, len(candidates)))
        bare = models.responses
        for candidate, params in enumerate(candidates):
            one = estimator.multifit_model(params, models.pick(candidate, split))
            expected = getattr(one, theirs)(X)
            np.testing.assert_allclose(found[candidate], expected, rtol=1e-10, atol=1e-12)
        if not is_sparse:  # nothing but the models is needed
            again = getattr(bare, ask)(folds.batch.X, split, slice(1, 2))
            np.testing.assert_allclose(again[0], found[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("name", "is_sparse"), CASES)
def test_a_model_of_all_rows_is_a_fit_to_them(name, is_sparse):
    estimator, X, y, _, models, candidates = fitted(name, is_sparse)
    for candidate, params in enumerate(candidates):
        alone = clone(estimator).set_params(**params).fit(X, y)
        found = models.pick(candidate, None)
        for attribute in ("coef_", "intercept_"):
            expected, value = getattr(alone, attribute), found[attribute]
            assert np.shape(value) == np.shape(expected)
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7)
        fitted_by_it = {n for n in vars(alone) if n not in vars(clone(alone))}
        assert set(found) == fitted_by_it - {"n_features_in_"}


@pytest.mark.parametrize(
    ("name", "is_sparse"), [case for case in CASES if FAMILIES[case[0]][1] in ("numbers", "pairs")]
)
def test_sums_of_residuals_are_those_of_predictions(name, is_sparse):
    _, _, y, folds, models, candidates = fitted(name, is_sparse)
    for part in ("train", "test"):
        moments, reliable = models.residual_moments(part)
        assert reliable.all()
        for s, split in enumerate(folds.splits):
            chosen = getattr(split, part)
            said = models.predict(folds.batch.X[chosen], s, slice(0, len(candidates)))
            residual = y[chosen] - said
            squares = (residual**2).sum(axis=1).reshape(len(candidates), -1)
            np.testing.assert_allclose(moments.squared[:, s, :], squares, rtol=1e-9)


@pytest.mark.parametrize(("name", "is_sparse"), CASES)
def test_models_let_their_rows_go(name, is_sparse):
    """Without waiting for the collector of cycles: rows may fill the memory of a GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
        gc.disable()
        try:
            models = fitted(name, is_sparse)[4]
            models.pick(0, None)
            gone = weakref.ref(models)
            del models
            assert gone() is None
        finally:
            gc.enable()


def test_sparse_coefficients_are_in_cpu_memory_and_predictions_where_the_rows_are(library, rng):
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 3, size=60)
    there = library.asarray(X)
    for model in (LogisticRegression(), LinearSVC()):
        expected = library.to_numpy(model.fit(there, library.asarray(y)).decision_function(there))
        for _ in range(2):
            assert sparse.issparse(model.sparsify().coef_)
            assert type(model.decision_function(there)) is type(there)
            found = library.to_numpy(model.decision_function(there))
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
            model.densify()
