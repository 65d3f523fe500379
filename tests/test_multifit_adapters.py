"""The proposal for batched fits with estimators of other libraries: `docs/multifit-protocol.md`.

Each adapter is a subclass with one method, and obeys the law of the proposal: its models are those
of one fit per candidate and split. gpuml's searches call it.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.model_selection import GridSearchCV as Theirs
from sklearn.model_selection import KFold, ParameterGrid

from gpuml.model_selection import GridSearchCV
from gpuml.protocol import fit_candidates

pytestmark = pytest.mark.exhaustive


def skglm_lasso():
    """A path from the largest penalty to the smallest: each solution starts the next."""
    skglm = pytest.importorskip("skglm")

    class BatchedLasso(skglm.Lasso):
        __sklearn_multifit_params__ = ("alpha",)

        def __sklearn_multifit__(self, X, y, splits, candidates):
            models = [[None] * len(splits) for _ in candidates]
            alphas = np.array([candidate.get("alpha", self.alpha) for candidate in candidates])
            order = np.argsort(-alphas)
            for s, (train, _) in enumerate(splits):
                X_s, y_s = np.asfortranarray(X[train]), y[train]
                coefs = self.path(X_s, y_s, alphas[order])[1]
                for c, coef in zip(order, coefs.T, strict=True):
                    model = clone(self).set_params(**candidates[c])
                    model.coef_ = coef[: X.shape[1]]
                    model.intercept_ = coef[-1] if self.fit_intercept else 0.0
                    model.n_features_in_ = X.shape[1]
                    models[c][s] = model
            return models

    return BatchedLasso(tol=1e-10), {"alpha": [0.1, 10.0, 1.0], "fit_intercept": [True, False]}


def himalaya_ridge():
    """One decomposition per split: the solver takes a penalty for each target."""
    himalaya = pytest.importorskip("himalaya.ridge")

    class BatchedRidge(himalaya.Ridge):
        __sklearn_multifit_params__ = ("alpha",)

        def __sklearn_multifit__(self, X, y, splits, candidates):
            if self.solver != "svd" or y.ndim != 1:
                return NotImplemented
            models = [[] for _ in candidates]
            alphas = np.array([candidate.get("alpha", self.alpha) for candidate in candidates])
            for train, _ in splits:
                targets = np.repeat(y[train, None], len(alphas), axis=1)
                found = himalaya.solve_ridge_svd(
                    X[train], targets, alpha=alphas, fit_intercept=self.fit_intercept
                )
                coefs, offsets = found if self.fit_intercept else (found, None)
                for c, candidate in enumerate(candidates):
                    model = clone(self).set_params(**candidate)
                    model.coef_ = coefs[:, c]
                    if self.fit_intercept:
                        model.intercept_ = offsets[c]
                    model.dtype_, model.n_features_in_ = str(X.dtype), X.shape[1]
                    models[c].append(model)
            return models

    return BatchedRidge(), {"alpha": [0.1, 10.0, 1.0], "fit_intercept": [True, False]}


@pytest.fixture(params=[skglm_lasso, himalaya_ridge])
def adapter(request):
    """An estimator with the method, the class without it, and a grid."""
    estimator, grid = request.param()
    parent = type(estimator).__mro__[1]
    return estimator, parent(**estimator.get_params()), grid


@pytest.fixture
def rows():
    return make_regression(n_samples=90, n_features=12, n_informative=5, noise=3, random_state=0)


def test_batched_fits_of_other_libraries_are_their_single_fits(adapter, rows, monkeypatch):
    estimator, parent, grid = adapter
    X, y = rows
    splits, candidates = list(KFold(3).split(X)), list(ParameterGrid(grid))
    expected = fit_candidates(parent, X, y, splits, candidates, clone=clone)

    def refuse(self, *args, **kwargs):
        raise AssertionError("a batched search fits nothing by itself")

    monkeypatch.setattr(type(parent), "fit", refuse)
    found = fit_candidates(estimator, X, y, splits, candidates, clone=clone)
    for ours, theirs in zip(found, expected, strict=True):
        for one, other, (_, test) in zip(ours, theirs, splits, strict=True):
            assert one.get_params() == other.get_params()
            np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(one.predict(X[test]), other.predict(X[test]), rtol=1e-6)


def test_a_search_over_their_estimators_fits_all_candidates_of_a_fold_together(adapter, rows):
    estimator, parent, grid = adapter
    search = GridSearchCV(estimator, grid, cv=3, scoring="r2").fit(*rows)
    expected = Theirs(parent, grid, cv=3, scoring="r2").fit(*rows)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-8
    )
    assert search.plan_.n_passes == 6  # three folds, with and without an intercept
    assert "fits shared by __sklearn_multifit__" in str(search.plan_)
