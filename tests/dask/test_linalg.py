"""Singular value decompositions of dask arrays as graphs."""

from concurrent.futures import Future
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
from dask.local import get_async
from scipy import sparse

from gpuml import linalg as one_device
from gpuml._arrays import move, place_of, to_host
from gpuml.encodings import Packed, pack
from gpuml.reading import chunked as runs
from gpuml.solvers.compressed import Plan
from gpuml.solvers.standard import Rule
from gpuml_dask.linalg import ErrorEstimate, matrix, svd_compressed, work
from gpuml_dask.linalg.matrix import checked_matrix
from tests.travelled import travelled

SHAPES = [(230, 31), (31, 230)]
CHUNKS = [(-1, -1), (60, -1), (-1, 60), (60, 7), (1000, 13), ((1, 0, 20, 9, -1), 16)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=["tall", "wide"])


def with_spectrum(shape, values, rng):
    """A matrix of some singular values."""
    r = len(values)
    left, right = (np.linalg.qr(rng.standard_normal((n, r)))[0] for n in shape)
    return (left * values) @ right.T


def chunked(x, chunks):
    """A dask array; -1 among sizes is whatever is left."""
    sizes = []
    for axis, wanted in enumerate(chunks):
        if isinstance(wanted, tuple):
            rest = x.shape[axis] - sum(size for size in wanted if size > 0)
            wanted = tuple(rest if size < 0 else size for size in wanted)
        sizes.append(wanted)
    return da.from_array(x, chunks=tuple(sizes))


def genotypes(shape, rng, missing=0.1):
    """Two populations, some values missing."""
    n, p = shape
    frequencies = rng.uniform(0.1, 0.9, (2, p))
    x = rng.binomial(2, frequencies[np.arange(n) % 2]).astype(float)
    x[rng.random(shape) < missing] = np.nan
    return x


def standardised(x, center, scale):
    mean = np.nanmean(x, axis=0)
    filled = np.where(np.isnan(x), mean, x)
    deviation = {
        None: 1.0,
        "std": np.nanstd(x, axis=0),
        "patterson": np.sqrt(mean / 2 * (1 - mean / 2)),
    }[scale]
    return (filled - (mean if center else 0)) / deviation


def check(results, expected, k, rtol=1e-9):
    """Triplets of a matrix, against NumPy's."""
    u, s, v = (np.asarray(x) for x in results)
    left, values, right = np.linalg.svd(expected, full_matrices=False)
    np.testing.assert_allclose(s, values[:k], rtol=rtol, atol=rtol * values[0])
    np.testing.assert_allclose(u.T @ u, np.eye(k), atol=100 * rtol)
    np.testing.assert_allclose(v @ v.T, np.eye(k), atol=100 * rtol)
    projection = left[:, :k] @ left[:, :k].T
    np.testing.assert_allclose(u @ u.T, projection, atol=1e4 * rtol)
    np.testing.assert_allclose(v.T @ v, right[:k].T @ right[:k], atol=1e4 * rtol)
    np.testing.assert_allclose(u * s, expected @ v.T, atol=1e4 * rtol * values[0])


# ---------------------------------------------------------------- laws


@shapes
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_it_agrees_with_numpy_for_any_chunks(shape, chunks, rng):
    x = with_spectrum(shape, 10.0 / np.arange(1, 32) ** 3, rng)
    a = chunked(x, chunks)
    u, s, v = svd_compressed(a, 4, n_power_iter=4, seed=0)
    assert (u.chunks, v.chunks) == ((a.chunks[0], (4,)), ((4,), a.chunks[1]))
    assert s.chunks == ((4,),)
    check(dask.compute(u, s, v, scheduler="sync"), x, 4)


@pytest.mark.exhaustive
@shapes
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [None, "std", "patterson"])
@pytest.mark.parametrize("bits", [2, 8])
def test_codes_with_missing_values_are_standardised(shape, center, scale, bits, rng):
    x = genotypes(shape, rng)
    expected = standardised(x, center, scale)
    options = {"center": center, "scale": scale, "dtype": "float64", "seed": 0}
    for chunks in [(50, -1), (70, 14)]:
        a = chunked(x, chunks).map_blocks(pack, bits=bits)
        found = svd_compressed(a, 3, n_power_iter=8, n_oversamples=20, **options)
        check(dask.compute(*found, scheduler="sync"), expected, 3, rtol=1e-6)


@shapes
def test_numbers_are_standardised_far_from_zero(shape, rng):
    x = 1e4 + with_spectrum(shape, 100.0 / 2.0 ** np.arange(31), rng)
    for chunks in [(50, -1), (50, 12)]:
        found = svd_compressed(
            chunked(x, chunks), 3, n_power_iter=20, seed=0, center=True, scale="std"
        )
        expected = (x - x.mean(axis=0)) / x.std(axis=0)
        check(dask.compute(*found, scheduler="sync"), expected, 3, rtol=1e-6)


@shapes
def test_the_result_is_that_of_one_device_and_of_any_chunks(shape, rng):
    # One visit with few vectors: what is found depends on each of them.
    x = rng.standard_normal(shape)
    options = {"n_power_iter": 0, "n_oversamples": 3}
    expected = one_device.svd_compressed(x, 3, random_state=7, **options)
    for chunks in CHUNKS:
        found = svd_compressed(chunked(x, chunks), 3, seed=7, **options)
        for ours, theirs in zip(dask.compute(*found, scheduler="sync"), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9 * expected.s[0])


@pytest.mark.bits
@shapes
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunks", [(60, -1), (60, 7)], ids=["strips", "grid"])
def test_bits_are_the_same_wherever_chunks_were(shape, order, chunks, rng, monkeypatch):
    monkeypatch.setattr(matrix, "MOST_STRIP_BYTES", 1)
    a = chunked(np.asarray(rng.standard_normal(shape), order=order), chunks)
    for options in ({}, {"center": True, "scale": "std"}):
        results = svd_compressed(a, 3, seed=7, **options)
        here, there = (dask.compute(*results, scheduler=get) for get in ("sync", travelling))
        for ours, theirs in zip(here, there, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def travelling(graph, keys, **_):
    """A scheduler of Dask's that runs tasks in this process; what they take has come from another."""
    return get_async(submit_now, 1, graph, keys, loads=travelled)


def submit_now(function, *args, **options):
    done = Future()
    done.set_result(function(*args, **options))
    return done


@shapes
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_where_the_rank_ends_values_are_zero(shape, scheduler, rng):
    x = with_spectrum(shape, np.array([3.0, 2.0]), rng)
    u, s, v = dask.compute(*svd_compressed(chunked(x, (40, 9)), 4, seed=0), scheduler=scheduler)
    np.testing.assert_allclose(s, [3.0, 2.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(u * s @ v, x, atol=1e-12)
    short = v if shape[0] > shape[1] else u.T
    np.testing.assert_allclose(short @ short.T, np.eye(4), atol=1e-12)


def test_small_singular_values_come_out_of_the_usual_visits(rng):
    x = with_spectrum((200, 30), np.array([1.0, 1e-3, 1e-6, 1e-9]), rng)
    _, s, _ = svd_compressed(chunked(x, (70, -1)), 4, seed=0)
    np.testing.assert_allclose(s.compute(scheduler="sync"), [1.0, 1e-3, 1e-6, 1e-9], rtol=1e-4)


@shapes
def test_errors_are_bounded(shape, rng):
    x = rng.standard_normal(shape)
    *found, error = svd_compressed(
        chunked(x, (40, 10)), 3, n_power_iter=1, seed=0, return_error=True
    )
    u, s, v, error = dask.compute(*found, error, scheduler="sync")
    assert isinstance(error, ErrorEstimate)
    values = np.linalg.svd(x, compute_uv=False)
    nearest = np.abs(s[:, None] - values).min(axis=1)
    assert (nearest <= error.singular_values + 1e-12).all()
    distance = np.linalg.norm(x - u * s @ v, 2)
    assert distance <= error.norm <= 100 * distance


@shapes
def test_signs_are_those_of_dask(shape, rng):
    x = rng.standard_normal(shape)
    a = chunked(x, (50, 13))
    _, _, v = svd_compressed(a, 3, seed=0)
    assert (v.sum(axis=1).compute(scheduler="sync") > 0).all()
    x = with_spectrum(shape, 1.0 / 4.0 ** np.arange(10), rng)
    a = chunked(x, (50, -1) if shape[0] > shape[1] else (-1, 50))
    theirs = da.linalg.svd_compressed(a, 2, n_power_iter=2, seed=0)
    ours = svd_compressed(a, 2, seed=0)
    for one, other in zip(dask.compute(*ours), dask.compute(*theirs), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@shapes
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("compute", [False, True])
def test_large_strips_are_worked_on_chunk_by_chunk(shape, codes, compute, monkeypatch, rng):
    x = genotypes(shape, rng, missing=0.1 if codes else 0.0)
    options = {"center": True, "scale": "std", "dtype": "float64", "return_error": True}
    for chunks in [(60, 17), ((1, 0, 20, 9, -1), 60)]:
        a = chunked(x, chunks)
        a = a.map_blocks(pack) if codes else a
        monkeypatch.setattr(matrix, "MOST_STRIP_BYTES", 2**31)
        expected = dask.compute(*svd_compressed(a, 3, seed=0, **options), scheduler="sync")
        monkeypatch.setattr(matrix, "MOST_STRIP_BYTES", 0)
        assert checked_matrix(a).is_grid == (a.numblocks[0 if shape[0] < shape[1] else 1] > 1)
        found = svd_compressed(a, 3, seed=0, compute=compute, **options)
        found = dask.compute(*found, scheduler="sync")
        for ours, theirs in zip(found[:3], expected[:3], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9 * expected[1][0])
        np.testing.assert_allclose(found[3].norm, expected[3].norm, rtol=1e-8)


# ---------------------------------------------------------------- graphs


def test_a_visit_reads_each_chunk_once(rng):
    reads = []

    def read(block):
        reads.append(len(block))
        return block

    x = rng.standard_normal((100, 8))
    a = da.from_array(x, chunks=(10, -1)).map_blocks(read, meta=np.empty((0, 0)))
    u, s, v = svd_compressed(a, 2, n_power_iter=3, seed=0)
    dask.compute(u, s, v, scheduler="sync")
    assert len(reads) == 10  # and kept for all visits of the graph
    reads.clear()
    svd_compressed(a, 2, n_power_iter=3, seed=0, compute=True)
    assert len(reads) in (10 * 5, 10 * 4 + 10 * 7)  # 4 visits and u; or 2 more visits
    reads.clear()
    svd_compressed(a, 2, n_power_iter=3, seed=0)
    assert not reads


def test_the_sums_are_a_tree(rng):
    a = da.zeros((1000, 4), chunks=(1, -1))
    _, s, _ = svd_compressed(a, 2, n_power_iter=0, seed=0)
    graph = dict(s.dask)
    depth = {}
    order = dask.order.order(graph)
    dependencies, _ = dask.core.get_deps(graph)
    for key in sorted(graph, key=order.__getitem__):
        depth[key] = 1 + max((depth[d] for d in dependencies[key]), default=0)
    assert max(depth.values()) < 12
    assert max(map(len, dependencies.values())) <= 10


def test_the_same_call_has_the_same_names(rng):
    a = chunked(rng.standard_normal((20, 5)), (7, -1))
    one, two = (svd_compressed(a, 2, seed=3, center=True) for _ in range(2))
    assert [x.name for x in one] == [x.name for x in two]
    assert svd_compressed(a, 2, seed=4, center=True)[0].name != one[0].name
    assert svd_compressed(a, 2, seed=3)[0].name != one[0].name


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_dtypes_are_known_and_kept(dtype, rng):
    x = rng.integers(0, 2, (50, 9)).astype(dtype)
    found = svd_compressed(chunked(x, (20, 4)), 2, seed=0)
    expected = "float32" if dtype in ("float32", "uint8", "bool") else "float64"
    assert {str(part.dtype) for part in found} == {expected}
    assert {str(part.dtype) for part in dask.compute(*found, scheduler="sync")} == {expected}


def test_packed_chunks_have_results_of_their_bytes_library(rng):
    a = chunked(genotypes((40, 9), rng), (20, -1)).map_blocks(pack)
    assert isinstance(a._meta, Packed)
    assert all(type(x._meta) is np.ndarray for x in svd_compressed(a, 2))


def test_a_graph_runs_anywhere(client, rng):
    a = chunked(genotypes((120, 11), rng), (30, 5)).map_blocks(pack)
    found = svd_compressed(a, 2, seed=0, center=True, scale="patterson")
    expected = dask.compute(*found, scheduler="sync")
    others = [dask.compute(*found), dask.compute(*found, scheduler="threads")]
    with dask.config.set({"multiprocessing.context": "forkserver"}):  # as quick as tests' workers
        others.append(dask.compute(*found, scheduler="processes", num_workers=1))
    for results in others:
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


# ---------------------------------------------------------------- at the door


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"k": 0}, ValueError, "k must be at least 1"),
        ({"k": 6}, ValueError, "at most 5"),
        ({"k": 1.5}, TypeError, "integer"),
        ({"n_power_iter": -1}, ValueError, "n_power_iter"),
        ({"n_oversamples": -1}, ValueError, "n_oversamples"),
        ({"iterator": "none"}, ValueError, "iterator"),
        ({"seed": 1, "random_state": 1}, ValueError, "one of them"),
        ({"seed": -1}, ValueError, "Seed"),
        ({"seed": "a"}, ValueError, "seed"),
        ({"scale": "max"}, ValueError, "scale"),
        ({"center": [1.0]}, ValueError, "5 columns"),
        ({"dtype": "int8"}, ValueError, "dtype"),
    ],
)
def test_parameters_are_checked_at_once(options, error, words):
    a = da.ones((10, 5), chunks=3)
    with pytest.raises(error, match=words):
        svd_compressed(a, **{"k": 2, **options})


def test_what_is_no_matrix_is_refused_at_once(rng):
    x = rng.standard_normal((10, 5))
    a = chunked(x, (4, -1))
    frame = dask.dataframe.from_dask_array(a)
    for bad, error, words in [
        (x, TypeError, r"gpuml\.linalg"),
        (frame, TypeError, "to_dask_array"),
        (a[0], ValueError, "2 dimensions"),
        (a[a[:, 0] > 0], ValueError, "compute_chunk_sizes"),
        (a[:0], ValueError, "at least one row"),
        (a.astype(complex), TypeError, "real"),
        (a.astype(str), TypeError, "real"),
        (a.map_blocks(np.ma.masked_less, 0.0), TypeError, "Masked"),
        (a.map_blocks(sparse.csr_array), TypeError, "Sparse"),
    ]:
        with pytest.raises(error, match=words):
            svd_compressed(bad, 1)


def test_nan_is_an_error_of_the_visit(rng):
    x = rng.standard_normal((30, 5))
    x[3, 2] = np.nan
    for options in ({}, {"center": True}, {"compute": True}):
        with pytest.raises(ValueError, match="NaN"):
            dask.compute(*svd_compressed(chunked(x, (10, -1)), 2, **options), scheduler="sync")


def test_missing_values_that_the_meta_does_not_tell_are_an_error(rng):
    a = chunked(genotypes((30, 5), rng), (10, -1)).map_blocks(pack, meta=np.empty((0, 0), "u1"))
    with pytest.raises(TypeError, match="meta"):
        svd_compressed(a, 2)[1].compute(scheduler="sync")


def test_seeds_of_all_kinds(rng):
    x = rng.standard_normal((60, 30))

    def values(**seed):
        s = svd_compressed(chunked(x, (20, -1)), 2, n_power_iter=0, n_oversamples=1, **seed)[1]
        return s.compute(scheduler="sync").tolist()

    kinds = [
        lambda: 5,
        lambda: np.int64(5),
        lambda: np.random.RandomState(5),
        lambda: np.random.default_rng(5),
        lambda: da.random.RandomState(5),
        lambda: da.random.default_rng(5),
    ]
    for kind in kinds:
        assert values(seed=kind()) == values(random_state=kind())
        given = kind()
        if not isinstance(given, int | np.integer):
            assert values(seed=given) != values(seed=given)  # it has moved on
    assert values(seed=5) == values(seed=np.int64(5))
    assert values() != values()


def test_the_orientation_follows_the_shape_alone():
    for chunks in [(5, 5), (20, 5), (5, 40)]:
        assert checked_matrix(da.zeros((20, 40), chunks=chunks)).is_wide
        assert not checked_matrix(da.zeros((40, 40), chunks=chunks)).is_wide


# ---------------------------------------------------------------- strips of any library


@pytest.mark.pairwise
@shapes
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("codes", [False, True])
def test_strips_are_the_same_in_any_library(library, shape, members, codes, rng):
    """What workers do, up to the triplets; CuPy's chunks among them."""
    if codes and library.name not in ("numpy", "numpy-readonly", "cupy"):
        pytest.skip("packed codes are NumPy's or CuPy's")
    x = genotypes(shape, rng, missing=0.1 if codes else 0.0)
    is_wide = shape[0] < shape[1]
    rule, plan = Rule(True, "std", "float64"), Plan(2, 10, 2)

    def decomposed(make):
        chunks = np.array_split(x, members, axis=0 if is_wide else 1)
        if codes:
            packed = map(pack, chunks)
            chunks = [chunk.of(make(chunk.data)) for chunk in packed]
        else:
            chunks = [make(chunk) for chunk in chunks]
        strip = runs.Chunked(chunks, is_wide, is_summed=True)
        if is_wide:
            standard = runs.standard_of_run(strip, rule, True)
        else:
            shift = runs.first_means(strip)
            standard = runs.standard_from(rule, runs.sums(strip, shift), shift, shape[0])
        strip = replace(strip, standard=standard)
        Q = move(work.first_block(min(shape), 12, 0), strip.work)
        total = runs.visit(strip, Q)
        for _ in range(2):
            Q = work.next_block(Q, total)
            total = runs.visit(strip, Q)
        found = work.first_triplets(Q, total, plan, signs=True, is_wide=is_wide, seed=0)
        left = runs.image(strip, found.map)
        assert place_of(left) == strip.home
        lengths = runs.squared_lengths(strip, found.map)
        return [to_host(each) for each in (found.singular, found.right, left, lengths)]

    expected = decomposed(np.asarray)
    for ours, theirs in zip(decomposed(library.asarray), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(expected[3], 1.0)
