"""Base classes for estimators of one's own: every member has a default, and no misspelt one is lost."""

import warnings
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin

from gpuml.extending import AffineStep, Extension, MultifitEstimator
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.resampling.multifit import (
    MODELS,
    OF_ROWS,
    STEPS,
    model_words,
    offers_affine,
    offers_multifit,
)
from gpuml.testing import estimators

BASES = (MultifitEstimator, AffineStep)


def members(base):
    return {name for name in vars(base) if not name.startswith("_")} | {"computes_on_gpu"}


@pytest.mark.parametrize("base", BASES)
def test_the_names_that_are_known_are_those_that_are_defined(base):
    assert base._members == members(base)


@pytest.mark.parametrize(
    ("base", "name", "meant"),
    [
        (MultifitEstimator, "mulitfit", "multifit"),
        (MultifitEstimator, "multifit_param", "multifit_params"),
        (MultifitEstimator, "multfit_batch", "multifit_batch"),
        (MultifitEstimator, "multifit_helper", None),
        (MultifitEstimator, "compute_on_gpu", "computes_on_gpu"),
        (AffineStep, "mult_affine", "multi_affine"),
        (AffineStep, "affine_parameters", None),
        (AffineStep, "affine_is_diagonl", "affine_is_diagonal"),
    ],
)
def test_a_misspelt_member_is_an_error_where_it_is_written(base, name, meant):
    hint = f"did you mean {meant}\\?" if meant else "is no member"
    with pytest.raises(TypeError, match=f"Mine defines {name}.*{hint}"):
        type("Mine", (base,), {name: None})


@pytest.mark.parametrize("base", BASES)
def test_all_members_and_other_names_may_be_defined(base):
    own = {"fit": None, "predict": None, "score": None, "alpha": 1, "_multifit": 1}
    assert type("Mine", (base,), {**dict.fromkeys(members(base)), **own})


def test_names_of_what_is_fitted_at_once_are_those_of_the_estimators():
    found = dict(estimators())
    only_ours = {"BandedRidge"}  # of which scikit-learn has none to be taken for it
    at_once = {name for name, each in found.items() if offers_multifit(each)}
    adapters = {"KMeans"}  # which are in a table of their own
    assert (at_once | adapters) - set(OF_ROWS) == set(MODELS) | only_ours
    assert {name for name, each in found.items() if offers_affine(each)} == set(STEPS)
    for name, module in {**MODELS, **STEPS}.items():
        assert name in adapters or type(found[name]).__module__.startswith(f"{module}.")


@pytest.mark.parametrize(("name", "module"), {**MODELS, **OF_ROWS}.items())
def test_models_of_scikit_learn_are_told_what_to_import(name, module):
    theirs = getattr(import_module(module.replace("gpuml", "sklearn")), name)()
    assert f"write from {module} import {name}" in model_words(theirs)
    assert offers_multifit(getattr(import_module(module), name)())


class Incomplete(MultifitEstimator, RegressorMixin, BaseEstimator):
    multifit_params = ("alpha",)

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        self.mean_ = self.alpha * y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class WithoutBase(RegressorMixin, BaseEstimator):
    """It means to be fitted at once: it has what pages said before there was a base class."""

    multifit_params = ("alpha",)
    __init__, fit, predict = Incomplete.__init__, Incomplete.fit, Incomplete.predict

    def multifit(self, folds, candidates, advance=None):
        raise AssertionError("nobody calls this")


class StepWithoutBase(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X

    def multi_affine(self, parts, candidates):
        raise AssertionError("nobody calls this")


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X @ [1.0, 2.0, 3.0]


def test_a_class_that_lacks_a_member_is_refused():
    search = GridSearchCV(Incomplete(), {"alpha": [0.5, 1.0]})
    with pytest.raises(TypeError, match="Incomplete derives from .* and defines no multifit"):
        search.fit(*rows())


def test_bases_without_members_of_their_own_change_nothing():
    class Mean(Extension, RegressorMixin, BaseEstimator):
        __init__, fit, predict = Incomplete.__init__, Incomplete.fit, Incomplete.predict

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = GridSearchCV(Mean(), {"alpha": [0.5, 1.0]}).fit(*rows())
    assert search.plan_.n_passes == 10


@pytest.mark.parametrize(
    ("estimator", "grid", "words"),
    [
        (WithoutBase(), {"alpha": [0.5, 1.0]}, "WithoutBase has multifit, multifit_params and"),
        (
            make_pipeline(StepWithoutBase(), Ridge()),
            {"ridge__alpha": [0.5, 1.0]},
            "StepWithoutBase has multi_affine and does not derive from gpuml.extending.AffineStep",
        ),
    ],
)
def test_a_class_that_means_to_be_fitted_at_once_and_lacks_the_base_is_told(estimator, grid, words):
    search = GridSearchCV(estimator, grid)
    with pytest.warns(RuntimeWarning, match=words):
        search.fit(*rows())
    assert words in str(search.plan_)
