"""Estimators around estimators: those of scikit-learn around scikit-learn's, wherever the rows are."""

import importlib
import pickle
import threading

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn import calibration, ensemble, multiclass, multioutput, naive_bayes, neighbors
from sklearn import linear_model as sk
from sklearn import model_selection as selection
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline as their_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpuml
from gpuml._sklearn import InvalidParameterError
from gpuml.calibration import CalibratedClassifierCV
from gpuml.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from gpuml.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
)
from gpuml.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from gpuml.model_selection.candidates import TOGETHER
from gpuml.model_selection.parts import StandIn
from gpuml.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from gpuml.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from gpuml.naive_bayes import GaussianNB
from gpuml.neighbors import KNeighborsClassifier
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.svm import LinearSVC
from gpuml.testing import array_libraries

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(240, 5))
Y = X @ RANDOM.normal(size=(5, 4)) + RANDOM.normal(size=(240, 4))
NUMBERS, CLASSES, LABELS, TWO = Y[:, 0], Y.argmax(axis=1), (Y > 0).astype(int), (Y[:, 1] > 0) * 1
WEIGHT = RANDOM.uniform(0.5, 2.0, size=240)
RESPONSES = ("predict", "predict_proba", "decision_function")
# Models at their optimum, so that rounding is all they differ by.
LOGISTIC, THEIRS = LogisticRegression(tol=1e-10), sk.LogisticRegression(tol=1e-10, max_iter=1000)
RIDGE = [("one", Ridge(1.0)), ("many", Ridge(100.0)), ("none", "drop")]
THEIR_RIDGE = [("one", sk.Ridge(1.0)), ("many", sk.Ridge(100.0)), ("none", "drop")]
TWO_MODELS = [("logistic", LOGISTIC), ("ridge", RidgeClassifier())]
THEIR_TWO = [("logistic", THEIRS), ("ridge", sk.RidgeClassifier())]

# Classes that take a number of workers, and a target.
AROUND = {
    **{kind.__name__: (kind, CLASSES) for kind in (OneVsRestClassifier, OutputCodeClassifier)},
    **{kind.__name__: (kind, TWO) for kind in (CalibratedClassifierCV, TunedThresholdClassifierCV)},
    **{kind.__name__: (kind, LABELS) for kind in (MultiOutputClassifier, MultiOutputRegressor)},
    "StackingClassifier": (StackingClassifier, CLASSES),
    "OneVsOneClassifier": (OneVsOneClassifier, CLASSES),
}

# Torch's own arrays take as long as all others together.
LIBRARIES = [
    pytest.param(*each.values, id=each.id, marks=[*each.marks, pytest.mark.exhaustive])
    if each.id == "torch"
    else each
    for each in array_libraries()[2:]
]

# Ours, scikit-learn's around its own, and the target.
CASES = {
    "sigmoid": (CalibratedClassifierCV(LOGISTIC), calibration.CalibratedClassifierCV(THEIRS), TWO),
    "temperature": (
        CalibratedClassifierCV(LOGISTIC, method="temperature", ensemble=False),
        calibration.CalibratedClassifierCV(THEIRS, method="temperature", ensemble=False),
        CLASSES,
    ),
    "stacked numbers": (
        StackingRegressor(RIDGE, sk.Ridge()),
        ensemble.StackingRegressor(THEIR_RIDGE, sk.Ridge()),
        NUMBERS,
    ),
    "stacked with rows": (
        StackingRegressor(RIDGE, Ridge(), passthrough=True, cv=KFold(3)),
        ensemble.StackingRegressor(THEIR_RIDGE, sk.Ridge(), passthrough=True, cv=KFold(3)),
        NUMBERS,
    ),
    "stacked classes": (
        StackingClassifier(TWO_MODELS, LOGISTIC),
        ensemble.StackingClassifier(THEIR_TWO, THEIRS),
        CLASSES,
    ),
    "voting numbers": (
        VotingRegressor(RIDGE, weights=[1, 2, 1]),
        ensemble.VotingRegressor(THEIR_RIDGE, weights=[1, 2, 1]),
        NUMBERS,
    ),
    "voting classes": (VotingClassifier(TWO_MODELS), ensemble.VotingClassifier(THEIR_TWO), CLASSES),
    "bagged numbers": (
        BaggingRegressor(Ridge(), 40, oob_score=True, random_state=0),
        ensemble.BaggingRegressor(sk.Ridge(), 40, oob_score=True, random_state=0),
        NUMBERS,
    ),
    "bagged classes": (
        BaggingClassifier(LOGISTIC, 40, oob_score=True, random_state=0),
        ensemble.BaggingClassifier(THEIRS, 40, oob_score=True, random_state=0),
        CLASSES,
    ),
    "bagged features": (
        BaggingClassifier(RidgeClassifier(), max_features=0.6, random_state=0),
        ensemble.BaggingClassifier(sk.RidgeClassifier(), max_features=0.6, random_state=0),
        TWO,
    ),
    "one against rest": (
        OneVsRestClassifier(LOGISTIC),
        multiclass.OneVsRestClassifier(THEIRS),
        CLASSES,
    ),
    "several labels": (
        OneVsRestClassifier(RidgeClassifier()),
        multiclass.OneVsRestClassifier(sk.RidgeClassifier()),
        LABELS,
    ),
    "pairs": (
        OneVsOneClassifier(RidgeClassifier()),
        multiclass.OneVsOneClassifier(sk.RidgeClassifier()),
        CLASSES,
    ),
    "pairs by themselves": (
        OneVsOneClassifier(LOGISTIC),
        multiclass.OneVsOneClassifier(THEIRS),
        CLASSES,
    ),
    "two classes": (
        OneVsOneClassifier(RidgeClassifier()),
        multiclass.OneVsOneClassifier(sk.RidgeClassifier()),
        TWO,
    ),
    "codes": (
        OutputCodeClassifier(LOGISTIC, random_state=2),
        multiclass.OutputCodeClassifier(THEIRS, random_state=2),
        CLASSES,
    ),
    "several numbers": (
        MultiOutputRegressor(Ridge()),
        multioutput.MultiOutputRegressor(sk.Ridge()),
        Y,
    ),
    "several classes": (
        MultiOutputClassifier(LOGISTIC),
        multioutput.MultiOutputClassifier(THEIRS),
        LABELS,
    ),
    "chain of numbers": (
        RegressorChain(Ridge(), order=[2, 0, 3, 1]),
        multioutput.RegressorChain(sk.Ridge(), order=[2, 0, 3, 1]),
        Y,
    ),
    "chain of folds": (
        RegressorChain(Ridge(), cv=3),
        multioutput.RegressorChain(sk.Ridge(), cv=3),
        Y,
    ),
    "chain of labels": (
        ClassifierChain(LOGISTIC, order="random", random_state=0),
        multioutput.ClassifierChain(THEIRS, order="random", random_state=0),
        LABELS,
    ),
    "chain of probabilities": (
        ClassifierChain(LOGISTIC, cv=3, chain_method="predict_proba"),
        multioutput.ClassifierChain(THEIRS, cv=3, chain_method="predict_proba"),
        LABELS,
    ),
    "tuned": (
        TunedThresholdClassifierCV(LOGISTIC, scoring="f1", thresholds=20),
        selection.TunedThresholdClassifierCV(THEIRS, scoring="f1", thresholds=20),
        TWO,
    ),
    "fixed": (
        FixedThresholdClassifier(LOGISTIC, threshold=0.3),
        selection.FixedThresholdClassifier(THEIRS, threshold=0.3),
        TWO,
    ),
}
AT_ONCE = {
    *(name for name in CASES if name not in ("bagged features", "fixed", "pairs by themselves"))
}
AT_ONCE -= {name for name in CASES if name.startswith("chain")}
AT_ONCE -= {"voting numbers", "voting classes"}


def host(said):
    return np.asarray([host(each) for each in said]) if isinstance(said, list) else _numpy(said)


def _numpy(said):
    return next(iter(array_libraries())).values[0].to_numpy(said)


def assert_same(ours, theirs, rows, their_rows=X):
    for method in RESPONSES:
        assert hasattr(ours, method) == hasattr(theirs, method), method
        if hasattr(theirs, method):
            said, expected = (
                host(getattr(model, method)(some))
                for model, some in ((ours, rows), (theirs, their_rows))
            )
            np.testing.assert_allclose(said, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_of_scikit_learn(name):
    ours, theirs, y = CASES[name]
    ours, theirs = clone(ours).fit(X, y), clone(theirs).fit(X, y)
    assert_same(ours, theirs, X)
    assert_same(pickle.loads(pickle.dumps(ours)), theirs, X)
    assert ours.n_features_in_ == theirs.n_features_in_
    their_names = {n for n in vars(theirs) if not n.startswith("_")}
    assert their_names <= set(vars(ours))
    assert set(vars(ours)) - set(vars(theirs)) <= {"plan_"}
    if name in AT_ONCE:
        assert "together" in str(ours.plan_)
        assert not ours.plan_.reasons


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", CASES)
def test_rows_stay_where_they_are(name, library):
    ours, _, y = CASES[name]
    there, labels = library.asarray(X), library.asarray(y)
    fitted, by_numpy = clone(ours).fit(there, labels), clone(ours).fit(X, y)
    assert_same(fitted, by_numpy, there)
    assert fitted.score(there, labels) == pytest.approx(by_numpy.score(X, y), abs=1e-6)
    said = fitted.predict(there)
    assert type(said) is type(there)


@pytest.mark.filterwarnings("ignore:Label .* is present in all training examples")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["several labels", "one against rest", "codes"])
def test_columns_of_one_label_have_constants_wherever_the_rows_are(name, library):
    ours, theirs, y = CASES[name]
    y = np.where([False, True, True, False], [[0, 0, 1, 1]], y) if name == "several labels" else y
    y = y * 0 if name == "one against rest" else y
    codes = {"code_size": 0.5, "random_state": 0} if name == "codes" else {}
    theirs = clone(theirs).set_params(**codes).fit(X, y)
    fitted = clone(ours).set_params(**codes).fit(library.asarray(X), library.asarray(y))
    assert "_ConstantPredictor()" in map(str, fitted.estimators_)
    assert_same(fitted, theirs, library.asarray(X))
    assert_same(fitted, theirs, X)


@pytest.mark.filterwarnings("ignore:X has feature names")  # as scikit-learn's class warns
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["stacked with rows", "stacked numbers", "voting numbers"])
def test_data_frames_come_where_they_are_asked_for(name, library):
    ours, theirs, y = CASES[name]
    fitted = clone(ours).set_output(transform="pandas").fit(library.asarray(X), library.asarray(y))
    theirs = clone(theirs).set_output(transform="pandas").fit(X, y)
    found = fitted.transform(library.asarray(X))
    pd.testing.assert_frame_equal(found, theirs.transform(X), rtol=1e-5)
    np.testing.assert_allclose(host(fitted.predict(library.asarray(X))), theirs.predict(X))


LEARNING = {
    "one against rest": (OneVsRestClassifier(GaussianNB()), CLASSES, np.arange(4)),
    "several classes": (MultiOutputClassifier(GaussianNB()), LABELS, [np.arange(2)] * 4),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", LEARNING)
def test_parts_in_turn_may_be_anywhere(name, library):
    model, y, classes = LEARNING[name]
    several = isinstance(classes, list)
    there = list(map(library.asarray, classes)) if several else library.asarray(classes)

    def learned(asarray, classes):
        found = clone(model)
        for some in (slice(0, 100), slice(100, None)):
            assert found.partial_fit(asarray(X[some]), asarray(y[some]), classes) is found
        return found

    here = learned(np.asarray, classes)
    for rows in (X, library.asarray(X)):
        said = host(learned(library.asarray, there).predict(rows))
        np.testing.assert_array_equal(said, here.predict(X))


def test_numbers_in_turn_are_those_of_scikit_learn():
    each = sk.SGDRegressor(random_state=0)
    ours, theirs = MultiOutputRegressor(each), multioutput.MultiOutputRegressor(each)
    for some in (slice(0, 100), slice(100, None)):
        assert ours.partial_fit(X[some], Y[some], WEIGHT[some]) is ours
        theirs.partial_fit(X[some], Y[some], WEIGHT[some])
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", CASES)
def test_a_target_that_is_missing_is_the_error_of_scikit_learn(name, library):
    kinds = []
    for rows in (X, library.asarray(X)):
        with pytest.raises((TypeError, ValueError), match="None|y should be") as found:
            clone(CASES[name][0]).fit(rows, None)
        kinds.append(found.type)
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize("name", CASES)
def test_a_fit_that_fails_changes_nothing(name):
    model, _, target = CASES[name]
    model = clone(model).fit(X, target)
    before, attributes = model.predict(X), dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((240, 3), np.nan), target)
    assert vars(model) == attributes
    np.testing.assert_array_equal(model.predict(X), before)


def test_bags_of_a_warm_start_that_fails_stay_as_they_are():
    model = BaggingRegressor(Ridge(), 3, warm_start=True, random_state=0).fit(X, NUMBERS)
    before = model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.set_params(n_estimators=5).fit(np.full_like(X, np.nan), NUMBERS)
    assert len(model.estimators_) == len(model.estimators_features_) == 3
    np.testing.assert_array_equal(model.set_params(n_estimators=3).predict(X), before)


@pytest.mark.parametrize(
    "name", ["sigmoid", "stacked numbers", "several numbers", "voting numbers"]
)
def test_weights_go_to_all_fits(name):
    ours, theirs, y = CASES[name]
    assert_same(
        clone(ours).fit(X, y, sample_weight=WEIGHT),
        clone(theirs).fit(X, y, sample_weight=WEIGHT),
        X,
    )


def test_weights_of_bags_are_what_rows_are_drawn_by():
    ours, theirs, y = CASES["bagged numbers"]
    ours, theirs = clone(ours).fit(X, y, WEIGHT), clone(theirs).fit(X, y, WEIGHT)
    assert_same(ours, theirs, X)
    np.testing.assert_allclose(ours.oob_prediction_, theirs.oob_prediction_)
    for mine, their in zip(ours.estimators_samples_, theirs.estimators_samples_, strict=True):
        np.testing.assert_array_equal(mine, their)


@pytest.mark.parametrize("cv", [ShuffleSplit(3, random_state=0), KFold(4, shuffle=True)])
def test_splits_are_made_once(cv):
    model = StackingRegressor(RIDGE, Ridge(), cv=cv)
    if isinstance(cv, ShuffleSplit):
        with pytest.raises(ValueError, match="only works for partitions"):
            model.fit(X, NUMBERS)
    else:
        assert model.fit(X, NUMBERS).plan_.n_fits == 8


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(
    ("model", "theirs"),
    [
        (GaussianNB(var_smoothing=0.5), naive_bayes.GaussianNB(var_smoothing=0.5)),
        (RidgeClassifier(class_weight="balanced"), sk.RidgeClassifier(class_weight="balanced")),
    ],
    ids=str,
)
def test_rows_that_a_bag_leaves_out_have_a_part_in_some_models(model, theirs, weight):
    y = np.minimum(CLASSES, 2)
    ours = BaggingClassifier(model, 6, max_samples=0.3, random_state=0)
    theirs = ensemble.BaggingClassifier(theirs, 6, max_samples=0.3, random_state=0)
    assert_same(ours.fit(X, y, sample_weight=weight), theirs.fit(X, y, sample_weight=weight), X)
    assert "also reads rows of weight 0" in str(ours.plan_)


def _bounded(kind):
    """A subclass that puts a step before each model, as imbalanced-learn puts a sampler."""

    class Bounded(kind):
        def _validate_estimator(self, default=None):
            super()._validate_estimator(default)
            step = FunctionTransformer(np.tanh)
            self.estimator_ = their_pipeline(step, clone(self.estimator_))

    return Bounded


def test_a_subclass_of_bags_may_put_steps_before_each_model():
    options = {"n_estimators": 40, "oob_score": True, "random_state": 0}
    ours = _bounded(BaggingClassifier)(RidgeClassifier(), **options).fit(X, CLASSES)
    theirs = _bounded(ensemble.BaggingClassifier)(sk.RidgeClassifier(), **options).fit(X, CLASSES)
    assert_same(ours, theirs, X)
    assert ours.oob_score_ == theirs.oob_score_
    assert {type(model).__name__ for model in ours.estimators_} == {"Pipeline"}


def test_a_bag_that_lacks_a_class_has_a_model_of_its_own():
    y = np.where(np.arange(240) < 2, 1, 0)
    bagged, theirs = (
        kind(model, 8, random_state=1).fit(X, y)
        for kind, model in (
            (BaggingClassifier, RidgeClassifier()),
            (ensemble.BaggingClassifier, sk.RidgeClassifier()),
        )
    )
    assert_same(bagged, theirs, X)


COLUMNS = [
    *(Ridge(), LinearRegression(), Lasso(0.01), ElasticNet(0.01), RidgeClassifier()),
    *(RidgeClassifier(fit_intercept=False), LogisticRegression(tol=1e-9)),
    LogisticRegression(tol=1e-9, C=0.1, l1_ratio=0.5, solver="saga"),
    *(LogisticRegression(solver="newton-cholesky", tol=1e-9), LinearSVC(tol=1e-9)),
]


@pytest.mark.parametrize("name", CASES)
def test_a_backend_of_joblib_does_not_take_fits_apart(name, monkeypatch):
    """What looks up models that were fitted together runs in the caller's thread.

    Those of a chain, which has no number of jobs, wait for each other.
    """
    model, _, y = CASES[name]
    threads, own = set(), StandIn.fit.fget

    def fit(self):
        threads.add(threading.current_thread())
        return own(self)

    monkeypatch.setattr(StandIn, "fit", property(fit))
    with joblib.parallel_config("threading", n_jobs=2):
        found = clone(model).fit(X, y)
    assert threads <= {threading.current_thread()} or not hasattr(model, "n_jobs")
    np.testing.assert_allclose(found.predict(X), clone(model).fit(X, y).predict(X))


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("model", COLUMNS, ids=str)
def test_columns_together_are_columns_by_themselves(model, weight):
    targets = LABELS if hasattr(model, "decision_function") else Y
    for column, found in enumerate(model.multifit_columns(X, targets, weight)):
        alone = clone(model).fit(X, targets[:, column], weight)
        for name, value in found.items():
            own = getattr(alone, name)
            assert np.shape(value) == np.shape(own), name
            if name in ("coef_", "intercept_"):
                np.testing.assert_allclose(value, own, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "names",
    [np.array(["no", "yes"], object), np.array(["a", "b", "unseen"]), np.array([2, 5], np.int8)],
)
def test_labels_of_columns_are_those_of_the_models(names):
    ours = MultiOutputClassifier(RidgeClassifier()).fit(X, names[LABELS])
    theirs = multioutput.MultiOutputClassifier(sk.RidgeClassifier()).fit(X, names[LABELS])
    assert [each.dtype for each in ours.classes_] == [each.dtype for each in theirs.classes_]
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)


def test_targets_of_their_own_are_targets_of_more_rows_than_a_sample(rng):
    rows = np.tile(X, (60, 1)) + rng.normal(size=(14400, 5))
    labels = (rows @ rng.normal(size=(5, 3)) + rng.normal(size=(14400, 3)) > 0).astype(int)
    for model in (LogisticRegression(tol=1e-9), LinearSVC(tol=1e-9)):
        for column, found in enumerate(model.multifit_columns(rows, labels)):
            alone = clone(model).fit(rows, labels[:, column])
            np.testing.assert_allclose(found["coef_"], alone.coef_, rtol=1e-5)


@pytest.mark.parametrize("model", [LOGISTIC, LinearSVC(tol=1e-10)], ids=["logistic", "machine"])
def test_pairs_of_few_rows_share_their_steps(model):
    ours = OneVsOneClassifier(model).fit(X, CLASSES)
    assert {step.why for step in ours.plan_.steps} == {TOGETHER}
    alone = multiclass.OneVsOneClassifier(model).fit(X, CLASSES)
    for own, other in zip(ours.estimators_, alone.estimators_, strict=True):
        np.testing.assert_allclose(own.coef_, other.coef_, atol=1e-7)
        np.testing.assert_allclose(own.intercept_, other.intercept_, atol=1e-7)


@pytest.mark.parametrize("names", [list("zyxwvut"), list(range(7))], ids=["names", "numbers"])
def test_pairs_of_many_classes(names):
    """Each pair is the one that scikit-learn fits, in its order."""
    y = np.array(names)[np.arange(240) % 7]
    ours, theirs = (
        kind(model).fit(X, y)
        for kind, model in (
            (OneVsOneClassifier, RidgeClassifier()),
            (multiclass.OneVsOneClassifier, sk.RidgeClassifier()),
        )
    )
    assert ours.plan_.n_fits == 21
    for own, their in zip(ours.estimators_, theirs.estimators_, strict=True):
        np.testing.assert_allclose(own.coef_, their.coef_, atol=1e-10)
        np.testing.assert_array_equal(own.classes_, their.classes_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_links_of_a_chain_are_fitted_with_their_folds():
    plan = RegressorChain(Ridge(), cv=3).fit(X, Y).plan_
    assert [step.n_fits for step in plan.steps] == [3, 3, 3, 1]
    assert "sees other features" in plan.reasons[0]
    weighted = RegressorChain(Ridge(), cv=KFold(3, shuffle=True)).fit(X, Y, sample_weight=WEIGHT)
    last = Ridge().fit(np.hstack([X, np.zeros((240, 3))]), Y[:, 3], sample_weight=WEIGHT)
    assert weighted.estimators_[3].coef_.shape == last.coef_.shape


def test_chains_of_sparse_rows_are_those_of_dense_ones():
    for form in (sparse.csr_array, sparse.coo_matrix):
        for cv in (None, 3):
            found = RegressorChain(Ridge(), cv=cv).fit(form(X), Y).predict(form(X))
            dense = RegressorChain(Ridge(), cv=cv).fit(X, Y).predict(X)
            np.testing.assert_allclose(found, dense, rtol=1e-6)


def test_what_is_in_the_way_is_said():
    weighed = OneVsRestClassifier(LogisticRegression(class_weight="balanced")).fit(X, CLASSES)
    assert "fits one target at a time" in str(weighed.plan_)
    several = MultiOutputClassifier(LOGISTIC).fit(X, np.stack([CLASSES, TWO], axis=1))
    assert "more than two classes" in str(several.plan_)
    pairs = OneVsOneClassifier(LOGISTIC).fit(np.tile(X, (100, 1)), np.tile(CLASSES, 100))
    assert "each step would read all rows" in str(pairs.plan_)
    features = BaggingRegressor(Ridge(), max_features=2).fit(X, NUMBERS)
    assert "has its own features" in str(features.plan_)
    assert "takes no sample weights" in str(
        BaggingRegressor(make_pipeline(StandardScaler(), Ridge())).fit(X, NUMBERS).plan_
    )


@pytest.mark.parametrize("pipeline", [make_pipeline, their_pipeline])
def test_features_of_pipelines_inside_are_those_of_the_whole(pipeline):
    frame, inside = pd.DataFrame(X).add_prefix("x"), pipeline(StandardScaler(), LOGISTIC)
    for kind, y in (
        *((kind, CLASSES) for kind in (OneVsRestClassifier, OutputCodeClassifier)),
        (MultiOutputClassifier, LABELS),
    ):
        model = kind(inside).fit(frame, y)
        assert model.n_features_in_ == 5
        assert list(model.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("joined", [True, False])
def test_a_warning_names_the_class_that_takes_no_weights(joined):
    model = CalibratedClassifierCV(make_pipeline(StandardScaler(), LOGISTIC), ensemble=joined)
    with pytest.warns(UserWarning, match="Since Pipeline does not appear to accept sample_weight"):
        model.fit(X, TWO, sample_weight=WEIGHT)


def test_an_error_names_the_class_in_a_stack_that_takes_no_weights():
    stack = StackingClassifier([("near", KNeighborsClassifier())], cv=3)
    with pytest.raises(TypeError, match="estimator KNeighborsClassifier does not support sample"):
        stack.fit(X, CLASSES, sample_weight=WEIGHT)


@pytest.mark.parametrize(
    ("ours", "theirs", "y"),
    [
        (
            TunedThresholdClassifierCV(GaussianNB(), response_method="decision_function"),
            selection.TunedThresholdClassifierCV(
                naive_bayes.GaussianNB(), response_method="decision_function"
            ),
            TWO,
        ),
        (
            ClassifierChain(GaussianNB(), chain_method="decision_function"),
            multioutput.ClassifierChain(naive_bayes.GaussianNB(), chain_method="decision_function"),
            LABELS,
        ),
    ],
    ids=["tuned", "chain"],
)
def test_errors_about_methods_name_the_class_that_lacks_them(ours, theirs, y):
    with pytest.raises(AttributeError) as expected:
        theirs.fit(X, y)
    with pytest.raises(AttributeError, match=f"^{expected.value}$"):
        ours.fit(X, y)


@pytest.mark.parametrize("name", AROUND)
def test_wrong_parameters_are_errors_of_their_own(name):
    # All fits are made without workers of scikit-learn's, whose number is checked as well.
    kind, y = AROUND[name]
    model = kind(TWO_MODELS if name.startswith("Stacking") else LOGISTIC, n_jobs="two")
    with pytest.raises(InvalidParameterError, match=f"'n_jobs' parameter of {kind.__name__}"):
        model.fit(X, y)
    with pytest.raises(ValueError, match=r"inconsistent|\[240, 2\d\d\]"):
        model.set_params(n_jobs=None).fit(X, np.concatenate([y, y[:20]]))


@pytest.mark.parametrize("name", AROUND)
def test_values_that_nothing_can_be_fitted_with_are_errors(name):
    kind, y = AROUND[name]
    inside = TWO_MODELS if name.startswith("Stacking") else LOGISTIC
    with pytest.raises(ValueError, match="n_jobs == 0"):
        kind(inside, n_jobs=0).fit(X, y)
    with pytest.raises(ValueError, match="array"):
        kind(inside).fit(5, y)
    with pytest.raises(ValueError, match="array"):
        kind(inside).fit(None, y)
    with pytest.raises(ValueError, match="array"):
        kind(inside).fit(X, 5)


@pytest.mark.parametrize(
    "model",
    [
        StackingClassifier(TWO_MODELS, cv=[]),
        CalibratedClassifierCV(LOGISTIC, cv=[]),
        ClassifierChain(LOGISTIC, cv=[]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_no_splits_are_an_error_that_says_so(model):
    with pytest.raises(ValueError, match=r"cv=\[\] makes no splits"):
        model.fit(X, LABELS if isinstance(model, ClassifierChain) else TWO)


def test_stacks_and_what_they_cannot_stack():
    with pytest.raises(InvalidParameterError, match="'estimators' parameter of StackingClassifier"):
        StackingClassifier(7).fit(X, CLASSES)
    with pytest.raises(ValueError, match="Unknown label type"):
        StackingClassifier(TWO_MODELS).fit(X, np.array([1, "a"] * 120, dtype=object))


@pytest.mark.parametrize("passthrough", [True, False])
def test_models_of_a_stack_are_fitted_to_a_row_of_targets(passthrough):
    ours, theirs = (
        make([("one", model)], passthrough=passthrough)
        for make, model in (
            (StackingRegressor, LinearRegression()),
            (ensemble.StackingRegressor, sk.LinearRegression()),
        )
    )
    for model in (ours, theirs):
        with pytest.warns(DataConversionWarning, match="column-vector"):
            model.fit(X, NUMBERS[:, None])
    assert_same(ours, theirs, X)
    assert ours.estimators_[0].coef_.shape == theirs.estimators_[0].coef_.shape


def test_what_is_fitted_is_not_fitted_again():
    frozen = FrozenEstimator(clone(LOGISTIC).fit(X, TWO))
    ours, theirs = (
        module.CalibratedClassifierCV(frozen).fit(X, TWO)
        for module in (__import__("gpuml.calibration", fromlist=["x"]), calibration)
    )
    assert_same(ours, theirs, X)
    models = [(name, clone(model).fit(X, CLASSES)) for name, model in TWO_MODELS]
    stacked = StackingClassifier(models, LOGISTIC, cv="prefit").fit(X, CLASSES)
    assert stacked.estimators_ == [model for _, model in models]
    tuned = TunedThresholdClassifierCV(clone(LOGISTIC).fit(X, TWO), cv="prefit", refit=False)
    assert tuned.fit(X, TWO).estimator_ is tuned.estimator


@pytest.mark.parametrize("library", LIBRARIES)
def test_models_that_were_fitted_on_a_device_stay_there(library):
    """Their classes are there as well."""
    there = library.asarray(X), library.asarray(TWO)
    here = clone(LOGISTIC).fit(X, TWO), X, TWO
    frozen = FrozenEstimator(here[0]), FrozenEstimator(clone(LOGISTIC).fit(*there))
    for make in (
        CalibratedClassifierCV,
        lambda model: CalibratedClassifierCV(model, ensemble=False, method="isotonic"),
        lambda model: FixedThresholdClassifier(model, threshold=0.3),
        lambda model: TunedThresholdClassifierCV(model, cv="prefit", refit=False),
        lambda model: VotingClassifier([("one", model)], voting="soft"),
        lambda model: StackingClassifier([("one", model)], LOGISTIC, cv="prefit"),
    ):
        in_cpu_memory, fitted = make(frozen[0]).fit(X, TWO), make(frozen[1]).fit(*there)
        assert_same(fitted, in_cpu_memory, there[0])


@pytest.mark.parametrize("library", array_libraries())
def test_frozen_models_are_scored_on_all_folds(library):
    model = FrozenEstimator(clone(THEIRS).fit(X, TWO))
    frozen = FrozenEstimator(clone(LOGISTIC).fit(library.asarray(X), library.asarray(TWO)))
    found = gpuml.model_selection.cross_val_score(frozen, library.asarray(X), library.asarray(TWO))
    np.testing.assert_array_equal(found, selection.cross_val_score(model, X, TWO))


@pytest.mark.parametrize(
    "names", [np.array([5, 6, 8]), np.array([-1.0, 0.0, 3.0]), np.array(["b", "c", "d"])]
)
@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("method", ["sigmoid", "temperature"])
def test_names_of_classes_change_no_calibrated_probability(method, joined, names):
    y = np.minimum(CLASSES, 2)
    model = CalibratedClassifierCV(LOGISTIC, method=method, ensemble=joined, cv=3)
    expected = model.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.fit(X, names[y]).predict_proba(X), expected)
    np.testing.assert_array_equal(model.classes_, names)
    np.testing.assert_array_equal(model.predict(X), names[expected.argmax(axis=1)])


@pytest.mark.filterwarnings("ignore:Number of classes in training fold")
@pytest.mark.parametrize("names", [np.array([5, 6, 8]), np.array(["b", "c", "d"])])
def test_predictions_of_models_that_lack_a_class_are_calibrated(names):
    y = names[np.sort(np.minimum(CLASSES, 2))]
    ours, theirs = (
        kind(model, ensemble=False, cv=KFold(3)).fit(X, y)
        for kind, model in (
            (CalibratedClassifierCV, GaussianNB()),
            (calibration.CalibratedClassifierCV, naive_bayes.GaussianNB()),
        )
    )
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)


AROUND_SEARCHES = {
    "stacked": (
        lambda m, search: m.StackingRegressor([("one", search), ("two", sk.Ridge(9.0))], cv=3),
        lambda m, ridge, _: m.GridSearchCV(ridge, {"alpha": [0.1, 100.0]}, cv=3),
        (ensemble, "gpuml.ensemble"),
        NUMBERS,
    ),
    "calibrated": (
        lambda m, search: m.CalibratedClassifierCV(search, cv=3),
        lambda m, _, logistic: m.GridSearchCV(logistic, {"C": [0.01, 1.0]}, cv=3),
        (calibration, "gpuml.calibration"),
        TWO,
    ),
    "tuned": (
        lambda m, search: m.TunedThresholdClassifierCV(search, cv=3),
        lambda m, _, logistic: m.GridSearchCV(logistic, {"C": [0.01, 1.0]}, cv=3),
        (selection, "gpuml.model_selection"),
        TWO,
    ),
}


@pytest.mark.parametrize("name", AROUND_SEARCHES)
def test_searches_inside_are_fitted_together(name):
    around, search, (theirs, ours), y = AROUND_SEARCHES[name]
    ours = importlib.import_module(ours)
    own = around(ours, search(gpuml.model_selection, Ridge(), LOGISTIC)).fit(X, y)
    assert_same(own, around(theirs, search(selection, sk.Ridge(), THEIRS)).fit(X, y), X)
    assert "with 18 fits of the searches inside" in str(own.plan_)
    assert str(own.plan_).startswith("3 fits in")
    if name == "stacked":
        assert own.plan_.steps[0].n_passes == 1


def test_in_a_search_a_pipeline_and_of_a_frame():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = make_pipeline(StandardScaler(), StackingClassifier(TWO_MODELS, LOGISTIC))
    grid = {"stackingclassifier__logistic__C": [0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=3).fit(frame, CLASSES)
    assert "StackingClassifier" in str(search.plan_)
    assert search.best_estimator_.predict(frame).shape == (240,)
    stacked = StackingClassifier(TWO_MODELS, LOGISTIC).fit(frame, CLASSES)
    assert list(stacked.feature_names_in_) == list("abcde")
    said = stacked.set_output(transform="pandas").transform(frame)
    assert list(said.columns) == list(stacked.get_feature_names_out())


@pytest.mark.parametrize("scales", [True, False, None])
@pytest.mark.parametrize("fits", [True, False, None])
def test_resamples_go_to_the_steps_that_request_weights(rng, scales, fits):
    X, weight = rng.normal(size=(45, 4)), rng.random(45)
    y, found = X[:, 0] + rng.normal(size=45), []
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = (
            StandardScaler()
            if scales is None
            else StandardScaler().set_fit_request(sample_weight=scales)
        )
        ridge = Ridge() if fits is None else Ridge().set_fit_request(sample_weight=fits)
        for kind in (BaggingRegressor, ensemble.BaggingRegressor):
            bag = kind(make_pipeline(scaler, ridge), n_estimators=3, random_state=0)
            try:
                found.append(bag.fit(X, y, sample_weight=weight).predict(X))
            except ValueError as error:
                found.append(type(error))
    if isinstance(found[1], type):
        assert found[0] is found[1]
    else:
        np.testing.assert_allclose(*found)


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("OneVsRestClassifier", "multiclass"),
        ("OneVsOneClassifier", "multiclass"),
        ("CalibratedClassifierCV", "calibration"),
        ("BaggingClassifier", "ensemble"),
    ],
)
def test_routed_weights(name, module, library):
    there = library.asarray(X), library.asarray(CLASSES)
    with sklearn.config_context(enable_metadata_routing=True):
        ours, theirs = (
            getattr(module, name)(clone(model).set_fit_request(sample_weight=True))
            for module, model in (
                (importlib.import_module(f"gpuml.{module}"), LOGISTIC),
                (importlib.import_module(f"sklearn.{module}"), THEIRS),
            )
        )
        if name == "BaggingClassifier":
            ours, theirs = (each.set_params(random_state=0) for each in (ours, theirs))
        ours.fit(*there, sample_weight=library.asarray(WEIGHT))
        theirs.fit(X, CLASSES, sample_weight=WEIGHT)
    assert_same(ours, theirs, there[0])


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (CalibratedClassifierCV(LOGISTIC), {"n_jobs": "2"}),
        (CalibratedClassifierCV(LOGISTIC), {"cv": "prefit"}),
        (TunedThresholdClassifierCV(LOGISTIC), {"cv": 1.5}),
        (TunedThresholdClassifierCV(LOGISTIC), {"n_jobs": "2"}),
        (OneVsRestClassifier(LOGISTIC), {"n_jobs": "2"}),
        (BaggingClassifier(LOGISTIC), {"n_jobs": "2"}),
    ],
    ids=str,
)
def test_parameters_that_gpuml_replaces_are_checked(model, wrong):
    (name,) = wrong
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of"):
        clone(model).set_params(**wrong).fit(X, TWO)


class Weighty(KFold):
    """Folds of the rows that weigh something."""

    def split(self, X, y=None, groups=None, weight=None):
        for train, test in super().split(X, y):
            yield train[weight[train] > 1], test


@pytest.mark.parametrize("library", array_libraries())
def test_the_splitter_of_a_threshold_gets_what_it_requests(library):
    with sklearn.config_context(enable_metadata_routing=True):
        cv = Weighty(3).set_split_request(weight=True)
        ours = TunedThresholdClassifierCV(LOGISTIC, cv=cv).fit(
            library.asarray(X), library.asarray(TWO), weight=WEIGHT
        )
        theirs = selection.TunedThresholdClassifierCV(THEIRS, cv=cv).fit(X, TWO, weight=WEIGHT)
    assert ours.best_threshold_ == pytest.approx(theirs.best_threshold_)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)


@pytest.mark.parametrize(
    ("kind", "y", "error"),
    [
        (TunedThresholdClassifierCV, np.arange(len(X)) % 3, "Only binary classification"),
        (FixedThresholdClassifier, np.arange(len(X)) % 3, "Only binary classification"),
        (TunedThresholdClassifierCV, TWO[1:], "inconsistent numbers of samples"),
        (CalibratedClassifierCV, TWO[1:], "inconsistent numbers of samples"),
    ],
)
def test_targets_are_looked_at_before_weights_are_routed(kind, y, error):
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match=error),
    ):
        kind(LOGISTIC).fit(X, y, sample_weight=WEIGHT)


# Not those of which scikit-learn's own fail, or skip all.
CLASSIFIERS = [("weak", LogisticRegression(C=0.1)), ("strong", LogisticRegression())]
REGRESSORS = [("weak", Ridge(0.1)), ("strong", Ridge())]
CHECKED = [
    CalibratedClassifierCV(LogisticRegression(), cv=3),
    StackingClassifier(CLASSIFIERS, cv=3),
    StackingRegressor(REGRESSORS, cv=3),
    *(VotingClassifier(CLASSIFIERS), VotingRegressor(REGRESSORS)),
    OneVsOneClassifier(LogisticRegression()),
    *(OneVsRestClassifier(LogisticRegression()), OutputCodeClassifier(LogisticRegression())),
    *(MultiOutputRegressor(Ridge()), FixedThresholdClassifier(LogisticRegression())),
]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED)
def test_check_estimator(estimator, check):
    check(estimator)


# cuML's neighbours are of float32.
@pytest.mark.filterwarnings("ignore::gpuml.exceptions.PrecisionWarning")
@pytest.mark.parametrize("dispatch", [False, True])
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("max_features", [1.0, 0.6])
def test_bags_of_models_without_weights_draw_rows_of_any_library(max_features, library, dispatch):
    options = {"n_estimators": 3, "max_features": max_features, "random_state": 0}
    ours = BaggingClassifier(KNeighborsClassifier(), **options)
    theirs = ensemble.BaggingClassifier(neighbors.KNeighborsClassifier(), **options)
    expected = theirs.fit(X, CLASSES).predict_proba(X)
    given = library.asarray(X)
    with sklearn.config_context(array_api_dispatch=dispatch):
        found = ours.fit(given, library.asarray(CLASSES)).predict_proba(given)
    np.testing.assert_allclose(library.to_numpy(found), expected, rtol=1e-7)
    assert "takes no sample weights" in str(ours.plan_)
