"""The protocol of designs, and the shared parts of all kinds."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self

import numpy as np

from gpuml._arrays import Array, Place, free_memory
from gpuml._arrays.grams import full_symmetric
from gpuml._arrays.ops import zeros
from gpuml.data import Aligned

# Workspace of one block: it fits into the cache of a core, or into GPU memory several times.
CPU_BLOCK_BYTES = 2**20
GPU_BLOCK_BYTES = 2**29
SMALLEST_BLOCK_ROWS = 64


class Block(Protocol):
    """Consecutive rows of a design, ready for products; b rows, p columns."""

    @property
    def rows(self) -> slice:
        """The position of these rows in the design."""

    def margins(self, coef: Array) -> Array:
        """``coef X'`` (M, b) for coefficients (M, p)."""

    def products(self, values: Array) -> Array:
        """``values X`` (M, p) for numbers per row (M, b)."""

    def dense(self) -> Array:
        """The rows (b, p) in float64."""

    def in_float64(self) -> "Block":
        """The same rows, for float64 products."""


@dataclass(frozen=True, kw_only=True)
class Design(Aligned, ABC):
    """Rows (n, p) as linear models see them.

    Results are at `place`, whose library `dtype` is of. Products within a block are of the dtype of
    the rows; sums over blocks are float64.

    Attributes
    ----------
    block_bytes : int or None
        Bound on the workspace of a block; None follows the place.
    """

    block_bytes: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Cached values may hold memory addresses of this process.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns."""

    @property
    @abstractmethod
    def place(self) -> Place:
        """Where products are computed and results are."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Float dtype of the rows, in the library of `place`."""

    @property
    def itemsize(self) -> int:
        """Bytes of a number of X."""
        return 8 if self.dtype == self.place.xp.float64 else 4

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in a block."""
        return self.shape[1] * self.itemsize

    @property
    def n_entries(self) -> int:
        """How many entries of X a product with all rows uses."""
        return self.shape[0] * self.shape[1]

    @property
    def entry_cost(self) -> float:
        """The time of a product with an entry, relative to an entry of dense rows."""
        return 1.0

    @property
    def gram_cost(self) -> float:
        """The time of `gram` per row, in multiplications of dense rows."""
        return float(self.shape[1]) ** 2

    @property
    def has_fast_gram(self) -> bool:
        """Whether `gram` takes less time than products of dense copies of the rows."""
        return self.gram_cost < self.shape[1] ** 2

    def cross_cost(self, other: "Design") -> float:
        """As `gram_cost`, for `cross`."""
        return float(self.shape[1]) * other.shape[1]

    def n_runs(self, most: int) -> int:
        """The number of runs into which gpuml's threads may divide the rows."""
        return most

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Float64 zeros for sums of products (M, ...), with the memory order of products."""
        xp, place = self.place.xp, self.place
        return xp.zeros(shape, dtype=xp.float64, device=place.device)

    # ------------------------------------------------------------ what models see, and what is read

    @property
    def stored(self) -> "Design":
        """The design whose rows are read: this one, unless it has images of another one's rows."""
        return self

    @property
    def n_maps(self) -> int:
        """1, or the number of splits with images of their own."""
        return 1

    def to_stored(self, W: Array) -> Array:
        """Vectors (C, S, k, q) of models as vectors for the rows of `stored`."""
        return W

    def from_stored(self, G: Array) -> Array:
        """Gradients (C, S, k, q) for the rows of `stored` as gradients of the models."""
        return G

    def hessians_from_stored(self, H: Array) -> Array:
        """As `from_stored`, for Hessians (C, S or 1, k q, k q)."""
        return H

    def by_split(self, n_matrices: int) -> "tuple[Design, ...]":
        """Designs of the images of each split, if they save work for so many Hessians."""
        return ()

    # ------------------------------------------------------------ blocks

    @abstractmethod
    def block(self, rows: slice) -> Block:
        """Some consecutive rows."""

    @abstractmethod
    def sample(self, rows: slice) -> Self:
        """Some of the rows in float64, at `place`."""

    def blocks(self, n_columns: int, rows: slice | None = None) -> Iterator[Block]:
        """The rows, or a run of them, in blocks.

        The workspace of a block, with so many columns of results, stays within the limit.
        """
        rows = slice(0, self.shape[0]) if rows is None else rows
        size = self._rows_per_block(n_columns)
        for start in range(rows.start, rows.stop, size):
            yield self.block(slice(start, min(start + size, rows.stop)))

    def with_smaller_blocks(self, n_columns: int, error: BaseException) -> Self:
        """The same rows with a quarter of the block size; MemoryError if it was the smallest."""
        size = self._rows_per_block(n_columns) // 4
        if size < SMALLEST_BLOCK_ROWS // 4:
            raise MemoryError(
                f"Not enough memory on {self.place} for blocks of {4 * size} rows x "
                f"{self.shape[1]} columns and {n_columns} margins of each. Free memory there, set "
                "a smaller gpuml.set_config(solver_bytes=...), or use "
                "gpuml.set_config(device='cpu')."
            ) from error
        free_memory(self.place)
        return replace(self, block_bytes=size * self._bytes_of_a_row(n_columns))

    @property
    def fewest_block_rows(self) -> int:
        """The fewest rows of a block, unless the caller limits its bytes."""
        return SMALLEST_BLOCK_ROWS

    def _rows_per_block(self, n_columns):
        smallest = self.fewest_block_rows if self.block_bytes is None else 1
        return max(smallest, self._bound // self._bytes_of_a_row(n_columns))

    def _bytes_of_a_row(self, n_columns):
        return max(1, self.row_bytes + 2 * n_columns * self.itemsize)  # a design may have no column

    @property
    def usual_block_bytes(self) -> int:
        """The limit of a block's workspace if the caller sets none."""
        return CPU_BLOCK_BYTES if self.place.kind == "numpy" else GPU_BLOCK_BYTES

    @property
    def _bound(self):
        return self.block_bytes or self.usual_block_bytes

    # ------------------------------------------------------------ products with all rows

    def matvec(self, coef: Array) -> Array:
        """``X coef'`` (n, M) for coefficients (M, p)."""
        xp = self.place.xp
        if not self.shape[0]:
            return xp.zeros((0, coef.shape[0]), dtype=coef.dtype, device=self.place.device)
        found = [block.margins(coef) for block in self.blocks(coef.shape[0])]
        return xp.matrix_transpose(found[0] if len(found) == 1 else xp.concat(found, axis=1))

    def rmatvec(self, values: Array) -> Array:
        """``values' X`` (M, p), float64, for numbers per row (n, M)."""
        xp = self.place.xp
        total = zeros((values.shape[1], self.shape[1]), like=values, xp=xp)
        for block in self.blocks(values.shape[1]):
            total += block.products(xp.matrix_transpose(values[block.rows, :]))
        return total

    def gram(self, weights: Array) -> Array:
        """``X' diag(w) X`` (M, p, p), float64, for each w of `weights` (M, n)."""
        xp = self.place.xp
        (n_weights, _), p = weights.shape, self.shape[1]
        total = zeros((n_weights, p, p), like=weights, xp=xp)
        # With many weights and few columns, products of columns are computed once for all weights.
        once = p <= n_weights and self.place.kind == "numpy"
        for block in self.blocks(p if once else n_weights * p):
            X = block.dense()
            w = xp.astype(weights[:, block.rows], xp.float64, copy=False)
            if once:
                one, two = np.tril_indices(p)
                total[:, one, two] += w @ (X[:, one] * X[:, two])
                continue
            total += (xp.matrix_transpose(X)[None, ...] * w[:, None, :]) @ X
        return full_symmetric(total, xp) if once else total

    def cross(self, other: "Design", weights: Array) -> Array:
        """``X' diag(w) Y`` (M, p, k), float64, for rows Y (n, k) at the same place."""
        few, many = sorted((self, other), key=lambda design: design.shape[1])
        found = _cross(few, many, weights)
        return found if few is self else self.place.xp.matrix_transpose(found)

    def column_sums(self) -> Array:
        """Sums (p,) of the columns, float64."""
        xp = self.place.xp
        ones = xp.ones((self.shape[0], 1), dtype=self.dtype, device=self.place.device)
        return self.rmatvec(ones)[0, :]

    def spread(self) -> tuple[Array, Array]:
        """Means and variances (1, p) of the columns; (S, p) where splits have maps."""
        mean = self.column_sums() / self.shape[0]
        return mean[None, :], (self.squares_about(mean) / self.shape[0])[None, :]

    def squares_about(self, mean: Array) -> Array:
        """Sums (p,) of squares of the columns about their means, float64."""
        xp = self.place.xp
        total = xp.zeros_like(mean)
        for block in self.blocks(self.shape[1]):
            total += xp.sum((block.dense() - mean) ** 2, axis=0)
        return total

    def less(self, shift: Array) -> "tuple[Design, Array]":
        """The rows in float64 less a shift (p,), and what was subtracted: 0 except for numbers."""
        return self, self.place.xp.zeros_like(shift)

    def products_about(self, mean: Array) -> Array:
        """Sums (p, p) of products of the columns about their means, float64."""
        p = self.shape[1]
        total = zeros((p, p), like=mean, xp=self.place.xp)
        for block in self.blocks(p):
            X = block.dense() - mean
            total += X.T @ X
        return total


def _cross(few, many, weights):
    """``F' diag(w) G`` (M, f, g); blocks of the design with fewer columns become dense."""
    xp = few.place.xp
    n_weights, shape = weights.shape[0], (weights.shape[0], few.shape[1], many.shape[1])
    total: Any = 0.0
    for block in many.blocks(n_weights * few.shape[1]):
        F = xp.matrix_transpose(few.block(block.rows).dense())
        w = xp.astype(weights[:, block.rows], xp.float64, copy=False)
        values = xp.reshape(w[:, None, :] * F[None, ...], (-1, F.shape[1]))
        total = total + xp.reshape(block.in_float64().products(values), shape)
    return total
