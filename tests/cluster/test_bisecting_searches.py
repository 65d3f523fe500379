"""Searches over bisecting k-means fit the largest candidate, and read the others off."""

import numpy as np
import pytest
import sklearn.cluster as sk
from sklearn.datasets import make_blobs
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV as TheirSearch

from gpuml.cluster import BisectingKMeans
from gpuml.data import whole
from gpuml.model_selection import GridSearchCV

X, _ = make_blobs(200, 4, centers=6, cluster_std=2.0, random_state=0)
WEIGHT = np.random.default_rng(0).random(200)
GRID = {"n_clusters": [1, 2, 3, 5, 8]}


@pytest.mark.parametrize("strategy", ["biggest_inertia", "largest_cluster"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
def test_a_search_is_that_of_scikit_learn(strategy, dtype, weight):
    rows = X.astype(dtype)
    params = {"random_state": 0, "n_init": 2, "bisecting_strategy": strategy}
    options = {"cv": 3, "return_train_score": True}
    ours = GridSearchCV(BisectingKMeans(**params), GRID, **options)
    ours.fit(rows, sample_weight=weight)
    theirs = TheirSearch(sk.BisectingKMeans(**params), GRID, **options)
    theirs.fit(rows, sample_weight=weight)
    assert "gives the smaller ones" in str(ours.plan_)
    for name in theirs.cv_results_:
        if name.startswith("split"):
            found, expected = (search.cv_results_[name] for search in (ours, theirs))
            np.testing.assert_allclose(found, expected, rtol=1e-9 if dtype == "float64" else 1e-4)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_array_equal(ours.best_estimator_.labels_, theirs.best_estimator_.labels_)


@pytest.mark.parametrize("k", GRID["n_clusters"])
def test_what_is_read_off_is_what_is_fitted(k):
    model = BisectingKMeans(random_state=3)
    folds = whole(model.multifit_batch(X))
    stack = model.multifit(folds, [{"n_clusters": k}, {"n_clusters": 8}])
    found = model.multifit_model({"n_clusters": k}, stack.pick(0, 0))
    expected = sk.BisectingKMeans(k, random_state=3).fit(X)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(found.predict(X + 0.5), expected.predict(X + 0.5))
    np.testing.assert_allclose(found.transform(X), expected.transform(X), rtol=1e-6, atol=1e-6)
    assert found.inertia_ == pytest.approx(expected.inertia_)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"random_state": None}, "random_state=None"),
        ({"init": lambda X, k, random_state: X[:k]}, "callable init"),
        ({"verbose": 1}, "verbose=1"),
    ],
)
def test_what_is_refused_is_fitted_one_by_one_and_says_why(params, why, capsys):
    model = BisectingKMeans(**{"random_state": 0, **params})
    search = GridSearchCV(model, {"n_clusters": [2, 3]}, cv=2).fit(X[:20])
    assert why in str(search.plan_)
    assert "one by one" in str(search.plan_)


def test_more_clusters_than_rows_fail_alone():
    search = GridSearchCV(BisectingKMeans(random_state=0), {"n_clusters": [2, 200]}, cv=3)
    told = pytest.warns(UserWarning, match="non-finite")
    with told, pytest.warns(FitFailedWarning, match="n_clusters=200"):
        search.fit(X)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]
