"""Kernels of slopes give what plain operations of arrays give."""

import numpy as np
import pytest

from gpuml import losses
from gpuml.solvers._kernels import MOST_IN_REGISTERS, weighted_slope

pytestmark = pytest.mark.gpu
N_CANDIDATES, N_SPLITS, N_ROWS = 2, 3, 257


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [2, 10, MOST_IN_REGISTERS, MOST_IN_REGISTERS + 1, 100])
def test_slopes_of_classes(k, dtype, weighted):
    check(losses.MULTINOMIAL, k, dtype, weighted)


POWERS = [(1.0, "log"), (1.5, "log"), (2.0, "log"), (3.0, "log"), (0.0, "log")]
IDENTITY = [(0.0, "identity"), (1.5, "identity")]
TWEEDIE = [losses.tweedie(*each) for each in POWERS + IDENTITY]


@pytest.mark.parametrize("loss", [losses.BINOMIAL, *TWEEDIE], ids=lambda loss: loss.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_of_one_vector(loss, dtype):
    check(loss, 1, dtype, weighted=True)


def check(loss, k, dtype, weighted):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    rng = np.random.default_rng(0)
    shape = (k, N_CANDIDATES, N_SPLITS)
    z = rng.normal(scale=20.0 if loss.coupled else 5.0, size=(*shape, N_ROWS)).astype(dtype)
    if loss.name.endswith("identity"):
        z = np.abs(z) + 5  # means, and not the barrier, which is all that would be seen
    offset = rng.normal(size=(*shape, 1)).astype(dtype)
    target = rng.integers(0, max(k, 2), N_ROWS)
    weights = rng.integers(0, 3, (N_SPLITS, N_ROWS)).astype(np.uint8) if weighted else None
    expected = loss.slope(z.astype(float) + offset, target, np)
    expected = expected * (1 if weights is None else weights)
    flat = (cupy.asarray(a.reshape(-1, a.shape[-1])) for a in (z, offset))
    weights = None if weights is None else cupy.asarray(weights)
    found = weighted_slope(loss, *flat, cupy.asarray(target), weights, shape).get()
    size = np.max(np.abs(expected), axis=-1, keepdims=True)
    error = np.abs(found.reshape(expected.shape) - expected) / size
    assert error.max() < (1e-12 if dtype == "float64" else 1e-4)
