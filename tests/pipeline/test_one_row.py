"""Training parts of a single row: a search goes on, or fails a fit, where scikit-learn's does."""

import numpy as np
import pytest
import sklearn.decomposition as sk_decomposition
import sklearn.linear_model as sk_linear
import sklearn.model_selection as sk
import sklearn.preprocessing as sk_preprocessing
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

import gpuml.decomposition
import gpuml.linear_model
import gpuml.preprocessing
from gpuml.model_selection import GridSearchCV

CV = [([0], [1, 2, 3]), ([1, 2, 3, 4], [0, 5])]
STEPS = {
    "PCA": (sk_decomposition, gpuml.decomposition, {}),
    "PCA of one": (sk_decomposition, gpuml.decomposition, {"n_components": 1}),
    "PCA of two": (sk_decomposition, gpuml.decomposition, {"n_components": 2}),
    "PCA of a share": (sk_decomposition, gpuml.decomposition, {"n_components": 0.5}),
    "PCA whitened": (sk_decomposition, gpuml.decomposition, {"whiten": True}),
    "PCA randomized": (
        *(sk_decomposition, gpuml.decomposition),
        {"svd_solver": "randomized", "n_components": 1, "random_state": 0},
    ),
    "IncrementalPCA": (sk_decomposition, gpuml.decomposition, {}),
    "TruncatedSVD": (
        *(sk_decomposition, gpuml.decomposition),
        {"n_components": 1, "random_state": 0},
    ),
    "StandardScaler": (sk_preprocessing, gpuml.preprocessing, {}),
    "MinMaxScaler": (sk_preprocessing, gpuml.preprocessing, {}),
}
# The last steps of theirs and of ours: fitted at once, one by one, or behind steps in common.
LAST = {
    "at once": (sk_linear.Ridge(), gpuml.linear_model.Ridge(), {"alpha": [1.0, 2.0]}),
    "alone": (sk_linear.Ridge(), gpuml.linear_model.Ridge(), {"alpha": [1.0]}),
    "theirs": (sk_linear.Ridge(), sk_linear.Ridge(), {"alpha": [1.0, 2.0]}),
    "tree": (*[DecisionTreeRegressor(random_state=0)] * 2, {"max_depth": [1, 2]}),
}


@pytest.mark.pairwise
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("step", STEPS)
def test_scores_are_those_of_scikit_learn(step, last, rng):
    X = rng.normal(size=(6, 3))
    y = X[:, 0] + rng.normal(size=6)
    theirs, ours, params = STEPS[step]
    their_last, our_last, grid = LAST[last]
    name = step.split()[0]
    found = []
    for search, module, model in (
        (sk.GridSearchCV, theirs, their_last),
        (GridSearchCV, ours, our_last),
    ):
        pipeline = make_pipeline(getattr(module, name)(**params), model)
        names = {f"{pipeline.steps[-1][0]}__{key}": values for key, values in grid.items()}
        options = {"cv": CV, "scoring": "neg_mean_squared_error", "refit": False}
        table = search(pipeline, names, **options).fit(X, y).cv_results_
        found.append(np.array([table["split0_test_score"], table["split1_test_score"]]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8)
    assert np.isfinite(found[0][1]).all()


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("svd_solver", ["auto", "full", "randomized"])
def test_pca_of_one_row(library, rng, svd_solver):
    X = rng.normal(3, 1, size=(5, 3))
    options = {"svd_solver": svd_solver, "random_state": 0}
    theirs = sk_decomposition.PCA(**options).fit(X[:1])
    ours = gpuml.decomposition.PCA(**options).fit(library.asarray(X[:1]))
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "mean_"):
        found = library.to_numpy(getattr(ours, name))
        np.testing.assert_allclose(found, getattr(theirs, name), rtol=1e-6, atol=1e-6)
    found = library.to_numpy(ours.transform(library.asarray(X)))
    np.testing.assert_allclose(found, theirs.transform(X), rtol=1e-6, atol=1e-6)
