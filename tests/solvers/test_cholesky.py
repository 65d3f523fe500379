"""Positive definite systems on a GPU, and an estimate of their condition that works on any array."""

import numpy as np
import pytest
from scipy.linalg import hilbert

from gpuml._arrays import HOST, cholesky, place_of
from gpuml._arrays.cholesky import first_sides, norm1_of_inverse
from gpuml._arrays.ops import solve_spd


def of_condition(rng, n, p, digits):
    """Matrices (n, p, p) with a known spectrum."""
    Q = np.linalg.qr(rng.normal(size=(n, p, p)))[0]
    return (Q * np.logspace(0, -digits, p)) @ np.swapaxes(Q, -1, -2)


@pytest.mark.parametrize("p", [1, 2, 7, 60])
@pytest.mark.parametrize("digits", [0, 4, 9])
def test_the_estimate_is_a_lower_bound_seldom_far_off(rng, p, digits):
    A = of_condition(rng, 30, p, digits)
    if p == 7:
        A = np.concatenate([A, hilbert(7)[None]])
    inverse = np.linalg.inv(A)
    exact = np.abs(inverse).sum(axis=-2).max(axis=-1)

    def solve(V):
        return inverse @ V

    ratio = norm1_of_inverse(solve, solve(first_sides(HOST.xp, A)), HOST.xp) / exact
    assert ratio.max() < 1 + 1e-6
    assert ratio.min() > 0.25


@pytest.mark.gpu
@pytest.mark.parametrize("large", [150, 10**6], ids=["one by one", "many in a call"])
@pytest.mark.parametrize("t", [1, 3])
def test_systems_of_higher_order_on_a_gpu(rng, monkeypatch, large, t):
    cupy = pytest.importorskip("cupy")
    monkeypatch.setattr(cholesky, "LARGE_ORDER", large)
    monkeypatch.setattr(cholesky, "CHUNK_BYTES", 8 * 200 * 200 * 2)
    p = 200
    A = np.concatenate([of_condition(rng, 4, p, digits) for digits in (1, 6)])
    B = rng.normal(size=(8, p, t))
    B[1] = 0.0
    A[3] = A[3] - 0.5 * np.eye(p)  # has negative eigenvalues
    A[5, :, 17], A[5, 17, :] = A[5, :, 18], A[5, 18, :]  # two equal rows and columns
    on_gpu = cupy.asarray(A), cupy.asarray(B)
    X, condition = (cupy.asnumpy(a) for a in solve_spd(*on_gpu, place_of(on_gpu[0]).xp))
    expected, exact = solve_spd(A, B, HOST.xp)
    fine = np.setdiff1d(np.arange(8), [3, 5])
    # Of a condition of 1e6, any backward stable solution has so many digits of its largest entry.
    largest = np.abs(expected[fine]).max(axis=(1, 2), keepdims=True)
    assert (np.abs(X[fine] - expected[fine]) <= 1e-8 * largest + 1e-9).all()
    ratio = condition[fine] / exact[fine]
    assert 0.2 < ratio.min() <= ratio.max() < 5
    assert not (condition[[3, 5]] < 1e13).any()
