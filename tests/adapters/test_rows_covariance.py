"""Rows of `gpuml.covariance` around a fake cuML."""

import inspect
import warnings

import numpy as np
import pytest
from scipy import linalg
from sklearn import covariance
from sklearn.datasets import load_iris

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml.adapters.rows.covariance import pinvh
from gpuml.covariance import EmpiricalCovariance, LedoitWolf

X = load_iris().data


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_rows", [5, 400])
def test_inverses_are_scipys(dtype, n_rows):
    rows = np.random.default_rng(0).normal(size=(n_rows, 20)).astype(dtype)
    rows[:, 3] = 1.0
    rows[:, 4] = rows[:, 5] + rows[:, 6]
    matrix = np.cov(rows.T, dtype=dtype)
    inverse, expected = pinvh(matrix), linalg.pinvh(matrix)
    assert inverse.dtype == dtype
    assert np.linalg.matrix_rank(matrix, hermitian=True) < 20
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        inverse / scale, expected / scale, atol=200 * float(np.finfo(dtype).eps)
    )


@pytest.mark.parametrize("model", [EmpiricalCovariance(), LedoitWolf()])
@pytest.mark.parametrize("store", [True, False])
def test_covariances_are_used(fake, model, store):
    # A column of zeros makes the covariance singular.
    rows = np.hstack([X, np.zeros((150, 1))])
    device_rows, other = fake.on_device(rows), np.eye(5)
    model.set_params(store_precision=store)
    oracle = model._row.sk(**model.get_params()).fit(rows)
    with gpuml.config_context(fallback="error"):
        model.fit(device_rows)
        assert (model.precision_ is None) == (not store)
        _assert_close(model.get_precision(), oracle.get_precision())
        _assert_close(model.mahalanobis(device_rows), oracle.mahalanobis(rows))
        assert model.score(device_rows) == pytest.approx(oracle.score(rows))
        for given in ({}, {"norm": "spectral", "scaling": False, "squared": False}):
            error = model.error_norm(fake.on_device(other), **given)
            assert error == pytest.approx(oracle.error_norm(other, **given))
        with pytest.raises(NotImplementedError, match="Only spectral and frobenius"):
            model.error_norm(other, norm="nuclear")


def _assert_close(ours, theirs):
    np.testing.assert_allclose(to_host(ours), theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "name", [n for n in covariance.__all__ if inspect.isclass(getattr(covariance, n))]
)
def test_all_classes_of_covariance_are_there(fake, name):
    ours = getattr(gpuml.covariance, name)()
    oracle = getattr(covariance, name)()
    if "random_state" in oracle.get_params():
        ours.set_params(random_state=0)
        oracle.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fall back, and of iterations
        ours.fit(fake.on_device(X))
        oracle.fit(X)
    assert place_of(ours.covariance_) == fake.device_place()
    np.testing.assert_allclose(to_host(ours.covariance_), oracle.covariance_, rtol=1e-9)
    assert place_of(ours.mahalanobis(fake.on_device(X))) == fake.device_place()
    assert ours.computes_on_gpu() == (name in ("EmpiricalCovariance", "LedoitWolf"))
