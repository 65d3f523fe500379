"""Batches of sparse rows."""

from dataclasses import dataclass
from typing import Any

from gpuml._arrays import Array, compute_place, device_of, fits, move, place_of
from gpuml.data import Rows, namespace
from gpuml.designs import Sparse
from gpuml.designs._sparse_ops import (
    matrix_nbytes,
    moved,
    take_rows,
    used_columns,
    without_duplicates,
)
from gpuml.designs.sparse import float64_matrix
from gpuml.solvers.numbered_rows import NumberedBatch

# A matrix on its way to a GPU, without its empty columns, and transposed.
COPIES_ON_DEVICE = 3


@dataclass(frozen=True)
class SparseBatch(NumberedBatch):
    """Rows of a sparse matrix.

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

    @property
    def dtype(self) -> Any:
        """Dtype of the entries."""
        return self.matrix.data.dtype

    def all_rows(self) -> Any:
        """The rows of the batch as a matrix."""
        return self.matrix if self.n_rows == self.matrix.shape[0] else self.rows(self.X)

    def rows(self, numbers: Array) -> Any:
        """Rows by their numbers (m, 1), as a matrix."""
        return take_rows(self.matrix, numbers[:, 0])

    def design(self, block_bytes: int | None = None) -> Sparse:
        """The rows as solvers see them."""
        return Sparse(self.all_rows(), block_bytes=block_bytes)

    def about(self, numbers: Array, shift: Array) -> Sparse:
        """Some rows, in float64; a shift would make them dense, and is none."""
        return Sparse(float64_matrix(self.rows(numbers)))

    def shifts(self, atoms: tuple[Rows, ...]) -> Array:
        """None: zeros (q - 1,)."""
        xp = namespace(self.y)
        n_columns = self.n_features + self.y.shape[1]
        return xp.zeros((n_columns,), dtype=xp.float64, device=device_of(self.y))


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
