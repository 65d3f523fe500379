"""What cuML's linear support vector machines agree with liblinear in, and how far.

The law is that of the objective: scikit-learn's own, at our solution, is as small as at the optimum.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn import svm

import gpuml
from gpuml._arrays import to_host
from gpuml.svm import LinearSVC, LinearSVR
from tests.adapters.test_agreement_b import (  # noqa: F401  (fixtures)
    CANCER,
    CULTIVAR,
    DIABETES,
    MALIGNANT,
    PROGRESS,
    WINE,
    always,
    dtype,
    rows_of,
)

pytestmark = pytest.mark.gpu


def on_host(value):
    """An array; an intercept that there is none of is a number."""
    return to_host(value) if hasattr(value, "shape") else value


def objective(model, X, loss, C=1.0, penalty="l2"):
    """liblinear's: half the squared norm (or the absolute one), of the intercept too, and losses.

    `loss` takes scores of one machine and its number.
    """
    coef = np.atleast_2d(to_host(model.coef_))
    intercept = np.broadcast_to(on_host(model.intercept_), len(coef))
    whole = np.column_stack([coef, intercept])
    size = np.abs(whole).sum() if penalty == "l1" else 0.5 * np.sum(whole**2)
    scores = X @ coef.T + intercept
    return size + C * sum(np.sum(loss(column, k)) for k, column in enumerate(scores.T))


def squared_hinge(scores, k):
    """As `objective` takes it, of C = 1."""
    return np.maximum(0.0, 1.0 - np.where(MALIGNANT, scores, -scores)) ** 2


@pytest.mark.pairwise
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_linear_classes(rows_of, C, fit_intercept):  # noqa: F811
    """The optimum of liblinear: its penalty, its loss, and its C."""
    params = {"C": C, "fit_intercept": fit_intercept, "tol": 1e-8, "max_iter": 10_000}
    rows = CANCER + 1.0
    model = LinearSVC(**params).fit(rows_of(rows), MALIGNANT)
    oracle = svm.LinearSVC(dual=False, **params).fit(rows, MALIGNANT)
    assert model.coef_.shape == (1, 30)
    np.testing.assert_allclose(to_host(model.coef_), oracle.coef_, atol=1e-3)
    np.testing.assert_allclose(on_host(model.intercept_), oracle.intercept_, atol=1e-3)
    ours, theirs = (objective(m, rows, squared_hinge, C) for m in (model, oracle))
    assert ours <= theirs * (1 + 1e-6)
    assert np.mean(to_host(model.predict(rows_of(rows))) == oracle.predict(rows)) > 0.998


@pytest.mark.parametrize("C", [0.01, 1.0, 10.0])
def test_linear_classes_of_default_tolerance(dtype, C):  # noqa: F811
    """As near to the optimum as liblinear's defaults are; of float32 rows as scores are exact."""
    rows = CANCER.astype(dtype)
    model = LinearSVC(C=C).fit(rows, MALIGNANT)
    oracle = svm.LinearSVC(C=C, dual=False, tol=1e-8, max_iter=10_000).fit(CANCER, MALIGNANT)
    ours, theirs = (objective(m, CANCER, squared_hinge, C) for m in (model, oracle))
    assert ours <= theirs * (1 + (2e-5 if dtype == "float64" else 2e-4))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_linear_classes_by_l1(fit_intercept):
    params = {"penalty": "l1", "dual": False, "C": 0.1, "tol": 1e-6, "max_iter": 10_000}
    params["fit_intercept"] = fit_intercept
    model = LinearSVC(**params).fit(CANCER, MALIGNANT)
    oracle = svm.LinearSVC(**params).fit(CANCER, MALIGNANT)
    np.testing.assert_allclose(model.coef_, oracle.coef_, atol=2e-2)
    ours, theirs = (objective(m, CANCER, squared_hinge, 0.1, "l1") for m in (model, oracle))
    assert ours <= theirs * (1 + 1e-4)


WEIGHTS = {
    "nothing": ({}, None),
    "classes": ({"class_weight": {0: 0.5, 1: 2.0, 2: 3.0}}, None),
    "rows": ({}, np.linspace(0.1, 5.0, len(WINE))),
    "both": ({"class_weight": "balanced"}, np.linspace(0.1, 5.0, len(WINE))),
}


@pytest.mark.parametrize("weighted", WEIGHTS)
def test_linear_classes_of_three(weighted):
    params, weight = WEIGHTS[weighted]
    model = LinearSVC(tol=1e-6, **params).fit(WINE, CULTIVAR, sample_weight=weight)
    oracle = svm.LinearSVC(dual=False, tol=1e-8, max_iter=10_000, **params)
    oracle.fit(WINE, CULTIVAR, sample_weight=weight)
    assert model.coef_.shape == (3, 13)
    assert model.intercept_.shape == (3,)
    np.testing.assert_allclose(model.coef_, oracle.coef_, atol=2e-3)
    np.testing.assert_allclose(model.intercept_, oracle.intercept_, atol=2e-3)
    assert np.mean(model.predict(WINE) == oracle.predict(WINE)) > 0.99
    np.testing.assert_allclose(
        model.as_sklearn().decision_function(WINE), oracle.decision_function(WINE), atol=1e-2
    )


def test_linear_classes_with_sparse_coefficients():
    model = LinearSVC().fit(WINE, CULTIVAR)
    expected = model.decision_function(WINE)
    with gpuml.config_context(fallback="silent"):
        model.sparsify()
    assert sparse.issparse(model.coef_)
    np.testing.assert_allclose(model.decision_function(WINE), expected, rtol=1e-9)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_linear_regression_of_squared_losses(C):
    params = {"loss": "squared_epsilon_insensitive", "C": C, "epsilon": 0.1, "tol": 1e-8}
    model = LinearSVR(max_iter=10_000, **params).fit(DIABETES + 1.0, PROGRESS + 3.0)
    oracle = svm.LinearSVR(dual=False, max_iter=10_000, **params)
    oracle.fit(DIABETES + 1.0, PROGRESS + 3.0)
    np.testing.assert_allclose(model.coef_, oracle.coef_, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, oracle.intercept_, atol=1e-3)
    assert model.coef_.shape == (10,)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_linear_regression_with_weights(loss):
    """Weights are those of the losses, whatever their sum is."""
    weight, power = np.linspace(0.1, 20.0, len(DIABETES)), 1 + loss.startswith("squared")
    model = LinearSVR(loss=loss, epsilon=0.1, tol=1e-6)
    model.fit(DIABETES, PROGRESS, sample_weight=weight)
    oracle = svm.LinearSVR(loss=loss, epsilon=0.1, tol=1e-6, dual=power == 1, max_iter=300_000)
    oracle.fit(DIABETES, PROGRESS, sample_weight=weight)

    def losses(scores, k):
        return weight * np.maximum(np.abs(PROGRESS - scores) - 0.1, 0.0) ** power

    ours, theirs = (objective(m, DIABETES, losses) for m in (model, oracle))
    assert ours <= theirs * (1 + (1e-5 if power == 2 else 1e-3))


def test_linear_regression_of_absolute_losses():
    """A loss without a gradient at 0: the objective agrees, coefficients are less exact."""
    params = {"C": 1.0, "epsilon": 0.1, "max_iter": 100_000}
    model = LinearSVR(**params).fit(DIABETES, PROGRESS)
    oracle = svm.LinearSVR(**params).fit(DIABETES, PROGRESS)

    def losses(scores, k):
        return np.maximum(np.abs(PROGRESS - scores) - 0.1, 0.0)

    ours, theirs = (objective(m, DIABETES, losses) for m in (model, oracle))
    assert ours <= theirs * (1 + 1e-3)
