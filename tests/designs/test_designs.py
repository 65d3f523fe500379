"""Every design is the dense array that it stands for: products, sums, samples, in any blocks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from gpuml._arrays import place_of, to_host
from gpuml.designs import Coded, Columns, Dense, Sparse
from gpuml.designs._sparse_ops import csr
from gpuml.losses import BINOMIAL, POISSON
from gpuml.solvers.loss_rows import LossRows, gradients
from gpuml.solvers.newton import mean_second_derivatives

N = 150
KINDS = ["dense", "sparse", "coded", "columns", "columns of columns"]


def made(kind, library, rng, dtype="float64"):
    """A design, and the array that it stands for."""
    if kind == "dense":
        X = rng.normal(size=(N, 4)).astype(dtype)
        return Dense(library.asarray(X), place_of(library.asarray(X))), X
    if kind == "sparse":
        X = sparse.random_array((N, 5), density=0.3, rng=rng, format="csr", dtype=dtype)
        parts = (library.asarray(a) for a in (X.data, X.indices, X.indptr))
        return Sparse(csr(*parts, X.shape)), X.toarray()
    if kind == "coded":
        codes = rng.integers(-1, 6, N)
        X = (codes[:, None] == np.arange(6)).astype(dtype)
        there = library.asarray(codes)
        return Coded(there, 6, getattr(place_of(there).xp, dtype)), X
    if kind == "columns":
        parts = ["coded", "dense", "coded"] if not has_sparse(library) else ["coded", "sparse"]
    else:
        parts = ["columns", "dense"]
    designs, arrays = zip(*(made(part, library, rng, dtype) for part in parts), strict=True)
    return Columns(designs), np.concatenate(arrays, axis=1)


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


@pytest.mark.parametrize("loss", [BINOMIAL, POISSON], ids=lambda loss: loss.name)
def test_solvers_see_no_difference(kind, library, rng, loss):
    design, X = made(kind, library, rng)
    place = design.place
    W = library.asarray(0.1 * rng.normal(size=(2, 3, 1, X.shape[1] + 1)))
    target, weights = rng.integers(0, 2, N).astype(float), rng.integers(0, 3, (3, N))
    found = [
        LossRows(each, library.asarray(target), library.asarray(weights.astype(float)), loss, 1)
        for each in (design, Dense(library.asarray(X), place))
    ]
    total = found[0].total_weights()
    for ours, dense in (
        [gradients(rows, W) for rows in found],
        [mean_second_derivatives(rows, W, total, shared=True) for rows in found],
        [mean_second_derivatives(rows, W, total, shared=False) for rows in found],
    ):
        close(ours, to_host(dense))


def test_parts_that_do_not_fit_together_are_refused(library, rng):
    X = library.asarray(rng.normal(size=(N, 2)))
    parts = Dense(X, place_of(X)), Dense(X[:-1, :], place_of(X))
    with pytest.raises(ValueError, match="must have rows, place and bits alike"):
        Columns(parts)
