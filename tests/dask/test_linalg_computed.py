"""Singular value decompositions of dask arrays computed at once: by tasks, and by ranks."""

import gc
import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, futures_of, wait

from gpuml import linalg as one_device
from gpuml.encodings import pack
from gpuml.testing import array_libraries
from gpuml_dask.errors import ClusterError
from gpuml_dask.linalg import compute, matrix, ranks, svd_compressed
from gpuml_dask.sums.collective import Collective, in_order
from tests.dask.test_collective import SocketTransport
from tests.dask.test_linalg import chunked, genotypes, shapes, with_spectrum

GPU_MARKS = next(p.marks for p in array_libraries() if p.id == "cupy")


def on_ranks(monkeypatch):
    """Let CPU workers be ranks, with sockets in place of NCCL."""
    known = {}

    def collective_of(client):
        if client.id not in known:
            known[client.id] = Collective(client, SocketTransport)
        return known[client.id]

    monkeypatch.setattr(ranks, "gpus_for", lambda facts, *_, on_gpu: in_order(facts, facts))
    monkeypatch.setattr(ranks, "collective_of", collective_of)
    return known


@pytest.fixture(params=["tasks", "ranks"])
def route(request, monkeypatch):
    known = on_ranks(monkeypatch) if request.param == "ranks" else {}
    yield request.param
    for collective in known.values():
        collective.close()


@pytest.mark.each
@shapes
@pytest.mark.parametrize("codes", [False, True])
def test_computed_at_once_it_is_the_same(client, route, shape, codes, rng):
    x = genotypes(shape, rng, missing=0.1 if codes else 0.0)
    a = chunked(x, (50, 40))
    a = a.map_blocks(pack) if codes else a
    options = {"seed": 1, "center": True, "scale": "std", "return_error": True, "dtype": "float64"}
    *lazily, error = svd_compressed(a, 3, **options)
    expected = dask.compute(*lazily, error, scheduler="sync")
    *found, error = svd_compressed(a, 3, compute=True, **options)
    assert all(future.done() for array in found for future in futures_of(array))
    for ours, theirs in zip(dask.compute(*found), expected[:3], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8 * expected[1][0])
    np.testing.assert_allclose(error.norm, expected[3].norm, rtol=1e-6)
    np.testing.assert_allclose(error.singular_values, expected[3].singular_values, rtol=1e-3)


def test_rows_that_do_not_fit_are_read_again(client, monkeypatch, rng):
    x = rng.standard_normal((90, 6))
    a = chunked(x, (30, -1))
    monkeypatch.setattr(compute, "SHARE_OF_MEMORY", 0.0)
    found = svd_compressed(a, 2, seed=0, compute=True)
    expected = dask.compute(*svd_compressed(a, 2, seed=0), scheduler="sync")
    for ours, theirs in zip(dask.compute(*found), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.each
@pytest.mark.usefixtures("copies_stay")
@pytest.mark.parametrize("on_top", [False, True])
def test_chunks_that_are_there_need_no_more_room(client, route, on_top, monkeypatch, rng):
    """They may be all of a matrix that takes more than half of the memory, or rows be computed on them."""
    monkeypatch.setattr(compute, "SHARE_OF_MEMORY", 0.0)
    x = rng.normal(size=(120, 30))
    a = client.persist(chunked(x, (50, 30)))
    expected = one_device.svd_compressed(2 * x if on_top else x, 3, random_state=0).s
    _, s, _ = svd_compressed(2 * a if on_top else a, 3, seed=0, compute=True, client=client)
    np.testing.assert_allclose(s.compute(), expected, rtol=1e-8)


@pytest.mark.usefixtures("copies_stay")  # else Dask may drop the original of a copied chunk
def test_persisted_chunks_stay_where_they_are(client, route, rng):
    a = chunked(rng.standard_normal((400, 6)), (50, -1)).persist()
    wait(a)
    before = client.who_has(a)
    u, _, _ = svd_compressed(a, 2, seed=0, compute=True)
    wait(u)
    after = client.who_has(a)
    assert all(set(before[key]) <= set(after[key]) for key in before)
    del u


def test_small_values_take_more_visits(client, route, rng):
    x = with_spectrum((200, 30), np.array([1.0, 1e-5, 1e-9, 1e-10]), rng)
    a = chunked(x, (70, -1))
    _, s, _ = svd_compressed(a, 4, n_power_iter=0, seed=0, compute=True)
    np.testing.assert_allclose(s.compute(), [1.0, 1e-5, 1e-9, 1e-10], rtol=1e-2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("whole", [True, False])
def test_ranks_take_large_strips_that_are_whole(client, monkeypatch, whole, rng):
    known, taken = on_ranks(monkeypatch), []
    monkeypatch.setattr(matrix, "MOST_STRIP_BYTES", 0)
    decomposed = ranks.decomposed
    monkeypatch.setattr(ranks, "decomposed", lambda *args: taken.append(1) or decomposed(*args))
    a = chunked(rng.standard_normal((200, 8)), (50, 4))
    homes = sorted(client.nthreads())
    with dask.annotate(workers=lambda key: homes[key[1] if whole else key[2]]):
        a = client.persist(a.map_blocks(np.negative), optimize_graph=False)
    wait(a)
    found = svd_compressed(a, 2, seed=0, center=True, compute=True)
    assert len(taken) == whole
    expected = dask.compute(*svd_compressed(a, 2, seed=0, center=True))
    for ours, theirs in zip(dask.compute(*found), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    for collective in known.values():
        collective.close()


def test_an_error_of_a_visit_is_raised_here(client, route, rng):
    x = rng.standard_normal((60, 5))
    x[3, 2] = np.inf
    with pytest.raises(ValueError, match="NaN"):
        svd_compressed(chunked(x, (20, -1)), 2, compute=True)
    x = np.full((60, 5), 3.0)
    with pytest.raises(ValueError, match="patterson"):
        svd_compressed(chunked(x, (20, -1)), 2, compute=True, scale="patterson")


def slow(block, seconds):
    time.sleep(seconds)
    return block


@pytest.mark.exhaustive
def test_a_worker_that_dies_does_not_take_the_result(route, rng):
    n_power_iter = {"tasks": 20, "ranks": 500}[route]
    x = rng.standard_normal((800, 12))
    a = chunked(x, (50, -1)).map_blocks(slow, 0.03, meta=np.empty((0, 0)))
    expected = one_device.svd_compressed(x, 2, n_power_iter, random_state=0)
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=":0", processes=True
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(3)
        a = a.persist()
        wait(a)
        victim = sorted(client.run(os.getpid).items())[1][1]
        killer = threading.Timer(0.2, os.kill, (victim, signal.SIGKILL))
        killer.start()
        found = svd_compressed(a, 2, n_power_iter=n_power_iter, seed=0, compute=True)
        assert not killer.is_alive()  # it was meanwhile
        for ours, theirs in zip(dask.compute(*found), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9 * expected[1][0])
        del a, found
        gc.collect()


def test_chunks_that_nobody_can_make_again_are_told(monkeypatch, rng):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        address = sorted(client.nthreads())[0]
        parts = client.scatter([rng.standard_normal((30, 4)) for _ in range(3)], workers=[address])
        blocks = [da.from_delayed(dask.delayed(p), (30, 4), dtype=float) for p in parts]
        a = da.concatenate(blocks)
        os.kill(client.run(os.getpid)[address], signal.SIGKILL)
        while address in client.nthreads():
            time.sleep(0.05)
        with pytest.raises(ClusterError, match="lost"):
            svd_compressed(a, 2, compute=True)


# ---------------------------------------------------------------- GPUs


def on_gpu(test):
    for mark in GPU_MARKS:
        test = mark(test)
    return test


@on_gpu
@shapes
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("compute", [False, True])
def test_cupy_chunks_have_cupy_results(shape, codes, compute, rng):
    import cupy

    x = genotypes(shape, rng, missing=0.1 if codes else 0.0)
    host = chunked(x, (50, 40))
    a = host.map_blocks(cupy.asarray)
    options = {"seed": 1, "center": True, "scale": "std", "dtype": "float64"}
    if codes:
        host, a = host.map_blocks(pack), a.map_blocks(pack)
    expected = dask.compute(*svd_compressed(host, 3, **options), scheduler="sync")
    found = svd_compressed(a, 3, compute=compute, **options)
    assert all(type(part._meta) is cupy.ndarray for part in found)
    for ours, theirs in zip(dask.compute(*found, scheduler="sync"), expected, strict=True):
        np.testing.assert_allclose(cupy.asnumpy(ours), theirs, atol=1e-8 * expected[1][0])


@on_gpu
@pytest.mark.filterwarnings("default:Workers did not stop")  # beside those of other tests
@pytest.mark.parametrize("codes", [False, True])
def test_gpu_workers_are_ranks(codes, monkeypatch, rng):
    import cupy

    from gpuml_dask import local_client

    taken, decomposed = [], ranks.decomposed
    monkeypatch.setattr(ranks, "decomposed", lambda *args: taken.append(1) or decomposed(*args))
    host = chunked(genotypes((230, 31), rng, missing=0.0), (50, -1))
    expected = dask.compute(
        *svd_compressed(host, 3, seed=1, center=True, dtype="float64"), scheduler="sync"
    )
    with local_client(device="cuda", rmm_pool_size="1GB"):
        a = host.map_blocks(cupy.asarray)
        a = a.map_blocks(pack) if codes else a
        found = svd_compressed(a, 3, seed=1, center=True, dtype="float64", compute=True)
        assert taken
        for ours, theirs in zip(dask.compute(*found), expected, strict=True):
            assert type(ours) is cupy.ndarray
            np.testing.assert_allclose(cupy.asnumpy(ours), theirs, atol=1e-8 * expected[1][0])
        del a, found
