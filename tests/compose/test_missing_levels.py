"""Levels that a training set lacks are no features of its models, whatever these count them for."""

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition as sk_decomposition
import sklearn.discriminant_analysis as sk_discriminants
import sklearn.feature_selection as sk_selection
import sklearn.linear_model as sk_linear
import sklearn.model_selection as sk
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from gpuml import (
    decomposition,
    discriminant_analysis,
    feature_selection,
    linear_model,
    preprocessing,
)
from gpuml.model_selection import GridSearchCV, cross_validate

RNG = np.random.default_rng(3)
N = 80
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
X["level"] = [f"level {i}" for i in RNG.integers(0, 20, N)]
X["other"] = [f"other {i}" for i in RNG.integers(0, 7, N)]
# Of one fold only.
X.loc[:2, "level"], X.loc[:2, "other"], X.loc[[25, 26], "level"] = "first", "first", "second"
X.loc[[45], "level"] = "third"
Y = X["a"] + 0.3 * RNG.normal(size=N) + (X["level"] == "level 3")
LABELS = (Y > 0).astype(int)

# name -> (ours, scikit-learn's, the target)
MODELS = {
    **{
        f"{solver} {shrinkage}": (
            discriminant_analysis.LinearDiscriminantAnalysis(solver=solver, shrinkage=shrinkage),
            sk_discriminants.LinearDiscriminantAnalysis(solver=solver, shrinkage=shrinkage),
            LABELS,
        )
        for solver in ("lsqr", "eigen")
        for shrinkage in (0.5, "auto")
    },
    "svd": (
        discriminant_analysis.LinearDiscriminantAnalysis(),
        sk_discriminants.LinearDiscriminantAnalysis(),
        LABELS,
    ),
    "noise of all features": (linear_model.LassoLarsIC(), sk_linear.LassoLarsIC(), Y),
    "a tenth of the features": (
        linear_model.OrthogonalMatchingPursuit(),
        sk_linear.OrthogonalMatchingPursuit(),
        Y,
    ),
    "relevance": (linear_model.ARDRegression(), sk_linear.ARDRegression(), Y),
    "evidence": (linear_model.BayesianRidge(), sk_linear.BayesianRidge(), Y),
}


def pipeline(*steps):
    entries = [
        ("numbers", StandardScaler(), ["a", "b"]),
        ("levels", OneHotEncoder(handle_unknown="ignore"), ["level", "other"]),
    ]
    table = ColumnTransformer(entries, sparse_threshold=0)
    return Pipeline([("table", table), *((f"step {i}", step) for i, step in enumerate(steps))])


def models_of(function, model, y):
    return function(model, X, y, cv=4, return_estimator=True, error_score="raise")["estimator"]


def test_training_sets_have_different_columns():
    ours, theirs, y = MODELS["evidence"]
    found = models_of(sk.cross_validate, pipeline(theirs), y)
    assert len({each[-1].n_features_in_ for each in found}) > 2
    search = GridSearchCV(pipeline(ours), {"step 0__tol": [1e-3, 1e-4]}, cv=4).fit(X, y)
    assert "all candidates together" in str(search.plan_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_models_count_the_features_of_their_training_set(name):
    ours, theirs, y = MODELS[name]
    found = models_of(cross_validate, pipeline(ours), y)
    expected = models_of(sk.cross_validate, pipeline(theirs), y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one[-1].coef_, other[-1].coef_, rtol=1e-6, atol=1e-8)
        for attribute in ("means_", "xbar_", "covariance_", "lambda_"):
            value = getattr(other[-1], attribute, None)
            if isinstance(value, np.ndarray):
                own = getattr(one[-1], attribute)
                np.testing.assert_allclose(own, value, rtol=1e-5, atol=1e-8)


STEPS = [
    (preprocessing.StandardScaler(), StandardScaler()),
    (preprocessing.MinMaxScaler(), MinMaxScaler()),
    (decomposition.PCA(3), sk_decomposition.PCA(3)),
    (decomposition.PCA(0.5, whiten=True), sk_decomposition.PCA(0.5, whiten=True)),
    (
        decomposition.TruncatedSVD(3, algorithm="arpack"),
        sk_decomposition.TruncatedSVD(3, algorithm="arpack"),
    ),
    (feature_selection.VarianceThreshold(0.03), sk_selection.VarianceThreshold(0.03)),
    (
        feature_selection.SelectPercentile(feature_selection.f_regression, percentile=30),
        sk_selection.SelectPercentile(sk_selection.f_regression, percentile=30),
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), STEPS, ids=lambda each: type(each).__name__)
def test_steps_have_the_features_of_their_training_set(ours, theirs):
    found = models_of(cross_validate, pipeline(ours, linear_model.Ridge()), Y)
    expected = models_of(sk.cross_validate, pipeline(theirs, sk_linear.Ridge()), Y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-6, atol=1e-8)
        for name, value in vars(other[1]).items():
            if isinstance(value, np.ndarray):
                assert getattr(one[1], name).shape == value.shape
        if hasattr(other[1], "noise_variance_"):
            assert one[1].noise_variance_ == pytest.approx(other[1].noise_variance_, rel=1e-9)
