"""Steps that make of each row another one are applied once, and what is behind them joins the pass."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import linear_model, model_selection, preprocessing
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.pipeline import make_pipeline

from gpuml.decomposition import PCA
from gpuml.linear_model import Lasso, LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.preprocessing import Normalizer, PolynomialFeatures, StandardScaler
from gpuml.testing import ArrayLibrary

FRONT = {
    "products": [(PolynomialFeatures(), preprocessing.PolynomialFeatures())],
    "scikit-learn's": [(preprocessing.PolynomialFeatures(), preprocessing.PolynomialFeatures())],
    "interactions": [
        (
            PolynomialFeatures((2, 3), interaction_only=True, include_bias=False),
            preprocessing.PolynomialFeatures((2, 3), interaction_only=True, include_bias=False),
        )
    ],
    "norms": [(Normalizer("l1"), preprocessing.Normalizer("l1"))],
    "both": [
        (Normalizer(), preprocessing.Normalizer()),
        (
            PolynomialFeatures(include_bias=False),
            preprocessing.PolynomialFeatures(include_bias=False),
        ),
    ],
}
BEHIND = {
    "nothing": [],
    "scaler": [(StandardScaler(), preprocessing.StandardScaler())],
    "scaler, pca": [
        (StandardScaler(), preprocessing.StandardScaler()),
        (PCA(3), SklearnPCA(3)),
    ],
}
MODELS = {
    "ridge": (Ridge(), linear_model.Ridge(), {"ridge__alpha": [0.1, 1.0, 10.0]}),
    "lasso": (
        Lasso(tol=1e-10, max_iter=10**5),
        linear_model.Lasso(tol=1e-10, max_iter=10**5),
        {"lasso__alpha": [0.01, 0.1]},
    ),
    "logistic": (
        LogisticRegression(tol=1e-10, max_iter=1000),
        linear_model.LogisticRegression(tol=1e-10, max_iter=1000),
        {"logisticregression__C": [0.1, 1.0]},
    ),
}


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    return X, X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=80)


def pipelines(front, behind, model):
    ours, theirs, grid = MODELS[model]
    steps = [*FRONT[front], *BEHIND[behind], (ours, theirs)]
    return *(make_pipeline(*each) for each in zip(*steps, strict=True)), grid


@pytest.mark.pairwise
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("front", FRONT)
def test_a_search_takes_one_pass_and_agrees_with_scikit_learn(front, behind, model, library):
    X, y = problem()
    y = (y > 0).astype(int) if model == "logistic" else y
    ours, theirs, grid = pipelines(front, behind, model)
    if front == "scikit-learn's" and not isinstance(library.asarray(X), np.ndarray):
        pytest.skip("scikit-learn's own takes arrays of NumPy")
    expected = model_selection.GridSearchCV(theirs, grid, cv=3).fit(X, y)
    search = GridSearchCV(ours, grid, cv=3).fit(library.asarray(X), library.asarray(y))
    assert "all candidates together" in str(search.plan_)
    assert "one by one" not in str(search.plan_)
    name = "mean_test_score"
    assert_allclose(search.cv_results_[name], expected.cv_results_[name], rtol=1e-7)
    best = expected.best_estimator_
    found = search.best_estimator_
    assert_allclose(
        ArrayLibrary.to_numpy(found.predict(library.asarray(X))), best.predict(X), rtol=1e-6
    )
    for own, other in zip(found, best, strict=True):
        assert own.n_features_in_ == other.n_features_in_
    assert list(found[:-1].get_feature_names_out()) == list(best[:-1].get_feature_names_out())


def test_candidates_of_other_rows_are_in_groups_of_their_own():
    X, y = problem()
    pipeline = make_pipeline(PolynomialFeatures(), StandardScaler(), Ridge())
    grid = {"polynomialfeatures__degree": [1, 2, 3], "ridge__alpha": [0.1, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert [step.n_fits for step in search.plan_.steps] == [6, 6, 6]
    expected = model_selection.GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    name = "mean_test_score"
    assert_allclose(search.cv_results_[name], expected.cv_results_[name], rtol=1e-9)
    assert search.best_params_ == expected.best_params_


def test_who_has_ways_of_its_own_is_fitted_by_them():
    class Twice(PolynomialFeatures):
        def transform(self, X):
            return 2 * super().transform(X)

    X, y = problem()
    search = GridSearchCV(make_pipeline(Twice(), Ridge()), {"ridge__alpha": [0.1, 1.0]}).fit(X, y)
    assert_allclose(
        search.best_estimator_[0].transform(X), 2 * PolynomialFeatures().fit_transform(X)
    )
    assert "Twice() is not one of gpuml's linear steps" in str(search.plan_)


def test_sparse_rows_say_why_they_are_fitted_otherwise():
    from scipy import sparse

    X, y = problem()
    pipeline = make_pipeline(PolynomialFeatures(), Ridge())
    search = GridSearchCV(pipeline, {"ridge__alpha": [0.1, 1.0]}).fit(sparse.csr_array(X), y)
    assert "X is sparse, and PolynomialFeatures leaves it so" in str(search.plan_)
