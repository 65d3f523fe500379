"""Orthonormal columns of thin matrices, by products or by Householder's way."""

import numpy as np
import pytest

from gpuml._arrays import namespace
from gpuml.solvers import compressed
from gpuml.solvers.compressed import start
from gpuml.testing import array_libraries

SIZE = 400, 12


def of_condition(condition, rng):
    left, _ = np.linalg.qr(rng.normal(size=SIZE))
    right, _ = np.linalg.qr(rng.normal(size=(SIZE[1], SIZE[1])))
    return (left * np.geomspace(1, 1 / condition, SIZE[1])) @ right.T


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("condition", [1, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("smallest", [1, 1e-60])
def test_columns_are_orthonormal_to_rounding_whatever_they_were(library, condition, smallest, rng):
    Z = of_condition(condition, rng) * np.geomspace(1, smallest, SIZE[1])
    there = library.asarray(Z)
    Q, R = (library.to_numpy(a) for a in compressed._qr(there, namespace(there)))
    np.testing.assert_allclose(Q.T @ Q, np.eye(SIZE[1]), atol=1e-13)
    np.testing.assert_array_equal(np.tril(R, -1), 0)  # leading columns span what they spanned
    lengths = np.linalg.norm(Z, axis=0)
    np.testing.assert_allclose(Q @ R / lengths, Z / lengths, atol=1e-13)


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("condition", [1, 1e3, 1e6, 1e12])
def test_independent_columns_are_nearly_orthonormal_with_the_same_spans(library, condition, rng):
    Z = of_condition(condition, rng)
    Q = library.to_numpy(compressed.independent(library.asarray(Z)))
    np.testing.assert_allclose(Q.T @ Q, np.eye(SIZE[1]), atol=1e-7)
    triangle = np.linalg.lstsq(Q, Z, rcond=None)[0]
    np.testing.assert_allclose(Q @ triangle, Z, atol=1e-14)
    np.testing.assert_allclose(np.tril(triangle, -1), 0, atol=1e-14)


def test_products_are_for_well_conditioned_columns(rng):
    assert compressed._cholesky_qr(of_condition(1e3, rng)) is not None
    assert compressed._cholesky_qr(of_condition(1e6, rng)) is None
    for bad in (0.0, np.nan, np.inf, 1e200):
        Z = rng.normal(size=SIZE)
        Z[:, 3] = bad
        with np.errstate(over="ignore", invalid="ignore"):
            assert compressed._cholesky_qr(Z) is None


@pytest.mark.parametrize("width", [12, 300, 399])
def test_a_start_is_orthonormal(width):
    Q = start(SIZE[0], width, np.random.RandomState(0))
    np.testing.assert_allclose(Q.T @ Q, np.eye(width), atol=1e-12)
