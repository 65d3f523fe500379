"""Inverses by halves are inverses, of matrices that are nearly singular too."""

import numpy as np
import pytest

from gpuml.solvers._inverses import BATCHED_ORDER, inverse_spd, root_inverses


@pytest.mark.parametrize("order", [5, BATCHED_ORDER + 1, 3 * BATCHED_ORDER])
@pytest.mark.parametrize("ridge", [0.1, 1e-10])
def test_root_inverses_of_matrices_with_equal_columns(order, ridge):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2, 2 * order, order))
    # In one half, in the other, and across both.
    for one, other in ((0, 1), (order - 1, order - 2), (2, order - 3)):
        X[..., one] = X[..., other]
    H = np.swapaxes(X, 1, 2) @ X
    scale = np.sqrt(np.diagonal(H, axis1=1, axis2=2))
    H = H / scale[:, :, None] / scale[:, None, :] + ridge * np.eye(order)
    root = root_inverses(H, np)
    np.testing.assert_array_equal(np.triu(root, 1), 0)
    inverse = np.swapaxes(root, 1, 2) @ root
    # A factorisation is that of a matrix which rounding has changed.
    assert np.abs(inverse @ H - np.eye(order)).max() < 1e-13 * order / ridge
    assert np.linalg.eigvalsh(inverse).min() > 0


@pytest.mark.gpu
@pytest.mark.parametrize("order", [1, 2, 31, 33, 101, BATCHED_ORDER])
@pytest.mark.parametrize("ridge", [0.1, 1e-10])
def test_inverses_on_a_gpu_are_those_on_a_cpu(order, ridge):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    X = np.random.default_rng(0).normal(size=(2, 3, 2 * order, order))
    X[0, ..., -1] = X[0, ..., 0]  # nearly singular but for the ridge
    H = np.swapaxes(X, -1, -2) @ X
    scale = np.sqrt(np.diagonal(H, axis1=-2, axis2=-1))
    H = H / scale[..., None] / scale[..., None, :] + ridge * np.eye(order)
    found = cupy.asnumpy(inverse_spd(cupy.asarray(H), 0.5 * ridge, 1))
    np.testing.assert_array_equal(found, np.swapaxes(found, -1, -2))
    assert np.abs(found @ H - np.eye(order)).max() < 1e-13 * order / ridge
    np.testing.assert_allclose(found[1], inverse_spd(H, 0.5 * ridge, 1)[1], rtol=1e-9, atol=1e-10)


@pytest.mark.gpu
def test_pivots_that_rounding_takes_below_the_least_eigenvalue():
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    found = cupy.asnumpy(inverse_spd(cupy.ones((1, 2, 2)), 1e-10, 1))[0]
    assert np.linalg.eigvalsh(found).min() > 0
    np.testing.assert_allclose(found[1, 1], 1e10)
