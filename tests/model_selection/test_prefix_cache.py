"""The cache of transformed rows: bytes, order of eviction, devices; and its setting."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gpuml
from gpuml._arrays import HOST, place_of
from gpuml.model_selection.prefix_cache import PrefixCache, rows_nbytes
from gpuml.testing import ArrayLibrary, array_libraries, count_transfers

ROWS = np.arange(12.0).reshape(4, 3)  # 96 bytes


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        (ROWS, 96),
        (ROWS.astype(np.float32), 48),
        (ROWS[:, ::2], 64),
        (sparse.csr_array(np.eye(4)), 4 * 8 + 4 * 4 + 5 * 4),
        (sparse.coo_array(np.eye(4, dtype=np.float32)), None),
        (sparse.dia_array(np.eye(4)), None),
        (pd.DataFrame(ROWS), 96),
        (pd.Series(ROWS[0]), 24),
        (["some", "lines"], 0),
    ],
)
def test_bytes_of_rows(rows, size):
    found = rows_nbytes(rows)
    if size is None:
        size = rows.data.nbytes
        assert found > size
        return
    # pandas counts its index too.
    assert size <= found <= size + (200 if hasattr(rows, "index") else 0)


def test_bytes_of_polars_frames():
    polars = pytest.importorskip("polars")
    assert rows_nbytes(polars.DataFrame(ROWS)) == 96


def test_bytes_of_rows_of_any_library(library):
    assert rows_nbytes(library.asarray(ROWS)) == 96


def test_what_was_not_used_for_longest_goes_first():
    cache = PrefixCache(300)
    for name in "abc":
        cache.put(name, ROWS.copy())
    assert cache.get("a") is not None
    cache.put("d", ROWS.copy())
    assert [name in cache for name in "abcd"] == [True, False, True, True]
    assert cache.get("b") is None
    assert cache.used(HOST) == 3 * 96
    cache.put("e", np.zeros(30))
    assert [name in cache for name in "acde"] == [False, False, False, True]


def test_rows_that_do_not_fit_push_nobody_out():
    cache = PrefixCache(100)
    cache.put("a", ROWS)
    cache.put("b", np.zeros(13))
    assert "a" in cache
    assert "b" not in cache


def test_rows_are_replaced_and_forgotten():
    cache = PrefixCache(100)
    cache.put("a", ROWS)
    cache.put("a", 2 * ROWS)
    assert cache.used(HOST) == 96
    np.testing.assert_array_equal(cache.get("a"), 2 * ROWS)
    cache.discard("a")
    cache.discard("a")
    assert cache.used(HOST) == 0
    assert cache.get("a") is None


def test_without_a_limit_there_is_room():
    cache = PrefixCache()
    cache.put("a", ROWS)
    assert cache.get("a") is ROWS


def on_devices():
    """Libraries whose arrays NumPy can't read; array-api-strict stands for them without a GPU."""
    names = ("array_api_strict", "cupy", "torch-cuda")
    return [entry for entry in array_libraries() if entry.id in names]


@pytest.mark.parametrize("device", on_devices())
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_devices_go_to_the_host_and_back(device: ArrayLibrary, order):
    first, second = (device.asarray(np.asarray(a, order=order)) for a in (ROWS, 2 * ROWS))
    place = place_of(first)
    cache = PrefixCache(150)
    cache.put("a", first)
    with count_transfers(max_to_device=0) as moved:
        cache.put("b", second)
    assert moved.to_host >= 96
    assert cache.used(place) == cache.used(HOST) == 96
    with count_transfers() as moved:
        back = cache.get("a")  # and "b" goes to the host
    assert (moved.to_device, moved.to_host) == (96, 96)
    assert type(back) is type(first)
    assert place_of(back) == place
    assert back.dtype == first.dtype
    np.testing.assert_array_equal(device.to_numpy(back), ROWS)
    np.testing.assert_array_equal(device.to_numpy(cache.get("b")), 2 * ROWS)
    assert cache.used(place) == cache.used(HOST) == 96


@pytest.mark.parametrize("device", on_devices())
def test_the_host_has_a_limit_too(device: ArrayLibrary):
    cache = PrefixCache(200)
    for name in "abcde":
        cache.put(name, device.asarray(ROWS))
    assert [name in cache for name in "abcde"] == [False, True, True, True, True]


@pytest.mark.gpu
def test_cupy_arrays_keep_their_order_and_wait_in_page_locked_memory():
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    rows = cupy.asfortranarray(cupy.arange(12.0).reshape(4, 3))
    cache = PrefixCache(100)
    cache.put("a", rows)
    cache.put("b", rows + 1)
    back = cache.get("a")
    assert back.flags.f_contiguous
    assert not back.flags.c_contiguous
    np.testing.assert_array_equal(cupy.asnumpy(back), cupy.asnumpy(rows))
    parked = cache._kept["b"].rows.host
    kind = cupy.cuda.runtime.pointerGetAttributes(parked.ctypes.data).type
    assert kind == cupy.cuda.runtime.memoryTypeHost


@pytest.mark.gpu
def test_sparse_rows_of_a_device_are_dropped():
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    from cupyx.scipy import sparse as on_gpu

    rows = on_gpu.csr_matrix(cupy.eye(4))
    cache = PrefixCache(100)
    cache.put("a", rows)
    assert cache.used(place_of(rows.data)) == rows_nbytes(rows) == 68
    cache.put("b", cupy.zeros(10))
    assert "a" not in cache


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
def test_the_setting_is_a_number_of_bytes(value):
    with pytest.raises(ValueError, match="cache_bytes must be None or a positive number"):
        gpuml.set_config(cache_bytes=value)


def test_the_setting_is_known():
    assert gpuml.get_config()["cache_bytes"] is None
    with gpuml.config_context(cache_bytes=10):
        assert gpuml.get_config()["cache_bytes"] == 10
