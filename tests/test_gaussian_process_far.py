"""Gaussian processes where digits cancel: targets far from 0, and rows far from all others."""

import numpy as np
import pytest
from sklearn import gaussian_process as sk
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV as TheirSearch

import gpuml.gaussian_process as own
from gpuml.model_selection import GridSearchCV


@pytest.mark.parametrize("y_of", [lambda y: 0 * y + 2.5, lambda y: 1e9 + y])
def test_scores_of_targets_far_from_zero_are_those_of_centred_ones(y_of, rng):
    X = rng.normal(size=(40, 3))
    y = y_of(X[:, 0] + 0.1 * rng.normal(size=40))
    grid = {"alpha": [1e-6, 1e-1], "normalize_y": [True]}
    ours, theirs = (kind.GaussianProcessRegressor(optimizer=None) for kind in (own, sk))
    found = GridSearchCV(ours, grid, cv=4, return_train_score=True).fit(X, y).cv_results_
    wanted = TheirSearch(theirs, grid, cv=4, return_train_score=True)
    wanted = wanted.fit(X, y).cv_results_
    for name in ("mean_test_score", "mean_train_score"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6)


def test_rows_far_from_all_training_rows_have_the_labels_of_a_fit(rng):
    # Latent values of 1e-20 are above 0 or below, and no probability tells which.
    X = rng.normal(size=(60, 12)) * 3.0
    grid = {"kernel": [RBF(1.0), RBF(0.6)]}
    ours, theirs = (kind.GaussianProcessClassifier(optimizer=None) for kind in (own, sk))
    found, wanted = (
        search(model, grid, cv=3).fit(X, X[:, 0] > 0).cv_results_
        for search, model in ((GridSearchCV, ours), (TheirSearch, theirs))
    )
    for split in range(3):
        np.testing.assert_allclose(
            found[f"split{split}_test_score"], wanted[f"split{split}_test_score"]
        )


def test_of_classes_with_equal_probabilities_the_first_is_predicted(rng):
    X, y = rng.normal(size=(60, 3)), np.repeat([2, 1, 0], 20)
    far, found = X + 1e3, []
    for kind in (own, sk):
        model = kind.GaussianProcessClassifier(RBF(0.5), optimizer=None).fit(X, y)
        assert (np.ptp(model.predict_proba(far), axis=1) == 0).all()
        found.append(model.predict(far))
    np.testing.assert_array_equal(*found)
    search = GridSearchCV(own.GaussianProcessClassifier(optimizer=None), {"kernel": [RBF(0.5)]})
    search.set_params(cv=[(np.arange(60), np.arange(60, 120))], refit=False)
    search.fit(np.concatenate([X, far]), np.concatenate([y, found[1]]))
    assert search.cv_results_["mean_test_score"] == 1.0
