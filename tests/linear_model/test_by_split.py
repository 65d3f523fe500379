"""Models that are fitted to the rows of each split: they are at the optimum of their objective."""

import numpy as np
import pytest
import sklearn.linear_model as sk
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV as TheirSearch

from gpuml._arrays import device_of
from gpuml.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from gpuml.linear_model._by_split import Centred
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import array_libraries

QUANTILES = [
    {"quantile": 0.5, "alpha": 0.0},
    {"quantile": 0.9, "alpha": 0.01},
    {"quantile": 0.2, "alpha": 0.3},
    {"quantile": 0.05, "alpha": 0.0, "fit_intercept": False},
    {"quantile": 0.7, "alpha": 100.0},
]
HUBERS = [
    {},
    {"epsilon": 1.1, "alpha": 1.0},
    {"epsilon": 3.0, "alpha": 50.0, "fit_intercept": False},
]
MODELS = [
    *(QuantileRegressor(**params) for params in QUANTILES),
    *(HuberRegressor(**params) for params in HUBERS),
]


def outlying(rng, n_rows=150, n_features=4):
    """Features in units of their own, and targets with heavy tails."""
    units = np.logspace(-2, 2, n_features)
    X = rng.normal(size=(n_rows, n_features)) * units + 5.0
    y = X @ (np.array([1.0, 0.0, -1.0, 0.5])[:n_features] / units) + rng.standard_t(2, n_rows)
    return X, y, rng.integers(0, 3, n_rows).astype(float)


def pinball(model, X, y, weight):
    r, q = y - X @ model.coef_ - model.intercept_, model.quantile
    loss = np.average(np.maximum(q * r, (q - 1.0) * r), weights=weight)
    return loss + model.alpha * np.abs(model.coef_).sum()


def theirs(model):
    params = model.get_params()
    if isinstance(model, HuberRegressor):
        params |= {"tol": 1e-10, "max_iter": 100_000}
    return getattr(sk, type(model).__name__)(**params)


@pytest.mark.pairwise
@pytest.mark.parametrize("params", QUANTILES, ids=str)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("is_weighted", [False, True])
def test_quantiles_are_at_the_vertex(params, library, is_weighted, rng):
    X, y, weight = outlying(rng)
    weight = weight if is_weighted else np.ones(len(y))
    rows = library.asarray(X)
    model = QuantileRegressor(**params)
    model.fit(rows, library.asarray(y), library.asarray(weight) if is_weighted else None)
    assert device_of(model.coef_) == device_of(rows)
    expected = sk.QuantileRegressor(**params).fit(X, y, weight)
    model.coef_, model.intercept_ = (library.to_numpy(a) for a in (model.coef_, model.intercept_))
    np.testing.assert_allclose(
        pinball(model, X, y, weight), pinball(expected, X, y, weight), rtol=1e-10
    )
    # As many rows are on the plane as there are coefficients that are not 0.
    on_plane = np.abs(y - X @ model.coef_ - model.intercept_) < 1e-8
    n_free = np.count_nonzero(model.coef_) + model.fit_intercept
    assert on_plane[weight > 0].sum() >= n_free
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.pairwise
@pytest.mark.parametrize("params", HUBERS, ids=str)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("is_weighted", [False, True])
def test_no_direction_leads_down_from_hubers_models(params, library, is_weighted, rng):
    X, y, weight = outlying(rng)
    model = HuberRegressor(**params, tol=1e-9)
    rows = library.asarray(X)
    model.fit(rows, library.asarray(y), library.asarray(weight) if is_weighted else None)
    assert device_of(model.outliers_) == device_of(rows)
    coef, level = library.to_numpy(model.coef_), library.to_numpy(model.intercept_)
    weight = weight if is_weighted else np.ones(len(y))
    r, scale, epsilon = y - X @ coef - level, model.scale_, model.epsilon
    out = np.abs(r) > epsilon * scale
    np.testing.assert_array_equal(library.to_numpy(model.outliers_), out)
    pull = weight * np.where(out, epsilon * np.sign(r), r / scale)
    size = np.abs(X * pull[:, None]).sum(axis=0)
    np.testing.assert_allclose((X.T @ pull - model.alpha * coef) / size, 0.0, atol=1e-8)
    if model.fit_intercept:
        assert abs(pull.sum()) < 1e-7
    of_scale = weight @ np.where(out, 1.0 - epsilon**2, 1.0 - (r / scale) ** 2)
    assert abs(of_scale) < 1e-6


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_weights_are_repetitions(model, rng):
    X, y, weight = outlying(rng, 80)
    weighted = clone(model).fit(X, y, weight)
    times = weight.astype(int)
    repeated = clone(model).fit(X.repeat(times, axis=0), y.repeat(times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5, atol=1e-5)


@pytest.mark.each
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (QuantileRegressor(), {"quantile": [0.135, 0.475], "alpha": [0.0, 0.05, 1.0]}),
        (QuantileRegressor(quantile=0.435, alpha=0.01), {"fit_intercept": [True, False]}),
        (HuberRegressor(), {"epsilon": [1.2, 2.0], "alpha": [1e-4, 1.0]}),
        (HuberRegressor(), {"fit_intercept": [True, False]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_scaled", [False, True])
def test_searches_are_fits_one_by_one(model, grid, is_scaled, rng):
    X, y, _ = outlying(rng)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ours, other = model, theirs(model)
    if is_scaled:
        name = type(model).__name__.lower()
        grid = {f"{name}__{key}": values for key, values in grid.items()}
        ours, other = (make_pipeline(StandardScaler(), each) for each in (ours, other))
    found = GridSearchCV(ours, grid, cv=3).fit(X, y)
    expected = TheirSearch(other, grid, cv=3).fit(X, y)
    assert "together" in found.plan_.steps[0].why
    for split in range(3):
        name = f"split{split}_test_score"
        np.testing.assert_allclose(
            found.cv_results_[name], expected.cv_results_[name], rtol=1e-4, atol=1e-6
        )
    alone = clone(found.best_estimator_).fit(X, y)
    np.testing.assert_allclose(found.predict(X), alone.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_units_and_origin_of_features_do_not_matter_without_a_penalty(model, rng):
    X, y, _ = outlying(rng)
    model = clone(model).set_params(alpha=0.0)
    units = np.array([1e-6, 1.0, 1e5, 1e3])
    moved = 1e4 * units if model.fit_intercept else 0.0
    here, there = (clone(model).fit(rows, y).predict(rows) for rows in (X, X * units + moved))
    np.testing.assert_allclose(here, there, rtol=1e-6, atol=1e-6)


def test_equal_and_constant_features_have_an_optimum_too(rng):
    X, y, _ = outlying(rng)
    X = np.concatenate([X, X[:, :1], np.full((len(X), 1), 3.0)], axis=1)
    for model in (QuantileRegressor(alpha=0.0), QuantileRegressor(alpha=0.05)):
        once = clone(model).fit(X[:, :4], y)
        again = clone(model).fit(X, y)
        one = np.ones(len(y))
        np.testing.assert_allclose(pinball(again, X, y, one), pinball(once, X[:, :4], y, one))
    plain, more = (HuberRegressor().fit(rows, y) for rows in (X[:, :4], X))
    np.testing.assert_allclose(more.predict(X), plain.predict(X[:, :4]), rtol=1e-4, atol=1e-4)


def test_a_perfect_fit_is_found(rng):
    X, _, _ = outlying(rng)
    y = X @ [1.0, 0.0, 2.0, 0.0] + 3.0
    for model in (QuantileRegressor(alpha=0.0), HuberRegressor(alpha=0.0)):
        np.testing.assert_allclose(model.fit(X, y).predict(X), y, rtol=1e-7)


def test_what_scikit_learn_solves_says_so(rng):
    strict = pytest.importorskip("array_api_strict")
    X, y, _ = outlying(rng)
    for params in ({"solver": "highs-ds"}, {"solver_options": {"presolve": True}}):
        model = QuantileRegressor(alpha=0.01, **params)
        expected = sk.QuantileRegressor(alpha=0.01).fit(X, y)
        np.testing.assert_allclose(model.fit(X, y).coef_, expected.coef_, rtol=1e-6, atol=1e-9)
        with pytest.raises(ValueError, match="solver='highs' without solver_options"):
            model.fit(strict.asarray(X), strict.asarray(y))


def test_steps_that_end_early_are_told_of(rng):
    X, y, _ = outlying(rng)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        HuberRegressor(max_iter=1).fit(X, y)


def test_a_warm_start_at_the_optimum_takes_no_step(rng):
    X, y, _ = outlying(rng)
    model = HuberRegressor(warm_start=True, tol=1e-3).fit(X, y)
    before = model.coef_.copy()
    assert model.fit(X, y).n_iter_ == 0
    np.testing.assert_allclose(model.coef_, before, rtol=1e-9)
    with pytest.raises(ValueError, match="features"):
        model.fit(X[:, :2], y)


WARM = [HuberRegressor, Lasso, ElasticNet, LogisticRegression]
WARM += [PoissonRegressor, GammaRegressor, TweedieRegressor]


@pytest.mark.parametrize("kind", WARM)
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_a_warm_start_from_another_model_ends_at_the_same(kind, before, after, rng):
    X, y = rng.normal(size=(90, 3)), rng.uniform(1.0, 5.0, 90)
    y = y.astype(int) if kind is LogisticRegression else y
    options = {"tol": 1e-9, "max_iter": 5000}
    model = kind(warm_start=True, fit_intercept=before, **options).fit(X, y)
    model.set_params(fit_intercept=after).fit(X[:60], y[:60])
    alone = kind(fit_intercept=after, **options).fit(X[:60], y[:60])
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, alone.intercept_, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5)])
def test_planes_go_through_rows_that_are_no_more_than_coefficients(shape, rng):
    X, y = rng.normal(size=shape), rng.normal(size=shape[0])
    model = QuantileRegressor(alpha=0.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1e-200, 2.0])
def test_targets_that_are_all_the_same_have_no_outliers(value, rng):
    X, y = rng.normal(size=(20, 3)), np.full(20, value)
    model = HuberRegressor().fit(X, y)
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, value, rtol=1e-9, atol=1e-99)
    assert 0 < model.scale_ <= 1e-10


def test_huber_ends_where_steps_are_lost_in_rounding():
    """With more features than rows the scale tends to 0, and so does what a step can gain."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20, 50))
    y = X @ rng.normal(size=50) + 0.3 * rng.normal(size=20)
    model = HuberRegressor(tol=1e-9, max_iter=10_000).fit(X, y)
    assert model.n_iter_ < 1000
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6 * np.std(y))


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_hubers_models_of_few_rows_are_those_of_the_space_of_the_rows(
    fit_intercept, library, rng, monkeypatch
):
    X, y = rng.normal(size=(30, 80)), rng.standard_t(2, size=30)
    X[:10] = X[0]
    weight = rng.uniform(0.5, 2.0, size=30)
    given = [library.asarray(a) for a in (X, y, weight)]
    model = HuberRegressor(alpha=3.0, fit_intercept=fit_intercept, tol=1e-9, warm_start=True)
    with monkeypatch.context() as patched:
        patched.setattr(Centred, "in_row_space", Centred.of)
        plain = clone(model).fit(X, y, sample_weight=weight)
    size = np.abs(plain.coef_).max()
    for n_fits in range(2):
        model.fit(*given)
        found = library.to_numpy(model.coef_)
        np.testing.assert_allclose(found, plain.coef_, atol=(1e-7, 1e-6)[n_fits] * size)
        assert model.scale_ == pytest.approx(plain.scale_, rel=1e-6)
        # A start with a part outside of that space ends there too.
        model.coef_ = model.coef_ + library.asarray(rng.normal(size=80))
