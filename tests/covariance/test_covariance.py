"""Covariances are scikit-learn's, in single fits and in searches, wherever the rows are."""

import inspect
import warnings

import numpy as np
import pytest
import sklearn.covariance as sk
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV as TheirSearch

import gpuml.covariance
from gpuml import as_sklearn
from gpuml._arrays import device_of
from gpuml.covariance import (
    OAS,
    EmpiricalCovariance,
    LedoitWolf,
    ShrunkCovariance,
    empirical_covariance,
    log_likelihood,
    shrunk_covariance,
)
from gpuml.model_selection import GridSearchCV
from gpuml.testing import array_libraries

MODELS = [
    kind(**params)
    for kind in (EmpiricalCovariance, ShrunkCovariance, LedoitWolf, OAS)
    for params in ({}, {"assume_centered": True}, {"store_precision": False})
]
CENTRED = {"assume_centered": [False, True]}
GRIDS = [
    (EmpiricalCovariance(), CENTRED),
    (ShrunkCovariance(), {"shrinkage": [0.0, 0.1, 0.7, 1.0], **CENTRED}),
    (LedoitWolf(), {"block_size": [2, 1000], **CENTRED}),
    (OAS(), {"store_precision": [False, True], **CENTRED}),
]
# Of few rows, of a feature that is constant, and of one feature.
SHAPES = {"many rows": (120, 5), "few rows": (4, 6), "one feature": (30, 1)}


def theirs(model):
    return getattr(sk, type(model).__name__)(**model.get_params())


def rows(rng, shape=(120, 5)):
    n, p = shape
    X = rng.standard_t(5, size=(n, p)) @ (np.eye(p) + 0.4 * rng.normal(size=(p, p))) + 3.0
    if p > 1:
        X[:, 1] = 2.5
    return X


@pytest.mark.pairwise
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("shape", SHAPES)
def test_models_are_those_of_scikit_learn(model, library, shape, rng):
    X = rows(rng, SHAPES[shape])
    model, expected = clone(model), theirs(model).fit(X)
    given = library.asarray(X)
    model.fit(given)
    precision = expected.get_precision()
    assert device_of(model.covariance_) == device_of(given)
    assert (model.precision_ is None) == (expected.precision_ is None)
    for found, other in [
        (model.location_, expected.location_),
        (model.covariance_, expected.covariance_),
        (model.get_precision(), precision),
        (model.mahalanobis(given), expected.mahalanobis(X)),
    ]:
        scale = np.abs(other).max() or 1.0
        np.testing.assert_allclose(library.to_numpy(found) / scale, other / scale, atol=1e-9)
    assert getattr(model, "shrinkage_", 0) == pytest.approx(getattr(expected, "shrinkage_", 0))
    for norm in ("frobenius", "spectral"):
        found = model.error_norm(library.asarray(np.eye(X.shape[1])), norm, squared=False)
        assert found == pytest.approx(expected.error_norm(np.eye(X.shape[1]), norm, squared=False))
    # What scikit-learn says of a density that has none is what rounding makes of it.
    full = np.linalg.matrix_rank(precision, hermitian=True) == X.shape[1]
    assert model.score(given) == (pytest.approx(expected.score(X)) if full else -np.inf)


@pytest.mark.each
@pytest.mark.parametrize(("model", "grid"), GRIDS, ids=str)
@pytest.mark.parametrize("library", array_libraries())
def test_searches_give_the_scores_of_scikit_learn(model, grid, library, rng):
    X = np.delete(rows(rng), 1, axis=1)
    found = GridSearchCV(model, grid, return_train_score=True).fit(library.asarray(X))
    expected = TheirSearch(theirs(model), grid, return_train_score=True).fit(X)
    assert "together" in found.plan_.steps[0].why
    assert found.plan_.n_passes == 1
    for part in ("test", "train"):
        for split in range(5):
            name = f"split{split}_{part}_score"
            np.testing.assert_allclose(
                found.cv_results_[name], expected.cv_results_[name], rtol=1e-9
            )
    best = library.to_numpy(found.best_estimator_.covariance_)
    np.testing.assert_allclose(best, theirs(found.best_estimator_).fit(X).covariance_)
    assert found.score(library.asarray(X)) == pytest.approx(expected.score(X))


@pytest.mark.parametrize("model", MODELS[::3], ids=str)
def test_a_split_depends_on_its_own_training_rows(model, rng):
    X = np.delete(rows(rng), 1, axis=1)
    wild = X.copy()
    wild[:24] *= 1e9
    one, other = (
        GridSearchCV(model, CENTRED, return_train_score=True).fit(each) for each in (X, wild)
    )
    np.testing.assert_allclose(
        other.cv_results_["split0_train_score"], one.cv_results_["split0_train_score"], rtol=1e-12
    )


@pytest.mark.parametrize("model", MODELS[::3], ids=str)
def test_large_means_cost_few_digits(model, rng):
    X = np.delete(rows(rng), 1, axis=1)
    near, far = (clone(model).fit(X + shift) for shift in (0.0, 1e6))
    np.testing.assert_allclose(far.covariance_, near.covariance_, rtol=1e-8)
    assert far.score(X + 1e6) == pytest.approx(near.score(X), rel=1e-8)


def test_shares_are_those_of_the_formulas(rng):
    X = rows(rng)
    n, p = X.shape
    S = np.cov(X.T, bias=True)
    squares, distance = (S**2).sum(), (S**2).sum() - np.trace(S) ** 2 / p
    lengths = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    share = min(1.0, ((lengths**2).mean() - squares) / n / distance)
    assert LedoitWolf().fit(X).shrinkage_ == pytest.approx(share, rel=1e-12)
    share = min(1.0, (squares + np.trace(S) ** 2) / (n + 1) / distance)
    assert OAS().fit(X).shrinkage_ == pytest.approx(share, rel=1e-12)


def test_functions_are_scikit_learns(rng):
    X = rows(rng)
    X[:, 1] = X[:, 0] ** 2
    stack = np.stack([np.cov(X.T), np.eye(5)])
    np.testing.assert_allclose(shrunk_covariance(stack, 0.3), sk.shrunk_covariance(stack, 0.3))
    moments, precision = np.cov(X.T), np.linalg.inv(np.cov(X[:60].T))
    assert log_likelihood(moments, precision) == pytest.approx(
        sk.log_likelihood(moments, precision)
    )
    for name in ("empirical_covariance", "ledoit_wolf", "ledoit_wolf_shrinkage", "oas"):
        for centred in (False, True):
            found, expected = (
                getattr(module, name)(X, assume_centered=centred)
                for module in (gpuml.covariance, sk)
            )
            assert type(found) is tuple or type(expected) is not tuple
            both = (found, expected) if type(found) is tuple else ([found], [expected])
            for one, other in zip(*both, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9)
    with pytest.raises(ValueError, match="shrinkage"):
        shrunk_covariance(stack, 1.5)
    with pytest.raises(ValueError, match="do not go together"):
        log_likelihood(np.eye(2), np.eye(3))


def test_one_row_is_warned_of():
    for of in (EmpiricalCovariance().fit, empirical_covariance):
        with pytest.warns(UserWarning, match="Only one sample available"):
            of(np.ones((1, 3)))


def test_wrong_input_is_an_error_and_nothing_is_left_behind(rng):
    X = rows(rng)
    X[3, 2] = np.nan
    model = LedoitWolf()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X)
    with pytest.raises(ValueError, match="overflow"):
        model.fit(rows(rng) * 1e200)
    assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(NotImplementedError, match="Only spectral and frobenius"):
        model.fit(rows(rng)).error_norm(np.eye(5), norm="nuclear")


@pytest.mark.parametrize("shrinkage", [0.0, 0.5, 1.0])
def test_a_covariance_is_square(shrinkage):
    for shape in ((5, 3), (1, 3), (2, 3, 4)):
        with pytest.raises(ValueError, match="must be square"):
            gpuml.covariance.shrunk_covariance(np.ones(shape), shrinkage)


def test_float32_rows_give_float32(rng):
    X = rows(rng).astype(np.float32)
    model = LedoitWolf().fit(X)
    assert model.covariance_.dtype == model.precision_.dtype == np.float32
    expected = sk.LedoitWolf().fit(X.astype(np.float64))
    np.testing.assert_allclose(model.covariance_, expected.covariance_, atol=1e-5)
    twin = as_sklearn(model)
    assert type(twin) is sk.LedoitWolf
    assert twin.score(X) == pytest.approx(model.score(X), rel=1e-4)


@pytest.mark.parametrize("name", [n for n in sk.__all__ if inspect.isclass(getattr(sk, n))])
def test_all_classes_of_covariance_are_there(name, rng):
    params = {"random_state": 0} if name in ("EllipticEnvelope", "MinCovDet") else {}
    X = np.delete(rows(rng), 1, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of iterations
        found, expected = (
            getattr(module, name)(**params).fit(X) for module in (gpuml.covariance, sk)
        )
    np.testing.assert_allclose(found.covariance_, expected.covariance_, rtol=1e-9)
