"""Kernels of slopes and of their sums give what plain operations of arrays give."""

import numpy as np
import pytest

from gpuml import losses
from gpuml.solvers._kernels import (
    CHUNK,
    MOST_IN_REGISTERS,
    add_sums,
    penalised,
    vectors_of,
    weighted_slope,
)

pytestmark = pytest.mark.gpu
N_CANDIDATES, N_SPLITS = 2, 3
N_ROWS = [257, 5000]  # less than a block of threads has, and rows of several


@pytest.mark.parametrize("n_rows", N_ROWS)
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [2, 10, MOST_IN_REGISTERS, MOST_IN_REGISTERS + 1, 12 * CHUNK, 100])
def test_slopes_of_classes(k, dtype, weighted, n_rows):
    check(losses.MULTINOMIAL, k, dtype, weighted, n_rows)


POWERS = [(1.0, "log"), (1.5, "log"), (2.0, "log"), (3.0, "log"), (0.0, "log")]
IDENTITY = [(0.0, "identity"), (1.5, "identity")]
TWEEDIE = [losses.tweedie(*each) for each in POWERS + IDENTITY]


@pytest.mark.parametrize("loss", [losses.BINOMIAL, *TWEEDIE], ids=lambda loss: loss.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("own", [False, True], ids=["one target", "a target each"])
@pytest.mark.parametrize("n_rows", N_ROWS)
def test_slopes_of_one_vector(loss, dtype, own, n_rows):
    check(loss, 1, dtype, True, n_rows, own=own)


def check(loss, k, dtype, weighted, n_rows, *, own=False):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    rng = np.random.default_rng(0)
    shape = (k, N_CANDIDATES, N_SPLITS)
    z = rng.normal(scale=20.0 if loss.coupled else 5.0, size=(*shape, n_rows)).astype(dtype)
    if loss.name.endswith("identity"):
        z = np.abs(z) + 5  # means, and not the barrier, which is all that would be seen
    offset = rng.normal(size=(*shape, 1)).astype(dtype)
    # As of a block in the midst of all rows.
    rows, n_all = slice(3, 3 + n_rows), n_rows + 7
    target = rng.integers(0, max(k, 2), (N_CANDIDATES, 1, n_all) if own else n_all)
    weights = rng.integers(0, 3, (N_SPLITS, n_all)).astype(np.uint8) if weighted else None
    there = [None if a is None else cupy.asarray(a)[..., rows] for a in (target, weights)]
    target, weights = (None if a is None else a[..., rows] for a in (target, weights))
    expected = loss.slope(z.astype(float) + offset, target, np)
    expected = expected * (1 if weights is None else weights)
    # The vectors of a model are neighbours there.
    z, offset, expected = (np.moveaxis(a, 0, 2) for a in (z, offset, expected))
    flat = (cupy.asarray(a.reshape(-1, a.shape[-1])) for a in (z, offset))
    found, sums = weighted_slope(loss, *flat, *there, (N_CANDIDATES, N_SPLITS, k))
    size = np.max(np.abs(expected), axis=-1, keepdims=True)
    error = np.abs(found.get().reshape(expected.shape) - expected) / size
    allowed = 1e-12 if dtype == "float64" else 1e-4
    assert error.max() < allowed
    products = rng.normal(size=(found.shape[0], 3))
    total = cupy.ones((found.shape[0], 4))
    add_sums(total, cupy.asarray(products), sums)
    np.testing.assert_allclose(total[:, :3].get(), 1 + products, rtol=1e-14)
    expected, size = (a.reshape(found.shape[0], -1) for a in (expected, size))
    error = np.abs(total[:, 3].get() - 1 - expected.sum(axis=1)) / (size[:, 0] * n_rows)
    assert error.max() < allowed


def test_vectors_and_gradients_are_as_of_plain_operations():
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    rng = np.random.default_rng(0)
    W, G = rng.normal(size=(2, 4, 3, 2, 6))
    coef, offset = (a.get() for a in vectors_of(cupy.asarray(W), np.dtype("float32")))
    flat = W.reshape(-1, 6).astype(np.float32)
    np.testing.assert_array_equal(np.concatenate([coef, offset], axis=1), flat)
    total, l2 = rng.uniform(1, 2, (3, 1, 1)), rng.uniform(size=(4, 3, 1, 6))
    used = np.ones((4, 1, 1, 6))
    used[..., -1] = 0
    found = penalised(*(cupy.asarray(a) for a in (G, total, l2, W, used)))
    np.testing.assert_allclose(found.get(), (G / total + l2 * W) * used, rtol=1e-14)
