"""Rows of a sparse matrix."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import Array, Place, device_of, free_memory, namespace, place_of
from gpuml.designs._sparse_ops import (
    as_dense,
    csr,
    run_of_rows,
    take_rows,
    times,
    transposed,
    with_data,
)
from gpuml.designs.base import SMALLEST_BLOCK_ROWS, Block, Design

# Size of dense copies of blocks, for products of rows with themselves.
CPU_DENSE_BYTES = 2**23
GPU_DENSE_BYTES = 2**28
# Multiplications in a large dense product that take as long as one with a sparse entry: measured on
# two cores of a Xeon; on GPUs, from bandwidths.
CPU_ENTRY_COST = 8.0
GPU_ENTRY_COST = 100.0
# Multiplications of dense columns in the time of one of two entries of the same row, on a CPU.
PRODUCT_COST = 500.0
# On a CPU, blocks have so many entries for each column of the matrix.
CPU_ENTRIES_PER_COLUMN = 8


@dataclass(frozen=True)
class Sparse(Design):
    """A CSR matrix (n, p) of SciPy or CuPy.

    Attributes
    ----------
    matrix : CSR matrix
    known : dict
        Blocks of the last pass, for the next one.
    """

    matrix: Any
    known: dict = field(default_factory=dict, compare=False, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def place(self) -> Place:
        return place_of(self.matrix.data)

    @property
    def dtype(self) -> Any:
        """Float dtype of the entries."""
        return self.matrix.data.dtype

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in a block: none, because it is in memory already."""
        return 0

    @property
    def n_entries(self) -> int:
        """The number of stored entries."""
        return int(self.matrix.nnz)

    @property
    def entry_cost(self) -> float:
        """The time of a product with an entry, relative to an entry of dense rows."""
        return CPU_ENTRY_COST if self.place.is_host else GPU_ENTRY_COST

    @property
    def has_fast_gram(self) -> bool:
        """Whether rows have so few entries that products of all pairs of them are few."""
        if not self.place.is_host:
            return False
        pairs = np.sum(np.diff(self.matrix.indptr).astype(np.float64) ** 2)
        return PRODUCT_COST * pairs < self.shape[0] * float(self.shape[1]) ** 2

    def n_runs(self, most: int) -> int:
        """The number of runs, a power of 2, into which the rows may be divided."""
        return 2 ** int(np.log2(min(most, self._most_blocks)))

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Float64 zeros for sums of products (M, ...), on a CPU in Fortran order."""
        if not self.place.is_host:
            return super().zeros(shape)
        return np.zeros(shape, order="F")

    def block(self, rows: slice) -> "SparseBlock":
        """Some consecutive rows."""
        X = run_of_rows(self.matrix, rows.start, rows.stop)
        return SparseBlock(rows, X, transposed(X))

    def blocks(self, n_columns: int, rows: slice | None = None) -> Iterator[Block]:
        """The rows, or a run of them, in blocks; blocks of the last pass are reused if they fit."""
        first, last = (0, self.shape[0]) if rows is None else (rows.start, rows.stop)
        share = (last - first) / max(1, self.shape[0])
        n_blocks = max(1, round(share * self._n_blocks(n_columns, self._bound)))
        if len(self.known.get((first, last), ())) != n_blocks:
            ends = np.linspace(first, last, n_blocks + 1).astype(int).tolist()
            self.known[first, last] = [self.block(slice(a, b)) for a, b in pairwise(ends)]
        yield from self.known[first, last]

    def sample(self, rows: slice) -> "Sparse":
        """Some of the rows, in float64."""
        part = self.matrix
        if rows != slice(0, self.shape[0]):
            xp = self.place.xp
            numbers = xp.arange(self.shape[0], dtype=xp.int64, device=device_of(part.data))
            part = take_rows(part, numbers[rows])
        return replace(self, matrix=float64_matrix(part), known={})

    def with_ones(self) -> "Sparse":
        """The rows, in float64 on a CPU, and a last column of ones."""
        ones = sparse.csr_array(np.ones((self.shape[0], 1)))
        matrix = sparse.hstack([float64_matrix(self.matrix), ones], format="csr")
        return replace(self, matrix=matrix, known={})

    def with_smaller_blocks(self, n_columns: int, error: BaseException) -> "Sparse":
        """The same rows with a quarter of the block size; MemoryError if it was the smallest."""
        n_blocks = self._n_blocks(n_columns, self._bound)
        if self._n_blocks(n_columns, self._bound // 4) == n_blocks:
            raise MemoryError(
                f"Not enough memory on {self.place} for {n_columns} margins of each of "
                f"{self.shape[0] // n_blocks} rows, and as many coefficients of {self.shape[1]} "
                "columns. Free memory there, set a smaller gpuml.set_config(solver_bytes=...), or "
                "use gpuml.set_config(device='cpu')."
            ) from error
        free_memory(self.place)
        return replace(self, block_bytes=self._bound // 4, known={})

    def gram(self, weights: Array) -> Array:
        """``X' diag(w) X`` (M, p, p), float64, for each w of `weights` (M, n).

        Sparse rows, transposed, times dense copies of small blocks of them; or times sparse ones.
        """
        if self.has_fast_gram:
            X = float64_matrix(self.matrix)
            counts = np.diff(X.indptr)
            found = np.empty((len(weights), X.shape[1], X.shape[1]))
            for m, w in enumerate(weights):
                (X.T @ with_data(X, X.data * np.repeat(w, counts))).toarray(out=found[m])
            return found
        xp, (n, p) = self.place.xp, self.shape
        bound = CPU_DENSE_BYTES if self.place.is_host else GPU_DENSE_BYTES
        size = max(SMALLEST_BLOCK_ROWS, bound // (8 * p * weights.shape[0]))
        total: Any = 0.0
        for start in range(0, max(n, 1), size):
            block = self.block(slice(start, min(start + size, n))).in_float64()
            w = xp.astype(weights[:, block.rows], xp.float64, copy=False)
            values = w[:, None, :] * xp.matrix_transpose(block.dense())[None, ...]  # (M, p, b)
            products = block.products(xp.reshape(values, (-1, values.shape[-1])))
            total = total + xp.reshape(products, (-1, p, p))
        return (total + xp.matrix_transpose(total)) / 2

    def column_sums(self) -> Array:
        """Sums (p,) of the columns, float64."""
        return column_sums(self.matrix, self._ones())[:, 0]

    def squares_about(self, mean: Array) -> Array:
        """Sums (p,) of squares of the columns about their means, float64."""
        xp = self.place.xp
        squares = column_sums(squared(self.matrix), self._ones())[:, 0]
        squares = squares - self.shape[0] * mean**2
        return xp.where(squares > 0, squares, xp.zeros_like(squares))

    def _ones(self):
        xp = self.place.xp
        return xp.ones((self.shape[0], 1), dtype=xp.float64, device=device_of(self.matrix.data))

    def _n_blocks(self, n_columns, bound):
        """The number of blocks, a power of 2."""
        wanted = self.shape[0] * self._bytes_of_a_row(n_columns) / max(bound, 1)
        return 2 ** int(np.log2(max(1.0, min(wanted, self._most_blocks))))

    @property
    def _most_blocks(self):
        """The largest number of blocks.

        The result of a product with transposed rows has as many entries as columns, even for few
        rows. So blocks have no fewer entries than the matrix has columns, on a CPU several times as
        many, whatever the limit: workspace of the size of the models is needed anyway.
        """
        n, p = self.shape
        fewest = max(1, p) * (CPU_ENTRIES_PER_COLUMN if self.place.is_host else 1)
        return max(1, min(n, self.matrix.nnz // fewest))


@dataclass(frozen=True)
class SparseBlock:
    """Consecutive rows as a matrix, and transposed."""

    rows: slice
    X: Any
    transposed: Any

    def margins(self, coef: Array) -> Array:
        """``coef X'``."""
        return times(self.X, coef.T).T

    def products(self, values: Array) -> Array:
        """``values X``."""
        return times(self.transposed, values.T).T

    def dense(self) -> Array:
        """The rows in float64."""
        X = as_dense(self.X)
        xp = namespace(X)
        return xp.astype(X, xp.float64, copy=False)

    def in_float64(self) -> "SparseBlock":
        """The same rows, for float64 products."""
        X = float64_matrix(self.X)
        return self if X is self.X else SparseBlock(self.rows, X, transposed(X))


# ---------------------------------------------------------------- columns


def column_sums(X: Any, weights: Array) -> Array:
    """Weighted column sums (p, S) in float64, for weights (n, S)."""
    return times(transposed(float64_matrix(X)), weights)


def squared(X: Any) -> Any:
    """The squares of all entries, in float64."""
    return with_data(X, float64_matrix(X).data ** 2)


def float64_matrix(X: Any) -> Any:
    """A CSR matrix with float64 entries; X itself if it has them already."""
    xp = namespace(X.data)
    if X.data.dtype == xp.float64:
        return X
    return csr(xp.astype(X.data, xp.float64), X.indices, X.indptr, X.shape)
