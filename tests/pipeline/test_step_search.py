"""Searches over one affine step by itself: equal to one fit at a time, from one pass."""

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from sklearn.datasets import load_diabetes
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

from gpuml.decomposition import PCA, TruncatedSVD
from gpuml.model_selection import GridSearchCV, cross_val_score

GRID = {"n_components": [1, 3, 0.9, "mle", None], "whiten": [True, False]}


def rows():
    X = load_diabetes().data
    return 100 * X * 1.5 ** np.arange(X.shape[1]) + 7


def split_scores(search):
    names = sorted(name for name in search.cv_results_ if name.startswith("split"))
    return np.asarray([search.cv_results_[name] for name in names], dtype=float)


@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh"])
def test_likelihoods_are_those_of_sklearn(solver):
    X = rows()
    ours = GridSearchCV(PCA(svd_solver=solver), GRID).fit(X)
    theirs = SklearnGridSearchCV(sklearn.decomposition.PCA(svd_solver=solver), GRID).fit(X)
    np.testing.assert_allclose(split_scores(ours), split_scores(theirs), rtol=1e-7)
    assert str(ours.plan_) == "50 fits in 1 pass on numpy:cpu (all candidates together)"
    # "mle" and None keep 9 and 10 of 10 components here, which is the same model: either is best.
    fitted = sklearn.decomposition.PCA(svd_solver=solver, **ours.best_params_).fit(X)
    np.testing.assert_allclose(ours.transform(X), fitted.transform(X), rtol=1e-6, atol=1e-6)


def test_one_decomposition_serves_all_candidates(monkeypatch):
    calls = []
    known = PCA.multi_affine
    monkeypatch.setattr(
        PCA, "multi_affine", lambda self, *args: calls.append(args) or known(self, *args)
    )
    GridSearchCV(PCA(), GRID, refit=False).fit(rows())
    assert len(calls) == 1


def test_every_array_library(library):
    X = rows()
    ours = GridSearchCV(PCA(), GRID).fit(library.asarray(X))
    expected = GridSearchCV(PCA(), GRID).fit(X)
    np.testing.assert_allclose(split_scores(ours), split_scores(expected), rtol=1e-8)
    assert type(ours.best_estimator_.components_) is type(library.asarray(X))


def test_the_best_model_is_that_of_a_fit():
    frame = pd.DataFrame(rows(), columns=list("abcdefghij"))
    best = GridSearchCV(PCA(), GRID).fit(frame).best_estimator_
    alone = PCA(**{name: getattr(best, name) for name in GRID}).fit(frame)
    assert vars(best).keys() == vars(alone).keys()
    for name in ("components_", "explained_variance_", "mean_", "noise_variance_"):
        np.testing.assert_allclose(getattr(best, name), getattr(alone, name), rtol=1e-8, atol=1e-12)
    assert list(best.feature_names_in_) == list(frame.columns)


def test_a_scorer_of_ones_own_and_a_target():
    X, y = load_diabetes(return_X_y=True)

    def kept(model, X, y):
        return -float(np.mean((model.inverse_transform(model.transform(X)) - X) ** 2))

    grid = {"n_components": [2, 5]}
    ours = GridSearchCV(TruncatedSVD(algorithm="arpack"), grid, scoring=kept).fit(X, y)
    kind = sklearn.decomposition.TruncatedSVD(algorithm="arpack")
    theirs = SklearnGridSearchCV(kind, grid, scoring=kept).fit(X, y)
    np.testing.assert_allclose(split_scores(ours), split_scores(theirs), rtol=1e-7)
    assert ours.plan_.n_passes == 1


def test_a_single_candidate():
    X = rows()
    expected = SklearnGridSearchCV(sklearn.decomposition.PCA(2), {}).fit(X)
    np.testing.assert_allclose(cross_val_score(PCA(2), X), split_scores(expected)[:, 0], rtol=1e-9)


def test_a_candidate_that_cannot_be_fitted_fails_alone():
    with pytest.warns((FitFailedWarning, UserWarning)):
        found = GridSearchCV(PCA(), {"n_components": [2, 11]}).fit(rows())
    assert np.isnan(found.cv_results_["mean_test_score"]).tolist() == [False, True]


def test_more_features_than_rows():
    X = np.random.default_rng(0).standard_normal((20, 40))
    grid = {"n_components": [1, 3]}
    ours = GridSearchCV(PCA(), grid, cv=4).fit(X)
    theirs = SklearnGridSearchCV(sklearn.decomposition.PCA(), grid, cv=4).fit(X)
    np.testing.assert_allclose(split_scores(ours), split_scores(theirs), rtol=1e-7)
