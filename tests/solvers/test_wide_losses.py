"""l1 logistic regression of more features than rows, on a CPU: near the optimum, at small cost."""

import numpy as np
import pytest

from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV
from gpuml.penalties import Penalty
from gpuml.solvers.prox_newton import SparseProblem


def wide(rng, n=80, p=400):
    X = rng.normal(size=(n, p))
    margin = X[:, :8] @ rng.normal(size=8)
    return X, (margin + rng.normal(size=n) > 0.3).astype(int)


def objective(model, X, y, weight):
    signs, coef = np.where(y > 0, 1.0, -1.0), model.coef_.ravel()
    losses = np.logaddexp(0.0, -signs * (X @ coef + model.intercept_))
    ratio = model.l1_ratio
    penalty = ratio * np.abs(coef).sum() + 0.5 * (1 - ratio) * coef @ coef
    return model.C * (weight @ losses) + penalty


def violation(model, X, y, weight):
    """By how much the conditions of optimality do not hold."""
    signs, coef = np.where(y > 0, 1.0, -1.0), model.coef_.ravel()
    slopes = -signs * weight / (1 + np.exp(signs * (X @ coef + model.intercept_)))
    slope = model.C * (slopes @ X) + (1 - model.l1_ratio) * coef
    wrong = Penalty(model.l1_ratio, 0.0).violation(coef, slope, np).max()
    return max(wrong, abs(model.C * slopes.sum()) if model.fit_intercept else 0.0)


@pytest.fixture
def no_whole_hessians(monkeypatch):
    def refuse(*args, **params):
        raise AssertionError("Hessians of all coefficients")

    monkeypatch.setattr(SparseProblem, "at", refuse)


@pytest.mark.pairwise
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("is_weighted", [True, False])
@pytest.mark.parametrize("C", [0.05, 1.0, 100.0])
def test_default_tol_is_near_the_optimum(
    rng, no_whole_hessians, l1_ratio, fit_intercept, is_weighted, C
):
    """As near as in units of its own penalty, however small that is."""
    X, y = wide(rng)
    weight = rng.integers(0, 3, size=len(y)) if is_weighted else np.ones(len(y))
    params = {"solver": "saga", "C": C, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    model = LogisticRegression(**params).fit(X, y, weight)
    exact = LogisticRegression(**params, tol=1e-10).fit(X, y, weight)
    least = objective(exact, X, y, weight)
    assert objective(model, X, y, weight) <= least * (1 + 2e-4)
    assert violation(exact, X, y, weight) < 1e-8 * C * weight.sum()


def test_all_candidates_are_as_each_by_itself(rng, no_whole_hessians):
    X, y = wide(rng)
    grid = {"C": [1.0, 0.02, 10.0], "l1_ratio": [1.0, 0.3]}
    search = GridSearchCV(LogisticRegression(solver="saga", tol=1e-9), grid, cv=3).fit(X, y)
    for params, score in zip(
        search.cv_results_["params"], search.cv_results_["split0_test_score"], strict=True
    ):
        one = GridSearchCV(search.estimator, {k: [v] for k, v in params.items()}, cv=3).fit(X, y)
        assert one.cv_results_["split0_test_score"][0] == pytest.approx(score, abs=1e-12)
