"""Least angle regression, matching pursuit, multi-task lasso, relevance determination."""

import numpy as np
import pytest
import sklearn.linear_model as sk
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.pipeline import make_pipeline as their_pipeline
from sklearn.preprocessing import StandardScaler as TheirScaler

import gpuml.linear_model as ours
from gpuml._arrays import device_of
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import array_libraries

# Name, parameters, targets. Multi-task models stop at a gap, which has to be small to compare them.
TIGHT = {"tol": 1e-10, "max_iter": 10_000}
CASES = [
    ("OrthogonalMatchingPursuit", {"n_nonzero_coefs": 3}, 1),
    ("OrthogonalMatchingPursuit", {"fit_intercept": False}, 3),
    ("OrthogonalMatchingPursuit", {"tol": 300.0}, 3),
    ("Lars", {}, 1),
    ("Lars", {"n_nonzero_coefs": 4, "fit_intercept": False}, 3),
    ("Lars", {"n_nonzero_coefs": 4, "fit_path": False}, 3),
    ("Lars", {"jitter": 1e-3, "random_state": 0}, 1),
    ("LassoLars", {"alpha": 0.1}, 1),
    ("LassoLars", {"alpha": 0.1, "positive": True}, 3),
    ("LassoLars", {"alpha": 0.01, "max_iter": 3}, 1),
    ("LassoLars", {"alpha": 100.0}, 1),
    ("LassoLarsIC", {}, 1),
    ("LassoLarsIC", {"criterion": "bic", "fit_intercept": False}, 1),
    ("LassoLarsIC", {"positive": True}, 1),
    ("LassoLarsIC", {"noise_variance": 2.0, "max_iter": 5}, 1),
    ("LarsCV", {}, 1),
    ("LarsCV", {"fit_intercept": False, "max_iter": 4}, 1),
    ("LassoLarsCV", {"positive": True, "max_n_alphas": 7, "cv": 3}, 1),
    ("LassoLarsCV", {}, 1),
    ("OrthogonalMatchingPursuitCV", {}, 1),
    ("OrthogonalMatchingPursuitCV", {"max_iter": 8, "fit_intercept": False}, 1),
    ("ARDRegression", {"compute_score": True}, 1),
    ("ARDRegression", {"fit_intercept": False, "threshold_lambda": 100.0, "lambda_1": 0.1}, 1),
    ("ARDRegression", {"threshold_lambda": 1e-9}, 1),
    ("MultiTaskLasso", {"alpha": 0.3, **TIGHT}, 3),
    ("MultiTaskElasticNet", {"alpha": 0.1, "fit_intercept": False, **TIGHT}, 3),
    ("MultiTaskLassoCV", {"alphas": 8, **TIGHT}, 3),
    ("MultiTaskElasticNetCV", {"alphas": [1.0, 0.1], "l1_ratio": [0.5, 0.9], **TIGHT}, 3),
]


def data(rng, n_targets=1, n_rows=90, p=8):
    """Correlated features that are not centred, and targets of a third of them."""
    X = rng.normal(size=(n_rows, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p))) + 3.0
    coef = np.where(np.arange(p) % 3 == 0, 1.0, 0.0)[:, None] * rng.normal(size=(p, n_targets))
    Y = X @ coef + rng.normal(size=(n_rows, n_targets))
    return X, Y[:, 0] if n_targets == 1 else Y


def fitted_attributes(model):
    return {n: x for n, x in vars(model).items() if n.endswith("_") and not n.startswith("_")}


def same(found, expected, library, name):
    if isinstance(expected, list):
        assert len(found) == len(expected), name
        for one, other in zip(found, expected, strict=True):
            same(one, other, library, name)
    elif expected is None:
        assert found is None, name
    else:
        found = library.to_numpy(found)
        assert found.shape == np.shape(expected), name
        # Gaps of models that are optimal to rounding are rounding.
        atol = 1e-7 if name in ("dual_gap_", "mse_path_") else 1e-9
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=atol, err_msg=name)


@pytest.mark.pairwise
@pytest.mark.parametrize(("name", "params", "n_targets"), CASES, ids=str)
@pytest.mark.parametrize("library", array_libraries())
def test_models_are_those_of_scikit_learn(name, params, n_targets, library, rng):
    X, y = data(rng, n_targets)
    expected = getattr(sk, name)(**params).fit(X, y)
    rows = library.asarray(X)
    model = getattr(ours, name)(**params).fit(rows, library.asarray(y))
    assert set(fitted_attributes(model)) == set(fitted_attributes(expected))
    for attribute, value in fitted_attributes(expected).items():
        same(getattr(model, attribute), value, library, attribute)
    assert device_of(model.coef_) == device_of(model.predict(rows)) == device_of(rows)
    np.testing.assert_allclose(
        library.to_numpy(model.predict(rows)), expected.predict(X), rtol=1e-6
    )
    if name == "ARDRegression":
        deviations = library.to_numpy(model.predict(rows, return_std=True)[1])
        np.testing.assert_allclose(deviations, expected.predict(X, return_std=True)[1], rtol=1e-6)


SEARCHES = [
    ("OrthogonalMatchingPursuit", {"n_nonzero_coefs": [None, 1, 2, 7]}, 1),
    ("OrthogonalMatchingPursuit", {"tol": [None, 120.0, 1e3]}, 3),
    ("Lars", {"n_nonzero_coefs": [1, 2, 7, 500], "fit_intercept": [True, False]}, 3),
    ("LassoLars", {"alpha": [0.001, 10.0, 0.1], "max_iter": [3, 500]}, 3),
    ("LassoLars", {"alpha": [0.0, 0.1], "positive": [True, False]}, 1),
    ("LassoLarsIC", {"criterion": ["aic", "bic"], "noise_variance": [None, 4.0]}, 1),
    ("ARDRegression", {"threshold_lambda": [1e4, 3.0], "max_iter": [2, 300]}, 1),
    ("MultiTaskLasso", {"alpha": [0.01, 1.0, 0.1], "fit_intercept": [True, False]}, 3),
    ("MultiTaskElasticNet", {"alpha": [1.0, 0.1], "l1_ratio": [0.2, 0.9]}, 3),
]


@pytest.mark.parametrize(("name", "grid", "n_targets"), SEARCHES, ids=str)
@pytest.mark.parametrize("is_scaled", [False, True])
def test_searches_are_fits_one_by_one(name, grid, n_targets, is_scaled, rng):
    X, y = data(rng, n_targets)
    params = TIGHT if name.startswith("MultiTask") else {}
    own, theirs = getattr(ours, name)(**params), getattr(sk, name)(**params)
    if is_scaled:
        grid = {f"{name.lower()}__{key}": values for key, values in grid.items()}
        own = make_pipeline(StandardScaler(), own)
        theirs = their_pipeline(TheirScaler(), theirs)
    found, expected = GridSearchCV(own, grid).fit(X, y), TheirSearch(theirs, grid).fit(X, y)
    assert found.plan_.n_passes == 1
    for split in range(5):
        key = f"split{split}_test_score"
        np.testing.assert_allclose(found.cv_results_[key], expected.cv_results_[key], rtol=1e-6)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["MultiTaskLasso", "MultiTaskLassoCV"])
def test_a_weight_is_a_repetition(name, rng):
    X, Y = data(rng, 2)
    times = rng.integers(0, 3, len(X))
    cv = [(np.arange(45), np.arange(45, 90)), (np.arange(45, 90), np.arange(45))]
    again = np.repeat(np.arange(len(X)), times)
    parts = [tuple(np.flatnonzero(np.isin(again, part)) for part in pair) for pair in cv]
    params = [{"cv": each} for each in (cv, parts)] if name.endswith("CV") else [{}, {}]
    weighted = getattr(ours, name)(**TIGHT, **params[0]).fit(X, Y, times * 2.5)
    repeated = getattr(ours, name)(**TIGHT, **params[1]).fit(X[again], Y[again])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)
    assert weighted.n_iter_ == repeated.n_iter_


def test_the_gap_is_that_of_the_objective_and_rows_stand_for_all_of_them(rng):
    X, Y = data(rng, 3)
    X[:, 5] = X[:, 0] + X[:, 1]  # moments have no inverse
    X[:, 6] = 1.0
    model, expected = ours.MultiTaskLasso(0.3, tol=1e-3), sk.MultiTaskLasso(0.3, tol=1e-3)
    model.fit(X, Y), expected.fit(X, Y)
    assert model.n_iter_ == expected.n_iter_
    np.testing.assert_allclose(model.dual_gap_, expected.dual_gap_, rtol=1e-6)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    assert (model.coef_[:, 6] == 0).all()
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    best = ours.MultiTaskLasso(0.3, tol=1e-12, max_iter=10_000).fit(X, Y).coef_
    slopes = X.T @ (Y - X @ best.T) / len(X)  # (p, t)
    used = np.linalg.norm(best, axis=0) > 0
    np.testing.assert_allclose(
        slopes[used], 0.3 * (best[:, used] / np.linalg.norm(best[:, used], axis=0)).T, atol=1e-6
    )
    assert (np.linalg.norm(slopes[~used], axis=1) <= 0.3 + 1e-6).all()


def test_a_warm_start_begins_at_the_last_model(rng):
    X, Y = data(rng, 2)
    model = ours.MultiTaskElasticNet(alpha=0.1, warm_start=True, tol=1e-8).fit(X, Y)
    assert model.fit(X, Y).n_iter_ < 3


def test_what_scikit_learn_refuses_is_refused(rng):
    X, y = data(rng)
    with pytest.raises(ValueError, match="For mono-task outputs, use ElasticNet"):
        ours.MultiTaskLasso().fit(X, y)
    with pytest.raises(ValueError, match="For mono-task outputs, use LassoCV"):
        ours.MultiTaskLassoCV().fit(X, y)
    with pytest.raises(ValueError, match="number of atoms cannot be more"):
        ours.OrthogonalMatchingPursuit(n_nonzero_coefs=9).fit(X, y)
    with pytest.raises(ValueError, match="good estimate for the variance"):
        ours.LassoLarsIC().fit(X[:9], y[:9])
    with pytest.raises(ValueError, match="minimum of 2"):
        ours.OrthogonalMatchingPursuitCV().fit(X[:, :1], y)
    for gram in (True, "auto", None):
        with pytest.raises(ValueError, match="0 sample"):
            ours.lars_path(X[:0], y[:0], Gram=gram)
    for name in ("LarsCV", "LassoLarsIC", "ARDRegression", "OrthogonalMatchingPursuitCV"):
        with pytest.raises(ValueError, match="1d array"):
            getattr(ours, name)().fit(X, np.stack([y, y], axis=1))


@pytest.mark.parametrize("name", ["LarsCV", "LassoLarsCV"])
def test_a_gram_matrix_of_other_features_is_refused(name, rng):
    X, y = data(rng)
    for shape in ((3, 3), (8, 7), (8,)):
        with pytest.raises(ValueError, match="shapes of the inputs Gram"):
            getattr(ours, name)(precompute=np.ones(shape)).fit(X, y)


def test_models_that_scikit_learn_fits_are_its_own(rng):
    X, y = data(rng)
    for params, fit in [({"precompute": X.T @ X}, {}), ({}, {"Xy": X.T @ y[:, None]})]:
        found, expected = (kind(**params, fit_intercept=False) for kind in (ours.Lars, sk.Lars))
        np.testing.assert_array_equal(found.fit(X, y, **fit).coef_, expected.fit(X, y, **fit).coef_)
    wide = rng.normal(size=(10, 20))
    for name in ("Lars", "LassoLarsCV", "OrthogonalMatchingPursuit", "ARDRegression"):
        found, expected = (getattr(package, name)() for package in (ours, sk))
        np.testing.assert_array_equal(
            found.fit(wide, y[:10]).coef_, expected.fit(wide, y[:10]).coef_
        )
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match="precompute='auto' and no Xy"):
        ours.Lars(precompute=X.T @ X).fit(strict.asarray(X), strict.asarray(y))


def test_dependent_features_are_told_of(rng):
    X, y = data(rng)
    X[:, 1] = X[:, 0]
    with pytest.warns(RuntimeWarning, match="Orthogonal matching pursuit ended prematurely"):
        model = ours.OrthogonalMatchingPursuit(n_nonzero_coefs=8).fit(X, y)
    assert model.n_iter_ == 7


@pytest.mark.parametrize("library", array_libraries()[2:])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_path_of_few_rows_ends_before_rounding_decides(scale, library, rng):
    X = np.round(10.0 * rng.normal(size=(20, 60))) * scale
    y = X[:, 0] / scale + rng.normal(size=20)
    rows, target = library.asarray(X), library.asarray(y)
    with pytest.warns(ConvergenceWarning, match=r"The path ends after \d+ of \d+ steps|degenerate"):
        model = ours.Lars().fit(rows, target)
    assert model.score(rows, target) > 0.9
    path = library.to_numpy(model.coef_path_)
    left = np.sum((y[:, None] - y.mean() - (X - X.mean(axis=0)) @ path) ** 2, axis=0)
    assert (np.diff(left) <= 1e-6 * left[0]).all()
    assert model.alphas_.shape == path.shape[1:]


def test_of_constants_there_are_models_without_features(rng):
    X, y = data(rng)
    for model in (ours.LarsCV(), ours.LassoLars(0.1), ours.LassoLarsIC(), ours.ARDRegression()):
        model.fit(np.ones_like(X), y)
        np.testing.assert_array_equal(model.coef_, 0.0)
        np.testing.assert_allclose(model.intercept_, y.mean())
    with pytest.warns(RuntimeWarning, match="ended prematurely"):
        assert ours.OrthogonalMatchingPursuit(n_nonzero_coefs=2).fit(X, 0 * y).n_iter_ == 0


@pytest.mark.parametrize("library", array_libraries())
def test_functions_give_what_those_of_scikit_learn_give(library, rng):
    X, Y = data(rng, 2)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    y, Gram = Y[:, 0], X.T @ X
    calls = [
        ("lars_path", (X, y), {"return_n_iter": True}),
        ("lars_path", (X, y), {"method": "lasso", "alpha_min": 0.1, "return_path": False}),
        ("lars_path", (X, y, X.T @ y), {"Gram": Gram, "method": "lasso", "positive": True}),
        ("lars_path_gram", (X.T @ y, Gram), {"n_samples": len(X), "max_iter": 3}),
        ("orthogonal_mp", (X, Y), {"tol": 200.0, "return_n_iter": True}),
        ("orthogonal_mp", (X, y), {"return_path": True, "n_nonzero_coefs": 4}),
        ("orthogonal_mp_gram", (Gram, X.T @ Y), {"n_nonzero_coefs": 2}),
        ("orthogonal_mp", (X, y), {}),
    ]
    for name, arrays, options in calls:
        expected = getattr(sk, name)(*arrays, **options)
        own = {n: library.asarray(x) if n == "Gram" else x for n, x in options.items()}
        found = getattr(ours, name)(*map(library.asarray, arrays), **own)
        if not isinstance(expected, tuple):
            found, expected = (found,), (expected,)
        for one, other in zip(found, expected, strict=True):
            if isinstance(other, np.ndarray):
                assert device_of(one) == device_of(library.asarray(X))
                one = library.to_numpy(one)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
