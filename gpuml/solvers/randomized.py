"""Leading singular vectors of rows that are only multiplied: randomized subspace iteration.

With a random block Q, each iteration multiplies by the rows and by their transpose,

    Q <- orth(A Q),   Q <- orth(A' Q),

so that Q turns towards the leading singular vectors; an SVD of the small ``Q' A`` gives them [1]_.
Columns are made orthonormal after every product: without, digits of the smaller ones are lost.
Centred rows ``A = X - 1 m'`` are never formed.

References
----------
.. [1] N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness: probabilistic
   algorithms for constructing approximate matrix decompositions", SIAM Review 53 (2011).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import constant, triangular_factor
from gpuml._arrays.threads import threads_for_order
from gpuml.data import Batch, cut
from gpuml.solvers._blocks import Blocks, quiet
from gpuml.solvers.components import with_signs
from gpuml.solvers.compressed import independent, orthonormal
from gpuml.solvers.shifts import atom_shifts

# Rows of so few bytes are converted and centred once, not for each product.
HELD_BYTES = 2**28


@dataclass(frozen=True)
class DenseRows:
    """Rows A (n, p) of a batch, less a mean (p,) if given; read block by block, if few once only.

    Products are float64, in the library and on the device of `like`.
    """

    batch: Batch
    mean: Array | None
    like: Array
    block_bytes: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.batch.X.shape)

    @cached_property
    def _held(self):
        n, p = self.shape
        are_few = self.block_bytes is None and 8 * n * p <= HELD_BYTES
        return list(self._read(0)) if are_few else None

    def _blocks(self, width):
        return self._read(width) if self._held is None else self._held

    def _read(self, width):
        blocks = Blocks(self.batch, self.shape[1] + width, self.block_bytes)
        xp = blocks.place.xp
        for block in cut(slice(0, self.shape[0]), blocks.rows_per_block):
            rows = xp.astype(blocks.read(block)[0], xp.float64, copy=False)
            yield block, rows if self.mean is None else rows - self.mean

    def times(self, Q: Array) -> Array:
        """``A Q`` (n, b)."""
        return namespace(Q).concat([rows @ Q for _, rows in self._blocks(Q.shape[1])])

    def transposed_times(self, Q: Array) -> Array:
        """``A' Q`` (p, b)."""
        return sum(rows.T @ Q[block, :] for block, rows in self._blocks(Q.shape[1]))


@dataclass(frozen=True)
class SparseRows:
    """Rows of a sparse matrix (CSR or CSC, float64), less a mean (p,) if given."""

    X: Any
    mean: Array | None
    like: Array

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.X.shape)

    @cached_property
    def _transposed(self):
        return self.X.T

    def times(self, Q: Array) -> Array:
        product = self.X @ Q
        return product if self.mean is None else product - self.mean @ Q

    def transposed_times(self, Q: Array) -> Array:
        product = self._transposed @ Q
        if self.mean is None:
            return product
        sums = namespace(Q).sum(Q, axis=0)
        return product - self.mean[:, None] * sums


@dataclass(frozen=True)
class RowSums:
    """Means (p,) of rows, and the sum of squares of the rows less their mean."""

    mean: Array
    total: Array


def dense_sums(batch: Batch, block_bytes: int | None = None) -> RowSums:
    """Read the rows once for their means and spread."""
    shift = atom_shifts(batch, (slice(0, batch.n_rows),))[0, : batch.n_features]
    xp = batch.work.xp
    sums, squares = xp.zeros_like(shift), xp.zeros_like(shift)
    with quiet():
        for _, rows in DenseRows(batch, shift, shift, block_bytes)._read(0):
            sums = sums + xp.sum(rows, axis=0)
            squares = squares + xp.sum(rows**2, axis=0)
        offset = sums / batch.n_rows
        total = xp.sum(squares - batch.n_rows * offset**2)
    return RowSums(shift + offset, total)


def sparse_sums(X: Any) -> RowSums:
    """Means and spread of a sparse matrix without duplicate entries."""
    xp = namespace(X.data)
    n = X.shape[0]
    mean = (X.T @ xp.ones(n, dtype=xp.float64)) / n
    return RowSums(mean, xp.sum(X.data**2) - n * xp.sum(mean**2))


def sparse_products(X: Any, mean: Array) -> Array:
    """``X' X - n m m'`` (p, p) of a sparse matrix: the only dense thing is the result."""
    return (X.T @ X).toarray() - X.shape[0] * mean[:, None] * mean[None, :]


def randomized_svd(
    rows: DenseRows | SparseRows, n_components: int, n_extra: int, n_iter: int | str, random: Any
) -> tuple[Array, Array, Array]:
    """Leading singular values (r,), right singular vectors V (r, p), and rows ``A V'`` (n, r).

    Parameters
    ----------
    rows : DenseRows or SparseRows
    n_components : int
        r, or the smaller of the number of rows and columns where that is less.
    n_extra : int
        So many more random vectors than components.
    n_iter : int or "auto"
        Iterations. "auto" is 7 for fewer components than a tenth of the smaller dimension, else 4.
    random : numpy.random.RandomState
        Its numbers are drawn by NumPy, as many and in the order that scikit-learn draws them.
    """
    xp = namespace(rows.like)
    n, p = rows.shape
    n_iter = n_power_iter(n_iter, n_components, n, p)
    # The random block is on the short side, as scikit-learn's is.
    start = random.normal(size=(min(n, p), n_components + n_extra))
    Q = constant(start, like=rows.like, xp=xp)
    if n >= p:
        Q = independent(rows.times(Q))
    for _ in range(n_iter):
        Q = independent(rows.transposed_times(Q))
        Q = independent(rows.times(Q))
    # Ending on this side makes singular values the very lengths of the projected rows.
    Q = orthonormal(rows.transposed_times(Q))
    image = rows.times(Q)
    small = triangular_factor(image, xp) if n > Q.shape[1] else image
    with threads_for_order(min(small.shape)):
        _, singular, turn = xp.linalg.svd(small, full_matrices=False)
    count = min(n_components, n, p)
    vectors = with_signs(turn[:count, :] @ Q.T, xp)
    return singular[:count], vectors, image @ (Q.T @ vectors.T)


def n_power_iter(n_iter: int | str, n_components: int, n_rows: int, n_columns: int) -> int:
    """How many iterations are made; "auto" is 7 for few components, else 4."""
    if not isinstance(n_iter, str):
        return int(n_iter)
    return 7 if n_components < 0.1 * min(n_rows, n_columns) else 4
