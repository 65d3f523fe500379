"""The best of all subsets is what fitting and scoring each of them finds."""

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model as sk
from sklearn.model_selection import RepeatedKFold, ShuffleSplit, TimeSeriesSplit, cross_val_score

from gpuml.feature_selection import best_subset
from gpuml.testing import array_libraries


def rows(rng, n_features=6, n_targets=None):
    X = rng.normal(size=(90, n_features)) @ rng.normal(size=(n_features, n_features)) + 5.0
    coef = rng.normal(size=(3, n_targets or 1))
    y = X[:, :3] @ coef + 3.0 * rng.normal(size=(90, n_targets or 1))
    return X, y if n_targets else y[:, 0]


def one_by_one(X, y, model, cv, scoring, most):
    """Scores (K, S) of the best subset of each size, and these, by fits of scikit-learn."""
    found = []
    for k in range(1, most + 1):
        each = [
            (cross_val_score(model, X[:, some], y, cv=cv, scoring=scoring), some)
            for some in combinations(range(X.shape[1]), k)
        ]
        found.append(max(each, key=lambda pair: pair[0].mean()))
    return found


CASES = [
    {},
    {"max_features": 3, "scoring": "neg_mean_squared_error"},
    {"max_features": 1, "alpha": 2.0, "cv": 3},
    {"alpha": 50.0, "cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)},
    {"fit_intercept": False, "cv": TimeSeriesSplit(3)},
    {"scoring": "explained_variance", "cv": ShuffleSplit(3, random_state=0), "max_features": 2},
    {"scoring": "neg_root_mean_squared_error", "max_features": 4},
]


@pytest.mark.each
@pytest.mark.parametrize("options", CASES, ids=lambda case: "-".join(case) or "default")
@pytest.mark.parametrize("library", array_libraries())
def test_the_best_of_each_size_is_that_of_fits_one_by_one(library, options, rng):
    X, y = rows(rng, n_targets=2 if "alpha" in options else None)
    found = best_subset(library.asarray(X), library.asarray(y), **options)
    model = sk.Ridge(options.get("alpha", 0.0), fit_intercept=options.get("fit_intercept", True))
    most = options.get("max_features", 6)
    expected = one_by_one(X, y, model, options.get("cv", 5), options.get("scoring", "r2"), most)
    np.testing.assert_array_equal(found.n_features, np.arange(1, most + 1))
    for support, scores, (best, some) in zip(found.supports, found.scores, expected, strict=True):
        assert tuple(np.flatnonzero(support)) == some
        np.testing.assert_allclose(scores, best, rtol=1e-7, atol=1e-10)
    assert found.score == pytest.approx(max(best.mean() for best, _ in expected), rel=1e-7)
    assert found.n_subsets == sum(comb(6, k) for k in range(1, most + 1))
    assert found.n_left_out == 0


def test_work_in_parts_is_work_at_once(rng, monkeypatch):
    X, y = rows(rng, 9)
    at_once = best_subset(X, y)
    monkeypatch.setattr("gpuml.feature_selection.subsets.NUMBERS_HERE", 500)
    in_parts = best_subset(X, y)
    np.testing.assert_array_equal(at_once.supports, in_parts.supports)
    np.testing.assert_array_equal(at_once.scores, in_parts.scores)


def test_subsets_with_dependent_features_are_counted_and_not_scored(rng):
    X, y = rows(rng)
    X = np.concatenate([X, X[:, :1], np.full((90, 1), 3.0)], axis=1)
    found = best_subset(X, y)
    # Of 8 features, 2 are the same; a constant one changes nothing.
    assert found.n_left_out == 2**6
    assert not (found.supports[:, 0] & found.supports[:, 6]).any()
    assert not found.supports[-1].any()
    assert np.isnan(found.scores[-1]).all()
    assert found.score == pytest.approx(best_subset(X[:, :6], y).score)
    assert not found.support[7]


def test_more_features_than_bits_of_a_number(rng):
    X = rng.normal(size=(200, 130))
    y = 3.0 * X[:, 5] - 2.0 * X[:, 70] + X[:, 129] + 0.1 * rng.normal(size=200)
    found = best_subset(X, y, max_features=2)
    assert list(np.flatnonzero(found.support)) == [5, 70]
    assert found.n_subsets == 130 + 130 * 129 // 2


def test_a_perfect_fit_is_found(rng):
    X, _ = rows(rng)
    found = best_subset(X, X[:, 1] - X[:, 4])
    assert list(np.flatnonzero(found.supports[1])) == [1, 4]
    assert found.score == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_features": 0}, "at least 1"),
        ({"max_features": 2.5}, "int"),
        ({"scoring": "neg_mean_absolute_error"}, "SequentialFeatureSelector"),
        ({"alpha": -1.0}, "alpha"),
        ({"cv": 1}, "k-fold"),
        ({"cv": []}, "gave no splits"),
        ({"cv": [([], [0, 1])]}, "0 sample.*training part of split 0"),
        ({"cv": [([0, 1], [2]), ([2, 3], [])]}, "0 sample.*held-out part of split 1"),
    ],
    ids=str,
)
def test_wrong_parameters_are_errors(options, words, rng):
    with pytest.raises(ValueError, match=words):
        best_subset(*rows(rng), **options)


def test_too_many_subsets_are_an_error_that_says_how_many_can_be_had(rng):
    X = rng.normal(size=(50, 40))
    with pytest.raises(ValueError, match="max_features=9"):
        best_subset(X, X[:, 0])


def test_dataframes_with_a_target_that_is_fitted_exactly():
    # Sums lose the digits of such scores: rows are read again.
    X = np.random.default_rng(0).normal(size=(40, 3))
    found = best_subset(pd.DataFrame(X, columns=["a", "b", "c"]), 2 * X[:, 0])
    assert found.support.tolist() == [True, False, False]
    np.testing.assert_array_equal(found.scores, best_subset(X, 2 * X[:, 0]).scores)
