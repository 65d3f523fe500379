"""Batches of sparse rows, and readings of them for gradients of many linear models."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from gpuml._arrays import (
    Array,
    compute_place,
    device_of,
    fits,
    itemsize,
    move,
    namespace,
    place_of,
)
from gpuml.data import Batch, Folds, spaced
from gpuml.solvers import loss_rows, newton, sparse_logistic
from gpuml.solvers._sparse_ops import (
    as_dense,
    csr,
    matrix_nbytes,
    moved,
    run_of_rows,
    take_rows,
    times,
    transposed,
    used_columns,
    with_data,
    without_duplicates,
)
from gpuml.solvers.loss_rows import CPU_BLOCK_BYTES, GPU_BLOCK_BYTES, LossRows

# A matrix on its way to a GPU, without its empty columns, and transposed.
COPIES_ON_DEVICE = 3


@dataclass(frozen=True)
class SparseBatch(Batch):
    """Rows of a sparse matrix.

    X (n, 1) holds their numbers: who takes rows of a batch takes these, and `rows` looks them up.

    Attributes
    ----------
    matrix : CSR matrix (N, u)
        At `work`, without duplicate entries, and without the columns that have no entries at all.
    columns : int array (u,) or None
        The columns that are left; None for all.
    n_columns : int
        Columns of the user's X.
    """

    matrix: Any = None
    columns: Array | None = None
    n_columns: int = 0

    @property
    def n_features(self) -> int:
        """Features that models see: the columns that are left."""
        return self.matrix.shape[1]

    def all_rows(self) -> Any:
        """The rows of the batch as a matrix."""
        return self.matrix if self.n_rows == self.matrix.shape[0] else self.rows(self.X)

    def rows(self, numbers: Array) -> Any:
        """Rows by their numbers (m, 1), as a matrix."""
        return take_rows(self.matrix, numbers[:, 0])

    def without_rows(self) -> Batch:
        """Targets, weights and all that has the dtype of the rows, with X of shape (n, 0)."""
        xp, data = self.work.xp, self.matrix.data
        X = xp.empty((self.n_rows, 0), dtype=data.dtype, device=device_of(data))
        return Batch(
            X, self.y, self.weight, self.work, self.home, self.y_is_flat, self.codes, self.classes
        )


def sparse_batch(X: Any, y: Array, weight: Array | None, setting: str) -> SparseBatch:
    """A batch of a CSR matrix, on the device that the settings want if there is room for it.

    Parameters
    ----------
    X : CSR matrix (n, p)
    y, weight : arrays (n,) or (n, t), (n,) or None
    setting : {"auto", "cpu", "cuda"}
    """
    home = place_of(X.data)
    size = matrix_nbytes(X)
    work = compute_place(X.data, size, setting)
    if work != home and not fits(COPIES_ON_DEVICE * size, work):
        work = home
    matrix, columns = used_columns(moved(without_duplicates(X), work))
    y_is_flat = y.ndim == 1
    y, weight = (move(a, work) for a in (y[:, None] if y_is_flat else y, weight))
    xp = work.xp
    numbers = xp.arange(X.shape[0], dtype=xp.int64, device=device_of(matrix.data))[:, None]
    return SparseBatch(
        numbers,
        y,
        weight,
        work,
        home,
        y_is_flat,
        matrix=matrix,
        columns=columns,
        n_columns=X.shape[1],
    )


def folds_without_rows(folds: Folds) -> Folds:
    """The same splits of a batch `without_rows`."""
    return replace(folds, batch=sparse_batch_of(folds).without_rows())


def sparse_batch_of(folds: Folds) -> SparseBatch:
    """The batch of folds that are known to be of sparse rows."""
    return cast(SparseBatch, folds.batch)


# ---------------------------------------------------------------- pieces


@dataclass(frozen=True)
class Piece:
    """Neighbouring rows as a matrix, and transposed."""

    rows: slice
    X: Any
    transposed: Any


def pieces_of(X: Any, n_pieces: int) -> tuple[Piece, ...]:
    """A matrix in pieces of neighbouring rows."""
    ends = np.linspace(0, X.shape[0], n_pieces + 1).astype(int).tolist()
    parts = [(slice(a, b), run_of_rows(X, a, b)) for a, b in pairwise(ends)]
    return tuple(Piece(rows, part, transposed(part)) for rows, part in parts)


def number_of_pieces(X: Any, row_bytes: int, bound: int) -> int:
    """Into how many pieces to cut, a power of 2: `row_bytes` of workspace a row within a bound.

    A product with transposed rows is as long as there are columns, however few the rows. So pieces
    have no fewer entries than the matrix has columns, whatever the bound: workspace of the size of
    the models is had anyway.
    """
    wanted = X.shape[0] * row_bytes / max(bound, 1)
    most = max(1, min(X.shape[0], X.nnz // max(1, X.shape[1])))
    return 2 ** int(np.log2(max(1.0, min(wanted, most))))


class DenseBlocks:
    """A sparse matrix whose rows are read as small dense blocks."""

    def __init__(self, matrix: Any):
        self.matrix = matrix
        self.shape = matrix.shape
        self.dtype = matrix.dtype

    def __getitem__(self, index: Any) -> Array:
        rows = index[0]
        return as_dense(run_of_rows(self.matrix, rows.start, rows.stop))


# ---------------------------------------------------------------- losses


@dataclass(frozen=True)
class SparseLossRows(LossRows):
    """As `LossRows`, of sparse rows: X are `DenseBlocks`, for second derivatives only.

    What reads the rows for every step is in `SUMS`: products of the sparse matrix with the
    coefficients of all models as columns.
    """

    known: dict = field(default_factory=dict, compare=False, repr=False)

    @property
    def matrix(self) -> Any:
        """The rows as a CSR matrix."""
        return self.X.matrix

    def total(self, function: Callable[..., Array], *args: Any) -> Array:
        """``function(rows, *args)``, which is a sum over rows, or what `SUMS` has for it."""
        return SUMS.get(function, function)(self, *args)

    def every(self, step: int) -> "SparseLossRows":
        """One row in `step`, in float64."""
        xp = self.place.xp
        rows = spaced(step // 2, step, self.first, self.n_rows)
        chosen = xp.arange(self.n_rows, dtype=xp.int64, device=device_of(self.target))[rows]
        part = take_rows(self.matrix, chosen)
        part = with_data(part, xp.astype(part.data, xp.float64, copy=False))
        weights = None if self.weights is None else self.weights[:, rows]
        return replace(
            self,
            X=DenseBlocks(part),
            target=self.target[rows],
            weights=weights,
            advance=None,
            known={},
        )

    def pieces(self, n_columns: int) -> tuple[Piece, ...]:
        """The rows in pieces for products with so many columns; those of last time if they fit."""
        on_cpu = self.place.kind == "numpy"
        bound = self.block_bytes or (CPU_BLOCK_BYTES if on_cpu else GPU_BLOCK_BYTES)
        row_bytes = 2 * n_columns * itemsize(self.matrix.data.dtype)
        n_pieces = number_of_pieces(self.matrix, row_bytes, bound)
        if len(self.known.get("pieces", ())) != n_pieces:
            self.known["pieces"] = pieces_of(self.matrix, n_pieces)
        return self.known["pieces"]


def _gradients(data, W):
    W, xp = move(W, data.place), data.place.xp
    n_candidates, n_splits, k, q = W.shape
    A = xp.reshape(xp.permute_dims(W, (2, 0, 1, 3)), (-1, q))
    coef, offset = xp.astype(A[:, :-1], data.dtype).T, xp.astype(A[:, -1:], data.dtype)
    shape = (k, n_candidates, n_splits)
    sums, ends = [], []
    for piece in data.pieces(A.shape[0]):
        slope = _weighted_slope(data, piece, coef, offset, shape, xp)
        product = times(piece.transposed, slope.T)  # (u, M)
        sums.append(xp.astype(product, xp.float64, copy=False))
        ends.append(xp.sum(slope, axis=-1, dtype=xp.float64))
        if len(sums) > 1:
            sums, ends = [sums[0] + sums[1]], [ends[0] + ends[1]]
        if data.advance is not None:
            data.advance(piece.rows.stop - piece.rows.start)
    total = xp.concat([sums[0].T, ends[0][:, None]], axis=1)
    return xp.permute_dims(xp.reshape(total, (*shape, q)), (1, 2, 0, 3))


def _weighted_slope(data, piece, coef, offset, shape, xp):
    """Weight x slope (M, b) of the loss of the rows of a piece."""
    z = times(piece.X, coef).T
    target = data.target[piece.rows]
    weights = None if data.weights is None else data.weights[:, piece.rows]
    if data.place.kind == "cupy":
        from gpuml.solvers._kernels import weighted_slope

        z = xp.ascontiguousarray(z)
        return weighted_slope(data.loss.name, z, offset, target, weights, shape)
    z = xp.reshape(z + offset, (*shape, z.shape[1]))
    slope = data.loss.slope(z, target, xp)
    if weights is not None:
        slope = slope * xp.astype(weights, slope.dtype, copy=False)
    return xp.reshape(slope, (-1, slope.shape[-1]))


def _sums_of_features(sample):
    xp = sample.place.xp
    ones = xp.ones((sample.n_rows, 1), dtype=xp.float64, device=device_of(sample.target))
    return column_sums(sample.matrix, ones)[:, 0]


def _squares_of_features(sample, mean):
    """Sums of squares (u,) about the mean of the same rows."""
    xp = sample.place.xp
    ones = xp.ones((sample.n_rows, 1), dtype=xp.float64, device=device_of(sample.target))
    squares = column_sums(squared(sample.matrix), ones)[:, 0] - sample.n_rows * mean**2
    return xp.where(squares > 0, squares, xp.zeros_like(squares))


def _gram_product(data, V):
    """``[X, 1]' [X, 1] v`` for each vector of V (S, q)."""
    V, xp = move(V, data.place), data.place.xp
    X = float64_matrix(data.matrix)
    z = times(X, V[:, :-1].T) + V[:, -1]
    return xp.concat([times(transposed(X), z).T, xp.sum(z, axis=0)[:, None]], axis=1)


# Sums over dense rows, and the same over sparse ones.
SUMS = {
    loss_rows._gradients: _gradients,
    newton._sums_of_features: _sums_of_features,
    newton._squares_of_features: _squares_of_features,
    sparse_logistic._gram_product: _gram_product,
}


# ---------------------------------------------------------------- columns


def column_sums(X: Any, weights: Array) -> Array:
    """Weighted sums (u, S) of the columns in float64, for weights (n, S)."""
    return times(transposed(float64_matrix(X)), weights)


def squared(X: Any) -> Any:
    """The squares of all entries, float64."""
    return with_data(X, float64_matrix(X).data ** 2)


def float64_matrix(X: Any) -> Any:
    """A CSR matrix with float64 entries; the same one if it has them already."""
    xp = namespace(X.data)
    if X.data.dtype == xp.float64:
        return X
    return csr(xp.astype(X.data, xp.float64), X.indices, X.indptr, X.shape)
