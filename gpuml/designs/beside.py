"""Columns beside other ones: too many for maps and for sums over pairs."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from gpuml._arrays import Array, Place, namespace
from gpuml.designs.base import Block, Design
from gpuml.designs.coded import Coded
from gpuml.designs.columns import Columns, ColumnsBlock

# Variances are estimated from so many evenly spaced rows.
SPREAD_ROWS = 2**14


@dataclass(frozen=True)
class Beside(Design):
    """The columns of a design, images that differ between splits perhaps, and levels beside them.

    Attributes
    ----------
    near : Design
        The first columns.
    apart : Coded
        The last ones, which no map changes. Nobody makes matrices of pairs of them.
    """

    near: Design
    apart: Coded

    @property
    def shape(self) -> tuple[int, int]:
        return self.near.shape[0], self.near.shape[1] + self.apart.shape[1]

    @property
    def place(self) -> Place:
        return self.near.place

    @property
    def dtype(self) -> Any:
        """Float dtype of the rows."""
        return self.near.dtype

    @cached_property
    def stored(self) -> Design:
        """The design whose rows are read."""
        return Columns((self.near.stored, self.apart), block_bytes=self.block_bytes)

    @property
    def n_maps(self) -> int:
        """That of the first columns."""
        return self.near.n_maps

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in a block."""
        return self.near.row_bytes + self.apart.row_bytes

    @property
    def n_entries(self) -> int:
        """How many entries of X a product with all rows uses."""
        return self.stored.n_entries

    def block(self, rows: slice) -> Block:
        """Some consecutive rows, as images if there is only one map."""
        p = self.near.shape[1]
        columns = slice(0, p), slice(p, self.shape[1])
        return ColumnsBlock(rows, [self.near.block(rows), self.apart.block(rows)], columns)

    def sample(self, rows: slice) -> Self:
        """Some of the rows, in float64."""
        return replace(self, near=self.near.sample(rows), apart=self.apart.sample(rows))

    def spread(self) -> tuple[Array, Array]:
        """Means and variances (1, p) of the columns; (S, p) if splits have maps.

        Those of the first columns are estimated from a sample; levels, which may be rare, are
        counted.
        """
        xp = self.place.xp
        step = max(1, self.shape[0] // SPREAD_ROWS)
        mean, variance = self.near.sample(slice(0, None, step)).spread()
        share = self.apart.column_sums() / self.shape[0]

        def beside(near, apart):
            apart = xp.broadcast_to(apart[None, :], (near.shape[0], apart.shape[0]))
            return xp.concat([near, apart], axis=1)

        return beside(mean, share), beside(variance, share * (1.0 - share))

    def to_stored(self, W: Array) -> Array:
        """Vectors (C, S, k, q) of models as vectors for the rows of `stored`."""
        return self._joined(self.near.to_stored(self.of_near(W)), W)

    def from_stored(self, G: Array) -> Array:
        """Gradients (C, S, k, q) for the rows of `stored` as gradients of the models."""
        return self._joined(self.near.from_stored(self.of_near(G)), G)

    def of_near(self, V: Array) -> Array:
        """The entries of vectors (..., q) for the first columns and the intercept."""
        first = V[..., : V.shape[-1] - 1 - self.apart.shape[1]]
        return namespace(V).concat([first, V[..., -1:]], axis=-1)

    def of_apart(self, V: Array) -> Array:
        """The entries of vectors (..., q) for the last columns."""
        return V[..., V.shape[-1] - 1 - self.apart.shape[1] : -1]

    def _joined(self, near, V):
        """Vectors of the first columns and the intercept, with the entries of V for the last."""
        return namespace(V).concat([near[..., :-1], self.of_apart(V), near[..., -1:]], axis=-1)
