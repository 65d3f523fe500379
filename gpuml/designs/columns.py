"""Designs side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from gpuml._arrays import Array, Place, namespace
from gpuml.designs.base import Block, Design


@dataclass(frozen=True)
class Columns(Design):
    """The columns of several designs of the same rows, one after the other.

    Attributes
    ----------
    parts : tuple of Design
        At one place, of one precision.
    """

    parts: tuple[Design, ...]

    def __post_init__(self):
        facts = [(part.shape[0], part.place, 8 * part.itemsize) for part in self.parts]
        if any(fact != facts[0] for fact in facts):
            raise ValueError(
                f"Designs side by side must have rows, place and bits alike, got {facts}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    @property
    def place(self) -> Place:
        return self.parts[0].place

    @property
    def dtype(self) -> Any:
        """Float dtype of the rows."""
        return self.parts[0].dtype

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in a block."""
        return sum(part.row_bytes for part in self.parts)

    @property
    def columns(self) -> list[slice]:
        """Where the columns of each part stand."""
        ends = accumulate((part.shape[1] for part in self.parts), initial=0)
        return [slice(a, b) for a, b in pairwise(ends)]

    def block(self, rows: slice) -> "ColumnsBlock":
        """Some neighbouring rows."""
        return ColumnsBlock(rows, [part.block(rows) for part in self.parts], self.columns)

    def sample(self, rows: slice) -> "Columns":
        """Some of the rows, in float64."""
        return replace(self, parts=tuple(part.sample(rows) for part in self.parts))

    def column_sums(self) -> Array:
        """Sums (p,) of the columns, float64."""
        return self.place.xp.concat([part.column_sums() for part in self.parts])

    def squares_about(self, mean: Array) -> Array:
        """Sums (p,) of squares of the columns about their means, float64."""
        pairs = zip(self.parts, self.columns, strict=True)
        return self.place.xp.concat([part.squares_about(mean[own]) for part, own in pairs])

    def gram(self, weights: Array) -> Array:
        """``X' diag(w) X`` (M, p, p): a part with itself is its own affair, two are products."""
        xp = self.place.xp
        grid = [[self._pair(i, j, weights) for j in range(len(self.parts))] for i in self._numbers]
        for i in self._numbers:
            for j in range(i):
                grid[i][j] = xp.matrix_transpose(grid[j][i])
        return xp.concat([xp.concat(row, axis=2) for row in grid], axis=1)

    @property
    def _numbers(self):
        return range(len(self.parts))

    def _pair(self, i, j, weights):
        """Products (M, p_i, p_j) of two parts; None below the diagonal."""
        if j < i:
            return None
        if i == j:
            return self.parts[i].gram(weights)
        # The one with fewer columns is made dense, block by block.
        few, many = sorted((i, j), key=lambda part: self.parts[part].shape[1])
        found = _products(self.parts[few], self.parts[many], weights)
        return found if few == i else self.place.xp.matrix_transpose(found)


def _products(few, many, weights):
    """``F' diag(w) G`` (M, f, g), float64, for weights (M, n)."""
    xp = few.place.xp
    n_weights, shape = weights.shape[0], (weights.shape[0], few.shape[1], many.shape[1])
    total: Any = 0.0
    for block in many.blocks(n_weights * few.shape[1]):
        F = xp.matrix_transpose(few.block(block.rows).dense())
        w = xp.astype(weights[:, block.rows], xp.float64, copy=False)
        values = xp.reshape(w[:, None, :] * F[None, ...], (-1, F.shape[1]))
        total = total + xp.reshape(block.in_float64().products(values), shape)
    return total


@dataclass(frozen=True)
class ColumnsBlock:
    """Some rows of designs side by side."""

    rows: slice
    parts: Sequence[Block]
    columns: Sequence[slice]

    def _each(self) -> Iterator[tuple[Block, slice]]:
        return zip(self.parts, self.columns, strict=True)

    def margins(self, coef: Array) -> Array:
        """``coef X'``: the parts add up."""
        first, *others = (block.margins(coef[:, own]) for block, own in self._each())
        for other in others:
            first = first + other
        return first

    def products(self, values: Array) -> Array:
        """``values X``."""
        return namespace(values).concat([part.products(values) for part in self.parts], axis=1)

    def dense(self) -> Array:
        """The rows in float64."""
        found = [part.dense() for part in self.parts]
        return namespace(found[0]).concat(found, axis=1)

    def in_float64(self) -> "ColumnsBlock":
        """The same rows, for products with float64."""
        return replace(self, parts=[part.in_float64() for part in self.parts])
