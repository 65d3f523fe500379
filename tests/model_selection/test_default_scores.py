"""Laws of the default score of single fits: the bits, errors and warnings are scikit-learn's."""

import warnings
from functools import wraps

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV as Theirs
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import gpuml.svm
from gpuml import ensemble
from gpuml.metrics.own_scores import ScoredByAccuracy, ScoredByR2
from gpuml.model_selection import GridSearchCV
from gpuml.model_selection.default_scores import quick
from tests.inputs_table import estimators


class Says(BaseEstimator):
    """Predicts what it is told."""

    def __init__(self, told=None):
        self.told = told

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(self.told)


class Classes(ClassifierMixin, Says):
    pass


class Numbers(RegressorMixin, Says):
    pass


class Own(Classes):
    def score(self, X, y):
        return 7.0


class Pipeline(Own):
    """Has nothing but the name, and something to be taken for steps."""

    steps = (("classes", Classes([0, 1, 1, 1])),)


class Half(Classes):
    @wraps(ClassifierMixin.score)
    def score(self, X, y):
        return super().score(X, y) / 2


def with_a_score_of_its_own():
    model = Classes([0, 1, 1, 1])
    model.score = lambda X, y: 5.0
    return model


ROWS = np.zeros((4, 1))
WHOLE, REAL = np.array([0, 1, 2, 1]), np.array([0.5, 1.0, -2.0, 1e-3])
# Models, and targets.
CASES = {
    "labels": (Classes([0, 1, 1, 1]), WHOLE),
    "names": (Classes(np.array(["a", "b", "b", "b"])), np.array(["a", "b", "b", "a"])),
    "names of another length": (Classes(np.array(["a", "bb", "a", "a"])), np.array(list("abab"))),
    "floats as labels": (Classes([0.0, 1.0, 1.0, 1.0]), WHOLE),
    "objects": (Classes(["a", "b", "b", "b"]), np.array(list("abba"), dtype=object)),
    "truth": (Classes([True, False, True, True]), np.array([True, True, False, True])),
    "too few": (Classes([0, 1, 1]), WHOLE),
    "numbers for labels": (Classes([0.1, 1.0, 1.0, 1.0]), WHOLE),
    "numbers": (Numbers([0.1, 1.0, -1.0, 0.2]), REAL),
    "single precision": (Numbers(np.float32([0.1, 1.0, -1.0, 0.2])), REAL),
    "whole numbers": (Numbers([0, 1, -1, 2]), WHOLE),
    "nan": (Numbers([np.nan, 1.0, -1.0, 0.2]), REAL),
    "constant": (Numbers([1.0, 1.0, 1.0, 1.0]), np.ones(4)),
    "huge": (Numbers([1e200, 1.0, 1.0, 1.0]), REAL),
    "columns": (Numbers(np.ones((4, 1))), REAL),
    "one row": (Numbers([1.0]), np.ones(1)),
    "its own": (Own([0, 1, 1, 1]), WHOLE),
    "its own, of a pipeline's name": (Pipeline([0, 1, 1, 1]), WHOLE),
    "half of it": (Half([0, 1, 1, 1]), WHOLE),
    "the object's": (with_a_score_of_its_own(), WHOLE),
    "pipeline": (make_pipeline(StandardScaler(), Classes([0, 1, 1, 1])), WHOLE),
}


def outcome(scorer, model, X, y):
    """The score, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = scorer(model, X, y)
        except ValueError as error:
            found = str(error)
    return repr(found), [str(each.message) for each in caught]


@pytest.mark.parametrize("name", CASES)
def test_scores_errors_and_warnings_are_those_of_the_model(name):
    model, y = CASES[name]
    X = ROWS[: len(y)]
    model.fit(X, y)
    scorer = check_scoring(model)
    found, expected = (outcome(each, model, X, y) for each in (quick(scorer, model, y), scorer))
    assert found == expected


@pytest.mark.parametrize(
    ("model", "is_quick"),
    [
        *((model, True) for model in (SVC(), gpuml.svm.SVC(), KNeighborsClassifier())),
        (make_pipeline(StandardScaler(), RandomForestClassifier()), True),
        (Own(), False),
    ],
)
def test_which_classifiers_are_scored_quickly(model, is_quick):
    scorer = check_scoring(model)
    assert (quick(scorer, model, WHOLE) is not scorer) == is_quick
    assert quick(scorer, model, WHOLE[:, None]) is scorer
    assert quick(scorer, model, WHOLE.tolist()) is scorer
    other = check_scoring(model, "balanced_accuracy")
    assert quick(other, model, WHOLE) is other


@pytest.mark.parametrize("model", [SVC(), SVR(), DummyRegressor(strategy="quantile")])
def test_searches_have_the_bits_of_scikit_learn(model, rng):
    X = rng.normal(size=(83, 4))
    y = X[:, 0] + rng.normal(size=83)
    y = (y > 0).astype(int) if isinstance(model, SVC) else y
    grid = {"quantile": [0.2, 0.5]} if hasattr(model, "quantile") else {"C": [0.1, 9.0]}
    found, expected = (
        search(model, grid, return_train_score=True).fit(X, y).cv_results_
        for search in (GridSearchCV, Theirs)
    )
    for part in ("test", "train"):
        for fold in range(5):
            key = f"split{fold}_{part}_score"
            np.testing.assert_array_equal(found[key], expected[key])


def test_what_a_search_takes_for_the_score_of_a_model_stands_beside_it():
    """A class between the two may hide it."""
    kinds = [type(estimator) for _, estimator in estimators()]
    kinds += [getattr(ensemble, name) for name in ensemble.__all__]
    names = {ScoredByAccuracy.score: "accuracy", ScoredByR2.score: "r2"}
    found = [kind for kind in kinds if getattr(kind, "score", None) in names]
    assert len(found) > 30
    assert [kind for kind in found if kind.multifit_score != names[kind.score]] == []
