"""Errors about values that are missing or infinite name their columns, whoever finds them."""

import importlib.util

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags

import gpuml.naive_bayes
from gpuml.linear_model import (
    ElasticNetCV,
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from gpuml.testing import estimators
from tests.targets import suited

# Fits that scikit-learn's solvers do.
ELSEWHERE = [
    *(Ridge(solver="sag"), Ridge(positive=True), RidgeClassifier(solver="sag")),
    *(Lasso(positive=True), ElasticNetCV(positive=True), RidgeCV(scoring="r2", gcv_mode="svd")),
    *(LogisticRegression(solver="liblinear"), LogisticRegression(solver="sag")),
    LogisticRegressionCV(solver="liblinear", use_legacy_attributes=False),
]
TABLE = [
    *(estimator for _, estimator in estimators()),
    *(getattr(gpuml.naive_bayes, name)() for name in gpuml.naive_bayes.__all__),
    *(LogisticRegression(solver="saga"), Ridge(solver="svd")),
    *ELSEWHERE,
]
TABLE = [
    estimator
    for estimator in TABLE
    if not (get_tags(estimator).input_tags.allow_nan or get_tags(estimator).no_validation)
]


def table_of(X):
    import pandas as pd

    return pd.DataFrame(X, columns=list("abcd"))


KINDS = {"array": np.asarray, "list": np.ndarray.tolist, "csr": sparse.csr_array}
if importlib.util.find_spec("pandas") is not None:
    KINDS["frame"] = table_of


@pytest.mark.some
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", TABLE, ids=str)
def test_the_column_is_named(estimator, rng):
    X = np.round(4 * rng.random((40, 4)))
    y = suited(estimator, 1 + (X[:, 0] > 2).astype(int))
    if type(estimator).__name__ in ("CCA", "PLSCanonical", "PLSSVD"):
        y = np.stack([y, X[:, 2]], axis=1)  # as many columns as there are components
    kinds = {**KINDS}
    if not get_tags(estimator).input_tags.sparse:
        del kinds["csr"]
    for kind, make in kinds.items():
        used = clone(estimator).fit(make(X), y)
        names = ("predict", "transform", "mahalanobis")
        use = next(getattr(used, name) for name in names if hasattr(used, name))
        for what, value in (("NaN", np.nan), ("infinity", np.inf)):
            faulty = X.copy()
            faulty[3, 1] = value
            words = rf"{what}(.|\n)*Column {1 if kind != 'frame' else repr('b')} "
            with pytest.raises(ValueError, match=words):
                clone(estimator).fit(make(faulty), y)
            with pytest.raises(ValueError, match=words):
                use(make(faulty))


def test_what_y_lacks_is_not_said_of_columns():
    X, y = np.eye(4), [0.0, 1.0, np.nan, 1.0]
    for estimator in (Ridge(), Ridge(solver="sag"), LogisticRegression()):
        with pytest.raises(ValueError, match="y") as error:
            estimator.fit(X, y)
        assert "Column" not in str(error.value)
