"""Products with packed codes are those of the dense matrices."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from gpuml._arrays.threads import blas_threads
from gpuml.encodings import Packed, _host, pack
from gpuml.encodings.products import backward, both, counts, forward
from gpuml.testing import ArrayLibrary, array_libraries

KINDS = [(2, True), (2, False), (4, True), (4, False), (8, True), (8, False)]
SHAPES = [(0, 5), (1, 1), (3, 1), (300, 7), (5, 13), (1000, 4)]
RTOL = {"float64": 1e-12, "float32": 2e-5}


def dense(rng, n, p, bits, missing):
    """Codes, packed; X0 and M."""
    top = 2**bits - 1
    codes = rng.integers(0, top + 1, (n, p)).astype(float)
    if missing:
        codes[codes == top] = np.nan
    return pack(codes, bits, missing=missing), np.nan_to_num(codes), np.isnan(codes).astype(float)


def close(result, expected, dtype="float64"):
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(result, expected, rtol=0, atol=RTOL[dtype] * scale)
    assert result.shape == expected.shape


@pytest.mark.pairwise
@pytest.mark.parametrize(("bits", "missing"), KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_products_are_those_of_the_dense_matrix(rng, bits, missing, shape, dtype):
    packed, X0, M = dense(rng, *shape, bits, missing)
    p = shape[1]
    W, W_missing = rng.standard_normal((2, p, 3)).astype(dtype)
    offset = rng.standard_normal(3)
    Y = forward(packed, W, W_missing)
    close(Y, X0 @ W + M @ W_missing, dtype)
    assert Y.dtype == dtype
    close(forward(packed, W), X0 @ W, dtype)
    values, absent = backward(packed, Y, with_missing=True)
    close(values, X0.T @ Y, dtype)
    close(absent, M.T @ Y, dtype)
    assert values.dtype == absent.dtype == np.float64
    assert backward(packed, Y)[1] is None
    result = both(packed, W, W_missing, offset)
    expected = X0 @ W + M @ W_missing - offset
    close(result.Y, expected, dtype)
    close(result.values, X0.T @ expected, dtype)
    close(result.missing, M.T @ expected, dtype)
    alone = both(packed, W)
    close(alone.values, X0.T @ (X0 @ W), dtype)
    assert alone.missing is None


@pytest.mark.pairwise
@pytest.mark.parametrize(("bits", "missing"), KINDS)
@pytest.mark.parametrize("shape", [*SHAPES, (600, 1030)], ids=str)
def test_counts_are_exact(rng, bits, missing, shape):
    packed, X0, M = dense(rng, *shape, bits, missing)
    result = counts(packed)
    assert all(x.dtype == np.int64 and x.shape == (shape[1],) for x in result)
    np.testing.assert_array_equal(result.n_present, shape[0] - M.sum(axis=0))
    np.testing.assert_array_equal(result.total, X0.sum(axis=0))
    np.testing.assert_array_equal(result.squares, (X0**2).sum(axis=0))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_counts_of_the_largest_codes_do_not_overflow(bits):
    top = 2**bits - 1
    packed = Packed(np.full((70_000, 1), 255, dtype=np.uint8), 8 // bits, bits, missing=False)
    n_present, total, squares = counts(packed)
    assert set(n_present) == {70_000}
    assert set(total) == {70_000 * top}
    assert set(squares) == {70_000 * top**2}


@pytest.fixture
def small_pieces(monkeypatch):
    """Many panels of columns, blocks and runs, as of large matrices."""
    monkeypatch.setattr(_host, "PANEL_COLUMNS", 8)
    monkeypatch.setattr(_host, "BLOCK_ROWS", 16)
    monkeypatch.setattr(_host, "BLOCK_CODES", 64)
    monkeypatch.setattr(_host, "RUN_CODES", 32 * 30)
    monkeypatch.setattr(_host, "THREADED_FROM_PRODUCTS", 0)


@pytest.mark.bits
@pytest.mark.each
@pytest.mark.parametrize("p", [8, 30])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.usefixtures("small_pieces")
def test_panels_runs_and_threads_change_nothing(rng, p, bits):
    packed, X0, M = dense(rng, 333, p, bits, True)
    W, W_missing = rng.standard_normal((2, p, 5)).astype(np.float32)
    offset = rng.standard_normal(5)
    with threadpool_limits(1, user_api="blas"):
        one = [*both(packed, W, W_missing, offset), *counts(packed)]
    with threadpool_limits(4, user_api="blas"):
        four = [*both(packed, W, W_missing, offset), *counts(packed)]
    for a, b in zip(one, four, strict=True):
        np.testing.assert_array_equal(a, b)
    Y = X0 @ W + M @ W_missing - offset
    close(one[0], Y, "float32")
    close(one[1], X0.T @ Y, "float32")
    close(one[2], M.T @ Y, "float32")
    np.testing.assert_array_equal(one[4], X0.sum(axis=0))


@pytest.mark.usefixtures("small_pieces")
def test_blas_has_its_threads_back_after_an_error(rng, monkeypatch):
    def fail(*args):
        raise RuntimeError("on purpose")

    packed = dense(rng, 333, 8, 2, False)[0]
    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        monkeypatch.setattr(_host, "_multiply", fail)
        with pytest.raises(RuntimeError, match="on purpose"):
            both(packed, np.ones((8, 2)))
        assert blas_threads() == before


@pytest.mark.bits
def test_other_threads_than_the_main_one_get_the_same(rng):
    packed = dense(rng, 20_000, 60, 2, True)[0]
    W = rng.standard_normal((60, 10))
    with ThreadPoolExecutor(3) as pool:
        others = list(pool.map(lambda _: both(packed, W, W), range(3)))
    for other in others:
        for a, b in zip(other, both(packed, W, W), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())


def test_sums_over_rows_are_float64(rng):
    # In float32 alone, 2**24 + 1 + 1 ... would stay 2**24.
    packed = Packed(np.full((2**16, 1), 1, dtype=np.uint8), 1)
    Y = np.ones((2**16, 1), dtype=np.float32)
    Y[0] = 2**24
    assert backward(packed, Y)[0][0, 0] == pytest.approx(2**24 + 2**16 - 1, abs=2**10)


def test_padding_bits_do_not_count(rng):
    packed = Packed(rng.integers(0, 256, (50, 2), dtype=np.uint8), 5)
    clean = packed[:, [0, 1, 2, 3, 4]]
    W = rng.standard_normal((5, 2))
    for a, b in zip(both(packed, W, W), both(clean, W, W), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(counts(packed), counts(clean), strict=True):
        np.testing.assert_array_equal(a, b)


def test_slices_memory_maps_and_any_order_of_memory(rng, tmp_path):
    packed, X0, _ = dense(rng, 40, 11, 2, True)
    np.save(tmp_path / "x.npy", packed.data)
    mapped = Packed(np.load(tmp_path / "x.npy", mmap_mode="r"), 11)
    W = np.asfortranarray(rng.standard_normal((11, 6)))[:, ::-2]
    W.flags.writeable = False
    for rows in (slice(3, 20), slice(None, None, -3)):
        close(forward(mapped[rows], W), X0[rows] @ W)
        close(both(mapped[rows], W).values, X0[rows].T @ (X0[rows] @ W))


def test_shapes_and_types_are_checked():
    packed = pack([[0, 1, 2]])
    with pytest.raises(ValueError, match=r"W of shape \(2, 1\) does not go with.*\(3, l\)"):
        forward(packed, np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"\(3, l\) was expected"):
        forward(packed, np.ones(3))
    with pytest.raises(ValueError, match=r"Y of shape"):
        backward(packed, np.ones((3, 1)))
    with pytest.raises(ValueError, match="W and W_missing differ"):
        both(packed, np.ones((3, 1)), np.ones((3, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="offset has shape"):
        both(packed, np.ones((3, 1)), offset=np.ones(2))
    with pytest.raises(TypeError, match="float32 or float64"):
        forward(packed, np.ones((3, 1), dtype=int))
    for function in (forward, backward, both):
        with pytest.raises(TypeError, match="gpuml.encodings.pack"):
            function(np.ones((1, 3)), np.ones((3, 1)))
    with pytest.raises(TypeError, match="gpuml.encodings.pack"):
        counts(np.ones((1, 3)))


HOLDERS = [entry for entry in array_libraries() if entry.id in ("numpy", "numpy-readonly", "cupy")]


@pytest.mark.parametrize(("bits", "missing"), KINDS)
@pytest.mark.parametrize("library", HOLDERS)
def test_libraries(library, rng, bits, missing):
    host, X0, M = dense(rng, 700, 37, bits, missing)
    packed = host.to_device() if library.needs_gpu else host
    W, W_missing = (library.asarray(x) for x in rng.standard_normal((2, 37, 5)))
    offset = library.asarray(rng.standard_normal(5))
    to_numpy = ArrayLibrary.to_numpy
    Y, values, absent = map(to_numpy, both(packed, W, W_missing, offset))
    expected = X0 @ to_numpy(W) + M @ to_numpy(W_missing) - to_numpy(offset)
    # Devices quantise W and Y to some 20 bits of their largest entries.
    rtol = 1e-5 if library.needs_gpu else 1e-12
    for result, wanted in ((Y, expected), (values, X0.T @ expected), (absent, M.T @ expected)):
        atol = rtol * max(np.abs(wanted).max(), 1)
        np.testing.assert_allclose(result, wanted, rtol=0, atol=atol)
    for a, b in zip(counts(packed), counts(host), strict=True):
        np.testing.assert_array_equal(to_numpy(a), b)
    if library.needs_gpu:
        with pytest.raises(TypeError, match="to_device"):
            forward(host, W)
