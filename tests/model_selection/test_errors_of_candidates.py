"""Whatever a candidate raises is its score's affair; the search goes on with the others."""

import warnings

import numpy as np
import pytest
from sklearn import linear_model
from sklearn import model_selection as theirs
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.preprocessing import PolynomialFeatures

from gpuml import model_selection as ours
from gpuml.cross_decomposition import PLSRegression
from gpuml.discriminant_analysis import LinearDiscriminantAnalysis
from gpuml.linear_model import (
    ElasticNet,
    Lars,
    Lasso,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
)
from gpuml.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from gpuml.neighbors import KNeighborsClassifier
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import PowerTransformer, StandardScaler

BAD, FAILED = 7.0, -99.0
TOO_LARGE = 10**400  # of which Python makes no float, but an OverflowError


class OwnError(Exception):
    """An exception that does not take what it is made of, so that no process can send it."""

    def __init__(self, one, other):
        super().__init__(f"{one} of {other}")


ERRORS = [
    OwnError(1, 2),
    ArithmeticError("no number"),
    AssertionError("not so"),
    KeyError("missing"),
    NotImplementedError("not yet"),
    RuntimeError("something else"),
    Exception("bare"),
    TypeError("no such type"),
]


def together(error):
    """An estimator whose candidates are fitted at once, and one of them raises."""

    class Together(Ridge):
        def multifit(self, folds, candidates, advance=None):
            if any(each.get("alpha", self.alpha) == BAD for each in candidates):
                raise error
            return super().multifit(folds, candidates, advance)

    return Together(), "alpha"


def alone(error):
    """An estimator whose candidates are fitted one by one."""

    class Alone(Ridge):
        def fit(self, X, y, sample_weight=None):
            if self.alpha == BAD:
                raise error
            return super().fit(X, y, sample_weight)

    return Alone(), "alpha"


def last_step(error):
    """A last step whose candidates are fitted at once, on each fold by itself."""
    estimator, _ = together(error)
    return make_pipeline(PolynomialFeatures(2), estimator), "together__alpha"


def first_step(error):
    """A step that candidates of the next one share."""

    class Step(TransformerMixin, BaseEstimator):
        def __init__(self, shift=1.0):
            self.shift = shift

        def fit(self, X, y=None):
            if self.shift == BAD:
                raise error
            return self

        def transform(self, X):
            return X + self.shift

    return make_pipeline(Step(), Ridge()), "step__shift"


ROUTES = [together, alone, last_step, first_step]


def rows(rng):
    X = rng.normal(size=(60, 4))
    return X, X @ rng.normal(size=4) + rng.normal(size=60)


def check_scores(search, X, y, good):
    """The second of two candidates fails; the first has the scores that it has alone."""
    with warnings.catch_warnings():
        # What is raised where all are fitted at once may be no fault of a candidate.
        warnings.filterwarnings("ignore", "Fitting all candidates together raised", RuntimeWarning)
        with pytest.warns(FitFailedWarning, match="3 fits failed out of a total of 6"):
            search.fit(X, y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], [good, FAILED], rtol=1e-3)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("route", ROUTES)
def test_any_error_becomes_the_error_score(rng, route, error):
    X, y = rows(rng)
    estimator, name = route(error)
    good = cross_val_score(estimator.set_params(**{name: 1.0}), X, y, cv=3).mean()
    search = GridSearchCV(estimator, {name: [1.0, BAD]}, cv=3, error_score=FAILED)
    check_scores(search, X, y, good)
    strict = GridSearchCV(estimator, {name: [1.0, BAD]}, cv=3, error_score="raise")
    with pytest.raises(type(error), match=str(error).strip("'")) as raised:
        strict.fit(X, y)
    assert raised.value is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=str)
@pytest.mark.parametrize("route", ROUTES)
def test_who_stops_the_program_stops_the_search(rng, route, error):
    estimator, name = route(error)
    search = GridSearchCV(estimator, {name: [1.0, BAD]}, cv=3, error_score=FAILED)
    with pytest.raises(type(error)):
        search.fit(*rows(rng))


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (Ridge(), "alpha"),
        (Lasso(), "alpha"),
        (ElasticNet(), "alpha"),
        (LogisticRegression(), "C"),
        (RidgeClassifier(), "alpha"),
        (make_pipeline(StandardScaler(), Ridge()), "ridge__alpha"),
        (make_pipeline(PolynomialFeatures(2), Lasso()), "lasso__alpha"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else type(value).__name__,
)
def test_numbers_that_are_too_large(rng, estimator, name):
    X, y = rows(rng)
    y = (y > 0).astype(int) if is_classifier(estimator) else y
    good = cross_val_score(estimator, X, y, cv=3).mean()
    search = GridSearchCV(estimator, {name: [1.0, TOO_LARGE]}, cv=3, error_score=FAILED)
    check_scores(search, X, y, good)
    strict = GridSearchCV(estimator, {name: [1.0, TOO_LARGE]}, cv=3, error_score="raise")
    with pytest.raises(OverflowError, match="too large"):
        strict.fit(X, y)


def test_an_error_that_no_candidate_need_have_raised_is_told(rng):
    """Or a search would take long, and nobody would know why."""
    estimator, name = together(RuntimeError("something else"))
    search = GridSearchCV(estimator, {name: [1.0, BAD]}, cv=3, error_score=FAILED)
    with (
        pytest.warns(FitFailedWarning),
        pytest.warns(RuntimeWarning, match="together raised RuntimeError: something else"),
    ):
        search.fit(*rows(rng))


def test_an_attribute_that_is_nowhere_is_told(rng):
    """It is a bug, unlike a method that a model lacks: no fit of one candidate raises it."""

    class Together(Ridge):
        def multifit(self, folds, candidates, advance=None):
            if len(candidates) > 1:
                return folds.no_such_attribute
            return super().multifit(folds, candidates, advance)

    with pytest.warns(RuntimeWarning, match="together raised AttributeError: .*no_such_attribute"):
        GridSearchCV(Together(), {"alpha": [1.0, 2.0]}, cv=3).fit(*rows(rng))


def test_parameters_that_do_not_go_together_are_the_candidates_affair(rng):
    """scikit-learn's class raises a NotImplementedError for them: nothing else is to be told."""
    X, y = rows(rng)
    grid = {"solver": ["svd", "lsqr"], "shrinkage": [None, 0.5]}
    search = GridSearchCV(LinearDiscriminantAnalysis(), grid, cv=3, error_score=FAILED)
    with pytest.warns(FitFailedWarning, match="3 fits failed out of a total of 12") as warned:
        search.fit(X, y > 0)
    assert not [each for each in warned if "together raised" in str(each.message)]


ASKED = [
    "neg_log_loss",
    ["neg_log_loss"],
    ["neg_log_loss", "f1"],
    ["f1", "neg_log_loss"],
    {"a": "neg_log_loss", "b": "neg_brier_score"},
    {"a": "neg_log_loss", "b": lambda model, X, y: 1.0},
]


# Not by str: the address of a function differs between the processes of a run.
@pytest.mark.parametrize("scoring", ASKED, ids=lambda each: str(each).partition(" at 0x")[0])
@pytest.mark.parametrize("error_score", [FAILED, np.nan, "raise"])
def test_a_method_that_a_model_lacks_is_the_error_that_it_is_in_sklearn(rng, scoring, error_score):
    """A failed score of one scorer, but of several an AttributeError."""
    X, y = rows(rng)
    options = {"scoring": scoring, "cv": 3, "error_score": error_score}
    found = [
        outcome(of, model, work, X, y > 0, options)
        for of, model in ((ours, RidgeClassifier()), (theirs, linear_model.RidgeClassifier()))
        for work in ("search", "cross_validate")
    ]
    assert found[:2] == found[2:]


def outcome(of, model, work, X, y, options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Scoring failed", UserWarning)
        warnings.filterwarnings("ignore", "One or more of the test scores", UserWarning)
        try:
            if work == "search":
                grid = of.GridSearchCV(model, {"alpha": [1.0, 2.0]}, refit=False, **options)
                found = grid.fit(X, y).cv_results_
            else:
                found = of.cross_validate(model, X, y, **options)
        except AttributeError as error:
            return str(error)
    return str({n: list(v) for n, v in found.items() if "test_" in n and "rank" not in n})


def test_an_inner_search_whose_model_lacks_a_method_fails_as_in_sklearn(rng):
    X, y = rows(rng)
    options = {"scoring": "neg_log_loss", "error_score": "raise"}
    search = GridSearchCV(RidgeClassifier(), {"alpha": [1.0, 2.0]}, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="AttributeError: RidgeClassifier has none of the"):
            cross_val_score(search, X, y > 0)


def test_halving_goes_on(rng):
    estimator, name = alone(OwnError(1, 2))
    grid = {name: [0.1, 1.0, 10.0, BAD]}
    search = HalvingGridSearchCV(estimator, grid, cv=3, error_score=FAILED, min_resources=20)
    with pytest.warns(FitFailedWarning):
        search.fit(*rows(rng))
    assert search.best_params_[name] != BAD


@pytest.mark.parametrize("first", [StandardScaler(), PowerTransformer()], ids=str)
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (LinearDiscriminantAnalysis(solver="lsqr"), {"shrinkage": [0.1, 0.5]}),
        (Lars(), {"n_nonzero_coefs": [1, 2]}),
        (KNeighborsClassifier(), {"n_neighbors": [3, 5]}),
        (PLSRegression(), {"n_components": [1, 2]}),
    ],
    ids=str,
)
def test_weights_that_a_model_does_not_take_are_an_error(first, model, grid, rng):
    X = rng.normal(size=(60, 3))
    y, name = (X[:, 0] > 0).astype(int), type(model).__name__.lower()
    params = {f"{name}__{parameter}": values for parameter, values in grid.items()}
    search = GridSearchCV(make_pipeline(first, model), params, refit=False, error_score="raise")
    with pytest.raises(TypeError, match="sample_weight"):
        search.fit(X, y, **{f"{name}__sample_weight": rng.uniform(size=60)})
