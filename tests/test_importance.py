"""Importance of features is scikit-learn's: the same permutations, the same scores."""

import numpy as np
import pandas as pd
import pytest
import sklearn.inspection as sk
import sklearn.linear_model as sk_linear
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.decomposition import PCA as TheirPCA
from sklearn.tree import DecisionTreeRegressor

import gpuml.inspection.importance as importance
from gpuml._arrays import to_host
from gpuml.decomposition import PCA
from gpuml.inspection import permutation_importance
from gpuml.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MinMaxScaler, StandardScaler
from gpuml.testing import array_libraries

REGRESSION = ["r2", "neg_mean_squared_error", "neg_mean_absolute_error"]
TWO_CLASSES = ["accuracy", "roc_auc", "neg_log_loss"]
MODELS = {
    "Ridge": (Ridge(), load_diabetes, REGRESSION),
    "behind steps": (make_pipeline(StandardScaler(), PCA(6), Lasso(0.1)), load_diabetes, None),
    "theirs": (sk_linear.LinearRegression(), load_diabetes, "r2"),
    "theirs behind steps": (make_pipeline(TheirPCA(4), sk_linear.Ridge()), load_diabetes, None),
    "two classes": (
        make_pipeline(StandardScaler(), LogisticRegression()),
        load_breast_cancer,
        TWO_CLASSES,
    ),
    "three classes": (LogisticRegression(C=0.1), load_iris, ["accuracy", "neg_log_loss"]),
    "RidgeClassifier": (RidgeClassifier(), load_iris, None),
}


@pytest.fixture
def is_linear(monkeypatch):
    """Whether questions were those of linear models."""
    found = []
    real = importance._question

    def asked(*args):
        found.append(real(*args))
        return found[-1]

    monkeypatch.setattr(importance, "_question", asked)
    return lambda: [each is not None for each in found]


def compared(found, expected, **tolerance):
    if isinstance(expected, dict) and "importances" not in expected:
        assert found.keys() == expected.keys()
        for name in expected:
            compared(found[name], expected[name], **tolerance)
        return
    for name in ("importances", "importances_mean", "importances_std"):
        np.testing.assert_allclose(found[name], expected[name], **tolerance)


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("options", [{}, {"max_samples": 0.5}, {"sample_weight": True}], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_linear_models(name, options, library, is_linear):
    model, load, scoring = MODELS[name]
    X, y = (rows[:: len(rows) // 150] for rows in load(return_X_y=True))
    X = X[:, :8] / np.abs(X[:, :8]).max(axis=0)
    if name.startswith("theirs") and library.name != "numpy":
        pytest.skip("scikit-learn's models read NumPy")
    model = model.fit(X, y) if name.startswith("theirs") else model
    theirs = dict(options, scoring=scoring, random_state=3, n_repeats=3)
    if "sample_weight" in options:
        theirs["sample_weight"] = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    ours = dict(theirs)
    if "sample_weight" in ours:
        ours["sample_weight"] = library.asarray(ours["sample_weight"])
    rows = library.asarray(X), library.asarray(y)
    found = permutation_importance(model.fit(*rows), *rows, **ours)
    expected = sk.permutation_importance(model.fit(X, y), X, y, **theirs)
    assert is_linear() == [True]
    compared(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("drawn", [{"max_samples": 5}, {"sample_weight": True}], ids=str)
def test_rows_that_lack_a_class_are_scored_as_by_scikit_learn(drawn, library):
    X, y = load_iris(return_X_y=True)
    X, y = X[:105], y[:105]
    drawn = dict(drawn, n_repeats=3, scoring="f1_macro")
    if "sample_weight" in drawn:
        drawn["sample_weight"] = np.where(y == 2, 0.0, 1.0)
    rows, model = (library.asarray(X), library.asarray(y)), RidgeClassifier()
    found, expected = (
        explain(fitted, *given, random_state=np.random.RandomState(0), **drawn)
        for explain, fitted, given in (
            (permutation_importance, clone(model).fit(*rows), rows),
            (sk.permutation_importance, clone(model).fit(X, y), (X, y)),
        )
    )
    compared(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("library", array_libraries())
def test_other_models_are_scored_one_by_one(library, is_linear):
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:100], y[:100]
    rows = library.asarray(X), library.asarray(y)
    model = PoissonRegressor()
    options = {"random_state": np.random.RandomState(0).randint(9), "n_repeats": 2}
    found = permutation_importance(model.fit(*rows), *rows, **options)
    expected = sk.permutation_importance(model.fit(X, y), X, y, **options)
    compared(found, expected, rtol=1e-6, atol=1e-9)
    clipped = make_pipeline(MinMaxScaler(clip=True), Ridge())
    found = permutation_importance(clipped.fit(*rows), *rows, **options)
    expected = sk.permutation_importance(clipped.fit(X, y), X, y, **options)
    compared(found, expected, rtol=1e-6, atol=1e-9)
    assert is_linear() == [False, False]


def test_frames_and_what_is_scikit_learn_s_business(is_linear):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    options = {"random_state": 0, "n_repeats": 2}
    for model in (Ridge().fit(X, y), DecisionTreeRegressor(max_depth=2).fit(X, y)):
        found = permutation_importance(model, X, y, **options)
        expected = sk.permutation_importance(model, X, y, **options)
        compared(found, expected, rtol=1e-9, atol=1e-11)
    assert is_linear() == [True, False]
    several = pd.concat([y, -y], axis=1).to_numpy()
    model = Ridge().fit(X.to_numpy(), several)
    found = permutation_importance(model, X.to_numpy(), several, **options)
    expected = sk.permutation_importance(model, X.to_numpy(), several, **options)
    compared(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_samples": 1000}, {"max_samples": 2.0}, {"max_samples": 0}, {"max_samples": 0.001}),
        *({"n_repeats": 0}, {"scoring": "no such"}, {"n_jobs": "2"}, {"random_state": "0"}),
    ],
    ids=str,
)
def test_what_is_refused(wrong):
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError) as expected:  # noqa: PT011
        sk.permutation_importance(Ridge().fit(X, y), X, y, **wrong)
    with pytest.raises(type(expected.value), match=next(iter(wrong))):
        permutation_importance(Ridge().fit(X, y), X, y, **wrong)
    assert to_host(X) is X
