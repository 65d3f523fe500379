"""What `return_predictions` keeps is what `cross_val_predict` says, candidate by candidate."""

import numpy as np
import pytest
import sklearn.linear_model as sk_linear
import sklearn.model_selection as sk
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import gpuml.model_selection as ours
from gpuml._arrays import device_of, is_foreign, to_host
from gpuml.compose import TransformedTargetRegressor
from gpuml.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from gpuml.gaussian_process import GaussianProcessRegressor
from gpuml.kernel_ridge import KernelRidge
from gpuml.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from gpuml.model_selection.kept import RESPONSES
from gpuml.naive_bayes import GaussianNB
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import array_libraries

NAMES = np.array(["a", "b", "c"])
REGRESSORS = [
    (Ridge(), {"alpha": [0.1, 10.0]}),
    (Lasso(tol=1e-8), {"alpha": [0.1, 1.0], "fit_intercept": [True, False]}),
    (make_pipeline(StandardScaler(), PoissonRegressor(tol=1e-9)), {"poissonregressor__alpha": [1]}),
    (TransformedTargetRegressor(Ridge()), {"regressor__alpha": [0.1, 10.0]}),
    (sk_linear.Ridge(), {"alpha": [0.1, 10.0]}),
]
CLASSIFIERS = [
    (LogisticRegression(tol=1e-9), {"C": [0.1, 1.0]}, RESPONSES),
    (make_pipeline(StandardScaler(), GaussianNB()), {"gaussiannb__var_smoothing": [1e-9, 0.1]}, [
        "predict", "predict_proba", "predict_log_proba",
    ]),
    (RidgeClassifier(), {"alpha": [0.1, 1.0]}, ["predict", "decision_function"]),
    (KNeighborsClassifier(), {"n_neighbors": [3, 7]}, ["predict", "predict_proba"]),
    (make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)),
     {"decisiontreeclassifier__max_depth": [2, 3]}, ["predict_proba"]),
]  # fmt: skip
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


def expected_of(search, X, y, method="predict", **options):
    """What `cross_val_predict` says of each candidate."""
    models = [clone(search.estimator).set_params(**each) for each in search.cv_results_["params"]]
    return [sk.cross_val_predict(each, X, y, method=method, **options) for each in models]


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
@pytest.mark.parametrize(("model", "grid"), REGRESSORS, ids=str)
def test_numbers(model, grid, scoring):
    X, y = load_diabetes(return_X_y=True)
    cv = sk.KFold(3, shuffle=True, random_state=0)
    search = ours.GridSearchCV(model, grid, cv=cv, scoring=scoring, return_predictions=True)
    search.fit(X, y)
    np.testing.assert_allclose(search.cv_predictions_, expected_of(search, X, y, cv=cv), **CLOSE)
    plain = ours.GridSearchCV(model, grid, cv=cv, scoring=scoring).fit(X, y)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )
    assert search.plan_ == plain.plan_
    assert not hasattr(plain, "cv_predictions_")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("model", "grid", "methods"), CLASSIFIERS, ids=str)
def test_classes(model, grid, methods, n_classes):
    X, y = load_iris(return_X_y=True)
    X, names = X[y < n_classes], NAMES[y[y < n_classes]]
    for method in methods:
        options = {"return_predictions": True if method == "predict" else method}
        search = ours.GridSearchCV(model, grid, **options).fit(X, names)
        expected = expected_of(search, X, names, method)
        if method == "predict":
            np.testing.assert_array_equal(search.cv_predictions_, expected)
        else:
            np.testing.assert_allclose(search.cv_predictions_, expected, **CLOSE)


@pytest.mark.parametrize("library", array_libraries())
def test_rows_of_any_library(library):
    X, y = load_iris(return_X_y=True)
    rows = library.asarray(X), library.asarray(y)
    grid = {"C": [0.1, 1.0]}
    for method in (True, "predict_proba"):
        search = ours.GridSearchCV(LogisticRegression(), grid, return_predictions=method, cv=3)
        own = search.fit(*rows).cv_predictions_
        assert is_foreign(own) == is_foreign(rows[0])
        assert not is_foreign(own) or device_of(own) == device_of(rows[0])
        again = clone(search).fit(X, y).cv_predictions_
        np.testing.assert_allclose(to_host(own) if is_foreign(own) else own, again, **CLOSE)


def test_several_outputs():
    X, y = load_iris(return_X_y=True)
    Y = np.stack([y, y > 1], axis=1)
    cv = sk.KFold(3, shuffle=True, random_state=0)
    search = ours.GridSearchCV(
        KNeighborsClassifier(), {"n_neighbors": [3, 7]}, cv=cv,
        scoring=lambda model, X, y: 0.0, return_predictions="predict_proba",
    ).fit(X, Y)  # fmt: skip
    expected = expected_of(search, X, Y, "predict_proba", cv=cv)
    for k in range(2):
        np.testing.assert_allclose(search.cv_predictions_[k], [each[k] for each in expected])
    Z = np.stack([X[:, 0], X[:, 1]], axis=1)
    ridge = ours.GridSearchCV(Ridge(), {"alpha": [0.1, 1]}, return_predictions=True).fit(X, Z)
    np.testing.assert_allclose(ridge.cv_predictions_, expected_of(ridge, X, Z))


def test_a_class_that_a_training_part_lacks():
    X, y = load_iris(return_X_y=True)
    cv = sk.KFold(3)
    search = ours.GridSearchCV(
        LogisticRegression(), {"C": [1.0]}, cv=cv, return_predictions="predict_proba"
    )
    with pytest.warns(RuntimeWarning, match="Number of classes in training fold|one by one"):
        search.fit(X, NAMES[y])
    with pytest.warns(RuntimeWarning, match="Number of classes in training fold"):
        expected = expected_of(search, X, NAMES[y], "predict_proba", cv=cv)
    np.testing.assert_allclose(search.cv_predictions_, expected, **CLOSE)


@pytest.mark.parametrize("y", [np.arange(12.0), NAMES[np.arange(12) % 3]], ids=["numbers", "names"])
def test_a_candidate_that_fails_has_nothing_to_say(y):
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = Ridge() if y.dtype == float else RidgeClassifier()
    search = ours.GridSearchCV(model, {"alpha": [-1.0, 1.0]}, cv=3, return_predictions=True)
    failed = pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite")
    with failed[0], failed[1]:
        search.fit(X, y)
    failed, well = search.cv_predictions_
    assert all(value != value for value in failed)
    expected = ours.cross_val_predict(model, X, y, cv=3)
    same = np.testing.assert_allclose if y.dtype == float else np.testing.assert_array_equal
    same(well, expected)  # of one model alone sums may be in another order


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(
    ("model", "method"),
    [
        (Ridge(), "predict"),
        (make_pipeline(StandardScaler(), Lasso()), "predict"),
        (KernelRidge(), "predict"),
        (GaussianProcessRegressor(), "predict"),
        (LogisticRegression(), "predict_proba"),
        (LogisticRegression(), "predict_log_proba"),
        (LinearDiscriminantAnalysis(), "decision_function"),
        (QuadraticDiscriminantAnalysis(), "decision_function"),
    ],
    ids=str,
)
def test_numbers_have_the_dtype_that_a_single_model_returns(model, method, dtype):
    """Scores of all models together may be of wider predictions."""
    X, y = load_iris(return_X_y=True)
    X, y = (10 * X).astype(dtype), y if method != "predict" else X[:, 0]
    expected = getattr(clone(model).fit(X, y), method)(X).dtype
    cv = sk.KFold(5, shuffle=True, random_state=0)
    assert ours.cross_val_predict(model, X, y, cv=cv, method=method).dtype == expected
    search = ours.GridSearchCV(model, {}, cv=cv, return_predictions=method).fit(X, y)
    assert search.cv_predictions_.dtype == expected


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # folds lack classes; nan is cast
def test_splits_are_of_the_labels_not_of_their_codes():
    X, y = load_iris(return_X_y=True)
    for labels in (y + 0.5, y, NAMES[y]):  # a number that is no integer is no label to `check_cv`
        found, expected = (
            each.cross_val_predict(GaussianNB(), X, labels, method="predict_proba")
            for each in (ours, sk)
        )
        np.testing.assert_allclose(found, expected, **CLOSE)
    for wrong, error in ((np.where(y == 1, np.nan, y), ValueError), (y.astype("S1"), TypeError)):
        for each in (ours, sk):
            with pytest.raises(error):
                each.cross_val_predict(GaussianNB(), X, wrong, method="predict_proba")


def test_rows_that_are_not_held_out_once():
    X, y = load_diabetes(return_X_y=True)
    cv = sk.ShuffleSplit(3, random_state=0)
    search = ours.RandomizedSearchCV(
        Ridge(), {"alpha": [0.1, 1.0]}, n_iter=2, cv=cv, return_predictions=True
    )
    with pytest.raises(ValueError, match="only works for partitions"):
        search.fit(X, y)
    with pytest.raises(ValueError, match="return_predictions"):
        search.set_params(return_predictions="prediction").fit(X, y)
    found = search.set_params(return_predictions=True, cv=3).fit(X, y)
    assert found.cv_predictions_.shape == (2, len(y))
