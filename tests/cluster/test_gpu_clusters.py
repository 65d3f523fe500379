"""Kernels of k-means find what runs in CPU memory find, one by one as together."""

import numpy as np
import pytest

from gpuml._arrays import to_host
from gpuml.solvers import _gpu_clusters
from gpuml.solvers._cluster_kernels import CENTRES, SLICE, THREADS, TILE
from gpuml.solvers._gpu_clusters import Labelled
from gpuml.solvers.clusters import Points, Run, costs, labels_of, lloyd, sums_by_centre

pytestmark = pytest.mark.gpu
# Rows, features and centres: within one tile and block of each kernel, and beyond.
SHAPES = [(50, 1, 3), (THREADS + 1, 7, 1), (3 * TILE + 5, 31, CENTRES + 1), (5000, 70, SLICE + 8)]


@pytest.fixture
def cupy():
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    return cupy


def problem(shape, dtype, weighted):
    """Rows around k centres, weights of which some are zero, and rows to begin with."""
    n_rows, p, k = shape
    rng = np.random.default_rng(k)
    middle = rng.normal(size=(k, p)) * 3
    rows = (middle[rng.integers(k, size=n_rows)] + rng.normal(size=(n_rows, p))).astype(dtype)
    weight = None
    if weighted:
        weight = np.where(rng.random(n_rows) < 0.3, 0.0, rng.random(n_rows)).astype(dtype)
    return rows - rows.mean(axis=0), weight, rows[rng.choice(n_rows, k, replace=False)]


def on_gpu(cupy, rows, weight):
    return Points(cupy.asarray(rows), None if weight is None else cupy.asarray(weight))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("an_empty", [False, True], ids=["full", "an empty centre"])
def test_runs_end_where_those_in_cpu_memory_do(cupy, shape, dtype, weighted, an_empty):
    rows, weight, start = problem(shape, dtype, weighted)
    if an_empty:
        start[-1] = 50.0  # which no row is near to
    there = on_gpu(cupy, rows, weight)
    # In float32 a last label may change an iteration earlier or later.
    most = 100 if dtype == "float64" else 4
    (expected,) = lloyd(Points(rows, weight), [Run(start, most, 0.0)])
    (found,) = lloyd(there, [Run(cupy.asarray(start), most, 0.0)])
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-3}
    np.testing.assert_allclose(to_host(found.centres), expected.centres, **close)
    assert found.inertia == pytest.approx(expected.inertia, rel=close["rtol"])
    if dtype == "float64":
        assert found.n_iter == expected.n_iter
        np.testing.assert_array_equal(found.sizes, expected.sizes)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_runs_have_the_same_bits_beside_others(cupy, dtype):
    rows, weight, start = problem((20_000, 12, 15), dtype, True)
    there = on_gpu(cupy, rows, weight)
    runs = [Run(cupy.asarray(start[:k]), most, 0.0) for k, most in [(15, 9), (2, 50), (8, 1)]]
    for one, together in zip(
        [lloyd(there, [run])[0] for run in runs], lloyd(there, runs), strict=False
    ):
        np.testing.assert_array_equal(to_host(one.centres), to_host(together.centres))
        assert (one.n_iter, one.inertia) == (together.n_iter, together.inertia)
        np.testing.assert_array_equal(one.sizes, together.sizes)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_what_is_certain_is_what_all_products_say(cupy, dtype, weighted):
    rows, weight, start = problem((20_000, 10, 12), dtype, weighted)
    there = on_gpu(cupy, rows, weight)
    labelled = Labelled(there.X, there.weight, [cupy.asarray(start)])
    labelled.keep_bounds()
    for _ in range(12):
        centres = labelled.centres[0].copy()
        labelled.step(there.weight)
        labels = to_host(labelled.labels[0])
        np.testing.assert_array_equal(labels, to_host(labels_of(there.X, centres)))
        sums, weights = sums_by_centre(there, [centres])
        np.testing.assert_allclose(
            to_host(labelled.sums[0, :, :-3]), to_host(sums[0]), rtol=1e-9, atol=1e-6
        )
        np.testing.assert_allclose(
            to_host(labelled.sums[0, :, -3]), to_host(weights[0]), rtol=1e-9, atol=1e-9
        )
        assert to_host(labelled.sums[0, :, -1]).tolist() == np.bincount(labels, None, 12).tolist()


def test_sums_are_found_anew_where_differences_lose_digits(cupy, monkeypatch):
    monkeypatch.setattr(_gpu_clusters, "LEAST_MEAN", np.inf)
    rows, weight, start = problem((4000, 3, 4), "float64", True)
    (expected,) = lloyd(Points(rows, weight), [Run(start, 100, 0.0)])
    (found,) = lloyd(on_gpu(cupy, rows, weight), [Run(cupy.asarray(start), 100, 0.0)])
    assert found.n_iter == expected.n_iter
    np.testing.assert_allclose(to_host(found.centres), expected.centres, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("parts", [1, 10**9], ids=["a run at a time", "all at once"])
def test_costs_sizes_and_labels(cupy, parts, monkeypatch):
    monkeypatch.setattr(_gpu_clusters, "PART_BYTES", parts)
    rows, weight, start = problem((3 * TILE, 33, SLICE + 3), "float64", True)
    there, here = on_gpu(cupy, rows, weight), Points(rows, weight)
    sets = [start, start[:1], start[:9]]
    for one, other in zip(
        costs(there, [cupy.asarray(each) for each in sets]), costs(here, sets), strict=True
    ):
        assert one[0] == pytest.approx(other[0])
        np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_array_equal(
        to_host(labels_of(there.X, cupy.asarray(start))), labels_of(rows, start)
    )


def test_no_rows_cost_nothing(cupy):
    nothing = Points(cupy.zeros((0, 3)), None)
    centres = [cupy.ones((2, 3))]
    assert costs(nothing, centres)[0][0] == 0.0
    assert labels_of(nothing.X, centres[0]).shape == (0,)
    sums, weights = sums_by_centre(nothing, centres)
    assert float(sums.sum()) == float(weights.sum()) == 0.0
