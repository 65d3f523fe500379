"""The ridge classifier that chooses its penalty: scikit-learn's, wherever the rows are."""

import numpy as np
import pytest
import sklearn.linear_model as sk
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold

from gpuml import as_sklearn
from gpuml._arrays import device_of
from gpuml.linear_model import RidgeClassifierCV
from gpuml.testing import array_libraries

CASES = [
    {},
    {"store_cv_results": True, "fit_intercept": False},
    {"class_weight": "balanced"},
    {"cv": 3},
    {"cv": 3, "scoring": "f1_macro", "class_weight": {1: 3.0}},
]


def classes(rng, n_classes):
    X = rng.normal(size=(90, 5))
    noisy = X[:, 0] + 0.5 * rng.normal(size=90)
    y = (noisy > 0).astype(int) + (X[:, 1] > 0.5) * (n_classes > 2)
    return X, y, rng.integers(1, 4, 90) * 1.0


@pytest.mark.pairwise
@pytest.mark.parametrize("params", CASES, ids=str)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_models_are_those_of_scikit_learn(params, library, n_classes, is_weighted, rng):
    X, y, weight = classes(rng, n_classes)
    alphas = [0.1, 3.0, 100.0]
    weight = weight if is_weighted else None
    expected = sk.RidgeClassifierCV(alphas, **params).fit(X, y, weight)
    rows = library.asarray(X)
    model = RidgeClassifierCV(alphas, **params)
    model.fit(rows, library.asarray(y), None if weight is None else library.asarray(weight))
    for name in ("alpha_", "best_score_", "coef_", "intercept_", "classes_", "cv_results_"):
        if hasattr(expected, name):
            found = library.to_numpy(getattr(model, name))
            np.testing.assert_allclose(found, getattr(expected, name), rtol=1e-8, atol=1e-12)
    found = model.predict(rows)
    assert device_of(found) == device_of(rows)
    np.testing.assert_array_equal(library.to_numpy(found), expected.predict(X))


def test_what_scikit_learn_does(rng):
    X, y, _ = classes(rng, 3)
    several = (X[:, :3] > 0).astype(int)
    expected = sk.RidgeClassifierCV().fit(X, several).predict(X)
    np.testing.assert_array_equal(RidgeClassifierCV().fit(X, several).predict(X), expected)
    model = RidgeClassifierCV(scoring="accuracy").fit(X, y)
    assert model.alpha_ == sk.RidgeClassifierCV(scoring="accuracy").fit(X, y).alpha_
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match="scoring and cv=None"):
        model.fit(strict.asarray(X), strict.asarray(y))


def test_models_become_scikit_learns(rng):
    X, y, _ = classes(rng, 3)
    model = RidgeClassifierCV().fit(X, y)
    twin = as_sklearn(model)
    assert type(twin) is sk.RidgeClassifierCV
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


@pytest.mark.pairwise
@pytest.mark.parametrize("names", [[0, 1, 2], ["a", "b", "c"]], ids=["numbers", "names"])
@pytest.mark.parametrize("params", [{}, {"class_weight": "balanced"}, {"scoring": "f1_macro"}])
@pytest.mark.parametrize("lacking", ["one", "all"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_splits_that_lack_a_class(lacking, params, names, rng):
    """Their models are of the classes that they have, as those of a search are."""
    X, _ = load_iris(return_X_y=True)
    y = np.array(names)[np.repeat([0, 1, 2], 50)]
    order = np.r_[rng.permutation(100), 100 + np.arange(50)] if lacking == "one" else np.arange(150)
    X, y, weight = X[order], y[order], rng.uniform(0.5, 2, 150)
    cv = KFold(3)
    for library in array_libraries()[: 1 if names[0] == "a" else 2]:
        library = library.values[0]
        model = RidgeClassifierCV([0.1, 1.0, 10.0], cv=cv, **params)
        model.fit(library.asarray(X), library.asarray(y) if names[0] == 0 else y, weight)
        expected = sk.RidgeClassifierCV([0.1, 1.0, 10.0], cv=cv, **params).fit(X, y, weight)
        assert model.alpha_ == expected.alpha_
        np.testing.assert_allclose(model.best_score_, expected.best_score_)
        np.testing.assert_allclose(library.to_numpy(model.coef_), expected.coef_, atol=1e-10)
