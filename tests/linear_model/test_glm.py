"""Laws of generalised linear models: agreement, optimality, a search fits what single fits do."""

import warnings

import numpy as np
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import KFold

from gpuml._arrays import namespace, to_host
from gpuml.decomposition import PCA
from gpuml.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    PoissonRegressor,
    TweedieRegressor,
)
from gpuml.losses import tweedie
from gpuml.metrics.blocks import block_score
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from tests.model_selection.test_divided_search import check_search

TIGHT = {"tol": 1e-10, "max_iter": 1000}
GRID = {"alpha": [1e-4, 0.1, 3.0], "fit_intercept": [True, False]}
CASES = [
    {},
    {"alpha": 0.0},
    {"alpha": 10.0, "fit_intercept": False},
    {"solver": "newton-cholesky"},
]
# Models of a table, and the targets that each takes: those of the powers that are in use, and of
# objectives that are not convex.
MODELS = {
    "poisson": (PoissonRegressor(), "counts"),
    "gamma": (GammaRegressor(), "positive"),
    "normal": (TweedieRegressor(power=0), "numbers"),
    "compound": (TweedieRegressor(power=1.5), "sums"),
    "inverse gaussian": (TweedieRegressor(power=3), "positive"),
    "logarithm of normal": (TweedieRegressor(power=0, link="log"), "numbers"),
}
IDENTITY = {
    "poisson": (TweedieRegressor(power=1, link="identity"), "positive"),
    "compound": (TweedieRegressor(power=1.5, link="identity"), "positive"),
    "gamma": (TweedieRegressor(power=2, link="identity"), "positive"),
}


def counts(rng, n=300, p=5, dtype="float64"):
    X = rng.normal(size=(n, p)).astype(dtype)
    y = rng.poisson(np.exp(X[:, :3] @ [0.5, -0.3, 0.2] + 0.5)).astype(dtype)
    return X, y, (rng.integers(1, 4, n) / 2).astype(dtype)


def rows(rng, kind, n=300, dtype="float64"):
    """Rows, targets that a model of this kind takes, and weights."""
    X, y, weight = counts(rng, n, dtype=dtype)
    mean = np.exp(X[:, :3] @ [0.3, -0.2, 0.1] + 0.5)
    y = {
        "counts": lambda: y,
        "positive": lambda: mean * rng.gamma(5.0, 0.2, n),
        "sums": lambda: rng.poisson(mean) * rng.gamma(5.0, 0.2, n),
        "numbers": lambda: mean + 0.3 * rng.normal(size=n),
    }[kind]()
    return X, y.astype(dtype), weight


def pair(model, **params):
    """A model, and scikit-learn's with the same parameters."""
    ours = clone(model).set_params(**params)
    same = {k: v for k, v in ours.get_params().items() if k != "l1_ratio"}
    return ours, getattr(sk, type(model).__name__)(**same)


def close(found, expected, tol=1e-7):
    np.testing.assert_allclose(to_host(found), expected, rtol=tol, atol=tol)


@pytest.mark.pairwise
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("params", CASES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_agrees_with_sklearn(library, rng, name, params, weighted, dtype):
    model, kind = MODELS[name]
    X, y, weight = rows(rng, kind, dtype=dtype)
    weight = weight if weighted else None
    exact = [a if a is None else a.astype(float) for a in (X, y, weight)]
    theirs = pair(model, **params)[1].set_params(**TIGHT, solver="lbfgs").fit(*exact)
    there = [None if a is None else library.asarray(a) for a in (X, y, weight)]
    options = TIGHT if dtype == "float64" else {"tol": 1e-5}
    ours = pair(model, **params, **options)[0].fit(*there)
    tol = 1e-6 if dtype == "float64" else 1e-3
    close(ours.coef_, theirs.coef_, tol)
    assert float(ours.intercept_) == pytest.approx(float(theirs.intercept_), abs=tol)
    close(ours.predict(there[0]), theirs.predict(X), 10 * tol)
    assert ours.score(*there) == pytest.approx(theirs.score(*exact), abs=tol)
    assert type(ours.coef_) is type(there[0])
    assert str(ours.coef_.dtype) == str(there[0].dtype)
    if params.get("fit_intercept") is False:
        assert ours.intercept_ == 0.0


@pytest.mark.each
@pytest.mark.parametrize("name", IDENTITY)
def test_the_gradient_of_means_that_are_margins_is_zero(library, rng, name):
    model, kind = IDENTITY[name]
    X, y, weight = rows(rng, kind)
    model = clone(model).set_params(alpha=0.1, tol=1e-8, max_iter=1000)
    model.fit(*map(library.asarray, (X, y, weight)))
    mean, coef = to_host(model.predict(library.asarray(X))), to_host(model.coef_)
    assert (mean > 0).all()
    slope = weight * (mean - y) * mean**-model.power / weight.sum()
    assert np.abs(slope @ X + 0.1 * coef).max() < 2e-8
    assert abs(slope.sum()) < 2e-8
    with pytest.raises(ValueError, match="Use fit_intercept=True, or link='log'"):
        clone(model).set_params(fit_intercept=False).fit(X, y)


@pytest.mark.each
@pytest.mark.parametrize("name", ["poisson", "gamma", "inverse gaussian"])
def test_an_l1_part_leaves_a_subgradient_of_zero(library, rng, name):
    model, kind = MODELS[name]
    X, y, weight = rows(rng, kind)
    model = clone(model).set_params(alpha=0.2, l1_ratio=0.7, tol=1e-8, max_iter=1000)
    model.fit(*map(library.asarray, (X, y, weight)))
    mean, coef = to_host(model.predict(library.asarray(X))), to_host(model.coef_)
    slope = (weight * (mean - y) * mean ** (1.0 - model.power) / weight.sum()) @ X
    slope += 0.2 * 0.3 * coef
    assert 0 < (coef == 0).sum() < len(coef)
    assert (np.abs(slope[coef == 0]) <= 0.14 + 2e-8).all()
    close(slope[coef != 0], -0.14 * np.sign(coef[coef != 0]))


@pytest.mark.each
@pytest.mark.parametrize("name", MODELS)
def test_slope_and_curvature_are_derivatives_of_the_value(library, rng, name):
    model, kind = MODELS[name]
    check_derivatives(library, model.loss, rng.normal(size=50), rows(rng, kind, 50)[1])


@pytest.mark.each
@pytest.mark.parametrize("name", IDENTITY)
def test_so_they_are_where_means_are_margins(library, rng, name):
    model, kind = IDENTITY[name]
    check_derivatives(library, model.loss, rng.uniform(0.5, 2, 50), rows(rng, kind, 50)[1])


def check_derivatives(library, loss, z, y, step=1e-6):
    y = library.asarray(y)
    xp = namespace(y)

    def at(function, shift):
        found = to_host(function(library.asarray(z + shift)[None, :], y, xp))
        return found.reshape(-1)

    for function, derivative in (loss.value, loss.slope), (loss.slope, loss.curvature):
        if derivative is loss.curvature and loss.expected:
            assert (at(derivative, 0.0) > 0).all()
            continue
        change = (at(function, step) - at(function, -step)) / (2 * step)
        np.testing.assert_allclose(at(derivative, 0.0), change, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("params", CASES, ids=str)
def test_sparse_rows_give_what_dense_ones_do(rng, params):
    X, y, weight = counts(rng)
    X[np.abs(X) < 0.8] = 0
    X[:, 4] = 0  # a column without entries
    dense = PoissonRegressor(**params, **TIGHT).fit(X, y, weight)
    rows = sparse.csr_array(X)
    found = PoissonRegressor(**params, **TIGHT).fit(rows, y, weight)
    close(found.coef_, dense.coef_)
    close(found.predict(rows), dense.predict(X))
    for scoring in (None, "neg_mean_poisson_deviance"):
        searches = [
            GridSearchCV(PoissonRegressor(**TIGHT), GRID, cv=3, scoring=scoring).fit(each, y)
            for each in (X, rows)
        ]
        assert searches[1].plan_.n_passes < 20
        close(*(s.cv_results_["mean_test_score"] for s in searches))


def test_the_gradient_is_zero(rng):
    X, y, weight = counts(rng)
    for alpha in (0.0, 0.3):
        model = PoissonRegressor(alpha=alpha, tol=1e-9, max_iter=1000).fit(X, y, weight)
        slope = weight * (model.predict(X) - y) / weight.sum()
        assert np.abs(slope @ X + alpha * model.coef_).max() < 2e-9
        assert abs(slope.sum()) < 2e-9


def test_a_row_twice_is_a_row_of_twice_the_weight(rng):
    X, y, _ = counts(rng)
    times = rng.integers(0, 3, len(y))
    repeated = PoissonRegressor(**TIGHT).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    weighted = PoissonRegressor(**TIGHT).fit(X, y, times)
    close(weighted.coef_, repeated.coef_)


@pytest.mark.pairwise
@pytest.mark.parametrize("name", ["poisson", "gamma", "compound", "inverse gaussian"])
@pytest.mark.parametrize("scoring", [None, "r2", "neg_mean_poisson_deviance"])
@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_search_fits_in_the_same_passes_what_single_fits_do(
    library, rng, name, scoring, solver, weighted
):
    model, kind = MODELS[name]
    X, y, weight = rows(rng, kind)
    fit_params = {"sample_weight": library.asarray(weight)} if weighted else {}
    ours, theirs = pair(model, solver=solver, **TIGHT)
    search = GridSearchCV(ours, GRID, scoring=scoring, cv=4)
    search.fit(library.asarray(X), library.asarray(y), **fit_params)
    theirs = SklearnGridSearchCV(theirs.set_params(solver="lbfgs"), GRID, scoring=scoring, cv=4)
    theirs.fit(X, y, **({"sample_weight": weight} if weighted else {}))
    close(search.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], 1e-6)
    assert search.best_params_ == theirs.best_params_
    close(search.best_estimator_.coef_, theirs.best_estimator_.coef_, 1e-6)
    assert search.plan_.n_passes <= 40


@pytest.mark.parametrize("name", ["poisson", "compound"])
def test_shares_of_l1_join_a_search_and_powers_are_searches_of_their_own(rng, name):
    model, kind = MODELS[name]
    X, y, _ = rows(rng, kind)
    model = clone(model).set_params(tol=1e-9, max_iter=1000)
    grid = {"alpha": [0.01, 0.1], "l1_ratio": [0.0, 0.5, 1.0]}
    if "power" in model.get_params():
        grid["power"] = [1.3, 1.7]
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    results = search.cv_results_
    for params, score in zip(results["params"], results["mean_test_score"], strict=True):
        one = clone(model).set_params(**params)
        scores = [one.fit(X[a], y[a]).score(X[b], y[b]) for a, b in KFold(3).split(X)]
        assert score == pytest.approx(np.mean(scores), abs=1e-6)


@pytest.mark.parametrize("steps", [[StandardScaler()], [StandardScaler(), PCA(3)]], ids=str)
def test_behind_steps_models_are_of_images_of_the_rows(library, rng, steps):
    X, y, _ = counts(rng)
    pipeline = make_pipeline(*steps, PoissonRegressor(**TIGHT))
    grid = {"poissonregressor__alpha": [0.01, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(library.asarray(X + 5), library.asarray(y))
    one = [
        np.mean(
            [
                clone(pipeline)
                .set_params(**params)
                .fit(X[train] + 5, y[train])
                .score(X[test] + 5, y[test])
                for train, test in KFold(3).split(X)
            ]
        )
        for params in search.cv_results_["params"]
    ]
    close(search.cv_results_["mean_test_score"], one, 1e-6)


@pytest.mark.parametrize("scoring", [None, "r2", "neg_mean_poisson_deviance"])
@pytest.mark.parametrize("weighted", [False, True])
def test_divided_rows_give_what_rows_in_one_place_do(rng, scoring, weighted):
    X, y, weight = counts(rng, n=150)
    case = PoissonRegressor(), [{"alpha": 0.1}, {"alpha": 2.0, "fit_intercept": False}]
    weight = weight if weighted else None
    sizes = (50, 1, 99)
    check_search(case, X, y, weight, scoring=scoring, splitter=KFold(3), sizes=sizes)


@pytest.mark.parametrize("value", [1e6, 1e20, 1e36])
def test_held_out_rows_do_not_reach_a_model(rng, value):
    X, y, _ = counts(rng, n=90)
    folds = [(np.arange(30, 90), np.arange(30)), (np.arange(60), np.arange(60, 90))]
    wild, targets = X.copy(), y.copy()
    wild[60:, 0], targets[75:] = value, value
    # The second split holds the wild rows out; the first trains on them, and may fail.
    searches = [
        GridSearchCV(
            PoissonRegressor(tol=1e-11, max_iter=150),
            {"alpha": [0.1, 1.0]},
            cv=folds,
            refit=False,
            error_score=np.nan,
            return_train_score=True,
        )
        for _ in range(2)
    ]
    searches[0].fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what becomes of the first split
        searches[1].fit(wild, targets)
    clean, other = (search.cv_results_["split1_train_score"] for search in searches)
    assert np.isfinite(clean).all()
    close(other, clean, 1e-10)


def test_a_split_that_cannot_be_fitted_fails_alone(rng):
    X, y, _ = counts(rng, n=90)
    weight = np.ones(90)
    weight[30:60] = 0
    folds = [(np.arange(30, 60), np.arange(30)), (np.arange(60), np.arange(60, 90))]
    search = GridSearchCV(PoissonRegressor(), {"alpha": [0.1, 1.0]}, cv=folds, refit=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search.fit(X, y, sample_weight=weight)
    assert any("2 fits failed" in str(one.message) for one in said)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()
    alone = PoissonRegressor(alpha=0.1).fit(X[:30], y[:30])
    assert search.cv_results_["split1_test_score"][0] == pytest.approx(
        alone.score(X[60:], y[60:]), abs=1e-4
    )


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_what_a_model_cannot_have_is_refused_at_the_door(rng, kind):
    X, y, _ = counts(rng)
    X = sparse.csr_array(X) if kind == "sparse" else X
    model = PoissonRegressor().fit(X, y)
    before = dict(vars(model))
    for wrong, said in [
        (y - 3, "out of the valid range of the loss 'poisson'"),
        (np.where(y > 2, np.nan, y), "contains NaN"),
        (np.stack([y, y], axis=1), "should be a 1d array"),
    ]:
        with pytest.raises(ValueError, match=said):
            model.fit(X, wrong)
        assert vars(model) == before
    with pytest.raises(ValueError, match="alpha"):
        PoissonRegressor(alpha=-1).fit(X, y)


def test_early_stops_and_warm_starts(rng):
    X, y, _ = counts(rng)
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        PoissonRegressor(alpha=0, tol=1e-12, max_iter=1).fit(X, y)
    model = PoissonRegressor(warm_start=True, tol=1e-8).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= 1 <= first
    with pytest.raises(ValueError, match="warm_start=True starts from coef_"):
        model.fit(X[:, :3], y)


@pytest.mark.parametrize(
    "model",
    [
        *(LogisticRegression(solver=s) for s in ("lbfgs", "newton-cholesky", "saga")),
        *(PoissonRegressor(), HuberRegressor(), Lasso(), ElasticNet()),
    ],
)
def test_no_warm_start_begins_at_nan(rng, model):
    X, y, _ = counts(rng)
    y = y > 1
    model.set_params(warm_start=True).fit(X, y)
    model.coef_[..., 0] = np.nan
    before = dict(vars(model))
    with pytest.raises(ValueError, match="warm_start=True starts from coef_ and intercept_"):
        model.fit(X, y)
    assert vars(model) == before


def test_rates_beyond_floats_do_not_end_a_fit(rng):
    X, y, _ = counts(rng)
    X[:, 0] *= 1e3
    ours = PoissonRegressor(alpha=1e-6, max_iter=2000, tol=1e-6).fit(X, y)
    theirs = sk.PoissonRegressor(alpha=1e-6, solver="newton-cholesky", max_iter=500, tol=1e-9).fit(
        X, y
    )
    close(ours.predict(X), theirs.predict(X), 1e-3)


@pytest.mark.parametrize("shape", [(60, 3), (3000, 30)], ids=str)
@pytest.mark.parametrize("scale", [1e5, 1e6])
def test_large_targets_are_reached_without_an_intercept(rng, shape, scale):
    # The first step is as long as they are large. In float32 it was taken for noise.
    X = rng.uniform(-1, 1, size=shape).astype("float32")
    y = scale * np.exp(X[:, 0] + 0.3 * rng.normal(size=len(X)))
    model = PoissonRegressor(alpha=0.1, fit_intercept=False, tol=1e-6, max_iter=1000)
    expected = clone(model).fit(X.astype("float64"), y).predict(X)
    close(clone(model).fit(X, y).predict(X), expected, 1e-3)
    search = GridSearchCV(model, {"alpha": [0.1, 0.2]}, cv=3).fit(X, y)
    search64 = clone(search).fit(X.astype("float64"), y)
    found, exact = (each.cv_results_["mean_test_score"] for each in (search, search64))
    np.testing.assert_allclose(found, exact, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("power", "y"), [(0, 7.0), (1, 7.0), (1.5, 0.3), (2, 0.3), (3, 0.3)])
def test_far_out_the_slope_points_back(power, y, dtype):
    # Where exponentials are cut off: steps that come there must not be kept.
    z, target = np.array([-1e9, 1e9], dtype).reshape(1, 2), np.full((1, 2), y, dtype)
    slope = tweedie(power, "log").slope(z, target, np)[0]
    assert np.isfinite(slope).all()
    assert slope[0] <= 0 <= slope[1]


def test_one_row_is_fitted_by_its_target():
    X = np.array([[0.95594317, 0.7914856, 1.0, 0.20067653, 0.97930807]], "float32")
    y = np.array([0.5533846188163133])
    found = TweedieRegressor(power=3, tol=1e-10, max_iter=2000).fit(X, y)
    np.testing.assert_allclose(found.predict(X), y, rtol=1e-6)


def test_a_number_as_weight_of_a_score_is_that_of_each_row(rng):
    X, y, _ = counts(rng)
    twin, ours = sk.PoissonRegressor().fit(X, y), PoissonRegressor().fit(X, y)
    assert ours.score(X, y, 2.0) == pytest.approx(twin.score(X, y, 2.0), rel=1e-4)
    assert ours.score(X, y, 2.0) == pytest.approx(ours.score(X, y))


def test_a_constant_target_has_a_score_of_minus_infinity(rng):
    X, y, _ = counts(rng)
    twin, ours = sk.PoissonRegressor().fit(X, y), PoissonRegressor().fit(X, y)
    with np.errstate(divide="ignore"):
        assert ours.score(X, np.full(len(y), 2.0)) == twin.score(X, np.full(len(y), 2.0)) == -np.inf
        assert ours.score(X[:1], [2.0]) == twin.score(X[:1], [2.0]) == -np.inf
    known, several = block_score(ours), np.full(len(y), 2.0)
    assert known.finish(known.sums(ours.predict(X), several, None)) == -np.inf
    assert np.isnan(known.finish(known.sums(several, several, None)))
    y[:60] = 2.0
    # NumPy warns of the standard deviation of infinite scores.
    with pytest.warns(UserWarning, match="scores are non-finite"), np.errstate(invalid="ignore"):
        search = GridSearchCV(PoissonRegressor(), {"alpha": [0.1, 1.0]}).fit(X, y)
    assert (search.cv_results_["split0_test_score"] == -np.inf).all()
    assert np.isfinite(search.cv_results_["split1_test_score"]).all()
