"""What was probably meant by a misspelt name, in scikit-learn's own errors."""

import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV as SearchOfSklearn

import gpuml
from gpuml._persistence.travel import Travels
from gpuml._settings.suggestions import did_you_mean
from gpuml.cluster import KMeans
from gpuml.ensemble import StackingRegressor
from gpuml.linear_model import Ridge
from gpuml.metrics import get_scorer
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
    Session,
    cross_val_score,
    validation_curve,
)
from gpuml.pipeline import FeatureUnion, Pipeline, make_pipeline
from gpuml.preprocessing import StandardScaler

X = np.random.default_rng(0).normal(size=(60, 3))
y = X.sum(axis=1)
PIPE = make_pipeline(StandardScaler(), Ridge())
GRID = {"alpha": [1.0, 2.0]}

CALLS = {
    "grid": lambda: GridSearchCV(PIPE, GRID).fit(X, y),
    "random": lambda: RandomizedSearchCV(PIPE, GRID, n_iter=2).fit(X, y),
    "halving": lambda: HalvingGridSearchCV(PIPE, GRID).fit(X, y),
    "explain": lambda: GridSearchCV(PIPE, GRID).explain(X, y),
    "session": lambda: Session(PIPE, X, y).evaluate([{"alpha": 1.0}]),
    "curve": lambda: validation_curve(PIPE, X, y, param_name="alpha", param_range=[1.0]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_forgotten_step_is_suggested(call):
    with pytest.raises(ValueError, match=r"Invalid parameter 'alpha' .*mean 'ridge__alpha'\?$"):
        call()


@pytest.mark.parametrize(
    ("estimator", "name", "meant"),
    [
        (PIPE, "ridge__alfa", "ridge__alpha"),
        (PIPE, "rigde__alpha", "ridge__alpha"),
        (PIPE, "alppha", "ridge__alpha"),
        (Ridge(), "alfa", "alpha"),
        (Ridge(), "ridge__alpha", "alpha"),
        (Ridge(), "nonsense", None),
    ],
)
def test_the_error_is_scikit_learns_and_a_question_more(estimator, name, meant):
    grid = {name: [1.0]}
    with pytest.raises(ValueError, match="Invalid parameter") as theirs:
        SearchOfSklearn(gpuml.as_sklearn(estimator), grid).fit(X, y)
    with pytest.raises(ValueError, match="Invalid parameter") as ours:
        GridSearchCV(estimator, grid).fit(X, y)
    more = f" Did you mean {meant!r}?" if meant else ""
    assert str(ours.value) == f"{theirs.value}{more}"
    assert type(ours.value) is type(theirs.value)


@pytest.mark.parametrize(
    ("estimator", "name", "meant"),
    [
        (Ridge(), "alppha", "alpha"),
        (Ridge(), "nonsense", None),
        # A pipeline is scikit-learn's: it passes on the question of its step.
        (PIPE, "ridge__alppha", "alpha"),
        # Estimators around others ask with the name as you wrote it, and once.
        (GridSearchCV(Ridge(), GRID), "estimator__alppha", "estimator__alpha"),
        (GridSearchCV(PIPE, GRID), "estimator__ridge__alppha", "estimator__ridge__alpha"),
        (GridSearchCV(PIPE, GRID), "estimator__rigde__alpha", "estimator__ridge__alpha"),
        (FeatureUnion([("scale", StandardScaler())]), "scale__with_maen", "scale__with_mean"),
        (StackingRegressor([("ridge", Ridge())]), "rigde", "ridge"),
        (KMeans(), "n_cluster", "n_clusters"),
    ],
)
def test_set_params_asks_too(estimator, name, meant):
    with pytest.raises(ValueError, match="Invalid parameter") as theirs:
        gpuml.as_sklearn(estimator).set_params(**{name: 1})
    with pytest.raises(ValueError, match="Invalid parameter") as ours:
        clone(estimator).set_params(**{name: 1})
    more = f" Did you mean {meant!r}?" if meant else ""
    assert str(ours.value) == f"{theirs.value}{more}"
    assert type(ours.value) is ValueError


def test_every_estimator_asks():
    pytest.importorskip("numpydoc.validate")  # which the list of all public classes needs
    from tests.test_docstrings import CLASSES

    estimators = [kind for kind in CLASSES.values() if issubclass(kind, BaseEstimator)]
    assert len(estimators) > 100
    assert [kind for kind in estimators if kind.set_params is not Travels.set_params] == []


def test_other_errors_of_set_params_stay():
    class Strict(Travels, BaseEstimator):
        def __init__(self, alpha=1.0):
            self.alpha = alpha

        def __setattr__(self, name, value):
            if value == "wrong":
                raise ValueError("alpha is no text")
            super().__setattr__(name, value)

    with pytest.raises(ValueError, match=r"^alpha is no text$"):
        Strict().set_params(alpha="wrong")


def test_a_candidate_may_bring_the_step_that_has_the_parameter():
    pipe = Pipeline([("scale", "passthrough"), ("ridge", Ridge())])
    grid = {"scale": [StandardScaler()], "scale__with_mean": [True, False]}
    assert GridSearchCV(pipe, grid).fit(X, y).best_score_ > 0.9
    with pytest.raises(ValueError, match="Invalid parameter 'with_maen'"):
        GridSearchCV(pipe, {"scale": [StandardScaler()], "scale__with_maen": [True]}).fit(X, y)


@pytest.mark.parametrize(
    "call",
    [
        lambda: GridSearchCV(Ridge(), GRID, scoring="neg_max_eror").fit(X, y),
        lambda: GridSearchCV(Ridge(), GRID, scoring=["r2", "neg_max_eror"], refit="r2").fit(X, y),
        lambda: cross_val_score(Ridge(), X, y, scoring="neg_max_eror"),
        lambda: get_scorer("neg_max_eror"),
    ],
)
def test_a_scorer_is_suggested(call):
    with pytest.raises(ValueError, match=r"neg_max_eror.*Did you mean 'neg_max_error'\?$"):
        call()


@pytest.mark.parametrize(
    "scoring",
    [["r2", "bad"], ("bad",), {"a": "r2", "b": "bad"}, {"a": 3}, "bad", 3, [3], {1: "r2"}],
)
def test_wrong_scorings_of_searches_raise_what_scikit_learn_raises(scoring):
    """Each of several is checked like one, before anything is fitted."""
    raised = []
    for kind in (SearchOfSklearn, GridSearchCV):
        with pytest.raises(Exception) as error:  # noqa: PT011 - compared below
            kind(Ridge(), GRID, scoring=scoring, refit=False).fit(X, y)
        raised.append(error.type)
    assert raised[0] is raised[1]


@pytest.mark.parametrize("search", [HalvingGridSearchCV, HalvingRandomSearchCV, HyperbandSearchCV])
@pytest.mark.parametrize(
    ("resource", "meant"), [("max_itr", " Did you mean 'ridge__max_iter'?"), ("nonsense", "")]
)
def test_a_resource_is_suggested(search, resource, meant):
    pipe = make_pipeline(StandardScaler(), Ridge()).set_params(ridge__max_iter=10)
    with pytest.raises(ValueError, match="Cannot use resource") as error:
        search(pipe, {"ridge__alpha": [1.0, 2.0]}, resource=resource).fit(X, y)
    said = f"Cannot use resource={resource} which is not supported by estimator Pipeline"
    assert str(error.value) == (f"{said}.{meant}" if meant else said)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Python suggests arguments from 3.13 on")
@pytest.mark.parametrize("kind", [Ridge, KMeans, GridSearchCV, StandardScaler])
def test_a_constructors_argument_is_suggested(kind):
    name = next(iter(kind._get_param_names()))
    with pytest.raises(TypeError, match=rf"unexpected keyword .*mean '{name}'\?$"):
        kind(**{name[:-1] + "x" + name[-1:]: 1})


def test_a_setting_is_suggested():
    with pytest.raises(TypeError, match=r"Did you mean 'device'\?$"):
        gpuml.set_config(devise="cpu")


def test_settings_of_scikit_learn_are_said_to_be_its_own():
    with pytest.raises(TypeError, match=r"set them by sklearn\.set_config\.$"):
        gpuml.set_config(display="diagram", device="cpu")


def test_nothing_is_suggested_where_nothing_is_alike():
    assert did_you_mean("zzz", ["alpha", "tol"]) == ""
