"""Prediction intervals: what they cover of new rows, and what their bounds are by definition."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit
from sklearn.tree import DecisionTreeRegressor

from gpuml._arrays import to_host
from gpuml.linear_model import Lasso, Ridge
from gpuml.model_selection import ConformalRegressor
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import array_libraries

METHODS = ["plus", "minmax", "base", "split"]


def rows(n, seed):
    """Skewed noise, whose size depends on the row."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    return X, X[:, 0] + (0.5 + np.abs(X[:, 1])) * random.exponential(size=n)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("method", METHODS)
def test_intervals_cover_what_they_say(method, coverage):
    X, y = rows(600, 0)
    model = ConformalRegressor(Ridge(), method=method).fit(X, y)
    X, y = rows(4_000, 1)
    lower, upper = model.predict_interval(X, coverage)
    covered = ((lower <= y) & (y <= upper)).mean()
    # The coverage of one fit varies: as a share of 150 residuals does (split), or of 600; and what
    # is seen of it, as a share of 4,000 rows.
    spread = (coverage * (1 - coverage) / (150 if method == "split" else 600)) ** 0.5
    assert covered > coverage - 4 * spread - 0.02
    assert covered < coverage + 4 * spread + (0.04 if method == "minmax" else 0.02)


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("method", METHODS[:3])
@pytest.mark.parametrize(
    "cv", [4, KFold(5, shuffle=True, random_state=0), LeaveOneOut()], ids=["4", "KFold", "LOO"]
)
@pytest.mark.parametrize(
    "model", [Ridge(), make_pipeline(StandardScaler(), Lasso())], ids=["Ridge", "pipeline"]
)
def test_bounds_by_definition(model, cv, method, library):
    X, y = (each[:40] for each in load_diabetes(return_X_y=True))
    given = library.asarray(X[:33]), library.asarray(y[:33])
    found = ConformalRegressor(model, method=method, cv=cv).fit(*given)
    bounds = found.predict_interval(library.asarray(X[33:]), 0.8)
    splits = KFold(4) if cv == 4 else cv
    residuals, said = [], []
    for train, test in splits.split(X[:33]):
        one = clone(model).fit(X[train], y[train])
        residuals += list(np.abs(y[test] - one.predict(X[test])))
        said += [one.predict(X[33:])] * len(test)
    residuals, said = np.asarray(residuals), np.asarray(said)  # (33,), (33, 7)
    rank = int(np.ceil(0.8 * 34))
    half = np.sort(residuals)[rank - 1]
    if method == "plus":
        expected = (
            np.sort(said - residuals[:, None], axis=0)[34 - rank - 1],
            np.sort(said + residuals[:, None], axis=0)[rank - 1],
        )
    elif method == "minmax":
        expected = said.min(axis=0) - half, said.max(axis=0) + half
    else:
        middle = clone(model).fit(X[:33], y[:33]).predict(X[33:])
        expected = middle - half, middle + half
    for bound, right in zip(bounds, expected, strict=True):
        np.testing.assert_allclose(to_host(bound), right, rtol=1e-8)
    assert type(bounds[0]) is type(given[0])


def test_split_conformal_predicts_with_the_model_of_the_training_part():
    X, y = load_diabetes(return_X_y=True)
    cv = ShuffleSplit(1, test_size=0.3, random_state=0)
    model = ConformalRegressor(DecisionTreeRegressor(max_depth=3), method="split", cv=cv)
    model.fit(X, y)
    assert len(model.estimators_) == 1
    np.testing.assert_array_equal(model.predict(X), model.estimators_[0].predict(X))
    lower, upper = model.predict_interval(X)
    np.testing.assert_allclose(upper - lower, (upper - lower)[0])
    assert model.n_features_in_ == 10


def test_weights_go_to_fits():
    X, y = rows(200, 0)
    weight = np.repeat([1.0, 0.0], 100)
    found = ConformalRegressor(Ridge(), cv=KFold(4, shuffle=True, random_state=0))
    found.fit(X, y, sample_weight=weight)
    expected = Ridge().fit(X[:100], y[:100]).coef_
    np.testing.assert_allclose(found.estimator_.coef_, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "target", "words"),
    [
        ({"cv": RepeatedKFold(n_splits=2, n_repeats=2)}, lambda y: y, "more than once"),
        ({"method": "split", "cv": 3}, lambda y: y, "cv of one split"),
        ({}, lambda y: np.stack([y, y], axis=1), "one target"),
        ({"method": "other"}, lambda y: y, "method"),
    ],
    ids=["repeats", "split", "targets", "method"],
)
def test_what_is_refused(options, target, words):
    X, y = rows(50, 0)
    with pytest.raises(ValueError, match=words):
        ConformalRegressor(Ridge(), **options).fit(X, target(y))


def test_more_coverage_than_residuals_can_show():
    X, y = rows(50, 0)
    model = ConformalRegressor(Ridge()).fit(X, y)
    with pytest.raises(ValueError, match="needs 99 residuals, and there are 50"):
        model.predict_interval(X, 0.99)
    for coverage in (1.0, "0.9"):
        with pytest.raises(ValueError, match="a number between 0 and 1"):
            model.predict_interval(X, coverage)


class OfFewRows(Ridge):
    """Fails with many rows."""

    def fit(self, X, y, sample_weight=None):
        if len(y) > 80:
            raise ValueError("too many rows")
        return super().fit(X, y, sample_weight)


def test_a_fit_that_fails_on_all_rows_changes_nothing(rng):
    X, y = rng.normal(size=(90, 3)), rng.normal(size=90)
    model = ConformalRegressor(OfFewRows(), cv=5).fit(X[:50, :2], y[:50])
    before = dict(vars(model))
    with pytest.raises(ValueError, match="too many rows"):
        model.fit(X, y)
    assert vars(model) == before
