"""Every design is the dense array that it stands for: products, sums, samples, in any blocks."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from gpuml._arrays import HOST, place_of, to_host
from gpuml.designs import Beside, Coded, Columns, Dense, Flagged, Mapped, Sparse, _few_entries
from gpuml.designs._sparse_ops import csr
from gpuml.designs.coded import CodedBlock
from gpuml.designs.sparse import SparseBlock
from gpuml.losses import BINOMIAL, MULTINOMIAL, tweedie
from gpuml.penalties import Penalty
from gpuml.solvers import loss_rows, newton
from gpuml.solvers.loss_rows import LossRows, gradients
from gpuml.solvers.newton import Objective, mean_second_derivatives, second_derivatives

N = 150
KINDS = ["dense", "flagged", "sparse", "coded", "columns", "columns of columns", "mapped"]


def made(kind, library, rng, dtype="float64"):
    """A design, and the array that it stands for."""
    if kind == "dense":
        X = rng.normal(size=(N, 4)).astype(dtype)
        return Dense(library.asarray(X), place_of(library.asarray(X))), X
    if kind == "flagged":
        X, flags = rng.normal(size=(N, 3)).astype(dtype), rng.random((N, 2)) < 0.3
        there = library.asarray(X), library.asarray(flags)
        return Flagged(there[0], place_of(there[0]), there[1]), np.concatenate([X, flags], axis=1)
    if kind == "sparse":
        X = sparse.random_array((N, 5), density=0.3, rng=rng, format="csr", dtype=dtype)
        parts = (library.asarray(a) for a in (X.data, X.indices, X.indptr))
        return Sparse(csr(*parts, X.shape)), X.toarray()
    if kind == "coded":
        codes = rng.integers(-1, 6, N), rng.integers(-1, 3, N)
        X = np.concatenate(
            [c[:, None] == np.arange(k) for c, k in ((codes[0], 6), (codes[1], 3))], axis=1
        )
        there = tuple(map(library.asarray, codes))
        floats = getattr(place_of(there[0]).xp, dtype)
        return Coded(there, (6, 3), floats), X.astype(dtype)
    if kind == "mapped":
        design, X = made("columns", library, rng, dtype)
        maps = affine_maps(rng, 1, X.shape[1])
        return Mapped(design, library.asarray(maps)), (X @ maps[0, :-1, :-1].T + maps[0, :-1, -1])
    if kind == "columns":
        parts = ["coded", "dense", "coded"] if not has_sparse(library) else ["coded", "sparse"]
    else:
        parts = ["columns", "dense"]
    designs, arrays = zip(*(made(part, library, rng, dtype) for part in parts), strict=True)
    return Columns(designs), np.concatenate(arrays, axis=1)


def affine_maps(rng, n_splits, n_columns, n_images=3):
    """Matrices (S, n_images + 1, n_columns + 1) whose last rows are (0, 1)."""
    maps = rng.normal(size=(n_splits, n_images + 1, n_columns + 1))
    maps[:, -1, :] = np.arange(n_columns + 1) == n_columns
    return maps


def has_sparse(library):
    return library.name in ("numpy", "cupy")


@pytest.fixture(params=KINDS)
def kind(request, library):
    if request.param == "sparse" and not has_sparse(library):
        pytest.skip(f"{library.name} has no sparse matrices")
    return request.param


def close(found, expected, dtype="float64"):
    tol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(to_host(found), expected, rtol=tol, atol=tol * N)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("block_bytes", [None, 600])
def test_products_are_those_of_the_array(kind, library, rng, dtype, block_bytes):
    design, X = made(kind, library, rng, dtype)
    design = replace(design, block_bytes=block_bytes)
    assert design.shape == X.shape
    coef = rng.normal(size=(3, X.shape[1])).astype(dtype)
    values, weights = rng.normal(size=(N, 2)).astype(dtype), rng.random((2, N))
    close(design.matvec(library.asarray(coef)), X @ coef.T, dtype)
    close(design.rmatvec(library.asarray(values)), values.T @ X, dtype)
    close(design.gram(library.asarray(weights)), [X.T @ (X * w[:, None]) for w in weights], dtype)
    mean = X.mean(axis=0, dtype=float)
    close(design.column_sums(), X.sum(axis=0), dtype)
    close(design.squares_about(library.asarray(mean)), ((X - mean) ** 2).sum(axis=0), dtype)
    close(design.products_about(library.asarray(mean)), (X - mean).T @ (X - mean), dtype)


@pytest.mark.parametrize("rows", [slice(0, N), slice(2, None, 7), slice(N, None, 7)])
def test_a_sample_is_some_of_the_rows_in_float64(kind, library, rng, rows):
    design, X = made(kind, library, rng, "float32")
    sample = design.sample(rows)
    assert sample.itemsize == 8
    assert sample.shape == X[rows].shape
    if sample.shape[0]:
        close(sample.column_sums(), X[rows].astype(float).sum(axis=0))


def test_blocks_cover_the_rows_once(kind, library, rng):
    design, X = made(kind, library, rng)
    for smaller in (None, 1000, 300):
        design = replace(design, block_bytes=smaller)
        for run in (slice(0, N), slice(31, 90)):
            blocks = list(design.blocks(2, run))
            close(np.concatenate([to_host(b.dense()) for b in blocks]), X[run])
            assert [b.rows.start for b in blocks[1:]] == [b.rows.stop for b in blocks[:-1]]


def test_runs_of_rows_side_by_side_have_the_same_sums(rng, monkeypatch):
    monkeypatch.setattr(loss_rows, "THREADED_FROM_PRODUCTS", 0)
    X = sparse.random_array((N, 5), density=0.6, rng=rng, format="csr")
    design = Sparse(X)
    assert 1 < design.n_runs(loss_rows.RUNS) < loss_rows.RUNS  # each has many entries per column
    assert design.n_entries == X.nnz
    W, target = rng.normal(size=(2, 3, 1, 6)), rng.integers(0, 2, N).astype(float)
    weights = rng.integers(0, 3, (3, N))
    found = [
        gradients(LossRows(each, target, weights, BINOMIAL, 1, threads=threads), W)
        for each, threads in ((design, 1), (design, 2), (design, 3), (Dense(X.toarray(), HOST), 2))
    ]
    np.testing.assert_array_equal(found[1], found[2])
    for sums in found[1:]:
        close(sums, found[0])


@pytest.mark.parametrize("loss", [BINOMIAL, tweedie(1.0, "log")], ids=lambda loss: loss.name)
def test_solvers_see_no_difference(kind, library, rng, loss):
    design, X = made(kind, library, rng)
    if isinstance(design, Mapped):
        pytest.skip("splits have maps of their own: see the next test")
    place = design.place
    W = library.asarray(0.1 * rng.normal(size=(2, 3, 1, X.shape[1] + 1)))
    target, weights = rng.integers(0, 2, N).astype(float), rng.integers(0, 3, (3, N))
    found = [
        LossRows(each, library.asarray(target), library.asarray(weights.astype(float)), loss, 1)
        for each in (design, Dense(library.asarray(X), place))
    ]
    total = found[0].total_weights
    for ours, dense in (
        [gradients(rows, W) for rows in found],
        [mean_second_derivatives(rows, W, total, shared=True) for rows in found],
        [mean_second_derivatives(rows, W, total, shared=False) for rows in found],
    ):
        close(ours, to_host(dense))


@pytest.mark.parametrize("n_images", [2, 8])
@pytest.mark.parametrize("n_vectors", [1, 3])
@pytest.mark.parametrize("few", [False, True])
def test_models_of_images_are_those_of_rows_that_were_mapped(
    library, rng, n_vectors, n_images, few, monkeypatch
):
    """Whatever the split's own map, and whether Hessians are mapped or the rows are."""
    design, X = made("columns", library, rng)
    place = design.place
    maps = affine_maps(rng, 3, X.shape[1], n_images)
    if few:
        maps[:, :-1, :] *= rng.random(maps[:, :-1, :].shape) < 0.1
        monkeypatch.setattr(_few_entries, "LEAST_ENTRIES", 0)
        monkeypatch.setattr(_few_entries, "ONE_IN", 2)
    target, weights = rng.integers(0, max(2, n_vectors), N), rng.integers(0, 3, (3, N))
    loss = BINOMIAL if n_vectors == 1 else MULTINOMIAL
    target = library.asarray(target.astype(float) if n_vectors == 1 else target)
    W = 0.1 * rng.normal(size=(2, 3, n_vectors, n_images + 1))
    mapped = LossRows(
        Mapped(design, library.asarray(maps)),
        *(target, library.asarray(weights.astype(float)), loss, n_vectors),
    )
    mean, variance = mapped.design.spread()
    assert (mapped.design._few is not None) == (few and isinstance(mapped.design.maps, np.ndarray))
    G = gradients(mapped, library.asarray(W))
    H = mean_second_derivatives(mapped, library.asarray(W), mapped.total_weights, shared=False)
    for s, split in enumerate(maps):
        image = X @ split[:-1, :-1].T + split[:-1, -1]
        own = library.asarray(weights[s : s + 1].astype(float))
        rows = LossRows(Dense(library.asarray(image), place), target, own, loss, n_vectors)
        model = library.asarray(W[:, s : s + 1])
        close(G[:, s : s + 1, ...], to_host(gradients(rows, model)))
        expected = mean_second_derivatives(rows, model, rows.total_weights, shared=False)
        close(H[:, s : s + 1, ...], to_host(expected))
        close(mean[s, :], image.mean(axis=0))
        close(variance[s, :], image.var(axis=0))


def test_parts_that_do_not_fit_together_are_refused(library, rng):
    X = library.asarray(rng.normal(size=(N, 2)))
    parts = Dense(X, place_of(X)), Dense(X[:-1, :], place_of(X))
    with pytest.raises(ValueError, match="must have rows, place and bits alike"):
        Columns(parts)


def test_codes_that_cannot_be_missing_and_levels_beyond_a_byte(library, rng):
    """Unsigned codes are taken as they are, whatever columns stand before theirs."""
    n_levels = (200, 250)
    codes = [rng.integers(0, k, N) for k in n_levels]
    X = np.concatenate(
        [c[:, None] == np.arange(k) for c, k in zip(codes, n_levels, strict=True)], 1
    )
    X = X.astype(float)
    weights, values, coef = rng.random((2, N)), rng.random((N, 3)), rng.random((3, 450))
    numbers = rng.normal(size=(N, 2))
    for dtype in (np.int64, np.uint8):
        there = tuple(library.asarray(c.astype(dtype)) for c in codes)
        place = place_of(there[0])
        design = Coded(there, n_levels, place.xp.float64)
        w = library.asarray(weights)
        close(design.rmatvec(library.asarray(values)), values.T @ X)
        close(design.matvec(library.asarray(coef)), X @ coef.T)
        close(design.gram(w), [X.T @ (X * own[:, None]) for own in weights])
        beside = Dense(library.asarray(numbers), place)
        close(design.cross(beside, w), [X.T @ (numbers * own[:, None]) for own in weights])


@pytest.mark.parametrize("n_models", [1, 70])
def test_levels_of_all_parts_are_looked_up_together(library, rng, n_models):
    """Of few levels and of many, of signed and of unsigned codes, wherever their columns stand."""
    parts, arrays = [], []
    for n_levels, dtype in ((7, np.int8), (900, np.uint16), (3, np.int64)):
        codes = rng.integers(0 if np.dtype(dtype).kind == "u" else -1, n_levels, N)
        numbers = rng.normal(size=(N, 2))
        there = library.asarray(numbers), library.asarray(codes.astype(dtype))
        place = place_of(there[0])
        parts += [Dense(there[0], place), Coded((there[1],), (n_levels,), place.xp.float64)]
        arrays += [numbers, (codes[:, None] == np.arange(n_levels)).astype(float)]
    design, X = Columns((Columns(tuple(parts[:4])), *parts[4:])), np.concatenate(arrays, axis=1)
    design = replace(design, block_bytes=2**18)  # more blocks than one
    coef, values = rng.normal(size=(n_models, X.shape[1])), rng.normal(size=(N, n_models))
    close(design.matvec(library.asarray(coef)), X @ coef.T)
    close(design.rmatvec(library.asarray(values)), values.T @ X)


def test_what_is_known_of_a_design_does_not_travel(rng):
    """It may be addresses of memory, which mean nothing in another process."""
    design = made_of_codes(rng, 6, 3)
    vars(design)["slots"] = "addresses"
    travelled = pickle.loads(pickle.dumps(design))
    assert "slots" not in vars(travelled)
    close(travelled.column_sums(), design.column_sums())


@pytest.mark.parametrize("n_vectors", [1, 3])
def test_products_with_codes_make_no_indicators(rng, monkeypatch, n_vectors):
    """Neither gradients nor Hessians, means or variances: their work does not grow with levels."""
    design = Columns((Dense(rng.normal(size=(N, 3)), HOST), made_of_codes(rng, 60, 40)))
    loss = BINOMIAL if n_vectors == 1 else MULTINOMIAL
    target = rng.integers(0, max(2, n_vectors), N)
    rows = LossRows(design, target, rng.integers(0, 3, (2, N)), loss, n_vectors)
    W = 0.1 * rng.normal(size=(2, 2, n_vectors, 104))
    dense = replace(rows, design=Dense(design.block(slice(0, N)).dense(), HOST))
    expected = [gradients(dense, W), second_derivatives(dense, W), *dense.design.spread()]
    monkeypatch.delattr(CodedBlock, "dense")
    found = [gradients(rows, W), second_derivatives(rows, W), *design.spread()]
    for one, two in zip(found, expected, strict=True):
        close(one, two)
    close(design.products_about(expected[2][0]), dense.design.products_about(expected[2][0]))


def made_of_codes(rng, *n_levels):
    return Coded(tuple(rng.integers(0, k, N) for k in n_levels), n_levels, np.float64)


def test_models_that_begin_alike_share_sums_over_the_rows(rng, monkeypatch):
    """Only the penalties of candidates differ there, which no row has to be read for."""
    X, target = rng.normal(size=(N, 3)), rng.integers(0, 2, N).astype(float)
    weights, l2 = rng.integers(0, 3, (2, N)), rng.random((3, 2, 1, 4))
    rows = LossRows(Dense(X, HOST), target, weights, BINOMIAL, 1)
    penalty = Penalty(0 * l2, l2, np.ones((3, 1, 1, 4)))
    problem = Objective(rows, rows.total_weights, penalty)
    start = np.repeat(rng.normal(size=(1, 2, 1, 4)), 3, axis=0)
    read = []
    sums = newton.gradients
    monkeypatch.setattr(newton, "gradients", lambda data, W: read.append(len(W)) or sums(data, W))
    found = problem.gradient(start, begins=True)
    one_by_one = [problem.select(np.asarray([c])).gradient(start[c : c + 1]) for c in range(3)]
    close(found, np.concatenate(one_by_one))
    assert read == [1] * 4
    apart = start + np.arange(3)[:, None, None, None]
    problem.gradient(apart, begins=True)
    assert read[-1] == 3


@pytest.mark.parametrize("n_splits", [1, 3])
def test_columns_beside_images_are_their_own_images(library, rng, n_splits):
    """Vectors of models go to what is read, and gradients come back, as through one wide map."""
    near, X = made("columns", library, rng)
    apart, Y = made("coded", library, rng)
    maps = affine_maps(rng, n_splits, X.shape[1])
    design = Beside(Mapped(near, library.asarray(maps)), apart)
    k, m = Y.shape[1], maps.shape[1] - 1
    wide = np.zeros((n_splits, m + k + 1, X.shape[1] + k + 1))
    order = [*range(m), m + k]
    columns = [*range(X.shape[1]), X.shape[1] + k]
    wide[np.ix_(range(n_splits), order, columns)] = maps
    wide[:, range(m, m + k), range(X.shape[1], X.shape[1] + k)] = 1.0
    close(design.stored.column_sums(), np.concatenate([X, Y], 1).sum(axis=0))
    W = rng.normal(size=(2, n_splits, 1, m + k + 1))
    close(design.to_stored(library.asarray(W)), W @ wide)
    G = rng.normal(size=(2, n_splits, 1, X.shape[1] + k + 1))
    close(design.from_stored(library.asarray(G)), G @ wide.transpose(0, 2, 1))
    images = np.stack([np.concatenate([X @ own[:-1, :-1].T + own[:-1, -1], Y], 1) for own in maps])
    mean, variance = design.spread()
    close(mean, images.mean(axis=1))
    close(variance, images.var(axis=1))
    assert design.shape == (N, m + k)
    if n_splits == 1:
        coef = rng.normal(size=(2, m + k))
        close(design.matvec(library.asarray(coef)), images[0] @ coef.T)


@pytest.mark.parametrize("loss", [BINOMIAL, MULTINOMIAL], ids=["binomial", "multinomial"])
@pytest.mark.parametrize("weighted", [False, True])
def test_hessians_of_rows_with_few_entries_need_no_dense_copy(loss, weighted, rng, monkeypatch):
    X = sparse.random_array((N, 120), density=0.01, rng=rng, format="csr")
    k = 1 if loss is BINOMIAL else 3
    y = rng.integers(0, 2, N) * 1.0 if k == 1 else rng.integers(0, k, N)
    weights = rng.random((2, N)) if weighted else None
    W = rng.normal(size=(2, 2 if weighted else 1, k, 121))
    rows = [
        LossRows(design, y, weights, loss, k) for design in (Sparse(X), Dense(X.toarray(), HOST))
    ]
    expected = second_derivatives(rows[1], W)
    monkeypatch.setattr(SparseBlock, "dense", None)
    np.testing.assert_allclose(second_derivatives(rows[0], W), expected, rtol=1e-12, atol=1e-12)
