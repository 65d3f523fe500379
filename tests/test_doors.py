"""What scikit-learn's classes accept and refuse at their doors, gpuml's accept and refuse too."""

import inspect

import array_api_strict
import numpy as np
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from sklearn.base import is_classifier

import gpuml
from gpuml.calibration import CalibratedClassifierCV
from gpuml.ensemble import BaggingClassifier, BaggingRegressor, StackingRegressor
from gpuml.feature_selection import RFECV, SequentialFeatureSelector
from gpuml.linear_model import (
    BayesianRidge,
    GammaRegressor,
    Lasso,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    TweedieRegressor,
)
from gpuml.metrics import (
    explained_variance_score,
    max_error,
    mean_squared_error,
    median_absolute_error,
    r2_score,
)
from gpuml.model_selection import TunedThresholdClassifierCV
from gpuml.multiclass import OutputCodeClassifier
from gpuml.svm import LinearSVC
from tests.test_estimator_checks import CLASSIFIERS, FIRST, PIPELINES

# Searches fit and score whole candidates together: strings become numbers once, for all of them.
TWINNED = [
    each
    for each in FIRST
    if not any(each is one for one in PIPELINES)
    and not hasattr(each, "estimator")
    and any(
        c.__module__.startswith("sklearn.") and c.__name__ == type(each).__name__
        for c in type(each).__mro__
    )
]


def twin_of(estimator):
    kind = next(
        c
        for c in type(estimator).__mro__
        if c.__module__.startswith("sklearn.") and c.__name__ == type(estimator).__name__
    )
    known = inspect.signature(kind).parameters
    given = estimator.get_params(deep=False)
    return kind(**{name: value for name, value in given.items() if name in known})


def rows(estimator):
    rng = np.random.default_rng(0)
    X = np.round(rng.uniform(0.5, 4, size=(30, 3)), 1)
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=30) / 10
    if is_classifier(estimator) or hasattr(estimator, "score_func"):
        return X, (y > np.median(y)).astype(int)
    several = type(estimator).__name__.startswith("MultiTask")
    return X, np.c_[y, X[:, 0]] if several or type(estimator).__name__ == "PLSSVD" else y


def outcome(call, *args):
    try:
        call(*args)
    except Exception as error:
        return type(error)
    return "accepted"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", TWINNED, ids=lambda e: type(e).__name__)
def test_strings_of_numbers_are_accepted_where_sklearn_accepts_them(estimator):
    X, y = rows(estimator)
    twin = twin_of(estimator)
    text = X.astype(str)
    assert outcome(estimator.fit, text, y) == outcome(twin.fit, text, y)
    estimator.fit(X, y), twin.fit(X, y)
    for method in ("predict", "transform"):
        if hasattr(twin, method):
            ours, theirs = getattr(estimator, method), getattr(twin, method)
            assert outcome(ours, text) == outcome(theirs, text)


def test_strings_give_the_model_of_their_numbers():
    X, y = rows(Ridge())
    np.testing.assert_array_equal(Ridge().fit(X.astype(str), y).coef_, Ridge().fit(X, y).coef_)


WEIGHED = [Ridge(), Lasso(), QuantileRegressor(), LogisticRegression(), LinearSVC()]


@pytest.mark.parametrize("library", [np, array_api_strict], ids=["numpy", "strict"])
@pytest.mark.parametrize("estimator", WEIGHED, ids=str)
@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_one_weight_for_all_rows_is_checked_as_many_are(library, estimator, weight):
    X, y = map(library.asarray, rows(estimator))
    for each in (weight, library.asarray(np.full(30, weight))):
        with pytest.raises(ValueError, match="weight"):
            estimator.fit(X, y, sample_weight=each)


@pytest.mark.parametrize(
    "estimator",
    [
        BaggingRegressor(n_estimators=2, random_state=0),
        BaggingClassifier(n_estimators=2, random_state=0),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
    ],
    ids=lambda e: type(e).__name__,
)
def test_one_weight_for_all_rows_is_that_weight_for_each(estimator):
    X, y = rows(estimator)
    one = estimator.fit(X, y, sample_weight=2.0).predict(X)
    several = estimator.fit(X, y, sample_weight=np.full(30, 2.0)).predict(X)
    np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize(
    "estimator",
    [
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        OutputCodeClassifier(LogisticRegression()),
        StackingRegressor([("ridge", Ridge())], cv=2),
        TunedThresholdClassifierCV(LogisticRegression()),
    ],
    ids=lambda e: type(e).__name__,
)
def test_estimators_of_estimators_say_that_rows_are_missing(estimator):
    _, y = rows(LogisticRegression())
    with pytest.raises(ValueError, match=r"Expected (rows|2D array)"):
        estimator.fit(None, y)


def test_a_data_frame_is_no_open_array():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="Pass a DataFrame to fit as it is"):
        gpuml.read_array(pandas.DataFrame({"a": [1.0, 2.0]}))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
def test_sparse_labels_raise_a_type_error(estimator):
    X, y = rows(estimator)
    with pytest.raises(TypeError, match="Sparse data was passed for y|csr_matrix"):
        estimator.fit(X, sparse.csr_matrix(y[:, None]))


@pytest.mark.parametrize("metric", [max_error, median_absolute_error, mean_squared_error])
def test_dates_are_no_targets_of_metrics(metric):
    dates = np.full(3, np.datetime64("2020-01-01"))
    for y_true, y_pred in ((dates, np.ones(3)), (np.ones(3), dates)):
        with pytest.raises(TypeError, match="holds dates or times"):
            metric(y_true, y_pred)


def test_all_weights_negative_score_as_all_positive():
    y, predicted = np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.0, 3.0, 3.0, 2.0])
    for metric in (explained_variance_score, r2_score):
        negative = metric(y, predicted, sample_weight=-np.ones(4))
        assert negative == pytest.approx(metric(y, predicted), rel=1e-12)


@pytest.mark.parametrize("kind", [RFECV, SequentialFeatureSelector])
def test_selectors_refuse_a_cv_without_splits(kind):
    X, y = rows(Ridge())
    with pytest.raises(ValueError, match="gave no splits"):
        kind(Ridge(), cv=[]).fit(X, y)


def test_precision_may_begin_at_zero():
    X, y = rows(Ridge())
    ours = BayesianRidge(alpha_init=0).fit(X, y)
    with np.errstate(divide="ignore"):
        theirs = sk.BayesianRidge(alpha_init=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6)


@pytest.mark.parametrize("kind", [PoissonRegressor, GammaRegressor, TweedieRegressor])
def test_no_class_is_taken_for_a_solver(kind):
    X, y = rows(Ridge())
    with pytest.raises(ValueError, match="solver"):
        kind(solver=dict).fit(X, y)
