"""Arrays that workers read by themselves, and chunks placed evenly over them."""

import gc
import os
import pickle
import signal
import sys
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

import gpuml
from gpuml.encodings import Packed, pack
from gpuml.testing import array_libraries
from gpuml_dask.io import from_zarr, persist
from gpuml_dask.linalg import svd_compressed

zarr = pytest.importorskip("zarr", reason="zarr is not installed")
GPU_MARKS = next(p.marks for p in array_libraries() if p.id == "cupy")


@pytest.fixture
def codes(rng):
    return rng.integers(0, 3, (1000, 60)).astype(np.uint8)


@pytest.fixture
def path(tmp_path, codes):
    return stored(tmp_path / "codes.zarr", codes, (50, 16))


def stored(path, x, chunks, **options):
    array = zarr.create_array(str(path), shape=x.shape, dtype=x.dtype, chunks=chunks, **options)
    array[...] = x
    return str(path)


def bytes_by_worker(client, x):
    """Bytes of the chunks of an array on each worker."""
    sizes = dict.fromkeys(client.nthreads(), 0)
    rows = dict(zip(range(x.numblocks[0]), x.chunks[0], strict=True))
    columns = dict(zip(range(x.numblocks[1]), x.chunks[1], strict=True))
    for key, addresses in client.who_has(x).items():
        _, i, j = key
        for address in addresses:
            sizes[address] += rows[i] * columns[j]
    return sizes


def chunks_by_worker(client, x, axis):
    found = {}
    for key, addresses in client.who_has(x).items():
        for address in addresses:
            found.setdefault(address, set()).add(key[1 + axis])
    return found


# ---------------------------------------------------------------- reading


def test_it_reads_what_is_stored(path, codes):
    x = from_zarr(path)
    assert (x.shape, x.dtype, type(x._meta)) == (codes.shape, codes.dtype, np.ndarray)
    np.testing.assert_array_equal(x.compute(scheduler="threads"), codes)
    np.testing.assert_array_equal(x[130:170, 3:9].compute(scheduler="threads"), codes[130:170, 3:9])
    assert from_zarr(path).name == x.name
    assert from_zarr(path, chunks=(100, -1)).name != x.name


@pytest.mark.parametrize(
    ("shape", "unit", "room", "expected"),
    [
        ((1000, 60), (50, 16), "128MiB", (1000, 60)),
        ((1000, 60), (50, 16), "6kiB", (100, 60)),  # all columns, and as many rows as fit
        ((1000, 60), (50, 16), "2kiB", (50, 32)),
        ((60, 1000), (16, 50), "6kiB", (60, 100)),  # of a wide matrix, all rows
        ((1000, 60), (50, 16), "1B", (50, 16)),  # whole chunks of Zarr
        ((40, 30, 20), (10, 10, 10), "12kiB", (20, 30, 20)),
        ((0, 4), (5, 4), "1kiB", (0, 4)),
    ],
)
def test_chunks_are_whole_and_of_the_usual_size(tmp_path, shape, unit, room, expected):
    array = zarr.create_array(str(tmp_path / "x"), shape=shape, chunks=unit, dtype="uint8")
    with dask.config.set({"array.chunk-size": room}):
        assert from_zarr(array).chunksize == expected


def test_shards_are_not_taken_apart(tmp_path, codes):
    path = stored(tmp_path / "shards", codes, (10, 10), shards=(100, 30))
    with dask.config.set({"array.chunk-size": "1kiB"}):
        x = from_zarr(path)
    assert x.chunksize == (100, 30)
    np.testing.assert_array_equal(x.compute(scheduler="threads"), codes)


def test_arrays_stores_and_groups_are_opened(tmp_path, codes):
    group = zarr.open_group(str(tmp_path / "group"), mode="w")
    array = group.create_array("calls", shape=codes.shape, dtype="uint8", chunks=(100, 60))
    array[...] = codes
    sources = [
        from_zarr(array),
        from_zarr(tmp_path / "group", "calls"),
        from_zarr(zarr.storage.LocalStore(str(tmp_path / "group")), component="calls"),
    ]
    for x in sources:
        np.testing.assert_array_equal(x[:20].compute(scheduler="sync"), codes[:20])
    with pytest.raises(ValueError, match=r"component=.*'calls'"):
        from_zarr(tmp_path / "group")
    with pytest.raises(ValueError, match="component"):
        from_zarr(array, "calls")
    with pytest.raises(FileNotFoundError):
        from_zarr(tmp_path / "nothing")
    with pytest.raises(ValueError, match="[Cc]hunks"):
        from_zarr(array, chunks=(3, 3, 3))


def test_without_zarr_it_says_what_to_install(monkeypatch, path):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match="pip install zarr"):
        from_zarr(path)


def test_the_graph_travels_and_is_small(path):
    with dask.config.set({"array.chunk-size": "1kiB"}):
        x = from_zarr(path)
    assert x.npartitions == 80
    assert len(pickle.dumps(dict(x.dask))) < 80 * 2000


def test_workers_without_gpus_cannot_be_asked_for_them(client, path):
    assert type(from_zarr(path)._meta) is np.ndarray
    with gpuml.config_context(device="cuda"), pytest.raises(RuntimeError, match="GPU"):
        from_zarr(path, client=client)


# ---------------------------------------------------------------- placing


@pytest.fixture(scope="module")
def cluster_without_thieves(quick_workers):
    """A cluster whose workers do not take tasks of each other."""
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(4)
        yield client


@pytest.fixture
def honest(cluster_without_thieves):
    with cluster_without_thieves.as_current():
        yield cluster_without_thieves


@pytest.mark.parametrize("wide", [False, True])
def test_every_worker_gets_as_many_bytes_of_neighbours(honest, tmp_path, codes, wide):
    codes, unit = (codes.T, (60, 25)) if wide else (codes, (25, 60))
    path = stored(tmp_path / "x", codes, unit)
    x = persist(from_zarr(path, chunks=unit, client=honest).map_blocks(pack), client=honest)
    wait(x)
    assert isinstance(x._meta, Packed)
    assert set(bytes_by_worker(honest, x).values()) == {codes.size // 4}
    for members in chunks_by_worker(honest, x, axis=int(wide)).values():
        assert members == set(range(min(members), max(members) + 1))
    np.testing.assert_array_equal(honest.compute(x).result().decode(), codes)


def test_chunks_of_many_sizes_are_balanced_by_bytes(honest):
    sizes = (400, 10, 10, 10, 10, 100, 100, 100, 200, 200, 30, 30, 200, 200)
    x = persist(da.ones((1600, 6), chunks=(sizes, (4, 2))), client=honest)
    wait(x)
    loads = np.array(list(bytes_by_worker(honest, x).values())) / 6
    assert loads.sum() == 1600
    assert loads.max() <= 400 + max(sizes) / 2
    # All chunks of some rows are on one worker.
    held = [address for _, address in sorted(honest.who_has(x).items())]
    assert held[::2] == held[1::2]


def test_chunks_on_workers_stay(client):
    address = sorted(client.nthreads())[2]
    x = da.ones((80, 3), chunks=(10, -1))
    with dask.annotate(workers=[address]):
        held = client.persist(x, optimize_graph=False)
    wait(held)
    again = persist(held)
    wait(again)
    assert {holders for each in client.who_has(again).values() for holders in each} == {address}


def test_the_usual_way_reads_and_packs_in_one_task(client, path):
    with dask.config.set({"array.chunk-size": "6kiB"}):
        x = from_zarr(path).map_blocks(pack).persist()
    wait(x)
    assert len(client.who_has()) == x.npartitions  # of what was read nothing is left


def test_a_lost_worker_takes_nothing_with_it(path, codes):
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(3)
        with dask.config.set({"array.chunk-size": "3kiB"}):
            x = persist(from_zarr(path).map_blocks(pack))
        wait(x)
        before = bytes_by_worker(client, x)
        assert sum(before.values()) == codes.size
        address = sorted(before)[0]
        os.kill(client.run(os.getpid)[address], signal.SIGKILL)
        while address in client.nthreads():
            time.sleep(0.05)
        np.testing.assert_array_equal(x.compute().decode(), codes)
        del x
        gc.collect()


def test_only_arrays_are_placed(client):
    with pytest.raises(TypeError, match="dask array"):
        persist(np.ones(3))


@pytest.mark.exhaustive
def test_decompositions_read_from_files(client, path, codes):
    with dask.config.set({"array.chunk-size": "6kiB"}):
        x = from_zarr(path)
    _, s, _ = svd_compressed(x, 2, seed=0, n_power_iter=10, compute=True, dtype="float64")
    expected = np.linalg.svd(codes.astype(float), compute_uv=False)[:2]
    np.testing.assert_allclose(s.compute(), expected, rtol=1e-3)


# ---------------------------------------------------------------- GPUs


def on_gpu(test):
    for mark in GPU_MARKS:
        test = mark(test)
    return test


@on_gpu
def test_gpu_workers_read_cupy_chunks(path, codes):
    import cupy

    from gpuml_dask import local_client

    with local_client(device="cuda", rmm_pool_size="1GB"):
        x = from_zarr(path, chunks=(100, -1))
        assert type(x._meta) is cupy.ndarray
        held = persist(x.map_blocks(pack))
        wait(held)
        assert type(held.blocks[0].compute().data) is cupy.ndarray
        np.testing.assert_array_equal(held.compute().to_host().decode(), codes)
        with gpuml.config_context(device="cpu"):
            assert type(from_zarr(path)._meta) is np.ndarray
