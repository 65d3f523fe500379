"""Pairs of directions are scikit-learn's, in single fits and in searches, wherever the rows are."""

import numpy as np
import pytest
import sklearn.cross_decomposition as sk
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.pipeline import make_pipeline as their_pipeline
from sklearn.preprocessing import StandardScaler as TheirScaler

from gpuml import as_sklearn
from gpuml._arrays import device_of
from gpuml.cross_decomposition import CCA, PLSSVD, PLSCanonical, PLSRegression
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import array_libraries

MODELS = [
    PLSRegression(),
    PLSRegression(5, scale=False),
    PLSRegression(3, tol=1e-12),
    PLSCanonical(3),
    PLSCanonical(algorithm="svd"),
    CCA(),
    CCA(3, scale=False, tol=1e-12),
    PLSSVD(3),
    PLSSVD(scale=False),
]
# Of many rows; of fewer than features; of features nearly alike, of which moments lose the digits.
SHAPES = {"many": (150, 6), "wide": (25, 40), "alike": (150, 6)}
FITTED = (
    *("x_weights_", "y_weights_", "x_loadings_", "y_loadings_", "x_rotations_", "y_rotations_"),
    *("coef_", "intercept_", "x_scores_", "y_scores_"),
)


def rows(rng, shape="many", n_targets=4):
    n, p = SHAPES[shape]
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p))) + 2.0
    X[:, 1] = 7.0
    if shape == "alike":
        X[:, 3] = X[:, 0] + 1e-6 * rng.normal(size=n)
    return X, X[:, :n_targets] @ rng.normal(size=(n_targets, n_targets)) + rng.normal(
        size=(n, n_targets)
    )


def theirs(model):
    return getattr(sk, type(model).__name__)(**model.get_params())


@pytest.mark.pairwise
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("shape", SHAPES)
def test_models_are_those_of_scikit_learn(model, library, shape, rng):
    if shape == "wide" and isinstance(model, CCA):
        pytest.skip("targets are explained wholly: what comes next is rounding")
    X, Y = rows(rng, shape)
    model, expected = clone(model), theirs(model).fit(X, Y)
    given = library.asarray(X), library.asarray(Y)
    model.fit(*given)
    assert device_of(model.x_weights_) == device_of(given[0])
    for name in (n for n in FITTED if hasattr(expected, n)):
        found, other = library.to_numpy(getattr(model, name)), getattr(expected, name)
        # Directions of features alike lose what scikit-learn's rounding takes of them, too.
        atol = 1e-5 if shape == "alike" else 1e-9
        np.testing.assert_allclose(
            found / np.abs(other).max(), other / np.abs(other).max(), atol=atol, err_msg=name
        )
    assert getattr(model, "n_iter_", None) == getattr(expected, "n_iter_", None)
    for found, other in zip(model.transform(*given), expected.transform(X, Y), strict=True):
        np.testing.assert_allclose(library.to_numpy(found), other, atol=1e-5)
    if hasattr(expected, "predict"):
        np.testing.assert_allclose(
            library.to_numpy(model.predict(given[0])), expected.predict(X), rtol=1e-6, atol=1e-6
        )
        assert model.score(*given) == pytest.approx(expected.score(X, Y), abs=1e-8)
        both = (
            m.inverse_transform(*m.transform(*g)) for m, g in [(model, given), (expected, (X, Y))]
        )
        for found, other in zip(*both, strict=True):
            np.testing.assert_allclose(library.to_numpy(found), other, rtol=1e-5, atol=1e-5)


@pytest.mark.each
@pytest.mark.parametrize("model", [PLSRegression(), PLSCanonical(), CCA()], ids=str)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_targets", [1, 4])
def test_searches_give_the_scores_of_scikit_learn(model, library, shape, n_targets, rng):
    most = 4 if isinstance(model, PLSRegression) else n_targets
    most = 1 if shape == "wide" and isinstance(model, CCA) else most
    X, Y = rows(rng, shape, n_targets)
    Y = Y[:, 0] if n_targets == 1 else Y
    grid = {"n_components": [*range(1, most + 1)], "scale": [True, False]}
    found = GridSearchCV(model, grid).fit(library.asarray(X), library.asarray(Y))
    expected = TheirSearch(theirs(model), grid).fit(X, Y)
    assert "together" in found.plan_.steps[0].why
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=1e-7
    )
    best = found.best_estimator_.predict(library.asarray(X))
    alone = theirs(found.best_estimator_).fit(X, Y).predict(X)
    np.testing.assert_allclose(library.to_numpy(best), alone, rtol=1e-5, atol=1e-6)


def test_searches_read_rows_once_unless_moments_lose_digits(rng):
    grid = {"n_components": [1, 5]}
    for shape, n_passes in {"many": 1, "wide": 1, "alike": 2}.items():
        found = GridSearchCV(PLSRegression(), grid).fit(*rows(rng, shape))
        assert found.plan_.n_passes == n_passes, shape


@pytest.mark.parametrize("model", [PLSRegression(), CCA()], ids=str)
def test_they_join_the_pass_of_scalers(model, rng):
    X, Y = rows(rng)
    grid = {f"{type(model).__name__.lower()}__n_components": [1, 2]}
    found = GridSearchCV(make_pipeline(StandardScaler(), model), grid).fit(X, Y)
    expected = TheirSearch(their_pipeline(TheirScaler(), theirs(model)), grid).fit(X, Y)
    assert "together" in found.plan_.steps[0].why
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9
    )
    scores, other = (s.best_estimator_[-1] for s in (found, expected))
    for name in ("x_scores_", "y_scores_"):
        if hasattr(other, name):
            np.testing.assert_allclose(getattr(scores, name), getattr(other, name), atol=1e-8)


def test_a_split_depends_on_its_own_training_rows(rng):
    X, Y = rows(rng)
    wild = X.copy()
    wild[:30] *= 1e9
    grid = {"n_components": [1, 3]}
    one, other = (
        GridSearchCV(PLSRegression(), grid, return_train_score=True).fit(each, Y)
        for each in (X, wild)
    )
    np.testing.assert_allclose(
        other.cv_results_["split0_train_score"], one.cv_results_["split0_train_score"], rtol=1e-10
    )


@pytest.mark.parametrize("kind", [PLSRegression, PLSCanonical, CCA])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_beyond_the_rank_change_nothing(kind, seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(60, 3)) + 10.0
    X[:, 0] = X[:, 1] - 2.0 * X[:, 2] if seed % 2 else 3.3
    Y = X @ random.normal(size=(3, 4)) + random.normal(size=(60, 4))
    with pytest.warns(UserWarning, match="X residual is constant at iteration 2"):
        three = kind(3, scale=seed < 2).fit(X, Y)
    search = GridSearchCV(kind(scale=seed < 2), {"n_components": [2, 3]}, cv=3)
    with pytest.warns(UserWarning, match="X residual is constant at iteration 2"):
        search.fit(X, Y)
    two = kind(2, scale=seed < 2).fit(X, Y)
    np.testing.assert_allclose(three.predict(X), two.predict(X), rtol=1e-9)
    scores = search.cv_results_["mean_test_score"]
    assert scores[1] == pytest.approx(scores[0], rel=1e-6)


@pytest.mark.parametrize("model", [PLSRegression(), PLSSVD()], ids=str)
def test_repeated_rows_change_nothing(model, rng):
    X, Y = rows(rng)
    once, twice = (
        clone(model).set_params(scale=False).fit(np.tile(X, (k, 1)), np.tile(Y, (k, 1)))
        for k in (1, 2)
    )
    np.testing.assert_allclose(twice.x_weights_, once.x_weights_, atol=1e-9)


def test_what_cannot_be_found_is_said(rng):
    X, Y = rows(rng)
    with pytest.warns(ConvergenceWarning, match="Maximum number of iterations"):
        PLSRegression(max_iter=2, tol=0.0).fit(X, Y)
    with pytest.warns(UserWarning, match="y residual is constant at iteration 0"):
        model = PLSRegression().fit(X, np.ones(len(X)))
    np.testing.assert_array_equal(model.predict(X), 1.0)
    with pytest.warns(UserWarning, match="X residual is constant at iteration 0"):
        model = PLSRegression().fit(np.ones_like(X), Y)
    np.testing.assert_allclose(model.predict(X), np.tile(Y.mean(axis=0), (len(X), 1)))
    for model, error in [(PLSRegression(7), "upper bound is 6"), (CCA(5), "upper bound is 4")]:
        with pytest.raises(ValueError, match=error):
            model.fit(X, Y)
        assert not [name for name in vars(model) if name.endswith("_")]
    X[0, 0] = np.nan
    for some in (slice(None), slice(0, 5)):
        with pytest.raises(ValueError, match="NaN"):
            PLSRegression().fit(X[some], Y[some])
    with pytest.warns(FitFailedWarning, match="upper bound is 4"):
        found = GridSearchCV(CCA(), {"n_components": [1, 5]}, error_score=-1.0).fit(*rows(rng))
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"] == -1, [False, True])


@pytest.mark.parametrize("model", [PLSRegression(), PLSSVD()], ids=str)
def test_models_become_scikit_learns(model, rng):
    X, Y = rows(rng)
    fitted = clone(model).fit(X.astype(np.float32), Y)
    twin = as_sklearn(fitted)
    assert type(twin).__module__.startswith("sklearn.")
    assert fitted.x_weights_.dtype == np.float32
    np.testing.assert_allclose(twin.transform(X), fitted.transform(X), atol=1e-4)
