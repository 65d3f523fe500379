"""Inverses by halves are inverses, of matrices that are nearly singular too."""

import numpy as np
import pytest

from gpuml.solvers._inverses import BATCHED_ORDER, root_inverses


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
