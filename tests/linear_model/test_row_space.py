"""Laws of models of few rows: what is minimised in the space of the rows is the minimum."""

import numpy as np
import pytest
from sklearn.base import clone

from gpuml._arrays import to_host
from gpuml.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    TweedieRegressor,
)
from gpuml.model_selection import GridSearchCV
from gpuml.solvers import row_space
from gpuml.svm import LinearSVC, LinearSVR

N_ROWS, N_FEATURES = 24, 400
TIGHT = {"tol": 1e-10, "max_iter": 2000}
# Estimators, number of classes (0 for counts), and the parameter that is searched.
MODELS = {
    "two classes": (LogisticRegression(**TIGHT), 2, "C"),
    "classes": (LogisticRegression(**TIGHT, class_weight="balanced"), 3, "C"),
    "through zero": (LogisticRegression(**TIGHT, fit_intercept=False), 2, "C"),
    "exact": (LogisticRegression(**TIGHT, solver="newton-cholesky"), 2, "C"),
    "counts": (PoissonRegressor(**TIGHT), 0, "alpha"),
}
ROWS = {
    "as drawn": lambda X: X,
    "centred": lambda X: X - X.mean(axis=0),
    "far from zero": lambda X: X + 10.0,
    "repeated": lambda X: np.vstack([X[::2], X[::2]]),
    "other units": lambda X: X * np.logspace(-2, 2, X.shape[1]),
    "of few directions": lambda X: X[:, :5] @ X[:5],
}


def problem(rng, k, kind="as drawn"):
    X = ROWS[kind](rng.normal(size=(N_ROWS, N_FEATURES)))
    y = rng.integers(0, k, N_ROWS) if k else rng.poisson(1.5, N_ROWS).astype(float)
    y[:6] = [0, 1, max(k - 1, 1)] * 2
    return X, y, rng.uniform(0.5, 2.0, N_ROWS)


def searched(name, X, y, weight):
    estimator, _, param = MODELS[name]
    search = GridSearchCV(estimator, {param: [0.01, 0.1, 1.0]}, cv=3)
    return search.fit(X, y, sample_weight=weight)


def by_rows(monkeypatch):
    """Keep models out of the space of the rows."""
    monkeypatch.setattr(row_space, "has_none", lambda *_: True)


def close(found, expected, least=1e-8):
    found, expected = (to_host(a).astype(float) for a in (found, expected))
    np.testing.assert_allclose(found, expected, atol=least * np.abs(expected).max(), rtol=least)


@pytest.mark.each
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", MODELS)
def test_scores_and_coefficients_are_those_of_passes_over_the_rows(
    name, kind, weighted, library, rng, monkeypatch
):
    X, y, weight = problem(rng, MODELS[name][1], kind)
    given = [
        None if a is None else library.asarray(a) for a in (X, y, weight if weighted else None)
    ]
    found = searched(name, *given)
    assert found.plan_.n_passes == 2
    by_rows(monkeypatch)
    expected = searched(name, *given)
    assert expected.plan_.n_passes > 2
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(found.cv_results_[key], expected.cv_results_[key], atol=1e-8)
    close(found.best_estimator_.coef_, expected.best_estimator_.coef_, 1e-7)


@pytest.mark.parametrize("n_first", [None, 0, 2])
@pytest.mark.parametrize("name", ["two classes", "classes", "counts"])
def test_what_is_said_before_is_said_after(name, n_first, rng, monkeypatch):
    X, y, _ = problem(rng, MODELS[name][1])
    if n_first is None:
        X = X[:, : N_ROWS - 1]
    else:
        monkeypatch.setattr(row_space, "passes_before", lambda *_, newton: n_first)
    search = GridSearchCV(MODELS[name][0], {MODELS[name][2]: [1e-2, 1.0]}, cv=2, refit=False)
    (before,), (after,) = search.explain(X, y).steps, search.fit(X, y).plan_.steps
    expected = {None: "", 0: ", in the space of the rows"}
    said = expected.get(n_first, ", in the space of the rows after 2 passes")
    assert after.why == f"all candidates together{said}"
    assert before.why == after.why + (", if they take more" if n_first else "")


@pytest.mark.parametrize("name", MODELS)
def test_a_doubled_row_counts_as_one_of_twice_the_weight(name, rng):
    estimator, k, _ = MODELS[name]
    X, y, _ = problem(rng, k)
    doubled = np.arange(5, 15)
    twice = np.ones(N_ROWS)
    twice[doubled] = 2.0
    more = np.concatenate([np.arange(N_ROWS), doubled])
    close(
        estimator.fit(X[more], y[more]).coef_, estimator.fit(X, y, sample_weight=twice).coef_, 1e-7
    )


@pytest.mark.parametrize("name", ["two classes", "counts"])
def test_rows_that_are_nearly_alike_are_read_themselves(name, rng):
    X, y, _ = problem(rng, MODELS[name][1])
    X[1::2] = X[::2] * (1 + 1e-7 * rng.normal(size=X[::2].shape))
    assert searched(name, X, y, None).plan_.n_passes > 2


def test_single_precision_rows_lose_nothing_there(rng):
    X, y, _ = problem(rng, 2)
    X = X.astype(np.float32)
    found, expected = (LogisticRegression(**TIGHT).fit(a, y) for a in (X, X.astype(float)))
    assert found.coef_.dtype == np.float32
    close(found.coef_, expected.coef_, 1e-6)


def test_models_that_take_many_passes_go_on_in_the_space_of_the_rows(rng, monkeypatch):
    X, y, _ = problem(rng, 0)
    estimator = PoissonRegressor(**TIGHT, alpha=1e-3)
    expected = estimator.fit(X, y).coef_
    monkeypatch.setattr(row_space, "passes_before", lambda *_, newton: 5)
    found = estimator.fit(X, y)
    assert found.n_iter_ > 5
    close(found.coef_, expected, 1e-7)


@pytest.mark.parametrize("kind", ["as drawn", "centred", "repeated", "other units"])
@pytest.mark.parametrize(
    "estimator", [PoissonRegressor(), GammaRegressor(), TweedieRegressor(power=1.5)]
)
def test_without_a_penalty_the_minimum_has_the_least_norm(estimator, kind, rng):
    X = ROWS[kind](rng.normal(size=(N_ROWS, N_FEATURES)))
    # Of all models that predict the means y, this is the one in the space of the rows.
    w = X.T @ np.linalg.lstsq(X @ X.T, rng.uniform(-1.0, 1.0, N_ROWS), rcond=None)[0]
    tight = {"alpha": 0.0, "fit_intercept": False, "tol": 1e-12, "max_iter": 1000}
    close(estimator.set_params(**tight).fit(X, np.exp(X @ w)).coef_, w, 1e-7)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    "machine", [LinearSVC(C=10.0), LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.1)]
)
def test_machines_of_squared_losses_end_after_few_steps(machine, kind, rng, monkeypatch):
    """Of rows that are fewer than features most count at the minimum, as at the start."""
    X, y, _ = problem(rng, 2 if isinstance(machine, LinearSVC) else 0, kind)
    found = machine.fit(X, y)
    assert found.n_iter_ <= 10
    by_rows(monkeypatch)
    expected = clone(machine).set_params(tol=1e-10, max_iter=10_000).fit(X, y)
    close(found.coef_, expected.coef_, 1e-6)
    close(found.intercept_, expected.intercept_, 1e-6)


def test_all_machines_of_a_fit_and_of_a_search_share_the_space(rng, monkeypatch):
    factored, real = [], row_space.triangular
    monkeypatch.setattr(row_space, "triangular", lambda K: factored.append(K.shape) or real(K))
    X = rng.normal(size=(200, 300))
    y = rng.integers(0, 4, 200)
    LinearSVC().fit(X, y)
    assert factored == [(200, 200)]
    tubes = LinearSVR(loss="squared_epsilon_insensitive", max_iter=100)
    grid = {"epsilon": [0.0, 0.1, 0.5], "C": [0.1, 1.0], "max_iter": [100, 200]}
    GridSearchCV(tubes, grid, refit=False, cv=3).fit(X, y)
    assert len(factored) == 2
