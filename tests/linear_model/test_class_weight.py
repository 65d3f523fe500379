"""Weights of classes that leave nothing to fit are refused, and none makes coefficients of 0."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from gpuml.linear_model import LogisticRegression, LogisticRegressionCV, RidgeClassifier

MODELS = {
    "lbfgs": LogisticRegression(),
    "newton-cholesky": LogisticRegression(solver="newton-cholesky"),
    "saga": LogisticRegression(solver="saga", l1_ratio=0.5),
    "cv": LogisticRegressionCV(
        Cs=[1.0], l1_ratios=(0,), cv=3, scoring="accuracy", use_legacy_attributes=False
    ),
    "ridge": RidgeClassifier(),
}
REFUSED = {
    "negative": ({0: -1.0, 1: 1.0}, "must not be negative, nan or infinite"),
    "all negative": ({0: -1.0, 1: -2.0}, "must not be negative, nan or infinite"),
    "nan": ({0: 1.0, 1: np.nan}, "must not be negative, nan or infinite"),
    "infinite": ({0: np.inf, 1: 1.0}, "must not be negative, nan or infinite"),
    "all zero": ({0: 0.0, 1: 0}, "at least one non-zero number, and class_weight="),
}


def rows(rng):
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] + rng.normal(size=60) > 0).astype(int)


@pytest.mark.parametrize(("class_weight", "match"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_weights_that_cannot_be_are_refused(rng, model, class_weight, match):
    model = clone(model).set_params(class_weight=class_weight)
    with pytest.raises(ValueError, match=match):
        model.fit(*rows(rng))
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(("class_weight", "match"), REFUSED.values(), ids=REFUSED)
def test_of_sparse_rows_too(rng, class_weight, match):
    X, y = rows(rng)
    with pytest.raises(ValueError, match=match):
        LogisticRegression(class_weight=class_weight).fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("name", ["lbfgs", "newton-cholesky", "saga", "cv"])
def test_balanced_weights_need_weight_in_every_class(rng, name):
    """scikit-learn divides by 0, and returns coefficients of 0."""
    X, y = rows(rng)
    weight = np.where(y == 1, 0.0, 1.0)
    model = clone(MODELS[name]).set_params(class_weight="balanced")
    with pytest.raises(ValueError, match="'balanced' has no weight for class 1"):
        model.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("name", ["lbfgs", "ridge"])
def test_weights_of_rows_and_classes_that_leave_nothing_together(rng, name):
    X, y = rows(rng)
    weight = np.where(y == 1, 0.0, 1.0)
    model = clone(MODELS[name]).set_params(class_weight={0: 0, 1: 3})
    with pytest.raises(ValueError, match="and class_weight=.* leaves none"):
        model.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("name", ["lbfgs", "newton-cholesky", "saga"])
def test_a_penalty_that_is_no_number_is_refused(rng, name):
    """It is over the sum of the weights; infinite ones made coefficients of nan or 0."""
    X, y = rows(rng)
    with pytest.raises(ValueError, match="sum to 6e-311"):
        clone(MODELS[name]).set_params(class_weight=None).fit(
            X, y, sample_weight=np.full(60, 1e-312)
        )
