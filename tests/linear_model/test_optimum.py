"""Law of the minimum: at its defaults no model is further from it than scikit-learn's at its own."""

import warnings

import numpy as np
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from scipy.special import log_softmax

from gpuml.linear_model import LogisticRegression, LogisticRegressionCV, PoissonRegressor
from gpuml.model_selection import GridSearchCV

# Differences of objectives that are no worse a model.
SAME = 1e-9
TIGHT = {"tol": 1e-9, "max_iter": 3000}
# Rows, features, classes (0 for counts), and what else is asked of the rows.
PROBLEMS = {
    "few rows": (60, 200, 2, ""),
    "few rows, classes": (60, 150, 3, "weights"),
    "few rows, other units": (60, 200, 2, "units"),
    "few rows, sparse": (150, 400, 2, "sparse"),
    "square": (150, 150, 2, "weights"),
    "square, other units": (100, 100, 3, "units"),
    "many rows": (400, 10, 2, ""),
    "many rows, classes": (400, 10, 4, "sparse"),
    "many rows, other units": (400, 10, 2, "units"),
    "wider": (500, 60, 2, "weights"),
    "counts": (300, 10, 0, "weights"),
    "counts, few rows": (60, 150, 0, ""),
}
STRENGTHS = [1e-2, 1.0, 1e2, 1e4]


def problem(n, p, k, kind):
    rng = np.random.default_rng(n + p + k)
    X = rng.normal(size=(n, p))
    margins = X[:, :20] @ rng.normal(size=(min(p, 20), max(k, 1))) / 4
    if k == 0:
        y = rng.poisson(np.exp(np.clip(margins[:, 0], -3, 3))).astype(float)
    else:
        y = np.argmax(margins + rng.gumbel(size=margins.shape), axis=1)
        y[:k] = range(k)
    if kind == "units":
        X = X * np.logspace(-1, 2, p) + np.logspace(-1, 2, p)
    if kind == "sparse":
        X = sparse.csr_array(np.where(rng.random(X.shape) < 0.1, np.abs(X), 0.0))
    return X, y, rng.uniform(0.1, 3, n) if kind == "weights" else None


def objective(model, X, y, weight, C):
    """Of a fitted model; of counts, C is alpha."""
    s = np.ones(len(y)) if weight is None else weight
    coef = np.atleast_2d(model.coef_)
    z = X @ coef.T + model.intercept_
    squares = np.sum(coef**2) / 2
    if not hasattr(model, "classes_"):
        return s @ (np.exp(z[:, 0]) - y * z[:, 0]) / s.sum() + C * squares
    if z.shape[1] == 1:
        z = np.hstack([0 * z, z])
    loss = -log_softmax(z, axis=1)[np.arange(len(y)), y]
    return (s @ loss + squares / C) / s.sum()


def quietly(estimator, X, y, weight):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn stops early at some of them, and says so
        return estimator.fit(X, y, sample_weight=weight)


def pair(k, C, **params):
    """Ours, and scikit-learn's."""
    if k == 0:
        return PoissonRegressor(alpha=C, **params), sk.PoissonRegressor(alpha=C, **params)
    return LogisticRegression(C=C, **params), sk.LogisticRegression(C=C, **params)


def check(found, theirs, k, C, X, y, weight):
    """The objective of a model is at most that of scikit-learn's, or next to the minimum."""
    ours = objective(found, X, y, weight, C)
    allowed = objective(quietly(theirs, X, y, weight), X, y, weight, C)
    if ours <= allowed + SAME:
        return
    tight = quietly(pair(k, C, **TIGHT)[0], X, y, weight)
    least = objective(tight, X, y, weight, C)
    pytest.fail(f"{ours - least:.1e} above the minimum, scikit-learn {allowed - least:.1e}")


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_default_model_is_further_from_the_minimum_than_scikit_learn_s(name):
    X, y, weight = problem(*PROBLEMS[name])
    k = PROBLEMS[name][2]
    for C in STRENGTHS if k else [1e-3, 1e-1, 10.0]:
        ours, theirs = pair(k, C)
        check(quietly(ours, X, y, weight), theirs, k, C, X, y, weight)


@pytest.mark.parametrize("name", ["few rows", "few rows, classes", "square", "many rows"])
def test_no_model_of_a_search_is_further_from_the_minimum(name):
    X, y, _ = problem(*PROBLEMS[name])
    k, n = PROBLEMS[name][2], len(y)
    train, test = np.arange(n // 4, n), np.arange(n // 4)
    cv = LogisticRegressionCV(
        Cs=STRENGTHS,
        cv=[(train, test)],
        l1_ratios=(0,),
        use_legacy_attributes=False,
        scoring="neg_log_loss",
    )
    quietly(cv, X, y, None)
    for C, W in zip(STRENGTHS, cv.coefs_paths_[0, 0], strict=True):
        of_path = sk.LogisticRegression()
        of_path.coef_, of_path.intercept_ = W[:, :-1], W[:, -1]
        of_path.classes_ = np.unique(y)
        check(of_path, pair(k, C)[1], k, C, X[train], y[train], None)
    # The last fit of a search starts at the mean of its models.
    search = GridSearchCV(LogisticRegression(), {"C": [1e2]}, cv=3).fit(X, y)
    check(search.best_estimator_, pair(k, 1e2)[1], k, 1e2, X, y, None)
