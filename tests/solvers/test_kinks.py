"""Newton's method for few rows with kinks: laws of the minimum, and what else finds it."""

import numpy as np
import pytest

from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.solvers import kinks
from gpuml.svm import LinearSVC, LinearSVR

SQUARED = {"loss": "squared_epsilon_insensitive", "epsilon": 0.3}
TIGHT = {"tol": 1e-8, "max_iter": 1000}
MODELS = [
    LinearSVC(C=0.1, **TIGHT),
    LinearSVC(C=300.0, **TIGHT),
    LinearSVC(C=3.0, fit_intercept=False, **TIGHT),
    LinearSVR(C=10.0, **SQUARED, **TIGHT),
    LinearSVR(C=0.01, fit_intercept=False, **SQUARED, **TIGHT),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=str)


def problem(rng, model):
    """Rows of features whose scales differ by up to 1e3, one of them constant."""
    X = rng.normal(size=(1500, 60)) * 10.0 ** rng.uniform(-1.5, 1.5, 60)
    X[:, 3] = 0.0
    margin = X @ (rng.normal(size=60) / (X.std(axis=0) + 1e-9)) / 8
    margin += 0.3 * rng.normal(size=1500)
    return X, (margin > 0.5) if isinstance(model, LinearSVC) else margin


def objective(model, X, y, weight=1.0):
    """What liblinear minimises, at the model's coefficients."""
    w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    z = X @ w + b
    beyond = 1 - np.where(y, 1, -1) * z if y.dtype == bool else np.abs(y - z) - model.epsilon
    return 0.5 * (w @ w + b * b) + model.C * np.sum(weight * np.maximum(0, beyond) ** 2)


@pytest.fixture
def solved(monkeypatch):
    """Numbers of the models that the solver was asked for."""
    seen, real = [], kinks.minimise

    def minimise(data, total, penalty, start, *options):
        seen.append(start.shape[0] * start.shape[1])
        return real(data, total, penalty, start, *options)

    monkeypatch.setattr(kinks, "minimise", minimise)
    return seen


@each_model
@pytest.mark.parametrize("weighted", [False, True])
def test_the_minimum_is_that_of_other_steps(rng, model, weighted, solved, monkeypatch):
    X, y = problem(rng, model)
    weight = rng.integers(0, 3, len(X)).astype(float) if weighted else np.ones(len(X))
    found = objective(model.fit(X, y, weight), X, y, weight)
    assert solved
    n_iter = model.n_iter_
    monkeypatch.setattr(kinks, "are_few", lambda data: False)
    other = objective(model.fit(X, y, weight), X, y, weight)
    assert found <= other * (1 + 1e-9)
    assert n_iter <= 60


def test_steps_that_came_down_to_rounding_end_without_a_warning(rng):
    X, y = problem(rng, MODELS[1])
    # Warnings are errors here: more steps could not help.
    search = GridSearchCV(LinearSVC(tol=1e-300, max_iter=1000), {"C": [0.1, 300.0]}).fit(X, y)
    assert search.best_estimator_.n_iter_ < 100


@each_model
def test_no_step_away_from_the_minimum_leads_down(rng, model):
    X, y = problem(rng, model)
    least = objective(model.fit(X, y), X, y)
    for _ in range(20):
        away = model.coef_ + 1e-3 * np.abs(model.coef_) * rng.normal(size=np.shape(model.coef_))
        model.coef_, before = away, model.coef_
        assert objective(model, X, y) >= least * (1 - 1e-12)
        model.coef_ = before


@each_model
def test_searches_are_single_fits(rng, model, solved):
    """Behind a scaler too, whose features follow the training rows of each split."""
    X, y = problem(rng, model)
    X = X + 100.0
    pipeline = make_pipeline(StandardScaler(), model)
    name = pipeline.steps[-1][0]
    grid = {f"{name}__C": [0.01, 10.0, 0.3]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert "all candidates together" in str(search.plan_)
    assert 9 in solved
    expected = [
        GridSearchCV(pipeline, {f"{name}__C": [C]}, cv=3).fit(X, y).cv_results_["mean_test_score"]
        for C in grid[f"{name}__C"]
    ]
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], np.ravel(expected), rtol=1e-6, atol=1e-8
    )


@each_model
def test_a_row_twice_is_a_row_of_weight_two(rng, model):
    X, y = problem(rng, model)
    twice = np.concatenate([np.arange(len(X)), np.arange(50)])
    weight = np.where(np.arange(len(X)) < 50, 2.0, 1.0)
    both = [
        (np.ravel(m.coef_), np.ravel(m.intercept_))
        for m in (
            type(model)(**model.get_params()).fit(X[twice], y[twice]),
            type(model)(**model.get_params()).fit(X, y, weight),
        )
    ]
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
